"""Strategies and cases that the tests of real runs share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models.synthetic import chain
from explorer.run.cases.build import Prepared, prepare
from explorer.run.model import ModelSpec, model_graph, transformer
from explorer.schedules import SCHEDULES as REGISTERED
from explorer.schedules import Schedule
from explorer.strategy import JobStrategy, Mesh, Stage, UpdateChoice
from explorer.workload import Job
from tests.support.clusters import with_software

SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b", "pipedream", "pipedream_2bw")
_A100 = load_cluster("dgx-a100")
# seconds of actions are as the cases say: no overhead of a call on top
CLUSTER = with_software(_A100, action_overhead_s=0.0)
MODEL = transformer(6, d_model=8, heads=2, ffn=16, seq=4, vocab=16, dtype="fp64")
"""fp64, so that a wrong sum cannot hide behind rounding."""


def stages_of(
    names: list[str],
    p: int,
    d: int,
    *,
    chunks: int = 1,
    size: int = 1,
    turns: bool = False,
    shares: tuple[float, ...] = (),
) -> tuple[Stage, ...]:
    """Layers dealt out evenly over p x chunks stages of d replicas each."""
    count = p * chunks
    cuts = [round(i * len(names) / count) for i in range(count + 1)]
    return tuple(
        Stage(
            layers=tuple(names[cuts[i] : cuts[i + 1]]),
            meshes=(Mesh(devices=tuple((i % p) * d + r for r in range(d))),),
            microbatch_samples=size,
            replicas="round_robin" if turns else "split",
            shares=shares,
        )
        for i in range(count)
    )


def runs(schedule: Schedule) -> bool:
    """Whether two ranks can run its order."""
    return not (schedule.literal or schedule.dispatch or schedule.unmet_even(2, 8))


EVERY = tuple(schedule.name for schedule in REGISTERED if runs(schedule))
"""Every schedule that two ranks can run."""


def placed(schedule: str, p: int, label: str = "placed", **fields: Any) -> Prepared:
    """A case of the small transformer in the schedule's own placement."""
    names = [layer.name for layer in model_graph(MODEL).layers]
    size = 1 if REGISTERED.get(schedule).unmet_even(p, 4) else 2
    stages = placed_stages(schedule, p, names, size=size, options=fields.get("options", ()))
    return real(schedule, p, 1, stages=stages, name=f"{schedule}-{label}", **fields)


def placed_stages(
    schedule: str, p: int, names: list[str], *, size: int = 1, options: tuple[tuple[str, Any], ...] = ()
) -> tuple[Stage, ...]:
    """Layers dealt out evenly over the stages of a schedule's own placement."""
    placement = REGISTERED.get(schedule).with_options(dict(options)).placement
    grid = placement.grid(p)
    count = placement.stages(grid)
    cuts = [round(i * len(names) / count) for i in range(count + 1)]
    return tuple(
        Stage(
            layers=tuple(names[cuts[i] : cuts[i + 1]]),
            meshes=tuple(Mesh(devices=(placement.position(i, copy, grid),)) for copy in range(grid.copies)),
            microbatch_samples=size,
        )
        for i in range(count)
    )


def moved_away(
    p: int, *, microbatches: int = 8, split: bool = True, room: float = 1.6, **fields: Any
) -> Prepared:
    """OptPipe on devices with room for so many microbatches, which send others to the host and fetch them."""
    size = fields.pop("size", 1)
    options = (("offload", True), ("split", split), ("choices", 0))
    more = {"microbatches": microbatches, "batch": microbatches * size, **fields}
    shape = real("optpipe", p, 1, options=options, **more).program.shape
    held = map(max, shape.activation_bytes, shape.waiting_bytes)
    spare = min(cap - room * each for cap, each in zip(shape.memory_cap_bytes, held, strict=True))
    kinds = tuple(
        replace(
            kind,
            memory_bytes=kind.memory_bytes - spare,
            host_bandwidth_bytes_per_s=max(shape.activation_bytes) / max(shape.forward_s),
        )
        for kind in CLUSTER.device_kinds
    )
    return real(
        "optpipe", p, 1, options=options, cluster=replace(CLUSTER, device_kinds=kinds),
        name=f"moved-away-{p}{'' if split else '-whole'}", **more,
    )  # fmt: skip


IN_HALVES = (
    "0F0 0OFFLOAD0 0F1 0FREE0 0OFFLOAD1 0F2 0FREE1 0RELOAD0 0F3 0I0 0RELOAD1 0W0 0I1 0I2 0W1 0I3 0W2 0W3;"
    "1F0 1OFFLOAD0 1F1 1FREE0 1RELOAD0 1OFFLOAD1 1I0 1FREE1 1RELOAD1 1F2 1I1 1W0 1OFFLOAD2 1F3 1FREE2"
    " 1RELOAD2 1I2 1W1 1W2 1I3 1W3"
)
"""An order that moves activations and splits backwards."""


