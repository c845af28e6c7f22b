"""Run the benchmarks and write what they print into README.md, between its figure marks.

Each script in `benchmarks/` that has figures for the README prints Markdown; this runs them one after the
other and replaces the sections: the table of `accuracy` under "How accurate is it", the others under
"Figures". `python scripts/figures.py NAME ...` runs only some and keeps the others.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECTIONS = {
    "evaluate": "One evaluation: strategy in, report with full timeline out",
    "lowering": "The first evaluation of a new structure",
    "search": "Search: PipeDream's published runs of 5 s and more, and time to the best uniform strategy",
    "gestures": "From a drop to its repaint, and first paints, in a real JupyterLab",
    "first_use": "A new user with a stopwatch: from `make explore` to an exported plan",
    "dry_run": "Dry-time run against simulation, 8 ranks",
}
"""Scripts of `benchmarks/` in the order of the README, with their headings."""
DRAWING = "docs/images/evaluation.svg"
"""What `evaluate` draws."""
ACCURACY = "accuracy"
"""The script whose table has a place of its own."""


def printed(name: str) -> str:
    """What one benchmark prints."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py")]
    if name == "search":
        command.append("--brief")
    if name == "evaluate":
        command += ["--plot", DRAWING]
    text = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout.strip()
    if name == "evaluate":
        text += f"\n\n![Milliseconds of CPU by stages, microbatches, blocks and devices]({DRAWING})"
    return text if text.startswith("|") else f"```\n{text}\n```"


def kept(readme: str, heading: str) -> str:
    """The body that stands under a heading of the figures now."""
    match = re.search(rf"### {re.escape(heading)}\n(.*?)(?=\n### |\n<!-- /figures -->)", readme, re.DOTALL)
    return match[1].strip() if match else ""


def replaced(readme: str, mark: str, text: str) -> str:
    """The README with another text between two marks."""
    block = re.compile(rf"<!-- {mark} -->.*<!-- /{mark} -->", re.DOTALL)
    return block.sub(lambda _: f"<!-- {mark} -->\n{text}<!-- /{mark} -->", readme)


def figures(readme: str, names: list[str]) -> str:
    """The text of the figures' section, some of it run anew."""
    parts = []
    for name, heading in SECTIONS.items():
        if not (ROOT / "benchmarks" / f"{name}.py").exists():
            continue
        body = printed(name) if not names or name in names else kept(readme, heading)
        if body:
            parts.append(f"### {heading}\n\n{body}\n")
    return "\n".join([when(), *parts])


def when() -> str:
    """A line on time and place."""
    today, machine = f"{datetime.now(UTC):%Y-%m-%d}", platform.machine()
    return f"Measured {today} on {machine}, Python {platform.python_version()}.\n"


def main(names: list[str]) -> None:
    """Rewrite the sections."""
    path = ROOT / "README.md"
    readme = path.read_text(encoding="utf-8")
    if not names or ACCURACY in names:
        readme = replaced(readme, ACCURACY, f"{printed(ACCURACY)}\n\n{when()}")
    if names != [ACCURACY]:
        readme = replaced(readme, "figures", figures(readme, names))
    path.write_text(readme, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
