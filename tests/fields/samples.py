"""Small plans that between them use every field, and how a field of each is changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from explorer.cluster import (
    AttentionKernel,
    Cluster,
    Curve,
    DeviceKind,
    Event,
    HeadSpeed,
    Level,
    Link,
    NodeGroup,
    ProductKernels,
    ProductTimes,
    Protocol,
    Software,
    Tile,
)
from explorer.cluster.calibration import Calibration, MeasuredStep
from explorer.graph import Defaults, LayerGraph, Measured
from explorer.models.builder import GraphBuilder
from explorer.models.gpt import attention_half, feed_forward_half
from explorer.models.synthetic import chain
from explorer.routing import Routing
from explorer.sharding.layouts import expert_layout, megatron_layout
from explorer.strategy import JobStrategy, Keeping, Mesh, Sharding, Slice, Stage, Strategy, Sync, UpdateChoice
from explorer.workload import Job, Workload


class Sample(NamedTuple):
    """All that `simulate` takes."""

    graph: LayerGraph | dict[str, LayerGraph]
    cluster: Cluster
    workload: Workload
    strategy: Strategy


def decoder(blocks: int = 2, embed: int = 256, seq: int = 64) -> LayerGraph:
    """A GPT-like model."""
    defaults = Defaults(global_batch=16, sequence_length=seq, precision="fp16", optimizer="adam")
    b = GraphBuilder("decoder", defaults=defaults)
    tokens, targets = (b.input(part, {"seq": seq}, dtype="int64") for part in ("tokens", "targets"))
    x = b.embedding("embed", tokens, {"vocab": 1001}, {"embed": embed})
    for i in range(blocks):
        with b.block(f"layers.{i}"):
            x = b.add("attention.add", attention_half(b, b.norm("attention.norm", x), 8), x)
            x = b.add("mlp.add", feed_forward_half(b, b.norm("mlp.norm", x)), x)
    b.loss("loss", b.linear("head", b.norm("norm", x), {"vocab": 1001}), targets)
    return b.build()


CURVES = (
    ("matmul", Curve(points=((1e6, 0.3), (1e9, 0.6)))),
    ("attention", Curve(points=((1e6, 0.2), (1e9, 0.4)))),
    ("memory", Curve(points=((1e4, 0.5), (1e9, 0.8)))),
)
TILES = (Tile(rows=128, columns=128, fraction=0.8), Tile(rows=64, columns=64, fraction=0.6))
KIND = DeviceKind(
    name="big", memory_bytes=1e10, memory_bandwidth_bytes_per_s=1e12, efficiency=CURVES, tiles=TILES,
    peak_flops_per_s=(("fp8", 2e14), ("bf16", 1.2e14), ("fp16", 1e14), ("fp32", 1e13)), compute_units=100,
    tile_depth=100.0,
    unaligned_fraction=0.8, launch_overhead_s=1e-6, host_bandwidth_bytes_per_s=1e10, price_per_hour=2.0,
    idle_watts=50.0, busy_watts=300.0, software=Software(memory_band=0.05),
)  # fmt: skip
SMALL = replace(KIND, name="small", peak_flops_per_s=(("fp16", 5e13), ("fp32", 5e12)))


def cluster(**changes: Any) -> Cluster:
    """A node of four quick devices and one of four slow ones."""
    given: dict[str, Any] = {
        "name": "two nodes", "device_kinds": (KIND, SMALL),
        "nodes": (
            NodeGroup(count=1, device_kind="big", devices_per_node=4),
            NodeGroup(count=1, device_kind="small", devices_per_node=4),
        ),
        "levels": (
            Level(name="inner", kind="nvlink", scope="node", latency_s=2e-6, bandwidth_bytes_per_s=1e11,
                  device_bytes_per_s=1.5e11, collective_efficiency=0.8, collective_overhead_s=3e-6,
                  operation_efficiency=(("all_gather", 0.6),)),
            Level(name="outer", kind="ethernet", scope="all", latency_s=2e-5, bandwidth_bytes_per_s=1e10,
                  uplink_bytes_per_s=1.5e10),
        ),
    }  # fmt: skip
    return Cluster(**given | changes)


def names(graph: LayerGraph) -> list[str]:
    return [layer.name for layer in graph.layers]


JOB = Job(
    global_batch=16, sequence_length=64, precision="fp16", optimizer="adam", samples_per_epoch=1000,
    epochs=((8, 1.0), (32, 2.0)),
)  # fmt: skip


def pipeline(**changes: Any) -> Sample:
    """Two stages of two replicas of two tensor-parallel devices."""
    graph = decoder()
    half = next(i for i, layer in enumerate(graph.layers) if layer.block == "layers.1")
    axes = (("replica", 2), ("tensor", 2))
    stages = tuple(
        Stage(
            layers=tuple(part), meshes=(Mesh(devices=devices, axes=axes),), microbatch_samples=4,
            layout=megatron_layout(),
        )
        for part, devices in ((names(graph)[:half], (0, 1, 2, 3)), (names(graph)[half:], (4, 5, 6, 7)))
    )  # fmt: skip
    strategy = JobStrategy(stages=stages, **changes)
    return Sample(graph, cluster(), Workload(jobs=(JOB,)), Strategy(jobs=(strategy,)))


def with_stages(sample: Sample, **changes: Any) -> Sample:
    """The same with fields of all its stages changed."""
    job = sample.strategy.job
    return sample._replace(
        strategy=sample.strategy.with_job(job.with_stages(replace(stage, **changes) for stage in job.stages))
    )


def with_layers_of(sample: Sample, **changes: Any) -> Sample:
    """The same with fields of all its layers changed."""
    assert isinstance(sample.graph, LayerGraph)
    layers = tuple(replace(layer, **changes) for layer in sample.graph.layers)
    return sample._replace(graph=replace(sample.graph, layers=layers))


def one_stage(graph: LayerGraph, devices: int = 2, *, where: Cluster | None = None, **changes: Any) -> Sample:
    """Everything on replicas of one device each."""
    job = {key: changes.pop(key) for key in ("sync", "updates", "transfers", "schedule") if key in changes}
    axes = changes.pop("axes", ())
    mesh = Mesh(devices=tuple(range(devices)), axes=axes)
    stage = Stage(layers=tuple(names(graph)), meshes=(mesh,), microbatch_samples=4, **changes)
    return Sample(
        graph,
        where or cluster(),
        Workload(jobs=(JOB,)),
        Strategy(jobs=(JobStrategy(stages=(stage,), **job),)),
    )


def linked() -> Sample:
    """Three devices joined by links of their own, two of which share a bus."""
    ends = [(a, b) for a in range(3) for b in range(3) if a != b]
    links = tuple(
        Link(
            source=a, target=b, kind="pcie", latency_s=1e-5 * (1 + a + 2 * b), bandwidth_bytes_per_s=1e9,
            collective_efficiency=0.8, shared="bus" if a == 0 else "",
        )
        for a, b in ends
    )  # fmt: skip
    where = cluster(
        nodes=(NodeGroup(count=1, device_kind="big", devices_per_node=3),), levels=(), links=links,
        shared=(("bus", 1.2e9),),
    )  # fmt: skip
    graph = decoder()
    half = len(graph.layers) // 2
    stages = (
        Stage(layers=tuple(names(graph)[:half]), meshes=(Mesh(devices=(0,)),), microbatch_samples=4),
        Stage(layers=tuple(names(graph)[half:]), meshes=(Mesh(devices=(1, 2)),), microbatch_samples=4),
    )
    return Sample(graph, where, Workload(jobs=(JOB,)), Strategy(jobs=(JobStrategy(stages=stages),)))


def sparse() -> Sample:
    """A table of which each step reads few rows, and a product; two replicas, reduced by a server."""
    b = GraphBuilder("table", defaults=Defaults(global_batch=16))
    x = b.embedding("embed", b.input("rows", {"seq": 8}, dtype="int64"), {"vocab": 1e5}, {"embed": 64})
    b.linear("up", x, {"ffn": 64})
    graph = b.build()
    parameters = tuple(
        replace(item, density=0.01) if "embed" in item.name else item for item in graph.parameters
    )
    sync = (Sync(parameters=("embed*",), method="parameter_server", servers=(4,)), Sync(parameters=("up*",)))
    return one_stage(replace(graph, parameters=parameters), sync=sync)


def recurrent() -> Sample:
    """A long short-term memory: a cell that runs once a step."""
    b = GraphBuilder("lstm", defaults=Defaults(global_batch=16))
    b.lstm("cell", b.input("x", {"seq": 32, "embed": 64}), 64)
    return one_stage(b.build())


def routed() -> Sample:
    """Experts over four replicas, whose busiest expert has more rows than others, up to its room."""
    routing = Routing(kernels="streams", capacity=1.9, imbalance=1.5)
    b = GraphBuilder("experts", defaults=Defaults(global_batch=16))
    x = b.norm("norm", b.embedding("embed", b.input("x", {"seq": 64}), {"vocab": 100}, {"embed": 64}))
    b.experts("moe", x, b.router("router", x, 8), ffn=128, active=2, routing=routing)
    own = Sharding(
        layers=("moe",), layout=expert_layout(),
        meshes=(Mesh(devices=(0, 1, 2, 3), axes=(("replica", 1), ("expert", 4))),),
    )  # fmt: skip
    return with_stages(one_stage(b.build(), 4), shardings=(own,))


def told(**changes: Any) -> Sample:
    """Layers of stated seconds, by kind of device, batch and tensor degree."""
    graph = chain([1e-3, 2e-3, 1e-3, 2e-3], activation_bytes=1e6, parameter_bytes=1e7, saved_bytes=1e6)
    measured = (
        Measured(forward_s=1e-3, input_grad_s=1e-3, weight_grad_s=1e-3, device_kind="big", batch=1.0),
        Measured(forward_s=3e-3, input_grad_s=2e-3, weight_grad_s=1e-3, device_kind="big", batch=4.0),
        Measured(forward_s=4e-3, input_grad_s=4e-3, weight_grad_s=4e-3, batch=1.0),
    )
    graph = replace(graph, layers=tuple(replace(layer, measured=measured) for layer in graph.layers))
    stages = tuple(
        Stage(
            layers=tuple(names(graph)[2 * i : 2 * i + 2]),
            meshes=(Mesh(devices=(4 * i,)),),
            microbatch_samples=2,
        )
        for i in range(2)
    )
    return Sample(
        graph, cluster(), Workload(jobs=(JOB,)), Strategy(jobs=(JobStrategy(stages=stages, **changes),))
    )


def together() -> Sample:
    """Two jobs on the same devices, whose layers take three quarters of them each."""
    first = told()
    graph = replace(first.graph, layers=tuple(replace(item, occupancy=0.75) for item in first.graph.layers))
    other = replace(JOB, name="other")
    strategy = Strategy(jobs=(first.strategy.job, replace(first.strategy.job, job="other")))
    return Sample(graph, first.cluster, Workload(jobs=(JOB, other)), strategy)


def peers() -> Sample:
    """Devices that come and go under a schedule that dispatches."""
    sample = told(schedule="swarm")
    stages = tuple(
        replace(stage, meshes=(Mesh(devices=devices),), replicas="round_robin", microbatch_samples=1)
        for stage, devices in zip(sample.strategy.job.stages, ((0, 1), (4, 5, 6)), strict=True)
    )
    events = (Event(time_s=0.01, device=5, kind="leave"), Event(time_s=0.02, device=5, kind="join"))
    return sample._replace(
        cluster=cluster(events=events),
        strategy=sample.strategy.with_job(sample.strategy.job.with_stages(stages)),
    )


def cut() -> Sample:
    """A product whose halves two stages have."""
    graph = decoder()
    at = next(i for i, layer in enumerate(graph.layers) if layer.name.endswith("mlp.up"))
    name = graph.layers[at].name
    parts = (names(graph)[:at], names(graph)[at + 1 :])
    stages = tuple(
        Stage(
            layers=tuple(part), meshes=(Mesh(devices=(4 * i,)),), microbatch_samples=4,
            slices=(Slice(layer=name, dim="ffn", start=0.5 * i, stop=0.5 * (i + 1)),),
        )
        for i, part in enumerate(parts)
    )  # fmt: skip
    return Sample(graph, cluster(), Workload(jobs=(JOB,)), Strategy(jobs=(JobStrategy(stages=stages),)))


def told_with_collectives() -> Sample:
    """Layers whose seconds were measured in groups of two devices."""
    base = one_stage(decoder(1), 2, axes=(("replica", 1), ("tensor", 2)), layout=megatron_layout())
    graph = base.graph
    assert isinstance(graph, LayerGraph)
    seconds = Measured(forward_s=1e-4, input_grad_s=1e-4, weight_grad_s=1e-4, batch=4.0, tensor_degree=2)
    layers = tuple(replace(item, measured=(seconds,)) for item in graph.layers)
    return base._replace(graph=replace(graph, layers=layers))


def split_backward() -> Sample:
    """Input and weight gradients apart, in an order by hand."""
    base = told(schedule="custom", options=(("lanes", SPLIT),))
    return with_stages(base, microbatch_samples=8)


def two_models() -> Sample:
    """Two jobs of different models on different devices."""
    graphs = {"small": decoder(1), "large": decoder(1, embed=512)}
    jobs = tuple(replace(JOB, name=name, graph=name) for name in graphs)
    parts = tuple(
        replace(one_stage(graph).strategy.job, job=name) for name, graph in graphs.items()
    )  # fmt: skip
    stage = replace(parts[1].stages[0], meshes=(Mesh(devices=(4, 5)),))
    strategy = Strategy(jobs=(parts[0], parts[1].with_stages([stage])))
    return Sample(graphs, cluster(), Workload(jobs=jobs), strategy)


def sharded() -> Sample:
    """A stage whose head is laid out on a mesh of its own."""
    base = one_stage(decoder(), 4, axes=(("replica", 2), ("tensor", 2)), layout=megatron_layout())
    head = Sharding(
        layers=("head",), layout=(("vocab", "wide"),),
        meshes=(Mesh(devices=(0, 1, 2, 3), axes=(("replica", 1), ("wide", 4))),),
    )  # fmt: skip
    return with_stages(base, shardings=(head,))


def breadth_first() -> Sample:
    """All microbatches through one chunk, then through the next, with weights sharded over two replicas."""
    graph = chain([1e-3] * 4, parameter_bytes=1e6, activation_bytes=10.0, saved_bytes=10.0)
    places = ((0, 1), (2, 3)) * 2
    stages = tuple(
        Stage(layers=(layer,), meshes=(Mesh(devices=devices),), microbatch_samples=4, zero=3)
        for layer, devices in zip(names(graph), places, strict=True)
    )
    job = JobStrategy(stages=stages, schedule="gpipe")
    return Sample(graph, cluster(), Workload(jobs=(JOB,)), Strategy(jobs=(job,)))


SPLIT = "0F0 0F1 0I0 0W0 0I1 0W1; 1F0 1I0 1F1 1I1 1W0 1W1"


def under_a_framework() -> Sample:
    """Software that a job names, on devices whose numbers were measured under it."""
    known = Software(framework="megatron-2021", host_issue_s=2e-4)
    base = one_stage(decoder(1), where=cluster(device_kinds=(replace(KIND, software=known), SMALL)))
    return base._replace(workload=Workload(jobs=(replace(JOB, framework="megatron-2021"),)))


def by_its_kernels() -> Sample:
    """Devices with two kernels of attention, of which the job's software runs the second."""
    slow = (HeadSpeed(head=16, forward=1e-5, backward=1e-5), HeadSpeed(head=64, forward=3e-5, backward=2e-5))
    old, new = (
        AttentionKernel(
            name=name, heads=slow, rows=32, columns=32, imbalance=0.5, exposed=exposed, start_s=1e-6,
            sustained=0.1,
        )
        for name, exposed in (("flash-1", 1.0), ("flash-2", 0.5))
    )  # fmt: skip
    kind = replace(KIND, attention_kernels=(old, new), compute_units=8)
    base = one_stage(decoder(1), where=cluster(device_kinds=(kind, SMALL)))
    return base._replace(workload=Workload(jobs=(replace(JOB, framework="torch-eager"),)))


