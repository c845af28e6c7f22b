"""Tarnawski et al.'s integer program: least max-load over all splits, contiguous or not.

With binaries x(v, i) that node v is on device i, and for every tensor t, made by node p and read by nodes R,
the shares in(t, i) and out(t, i) by which device i receives and sends it (NeurIPS 2020, section 5.2):

    minimise  L
    sum over i of x(v, i) = 1                                       every node is somewhere
    in(t, i)  >=  x(r, i) - x(p, i)    for every r in R             it is received where it is read
    out(t, i) >=  x(p, i) - x(r, i)    for every r in R             it is sent where it is made
    sum over v of seconds(v, i) x(v, i) + sum over t of c(t) (in(t, i) + out(t, i))  <=  L     for every i
    sum over v of bytes(v) x(v, i)  <=  room(i)

What is sent several times to a device is counted once. As in and out follow from x, only x are integers. The
solver begins with the contiguous plan of one linear order, so that it is never worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.registry import Option
from explorer.planners._pieces.earliest_finish import as_priced
from explorer.planners._pieces.fleet import Fleet, fleet_of
from explorer.planners._pieces.integer_program import solved
from explorer.planners._pieces.max_load import MaxLoadPlan, Pool, load_of
from explorer.planners._pieces.plans import sizes_worth_trying
from explorer.planners._pieces.scattered import Placed, judged_placement, strategy_of_placement
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.tarnawski import (
    BOUND,
    COST_MODEL,
    ORIGINAL,
    PAPER,
    as_published,
    priced,
    without_split,
)
from explorer.planners.tarnawski_linear import linear
from explorer.schedules._milp_program import Program
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

MOST_GROUPS = 16
"""Most groups of devices that the program tells apart."""
SAME = 1e-6
"""Share by which a bound may lie below a plan that is proven: the solver's own tolerance."""


class Split(NamedTuple):
    """A device for every node."""

    load_s: float
    """Seconds of the busiest device."""
    device: tuple[int, ...]
    """Per node: its device, numbered kind by kind."""
    bound_s: float = 0.0
    """No split has less; 0 if nothing is known."""


