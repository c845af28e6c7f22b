"""DawnPiper: stages halved between the cut that balances work and the one that balances memory.

Devices 1 to p are halved again and again, and the line of layers with them. The cut between two halves is
sought between the one at which both have as much to compute for each device and the one at which both fill as
much of their devices' memory: beyond both, one half has more of either than the other, and more still the
farther the cut goes (Peng et al., 2025). A stage that lacks memory swaps tensors as long as that is hidden,
and makes others again (`_pieces/relief.py`); the slowest stage counts, with

    T = C + relief((held + k kept - room) / k),     k = min(p - s, m) microbatches on stage s under 1F1B

That the best cut lies there holds for two stages that keep as many microbatches and pay alike for missing
bytes. Where they do not the best cut may lie elsewhere, and halves that are best by themselves need not be
best together: no optimum is claimed. Theorem, halving and the choice of swaps follow the paper's summary;
what its text adds to them is not followed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.checkpoints import checkpoint
from explorer.planners._pieces.cut_line import CutLine, Place, cut_line
from explorer.planners._pieces.fleet import Fleet, fleet_of, room_bytes
from explorer.planners._pieces.plans import judged, sizes_worth_trying, strategy_of
from explorer.planners._pieces.relief import Kept, Relief, kept_of
from explorer.planners._pieces.work_graph import WorkGraph, work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import ACTIVATIONS, Stage, Strategy

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
TRIES = 4
"""Most plans for the same devices and microbatches."""


class Plan(NamedTuple):
    """Stages that end before these nodes, one on each place, and the seconds of the slowest."""

    seconds: float
    ends: tuple[int, ...]


NONE = Plan(math.inf, ())


@SEARCHERS.add(
    Searcher(
        name="dawnpiper",
        title="Stages halved between work- and memory-balanced cuts, tensors swapped or made again",
        paper="Peng et al., DawnPiper: A Memory-scalable Pipeline Parallel Training Framework, 2025",
        space=Space(words="cuts between layers x what each stage swaps or recomputes"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def dawnpiper(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Halve all devices, half of them, a quarter, ... for some sizes of microbatches, and have plans judged.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    for size in sizes_worth_trying(problem, fleet.count, replicas=fleet.size):
        work = work_graph(
            problem.graph, fleet.kinds, problem.job, samples=size / fleet.size, bytes_per_s=1.0,
            whole_blocks=False,
        )  # fmt: skip
        kept = kept_of(problem.graph, fleet.kinds, problem.job, work.members, size / fleet.size)
        line = cut_line(work, kept.bytes, [1] * work.count)
        for count in (fleet.count >> k for k in range(fleet.count.bit_length())):
            places = places_of(problem, fleet, count, size)
            halving = Halving(line=line, kept=kept, places=places, link_s=line.sent_bytes / fleet.bytes_per_s)
            yield from _planned(problem, evaluator, fleet, work, halving, size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Halving:
    """The recursion over runs of nodes and of places."""

    line: CutLine
    """Nodes that stay whole."""
    kept: Kept
    """What they leave for their backward."""
    places: Sequence[Place]
    """Devices, or groups of replicas, in order."""
    link_s: FloatArray
    """(n + 1,) seconds in which each cut passes, there and back."""
    known: dict[tuple[int, int, int, int], Plan] = field(default_factory=dict)
    """Plans that were found, by run of nodes and of places."""

    def best(self, i: int, j: int, first: int, last: int) -> Plan:
        """Return the plan found for nodes i to j on places first to last; `NONE` if none fits."""
        key = (i, j, first, last)
        if key not in self.known:
            checkpoint()
            self.known[key] = (
                self._halved(i, j, first, last) if last - first > 1 else self._alone(i, j, first)
            )
        return self.known[key]

    def _alone(self, i: int, j: int, place: int) -> Plan:
        relief = self.relief(i, j, place)
        return NONE if relief is None else Plan(self.work_s(i, j, place) + relief.seconds, (j,))

    def _halved(self, i: int, j: int, first: int, last: int) -> Plan:
        middle, found = (first + last) // 2, NONE
        if j - i < last - first:
            return NONE
        cuts = np.array(self.between(i, j, first, last))
        least = np.maximum(self.link_s[cuts], np.maximum(*self._work(i, j, cuts, first, last)))
        for place in np.argsort(least, kind="stable").tolist():
            cut = int(cuts[place])
            if least[place] >= found.seconds:
                break
            left = self.best(i, cut, first, middle)
            if left.seconds >= found.seconds:
                continue
            right = self.best(cut, j, middle, last)
            seconds = max(left.seconds, right.seconds, float(self.link_s[cut]))
            if seconds < found.seconds:
                found = Plan(seconds, left.ends + right.ends)
        return found

    def between(self, i: int, j: int, first: int, last: int) -> range:
        """Return the cuts from the one that balances work to the one that balances memory, both included.

        Where balance falls between two neighbours both are taken. Every stage keeps a node at least.
        """
        middle, cuts = (first + last) // 2, np.arange(i, j + 1)
        halves = (self._work(i, j, cuts, first, last), self._fullness(i, j, cuts, first, last))
        ends = [int(np.argmax(left >= right)) + i for left, right in halves]
        low, high = i + middle - first, j - (last - middle)
        return range(min(max(min(ends) - 1, low), high), min(max(*ends, low), high) + 1)

    def _work(self, i: int, j: int, cuts: IntArray, first: int, last: int) -> tuple[FloatArray, FloatArray]:
        """Return the seconds that both halves compute at least, dealt out by speed, at some cuts."""
        middle = (first + last) // 2
        return self._even_s(i, cuts, first, middle), self._even_s(j, cuts, middle, last)

    def _even_s(self, end: int, cuts: IntArray, first: int, last: int) -> FloatArray:
        sums = [self.line.seconds[place.kind] for place in self.places[first:last]]
        with np.errstate(divide="ignore"):
            found: FloatArray = 1 / np.sum([1 / np.abs(row[cuts] - row[end]) for row in sums], axis=0)
        return found

    def _fullness(
        self, i: int, j: int, cuts: IntArray, first: int, last: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the share of their memory that both halves fill on average, at some cuts."""
        middle, found = (first + last) // 2, []
        for end, places in ((i, self.places[first:middle]), (j, self.places[middle:last])):
            kept = sum(place.microbatches for place in places) / len(places)
            held = self.line.held_bytes + kept * self.line.saved_bytes
            room = max(sum(place.room_bytes for place in places), 1.0)
            found.append(np.abs(held[cuts] - held[end]) / room)
        return found[0], found[1]

    def work_s(self, i: int, j: int, place: int) -> float:
        """Return C, the seconds that a place computes for a microbatch; infinite if it may not."""
        kind = self.places[place].kind
        refused = self.line.refused[kind, i] < j
        return math.inf if refused else float(self.line.seconds[kind, j] - self.line.seconds[kind, i])

    def relief(self, i: int, j: int, place: int) -> Relief | None:
        """Return what it takes to fit nodes on a place; None if they do not."""
        kind, room, count = self.places[place]
        held, saved = (values[j] - values[i] for values in (self.line.held_bytes, self.line.saved_bytes))
        missing = float(held + count * saved - room)
        if missing <= 0 or not count:
            return Relief(0.0, 0.0) if missing <= 0 else None
        return self.kept.relief(kind, i, j, missing / count, self.work_s(i, j, place))


