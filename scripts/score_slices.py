"""Biases of parts of the scored rows that had one in the past, from what `explorer score --each` wrote.

    explorer score --leave-one-source-out --each rows.csv
    python scripts/score_slices.py rows.csv

Errors of speeds are turned into those of seconds: below 0 is predicted too fast.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

Row = Mapping[str, str]


def of(*words: str, sources: Sequence[str] = ()) -> Callable[[Row], bool]:
    """Rows whose layout has all of some words, of some sources or any."""
    return lambda row: (
        (not sources or row["source"] in sources) and set(words) <= set(row["layout"].split(", "))
    )


SLICES: dict[str, Callable[[Row], bool]] = {
    "vTrain": of(sources=["vtrain"]),
    "vTrain, t = 8": of("tensor 8", sources=["vtrain"]),
    "vTrain, t = 8, p = 16": of("tensor 8", "stages 16", sources=["vtrain"]),
    "FSDP": lambda row: "zero 3" in row["layout"] or "zero 2" in row["layout"],
    "FSDP without recomputation": lambda row: (
        ("zero 3" in row["layout"] or "zero 2" in row["layout"]) and "recompute none" in row["layout"]
    ),
    "FSDP, whole recomputation": lambda row: (
        ("zero 3" in row["layout"] or "zero 2" in row["layout"]) and "recompute full" in row["layout"]
    ),
    "A100": lambda row: "a100-sxm" in row["hardware"],
    "H100": lambda row: "h100" in row["hardware"],
    "A100-PCIe": lambda row: "a100-pcie" in row["hardware"],
    "B200": lambda row: "b200" in row["hardware"],
}
"""Rows by what they have in common."""


def seconds_error(row: Row) -> float:
    """Predicted over measured seconds, less 1, in per cent."""
    ratio = float(row["predicted"]) / float(row["measured"])
    return 100 * ((1 / ratio if row["unit"].endswith("per_s") else ratio) - 1)


def main(path: Path) -> None:
    """Print a Markdown table."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["unit"] != "ratio"]
    print("| rows | count | bias | mean error |\n|---|---:|---:|---:|")
    sources = {f"source {name}": of(sources=[name]) for name in sorted({row["source"] for row in rows})}
    for name, chosen in {**SLICES, **sources}.items():
        errors = [seconds_error(row) for row in rows if chosen(row)]
        if errors:
            print(f"| {name} | {len(errors)} | {fmean(errors):+.1f} % | {fmean(map(abs, errors)):.1f} % |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
