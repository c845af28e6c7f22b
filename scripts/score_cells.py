"""What vTrain's rows are made of: whether they are sums of the same pieces, and how far off each piece is.

    explorer score vtrain_single vtrain_multi --leave-one-source-out --each rows.csv
    python scripts/score_cells.py rows.csv [SET]

A step of n microbatches that takes a + n x s seconds to the last digit, for every n, was put together from
pieces: no two runs take equal nanoseconds. A *cell* holds the rows of one width, tensor degree and
microbatch, whose blocks are alike. Two rows that differ in depth alone give the seconds of a block,
(difference of seconds) / (difference of blocks) x p / (n + p - 1).
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import fmean, median

from explorer.score.statistics import pair_tau

SET = "vtrain_single"
EXACT = 1e-8
"""Relative distance from a straight line below which seconds were not measured one by one: files of errors
keep nine digits."""
Cell = tuple[int, int, int]
"""(width, tensor degree, samples of a microbatch)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One row."""

    layers: int
    width: int
    batch: int
    tensor: int
    replicas: int
    stages: int
    micro: int
    group: str
    predicted: float
    measured: float

    @property
    def rounds(self) -> float:
        """Microbatches of a replica."""
        return self.batch / self.micro / self.replicas

    @property
    def cell(self) -> Cell:
        """What rows with equal blocks have in common."""
        return self.width, self.tensor, self.micro

    @property
    def layout(self) -> tuple[int, ...]:
        """Cell, replicas and stages."""
        return *self.cell, self.replicas, self.stages


def read(path: Path, name: str) -> list[Run]:
    """Return the rows of a set of vTrain that `explorer score --each` wrote."""
    with path.open(encoding="utf-8", newline="") as file:
        found = [row for row in csv.DictReader(file) if row["set"] == name]
    keys = ("layers", "width", "batch", "tensor", "replicas", "stages", "micro")
    return [
        Run(
            **dict(zip(keys, map(int, re.findall(r"\d+", row["name"])), strict=True)), group=row["group"],
            predicted=float(row["predicted"]), measured=float(row["measured"]),
        )
        for row in found
    ]  # fmt: skip


def by(runs: Sequence[Run], key: Callable[[Run], Hashable]) -> list[list[Run]]:
    """Return rows by what they have in common."""
    found: defaultdict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        found[key(run)].append(run)
    return list(found.values())


def straightness(runs: Sequence[Run]) -> list[float]:
    """Return by how much steps are off the line through the fewest and the most microbatches, relatively."""
    found = []
    for alike in by(runs, lambda run: (run.layers, run.layout)):
        ordered = sorted(alike, key=lambda run: run.rounds)
        first, last = ordered[0], ordered[-1]
        for run in ordered[1:-1]:
            part = (run.rounds - first.rounds) / (last.rounds - first.rounds)
            line = first.measured + part * (last.measured - first.measured)
            found.append(abs(run.measured / line - 1))
    return found


def block_seconds(runs: Sequence[Run]) -> dict[Cell, float]:
    """Return the measured seconds of a block's forward and backward by cell: medians over pairs of rows."""
    found: defaultdict[Cell, list[float]] = defaultdict(list)
    for alike in by(runs, lambda run: (run.layout, run.batch)):
        for one, other in combinations(sorted(alike, key=lambda run: run.layers), 2):
            if deeper := other.layers - one.layers:
                turns = (one.rounds + one.stages - 1) / one.stages
                found[one.cell].append((other.measured - one.measured) / deeper / turns)
    return {cell: median(values) for cell, values in sorted(found.items())}


def backwards(blocks: dict[Cell, float]) -> list[tuple[Cell, Cell, float]]:
    """Return pairs of cells of one tensor degree of which the one with more work takes less, and how much."""
    return [
        (less, more, 1 - blocks[more] / blocks[less])
        for less in blocks
        for more in blocks
        if less[1] == more[1] and less[0] <= more[0] and less[2] <= more[2]
        if blocks[more] < blocks[less]
    ]


def without_cells(runs: Sequence[Run]) -> list[tuple[float, float]]:
    """Return (predicted, measured) with each cell's own mean error taken off."""
    mean = {
        cell[0].cell: fmean(math.log(run.measured / run.predicted) for run in cell)
        for cell in by(runs, lambda run: run.cell)
    }
    return [(run.predicted * math.exp(mean[run.cell]), run.measured) for run in runs]


def main(path: Path, name: str = SET) -> None:
    """Print it."""
    runs = read(path, name)
    off = straightness(runs)
    print(f"{len(runs)} rows; {len(off)} between two others of more and of fewer microbatches,"
          f" of which {sum(value < EXACT for value in off)} on their line to {EXACT:g}")  # fmt: skip
    blocks = block_seconds(runs)
    told = (f"h{h} t{t} m{m} {1e3 * s:.2f} ms" for (h, t, m), s in blocks.items())
    print(f"{len(blocks)} cells:", ", ".join(told))
    for less, more, by_share in backwards(blocks):
        print(f"  {more} takes {by_share:.0%} less than {less}")
    pairs, groups = [(run.predicted, run.measured) for run in runs], [run.group for run in runs]
    print(f"tau of pairs {pair_tau(pairs, groups):.3f}, each cell's own mean taken off"
          f" {pair_tau(without_cells(runs), groups):.3f}")  # fmt: skip


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