def by_measured_products() -> Sample:
    """Devices some of whose products were measured by shape."""
    base = by_product_kernels()
    (kind, *others) = base.cluster.device_kinds
    rows = (65.0 * 2**power for power in range(6))
    times = ProductTimes(points=tuple((m, n, 256.0, 1e-4) for m in rows for n in (256.0, 1024.0)))
    measured = replace(kind, measured_products=(("fp16", times),))
    return base._replace(cluster=replace(base.cluster, device_kinds=(measured, *others)))


def by_product_kernels() -> Sample:
    """Devices whose products are priced by kernels of their precision."""
    kernels = ProductKernels(
        tiles=TILES, splits=(1, 2), tile_depth=10.0, partial_wave=0.5, memory_fraction=0.001,
        exposed_memory=0.2, sustained=((1e-9, 1.0), (1e-3, 0.7)), uneven_rows_fraction=0.8,
    )  # fmt: skip
    kind = replace(
        KIND,
        tiles=(),
        tile_depth=0.0,
        product_kernels=(("fp16", kernels),),
        settled_fraction=0.8,
        compute_units=25,
        memory_bandwidth_bytes_per_s=1e14,
    )
    base = one_stage(decoder(1, seq=65), where=cluster(device_kinds=(kind, SMALL)))
    return base._replace(workload=Workload(jobs=(replace(JOB, sequence_length=65),)))


