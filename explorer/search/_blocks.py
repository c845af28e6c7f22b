"""The space of `auto`, block by block: all strategies on one order of devices, under one layout and schedule.

A block is arrays: pipeline positions, replicas, chunks, microbatch size and recomputation of every *group* of
strategies, which differ only in ZeRO level and buckets of gradients, with a rough guess and a bound of their
objective that hold for the whole group. Groups that cannot fit, whatever they do, are never in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.schedules import SCHEDULES
from explorer.schedules.spec import Pipeline, Schedule
from explorer.search._devices import DeviceOrder
from explorer.search._layout_costs import LayoutCosts
from explorer.search._rates import Rates, room_of
from explorer.search.exhaustive import divisors, tensor_sizes
from explorer.search.problem import ANY, Problem
from explorer.strategies.cuts import balanced_cuts, units
from explorer.strategies.degrees import ALL_TO_ALL, EXCHANGES, GATHER, RECOMPUTE, Degrees
from explorer.strategies.degrees_neighbours import most_replicas
from explorer.strategies.model_axes import CONTEXT, EXPERT, TENSOR, expert_count, splittable

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

MOST_CONTEXT = 16
"""Most devices that share a sequence."""
SEVERAL_SWEEPS = ("layer_parallel",)
"""Schedules that compute every microbatch several times, from values of the sweep before."""
PAUSE = 32
"""Grids that are looked at between two yields."""
_REF = 8
"""Positions and microbatches of the pipeline in which the bubbles of schedules are compared."""


Before = tuple[tuple[int, int], ...]
"""Of every order before: its devices, and how many of them both begin with."""


class Grid(NamedTuple):
    """Sizes of a pipeline on one order of devices, with what its first position holds at least."""

    positions: int
    replicas: int
    chunks: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Groups of strategies, the most promising first."""

    number: int
    """Position of its order among those proposed."""
    order: DeviceOrder
    """Device of every rank."""
    costs: LayoutCosts
    """Costs of its layout."""
    schedule: Schedule
    """Its schedule."""
    options: tuple[tuple[str, Any], ...]
    """Options of the schedule."""
    grids: IntArray
    """(groups, 5): positions, replicas, chunks, microbatch size, recomputation."""
    guess: FloatArray
    """Rough guess of the objective of each group."""
    lower: FloatArray
    """Bound of the objective of each group."""
    hopeless: bool
    """Whether nothing fits; it then has only the group that needs least memory."""
    rest: FloatArray
    """Least bound of each group and all behind it."""

    def degrees(self, group: int) -> Degrees:
        """Return the degrees of a group, without ZeRO and buckets."""
        p, d, v, size, recompute = self.grids[group].tolist()
        layout = self.costs.layout
        return Degrees(
            tensor=layout.tensor, context=layout.context, expert=layout.expert, stages=p, replicas=d,
            chunks=v, microbatch_size=size, recompute=RECOMPUTE[recompute], schedule=self.schedule.name,
            options=self.options, sequence_parallel=layout.sequence_parallel,
            context_exchange=layout.context_exchange,
        )  # fmt: skip


def schedules_of(problem: Problem) -> list[Schedule]:
    """Return the schedules of the space: the one asked for, or all that mean the same training.

    Those that learn from older weights only where they are allowed; none that need an order spelt out, take
    seconds to make one, make that of another, or compute only about the same.
    """
    if problem.schedule:
        return [SCHEDULES.get(problem.schedule)]
    usual = ("1f1b", "interleaved_1f1b")
    found = [
        item
        for item in SCHEDULES
        if item.tried
        and not (item.placement.whole or item.name in SEVERAL_SWEEPS)
        and (item.flush or problem.weights == ANY)
    ]
    return sorted(found, key=lambda item: (item.name not in usual, item.name))


