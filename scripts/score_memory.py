"""Memory verdicts on published runs, all of which ran, as a table of docs/score.md.

    python scripts/score_memory.py [--every N] [--dry]

Ends with 1 if more than `MOST_REFUSED` of a source's runs are called too large for their devices, or if a
plan that overfills its devices is called a fit.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from explorer.score.memory_check import ABOVE, MemoryChecked, check_memory
from explorer.score.rows import SETS, published
from explorer.score.running import paths_of

PAGE = Path(__file__).parents[1] / "docs" / "score.md"
MARK = re.compile(r"(<!-- memory -->\n).*(<!-- /memory -->)", re.DOTALL)
MOST_REFUSED = 0.03
"""Largest share of a source's runs that may be called too large."""


def checked(every: int) -> list[MemoryChecked]:
    """Check every set of runs under known software, ratios of two runs left out."""
    names = [name for name in published() if SETS.get(name).framework and SETS.get(name).unit != "ratio"]
    return [check_memory(name, path, every=every) for name, path in paths_of(names, {}).items()]


def by_source(found: Sequence[MemoryChecked]) -> list[MemoryChecked]:
    """Add up the sets of each source; sources without a run that has a verdict are left out."""
    groups: defaultdict[str, list[MemoryChecked]] = defaultdict(list)
    for item in found:
        groups[item.source].append(item)
    return [
        MemoryChecked(
            source=source, verdicts=_added(own),
            replayed=sum(one.replayed for one in own), called_fits=sum(one.called_fits for one in own),
        )
        for source, own in sorted(groups.items())
        if any(one.rows for one in own)
    ]  # fmt: skip


def _added(own: Sequence[MemoryChecked]) -> tuple[int, int, int]:
    fits, may, refused = (sum(one.verdicts[i] for one in own) for i in range(3))
    return fits, may, refused


def table(found: Sequence[MemoryChecked]) -> str:
    """Return a Markdown table."""
    heads = (
        "source", "runs", "fits", "may fit", "does not fit", "replayed",
        f"called *fits* on devices that they overfill by {ABOVE:g}",
    )  # fmt: skip
    lines = [heads, ("---", *["---:"] * (len(heads) - 1))]
    for one in found:
        refused = f"{one.refused} ({one.refused / one.rows:.1%})" if one.refused else "0"
        fits, may, _ = one.verdicts
        lines.append(tuple(map(str, (
            one.source, one.rows, fits, may, refused, one.replayed, one.called_fits,
        ))))  # fmt: skip
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="of how many runs one is replayed")
    parser.add_argument("--dry", action="store_true", help="print the table alone")
    options = parser.parse_args(arguments)
    found = by_source(checked(options.every))
    text = table(found)
    print(text)
    if not options.dry:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(MARK.sub(lambda at: f"{at[1]}{text}{at[2]}", page), encoding="utf-8")
    return int(any(one.refused > MOST_REFUSED * one.rows or one.called_fits for one in found))


if __name__ == "__main__":
    sys.exit(main())