def protocol_levels() -> tuple[Level, ...]:
    """Levels with protocols for small and large messages, of which the inner one's switch adds up."""
    inner, outer = cluster().levels
    early = Protocol(
        name="early", overhead_s=1e-6, step_s=2e-6, shares=(("all_reduce", 0.9), ("all_gather", 0.9))
    )
    late = Protocol(
        name="late", overhead_s=8e-6, step_s=1e-6, slice_s=1e-6, own_copy=(("reduce_scatter", 0.5),)
    )
    adding = Protocol(name="adding", step_s=1e-6, shares=(("all_reduce", 0.9),), in_switch=True)
    return (
        replace(inner, protocols=(late, early, adding)),
        replace(
            outer,
            protocols=(replace(late, overhead_s=8e-5), replace(early, overhead_s=1e-5)),
            crossing_slowdown=0.1,
        ),
    )


def by_protocols() -> Sample:
    """Collectives inside a node with several protocols, one of them of the switch."""
    where = cluster(levels=protocol_levels())
    return one_stage(
        decoder(), 4, where=where, axes=(("replica", 2), ("tensor", 2)), layout=megatron_layout(), zero=2
    )


def rings_that_cross() -> Sample:
    """Replicas on two of four devices of either node: rings leave a node by another adapter."""
    base = one_stage(decoder(), 4, where=cluster(levels=protocol_levels()), zero=2)
    return with_stages(base, meshes=(Mesh(devices=(0, 1, 4, 5)),))