def places_of(problem: Problem, fleet: Fleet, count: int, size: int) -> list[Place]:
    """Return the first groups of devices as places of 1F1B."""
    kinds = [number for number, own in enumerate(fleet.groups) for _ in own][:count]
    rounds = problem.job.global_batch // size
    return [
        Place(
            kind,
            room_bytes(problem, fleet.kinds[kind]),
            min(count - s, rounds) if problem.job.training else 0,
        )
        for s, kind in enumerate(kinds)
    ]


def _planned(
    problem: Problem, evaluator: Evaluator, fleet: Fleet, work: WorkGraph, halving: Halving, size: int
) -> Iterator[Candidate | None]:
    """Cost a plan, and others made with less room on stages that take more bytes than was planned.

    Where no more can be made, all stages of the first one recompute.
    """
    first: tuple[Strategy, str] | None = None
    for _ in range(TRIES):
        plan = halving.best(0, halving.line.count, 0, len(halving.places))
        yield None
        if not plan.ends:
            break
        runs = list(zip((0, *plan.ends[:-1]), plan.ends, strict=True))
        placed = [(work.layers(range(i, j)), fleet.order[s]) for s, (i, j) in enumerate(runs)]
        plain = strategy_of(problem, placed, size)
        saving = {s for s, (i, j) in enumerate(runs) if (gone := halving.relief(i, j, s)) and gone.bytes}
        label = f"{len(runs)} stages, microbatches of {size}"
        first = first or (plain, label)
        words = f", {len(saving)} of them keep less" if saving else ""
        found = evaluator.evaluate(_relieved(plain, halving, runs, saving), label + words)
        yield found
        if found is None or found.outcome.feasible:
            return
        over = {item.device: item.over_bytes for item in found.report.overflows}
        more = [max(over.get(device, 0.0) for device in devices) for _, devices in placed]
        places = [
            place._replace(room_bytes=place.room_bytes - bytes_over)
            for place, bytes_over in zip(halving.places, more, strict=True)
        ]
        halving = replace(halving, places=places, known={})
    if first is not None:
        yield from judged(problem, evaluator, *first)


def _relieved(
    plain: Strategy, halving: Halving, runs: Sequence[tuple[int, int]], saving: set[int]
) -> Strategy:
    """Return a plan some stages of which save: a stage does so as a whole, in the cheaper of both ways."""
    stages = list(plain.job.stages)
    for s in saving:
        stages[s] = _thrifty(stages[s], halving, *runs[s], s)
    return plain.with_job(plain.job.with_stages(stages))


def _thrifty(stage: Stage, halving: Halving, i: int, j: int, place: int) -> Stage:
    """Return a stage that sends all to the host, or makes all again if that takes less."""
    kind = halving.places[place].kind
    sent_s = float(halving.kept.bytes[i:j].sum() * halving.kept.host_s[kind])
    again_s = float(halving.kept.again_s[kind, i:j].sum())
    if sent_s - halving.work_s(i, j, place) < again_s:
        return replace(stage, offload=(ACTIVATIONS,))
    return replace(stage, recompute="full")
