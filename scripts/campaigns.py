"""Run the long campaigns and write what they print, with the date, into docs/campaigns.md.

A campaign is a script of `benchmarks/` that ends with status 0 if what it checks holds, and prints Markdown.
`python scripts/campaigns.py NAME ...` runs only some and keeps the others' last results. What was run
in parts is recorded from its rows: `--rows FILE` lets the campaign write its table over all rows of a file
without another trial, with the date of the file, and says that it did.
"""

from __future__ import annotations

import argparse
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
    none: str = ""
    """Its option for how many trials, for which it takes 0 where rows are there; empty if it keeps none."""
    beside: str = ""
    """What runs other than this one found, with their date."""


DRY_BESIDE = """\
With 512 microbatches, of which each run takes a minute, on 2026-11-28 (`--microbatches 512`, in parts; load
at the end 2 to 15):

| schedule | ranks | microbatches | simulated, s | measured, s | error | a task's overhead |
|---|---|---|---|---|---|---|
| 1f1b | 4 | 512 | 62.110 | 62.612 | +0.81 % | 0.07 % |
| interleaved_1f1b | 4 | 512 | 61.626 | 63.356 | +2.81 % | 0.18 % |
| zb_h1 | 4 | 512 | 61.565 | 62.418 | +1.39 % | 0.14 % |
| chimera | 4 | 512 | 62.173 | 62.895 | +1.16 % | 0.07 % |
| 1f1b | 8 | 512 | 62.524 | 63.338 | +1.30 % | 0.19 % |
| interleaved_1f1b | 8 | 512 | 61.868 | 63.725 | +3.00 % | 0.26 % |
| zb_h1 | 8 | 512 | 61.728 | 62.619 | +1.44 % | 0.21 % |
| chimera | 8 | 512 | 62.376 | 63.130 | +1.21 % | 0.25 % |
| 1f1b | 16 | 512 | 64.468 | 64.849 | +0.59 % | 0.09 % |
| interleaved_1f1b | 16 | 512 | 62.369 | 64.211 | +2.95 % | 0.25 % |
| zb_h1 | 16 | 512 | 62.076 | 62.919 | +1.36 % | 0.17 % |
| chimera | 16 | 512 | 63.045 | 63.740 | +1.10 % | 0.15 % |

Chunks of interleaved_1f1b last half as long as an action of the others. With actions as long as `validate`
makes them (`--forward .066`, a median of 50 ms; load 2 to 4):

| schedule | ranks | microbatches | simulated, s | measured, s | error | a task's overhead |
|---|---|---|---|---|---|---|
| interleaved_1f1b | 8 | 512 | 102.082 | 103.847 | +1.73 % | 0.13 % |
| interleaved_1f1b | 16 | 512 | 102.910 | 104.842 | +1.88 % | 0.16 % |"""
"""Dry runs of many microbatches."""
FAULTS_BESIDE = """\
204 trials of seed 31, of which 196 met their fault, with the other work of this machine beside them (load .6
to 19.2). 194 ended as they should. The two others had a disk of 28 KiB: their runs ended with the right
cause, but only when they wrote their results, after 28 and 70 s. Now a run that its disk has no room for is
refused before it starts; that kind stands here as played again, with four more trials of disks that fill up.

Earlier parts, on states of the code that are gone: 104 and 96 trials (seeds 7 and 8, 2026-11-22 and 23), in
which seven were not as they should be and are mended ([faults.md](faults.md)), and 70 of seed 21 (2026-11-28,
load 5.9 to 27.1), all with the right status and cause, of which nine came late: where cores are wanted all
takes longer, and a watchdog that accuses nobody for want of one waits longer."""
"""What else the faults campaign found."""
CROWDED_BESIDE = """\
All else on the machine counts for its load: it was 9 to 19 (16 on average) where 8 were made, and 17 to 24
(19) where 16 were. Seventeen more runs earlier that day, at loads of 21 to 36, accused nobody either."""
"""What else there is to say of runs on a crowded machine."""

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
        "Dry runs of 4 to 16 ranks: the clock beside the simulator",
        ("--microbatches", "8", "64"),
        beside=DRY_BESIDE,
    ),
    "faults": Campaign(
        "Faults while a plan is validated, and how each of them ends",
        ("--trials", "204", "--seed", "31", "--at-once", "2"),
        none="--trials",
        beside=FAULTS_BESIDE,
    ),
    "crowded_runs": Campaign(
        "Runs on a crowded machine, none of which may be said to stand still",
        ("--runs", "20", "--loads", "8", "16", "--at-once", "4", "--timeout", "900"),
        none="--runs",
        beside=CROWDED_BESIDE,
    ),
    "slow_link": Campaign("A choice that the topology decides, on two nodes with a slow link", ()),
}


def section(name: str, rows: Path | None = None) -> str:
    """Run a campaign, or with `rows` only write its table of what an earlier run left there; return its
    section of the page.
    """
    campaign = CAMPAIGNS[name]
    command = [f"benchmarks/{name}.py", *campaign.arguments]
    given = ["--rows", str(rows.resolve()), campaign.none, "0"] if rows else campaign.arguments
    done = subprocess.run(
        [sys.executable, command[0], *given], cwd=ROOT, capture_output=True, text=True, check=False
    )
    verdict = "holds" if done.returncode == 0 else f"**does not hold** (exit status {done.returncode})"
    day = datetime.fromtimestamp(rows.stat().st_mtime, UTC) if rows else datetime.now(UTC)
    when = f"{day:%Y-%m-%d}, Python {platform.python_version()} on {platform.machine()}"
    when += ", from its saved rows" if rows else ""
    wrong = "".join(f"\n    {line[:300]}" for line in done.stderr.splitlines()[:10])
    said = f"`python {' '.join(command)}`, {when}: {verdict}."
    text = f"## {name}: {campaign.title}\n\n{said}\n\n{done.stdout.strip()}\n"
    return text + (f"{wrong}\n" if wrong else "") + (f"\n{campaign.beside}\n" if campaign.beside else "")


def kept(page: str, name: str) -> str:
    """The section that stands there now, or nothing."""
    match = re.search(rf"^## {name}: .*?(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    return match[0].rstrip() + "\n" if match else ""


def main(arguments: list[str]) -> int:
    """Rewrite the page; the status says whether all that was run holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="campaigns; all without one")
    parser.add_argument("--rows", type=Path, help="rows that the one campaign named wrote when it was run")
    options = parser.parse_args(arguments)
    names = options.names
    if unknown := set(names) - set(CAMPAIGNS):
        parser.error(f"no campaign {', '.join(sorted(unknown))}; there are {', '.join(CAMPAIGNS)}")
    if options.rows and (len(names) != 1 or not CAMPAIGNS[names[0]].none):
        keep = ", ".join(name for name, item in CAMPAIGNS.items() if item.none)
        parser.error(f"--rows is for one campaign that writes rows: {keep}")
    if options.rows and not options.rows.is_file():
        parser.error(f"there is no file {options.rows}")
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    parts = {
        name: section(name, options.rows) if not names or name in names else kept(page, name)
        for name in CAMPAIGNS
    }
    PAGE.write_text("\n".join([HEAD, *filter(None, parts.values())]), encoding="utf-8")
    return 1 if any("**does not hold**" in text for text in parts.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
