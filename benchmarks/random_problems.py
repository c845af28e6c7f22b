"""Random small search problems: chains, graphs with branches, decoders, mixtures; mixed clusters; rules.

Everything is drawn from one number, so that a problem that went wrong can be made again.
"""

from __future__ import annotations

import random
from dataclasses import replace

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.cluster_profiles import load_cluster
from explorer.graph import Defaults, LayerGraph
from explorer.models import load_model, synthetic
from explorer.models.builder import GraphBuilder, Value
from explorer.models.gpt import attention_half, feed_forward_half
from explorer.search import Problem
from explorer.workload import Job, Workload

ZOO = ("gpt2-small", "bert-large", "resnet50", "vgg16", "gnmt-8", "mixtral-8x7b")
CLUSTERS = {
    "dgx-1-v100": (0, 1, 2, 3),
    "mixed-v100-a100": (0, 1, 8, 9),
    "ethernet-10g-4x4": (0, 1, 4, 5),
    "rtx4090-pcie-4": (0, 1, 2, 3),
}
SCHEDULES = ("1f1b", "gpipe", "interleaved_1f1b", "zb_h1", "chimera", "hanayo")
OBJECTIVES = ("time", "time", "time", "memory", "cost", "energy", "time_to_accuracy", "frontier")
DEFAULTS = Defaults(global_batch=8, sequence_length=64, precision="fp16", optimizer="adam")


def random_problem(seed: int) -> Problem:
    """Draw a problem with few layers and devices, and a small batch."""
    luck = random.Random(seed)
    graph = luck.choice((_chain, _branches, _decoder, _mixture, _seconds, _zoo))(luck)
    cluster, devices = _cluster(luck)
    job = Job(
        global_batch=luck.choice((2, 3, 4, 6, 8)), sequence_length=graph.defaults.sequence_length,
        precision="fp16", optimizer=luck.choice(("adam", "sgd")), samples_per_epoch=1000,
        epochs=((2, 5.0), (8, 9.0)), mode=luck.choice(("train",) * 9 + ("infer",)),
    )  # fmt: skip
    problem = Problem(
        graph=graph, cluster=cluster, workload=Workload(jobs=(job,)), devices=devices,
        max_devices=luck.choice((0, 0, 0, max(1, len(devices) - 1))),
        objective=luck.choice(OBJECTIVES),
        schedule=luck.choice(("", "", "", luck.choice(SCHEDULES))),
        weights=luck.choice(("synchronous", "synchronous", "any")), seed=luck.randrange(1000),
    )  # fmt: skip
    problem = replace(problem, **_rules(luck, problem))
    # drawn last, so that all else of a problem stays what it was before there was this objective
    return replace(problem, objective="devices") if luck.random() < 1 / 9 else problem


# ---- models ----------------------------------------------------------------------------------------


def _loss(b: GraphBuilder, x: Value) -> LayerGraph:
    targets = b.input("targets", {"seq": x.size("seq")}, dtype="int64")
    b.loss("loss", b.linear("head", x, {"vocab": 512}), targets)
    return b.build()


def _half(b: GraphBuilder, x: Value, wide: int) -> Value:
    """Add a norm and two products of a width that differs from block to block."""
    y = b.activation("act", b.linear("up", b.norm("norm", x), {"ffn": wide}))
    return b.linear("down", y, {"embed": x.size("embed")}, over=("ffn",))


def _start(luck: random.Random, name: str) -> tuple[GraphBuilder, Value]:
    b = GraphBuilder(name, defaults=DEFAULTS)
    return b, b.input("x", {"seq": 64, "embed": luck.choice((256, 1024))})


def _chain(luck: random.Random) -> LayerGraph:
    """Make blocks of uneven weight, some with a sum around them, one after the other."""
    b, x = _start(luck, "chain")
    for i in range(luck.randint(1, 5)):
        with b.block(f"layers.{i}"):
            y = _half(b, x, luck.choice((128, 512, 4096)))
            x = b.add("add", y, x) if luck.random() < 0.5 else y
    return _loss(b, x)


def _branches(luck: random.Random) -> LayerGraph:
    """Make blocks that read what is not just before them: branches, and sums over several."""
    b, x = _start(luck, "branches")
    made = [x]
    for i in range(luck.randint(2, 5)):
        with b.block(f"layers.{i}"):
            read = luck.choice(made)
            y = _half(b, read, luck.choice((128, 1024)))
            if len(made) > 1 and luck.random() < 0.5:
                y = b.add("add", y, luck.choice(made))
            made.append(y)
    return _loss(b, b.add("join", *made[1:]) if len(made) > 2 else made[-1])


def _decoder(luck: random.Random) -> LayerGraph:
    """Make a small transformer, whose head may be its embedding."""
    b = GraphBuilder("decoder", defaults=DEFAULTS)
    tokens, targets = (b.input(part, {"seq": 64}, dtype="int64") for part in ("tokens", "targets"))
    x = b.embedding("embed", tokens, {"vocab": luck.choice((512, 8192))}, {"embed": luck.choice((256, 1024))})
    vocab = b.full("embed")
    for i in range(luck.randint(1, 4)):
        with b.block(f"layers.{i}"):
            x = b.add("attention.add", attention_half(b, b.norm("attention.norm", x), 8), x)
            x = b.add("mlp.add", feed_forward_half(b, b.norm("mlp.norm", x)), x)
    rows = next(item.shape[0] for item in b.build().parameters if item.name == f"{vocab}.weight")
    weight = "embed.weight" if luck.random() < 0.5 else ""
    b.loss("loss", b.linear("head", b.norm("norm", x), {"vocab": rows}, weight=weight), targets)
    return b.build()