def layouts_of(problem: Problem, order: DeviceOrder) -> list[Degrees]:
    """Return the layouts of the space, plain ones first: all that the model can be split along."""
    graph, cluster = problem.graph, problem.needed_cluster
    axes = splittable(graph)
    tensors = tensor_sizes(cluster, order) if TENSOR in axes else [1]
    contexts = [c for c in (2, 4, 8, 16) if c <= MOST_CONTEXT] if CONTEXT in axes else []
    experts = [e for e in divisors(expert_count(graph)) if e > 1] if EXPERT in axes else []
    found = []
    for t, c, e in product(tensors, (1, *contexts), (1, *experts)):
        if t * c > len(order) or e > len(order):
            continue
        d = e // math.gcd(e, t * c)
        found += [
            Degrees(
                tensor=t, context=c, replicas=d, expert=e, context_exchange=exchange,
                sequence_parallel=sequence,
            )
            for exchange in (EXCHANGES if c > 1 else (GATHER,))
            for sequence in ((False, True) if t > 1 else (False,))
        ]  # fmt: skip
    found = [item for item in found if item.context_exchange != ALL_TO_ALL or _heads_do(problem, item)]
    return sorted(found, key=lambda item: (item.context, item.expert, -item.tensor, -item.sequence_parallel))


def _heads_do(problem: Problem, layout: Degrees) -> bool:
    """Tell whether heads can be split over context and tensor parallelism together."""
    heads = [dim.size for layer in problem.graph.layers for dim in layer.dims if dim.name == "heads"]
    return not heads or min(heads) % (layout.tensor * layout.context) == 0


def make_block(
    problem: Problem, number: int, order: DeviceOrder, costs: LayoutCosts, schedule: Schedule, before: Before
) -> Iterator[Block | None]:
    """Yield None while at work, then the groups of one order, layout and schedule that may fit, by guess.

    Args:
        problem: the search problem.
        number: position of the order among those proposed.
        order: device of every rank.
        costs: costs of the layout.
        schedule: the schedule.
        before: orders before this one, whose strategies are left out.
    """
    rows: list[FloatArray] = []
    grids = list(_grids(problem, order, costs.layout, schedule, before))
    for at in range(0, len(grids), PAUSE):
        spans = [span for grid in grids[at : at + PAUSE] for span in _first_spans(problem, schedule, grid)]
        yield None
        for recompute in RECOMPUTE:
            costs.bytes_of(spans, recompute)
        yield None
    for looked, grid in enumerate(grids):
        rows += _sized(problem, costs, schedule, grid, order)
        if looked % PAUSE == PAUSE - 1:
            yield None
    table = np.concatenate(rows) if rows else np.zeros((0, 6))
    if not len(table):
        return
    fits = table[:, 5] <= room_of(problem, costs.cluster.kind_of(order[0]))
    hopeless = not fits.any()
    table = table[[int(table[:, 5].argmin())]] if hopeless else table[fits]
    chosen = table[:, :5].astype(np.int64)
    p, d, v, size, again = chosen.T
    count = problem.job.global_batch / (d * size)
    used = p * d * costs.layout.context * costs.layout.tensor
    for samples in np.unique(size).tolist():
        for place in range(len(costs.places)):
            costs.total_s(samples, place)
        yield None
    fast, slow = _work_s(costs, size, again)
    least, guess = fast * count / p, slow * count / p
    guess *= 1.0 + _bubble(schedule) * (p - 1) / (v * count)
    rates = Rates(problem, order)
    peaks = table[:, 5]
    lower = rates.least(least, peaks, used)
    guess = rates.least(guess, peaks, used)
    along = np.argsort(guess, kind="stable")
    lower = lower[along]
    yield Block(
        number=number, order=order, costs=costs, schedule=schedule,
        options=problem.schedule_options, grids=chosen[along], guess=guess[along],
        lower=lower, hopeless=hopeless, rest=np.minimum.accumulate(lower[::-1])[::-1],
    )  # fmt: skip


