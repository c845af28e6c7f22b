"""What is said of single fields: how they are changed, which are refused, and which are only read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from explorer.base.units import DTYPE_BYTES
from explorer.cluster import SURELY, ProductKernels, Software, Tile
from explorer.cluster.calibration import MODEL, UNCALIBRATED, MeasuredStep
from explorer.graph import AGAIN, DROP, KEEP, Layer, LayerGraph, Work
from explorer.routing import Routing
from explorer.strategy import (
    KEPT_ON,
    OFFLOADS,
    OVERLAPS,
    RESHARDS,
    ROUND_ROBIN,
    SPLIT,
    TRANSFERS,
    Boundary,
    Keeping,
    Mesh,
    Slice,
)
from explorer.workload import MODES, OPTIMIZERS
from tests.fields.samples import DECODER, Sample

Edit = Callable[[Sample], Sample]


@dataclass(frozen=True, kw_only=True)
class Changes:
    """How one field is changed where its type does not tell."""

    values: tuple[Any, ...] | None = None
    """Other values; None for those of `samples.others`."""
    edits: tuple[Edit, ...] = ()
    """Changes that take more than another value of one object."""


def values(*items: Any) -> Changes:
    return Changes(values=items)


def edited(*edits: Edit) -> Changes:
    return Changes(values=(), edits=edits)


def with_layers(sample: Sample, change: Callable[[int, Layer], Layer]) -> Sample:
    graph = sample.graph
    assert isinstance(graph, LayerGraph)
    return sample._replace(
        graph=replace(graph, layers=tuple(change(i, layer) for i, layer in enumerate(graph.layers)))
    )


def later_boundary(sample: Sample) -> Sample:
    """The first stage's last layers go to the second one."""
    first, second, *rest = sample.strategy.job.stages
    cut = len(first.layers) // 2
    stages = (
        replace(first, layers=first.layers[:cut]),
        replace(second, layers=(*first.layers[cut:], *second.layers)),
        *rest,
    )
    return sample._replace(strategy=sample.strategy.with_job(sample.strategy.job.with_stages(stages)))


def longer_residual(sample: Sample) -> Sample:
    """The last addition reads what the first layer wrote, which then crosses every boundary."""
    graph = sample.graph
    assert isinstance(graph, LayerGraph)
    written = graph.layers[0].writes[0]
    last = max(i for i, layer in enumerate(graph.layers) if layer.name.endswith("mlp.add"))

    def change(i: int, layer: Layer) -> Layer:
        reads = (*layer.reads[:1], replace(layer.reads[1], name=written.name)) if i == last else layer.reads
        return replace(layer, reads=reads)

    return with_layers(sample, change)


def exchanged_links(sample: Sample) -> Sample:
    """The first two links of the cluster lead to each other's devices."""
    first, second, *rest = sample.cluster.links
    links = (replace(first, target=second.target), replace(second, target=first.target), *rest)
    return sample._replace(cluster=replace(sample.cluster, links=links))


def exchanged_sources(sample: Sample) -> Sample:
    """Two links that lead to one device come from each other's."""
    links = list(sample.cluster.links)
    a = next(i for i, link in enumerate(links) if link.target == 2)
    b = next(i for i, link in enumerate(links) if link.target == 2 and i != a)
    links[a], links[b] = (
        replace(links[a], source=links[b].source),
        replace(links[b], source=links[a].source),
    )
    return sample._replace(cluster=replace(sample.cluster, links=tuple(links)))


def in_two_classes(sample: Sample) -> Sample:
    return with_layers(sample, lambda _, layer: replace(layer, colocation="together"))


def fewer_jobs(sample: Sample) -> Sample:
    first = sample.workload.jobs[0]
    parts = tuple(part for part in sample.strategy.jobs if part.job == first.name)
    return sample._replace(
        workload=replace(sample.workload, jobs=(first,)), strategy=replace(sample.strategy, jobs=parts)
    )


def quicker_kinds(sample: Sample) -> Sample:
    kinds = tuple(
        replace(kind, peak_flops_per_s=tuple((name, 2 * peak) for name, peak in kind.peak_flops_per_s))
        for kind in sample.cluster.device_kinds
    )
    return sample._replace(cluster=replace(sample.cluster, device_kinds=kinds))


def wider(sample: Sample) -> Sample:
    graph = sample.graph
    assert isinstance(graph, LayerGraph)
    tensors = tuple(replace(item, shape=tuple(2 * size for size in item.shape)) for item in graph.tensors)
    return sample._replace(graph=replace(graph, tensors=tensors))


