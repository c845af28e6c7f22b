"""The precision fp8: narrow factors of products inside of blocks, among tensors in bf16."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import explorer
from explorer.cluster import Curve, DeviceKind, ProductKernels, Software, Tile
from explorer.cluster_profiles import load_cluster
from explorer.costs.compute import layer_costs, layer_times
from explorer.costs.least_seconds import least_seconds
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.strategies.degrees import Degrees
from explorer.tables import Estimator
from explorer.workload import Job, Workload

ONE = Curve(points=((1.0, 1.0),))
PLAIN = DeviceKind(
    name="made", memory_bytes=1e15, memory_bandwidth_bytes_per_s=1e12,
    efficiency=(("matmul", ONE), ("memory", ONE)),
    peak_flops_per_s=(("bf16", 1e9), ("fp8", 2e9), ("fp32", 1e9)), software=Software(cast_bytes=4.0),
)  # fmt: skip
SEQ, EMBED, HEADS, FFN = 64, 128, 4, 256
MODELS = ("llama", "gpt", "mixtral-8x7b", "bert-large")


@cache
def llama() -> LayerGraph:
    settings = {
        "layers": "2",
        "embed": str(EMBED),
        "heads": str(HEADS),
        "kv_heads": "2",
        "ffn": str(FFN),
        "vocab": "512",
    }
    return load_model("llama", sequence_length=SEQ, settings=settings)


def seconds(name: str, kind: DeviceKind, precision: str) -> np.ndarray:
    times = layer_times(llama(), kind, samples=1, precision=precision)
    return times[:, [layer.name for layer in llama().layers].index(name)]


def cast(elements: float) -> float:
    return elements * 4.0 / 1e12


def test_products_of_blocks_run_at_the_narrow_peak_and_are_cast_for() -> None:
    """gate and up share the cast of their input; each casts its weight, and the gradient of what it wrote."""
    flops = 2 * SEQ * EMBED * FFN
    found = seconds("layers.0.mlp.gate", PLAIN, "fp8")
    assert found[0] == pytest.approx(flops / 2e9 + cast(SEQ * EMBED / 2 + EMBED * FFN))
    assert found[1] == pytest.approx(flops / 2e9 + cast(SEQ * FFN))
    assert found[2] == pytest.approx(flops / 2e9)
    down = seconds("layers.0.mlp.down", PLAIN, "fp8")
    assert down[0] == pytest.approx(flops / 2e9 + cast(SEQ * FFN + EMBED * FFN))


def test_sums_outside_of_the_tensor_cores_slow_the_backward_alone() -> None:
    slow = replace(PLAIN, software=Software(cast_bytes=0.0), fp8_gradient_fraction=0.5)
    quick = replace(PLAIN, software=Software(cast_bytes=0.0))
    ratio = seconds("layers.1.attention.q", slow, "fp8") / seconds("layers.1.attention.q", quick, "fp8")
    assert ratio == pytest.approx([1.0, 2.0, 2.0])


@pytest.mark.parametrize(("settled", "slower"), [(1.0, 0.7), (0.8, 0.7 / 0.8), (0.6, 1.0)])
def test_a_clock_that_power_holds_and_sums_elsewhere_do_not_add_up(settled: float, slower: float) -> None:
    kernels = ProductKernels(tiles=(Tile(rows=128, columns=128, fraction=0.9),), splits=(1,))
    held = replace(
        PLAIN,
        compute_units=4,
        product_kernels=(("bf16", kernels), ("fp8", kernels)),
        efficiency=(("memory", ONE),),
        settled_fraction=settled,
        software=Software(cast_bytes=0.0),
    )
    slow = replace(held, fp8_gradient_fraction=0.7)
    ratio = seconds("layers.1.attention.q", slow, "fp8") / seconds("layers.1.attention.q", held, "fp8")
    assert ratio == pytest.approx([1.0, 1 / slower, 1 / slower], rel=1e-4)  # bias and memory are not slower


@pytest.mark.parametrize(
    "name", ["head", "embed", "layers.0.attention.norm", "layers.0.attention.core", "loss"]
)
def test_everything_else_is_as_in_bf16(name: str) -> None:
    names = [layer.name for layer in llama().layers]
    if name not in names:
        name = next(item for item in names if llama().layer[item].kind == "attention")
    assert seconds(name, PLAIN, "fp8") == pytest.approx(seconds(name, PLAIN, "bf16"), rel=1e-12)


def test_a_device_without_fp8_only_pays_for_casts() -> None:
    kind = replace(
        PLAIN,
        peak_flops_per_s=(("bf16", 1e9), ("fp32", 1e9)),
        software=Software(cast_bytes=4.0),
        fp8_gradient_fraction=0.5,
    )
    costs = [
        layer_costs(llama(), kind, samples=1, precision=precision).seconds for precision in ("bf16", "fp8")
    ]
    assert (costs[1] >= costs[0]).all()
    assert costs[1].sum() == pytest.approx(costs[0].sum(), rel=1e-3)


def test_tensors_and_weights_stay_in_bf16() -> None:
    for tensor in llama().tensors:
        assert tensor.bytes_per_sample("fp8") == tensor.bytes_per_sample("bf16")


@pytest.mark.parametrize("cluster", ["hgx-h100", "b200"])
@pytest.mark.parametrize("model", ["llama3-8b", "gpt3-175b"])
def test_a_step_takes_between_half_and_all_of_bf16_and_as_many_bytes(cluster: str, model: str) -> None:
    graph, devices = load_model(model), load_cluster(cluster)
    reports = []
    for precision in ("bf16", "fp8"):
        job = Job(global_batch=64, sequence_length=1024, precision=precision, optimizer="adamw")
        made = Degrees(replicas=2, tensor=4, microbatch_size=4, zero=1).build(graph, devices, job)
        reports.append(explorer.simulate(graph, devices, Workload(jobs=(job,)), made))
    wide, narrow = reports
    assert wide.step_time_s / 2 < narrow.step_time_s < wide.step_time_s
    assert narrow.peak_memory_bytes == wide.peak_memory_bytes
    assert narrow.traffic_bytes == wide.traffic_bytes


@pytest.mark.parametrize("cluster", ["hgx-h100", "b200"])
def test_bounds_and_estimates_know_it(cluster: str) -> None:
    graph, devices = llama(), load_cluster(cluster)
    job = Job(global_batch=16, sequence_length=SEQ, precision="fp8", optimizer="adamw")
    degrees = Degrees(replicas=2, tensor=2, stages=2, microbatch_size=2)
    report = explorer.simulate(graph, devices, Workload(jobs=(job,)), degrees.build(graph, devices, job))
    found = Estimator(graph, devices, job).one(degrees)
    assert found.memory_bytes[0] == pytest.approx(max(report.peak_memory_bytes), rel=1e-6)
    assert found.step_s[0] == pytest.approx(report.step_time_s, rel=0.02)
    kind = devices.device_kinds[0]
    least, own = least_seconds(graph, kind, "fp8"), layer_times(graph, kind, samples=1, precision="fp8")
    assert least is not None
    assert (least <= own * (1 + 1e-9)).all()
