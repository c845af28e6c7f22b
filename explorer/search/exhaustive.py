"""Every uniform strategy: tensor size t, stages p, replicas d, chunks, microbatch size, recompute and ZeRO.

The space, which the result calls ``uniform strategies``: t divides the devices of a node; p x t devices or
more; d the most replicas that the remaining devices allow and the batch divides into; balanced cuts; 1F1B,
or interleaved 1F1B if there are chunks; on every order of devices that is proposed
(`explorer.search._devices`), and if replicas of a stage lie on devices of different speed, with equal
samples and with samples by speed. Candidates are bounded in the order of a rough estimate, a few at a time
(those that differ only in recomputation and ZeRO together, by time alone), and after every few the most
promising one is simulated; a candidate that a bound excludes never is. Under pins and bans every candidate
is cut as evenly as they allow, and one that no cut saves is left out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from explorer.base.errors import ExplorerError, InputError
from explorer.base.registry import Option
from explorer.cluster import Cluster
from explorer.search import SEARCHERS, Searcher
from explorer.search._bounds import Bounds, bounds_of, even_bounds_of, stage_table, value_bound
from explorer.search._devices import PROPOSERS, DeviceOrder, Pool, on_devices
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem, respecting
from explorer.search.spaces import UNIFORM
from explorer.strategies.cuts import balanced_cuts, units
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS, Degrees
from explorer.strategies.degrees_neighbours import most_replicas
from explorer.strategies.model_axes import TENSOR, splittable
from explorer.strategies.shares import shared_by_speed
from explorer.strategy import Strategy

BOUND = "uniform strategies"
LOOK_AHEAD = 12
"""Groups of candidates that are bounded between two simulations as long as some are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One point of the space."""

    degrees: Degrees
    """Degrees by which the devices work together."""
    order: DeviceOrder
    """Device of every rank; the first ones, as many as the degrees need, are used."""
    number: int = 0
    """Position of `order` among the proposed orders."""
    by_speed: bool = False
    """Whether replicas on slower devices take fewer samples of a microbatch."""

    @property
    def label(self) -> str:
        """Short name; states the devices if they are not the first ones in order."""
        shared = ", samples by speed" if self.by_speed else ""
        return self.degrees.label + on_devices(self.order[: self.degrees.devices]) + shared

    @property
    def key(self) -> tuple[int | str, ...]:
        """Key that breaks ties."""
        d = self.degrees
        sizes = (d.tensor, d.stages, d.replicas, d.chunks, d.microbatch_size)
        return (self.number, *sizes, self.by_speed, d.recompute, d.zero)

    def strategy(self, problem: Problem) -> Strategy:
        """Return the strategy of the point, cut differently if needed to respect pins and bans.

        Raises:
            InputError: there is no cluster, the point is outside of the space, or no cut respects pins and
                bans.
        """
        graph, count = problem.graph, self.degrees.stages * self.degrees.chunks
        cuts = graph.memo(f"balanced cuts {count}", lambda: balanced_cuts(graph, count))
        found = self.degrees.build(graph, problem.needed_cluster, problem.job, devices=self.order, cuts=cuts)
        if self.by_speed:
            precision = problem.job.precision
            found = found.with_job(shared_by_speed(graph, problem.needed_cluster, precision, found.job))
        held = respecting(problem, found)
        if held is None:
            raise InputError(f"no cut of {self.label} respects the pins", key="pins", allowed="fewer pins")
        return held


@SEARCHERS.add(
    Searcher(
        name="exhaustive",
        title="All uniform strategies, those that a lower bound excludes left out",
        options=(
            Option(name="max_stages", default=0, minimum=0, help="pipeline stages at most; 0 for no limit"),
            Option(name="max_chunks", default=4, minimum=1, help="stages per pipeline device at most"),
            Option(name="max_zero", default=3, help="ZeRO level at most", choices=ZERO_LEVELS),
            Option(
                name="orders",
                default="",
                help=f"proposers of devices, of {', '.join(PROPOSERS)}, separated by commas; empty: default",
            ),
        ),
        space=UNIFORM,
        optimal=True,
    )
)
def exhaustive(
    problem: Problem, evaluator: Evaluator, *, max_stages: int, max_chunks: int, max_zero: int, orders: str
) -> Iterator[Candidate | None]:
    """Search for the best uniform strategy, proven if the search ends by itself.

    Raises:
        InputError: there is no cluster, a limit is below 0 (1 for chunks), or a proposer of devices is
            unknown.
    """
    names = tuple(name.strip() for name in orders.split(",") if name.strip())
    points = space(problem, max_stages=max_stages, max_chunks=max_chunks, max_zero=max_zero, orders=names)
    groups = _groups(points)
    speeds = _Speeds(problem.pool)
    groups.sort(key=lambda group: (_estimate(problem, group[0], speeds), group[0].key))
    yield None
    pending: list[_Pending] = []
    for number, group in enumerate(groups):
        if not _can_respect(problem, group[0]):
            evaluator.refused += len(group)
            yield None
            continue
        value = _bound(problem, group[0], memory="none")
        if _worth(problem, evaluator, value):
            heapq.heappush(pending, _Pending(value, group[0].key, group[0], group))
        yield None
        if number % LOOK_AHEAD == LOOK_AHEAD - 1:
            yield from _next(problem, evaluator, pending)
    while pending and not evaluator.exhausted:
        evaluator.lower_bound, evaluator.bound = _least(evaluator, pending[0].bound), BOUND
        yield from _next(problem, evaluator, pending)
    if evaluator.best is not None and not evaluator.exhausted and not problem.keeps_frontier:
        evaluator.lower_bound, evaluator.bound, evaluator.optimal = evaluator.best.value, BOUND, True


class _Pending(NamedTuple):
    """Candidates still to be looked at, by bound: one point, or a group of points that share a bound."""

    bound: float
    key: tuple[int | str, ...]
    """Key that breaks ties."""
    point: Point
    """The point, or the first of the group."""
    group: list[Point]
    """Points of a group; empty for a point."""


def _groups(points: list[Point]) -> list[list[Point]]:
    """Group points that differ only in recomputation and ZeRO: first the one without, last the thriftiest."""
    found: dict[tuple[int | str, ...], list[Point]] = {}
    for point in points:
        found.setdefault(point.key[:-2], []).append(point)
    return [
        sorted(group, key=lambda p: (RECOMPUTE.index(p.degrees.recompute), p.degrees.zero))
        for group in found.values()
    ]


def _can_respect(problem: Problem, point: Point) -> bool:
    """Tell whether a cut of this shape respects pins and bans; a shape without any strategy counts as one."""
    if not problem.rules:
        return True
    try:
        return point.strategy(problem) is not None
    except InputError as error:
        return error.key != "pins"


def _least(evaluator: Evaluator, bound: float) -> float:
    return bound if evaluator.best is None else min(bound, evaluator.best.value)


def _worth(problem: Problem, evaluator: Evaluator, bound: float) -> bool:
    """Tell whether a candidate with this bound may still improve something."""
    if not math.isfinite(bound):
        return False
    return evaluator.best is None or problem.keeps_frontier or bound < evaluator.best.value


def _next(problem: Problem, evaluator: Evaluator, pending: list[_Pending]) -> Iterator[Candidate | None]:
    """Open groups in the order of their bounds until a point comes first; simulate that."""
    while pending:
        first = heapq.heappop(pending)
        if not _worth(problem, evaluator, first.bound):
            continue
        if not first.group:
            if evaluator.jobs is not None:
                behind = heapq.nsmallest(evaluator.jobs.limit // 2, pending)
                soon = [item.point.strategy(problem) for item in behind if not item.group]
                evaluator.ahead(soon, instead=True)
            yield evaluator.evaluate(first.point.strategy(problem), first.point.label)
            return
        thriftiest = first.group[-1]
        points = first.group if _bound(problem, thriftiest, memory="least") < math.inf else []
        for point in points:
            value = _bound(problem, point)
            if _worth(problem, evaluator, value):
                heapq.heappush(pending, _Pending(value, point.key, point, []))
            yield None


def _bound(problem: Problem, point: Point, *, memory: str = "all") -> float:
    """Return a lower bound of the objective; infinite if the point cannot fit or cannot be lowered.

    The bounds are those of (interleaved) 1F1B: under a schedule that the problem asks for there is none.
    """
    if problem.schedule:
        return 0.0
    try:
        found, devices = _bounds(problem, point, memory)
    except ExplorerError:
        return math.inf
    limit = problem.memory_limit_bytes
    if found.over_bytes > 0 or (limit and found.peak_memory_bytes > limit):
        return math.inf
    if memory == "all" and found.step_time_s > problem.longest_step_s:
        return math.inf  # of a group the thriftiest is asked about, which is not the fastest
    return value_bound(problem, found, devices)


def _bounds(problem: Problem, point: Point, memory: str) -> tuple[Bounds, DeviceOrder]:
    """Return the bounds of a point and its devices: from tables where all replicas of a stage are alike."""
    graph, cluster, job, degrees = problem.graph, problem.needed_cluster, problem.job, point.degrees
    if len(cluster.device_kinds) == 1 and not problem.rules:
        table = stage_table(graph, cluster, job, point.order)
        return even_bounds_of(table, degrees, memory=memory), tuple(sorted(point.order[: degrees.devices]))
    strategy = point.strategy(problem)
    found = bounds_of(graph, cluster, job, strategy.job, degrees.stages, memory=memory)
    return found, strategy.job.devices


# ---- the space ----------------------------------------------------------------------------------


def space(
    problem: Problem,
    *,
    max_stages: int = 0,
    max_chunks: int = 4,
    max_zero: int = 3,
    orders: tuple[str, ...] = (),
) -> list[Point]:
    """Return every point of the space, in no particular order."""
    job = problem.job
    recompute = RECOMPUTE if job.training else RECOMPUTE[:1]
    seen: set[tuple[DeviceOrder, int, int, int]] = set()
    found = []
    for number, order in enumerate(problem.orders(orders)):
        for t, p, d in _grids(problem, order, max_stages):
            if (used := (order[: t * p * d], t, p, d)) in seen:
                continue
            seen.add(used)
            found += [
                Point(
                    degrees=Degrees(
                        tensor=t, stages=p, replicas=d, chunks=v, microbatch_size=size, recompute=choice,
                        zero=level,
                    ),
                    order=order, number=number, by_speed=shared,
                )
                for size in divisors(job.global_batch // d)
                for v in _chunks(problem, p, job.global_batch // (d * size), max_chunks)
                for choice in recompute
                for level in (range(max_zero + 1) if d > 1 and job.training else (0,))
                for shared in ((False, True) if size > 1 and _mixed(problem, order, t, p, d) else (False,))
            ]  # fmt: skip
    return found


def _grids(problem: Problem, order: DeviceOrder, max_stages: int) -> list[tuple[int, int, int]]:
    """Return (t, p, d) on the devices of an order."""
    devices, batch, most = len(order), problem.job.global_batch, len(units(problem.graph))
    found: list[tuple[int, int, int]] = []
    sizes = tensor_sizes(problem.needed_cluster, order)
    for t in sizes if TENSOR in splittable(problem.graph) else (1,):
        longest = min(devices // t, most, max_stages or most)
        found += [(t, p, most_replicas(devices // (t * p), batch)) for p in range(1, longest + 1)]
    return found


def _mixed(problem: Problem, order: DeviceOrder, t: int, p: int, d: int) -> bool:
    """Tell whether replicas of some stage lie on devices of different speed."""
    pool = problem.pool
    if len(pool.cluster.device_kinds) == 1:
        return False
    for position in range(p):
        ranks = range(position * d * t, (position + 1) * d * t)
        rows = {min(pool.speed(order[rank + i]) for i in range(t)) for rank in ranks[::t]}
        if len(rows) > 1:
            return True
    return False


def tensor_sizes(cluster: Cluster, order: DeviceOrder) -> list[int]:
    """Return the sizes that divide every node in use, so that no tensor group leaves its node."""
    node = math.gcd(*{cluster.node_size(device) for device in order})
    return [t for t in divisors(node) if t <= len(order)]


def _chunks(problem: Problem, stages: int, microbatches: int, most: int) -> list[int]:
    """Return 1, and powers of two for which interleaving exists: several stages, rounds of p microbatches."""
    if stages == 1 or microbatches % stages:
        return [1]
    room = len(units(problem.graph)) // stages
    return [1] + [v for v in (2**k for k in range(1, 16)) if v <= min(most, room)]


def divisors(number: int) -> list[int]:
    """Return all divisors, ascending.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return small + [number // i for i in reversed(small) if i * i != number]


def _estimate(problem: Problem, point: Point, speeds: _Speeds) -> float:
    """Return a rough step time relative to perfect scaling, plus a little for points that are slow to lower.

    Only the order of candidates depends on it.
    """
    degrees = point.degrees
    count = problem.job.global_batch // (degrees.replicas * degrees.microbatch_size)
    used = degrees.devices * speeds.common(point) / problem.device_count
    bubble = (degrees.stages - 1) / (degrees.chunks * count)
    tensor = 0.08 * math.log2(degrees.tensor)
    small = 0.1 / degrees.microbatch_size
    again = {"none": 0.0, "selective": 0.05, "full": 0.3}[degrees.recompute]
    tasks = count * degrees.stages * degrees.chunks
    return (1 + bubble + tensor + small + again + 0.01 * degrees.zero) / used + tasks / 20_000


class _Speeds:
    """Speeds of the devices of points, each set looked up once."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._known: dict[tuple[int, int, bool], float] = {}
        self._fastest = max(map(pool.speed, pool.devices))

    def common(self, point: Point) -> float:
        """Return the common speed of a point's devices, over that of the fastest there is.

        All wait for the slowest, or take samples by speed.
        """
        if not self._fastest or len(self._pool.cluster.device_kinds) == 1:
            return 1.0
        key = point.number, point.degrees.devices, point.by_speed
        if key not in self._known:
            used = [self._pool.speed(device) for device in point.order[: point.degrees.devices]]
            together = sum(used) / len(used) if point.by_speed else min(used)
            self._known[key] = together / self._fastest
        return self._known[key]
