"""Tarnawski et al.'s integer program: least max-load over all splits, contiguous or not.

A device may have any nodes, which in a pipeline are several stages (NeurIPS 2020, section 5.2; the program is
that of `split_program`). The solver begins with the contiguous plan of one linear order, so that it is never
worse; then the nodes of two devices at a time are divided anew, which a small program does, until no two have
a better division; then the whole program begins with that. Of its relaxation a small program is the least.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.registry import Option
from explorer.planners._pieces.earliest_finish import as_priced
from explorer.planners._pieces.fleet import Fleet, fleet_of
from explorer.planners._pieces.integer_program import solved
from explorer.planners._pieces.max_load import MaxLoadPlan, Pool, load_of
from explorer.planners._pieces.plans import sizes_worth_trying
from explorer.planners._pieces.scattered import Placed, judged_placement, strategy_of_placement
from explorer.planners._pieces.split_program import by_pairs, kinds_of, loads_of, shared_bound, split_program
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
    settled: bool = True
    """Whether it is worth a simulation: not where a better one comes soon."""


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
            if split is None or not split.settled or split.device in tried:
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
            evaluator.lower_bound, evaluator.bound = best.bound_s or None, BOUND
        yield None
    if best is None:
        raise without_split(problem, fleet)
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
    """Yield None while working, the contiguous plan to begin with, then better and better splits.

    Args:
        work: the graph.
        pools: its devices, by kind; all of them may be used.
        nodes: most nodes of the branch and bound, for two devices at a time and for all.
    """
    known: Split | None = None
    for item in linear(work, pools, 1):
        known = _contiguous(work, pools, item) if item is not None else known
        yield None
    if sum(pool.count for pool in pools) == 1:
        yield known._replace(bound_s=known.load_s) if known is not None else None
        return
    yield known
    if known is not None:
        known = _proven(known, shared_bound(work, pools))
        yield known
        known = yield from _by_pairs(work, pools, known, nodes)
    if known is None or known.bound_s < known.load_s:
        found = least_load(work, pools, known, nodes)
        yield found
        if known is not None and found is not None and found.load_s < known.load_s:
            yield from _by_pairs(work, pools, found, nodes)


def _by_pairs(
    work: WorkGraph, pools: Sequence[Pool], known: Split, nodes: int
) -> Generator[Split, None, Split]:
    """Yield splits of ever less load, until no two devices have a better one; return the last.

    Two devices are all there are in the whole program, which is left to `least_load`.
    """
    if sum(pool.count for pool in pools) > 2:
        for device in by_pairs(work, pools, known.device, nodes):
            found = _split(work, pools, device)
            if found.load_s < known.load_s:
                known = _proven(found, known.bound_s)
            yield known._replace(settled=False)
    yield known
    return known


def least_load(work: WorkGraph, pools: Sequence[Pool], known: Split | None, nodes: int) -> Split | None:
    """Return the best split found; None if there is none, or none was found in so many nodes."""
    finite = np.where(np.isfinite(work.seconds), work.seconds, 0.0)
    unit = (known.load_s if known is not None else float(finite.max(axis=0).sum())) or 1.0
    every = range(len(kinds_of(pools)))
    program, places = split_program(work, pools, range(work.count), every, unit)
    start = {}
    if known is not None:
        start = {column: float(known.device[v] == i) for (v, i), column in places.items()}
    answer = solved(program, start=start, nodes=nodes)
    if not answer.values:
        return known
    chosen = {v: i for (v, i), column in places.items() if round(answer.values[column])}
    found = _split(work, pools, [chosen[v] for v in range(work.count)])
    bound_s = max(answer.bound, 0.0) * unit
    if known is not None:
        found = known if known.load_s <= found.load_s else found
        bound_s = max(bound_s, known.bound_s)
    return _proven(found, bound_s)


def _proven(split: Split, bound_s: float) -> Split:
    """Return a split with its bound, which is the load itself where they are the same to the solver."""
    same = bound_s >= split.load_s * (1 - SAME)
    return split._replace(bound_s=split.load_s if same else bound_s)


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
    return Split(max(loads_of(work, pools, device)), tuple(device))


def _by_device(
    work: WorkGraph, pools: Sequence[Pool], device: Sequence[int]
) -> list[tuple[int, tuple[int, ...]]]:
    """Return (kind, nodes) of every device that has some."""
    own: dict[int, list[int]] = {}
    for v in range(work.count):
        own.setdefault(device[v], []).append(v)
    kinds = kinds_of(pools)
    return [(kinds[i], tuple(nodes)) for i, nodes in sorted(own.items())]
