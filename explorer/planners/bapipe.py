"""BaPipe: a balanced partition over devices in their order, layers cut in two if need be, and a kind of 1F1B.

For every kind of 1F1B, stage s of p keeps so many of m microbatches, and a step takes, with V seconds of the
slowest stage for one microbatch (or of the slowest transfer, if it is longer) and x of a transfer one way,

    1F1B-AS   p - s             (m + p - 1) V                        sends beside all work
    FBP-AS    2 (p - s)         (m + p - 1) V                        a forward and a backward at once
    1F1B-SO   2 (p - s) - 1     (m + p - 1) V + 2 (p - 1) x          sends beside work, further ahead
    1F1B-SNO  p - s             (m + p - 1) V + 2 (m + p - 2) x      waits for what it sends

(Zhao et al., 2020). The paper balances times, then memory, moves cuts to where little is sent, and cuts the
layer at a boundary last; here the least V under all of that is found at once. A layer is cut along its
outputs in whole channels or features; blocks of several layers, and layers that others of ours could not
take up in part, stay whole: the balance is then that of whole nodes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from explorer.base.registry import Option
from explorer.graph import LayerGraph
from explorer.planners._pieces.cut_line import CutLine, Place, Run, cut_line, least_bottleneck
from explorer.planners._pieces.fleet import Fleet, fleet_of, room_bytes
from explorer.planners._pieces.plans import judged, sizes_worth_trying
from explorer.planners._pieces.work_graph import WorkGraph, summed, work_graph
from explorer.schedules.bapipe import ASYNC, AT_ONCE, NO_OVERLAP, OVERLAPPED, VARIANTS
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategies.cuts import units
from explorer.strategies.degrees import Degrees
from explorer.strategy import Mesh, Slice, Stage, Strategy, single

JUDGED = 4
"""Plans of each size of microbatches that are simulated, those of least seconds."""
SCHEDULE = "bapipe"


class Plan(NamedTuple):
    """A partition under a kind of 1F1B, and the paper's seconds of a step."""

    seconds: float
    variant: str
    runs: tuple[Run, ...]
    fractional: bool
    """Whether its line has layers cut in parts."""