def chunks_of(schedule: str) -> int:
    """Stages per lane that a schedule is tried with."""
    return 2 if schedule.startswith("interleaved") else 1


def real(
    schedule: str,
    p: int,
    d: int,
    *,
    microbatches: int = 4,
    batch: int = 8,
    turns: bool = False,
    optimizer: str = "sgd",
    model: ModelSpec = MODEL,
    shares: tuple[float, ...] = (),
    name: str = "",
    steps: int = 3,
    stages: tuple[Stage, ...] = (),
    options: tuple[tuple[str, Any], ...] = (),
    updates: tuple[UpdateChoice, ...] = (),
    cluster: Cluster = CLUSTER,
) -> Prepared:
    """A checked case of the small transformer."""
    graph = model_graph(model)
    job = Job(global_batch=batch, precision="fp32", optimizer=optimizer)
    names = [layer.name for layer in graph.layers]
    made = stages or stages_of(
        names, p, d, chunks=chunks_of(schedule), size=batch // microbatches, turns=turns, shares=shares
    )
    label = name or f"{schedule}-{p}x{d}-{optimizer}{'-turns' if turns else ''}"
    return prepare(
        label, graph, cluster, job,
        JobStrategy(stages=made, schedule=schedule, options=options, updates=updates),
        steps=steps, model=model, check=True,
    )  # fmt: skip


def dry(schedule: str, p: int, *, microbatches: int = 8, seconds: float = 0.02, steps: int = 2) -> Prepared:
    """A chain of p lanes; forward `seconds`, backward twice that, transfers a tenth of it."""
    chunks = chunks_of(schedule)
    graph = sleeping(p * chunks, seconds)
    stages = stages_of([layer.name for layer in graph.layers], p, 1, chunks=chunks)
    return _dry(f"{schedule}-{p}", graph, JobStrategy(stages=stages, schedule=schedule), microbatches, steps)


def dry_placed(
    schedule: str,
    p: int,
    *,
    microbatches: int,
    seconds: float = 0.02,
    options: tuple[tuple[str, Any], ...] = (),
    steps: int = 2,
) -> Prepared:
    """The same in the schedule's own placement."""
    placement = REGISTERED.get(schedule).with_options(dict(options)).placement
    graph = sleeping(placement.stages(placement.grid(p)), seconds)
    stages = placed_stages(schedule, p, [layer.name for layer in graph.layers], options=options)
    strategy = JobStrategy(stages=stages, schedule=schedule, options=options)
    label = "-".join([schedule, *(str(value) for _, value in options), f"{p}x{microbatches}"])
    return _dry(label, graph, strategy, microbatches, steps)


def dry_moved_away(p: int, *, microbatches: int = 8, seconds: float = 0.02, steps: int = 2) -> Prepared:
    """OptPipe with room for one and a half microbatches; a move takes 0.7 of a forward."""
    size = 2.0**20
    kinds = tuple(
        replace(
            kind,
            host_bandwidth_bytes_per_s=size / (0.7 * seconds),
            memory_bytes=1.5 * size,
            reserved_bytes=0.0,
        )
        for kind in CLUSTER.device_kinds
    )
    graph = chain(
        [seconds] * p, input_grad_s=seconds, weight_grad_s=seconds, activation_bytes=1e-6, saved_bytes=size
    )
    stages = placed_stages("optpipe", p, [layer.name for layer in graph.layers])
    options = (("offload", True), ("choices", 0))
    job = Job(global_batch=microbatches, precision="fp32", optimizer="none")
    strategy = JobStrategy(stages=stages, schedule="optpipe", options=options)
    cluster = replace(CLUSTER, device_kinds=kinds)
    return prepare(f"moved-away-{p}", graph, cluster, job, strategy, steps=steps)


def sleeping(layers: int, seconds: float) -> LayerGraph:
    """A chain of equal layers that take so long forward, and twice as long back."""
    return chain(
        [seconds] * layers, backward_s=2 * seconds, activation_bytes=0.1 * seconds * 3e11, parameter_bytes=1.0
    )


def _dry(name: str, graph: LayerGraph, strategy: JobStrategy, microbatches: int, steps: int) -> Prepared:
    job = Job(global_batch=microbatches, precision="fp32", optimizer="none")
    return prepare(name, graph, CLUSTER, job, strategy, steps=steps)
