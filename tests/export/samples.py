"""Plans to export: uniform ones over the registry's range, and uneven cuts."""

from __future__ import annotations

from functools import cache
from typing import Any

import explorer
from explorer.plan import Resolved, make_plan
from explorer.sharding.layouts import context_layout, megatron_layout
from explorer.strategy import Mesh, Stage, Strategy, single

UNIFORM: dict[str, dict[str, Any]] = {
    "one device": {"microbatches": 512},
    "replicas": {"replicas": 8, "microbatches": 4},
    "zero 2": {"replicas": 8, "microbatches": 4, "zero": 2},
    "zero 3": {"replicas": 4, "microbatches": 4, "zero": 3},
    "tensor": {"tensor": 8, "microbatches": 64},
    "3d": {"stages": 2, "replicas": 2, "tensor": 2, "microbatches": 16},
    "3d with zero": {"stages": 2, "replicas": 2, "tensor": 2, "microbatches": 16, "zero": 2},
    "1f1b": {"stages": 4, "microbatches": 16},
    "gpipe": {"stages": 4, "replicas": 2, "microbatches": 8, "schedule": "gpipe"},
    "interleaved": {"stages": 4, "chunks": 2, "microbatches": 8},
    "uneven cuts": {"stages": 4, "microbatches": 8, "cuts": [1 + 14 * 4, 1 + 14 * 11, 1 + 14 * 25]},
    "full recompute": {"stages": 2, "microbatches": 8, "recompute": "full"},
    "selective recompute": {"stages": 2, "microbatches": 8, "recompute": "selective"},
    "eager order": {
        "stages": 2,
        "microbatches": 4,
        "schedule": "custom",
        "options": {"lanes": "0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3\n1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"},
    },
}


@cache
def _inputs(model: str, cluster: str) -> tuple[Any, Any, Any]:
    graph = explorer.load_model(model)
    return graph, explorer.load_cluster(cluster), explorer.default_workload(graph)


def resolved(
    strategy: Strategy | None = None, *, model: str = "llama3-8b", cluster: str = "dgx-a100", **options: Any
) -> Resolved:
    """A plan with its inputs: of a strategy, or uniform by the arguments of `explorer.uniform`."""
    graph, devices, workload = _inputs(model, cluster)
    job = {key: options.pop(key) for key in ("optimizer", "precision", "mode") if key in options}
    workload = workload.with_job(**job)
    strategy = strategy or explorer.uniform(graph, devices, workload.job, **options)
    plan = make_plan(model, graph, cluster, devices, workload, strategy)
    return Resolved(plan=plan, graphs={"model": graph}, cluster=devices)


def uniform(name: str) -> Resolved:
    """One of `UNIFORM`."""
    return resolved(**UNIFORM[name])


def changed(found: Resolved, **fields: Any) -> Resolved:
    """The same with fields of all its stages replaced; `{0: value}` changes stage 0 only."""
    from dataclasses import replace

    strategy = found.plan.strategy.job
    stages = [
        replace(
            stage,
            **{
                key: value.get(i, getattr(stage, key)) if isinstance(value, dict) else value
                for key, value in fields.items()
            },
        )
        for i, stage in enumerate(strategy.stages)
    ]
    plan = replace(found.plan, strategy=Strategy(jobs=(strategy.with_stages(stages),)))
    return replace(found, plan=plan)


def context_parallel() -> Resolved:
    """Replicas x context x tensor with sequence parallelism in one stage."""
    graph = _inputs("llama3-8b", "dgx-a100")[0]
    axes = (("replica", 2), ("context", 2), ("tensor", 2))
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers),
        meshes=(Mesh(devices=tuple(range(8)), axes=axes),),
        microbatch_samples=2,
        layout=(*context_layout(), *megatron_layout(sequence_parallel=True)),
        zero=3,
    )
    return resolved(single(stages=(stage,)))


def folded() -> Resolved:
    """Four stages on two groups, there and back (V), in an order by hand."""
    first = resolved(stages=2, chunks=2, microbatches=2)
    strategy = first.plan.strategy.job
    home = (0, 1, 1, 0)
    from dataclasses import replace

    stages = [replace(stage, meshes=(Mesh(devices=(home[i],)),)) for i, stage in enumerate(strategy.stages)]
    text = "0F0 0F1 3F0 3B0 3F1 3B1 0B0 0B1\n1F0 2F0 1F1 2F1 2B0 1B0 2B1 1B1"
    made = replace(strategy, stages=tuple(stages), schedule="custom", options=(("lanes", text),))
    return replace(first, plan=replace(first.plan, strategy=Strategy(jobs=(made,))))
