"""Every uniform strategy: tensor size t, stages p, replicas d, chunks, microbatch size, recompute and ZeRO.

The space, which the result calls ``uniform strategies``: t divides the devices of a node; p x t devices or
more; d the most replicas that the remaining devices allow and the batch divides into; balanced cuts; 1F1B,
or interleaved 1F1B where there are chunks. Candidates are bounded in the order of a rough estimate, a few
at a time (those that differ only in recomputation and ZeRO together, by time alone), and after each few the
most promising one is simulated; what a bound excludes never is. Under pins and bans every candidate is cut as
evenly as they allow, and one that no cut saves is left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from explorer.base.errors import ExplorerError, InputError
from explorer.base.registry import Option
from explorer.cluster import Cluster
from explorer.search import SEARCHERS
from explorer.search._bounds import bounds_of, value_bound
from explorer.search.problem import Candidate, Evaluator, Problem, respecting
from explorer.strategies.uniform import balanced_cuts, uniform, units
from explorer.strategy import Strategy

BOUND = "uniform strategies"
_RECOMPUTE = ("none", "selective", "full")  # from most to least memory
LOOK_AHEAD = 12
"""Groups of candidates bounded between two simulations while some are left to bound."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Uniform:
    """One point of the space."""

    tensor: int
    """t."""
    stages: int
    """p, in tensor groups."""
    replicas: int
    """d."""
    chunks: int
    """Stages per pipeline device."""
    microbatch_size: int
    """Samples per replica."""
    recompute: str
    """none, selective or full."""
    zero: int
    """ZeRO level."""

    @property
    def label(self) -> str:
        """In a few words."""
        parts = [f"tp {self.tensor} x pp {self.stages} x dp {self.replicas}"]
        parts += [f"{self.chunks} chunks"] if self.chunks > 1 else []
        parts += [f"microbatch {self.microbatch_size}"]
        parts += [f"{self.recompute} recomputation"] if self.recompute != "none" else []
        parts += [f"ZeRO-{self.zero}"] if self.zero else []
        return ", ".join(parts)

    def strategy(self, problem: Problem) -> Strategy:
        """The strategy it stands for: pins and bans respected, by another cut if need be.

        Raises:
            InputError: no cluster, a point outside of the space, or no cut that respects pins and bans.
        """
        graph, count = problem.graph, self.stages * self.chunks
        cuts = graph.memo(f"balanced cuts {count}", lambda: balanced_cuts(graph, count))
        found = uniform(
            graph, _cluster(problem), problem.workload.job, stages=self.stages, replicas=self.replicas,
            tensor=self.tensor, chunks=self.chunks, microbatch_size=self.microbatch_size,
            recompute=self.recompute, zero=self.zero, cuts=cuts,
        )  # fmt: skip
        held = respecting(problem, found)
        if held is None:
            raise InputError(f"no cut of {self.label} respects the pins", key="pins", allowed="fewer pins")
        return held


@SEARCHERS.add(
    "exhaustive",
    title="All uniform strategies, those that a lower bound excludes left out",
    options=(
        Option(name="max_stages", default=0, help="pipeline stages at most; 0 for no limit"),
        Option(name="max_chunks", default=4, help="stages per pipeline device at most"),
        Option(name="max_zero", default=3, help="ZeRO level at most", choices=(0, 1, 2, 3)),
    ),
    optimal=True,
    space="all uniform tp × pp × dp",
)
def exhaustive(
    problem: Problem, evaluator: Evaluator, *, max_stages: int, max_chunks: int, max_zero: int
) -> Iterator[Candidate | None]:
    """Best uniform strategy, proven where the search ends by itself.

    Raises:
        InputError: no cluster, or a limit below 0 (1 for chunks).
    """
    for key, given, least in (("max_stages", max_stages, 0), ("max_chunks", max_chunks, 1)):
        if given < least:
            raise InputError(f"{key} is {given}", key=key, found=given, allowed=f">= {least}")
    groups = _groups(space(problem, max_stages=max_stages, max_chunks=max_chunks, max_zero=max_zero))
    groups.sort(key=lambda group: (_estimate(problem, group[0]), group[0]))
    yield None
    pending: list[_Pending] = []
    for number, group in enumerate(groups):
        if not _can_respect(problem, group[0]):
            evaluator.refused += len(group)
            yield None
            continue
        value = _bound(problem, group[0], memory="none")
        if _worth(problem, evaluator, value):
            heapq.heappush(pending, _Pending(value, (group[0],), group))
        yield None
        if number % LOOK_AHEAD == LOOK_AHEAD - 1:
            yield from _next(problem, evaluator, pending)
    while pending and not evaluator.exhausted:
        evaluator.lower_bound, evaluator.bound = _least(evaluator, pending[0].bound), BOUND
        yield from _next(problem, evaluator, pending)
    if evaluator.best is not None and not evaluator.exhausted and problem.objective != "frontier":
        evaluator.lower_bound, evaluator.bound, evaluator.optimal = evaluator.best.value, BOUND, True


class _Pending(NamedTuple):
    """What is still to be looked at, by bound: one point, or a group of points that share theirs."""

    bound: float
    key: tuple[Uniform, ...]
    """Breaks ties."""
    group: list[Uniform]
    """Points of a group; empty for a point."""


