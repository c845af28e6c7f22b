"""`python -m widgets.report.page PLAN.yaml OUT.html`: the report of a plan file, without a notebook."""

from __future__ import annotations

import sys
from pathlib import Path

from explorer.base.errors import ExplorerError
from explorer.base.trust import Trust
from widgets.app import Explorer
from widgets.opening import file_point

from .document import write_report


def main(arguments: list[str]) -> int:
    """Make the report of a plan file; return the exit status."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m widgets.report.page PLAN.yaml OUT.html\n")
        return 2
    try:
        size = report_of_plan(Path(arguments[0]), Path(arguments[1]))
    except ExplorerError as error:
        sys.stderr.write(f"report: {error}\n")
        return error.exit_status
    sys.stderr.write(f"wrote {arguments[1]}, {size / 1e6:.1f} MB\n")
    return 0


def report_of_plan(plan: Path, out: Path, *, trust: Trust = False) -> int:
    """Write the report of a plan file; return its size in bytes.

    Args:
        plan: the plan file.
        out: the report to write.
        trust: what code the plan may name as its model: see `explorer.load_plan`.

    Raises:
        InputError: the plan cannot be read, or the report cannot be written.
    """
    file_point(plan, trust=trust)  # a workbench would show what is wrong in its page
    bench = Explorer(plan=plan, session=None, trust=trust)
    try:
        return write_report(bench, out)
    finally:
        bench.close()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
