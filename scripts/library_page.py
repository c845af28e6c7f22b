"""Write docs/library.md: every system of the library with its claims beside our figures.

usage: python scripts/library_page.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from explorer.library import SYSTEMS, Outcome, System, figure, reproduce

PAGE = Path(__file__).parents[1] / "docs" / "library.md"
HEAD = """# Library of published systems

Each system is one file in `explorer/library/`: its paper, what it is in our terms, an example for
the board and what the paper claims, computed here. `explorer list systems` lists them, `explorer
reproduce NAME` (or `--all`) computes the claims anew, `explorer reproduce NAME -o plan.yaml` writes
the example as a plan. This page is made by `python scripts/library_page.py`.
"""


def page() -> str:
    """Return the whole page."""
    found = [(system, tuple(reproduce(system))) for system in SYSTEMS]
    outcomes = [outcome for _, part in found for outcome in part]
    held = sum(outcome.holds for outcome in outcomes)
    summary = f"{held} of {len(outcomes)} claims of {len(found)} systems hold.\n"
    return "\n".join([HEAD, summary, *(section(system, part) for system, part in found)])


def section(system: System, outcomes: tuple[Outcome, ...]) -> str:
    """Return one system with the table of its claims."""
    uses = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in system.uses.as_dict().items())
    lines = [f"## {system.name}", "", f"{system.title}. {system.paper}.", "", f"Here: {uses}."]
    lines += [f"Not here: {system.missing}."] if system.missing else []
    lines += ["", "| claim | published | ours | unit | |", "|---|---:|---:|---|---|"]
    lines += [row(outcome) for outcome in outcomes]
    if system.table is not None:
        made = system.table()
        bars = ["---", *["---:"] * (len(made.head) - 1)]
        lines += [
            "",
            made.title,
            "",
            *(f"| {' | '.join(cells)} |" for cells in (made.head, bars, *made.rows)),
        ]
    return "\n".join(lines) + "\n"


def row(outcome: Outcome) -> str:
    """Return one claim."""
    claim = outcome.claim
    verdict = f"{outcome.verdict}: {claim.why}" if claim.why else outcome.verdict
    return f"| {claim.text} | {figure(claim.published)} | {figure(outcome.ours)} | {claim.unit} | {verdict} |"


def main() -> int:
    """Write the page, or tell whether it is up to date."""
    text = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text("utf-8") != text:
            print("docs/library.md is not what the library says: run python scripts/library_page.py")
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