def _groups(points: list[Uniform]) -> list[list[Uniform]]:
    """Points that differ in recomputation and ZeRO only: first the one without, last the thriftiest."""
    found: dict[Uniform, list[Uniform]] = {}
    for point in points:
        found.setdefault(replace(point, recompute="none", zero=0), []).append(point)
    return [sorted(group, key=lambda p: (_RECOMPUTE.index(p.recompute), p.zero)) for group in found.values()]


def _cluster(problem: Problem) -> Cluster:
    if problem.cluster is None:
        raise InputError("exhaustive needs a cluster", key="cluster", allowed="--cluster NAME")
    return problem.cluster


def _can_respect(problem: Problem, point: Uniform) -> bool:
    """Whether a cut of this shape respects pins and bans; a shape without any strategy does."""
    if not problem.rules:
        return True
    try:
        return point.strategy(problem) is not None
    except InputError as error:
        return error.key != "pins"


def _least(evaluator: Evaluator, bound: float) -> float:
    return bound if evaluator.best is None else min(bound, evaluator.best.value)


def _worth(problem: Problem, evaluator: Evaluator, bound: float) -> bool:
    """Whether a candidate with this bound may still improve something."""
    if not math.isfinite(bound):
        return False
    return evaluator.best is None or problem.objective == "frontier" or bound < evaluator.best.value


def _next(problem: Problem, evaluator: Evaluator, pending: list[_Pending]) -> Iterator[Candidate | None]:
    """Open groups in the order of their bounds until a point comes first; simulate that."""
    while pending:
        first = heapq.heappop(pending)
        if not _worth(problem, evaluator, first.bound):
            continue
        if not first.group:
            point = first.key[0]
            yield evaluator.evaluate(point.strategy(problem), point.label)
            return
        thriftiest = first.group[-1]
        points = first.group if _bound(problem, thriftiest, memory="least") < math.inf else []
        for point in points:
            value = _bound(problem, point)
            if _worth(problem, evaluator, value):
                heapq.heappush(pending, _Pending(value, (point,), []))
            yield None


def _bound(problem: Problem, point: Uniform, *, memory: str = "all") -> float:
    """Lower bound of the objective; infinite where the point cannot fit or cannot be lowered."""
    try:
        strategy = point.strategy(problem)
        cluster, job = _cluster(problem), problem.workload.job
        found = bounds_of(problem.graph, cluster, job, strategy.job, point.stages, memory=memory)
    except ExplorerError:
        return math.inf
    limit = problem.memory_limit_bytes
    if found.over_bytes > 0 or (limit and found.peak_memory_bytes > limit):
        return math.inf
    return value_bound(problem, found, strategy.job.devices)


# ---- the space ----------------------------------------------------------------------------------


def space(problem: Problem, *, max_stages: int = 0, max_chunks: int = 4, max_zero: int = 3) -> list[Uniform]:
    """Every point of the space, in no particular order."""
    job = problem.workload.job
    recompute = _RECOMPUTE if job.training else _RECOMPUTE[:1]
    return [
        Uniform(tensor=t, stages=p, replicas=d, chunks=v, microbatch_size=size, recompute=choice, zero=level)
        for t, p, d in _shapes(problem, max_stages)
        for size in divisors(job.global_batch // d)
        for v in _chunks(problem, p, job.global_batch // (d * size), max_chunks)
        for choice in recompute
        for level in (range(max_zero + 1) if d > 1 and job.training else (0,))
    ]


def _shapes(problem: Problem, max_stages: int) -> list[tuple[int, int, int]]:
    """(t, p, d)."""
    cluster, batch = _cluster(problem), problem.workload.job.global_batch
    devices, most = problem.device_count, len(units(problem.graph))
    found = []
    for t in _tensor_sizes(cluster, devices):
        for p in range(1, min(devices // t, most, max_stages or most) + 1):
            d = max(d for d in range(1, devices // (t * p) + 1) if batch % d == 0)
            found.append((t, p, d))
    return found


def _tensor_sizes(cluster: Cluster, devices: int) -> list[int]:
    """Sizes that divide every node, so that no tensor group leaves its node."""
    node = math.gcd(*(group.devices_per_node for group in cluster.nodes))
    return [t for t in divisors(node) if t <= devices]


def _chunks(problem: Problem, stages: int, microbatches: int, most: int) -> list[int]:
    """1, and powers of two for which interleaving exists: several stages, rounds of p microbatches."""
    if stages == 1 or microbatches % stages:
        return [1]
    room = len(units(problem.graph)) // stages
    return [1] + [v for v in (2**k for k in range(1, 16)) if v <= min(most, room)]


def divisors(number: int) -> list[int]:
    """All divisors, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return small + [number // i for i in reversed(small) if i * i != number]


def _estimate(problem: Problem, point: Uniform) -> float:
    """Rough step time relative to perfect scaling, plus a little for structures that are slow to lower.

    Only the order of candidates depends on it.
    """
    count = problem.workload.job.global_batch // (point.replicas * point.microbatch_size)
    used = point.stages * point.replicas * point.tensor / problem.device_count
    bubble = (point.stages - 1) / (point.chunks * count)
    tensor = 0.08 * math.log2(point.tensor)
    small = 0.1 / point.microbatch_size
    again = {"none": 0.0, "selective": 0.05, "full": 0.3}[point.recompute]
    tasks = count * point.stages * point.chunks
    return (1 + bubble + tensor + small + again + 0.01 * point.zero) / used + tasks / 20_000