@SEARCHERS.add(
    Searcher(
        name="bapipe",
        title="Balanced stages on devices in order, layers cut in two, and the kind of 1F1B by formulas",
        paper="Zhao et al., BaPipe: Exploration of Balanced Pipeline Parallelism for DNN Training, 2020",
        space=Space(words="cuts between and through layers x kinds of 1F1B"),
        rigid=True,
        alone=True,
        options=(
            Option(name="fractional", default=True, help="also cuts single layers, along their outputs"),
        ),
        objectives=("time",),
    )
)
def bapipe(problem: Problem, evaluator: Evaluator, *, fractional: bool) -> Iterator[Candidate | None]:
    """Find the balanced plans for some sizes of microbatches, and have the best judged beside even stages.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    for size in sizes_worth_trying(problem, fleet.count, replicas=fleet.size):
        work = work_graph(problem.graph, fleet.kinds, problem.job, samples=size / fleet.size, bytes_per_s=1.0)
        cuts = [cuttable(problem.graph, own) if fractional else None for own in work.members]
        lines = [_line(problem, work, [1] * work.count, size / fleet.size)]
        if any(cuts):
            parts = [cut[1] if cut else 1 for cut in cuts]
            lines.append(_line(problem, work, parts, size / fleet.size))
        found: dict[tuple[str, tuple[Run, ...]], Plan] = {}
        for plan in plans(problem, fleet, lines, size):
            if plan is not None:
                found.setdefault((plan.variant, plan.runs), plan)
            yield None
        for plan in heapq.nsmallest(JUDGED, found.values()):
            strategy = _strategy(problem, fleet, work, lines[plan.fractional], cuts, plan, size)
            cut = sum(len(stage.slices) for stage in strategy.job.stages)
            words = f"{cut} parts of layers" if cut else "whole layers"
            label = f"{len(plan.runs)} stages, {plan.variant}, {words}, microbatches of {size}"
            yield from judged(problem, evaluator, strategy, label)
        yield from _even(problem, evaluator, fleet, size)


def kept(variant: str, left: int) -> int:
    """Return the microbatches that a stage keeps, with so many stages from it to the end, itself included."""
    return {ASYNC: left, AT_ONCE: 2 * left, NO_OVERLAP: left, OVERLAPPED: 2 * left - 1}[variant]


def step_s(variant: str, slowest_s: float, passed_s: float, stages: int, rounds: int) -> float:
    """Return the paper's seconds of a step.

    Args:
        variant: a kind of 1F1B.
        slowest_s: V, of a microbatch forward and backward.
        passed_s: x, one way.
        stages: p.
        rounds: microbatches m.
    """
    waits = {NO_OVERLAP: 2 * (rounds + stages - 2), OVERLAPPED: 2 * (stages - 1)}.get(variant, 0)
    return (rounds + stages - 1) * slowest_s + waits * passed_s


def plans(problem: Problem, fleet: Fleet, lines: Sequence[CutLine], size: int) -> Iterator[Plan | None]:
    """Yield the best partition on all devices, half of them, a quarter, ..., under each kind of 1F1B.

    Where none fits, those are yielded that would with more memory: recomputation may make room.
    """
    rounds, ways = problem.job.global_batch // size, 1 + problem.job.training
    kinds = [number for number, own in enumerate(fleet.groups) for _ in own]
    variants = VARIANTS if problem.job.training else (ASYNC,)
    counts = [len(kinds) >> k for k in range(len(kinds).bit_length())]
    for roomy in (False, True):
        any_fits = False
        for (fractional, line), variant, count in product(enumerate(lines), variants, counts):
            passed_s = fleet.latency_s + line.sent_bytes / fleet.bytes_per_s / ways
            places = [
                Place(
                    kind,
                    math.inf if roomy else room_bytes(problem, fleet.kinds[kind]),
                    min(kept(variant, count - s), rounds) if problem.job.training else 0,
                )
                for s, kind in enumerate(kinds[:count])
            ]
            best = least_bottleneck(line, places, ways * passed_s)
            yield None
            if best is not None:
                any_fits = True
                longest = max((float(passed_s[run.start]) for run in best.runs[1:]), default=0.0)
                seconds = step_s(variant, best.seconds, longest, len(best.runs), rounds)
                yield Plan(seconds, variant, best.runs, bool(fractional))
        if any_fits:
            return


def cuttable(graph: LayerGraph, members: Sequence[int]) -> tuple[str, int] | None:
    """Return the dimension along which a node can be cut and its size; None if it stays whole.

    That is a dimension of the outputs and weights of its only layer that it does not read: every part makes
    some channels or features from all inputs.
    """
    layer = graph.layers[members[0]]
    if len(members) > 1 or not layer.parameters:
        return None
    uses = [set(use.dims) for use in (*layer.writes, *layer.parameters)]
    read = {dim for use in layer.reads for dim in use.dims}
    for dim in layer.dims:
        if dim.splittable and dim.size >= 2 and dim.name not in read and all(dim.name in own for own in uses):
            return dim.name, int(dim.size)
    return None


def _line(problem: Problem, work: WorkGraph, parts: Sequence[int], samples: float) -> CutLine:
    """Return the line of a model; what a microbatch leaves is what its layers save."""
    graph, precision = problem.graph, problem.job.precision
    node = np.array([v for v, own in enumerate(work.members) for _ in own], dtype=np.int64)
    saved = [
        samples * sum(graph.tensor[name].bytes_per_sample(precision) for name in graph.layers[i].saves)
        for own in work.members
        for i in own
    ]
    return cut_line(work, summed(node, np.array(saved), work.count), parts)


def _strategy(
    problem: Problem,
    fleet: Fleet,
    work: WorkGraph,
    line: CutLine,
    cuts: Sequence[tuple[str, int] | None],
    plan: Plan,
    size: int,
) -> Strategy:
    """Return the strategy of a plan: nodes of which a stage has all units are whole there."""
    stages = []
    for place, start, stop in plan.runs:
        whole, slices = [], []
        for v, begin, end in line.nodes(start, stop):
            cut = cuts[v]
            if cut is None or end - begin == line.units(v):
                whole.append(v)
                continue
            layer = problem.graph.layers[work.members[v][0]].name
            slices.append(Slice(layer=layer, dim=cut[0], start=begin / cut[1], stop=end / cut[1]))
        stages.append(
            Stage(
                layers=tuple(problem.graph.layers[layer].name for layer in work.layers(whole)),
                slices=tuple(slices),
                meshes=(Mesh(devices=fleet.order[place]),),
                microbatch_samples=size,
            )
        )
    options = {"variant": plan.variant}
    return single(stages=tuple(stages), schedule=SCHEDULE, options=options, job=problem.job.name)


def _even(problem: Problem, evaluator: Evaluator, fleet: Fleet, size: int) -> Iterator[Candidate | None]:
    """Have even stages judged, from which the paper's balancing starts."""
    stages = min(fleet.count, len(units(problem.graph)))
    degrees = Degrees(
        stages=stages, replicas=fleet.size, microbatch_size=size // fleet.size, schedule=SCHEDULE
    )
    devices = [device for group in fleet.order for device in group]
    strategy = degrees.build(problem.graph, problem.needed_cluster, problem.job, devices=devices)
    label = f"{stages} even stages, {ASYNC}, microbatches of {size}"
    yield from judged(problem, evaluator, strategy, label)
