"""One stage on all devices whose layers choose: meshes worth trying, costs from the tables, the strategy.

A mesh has one axis, or two of which the inner one stays within a node. Along every axis a layer splits one of
its dimensions, works on samples of its own, or does the same as its neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from explorer.base.caching import remembered
from explorer.base.checkpoints import checkpoint
from explorer.base.registry import Option
from explorer.cluster import Cluster
from explorer.costs.memory import StageMemory
from explorer.graph import LayerGraph
from explorer.planners._pieces.choice_graph import ChoiceGraph, FloatArray, IntArray
from explorer.planners._pieces.plans import judged
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategy import Mesh, Stage, Strategy, single
from explorer.tables import (
    EdgeTable,
    LayerChoice,
    LayerTable,
    OptionTable,
    lane_of,
    layer_choices,
    with_choices,
)
from explorer.workload import Job

AXES = Option(name="axes", default=2, help="mesh axes over which layers are split", choices=(1, 2))
OUTER, INNER = "outer", "inner"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerMesh:
    """A stage on all devices, and what its layers may choose."""

    stage: Stage
    """The stage, without exceptions."""
    table: EdgeTable
    """Costs of layers and of tensors between them."""
    options: tuple[IntArray, ...]
    """Per layer: choice by option; options are choices that differ for this layer."""
    costs: ChoiceGraph
    """Seconds of a step of the options, and their bytes."""

    @property
    def choices(self) -> tuple[LayerChoice, ...]:
        """All choices."""
        return self.table.layers.choices

    @property
    def label(self) -> str:
        """The mesh in words."""
        return " x ".join(str(size) for _, size in self.stage.meshes[0].axes)


def strategy_of_options(problem: Problem, mesh: LayerMesh, chosen: Sequence[int]) -> Strategy:
    """Return the strategy of one option for each layer."""
    numbers = [int(own[k]) for own, k in zip(mesh.options, chosen, strict=True)]
    return strategy_of_choices(problem, mesh, numbers)


def strategy_of_choices(problem: Problem, mesh: LayerMesh, chosen: Sequence[int]) -> Strategy:
    """Return the strategy of one choice for each layer."""
    stage = with_choices(problem.graph, mesh.stage, mesh.choices, chosen)
    return single(stages=(stage,), job=problem.job.name)


def by_microbatch(
    problem: Problem,
    evaluator: Evaluator,
    plans: Callable[[int], Iterator[tuple[Strategy, str] | None]],
    *,
    until_it_fits: bool = True,
) -> Iterator[Candidate | None]:
    """Have the plans for one microbatch judged, for two, ...

    Args:
        problem: the search problem.
        evaluator: judges.
        plans: yields plans for microbatches of a size, None while working.
        until_it_fits: whether no more microbatches are tried as soon as a plan fits: more calls take longer.
    """
    for size in reversed(divisors(problem.job.global_batch)):
        fits = False
        for plan in plans(size):
            if plan is None:
                yield None
                continue
            for found in judged(problem, evaluator, *plan):
                fits = fits or (found is not None and found.outcome.feasible)
                yield found
        if fits and until_it_fits:
            return


def shapes(problem: Problem, axes: int) -> list[tuple[tuple[str, int], ...]]:
    """Return the axes of the meshes worth trying."""
    count = len(problem.order)
    node = min(problem.needed_cluster.node_size(device) for device in problem.order)
    found: list[tuple[tuple[str, int], ...]] = [((INNER, count),)]
    if axes > 1:
        inner = [k for k in divisors(count) if 1 < k < count and k <= node]
        found += [((OUTER, count // k), (INNER, k)) for k in inner]
    return found


def layer_mesh(
    problem: Problem, axes: Sequence[tuple[str, int]], microbatch: int, *, memory: bool = False
) -> LayerMesh:
    """Return the costs of a mesh, made once for a model, a cluster, a job and its devices.

    Args:
        problem: the search problem.
        axes: name and size of each axis.
        microbatch: samples of a microbatch.
        memory: whether bytes are wanted; they are zero if not.

    Raises:
        InputError: there is no cluster.
    """
    order = tuple(problem.order)
    return _made(
        problem.graph, problem.needed_cluster, problem.job, order, tuple(axes), microbatch, memory=memory
    )


@remembered(64)
def _made(
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    devices: tuple[int, ...],
    axes: tuple[tuple[str, int], ...],
    microbatch: int,
    *,
    memory: bool,
) -> LayerMesh:
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers),
        meshes=(Mesh(devices=devices, axes=axes),),
        microbatch_samples=microbatch,
    )
    lane = lane_of(graph, cluster, job, stage)
    choices = [item for item in layer_choices(graph, stage) if _shares(item, axes, microbatch)]
    table = EdgeTable(LayerTable(lane, choices))
    times, ways = job.global_batch // microbatch, 2 if job.training else 1
    seconds: dict[int, tuple[IntArray, FloatArray, FloatArray]] = {}
    alike = table.layers.alike.tolist()
    for layer, kind in enumerate(alike):
        if kind not in seconds:
            checkpoint()
            seconds[kind] = _costs(table.options, layer, times, ways, microbatch, memory=memory)
    edges, known = {}, {}
    for u, v in table.neighbours():
        checkpoint()
        edge = table.matrix(u, v)
        if id(edge) not in known:
            known[id(edge)] = times * edge.seconds[..., :ways].sum(axis=-1)
        edges[u, v] = known[id(edge)]
    return LayerMesh(
        stage=stage,
        table=table,
        options=tuple([seconds[kind][0] for kind in alike]),
        costs=ChoiceGraph(
            seconds=tuple([seconds[kind][1] for kind in alike]),
            held_bytes=tuple([seconds[kind][2] for kind in alike]),
            edges=edges,
        ),
    )


def _shares(choice: LayerChoice, axes: Sequence[tuple[str, int]], microbatch: int) -> bool:
    """Tell whether whole samples come to every device."""
    if choice.axes is None:
        return True
    return microbatch % math.prod(size for name, size in axes if name not in choice.axes) == 0


def _costs(
    table: OptionTable, layer: int, times: int, ways: int, microbatch: int, *, memory: bool
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the choices of a layer, their seconds of a step and their bytes."""
    found = table.of(layer)
    compute = found.compute_s[:, : 3 if ways > 1 else 1].sum(axis=1)
    seconds = times * (compute + found.comm_s[:, :ways].sum(axis=1)) + found.sync_s
    held = np.zeros(len(seconds))
    if memory:
        held = np.array([_bytes(item, microbatch) for item in table.memory(layer)])
    return found.choices, seconds, held


def _bytes(item: StageMemory, microbatch: int) -> float:
    return item.state_bytes + microbatch * item.activation_bytes_per_sample
