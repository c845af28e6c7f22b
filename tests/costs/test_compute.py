"""Compute times: the roofline in closed form, measured rows before it, and never faster with more work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster import Curve, DeviceKind, Software
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.costs.compute import layer_times
from explorer.costs.least_seconds import least_seconds
from explorer.costs.update_time import update_seconds
from explorer.graph import Layer, LayerGraph, Measured, Parameter, Tensor, Use, Work

IDEAL = DeviceKind(
    name="ideal", memory_bytes=1e9, memory_bandwidth_bytes_per_s=1e9, peak_flops_per_s=(("fp32", 1e12),)
)


def kind(**changes: Any) -> DeviceKind:
    values = {
        "name": "ideal",
        "memory_bytes": 1e9,
        "memory_bandwidth_bytes_per_s": 1e9,
        "peak_flops_per_s": (("fp32", 1e12),),
    }
    return DeviceKind(**{**values, **changes})


def chain(*layers: dict[str, Any], trainable: bool = True) -> LayerGraph:
    """Layers in a row, each with one parameter of the given number of elements."""
    made, tensors, parameters = [], [Tensor(name="t0", shape=(1,))], []
    for i, fields in enumerate(layers):
        options = dict(fields)
        elements = options.pop("elements", 0)
        tensors.append(Tensor(name=f"t{i + 1}", shape=(1,)))
        parameters.append(Parameter(name=f"w{i}", shape=(elements,), trainable=trainable))
        made.append(
            Layer(
                name=f"l{i}", reads=(Use(name=f"t{i}"),), writes=(Use(name=f"t{i + 1}"),),
                parameters=(Use(name=f"w{i}"),), **{"kind": "linear", **options},
            )
        )  # fmt: skip
    return LayerGraph(name="chain", layers=tuple(made), tensors=tuple(tensors), parameters=tuple(parameters))


def seconds(graph: LayerGraph, device: DeviceKind = IDEAL, **options: Any) -> np.ndarray:
    return layer_times(graph, device, **{"samples": 1.0, "precision": "fp32", **options})


BIG = Work(flops=1e12, moved_elements=1e6)
WIDE = Work(flops=1e6, moved_elements=1e9)


# ------------------------------------------------------------------------------------------- closed forms


def test_compute_bound() -> None:
    graph = chain({"forward": BIG, "weight_grad": BIG})
    assert seconds(graph)[:, 0].tolist() == [1.0, 0.0, 1.0]
    assert seconds(graph, samples=3.5)[0, 0] == 3.5


@pytest.mark.parametrize("share", [0.0, 0.5, 1.6])
def test_exposed_memory_is_added_to_the_longer_of_both(share: float) -> None:
    graph = chain({"forward": Work(flops=1e12, moved_elements=1e8)}, {"forward": WIDE})
    found = seconds(graph, kind(exposed_memory=share))[0]
    assert found[0] == pytest.approx(1.0 + share * 0.4)
    assert found[1] == pytest.approx(4.0 + share * 1e-6)


@pytest.mark.parametrize("busy", [0.0, 0.08])
def test_kernels_take_longer_on_a_busy_node(busy: float) -> None:
    graph = chain({"forward": BIG}, {"forward": WIDE}, {"forward": WIDE, "kind": "norm"})
    idle, loaded = (seconds(graph, kind(launch_overhead_s=0.25, busy_slowdown=b))[0] for b in (0.0, busy))
    assert loaded == pytest.approx(idle * (1 + busy), rel=1e-15)


def test_the_host_is_not_busier() -> None:
    software = Software(host_issue_s=10.0)  # each of five operations of a linear layer
    graph = chain({"forward": BIG})
    assert seconds(graph, kind(busy_slowdown=0.5, software=software))[0, 0] == 50.0
    assert seconds(graph, kind(busy_slowdown=0.5))[0, 0] == 1.5


@given(busy=st.floats(0.0, 1.0))
def test_least_seconds_hold_on_a_busy_node(busy: float) -> None:
    graph = chain({"forward": BIG, "input_grad": BIG}, {"forward": WIDE, "kind": "norm"})
    bound = least_seconds(graph, kind(busy_slowdown=busy), "fp32")
    assert bound is not None
    assert (bound <= seconds(graph, kind(busy_slowdown=busy))).all()


def test_memory_bound_counts_parameters_once() -> None:
    graph = chain({"forward": WIDE, "elements": 5e8})
    assert seconds(graph)[0, 0] == (1e9 + 5e8) * 4 / 1e9
    assert seconds(graph, samples=2)[0, 0] == (2e9 + 5e8) * 4 / 1e9
    half = kind(peak_flops_per_s=(("fp16", 1e12), ("fp32", 1e12)))
    assert seconds(graph, half, precision="fp16")[0, 0] == (1e9 + 5e8) * 2 / 1e9


def test_launch_overhead_and_trips() -> None:
    slow = kind(launch_overhead_s=0.25)
    assert seconds(chain({"forward": BIG}), slow)[:, 0].tolist() == [2.25, 0.0, 0.0]  # five operations
    assert seconds(chain({"forward": BIG, "trips": 4}), slow)[0, 0] == 9.0


def test_efficiency_by_class_and_size() -> None:
    curve = Curve(points=((1e11, 0.25), (1e12, 0.5)))
    device = kind(efficiency=(("matmul", curve), ("memory", Curve(points=((1.0, 0.8),)))))
    graph = chain({"forward": BIG}, {"forward": BIG, "kind": "attention"}, {"forward": WIDE, "kind": "norm"})
    assert seconds(graph, device)[0] == pytest.approx([2.0, 2.0, 4 / 0.8])
    tenth = seconds(graph, device, work=np.full(3, 0.1))[0]
    assert tenth == pytest.approx([0.1 / 0.25, 0.1 / 0.25, 0.4 / 0.8])
    middle = seconds(graph, device, samples=0.1**0.5)[0, 0]
    assert middle == pytest.approx(0.1**0.5 / 0.375)


def test_precision_of_vector_operations_is_fp32() -> None:
    device = kind(peak_flops_per_s=(("fp16", 1e15), ("fp32", 1e12)))
    graph = chain({"forward": BIG}, {"forward": BIG, "kind": "norm"})
    assert seconds(graph, device, precision="fp16")[0] == pytest.approx([2e6 / 1e9, 1.0])


def test_curve_is_the_one_of_the_cluster() -> None:
    """`Curve.at` and the vectorised efficiency are one function."""
    curve = Curve(points=((1e3, 0.5), (1e6, 0.6), (1e9, 0.9)))
    device = kind(efficiency=(("matmul", curve),))
    for flops in (1.0, 1e3, 3e4, 1e6, 2e8, 1e9, 1e13):
        time = seconds(chain({"forward": Work(flops=flops)}), device)[0, 0]
        assert time == pytest.approx(flops / 1e12 / curve.at(flops))


def test_work_scales_each_layer() -> None:
    graph = chain({"forward": BIG}, {"forward": BIG}, {"forward": WIDE, "elements": 1e9})
    work = np.array([0.5, 0.25, 0.5])
    assert seconds(graph, work=work)[0].tolist() == [0.5, 0.25, 4.0]
    assert seconds(graph, work=np.array([0.0, 1.0, 0.0]))[0].tolist() == [0.0, 1.0, 0.0]


def test_nothing_to_do_takes_no_time() -> None:
    assert not seconds(chain({}), kind(launch_overhead_s=1.0)).any()
    assert not seconds(chain({"forward": BIG}), kind(launch_overhead_s=1.0), samples=0).any()


def test_gradients_nobody_needs_cost_nothing() -> None:
    all_of_it = {"forward": BIG, "input_grad": BIG, "weight_grad": BIG}
    graph = chain(all_of_it, all_of_it)
    assert seconds(graph).tolist() == [[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]
    frozen = LayerGraph(
        name="lora", layers=graph.layers, tensors=graph.tensors,
        parameters=(Parameter(name="w0", shape=(1,), trainable=False), Parameter(name="w1", shape=(1,))),
    )  # fmt: skip
    assert seconds(frozen).tolist() == [[1.0, 1.0], [0.0, 0.0], [0.0, 1.0]]
    toy = chain(all_of_it, all_of_it, trainable=False)  # no training at all: costs as they were given
    assert seconds(toy).tolist() == [[1.0, 1.0]] * 3


def test_embedding_reads_rows_and_writes_the_whole_gradient() -> None:
    looked_up = Work(moved_elements=1e6)
    graph = chain({"kind": "embedding", "forward": looked_up, "weight_grad": looked_up, "elements": 1e9})
    assert seconds(graph)[:, 0] == pytest.approx([4e6 / 1e9, 0.0, (1e9 + 1e6) * 4 / 1e9])


# ----------------------------------------------------------------------------------------------- measured


def rows(*given: tuple[float, float, int], **fields: Any) -> tuple[Measured, ...]:
    return tuple(
        Measured(forward_s=s, input_grad_s=2 * s, weight_grad_s=3 * s, batch=b, tensor_degree=t, **fields)
        for b, s, t in given
    )


@pytest.mark.parametrize(("samples", "expected"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 3.0), (8, 6.0)])
def test_measured_between_and_outside_batches(samples: float, expected: float) -> None:
    graph = chain({"forward": BIG, "measured": rows((4, 3.0, 1), (2, 1.0, 1))})
    assert seconds(graph, samples=samples)[:, 0].tolist() == [expected, 2 * expected, 3 * expected]


def test_measured_of_this_kind_goes_before_any() -> None:
    graph = chain({"measured": rows((1, 1.0, 1)) + rows((1, 5.0, 1), device_kind="ideal")})
    assert seconds(graph)[0, 0] == 5.0
    assert seconds(graph, kind(name="other"))[0, 0] == 1.0


def test_measured_degree() -> None:
    graph = chain({"forward": BIG, "measured": rows((1, 8.0, 1), (1, 5.0, 2))})
    work = np.array([0.5])
    assert seconds(graph)[0, 0] == 8.0
    assert seconds(graph, work=work)[0, 0] == 4.0  # half of the layer
    assert seconds(graph, work=work, tensor_degree=2)[0, 0] == 5.0  # as it was measured
    assert seconds(graph, work=np.array([0.25]), tensor_degree=4)[0, 0] == 2.0  # from degree 1
    only_two = chain({"measured": rows((1, 5.0, 2))})
    assert seconds(only_two)[0, 0] == 10.0  # nothing else to go by
    works = chain({"forward": BIG, "measured": rows((1, 5.0, 2))})
    assert seconds(works)[0, 0] == 1.0  # physics


def test_measured_of_other_kinds_only() -> None:
    other = rows((1, 5.0, 1), device_kind="tpu")
    assert seconds(chain({"forward": BIG, "measured": other}))[0, 0] == 1.0
    with pytest.raises(InputError, match="never measured on 'ideal'") as caught:
        seconds(chain({"measured": other}))
    assert caught.value.allowed == "tpu"


def test_layers_with_different_batches_stay_apart() -> None:
    graph = chain({"measured": rows((1, 1.0, 1))}, {"measured": rows((2, 1.0, 1))}, {"forward": BIG})
    assert seconds(graph)[0].tolist() == [1.0, 0.5, 1.0]


# --------------------------------------------------------------------------------------------- invariants

curves = st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5).map(
    lambda ys: Curve(points=tuple((10.0 ** (3 * i + 3), y) for i, y in enumerate(ys)))
)
works = st.builds(
    Work,
    flops=st.one_of(st.just(0.0), st.floats(1, 1e18)),
    moved_elements=st.one_of(st.just(0.0), st.floats(1, 1e15)),
)


@given(curves, curves, works, st.floats(1e-3, 1e4), st.floats(1.0, 100.0))
def test_more_work_is_never_faster(
    matmul: Curve, memory: Curve, work: Work, samples: float, more: float
) -> None:
    device = kind(efficiency=(("matmul", matmul), ("memory", memory)), launch_overhead_s=1e-6)
    graph = chain({"forward": work, "elements": 100}, {"forward": work, "kind": "norm"})
    few, many = seconds(graph, device, samples=samples), seconds(graph, device, samples=samples * more)
    assert (many >= few * (1 - 1e-12)).all()
    part = seconds(graph, device, samples=samples, work=np.full(2, 1 / more))
    assert (part <= few * (1 + 1e-12)).all()


@given(works, st.floats(1.0, 100.0))
def test_a_faster_device_is_never_slower(work: Work, factor: float) -> None:
    graph = chain({"forward": work, "elements": 10})
    base = seconds(graph)
    more_flops = kind(peak_flops_per_s=(("fp32", 1e12 * factor),))
    more_bandwidth = kind(memory_bandwidth_bytes_per_s=1e9 * factor)
    assert (seconds(graph, more_flops) <= base).all()
    assert (seconds(graph, more_bandwidth) <= base).all()


@given(st.lists(st.integers(0, 2), min_size=1, max_size=12), st.floats(0.1, 10))
def test_identical_layers_cost_the_same_in_any_company(pattern: list[int], samples: float) -> None:
    shapes = [{"forward": BIG}, {"forward": WIDE, "kind": "norm"}, {"forward": BIG, "elements": 1e9}]
    together = seconds(chain(*(shapes[i] for i in pattern)), samples=samples)
    alone = [seconds(chain(shapes[i]), samples=samples)[0, 0] for i in range(3)]
    assert together[0].tolist() == [alone[i] for i in pattern]
    split = seconds(chain(*(shapes[i] for i in pattern)), samples=samples, work=np.ones(len(pattern)))
    assert (split == together).all()


# --------------------------------------------------------------------------------------------- the caches


def test_results_are_remembered_and_cannot_be_changed() -> None:
    graph = chain({"forward": BIG})
    first = seconds(graph)
    assert seconds(graph) is first
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 5.0


def test_changed_work_is_seen() -> None:
    graph = chain({"forward": BIG})
    work = np.array([1.0])
    assert seconds(graph, work=work)[0, 0] == 1.0
    work[0] = 0.5
    assert seconds(graph, work=work)[0, 0] == 0.5
    view = work[:]
    view.flags.writeable = False
    assert seconds(graph, work=view)[0, 0] == 0.5
    work[0] = 0.25
    assert seconds(graph, work=view)[0, 0] == 0.25


def test_kinds_of_one_name_are_told_apart() -> None:
    graph = chain({"forward": BIG})
    times = {seconds(graph, kind(peak_flops_per_s=(("fp32", peak * 1e12),)))[0, 0] for peak in (1, 2, 4)}
    assert times == {1.0, 0.5, 0.25}


# -------------------------------------------------------------------------------------------- errors, more


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"samples": -1}, "samples"),
        ({"samples": float("nan")}, "samples"),
        ({"work": np.ones(2)}, "work"),
        ({"precision": "fp12"}, None),
    ],
)
def test_bad_arguments(options: dict[str, Any], key: str | None) -> None:
    with pytest.raises(InputError) as caught:
        seconds(chain({"forward": BIG}), **options)
    assert caught.value.key == key


def test_update_is_bound_by_memory() -> None:
    assert update_seconds(IDEAL, elements=1e9, optimizer="adam", precision="bf16") == 28.0
    assert update_seconds(IDEAL, elements=1e9, optimizer="sgd", precision="fp32") == 12.0
    assert update_seconds(IDEAL, elements=0, optimizer="adam", precision="bf16") == 0.0
    with pytest.raises(InputError, match="unknown optimizer"):
        update_seconds(IDEAL, elements=1, optimizer="magic", precision="bf16")


LONG_PRODUCTS = {
    "b200-sxm-180gb": 0.42,
    "gb200-186gb": 0.42,
    "cpu": 0.4,
    "mi300x": 0.42,
    "trainium2": 0.5,
    "h100-sxm-96gb-hbm2e": 0.5,
    "l40s-pcie-48gb": 0.5,
}
"""Least share of peak where it is known to be lower than others': B200's long products were measured at 0.45
to 0.50 of its data sheet (SimuMax, system_b200.json), CPUs widen half precision, this H100 has 500 W, and
long products on an L40S reach 0.65 alone (aiconfigurator's rows)."""


@pytest.mark.parametrize("name", cluster_names())
def test_bundled_kinds_stay_below_peak_and_above_a_tenth(name: str) -> None:
    """A large matrix product and a large copy run at a plausible share of what the data sheet says."""
    for loaded in load_cluster(name).device_kinds:
        device = replace(loaded, busy_slowdown=0.0)  # as one does by itself
        product = chain({"forward": Work(flops=2 * 8192**3, moved_elements=3 * 8192**2)})
        copy = chain({"forward": Work(moved_elements=1e9), "kind": "elementwise"})
        reached = 2 * 8192**3 / layer_times(product, device, samples=1, precision="fp16")[0, 0]
        copied = 2e9 / layer_times(copy, device, samples=1, precision="fp16")[0, 0]
        assert LONG_PRODUCTS.get(device.name, 0.6) < reached / device.peak("fp16") < 1
        # a CPU's bandwidth is measured on what its caches hold, this copy comes from memory
        least = 0.2 if device.name == "cpu" else 0.7
        assert least < copied / device.memory_bandwidth_bytes_per_s < 1


def test_gpt_layer_on_a100() -> None:
    """Megatron-LM (Narayanan et al. 2021, table 1) reaches 0.44 to 0.52 of peak in whole steps of large GPTs,
    which pay for recomputation, communication and bubbles; the layer's own products must lie above."""
    device = load_cluster("dgx-a100").device_kinds[0]
    tokens, h, tensor = 2048.0, 12288.0, 8
    big = [2 * tokens * h * wide * h / tensor for wide in (3, 1, 4, 4)]  # qkv, projection, up, down
    graph = chain(*({"forward": Work(flops=flops, moved_elements=4 * tokens * h)} for flops in big))
    share = sum(big) / layer_times(graph, device, samples=1, precision="bf16")[0].sum() / 312e12
    assert 0.5 < share < 0.85