def _mixture(luck: random.Random) -> LayerGraph:
    """Make blocks of experts."""
    b, x = _start(luck, "mixture")
    experts = luck.choice((2, 4))
    for i in range(luck.randint(1, 3)):
        with b.block(f"layers.{i}"):
            h = b.norm("norm", x)
            scores = b.router("router", h, experts)
            x = b.add("add", b.experts("experts", h, scores, ffn=luck.choice((256, 1024)), active=1), x)
    return _loss(b, x)


def _seconds(luck: random.Random) -> LayerGraph:
    """Make a graph of given seconds and bytes."""
    scale = luck.choice((1e-5, 1e-3))
    if luck.random() < 0.5:
        return synthetic.branches(
            [luck.randint(1, 2) for _ in range(luck.randint(2, 3))], forward_s=scale,
            backward_s=luck.choice((1.0, 2.5)) * scale, activation_bytes=luck.choice((0.0, 1e5, 1e7)),
            parameter_bytes=luck.choice((0.0, 4e6, 4e8)), skip=luck.random() < 0.5,
        )  # fmt: skip
    count = luck.randint(2, 6)
    return synthetic.chain(
        [luck.choice((0.5, 1.0, 3.0)) * scale for _ in range(count)],
        backward_s=[luck.choice((1.0, 2.0, 5.0)) * scale for _ in range(count)],
        activation_bytes=[luck.choice((0.0, 1e5, 1e7)) for _ in range(count)],
        parameter_bytes=[luck.choice((4e6, 4e8)) for _ in range(count)],
        saved_bytes=luck.choice((0.0, 1e7)),
    )


def _zoo(luck: random.Random) -> LayerGraph:
    return load_model(luck.choice(ZOO))


# ---- devices ----------------------------------------------------------------------------------------


def _cluster(luck: random.Random) -> tuple[Cluster, tuple[int, ...]]:
    """Draw two to six devices: of a profile, or of up to three kinds made up, some on nodes of their own."""
    if luck.random() < 0.25:
        name = luck.choice(list(CLUSTERS))
        return load_cluster(name), CLUSTERS[name][: luck.randint(2, 4)]
    kinds = tuple(_kind(luck, f"kind{i}") for i in range(luck.randint(1, 3)))
    size = luck.choice((1, 2, 2, 3, 4))
    groups = [NodeGroup(count=1, device_kind=luck.choice(kinds).name, devices_per_node=size)]
    while sum(group.devices_per_node for group in groups) < 2 or (
        len(groups) < 3 and sum(group.devices_per_node for group in groups) < 5 and luck.random() < 0.7
    ):
        width = size if luck.random() < 0.7 else luck.choice((1, 2))
        groups.append(NodeGroup(count=1, device_kind=luck.choice(kinds).name, devices_per_node=width))
    used = {group.device_kind for group in groups}
    levels = (
        Level(
            name="inner", kind="nvlink", scope="node", latency_s=luck.choice((0.0, 1e-5)),
            bandwidth_bytes_per_s=luck.choice((1e10, 1e11)), device_bytes_per_s=luck.choice((0.0, 2e10)),
        ),
        Level(
            name="outer", kind="ethernet", scope="all", latency_s=luck.choice((0.0, 1e-4)),
            bandwidth_bytes_per_s=luck.choice((1e8, 1e9, 1e10)), uplink_bytes_per_s=luck.choice((0.0, 1e9)),
        ),
    )  # fmt: skip
    cluster = Cluster(
        name="drawn", device_kinds=tuple(kind for kind in kinds if kind.name in used),
        nodes=tuple(groups), levels=levels,
    )  # fmt: skip
    devices = list(cluster.order)[:6]
    if luck.random() < 0.3:
        luck.shuffle(devices)
        devices = devices[: max(2, len(devices) - 1)]
    return cluster, tuple(devices)


def _kind(luck: random.Random, name: str) -> DeviceKind:
    speed = luck.choice((1e12, 5e12, 1e13))
    return DeviceKind(
        name=name, memory_bytes=luck.choice((0.25, 2.0, 16.0, 80.0)) * 2**30,
        memory_bandwidth_bytes_per_s=luck.choice((1e11, 1e12)),
        peak_flops_per_s=(("fp16", speed), ("fp32", speed / 2)),
        launch_overhead_s=luck.choice((0.0, 5e-6)), reserved_bytes=luck.choice((0.0, 1e7)),
        overlap_slowdown=luck.choice((0.0, 0.2)), lockstep_wait=luck.choice((0.0, 0.05)),
        price_per_hour=luck.choice((1.0, 2.0, 5.0)), idle_watts=50.0,
        busy_watts=luck.choice((200.0, 400.0)),
    )  # fmt: skip


# ---- rules ----------------------------------------------------------------------------------------


def _rules(luck: random.Random, problem: Problem) -> dict[str, tuple[tuple[str, int], ...]]:
    """Draw pins, bans, or a lock: layers that stay on one device and nowhere else."""
    choice = luck.random()
    names = [layer.name for layer in problem.graph.layers]
    devices = problem.devices
    some = tuple((luck.choice(names), luck.choice(devices)) for _ in range(luck.randint(1, 2)))
    if choice < 0.1:
        return {"pins": some}
    if choice < 0.2:
        return {"bans": some}
    if choice < 0.25:
        name, own = some[0]
        return {"pins": ((name, own),), "bans": tuple((name, x) for x in devices if x != own)}
    return {}