def heavier(sample: Sample) -> Sample:
    graph = sample.graph
    assert isinstance(graph, LayerGraph)
    items = tuple(replace(item, shape=tuple(2 * size for size in item.shape)) for item in graph.parameters)
    return sample._replace(graph=replace(graph, parameters=items))


def with_boundary(sample: Sample) -> Sample:
    job = replace(sample.strategy.job, boundaries=(Boundary(source=0, target=1, codec="fp16"),))
    return sample._replace(strategy=sample.strategy.with_job(job))


def uneven_slices(sample: Sample) -> Sample:
    """The first slice takes three quarters."""
    stages = []
    for stage in sample.strategy.job.stages:
        slices = tuple(
            Slice(
                layer=s.layer,
                dim=s.dim,
                start=0.0 if not s.start else 0.75,
                stop=0.75 if not s.start else 1.0,
            )
            for s in stage.slices
        )
        stages.append(replace(stage, slices=slices))
    return sample._replace(strategy=sample.strategy.with_job(sample.strategy.job.with_stages(stages)))


def other_dimension(sample: Sample) -> Sample:
    """The slices are parts of the sequence."""
    job = sample.strategy.job
    stages = [
        replace(stage, slices=tuple(replace(s, dim="seq") for s in stage.slices)) for stage in job.stages
    ]
    return sample._replace(strategy=sample.strategy.with_job(job.with_stages(stages)))


def whole_layer(sample: Sample) -> Sample:
    """The layer that was cut is whole in its first stage."""
    found: list[str] = []
    stages = []
    for stage in sample.strategy.job.stages:
        own = tuple(s.layer for s in stage.slices if s.layer not in found)
        found += own
        stages.append(replace(stage, slices=(), layers=(*stage.layers, *own)))
    kept = [stage for stage in stages if stage.layers]
    return sample._replace(strategy=sample.strategy.with_job(sample.strategy.job.with_stages(kept)))


