"""Run the long campaigns and write what they print, with the date, into docs/campaigns.md.

A campaign is a script of `benchmarks/` that ends with status 0 if what it checks holds, and prints Markdown.
`python scripts/campaigns.py NAME ...` runs only some and keeps the others' last results.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "campaigns.md"
HEAD = """# Campaigns

What takes too long for `make test` and `make test-all`: scripts of `benchmarks/`, each with its last result.
`python scripts/campaigns.py [NAME ...]` runs them and writes this page.
"""


class Campaign(NamedTuple):
    """One script with the arguments of a long run."""

    title: str
    """Heading of its section."""
    arguments: tuple[str, ...]
    """What it is given."""


CAMPAIGNS = {
    "oracle": Campaign("Random chains against a second model of three schedules", ("6000", "1")),
    "brute_force": Campaign(
        "Searches of random small problems against brute force",
        ("--sample", "40", "--seed", "70000", "--problems", "100", "--seconds", "1000"),
    ),
    "engines": Campaign(
        "Our engine and torch's, seconds a step and greatest difference of gradients",
        ("2", "4", "--named", "--rounds", "3"),
    ),
    "dry_run": Campaign(
        "Dry runs of 4 to 16 ranks: the clock beside the simulator", ("--microbatches", "8", "64")
    ),
    "faults": Campaign(
        "Faults while a plan is validated, and how each of them ends",
        ("--trials", "24", "--seed", "9", "--at-once", "2"),
    ),
    "slow_link": Campaign("A choice that the topology decides, on two nodes with a slow link", ()),
}


def section(name: str) -> str:
    """Run a campaign; return its section of the page."""
    campaign = CAMPAIGNS[name]
    command = [f"benchmarks/{name}.py", *campaign.arguments]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    verdict = "holds" if done.returncode == 0 else f"**does not hold** (exit status {done.returncode})"
    when = f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()} on {platform.machine()}"
    wrong = "".join(f"\n    {line[:300]}" for line in done.stderr.splitlines()[:10])
    said = f"`python {' '.join(command)}`, {when}: {verdict}."
    text = f"## {name}: {campaign.title}\n\n{said}\n\n{done.stdout.strip()}\n"
    return text + (f"{wrong}\n" if wrong else "")


def kept(page: str, name: str) -> str:
    """The section that stands there now, or nothing."""
    match = re.search(rf"^## {name}: .*?(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return match[0].rstrip() + "\n" if match else ""


def main(names: list[str]) -> int:
    """Rewrite the page; the status says whether all that was run holds."""
    if unknown := set(names) - set(CAMPAIGNS):
        print(f"no campaign {', '.join(sorted(unknown))}; there are {', '.join(CAMPAIGNS)}", file=sys.stderr)
        return 2
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    parts = {name: section(name) if not names or name in names else kept(page, name) for name in CAMPAIGNS}
    PAGE.write_text("\n".join([HEAD, *filter(None, parts.values())]), encoding="utf-8")
    return 1 if any("**does not hold**" in text for text in parts.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
