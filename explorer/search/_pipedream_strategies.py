"""Strategies that can be simulated and run, from a plan under the published cost model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from explorer.graph import LayerGraph
from explorer.search._antichains import States
from explorer.search._pipedream_profile import Profiled
from explorer.search._pipedream_program import Choice, Cut, OptimalPlan, PlanLevel
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategy import ROUND_ROBIN, SPLIT, Mesh, Stage, Strategy, single


@dataclass(frozen=True, slots=True)
class Task:
    """One planning problem of the published optimizer."""

    model: Profiled
    """The model, as the optimizer sees it."""
    states: States
    """Cut positions of the model."""
    levels: tuple[PlanLevel, ...]
    """Levels of interconnect, innermost first."""
    choice: Choice
    """Choices allowed, and what counts."""

    @property
    def devices(self) -> int:
        """Devices of all levels together."""
        return math.prod(level.machines for level in self.levels)


def names_of(task: Task, cut: Cut) -> set[str]:
    """Return the layers of a stage."""
    return task.model.names(task.states.layers(cut.last) & ~task.states.layers(cut.before))


def strategies(problem: Problem, task: Task, plan: OptimalPlan) -> Iterator[tuple[Strategy, str]]:
    """Yield the plan with flushes and split microbatches, and as PipeDream runs it: replicas take turns."""
    placed = _placed(plan.cuts, [problem.order[: task.devices]], task.devices // task.levels[-1].machines)
    stages = _layers_of(problem.graph, [names_of(task, cut) for cut, _ in placed])
    chosen = [(names, devices) for names, (_, devices) in zip(stages, placed, strict=True) if names]
    batch, widest = problem.workload.job.global_batch, max(len(devices) for _, devices in chosen)
    label = "stages on " + "-".join(str(len(devices)) for _, devices in chosen)
    least = max(1, round(task.model.samples))
    for samples in _sizes(batch, max(least, widest), len(chosen)):
        strategy = _strategy(problem, chosen, "1f1b", samples, SPLIT)
        yield strategy, f"{label}, 1f1b, microbatches of {samples}"
    if size := _size_in_turn(batch, least, [len(devices) for _, devices in chosen]):
        for schedule in ("1f1b", "pipedream"):
            strategy = _strategy(problem, chosen, schedule, size, ROUND_ROBIN)
            yield strategy, f"{label}, {schedule}, {size} samples in turn"


def _sizes(batch: int, least: int, stages: int) -> list[int]:
    """Return divisors of the batch, large enough, that make about 2, 4 and 8 microbatches per stage."""
    sizes = [size for size in divisors(batch) if size >= least]
    wanted = [batch / (stages * many) for many in (2, 4, 8)]
    return list(dict.fromkeys(min(sizes, key=lambda size: abs(size - ideal)) for ideal in wanted if sizes))


def _size_in_turn(batch: int, least: int, replicas: Sequence[int]) -> int:
    """Return the largest microbatch of which replicas have equally many, two rounds or more; 0 if none."""
    most = max(2 * max(replicas), 2 * len(replicas))
    fits = [
        size
        for size in divisors(batch)
        if size >= least and batch // size >= most and all(batch // size % count == 0 for count in replicas)
    ]
    return max(fits, default=0)


def _placed(
    cuts: Sequence[Cut], groups: list[tuple[int, ...]], size: int
) -> list[tuple[Cut, tuple[int, ...]]]:
    """Place the innermost stages; every group holds the level's machines of `size` devices each."""
    found: list[tuple[Cut, tuple[int, ...]]] = []
    first = 0
    for cut in cuts:
        machines = [
            group[(first + i) * size : (first + i + 1) * size]
            for group in groups
            for i in range(cut.machines)
        ]
        if cut.inner:
            found += _placed(cut.inner, machines, size // sum(item.machines for item in cut.inner))
        else:
            found.append((cut, tuple(device for machine in machines for device in machine)))
        first += cut.machines
    return found


def _layers_of(graph: LayerGraph, parts: list[set[str]]) -> list[tuple[str, ...]]:
    """Return the layers of each stage in model order; layers that the optimizer left out join neighbours."""
    stage = {name: number for number, names in enumerate(parts) for name in names}
    for layer in reversed(graph.layers):
        if layer.name not in stage:
            readers = [
                stage[name]
                for use in layer.writes
                for name in graph.consumers.get(use.name, ())
                if name in stage
            ]
            if readers:
                stage[layer.name] = min(readers)
    for layer in graph.layers:
        if layer.name not in stage:
            writers = [graph.producer[use.name] for use in layer.reads if use.name in graph.producer]
            stage[layer.name] = max((stage[name] for name in writers), default=0)
    found: list[list[str]] = [[] for _ in parts]
    for layer in graph.layers:
        found[stage[layer.name]].append(layer.name)
    return [tuple(names) for names in found]


def _strategy(
    problem: Problem,
    chosen: Sequence[tuple[tuple[str, ...], tuple[int, ...]]],
    schedule: str,
    samples: int,
    replicas: str,
) -> Strategy:
    stages = tuple(
        Stage(
            layers=names,
            meshes=(Mesh(devices=devices),),
            microbatch_samples=samples,
            replicas=replicas if len(devices) > 1 else SPLIT,
        )
        for names, devices in chosen
    )
    return single(stages=stages, schedule=schedule, job=problem.workload.job.name)