COMPUTE, MODEL_KEY = "big.compute", MODEL + DECODER
WORK = Work(flops=1e9, moved_elements=1e6)
CHANGES: dict[tuple[str, str], Changes] = {
    ("AttentionKernel", "name"): values("flash-3", "xformers"),
    ("Calibration", "priors"): values(*(((COMPUTE, by), (MODEL_KEY, by)) for by in (0.01, 0.3))),
    ("Calibration", "steps"): values((MeasuredStep(name="another", step_time_s=2e-3, sd=0.01),), ()),
    ("Cluster", "calibration"): values(UNCALIBRATED),
    ("Cluster", "device_kinds"): edited(quicker_kinds),
    ("DeviceKind", "peak_flops_per_s"): values(
        (("fp8", 4e14), ("bf16", 3e14), ("fp16", 3e14), ("fp32", 3e13))
    ),
    ("DeviceKind", "model_seconds"): values(((DECODER, 1.1),)),
    ("DeviceKind", "like"): values(("v100-sxm2-16gb",)),
    ("DeviceKind", "software"): values(Software(host_issue_s=1e-3)),
    ("DeviceKind", "product_kernels"): values(
        (("fp16", ProductKernels(tiles=(Tile(rows=64, columns=64, fraction=0.1),))),)
    ),
    ("DeviceKind", "measured_products"): values(()),
    ("DeviceKind", "unaligned_fraction"): values(0.4),
    ("DeviceKind", "fp8_gradient_fraction"): values(0.5),
    ("DeviceKind", "memory_margin"): values(SURELY),
    ("Dim", "name"): values("elsewhere"),
    ("Event", "kind"): values("fail", "join"),
    ("Job", "framework"): values("megatron-2021", "torch-eager"),
    ("Job", "graph"): values("small", "large"),
    ("Job", "mode"): values("infer", "prefill"),
    ("Job", "precision"): values("fp32", "bf16"),
    ("Job", "gradient_precision"): values("fp32"),
    ("Job", "optimizer"): values("sgd", "none"),
    ("JobStrategy", "stages"): edited(later_boundary),
    ("JobStrategy", "schedule"): values("gpipe"),
    ("JobStrategy", "options"): values((("blocking", True),)),
    ("JobStrategy", "boundaries"): edited(with_boundary),
    ("JobStrategy", "transfers"): values("gather", "broadcast", "best"),
    ("JobStrategy", "checkpoint_period_s"): values(10.0),
    ("Layer", "kind"): values("conv", "linear", "attention"),
    ("Layer", "documents"): values((16,), (8, 24)),
    ("Layer", "block"): values("", "elsewhere"),
    ("Layer", "forward"): values(WORK),
    ("Layer", "input_grad"): values(WORK),
    ("Layer", "weight_grad"): values(WORK),
    ("Layer", "last_read_by"): values(("input",), ("weight",), ("input", "input")),
    ("Layer", "device_kinds"): values(("another",)),
    ("Layer", "colocation"): edited(in_two_classes),
    ("Layer", "selective"): values("keep", "again", "drop"),
    ("LayerGraph", "layers"): edited(lambda s: with_layers(s, lambda _, layer: replace(layer, forward=WORK))),
    ("LayerGraph", "tensors"): edited(wider),
    ("LayerGraph", "parameters"): edited(heavier),
    ("Level", "scope"): values("node", "all", 2, 4),
    ("Link", "source"): edited(exchanged_sources),
    ("Link", "target"): edited(exchanged_links),
    ("Link", "shared"): values("", "bus"),
    ("Measured", "device_kind"): values("small", "big", "*"),
    ("MeasuredStep", "name"): values("another"),
    ("MeasuredStep", "sd"): values(0.01, 0.2),
    ("MeasuredStep", "slopes"): values(((COMPUTE, 0.1),), ()),
    ("NodeGroup", "device_kind"): values("small", "big"),
    ("Parameter", "dtype"): values("fp32", "int8"),
    ("Protocol", "name"): values("another"),
    ("ProductTimes", "points"): values(((65.0, 16.0, 16.0, 1e-2),)),
    ("ProductKernels", "tiles"): values((Tile(rows=64, columns=64, fraction=0.1),)),
    ("ProductKernels", "splits"): values((1,), (1, 8)),
    ("ProductKernels", "sustained"): values(()),
    ("Layer", "routing"): values(None, Routing(imbalance=1.2)),
    ("Routing", "dispatch"): values("all_gather"),
    ("Routing", "kernels"): values("each"),
    ("Routing", "capacity"): values(1.0),
    ("Sharding", "layers"): values(("loss",), ("norm", "head")),
    ("Sharding", "meshes"): values((Mesh(devices=(0, 1, 2, 3), axes=(("replica", 2), ("wide", 2))),)),
    ("Slice", "layer"): edited(whole_layer),
    ("Slice", "dim"): edited(other_dimension),
    ("Slice", "start"): edited(uneven_slices),
    ("Slice", "stop"): edited(uneven_slices),
    ("Software", "framework"): values(""),
    ("Stage", "meshes"): values((Mesh(devices=(1,)),)),
    ("Stage", "replicas"): values("round_robin", "split"),
    ("Stage", "slices"): edited(uneven_slices),
    ("Stage", "axis_shares"): values((("tensor", (3.0, 1.0)),), (("expert", (2.0, 1.0, 1.0, 1.0)),)),
    ("Stage", "recompute"): values("none", "selective", "full"),
    ("Stage", "reshard"): values(*RESHARDS),
    ("Stage", "keeping"): values((Keeping(layers=("*mlp*",), recompute="full"),)),
    ("Keeping", "layers"): values(("*mlp*",)),
    ("Keeping", "recompute"): values("none", "selective", "full", "output"),
    ("Keeping", "on"): values("host", "device"),
    ("Strategy", "jobs"): edited(fewer_jobs),
    ("Sync", "parameters"): values(("nothing.of.this", "up*"), ("embed*",)),
    ("Sync", "method"): values("parameter_server", "all_reduce"),
    ("UpdateChoice", "rule"): values("stale", "periodic"),
    ("UpdateChoice", "parameters"): values(("nothing.of.this", "up*"), ("embed*",)),
    ("UpdateChoice", "options"): values((("period", 2),)),
    ("Tensor", "dtype"): values("fp32", "int8"),
    ("Use", "name"): edited(longer_residual),
    ("Workload", "jobs"): edited(fewer_jobs),
}
"""Where the type of a field does not say what else it might hold."""

REFUSED: dict[tuple[str, str], str] = {
    ("DeviceKind", "compute_lanes"): "compute_lanes",
    ("JobStrategy", "boundaries"): "no codec",
    ("Layer", "colocation"): "must share a device",
    ("Layer", "device_kinds"): "may run on",
    ("Layer", "release_s"): "release_s",
}
"""What no prediction follows, with words of the refusal."""

