"""Parts of a plan, one for each job, with what the search for features asks of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.strategy import JobStrategy, Mesh, Stage
from explorer.workload import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPart:
    """One job of a plan with its inputs."""

    job: Job
    """The job: model, workload and inputs."""
    strategy: JobStrategy
    """The strategy of the job."""
    graph: LayerGraph
    """The model."""
    cluster: Cluster
    """The devices."""


def parts(resolved: Resolved) -> list[PlanPart]:
    """Return the jobs of a plan with their models."""
    graphs, jobs = resolved.graphs, {job.name: job for job in resolved.plan.workload.jobs}
    only = next(iter(graphs.values()))
    return [
        PlanPart(
            job=jobs[item.job],
            strategy=item,
            graph=graphs.get(jobs[item.job].graph, only),
            cluster=resolved.cluster,
        )
        for item in resolved.plan.strategy.jobs
        if item.job in jobs
    ]


def stage_edges(part: PlanPart) -> set[tuple[int, int]]:
    """Return (from, to) of stages between which tensors pass."""
    home = {name: s for s, stage in enumerate(part.strategy.stages) for name in stage.all_layers}
    graph = part.graph
    return {
        (home[source], home[target])
        for tensor, source in graph.producer.items()
        for target in graph.consumers.get(tensor, ())
        if home[source] != home[target]
    }


def blocks_of(graph: LayerGraph, stage: Stage) -> list[str]:
    """Return the blocks of a stage in order; layers outside of blocks count as blocks of their own."""
    return list(dict.fromkeys(graph.layer[name].block or name for name in stage.all_layers))


def stage_name(index: int, stage: Stage) -> str:
    """Return the name of a stage, or its number."""
    return stage.name or f"stage {index}"


def first_meshes(part: PlanPart) -> list[Mesh]:
    """Return the mesh of every stage's first copy."""
    return [stage.meshes[0] for stage in part.strategy.stages]


def used_nodes(part: PlanPart) -> dict[int, list[int]]:
    """Return node -> its devices that the strategy uses, ascending."""
    nodes: dict[int, list[int]] = {}
    for device in part.strategy.devices:
        nodes.setdefault(part.cluster.node_of(device), []).append(device)
    return nodes


def where_true(part: PlanPart, test: Callable[[Stage], bool]) -> list[str]:
    """Return one text that names all stages for which a test is true; nothing if it is true of none."""
    stages = part.strategy.stages
    found = [stage_name(i, stage) for i, stage in enumerate(stages) if test(stage)]
    if not found:
        return []
    return ["all stages" if len(found) == len(stages) > 1 else listed(found)]


def listed(items: Iterable[object]) -> str:
    """List up to six items, and how many more there are."""
    found = [str(item) for item in items]
    return ", ".join(found[:6]) + (f" and {len(found) - 6} more" if len(found) > 6 else "")