DECODER = "decoder (2.09M)"
"""What calibration calls `decoder()`."""


def calibrated() -> Sample:
    """Devices on which a step was measured, which says of two numbers together what neither says alone."""
    keys = ("big.compute", f"model {DECODER}")
    step = MeasuredStep(name="one", step_time_s=1e-3, sd=0.05, slopes=tuple((key, 0.8) for key in keys))
    known = Calibration(priors=tuple((key, 0.1) for key in keys), steps=(step,))
    return one_stage(decoder(), where=cluster(calibration=known))


def on_a_relative() -> Sample:
    """Software that knows the devices by a kind that they are like."""
    kind = replace(KIND, like=("a100-sxm-80gb",))
    base = one_stage(decoder(1), where=cluster(device_kinds=(kind, SMALL)))
    return base._replace(workload=Workload(jobs=(replace(JOB, framework="torch-eager"),)))


def with_job(sample: Sample, **changes: Any) -> Sample:
    """The same with fields of its only job changed."""
    return sample._replace(workload=sample.workload.with_job(**changes))


@cache
def samples() -> dict[str, Sample]:
    """All of them, by name."""
    base = pipeline()
    return {
        "pipeline": base,
        "product kernels": by_product_kernels(),
        "measured products": by_measured_products(),
        "replicas": one_stage(decoder(), 4, zero=2, zero_replicas=2),
        "breadth first": breadth_first(),
        "weights sharded": one_stage(decoder(), 4, zero=3),
        "uneven": one_stage(decoder(), 2, shares=(3.0, 1.0)),
        "turns": one_stage(decoder(), 2, replicas="round_robin"),
        "selective": with_stages(base, recompute="selective"),
        "full": with_stages(base, recompute="full"),
        "kept by layer": with_stages(
            base,
            keeping=(
                Keeping(layers=("*mlp*",), recompute="full", on="device"),
                Keeping(layers=("*attention*",), on="host"),
            ),
        ),
        "pruned": with_stages(base, density=0.5),
        "offloaded": with_stages(base, offload=("optimizer", "activations")),
        "tiles": with_stages(base, overlap=(("tensor", "tiles"),)),
        "buckets": one_stage(decoder(), 2, sync=(Sync(parameters=("*",), bucket_bytes=1e5),)),
        "seldom": one_stage(decoder(), 2, updates=(UpdateChoice(rule="local_sgd"),)),
        "linked": linked(),
        "sparse": sparse(),
        "recurrent": recurrent(),
        "told": told(),
        "together": together(),
        "peers": peers(),
        "sharded": sharded(),
        "cut": cut(),
        "experts": routed(),
        "slow inputs": with_job(base, input_seconds_per_sample=1.0),
        "two models": two_models(),
        "split backward": split_backward(),
        "told with collectives": told_with_collectives(),
        "under a framework": under_a_framework(),
        "on a relative": on_a_relative(),
        "by its kernels": by_its_kernels(),
        "by protocols": by_protocols(),
        "rings that cross": rings_that_cross(),
        "calibrated": calibrated(),
        "inferring": with_job(base, mode="infer"),
        "plain": with_job(pipeline(transfers="best"), precision="fp32", optimizer="sgd"),
        "long": one_stage(decoder(1, seq=2048), 1),
        "narrow": with_job(one_stage(decoder(1, embed=1024, seq=512), 1), precision="fp8"),
    }


