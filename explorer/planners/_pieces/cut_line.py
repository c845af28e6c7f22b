"""A line of nodes some of which can be cut in parts, and its least bottleneck over devices in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.planners._pieces.line import line_of
from explorer.planners._pieces.work_graph import WorkGraph

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
CLOSE = 1e-12
"""Relative distance of the bottleneck to what is proven out of reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutLine:
    """Sums over the first 0, 1, ..., k units of a line; a node that can be cut has several equal units."""

    first: IntArray
    """(n + 1,): first unit of each of the n nodes, and k."""
    seconds: FloatArray
    """(kinds, k + 1): of a microbatch; a refused unit takes none."""
    refused: IntArray
    """(kinds, k + 1): the next unit from here on that a kind may not run; k if there is none."""
    held_bytes: FloatArray
    """(k + 1,)."""
    saved_bytes: FloatArray
    """(k + 1,): what a microbatch leaves for its backward."""
    sent_bytes: FloatArray
    """(k + 1,): what crosses a cut before each unit, there and back; no sum."""

    @property
    def count(self) -> int:
        """Number of units k."""
        return len(self.sent_bytes) - 1

    def nodes(self, start: int, stop: int) -> list[tuple[int, int, int]]:
        """Return the nodes of a run, with the first of their own units in it and the one behind the last."""
        low, high = np.searchsorted(self.first, start, side="right") - 1, np.searchsorted(self.first, stop)
        ends = [(v, int(self.first[v]), int(self.first[v + 1])) for v in range(int(low), int(high))]
        return [(v, max(start, a) - a, min(stop, b) - a) for v, a, b in ends]

    def units(self, node: int) -> int:
        """Return the number of units of a node."""
        return int(self.first[node + 1] - self.first[node])


class Place(NamedTuple):
    """A device of the line."""

    kind: int
    room_bytes: float
    microbatches: int
    """Microbatches for whose backward it keeps something."""


class Run(NamedTuple):
    """Units from `start` to before `stop` at a place."""

    place: int
    start: int
    stop: int


class Partition(NamedTuple):
    """Runs in order, and the seconds of the longest run or of the longest transfer between two."""

    seconds: float
    runs: tuple[Run, ...]


def cut_line(work: WorkGraph, saved_bytes: FloatArray, parts: Sequence[int]) -> CutLine:
    """Return a line whose nodes have so many units each.

    What enters a node crosses all cuts through it, since every part needs it; of what it makes crosses the
    part that is made before the cut.

    Args:
        work: the model, with transfers of a second a byte.
        saved_bytes: (n,) bytes that a microbatch leaves on each node.
        parts: units of each node, 1 if it stays whole.
    """
    count = np.array(parts, dtype=np.int64)
    first = np.concatenate([[0], np.cumsum(count)])
    node = np.repeat(np.arange(work.count), count)

    def before(values: FloatArray) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum((values / count)[node])])

    refused = ~np.isfinite(work.seconds)
    made = np.bincount(work.producer, weights=work.transfer_s, minlength=work.count)
    entered = line_of(work).sent_bytes
    behind = (np.arange(len(node)) - first[node]) / count[node]
    return CutLine(
        first=first,
        seconds=np.array([before(row) for row in np.where(refused, 0.0, work.seconds)]),
        refused=np.array([_next(row[node]) for row in refused]),
        held_bytes=before(work.held_bytes),
        saved_bytes=before(saved_bytes),
        sent_bytes=np.append(entered[node] + behind * made[node], 0.0),
    )


def _next(marked: npt.NDArray[np.bool_]) -> IntArray:
    """Return for every place the next marked one, the length if there is none."""
    at = np.where(np.append(marked, True), np.arange(len(marked) + 1), len(marked))
    found: IntArray = np.minimum.accumulate(at[::-1])[::-1]
    return found


def least_bottleneck(line: CutLine, places: Sequence[Place], link_s: FloatArray) -> Partition | None:
    """Return the runs on places in their order whose longest run or transfer is shortest; None if none fit.

    A place may stay empty. Within a limit every run may as well go as far as it can: whoever begins later has
    less to do. So a limit is tried by one walk along the places, and bisected.

    Args:
        line: the units.
        places: devices, in order.
        link_s: (k + 1,) seconds in which each cut passes between neighbours.
    """
    full = {place.microbatches: line.held_bytes + place.microbatches * line.saved_bytes for place in places}
    runs = _runs(line, places, link_s, full, np.inf)
    if runs is None:
        return None
    high, low = _longest(line, places, link_s, runs), 0.0
    best = Partition(high, runs)
    while high - low > CLOSE * high:
        middle = (low + high) / 2
        runs = _runs(line, places, link_s, full, middle)
        if runs is None:
            low = middle
            continue
        best = Partition(_longest(line, places, link_s, runs), runs)
        high = min(best.seconds, middle)
    return best


def _longest(line: CutLine, places: Sequence[Place], link_s: FloatArray, runs: Sequence[Run]) -> float:
    sums = [line.seconds[places[run.place].kind] for run in runs]
    own = [row[run.stop] - row[run.start] for row, run in zip(sums, runs, strict=True)]
    return float(max(*own, *(link_s[run.start] for run in runs[1:]), 0.0))


def _runs(
    line: CutLine, places: Sequence[Place], link_s: FloatArray, full: dict[int, FloatArray], limit: float
) -> tuple[Run, ...] | None:
    """Return runs none of which is longer than a limit, nor any transfer; None if there are none."""
    allowed = link_s <= limit
    allowed[[0, -1]] = True
    last = np.maximum.accumulate(np.where(allowed, np.arange(line.count + 1), 0))
    at, found = 0, []
    for number, (kind, room, kept) in enumerate(places):
        seconds, held = line.seconds[kind], full[kept]
        far = min(
            int(np.searchsorted(seconds, seconds[at] + limit, side="right")) - 1,
            int(np.searchsorted(held, held[at] + room, side="right")) - 1,
            int(line.refused[kind, at]),
        )
        stop = int(last[max(far, at)])
        if stop > at:
            found.append(Run(number, at, stop))
            at = stop
        if at == line.count:
            return tuple(found)
    return None
