"""`explorer report`: a plan as one HTML file to send to someone.

The page is made by whatever is announced under the entry point group `explorer.reports` (the workbench is),
so this package imports no user interface.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.cli.inputs import add_json, add_trust, trust_of
from explorer.cli.output import emit_json, say

GROUP, NAME = "explorer.reports", "html"
"""Entry point of the function that writes a report: `(plan: Path, out: Path, *, trust) -> bytes written`."""


def add_commands(commands: Any) -> None:
    """Add `report`."""
    parser = commands.add_parser("report", help="a plan as one HTML file that opens offline")
    parser.add_argument("plan")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.html")
    add_trust(parser)
    add_json(parser)
    parser.set_defaults(run=run_report)


def run_report(options: argparse.Namespace) -> int:
    """Write the report of a plan file."""
    size = _writer()(Path(options.plan), Path(options.output), trust=trust_of(options))
    if options.json:
        emit_json("report", {"file": options.output, "bytes": size})
    else:
        say(f"explorer: wrote {options.output}, {size / 1e6:.1f} MB")
    return 0


def _writer() -> Callable[..., int]:
    """Return the function that writes a plan's report to a file and returns its bytes.

    Raises:
        InputError: nothing installed does, or the function named by an older installation is gone.
    """
    try:
        writer: Callable[..., int] = next(iter(entry_points(group=GROUP, name=NAME))).load()
    except (StopIteration, ImportError):
        raise InputError(
            "nothing installed here makes reports",
            key="report", allowed="install strategy-explorer anew, or python -m widgets.report.page PLAN OUT",
        ) from None  # fmt: skip
    return writer