# ---- changing one field ---------------------------------------------------------------------------------


def instances(value: Any, kind: type) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
    """Every object of a class inside of a value, with a function that puts another in its place."""
    if type(value) is kind:
        yield value, lambda other: other
        return
    if isinstance(value, tuple):
        for i, item in enumerate(value):
            for found, put in instances(item, kind):
                yield found, lambda other, i=i, put=put: _with_item(value, i, put(other))
    elif is_dataclass(value):
        for field in fields(value):
            if field.init:
                for found, put in instances(getattr(value, field.name), kind):
                    name = field.name
                    yield found, lambda other, name=name, put=put: replace(value, **{name: put(other)})


def _with_item(items: tuple[Any, ...], i: int, item: Any) -> tuple[Any, ...]:
    parts = (*items[:i], item, *items[i + 1 :])
    return type(items)(*parts) if hasattr(items, "_fields") else parts


def others(value: Any) -> Iterator[Any]:
    """Values of the same type that might change something, the tamest first."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (
            item for item in (value + 1, value * 2, value * 3, value - 1, value // 2) if item != value
        )
    elif isinstance(value, float):
        yield from (value * 2, value / 2, value * 0.9, 0.0) if value else (1e-3, 0.3, 1.0, 1e6, 1e9)
    elif isinstance(value, tuple) and value:
        yield from (value[:-1], value[::-1], ())
