"""Spaces: the sets of strategies that searchers choose from, each with a plain list of its members.

The lists are for small problems: a claim to be best of a space is checked against all of its members, and
uniform random search draws from them. They are made by nested loops and nothing that a searcher uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from explorer.base.errors import ExplorerError
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules.pipelines import every_step
from explorer.search.problem import ANY, Problem, respecting
from explorer.strategies.cuts import units
from explorer.strategies.degrees import (
    EXCHANGES,
    GATHER,
    RECOMPUTE,
    USUAL_BUCKET_BYTES,
    ZERO_LEVELS,
    Degrees,
)
from explorer.strategies.model_axes import CONTEXT, TENSOR, expert_count, splittable
from explorer.strategies.shares import shared_by_speed
from explorer.strategy import Strategy

Members = Callable[[Problem], Iterator[Strategy]]
"""Type of a function that yields all strategies of a space, even those that break pins or do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A set of strategies."""

    words: str
    """Its choices in a few words, for tables."""
    members: Members | None = None
    """Function that lists it; None if there is none: random search then draws from the uniform strategies."""

    def __str__(self) -> str:
        return self.words


def uniform_strategies(problem: Problem) -> Iterator[Strategy]:
    """Yield every uniform strategy: t x p x d devices, chunks, microbatch, recomputation and ZeRO.

    It covers every proposed order of devices: t divides all nodes, d is the largest that the remaining
    devices allow and the batch divides into, chunks are 1, 2 or 4, stages are whole blocks, and microbatches
    divide a replica's samples.
    """
    batch, cluster = problem.job.global_batch, problem.needed_cluster
    most = len(units(problem.graph))
    for order in problem.orders():
        count = len(order)
        for t, p, v in product(range(1, count + 1), range(1, count + 1), (1, 2, 4)):
            if t * p > count or p * v > most or any(cluster.node_size(device) % t for device in order):
                continue
            d = max(d for d in range(1, count // (t * p) + 1) if batch % d == 0)
            for size, again, level in product(range(1, batch // d + 1), RECOMPUTE, ZERO_LEVELS):
                rounds, rest = divmod(batch, d * size)
                if rest or (v > 1 and (p == 1 or rounds % p)) or (level and d == 1):
                    continue
                degrees = Degrees(
                    tensor=t,
                    stages=p,
                    replicas=d,
                    chunks=v,
                    microbatch_size=size,
                    recompute=again,
                    zero=level,
                )
                try:
                    found = degrees.build(problem.graph, cluster, problem.job, devices=order)
                except ExplorerError:
                    continue  # the model cannot be split like this
                held = respecting(problem, found)
                if held is not None:
                    yield held


class EvenPoint(NamedTuple):
    """One member of the space of even strategies, not yet built."""

    degrees: Degrees
    order: tuple[int, ...]
    """Device of every rank."""
    by_speed: bool
    """Whether replicas on slower devices take fewer samples."""

    def strategy(self, problem: Problem) -> Strategy | None:
        """Return its strategy; None if there is none."""
        cluster, job = problem.needed_cluster, problem.job
        try:
            found = self.degrees.build(problem.graph, cluster, job, devices=self.order)
        except ExplorerError:
            return None
        if self.by_speed:
            found = found.with_job(shared_by_speed(problem.graph, cluster, job.precision, found.job))
        return respecting(problem, found)


def even_points(problem: Problem) -> Iterator[EvenPoint]:
    """Yield every even strategy: degrees, exchange, schedule, microbatch, recomputation, ZeRO and buckets.

    Stages are cut evenly between units. Replicas are as many as the remaining devices allow and the batch
    divides into; one position has one order, 1F1B; interleaving has several chunks.
    """
    batch, graph, most = problem.job.global_batch, problem.graph, len(units(problem.graph))
    axes = splittable(graph)
    trained = [item.name for item in SCHEDULES if same_training(item, problem.weights)]
    names = [problem.schedule] if problem.schedule else trained
    for order in problem.orders():
        grid = product(range(1, len(order) + 1), (1, 2, 4, 8, 16), range(1, most + 1))
        for t, c, p in grid:
            if t * c * p > len(order) or any(problem.needed_cluster.node_size(x) % t for x in order):
                continue
            if (t > 1 and TENSOR not in axes) or (c > 1 and CONTEXT not in axes):
                continue
            d = max(d for d in range(1, len(order) // (t * c * p) + 1) if batch % d == 0)
            experts = [e for e in range(2, expert_count(graph) + 1) if expert_count(graph) % e == 0]
            for name, v, e in product(names, range(1, most // p + 1), (1, *experts)):
                if not _ordered(problem, name, p, v, batch) or (d * c * t) % e:
                    continue
                for choice in _choices(t, c, d, batch):
                    try:
                        degrees = Degrees(
                            tensor=t, context=c, stages=p, replicas=d, expert=e, chunks=v, schedule=name,
                            options=problem.schedule_options, **choice,
                        )  # fmt: skip
                        degrees.check(graph, problem.needed_cluster, problem.job, order)
                    except ExplorerError:
                        continue
                    yield EvenPoint(degrees, order, by_speed=False)
                    if len(problem.needed_cluster.device_kinds) > 1 and choice["microbatch_size"] > 1:
                        yield EvenPoint(degrees, order, by_speed=True)


def same_training(schedule: Schedule, weights: str) -> bool:
    """Tell whether a schedule may be chosen where nobody names one: it orders any model, and trains the same.

    Those that learn from older weights are there only where they are allowed; never those that update more
    than once a step, need an order spelt out, take seconds to make one, or make that of another.

    Args:
        schedule: the schedule.
        weights: one of `explorer.search.problem.WEIGHTS`.
    """
    if not schedule.tried or schedule.placement.whole:
        return False
    return schedule.updates is every_step if schedule.flush else weights == ANY


def _ordered(problem: Problem, name: str, positions: int, chunks: int, batch: int) -> bool:
    """Tell whether a schedule is worth listing for so many positions and chunks."""
    options = dict(problem.schedule_options) if name == problem.schedule else {}
    placement = SCHEDULES.get(name).with_options(options).placement
    usual, interleaved = Degrees(stages=2).schedule, Degrees(stages=2, chunks=2).schedule
    if not problem.schedule and (positions == 1) != (name == usual) and positions == 1:
        return False
    if not problem.schedule and name == interleaved and chunks == 1:
        return False
    if not placement.several and chunks != (placement.chunks or 1):
        return False
    if (placement.copies or 1) > positions:
        return False  # copies of a stage are on devices of their own
    return batch > 0 and (positions > 1 or chunks == 1)


def _choices(tensor: int, context: int, replicas: int, batch: int) -> Iterator[dict[str, Any]]:
    """Yield all that does not decide the grid."""
    share = batch // replicas
    exchanges = tuple(EXCHANGES) if context > 1 else (GATHER,)
    for size, again, level, buckets, sequence, exchange in product(
        (n for n in range(1, share + 1) if share % n == 0),
        RECOMPUTE,
        ZERO_LEVELS if replicas > 1 else (0,),
        (0.0, USUAL_BUCKET_BYTES),
        (False, True) if tensor > 1 else (False,),
        exchanges,
    ):
        yield {
            "microbatch_size": size, "recompute": again, "zero": level, "bucket_bytes": buckets,
            "sequence_parallel": sequence, "context_exchange": exchange,
        }  # fmt: skip


def even_strategies(problem: Problem) -> Iterator[Strategy]:
    """Yield the strategies of all even points."""
    for point in even_points(problem):
        found = point.strategy(problem)
        if found is not None:
            yield found


EVEN = Space(words="even strategies, then small changes", members=even_strategies)
"""Strategies of even stages under any schedule, on every proposed order of devices."""
UNIFORM = Space(words="all uniform tp × pp × dp", members=uniform_strategies)
"""Uniform strategies: all stages treated alike, on every proposed order of devices."""