DESCRIPTIVE: dict[tuple[str, str], str] = {
    ("AttentionKernel", "sources"): "provenance: error bands and scores read it",
    ("Cluster", "name"): "identity",
    ("Cluster", "title"): "for people",
    ("Cluster", "sources"): "provenance: error bands and scores read it",
    ("DeviceKind", "name"): "identity: node groups, measured seconds and calibration name it",
    ("DeviceKind", "maker"): "identity: the band of a prediction widens with the distance of hardware",
    ("DeviceKind", "generation"): "identity: the band of a prediction widens with the distance of hardware",
    ("DeviceKind", "sources"): "provenance: error bands and scores read it",
    (
        "ProductKernels",
        "quantising",
    ): "of a product repeated alone: `explorer score matrix_products` reads it",
    ("Quantising", "depth_s"): "of a product repeated alone: `explorer score matrix_products` reads it",
    ("Quantising", "element_bytes"): "of a product repeated alone, as the others of this class",
    ("Quantising", "row_s"): "of a product repeated alone, as the others of this class",
    ("Job", "name"): "identity: the strategy's part has the same",
    (
        "Job",
        "sequence_length",
    ): "tokens of a sample for throughput in tokens; the graph was made for a length",
    ("Job", "epochs_source"): "provenance: a search for time to accuracy prints it",
    ("JobStrategy", "job"): "identity: the workload's job has the same",
    ("Layer", "name"): "identity",
    ("Layer", "backward_of"): "which explicit backward node it is: reading the file folds them",
    ("LayerGraph", "name"): "identity",
    ("LayerGraph", "defaults"): "the workload that a model states for itself: `default_workload` reads it",
    ("LayerGraph", "source"): "provenance",
    ("Level", "name"): "identity: shares of links are called so",
    ("Level", "kind"): "colours and words of the link",
    ("Level", "sources"): "provenance: error bands and scores read it",
    ("Link", "kind"): "colours and words of the link",
    ("Measured", "halves"): "provenance: the source gave one backward time",
    ("MeasuredStep", "name"): "provenance: what was run",
    (
        "MeasuredStep",
        "step_time_s",
    ): "provenance: what it corrected is in the numbers, and how well in `sd` and `slopes`",
    ("NodeGroup", "max_count"): "the most nodes of a pool, of which a search takes what it needs",
    ("Parameter", "name"): "identity",
    ("Software", "sources"): "provenance: error bands and scores read it",
    ("Stage", "name"): "for people",
    ("Tensor", "name"): "identity",
}
"""What is there to be read, and changes no number, with the reason."""

_BANDS = {"Calibration": ("priors", "steps"), "Cluster": ("calibration",), "MeasuredStep": ("sd", "slopes")}
OF_BANDS: frozenset[tuple[str, str]] = frozenset(
    (kind, field) for kind, fields in _BANDS.items() for field in fields
)
"""What says how well a prediction is known, and changes its band, not the prediction."""

WHOLE_CLASSES: dict[str, str] = {
    "Boundary": "every codec is refused, so none of its fields has a use yet",
    "Defaults": "read by `default_workload` alone, which is tested beside",
    "Source": "provenance of numbers: error bands and scores read it",
}
"""Classes none of whose fields acts in a prediction, with the reason."""

CHOICES: dict[tuple[str, str], tuple[Any, ...]] = {
    ("Event", "kind"): ("fail", "leave", "join"),
    ("Job", "mode"): MODES,
    ("Job", "optimizer"): tuple(OPTIMIZERS),
    ("Job", "precision"): tuple(DTYPE_BYTES),
    ("JobStrategy", "transfers"): TRANSFERS,
    ("Keeping", "on"): KEPT_ON,
    ("Keeping", "recompute"): ("none", "selective", "full", "output"),
    ("Layer", "selective"): (KEEP, AGAIN, DROP),
    ("Stage", "offload"): tuple((what,) for what in OFFLOADS),
    ("Stage", "overlap"): tuple((("tensor", how),) for how in OVERLAPS),
    ("Stage", "recompute"): ("none", "selective", "full"),
    ("Stage", "replicas"): (SPLIT, ROUND_ROBIN),
    ("Stage", "reshard"): RESHARDS,
    ("Stage", "zero"): (0, 1, 2, 3),
    ("Sync", "method"): ("all_reduce", "parameter_server", "sharded_table"),
}
"""Fields that name one of several ways: each of them acts, or is refused by its name."""