@SEARCHERS.add(
    Searcher(
        name="tarnawski_ip",
        title="Least max-load over splits that need not be contiguous, by integer program",
        paper=PAPER,
        options=(
            COST_MODEL,
            Option(name="nodes", default=300, minimum=1, help="most nodes of the solver's branch and bound"),
        ),
        space=Space(words="nodes x devices"),
        foreign=True,
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def tarnawski_ip(
    problem: Problem, evaluator: Evaluator, *, cost_model: str, nodes: int
) -> Iterator[Candidate | None]:
    """Find the least max-load over all splits, and have them judged for some sizes of microbatches.

    Seconds are those of the middle size; schedules are list schedules.

    Raises:
        InputError: there is no cluster, or under the paper's costs no split fits.
    """
    fleet = fleet_of(problem, most=MOST_GROUPS)
    if cost_model == ORIGINAL:
        yield from _original(problem, evaluator, fleet, nodes)
        return
    count = fleet.count
    while count:
        own = fleet.fewer(count)
        sizes = sizes_worth_trying(problem, count, replicas=fleet.size)
        work, pools = priced(problem, own, sizes[len(sizes) // 2])
        tried: set[tuple[int, ...]] = set()
        for split in splits(work, pools, nodes):
            if split is None or split.device in tried:
                yield None
                continue
            tried.add(split.device)
            for size in sizes:
                label = f"split over {len(set(split.device)) * own.size} devices, microbatches of {size}"
                given = Placed(work, as_priced(own), own, split.device)
                yield from judged_placement(problem, evaluator, given, size, label)
        count //= 2


def _original(problem: Problem, evaluator: Evaluator, fleet: Fleet, nodes: int) -> Iterator[Candidate | None]:
    work, pools = as_published(problem, fleet)
    best: Split | None = None
    for split in splits(work, pools, nodes):
        best = split or best
        if best is not None:
            evaluator.foreign_value = best.load_s
        yield None
    if best is None:
        raise without_split(problem, fleet)
    evaluator.lower_bound, evaluator.bound = best.bound_s, BOUND
    evaluator.optimal = best.bound_s == best.load_s
    evaluator.details["devices"] = [
        {
            "kind": fleet.kinds[k].name, "load_s": load_of(work, own, k, pools[k]),
            "layers": [problem.graph.layers[layer].name for layer in work.layers(own)],
        }
        for k, own in _by_device(work, pools, best.device)
    ]  # fmt: skip
    strategy = strategy_of_placement(problem, work, fleet, best.device, 1)
    yield evaluator.evaluate(strategy, f"split over {len(set(best.device))} devices")


def splits(work: WorkGraph, pools: Sequence[Pool], nodes: int) -> Iterator[Split | None]:
    """Yield None while working, the contiguous plan to begin with, then the best split that was found.

    Args:
        work: the graph.
        pools: its devices, by kind; all of them may be used.
        nodes: most nodes of the solver's branch and bound.
    """
    known: Split | None = None
    for item in linear(work, pools, 1):
        known = _contiguous(work, pools, item) if item is not None else known
        yield None
    if sum(pool.count for pool in pools) == 1:
        yield known._replace(bound_s=known.load_s) if known is not None else None
        return
    yield known
    found = least_load(work, pools, known, nodes)
    yield None
    yield found


def least_load(work: WorkGraph, pools: Sequence[Pool], known: Split | None, nodes: int) -> Split | None:
    """Return the best split found; None if there is none, or none was found in so many nodes."""
    kinds = _kinds(pools)
    finite = np.where(np.isfinite(work.seconds), work.seconds, 0.0)
    unit = (known.load_s if known is not None else float(finite.max(axis=0).sum())) or 1.0
    program, places = _program(work, pools, kinds, unit)
    start = {}
    if known is not None:
        start = {column: float(known.device[v] == i) for (v, i), column in places.items()}
    answer = solved(program, start=start, nodes=nodes)
    if not answer.values:
        return known
    chosen = {v: i for (v, i), column in places.items() if round(answer.values[column])}
    found = _split(work, pools, [chosen[v] for v in range(work.count)])
    if known is not None and known.load_s <= found.load_s:
        found = known
    bound = min(max(answer.bound, 0.0) * unit, found.load_s)
    return found._replace(bound_s=found.load_s if bound >= found.load_s * (1 - SAME) else bound)


def _program(
    work: WorkGraph, pools: Sequence[Pool], kinds: Sequence[int], unit: float
) -> tuple[Program, dict[tuple[int, int], int]]:
    """Return the program in units of some seconds, and the columns of (node, device)."""
    program = Program()
    load = program.column(0.0, 1e9)
    may = np.isfinite(work.seconds)
    places = {
        (v, i): program.column(0.0, float(may[k, v]), binary=True)
        for v in range(work.count)
        for i, k in enumerate(kinds)
    }
    for v in range(work.count):
        program.exactly(1.0, *((places[v, i], 1.0) for i in range(len(kinds))))
    for i, k in enumerate(kinds):
        own = [(places[v, i], v) for v in range(work.count) if may[k, v]]
        paid = [(column, -float(work.seconds[k, v]) / unit) for column, v in own]
        if pools[k].pays:
            paid += _sent(program, work, places, i, unit)
        program.at_least(0.0, (load, 1.0), *paid)
        room = pools[k].room_bytes
        if room < work.held_bytes.sum():
            scale = room or 1.0
            held = [(column, -float(work.held_bytes[v]) / scale) for column, v in own]
            program.at_least(-room / scale * (1 + 1e-12), *held)
    return program, places


def _sent(
    program: Program, work: WorkGraph, places: dict[tuple[int, int], int], device: int, unit: float
) -> list[tuple[int, float]]:
    """Add what a device receives and sends; return the terms of its load."""
    terms = []
    for maker, readers, cost in zip(work.producer.tolist(), work.readers, work.transfer_s, strict=True):
        if not cost:
            continue
        received, sent = program.column(0.0, 1.0), program.column(0.0, 1.0)
        terms += [(received, -float(cost) / unit), (sent, -float(cost) / unit)]
        for reader in readers:
            here, there = (places[reader, device], 1.0), (places[maker, device], 1.0)
            program.at_least(0.0, (received, 1.0), (here[0], -1.0), there)
            program.at_least(0.0, (sent, 1.0), (there[0], -1.0), here)
    return terms


def _kinds(pools: Sequence[Pool]) -> list[int]:
    """Return the kind of every device."""
    return [k for k, pool in enumerate(pools) for _ in range(pool.count)]


def _contiguous(work: WorkGraph, pools: Sequence[Pool], plan: MaxLoadPlan) -> Split:
    """Return a plan of stages as a split: of each kind the next device for each stage."""
    first = [sum(pool.count for pool in pools[:k]) for k in range(len(pools))]
    device = [0] * work.count
    for stage in plan.stages:
        for v in stage.nodes:
            device[v] = first[stage.pool]
        first[stage.pool] += 1
    return _split(work, pools, device)


def _split(work: WorkGraph, pools: Sequence[Pool], device: Sequence[int]) -> Split:
    loads = [load_of(work, own, k, pools[k]) for k, own in _by_device(work, pools, device)]
    return Split(max(loads, default=0.0), tuple(device))


def _by_device(
    work: WorkGraph, pools: Sequence[Pool], device: Sequence[int]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return (kind, nodes) of every device that has some."""
    own: dict[int, list[int]] = {}
    for v in range(work.count):
        own.setdefault(device[v], []).append(v)
    kinds = _kinds(pools)
    return [(kinds[i], tuple(nodes)) for i, nodes in sorted(own.items())]
