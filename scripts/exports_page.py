"""Write docs/exports.md: what every target of `explorer export` makes of every feature of a plan.

usage: python scripts/exports_page.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from explorer.export import EXPORTERS
from explorer.export.features import FEATURES

PAGE = Path(__file__).parents[1] / "docs" / "exports.md"
HEAD = """# Exports

What `explorer export --to NAME` makes of a plan: = exactly, ~ nearly, x refused by name before anything is
written. Values in brackets are those that a target has. `--nearest` exports the nearest plan that a target
can run and says what it costs. This page is made by `python scripts/exports_page.py`.

In the tests the files are read by the trainers' own parsers where these are installed: Megatron-Core's,
DeepSpeed's, Accelerate's, torchtitan's. Modules for Megatron Bridge, which needs GPUs, are read by
`explorer import` alone, and the names of their fields compared with Megatron-Core's. Steps of a small
model are run on processors with the script of `torch`, with Accelerate and with DeepSpeed (ZeRO 2; its
pipeline is read only).
"""


def page() -> str:
    """Return the text of the page."""
    entries = list(EXPORTERS)
    lines = [HEAD, "| a plan uses | " + " | ".join(entry.name for entry in entries) + " |"]
    lines.append("|---" * (len(entries) + 1) + "|")
    for feature in FEATURES:
        cells = []
        for entry in entries:
            support = entry.capabilities[feature.name]
            sign = "x" if not support.supported else "=" if support.exact else "~"
            cells.append(sign + (f" ({', '.join(support.only)})" if support.only else ""))
        lines.append(f"| {feature.title} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