def _grids(
    problem: Problem, order: DeviceOrder, layout: Degrees, schedule: Schedule, before: Before
) -> Iterator[Grid]:
    """Yield positions, replicas and chunks that a schedule may be laid over."""
    placement, needs = schedule.placement, schedule.needs
    row = layout.tensor * layout.context
    most = len(units(problem.graph))
    copies = placement.copies or 1
    for p in range(1, min(len(order) // row, most) + 1):
        d = most_replicas(len(order) // (row * p), problem.job.global_batch)
        used = d * row * p
        if (d * row) % layout.expert or any(
            used <= common and most_replicas(size // (row * p), problem.job.global_batch) == d
            for size, common in before
        ):
            continue
        if p == 1 and schedule.name != "1f1b" and not problem.schedule:
            continue  # one position has one order
        chunks = range(1, most // p + 1) if placement.several and p > 1 else [placement.chunks or 1]
        for v in chunks:
            if schedule.name == "interleaved_1f1b" and v == 1 and not problem.schedule:
                continue  # that is 1F1B
            if v % needs.chunk_multiple or v > (needs.most_chunks or v) or (p * v) % needs.stage_multiple:
                continue
            if p * v > most or p * v < 1 or copies > p:
                continue
            yield Grid(p, d, v)


def _sized(
    problem: Problem, costs: LayoutCosts, schedule: Schedule, grid: Grid, order: DeviceOrder
) -> Iterator[FloatArray]:
    """Yield the microbatch sizes and recomputations of a grid, with the bytes that they need at least."""
    job, (p, d, v) = problem.job, grid
    kind = costs.cluster.kind_of(order[0])
    share = job.global_batch // d
    sizes = np.array(divisors(share))
    counts = share // sizes
    if v > 1 and schedule.name == "interleaved_1f1b":
        sizes, counts = sizes[counts % p == 0], counts[counts % p == 0]
    spans = _first_spans(problem, schedule, grid)
    spread = d * costs.layout.context * costs.layout.tensor * (schedule.placement.copies or p)
    known = schedule.placement.copies == 1 and not problem.rules
    for recompute in range(len(RECOMPUTE)) if job.training else (0,):
        held = costs.bytes_of(spans, RECOMPUTE[recompute]) if known else []
        states = sum(x.states for x in held) / (spread if job.training else 1)
        need = np.full(len(sizes), kind.reserved_bytes + states)
        if job.training and held:
            ahead = ahead_of(schedule, p, v, counts)
            need += sizes * sum(x.activations * n for x, n in zip(held, ahead, strict=True))
        found = np.empty((len(sizes), 6))
        found[:, :3] = grid
        found[:, 3], found[:, 4], found[:, 5] = sizes, recompute, need
        yield found


def _first_spans(problem: Problem, schedule: Schedule, grid: Grid) -> list[tuple[int, int]]:
    """Return the runs of layers that the first position holds of the first copy."""
    p, _, v = grid
    bounds = cut_bounds(problem, p * v)
    placement = schedule.placement
    laid = placement.grid(p, v)
    return [(bounds[i], bounds[i + 1]) for i in range(p * v) if placement.position(i, 0, laid) == 0]


def ahead_of(schedule: Schedule, positions: int, chunks: int, counts: IntArray) -> list[IntArray]:
    """Count by chunk the forwards of the first position before its first backward: at least so many.

    Args:
        schedule: the schedule.
        positions: pipeline positions p.
        chunks: stages at a position.
        counts: numbers of microbatches.
    """
    if schedule.name == "gpipe":
        return [counts] * chunks
    if schedule.name == "1f1b":
        return [np.minimum(positions, counts)]
    if schedule.name == "interleaved_1f1b" and chunks > 1:
        first = np.minimum(counts, positions + np.where(counts > positions, positions - 1, 0))
        return [first, *[np.minimum(counts, positions)] * (chunks - 1)]
    return [np.ones_like(counts)] + [np.zeros_like(counts)] * (chunks - 1)


def cut_bounds(problem: Problem, stages: int) -> list[int]:
    """Return the first layer of every stage of an even cut, and the number of layers."""
    graph = problem.graph
    cuts = graph.memo(f"balanced cuts {stages}", lambda: balanced_cuts(graph, stages))
    return [0, *cuts, len(graph.layers)]


def _work_s(costs: LayoutCosts, size: IntArray, recompute: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the seconds of all layers for one microbatch, on the fastest and on the slowest place."""
    least, most = np.zeros(len(size)), np.zeros(len(size))
    for value in np.unique(size).tolist():
        rows = np.flatnonzero(size == value)
        each = np.array([costs.total_s(value, place) for place in range(len(costs.places))])
        least[rows], most[rows] = each.min(axis=0)[recompute[rows]], each.max(axis=0)[recompute[rows]]
    return least, most


def _bubble(schedule: Schedule) -> float:
    """Return the bubble of a schedule over that of 1F1B, by its closed form; 1 if that says nothing."""
    if schedule.closed_form is None or not schedule.flush:
        return float(schedule.flush)
    chunks = schedule.placement.chunks or 1
    even = Pipeline(
        p=_REF, m=2 * _REF, chunks=chunks, forward_s=1 / 3, input_grad_s=1 / 3, weight_grad_s=1 / 3
    )
    found = schedule.closed_form.of(even)
    if found is None:
        return 1.0
    return max(0.0, (found - chunks * even.m) / (_REF - 1))
