"""DAPPLE's planner: stages with replicas of their own, placed by three policies, by the latency of a step.

A stage, or the transfer between two, takes F forward and B backward for each of m microbatches, and AR for
its gradients. The steady phase is that of the pivot stage Q, from the last stage on the one that outweighs
those behind it:

    T = sum up to Q of F  +  (m - 1)(F_Q + B_Q)  +  max over s of ( AR_s + B_s + ... + B_Q )

where the last sum is less what Q waits for if s comes behind Q (Fan et al., section 4). For the first j nodes
on some devices of each machine the program keeps, for every number of stages, the plan whose T is least with
all other nodes as one stage on all other devices; so T, which is no sum, may miss the best plan.

T lets a reduction follow the last backward of its stage. Where it runs beside that backward in buckets, T is
too long for data parallelism most of all, so that this is judged whatever its T, in as few rounds as fit, as
the published planner compares its plans with data parallelism whose reductions overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.checkpoints import checkpoint
from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.planners._pieces.fleet import Fleet, fleet_of
from explorer.planners._pieces.machines import (
    Allocation,
    Machines,
    machines_of,
    next_allocations,
)
from explorer.planners._pieces.pivot_latency import latency_s
from explorer.planners._pieces.plans import judged, sizes_worth_trying, strategy_of
from explorer.planners._pieces.stage_costs import Load, stage_costs
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]
MOST_GROUPS = 16
"""Most groups of devices that are told apart."""
JUDGED = 4
"""Plans of different numbers of stages that are simulated, those of least latency."""
SAME = 1e-9
"""Relative difference of latencies that come from rounding alone."""


class Segment(NamedTuple):
    """A stage: nodes from `start` to before `stop` on what `after` takes more than `before`."""

    start: int
    stop: int
    before: Allocation
    after: Allocation


class Planned(NamedTuple):
    """Stages, and the latency T of a step in seconds."""

    seconds: float
    stages: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """For every j the best plan of the first j nodes: T, its stages and transfers, where the last begins."""

    value: FloatArray
    """(n + 1,)."""
    parts: FloatArray
    """(stages and transfers, 3, n + 1): F, B and AR."""
    start: npt.NDArray[np.int64]
    """(n + 1,)."""
    origin: tuple[Allocation, ...]
    """Per j: the allocation before the last stage."""


@SEARCHERS.add(
    Searcher(
        name="dapple",
        title="Least latency of stages with replicas of their own, placed fresh, append or scatter first",
        paper="Fan et al., DAPPLE: A Pipelined Data Parallel Approach for Training Large Models, PPoPP 2021",
        space=Space(words="cuts x replicas x three placements"),
        rigid=True,
        alone=True,
        options=(
            Option(
                name="microbatch_size", default=0, minimum=0,
                help="samples of a microbatch over all replicas, a divisor of the batch; 0 tries some",
            ),
        ),
        objectives=("time",),
    )
)  # fmt: skip
def dapple(problem: Problem, evaluator: Evaluator, *, microbatch_size: int) -> Iterator[Candidate | None]:
    """Plan for some sizes of microbatches, and have the plans of least latency judged.

    Raises:
        InputError: there is no cluster, or microbatches do not make up the batch.
    """
    fleet = fleet_of(problem)
    batch = problem.job.global_batch
    groups = fleet.joined(MOST_GROUPS)
    width = len(groups[0])
    if microbatch_size and (batch % microbatch_size or microbatch_size % width):
        shared = f" that {width} replicas share evenly" if width > 1 else ""
        raise InputError(
            f"microbatches of {microbatch_size} do not make up a batch of {batch}{shared}",
            key="microbatch_size", found=microbatch_size,
            allowed="a divisor of the batch" + (f" and multiple of {width}" if shared else "") + ", or 0",
        )  # fmt: skip
    machines = machines_of(fleet.cluster, groups)
    sizes = [microbatch_size] if microbatch_size else sizes_worth_trying(problem, len(groups), replicas=width)
    everything = machines.between((0,) * len(machines.sizes), machines.sizes)
    yield from _data_parallel(problem, evaluator, everything, [batch, *sizes[:3]])
    for size in sizes[:3]:
        costs = costs_of(problem, fleet, machines, size)
        best: dict[int, Planned] = {}
        for found in partitions(costs.load, costs.sent, machines.sizes, costs.nodes, batch // size):
            if found is not None:
                best[len(found.stages)] = found
            yield None
        for plan in _worth_judging(best.values())[:JUDGED]:
            stages = [
                (costs.layers(s.start, s.stop), machines.between(s.before, s.after)) for s in plan.stages
            ]
            label = f"stages on {'-'.join(str(len(on)) for _, on in stages)}, microbatches of {size}"
            yield from judged(problem, evaluator, strategy_of(problem, stages, size), label)


def _worth_judging(plans: Iterable[Planned]) -> list[Planned]:
    """Return plans, the least T first, without those that need more stages for the T of another.

    A pivot early in the line leaves T as it is however the layers behind it are cut.
    """
    found: list[Planned] = []
    for plan in sorted(plans, key=lambda plan: len(plan.stages)):
        if not any(math.isclose(plan.seconds, other.seconds, rel_tol=SAME) for other in found):
            found.append(plan)
    return sorted(found, key=lambda plan: plan.seconds)


def _data_parallel(
    problem: Problem, evaluator: Evaluator, devices: tuple[int, ...], sizes: Sequence[int]
) -> Iterator[Candidate | None]:
    """Have one stage on all devices judged, in the first of some sizes of microbatches that fits."""
    wide = [size for size in dict.fromkeys(sizes) if size >= len(devices)]
    layers = tuple(range(len(problem.graph.layers)))
    for size in wide:
        strategy = strategy_of(problem, [(layers, devices)], size)
        label = f"stages on {len(devices)}, microbatches of {size}"
        if size == wide[-1]:
            yield from judged(problem, evaluator, strategy, label)
            return
        found = evaluator.evaluate(strategy, label)
        yield found
        if found is None or found.outcome.feasible:
            return


def partitions(
    load: Callable[[Allocation, Allocation], Load],
    sent: Callable[[Allocation, Allocation, Allocation], FloatArray],
    sizes: Allocation,
    count: int,
    rounds: int,
) -> Iterator[Planned | None]:
    """Yield None while working, and the plan of least latency for each number of stages, on all devices.

    Args:
        load: returns the seconds of runs on what one allocation takes more than another, all finite.
        sent: returns the (n + 1,) seconds in which each cut passes, one way, between two stages that lie
            between three allocations.
        sizes: devices of each machine.
        count: number of nodes n.
        rounds: microbatches m of a step.
    """
    nothing = (0,) * len(sizes)
    alone = load(nothing, sizes)
    best = float(latency_s([[item[0, count] for item in alone[:3]]], rounds))
    best = best if alone.allowed[0, count] else math.inf
    if math.isfinite(best):
        yield Planned(best, (Segment(0, count, nothing, sizes),))
    value = np.where(np.arange(count + 1) == 0, 0.0, np.inf)
    zeros = np.zeros(count + 1, dtype=np.int64)
    first = Prefix(
        value=value, parts=np.zeros((0, 3, count + 1)), start=zeros, origin=(nothing,) * (count + 1)
    )
    tables: list[dict[Allocation, Prefix]] = [{nothing: first}]
    for _ in range(min(sum(sizes), count) - 1):
        now: dict[Allocation, Prefix] = {}
        for used, ahead in tables[-1].items():
            yield None
            for more in _allocations(sizes, used):
                checkpoint()
                made = _extended(ahead, load, sent, (used, more, sizes), rounds, best)
                if made is not None:
                    now[more] = _better(now[more], made) if more in now else made
        tables.append(now)
        ends = {
            used: np.where(load(used, sizes).allowed[:, -1], item.value, np.inf) for used, item in now.items()
        }
        used = min(ends, key=lambda item: float(ends[item].min()), default=nothing)
        if not ends or not math.isfinite(seconds := float(ends[used].min())):
            continue
        best, stop = min(best, seconds), int(ends[used].argmin())
        yield Planned(seconds, (*_stages(tables, used, stop), Segment(stop, count, used, sizes)))


def _allocations(sizes: Allocation, used: Allocation) -> Iterator[Allocation]:
    """Yield where the next stage may end, with devices left for one more."""
    left = sum(sizes) - sum(used)
    for count in range(1, left):
        yield from dict.fromkeys(next_allocations(sizes, used, count))


def _extended(
    ahead: Prefix,
    load: Callable[[Allocation, Allocation], Load],
    sent: Callable[[Allocation, Allocation, Allocation], FloatArray],
    on: tuple[Allocation, Allocation, Allocation],
    rounds: int,
    best: float,
) -> Prefix | None:
    """Return the best plans with one more stage, between the first two allocations; None if none is."""
    used, more, whole = on
    size = len(ahead.value)
    busiest = (ahead.parts[:, 0] + ahead.parts[:, 1]).max(axis=0, initial=0.0)
    rows = np.flatnonzero(np.isfinite(ahead.value) & ((rounds - 1) * busiest < best))
    if not len(rows):
        return None
    parts: list[Sequence[FloatArray]] = [tuple(part[:, rows, None]) for part in ahead.parts]
    if parts:
        lines = {origin: sent(origin, used, more) for origin in {ahead.origin[j] for j in rows.tolist()}}
        into = np.array([lines[ahead.origin[j]][j] for j in rows.tolist()])[:, None]
        parts.append((into, into, np.zeros_like(into)))
    own, rest, out = load(used, more), load(more, whole), sent(used, more, whole)
    parts.append(tuple(item[rows] for item in own[:3]))
    taken = len(parts)
    parts.append((out, out, np.zeros(size)))
    parts.append(tuple(item[:, -1] for item in rest[:3]))
    seconds = np.where(own.allowed[rows], latency_s(parts, rounds), np.inf)
    seconds[:, -1] = np.inf  # nodes are left for one more stage, which need not fit as it is
    least = seconds.argmin(axis=0)
    every = np.arange(size)
    kept = [[np.broadcast_to(item, seconds.shape)[least, every] for item in part] for part in parts[:taken]]
    return Prefix(value=seconds[least, every], parts=np.array(kept), start=rows[least], origin=(used,) * size)


def _better(one: Prefix, other: Prefix) -> Prefix:
    """Return for every j the better one of two plans with equally many stages."""
    wins = other.value < one.value
    origin = tuple(b if w else a for a, b, w in zip(one.origin, other.origin, wins.tolist(), strict=True))
    return Prefix(
        value=np.where(wins, other.value, one.value),
        parts=np.where(wins, other.parts, one.parts),
        start=np.where(wins, other.start, one.start),
        origin=origin,
    )


def _stages(tables: Sequence[dict[Allocation, Prefix]], used: Allocation, stop: int) -> tuple[Segment, ...]:
    found = []
    for table in reversed(tables[1:]):
        start, origin = int(table[used].start[stop]), table[used].origin[stop]
        found.append(Segment(start, stop, origin, used))
        used, stop = origin, start
    return tuple(reversed(found))


class Costs(NamedTuple):
    """A model under our costs, as `partitions` asks for it."""

    nodes: int
    layers: Callable[[int, int], tuple[int, ...]]
    load: Callable[[Allocation, Allocation], Load]
    sent: Callable[[Allocation, Allocation, Allocation], FloatArray]


def costs_of(problem: Problem, fleet: Fleet, machines: Machines, size: int) -> Costs:
    """Return the seconds of a microbatch, of which every replica takes its share of whole samples."""
    found = stage_costs(problem, fleet.cluster, fleet.kinds, size)

    @cache
    def load(before: Allocation, after: Allocation) -> Load:
        devices = machines.between(before, after)
        made = found.load(devices)
        if len(devices) <= size:
            return made
        # No stage has more replicas than a microbatch has samples; all that is left still stands for stages
        # to come, and divides its work as they would.
        part = size / len(devices)
        return made._replace(forward_s=made.forward_s * part, backward_s=made.backward_s * part)

    @cache
    def sent(before: Allocation, at: Allocation, after: Allocation) -> FloatArray:
        return found.sent(machines.between(before, at), machines.between(at, after))

    work = found.work
    return Costs(work.count, lambda start, stop: work.layers(range(start, stop)), load, sent)
