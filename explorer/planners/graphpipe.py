"""GraphPipe: stages of a series-parallel graph, whose depth is the longest path, by a program over its form.

For a part of the graph, k devices and a depth of d, V is the least seconds of the slowest stage:

    one stage    V(k, d) = min over r <= k of  load(part, r),  d >= 1
    series       V(k, d) = min over the last stage, a run of parts:  max(V of those before (k - r, d - 1),
                           load), or the last part by itself:  max(V before (k - r, d - e), V(part)(r, e))
    parallel     V(k, d) = min over the last branches, as one stage or one divided by itself, beside the
                           others:  max(V of the others (k - r, d), load or V(branch)(r, d))

Depths add up in series, and the deepest branch counts in parallel. The plan of least (m + d - 1) V is taken,
m microbatches a step (Jeon et al., ASPLOS 2025, who search V by bisection; here every depth has its own V). A
stage's load is its work and its transfers over r replicas, and their reduction of gradients. All stages have
microbatches of one size: the paper chooses one for each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from explorer.base.checkpoints import checkpoint
from explorer.planners._pieces.fleet import fleet_of, room_bytes
from explorer.planners._pieces.plans import judged, sizes_worth_trying, strategy_of
from explorer.planners._pieces.series_parallel import NODE, PARALLEL, Part, series_parallel
from explorer.planners._pieces.work_graph import FloatArray, WorkGraph, work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

MOST_DEVICES = 16
"""Groups of devices that are planned; more are left out."""


class StageOf(NamedTuple):
    """A stage: its nodes and devices."""

    nodes: tuple[int, ...]
    replicas: int


class GraphPlan(NamedTuple):
    """Stages in a topological order."""

    seconds: float
    """Seconds of a step, (m + d - 1) V."""
    depth: int
    slowest_s: float
    stages: tuple[StageOf, ...]


@SEARCHERS.add(
    Searcher(
        name="graphpipe",
        title="Stages of a series-parallel graph, whose depth is the longest path",
        paper="Jeon et al., GraphPipe: Improving Performance and Scalability of DNN Training with Graph"
        " Pipeline Parallelism, ASPLOS 2025",
        space=Space(words="series-parallel stages x replicas"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def graphpipe(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Find the best stages for each size of microbatches, and have them judged under GraphPipe's schedule.

    Raises:
        InputError: there is no cluster, or the model has no series-parallel form.
    """
    fleet = fleet_of(problem)
    groups, room = fleet.order[:MOST_DEVICES], min(room_bytes(problem, kind) for kind in fleet.kinds)
    for size in sizes_worth_trying(problem, len(groups), replicas=fleet.size):
        work = work_graph(
            problem.graph, fleet.kinds, problem.job, samples=size / fleet.size,
            bytes_per_s=fleet.bytes_per_s, latency_s=fleet.latency_s,
        )  # fmt: skip
        yield None
        times = problem.job.global_batch // size
        reduce_s = 2.0 / fleet.bytes_per_s / times if problem.job.training else 0.0
        plan = Planner(work, len(groups), room, reduce_s, most_replicas=size // fleet.size).best(times)
        yield None
        if plan is None:
            continue
        stages, used = [], 0
        for stage in plan.stages:
            devices = tuple(d for group in groups[used : used + stage.replicas] for d in group)
            stages.append((work.layers(stage.nodes), devices))
            used += stage.replicas
        label = f"{len(stages)} stages, depth {plan.depth}, microbatches of {size}"
        schedule = "graphpipe" if problem.job.training else "1f1b"
        yield from judged(problem, evaluator, strategy_of(problem, stages, size, schedule=schedule), label)


class Planner:
    """The program over the form of a graph.

    Args:
        work: the graph; of several kinds of devices the slowest counts.
        devices: how many there are.
        room_bytes: bytes that a device has room for.
        reduce_s: seconds a byte of gradients takes to reduce, for one microbatch.
        most_replicas: most replicas of a stage.

    Raises:
        InputError: the graph has no series-parallel form.
    """

    def __init__(
        self, work: WorkGraph, devices: int, room_bytes: float, reduce_s: float, *, most_replicas: int
    ) -> None:
        self.work, self.devices, self.room, self.reduce_s = work, devices, room_bytes, reduce_s
        self.most = min(most_replicas, devices)
        self.form = series_parallel(work.above)
        self.seconds = work.seconds.max(axis=0)
        self.reads = np.zeros((len(work.producer), work.count), dtype=bool)
        for t, readers in enumerate(work.readers):
            self.reads[t, list(readers)] = True
        self._loads: dict[tuple[int, ...], FloatArray] = {}
        self._rows: dict[tuple[int, ...], list[FloatArray]] = {}

    def best(self, microbatches: int) -> GraphPlan | None:
        """Return the plan of least (m + d - 1) V; None if none fits."""
        last = self._values(self.form)[-1][self.devices]
        seconds = np.array([np.inf, *((microbatches + d - 1) * last[d] for d in range(1, len(last)))])
        depth = int(np.argmin(seconds))
        if not np.isfinite(seconds[depth]):
            return None
        stages = tuple(self._stages(self.form, len(self.form.parts), self.devices, depth))
        return GraphPlan(float(seconds[depth]), depth, float(last[depth]), stages)

    def load(self, nodes: tuple[int, ...]) -> FloatArray:
        """Return (devices + 1,) seconds of a stage on 0, 1, ... devices; infinite where it does not fit."""
        if nodes not in self._loads:
            checkpoint()
            inside, found = np.zeros(self.work.count, dtype=bool), np.full(self.devices + 1, np.inf)
            inside[list(nodes)] = True
            if self.work.held_bytes[inside].sum() <= self.room:
                made = inside[self.work.producer]
                crosses = np.where(
                    made, self.reads[:, ~inside].any(axis=1), self.reads[:, inside].any(axis=1)
                )
                alone = self.seconds[inside].sum() + self.work.transfer_s[crosses].sum()
                sums = self.work.reduced_bytes[inside].sum() * self.reduce_s
                r = np.arange(1, self.most + 1)
                found[1 : self.most + 1] = alone / r + sums * (r - 1) / r
            self._loads[nodes] = found
        return self._loads[nodes]

    def _values(self, part: Part) -> list[FloatArray]:
        """Return V of the first 0, 1, ... parts: (devices + 1, depths + 1) each, for at most so many."""
        if part.nodes not in self._rows:
            rows = [np.zeros((self.devices + 1, self.devices + 1))]
            for last in range(1, max(1, len(part.parts)) + 1):
                best = np.full_like(rows[0], np.inf)
                for first, r, depth, value in self._ways(part, last):
                    earlier = rows[first]
                    if part.kind == PARALLEL:
                        way = np.maximum(earlier[: len(best) - r, depth:], value)
                        best[r:, depth:] = np.minimum(best[r:, depth:], way)
                    else:
                        way = np.maximum(earlier[: len(best) - r, : len(best) - depth], value)
                        best[r:, depth:] = np.minimum(best[r:, depth:], way)
                rows.append(best)
            self._rows[part.nodes] = rows
        return self._rows[part.nodes]

    def _ways(self, part: Part, last: int) -> Iterator[tuple[int, int, int, float]]:
        """Yield (parts before, devices, depth, seconds) of all that may be behind, or beside, others."""
        for first in range(last):
            load = self.load(self._run(part, first, last))
            for r in range(1, self.most + 1):
                if np.isfinite(load[r]):
                    yield first, r, 1, float(load[r])
        if part.kind != NODE and part.parts[last - 1].kind != NODE:
            own = self._values(part.parts[last - 1])[-1]
            for r in range(1, self.devices + 1):
                for depth in range(1, r + 1):
                    if np.isfinite(own[r, depth]):
                        yield last - 1, r, depth, float(own[r, depth])

    def _run(self, part: Part, first: int, last: int) -> tuple[int, ...]:
        if part.kind == NODE:
            return part.nodes
        return tuple(sorted(node for item in part.parts[first:last] for node in item.nodes))

    def _stages(self, part: Part, last: int, k: int, d: int) -> Iterator[StageOf]:
        """Yield the stages of the first parts, in order, that reach their V."""
        rows, last = self._values(part), max(1, last) if part.kind == NODE else last
        if not last:
            return
        for first, r, depth, value in self._ways(part, last):
            before = d if part.kind == PARALLEL else d - depth
            if r <= k and depth <= d and max(rows[first][k - r, before], value) == rows[last][k, d]:
                yield from self._stages(part, first, k - r, before) if first else ()
                load = self.load(self._run(part, first, last))[r]
                if depth == 1 and load == value:
                    yield StageOf(self._run(part, first, last), r)
                else:
                    item = part.parts[last - 1]
                    yield from self._stages(item, len(item.parts), r, depth)
                return
