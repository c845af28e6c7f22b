"""Measured seconds that hold the lane's collectives as well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import explorer
from explorer.costs.measured import with_collectives
from explorer.graph import LayerGraph, Measured, Work
from explorer.models.pipedream import read
from explorer.sharding import megatron_layout
from explorer.simulation.report import Report
from explorer.strategy import REPLICA, Mesh, Stage, single
from explorer.tasks.program import B, F
from explorer.workload import default_workload


def graph(degree: int, *, collectives: bool) -> LayerGraph:
    """GPT-2 with a millisecond for every layer and direction."""
    found = explorer.load_model("gpt2-small")
    row = Measured(
        forward_s=1e-3, input_grad_s=1e-3, weight_grad_s=1e-3, tensor_degree=degree, collectives=collectives
    )
    return replace(found, layers=tuple(replace(layer, measured=(row,)) for layer in found.layers))


def run(model: LayerGraph, tensor: int) -> Report:
    mesh = Mesh(devices=tuple(range(tensor)), axes=((REPLICA, 1), ("tensor", tensor)))
    names = tuple(layer.name for layer in model.layers)
    stage = Stage(layers=names, meshes=(mesh,), layout=megatron_layout())
    cluster = explorer.load_cluster("dgx-a100")
    alike = tuple(replace(kind, device_spread=0.0) for kind in cluster.device_kinds)  # nobody is waited for
    cluster = replace(cluster, device_kinds=alike)
    return explorer.simulate(
        model, cluster, default_workload(model).with_job(global_batch=1), single(stages=(stage,))
    )


def values(report: Report, kind: int, name: str) -> float:
    line = report.timeline
    (found,) = (
        value
        for slot, value in zip(line.program.slots, getattr(line.prices, name), strict=True)
        if slot.kind == kind
    )
    return float(found)


@pytest.mark.parametrize("kind", [F, B])
def test_collectives_are_charged_once_and_sent_all_the_same(kind: int) -> None:
    held, apart = (run(graph(4, collectives=flag), 4) for flag in (True, False))
    assert values(held, kind, "comm_s") == 0.0
    assert values(apart, kind, "comm_s") > 0.0
    assert values(apart, kind, "seconds") - values(held, kind, "seconds") == pytest.approx(
        values(apart, kind, "comm_s")
    )
    assert values(held, kind, "lane_bytes") == values(apart, kind, "lane_bytes") > 0


def test_seconds_of_another_group_hold_no_collectives_of_this_one() -> None:
    held = graph(1, collectives=True)
    assert not with_collectives(held, ("any",), 4).any()
    assert with_collectives(held, ("any",), 1).all()
    assert values(run(held, 4), F, "comm_s") > 0.0


def test_every_kind_of_a_row_must_have_them_in() -> None:
    one = graph(4, collectives=True)
    rows = (
        replace(one.layers[0].measured[0], device_kind="a"),
        replace(one.layers[0].measured[0], device_kind="b", collectives=False),
    )
    both = replace(one, layers=tuple(replace(layer, measured=rows) for layer in one.layers))
    assert with_collectives(both, ("a",), 4).all()
    assert not with_collectives(both, ("a", "b"), 4).any()


# ---- what measured seconds hold already, and in which order they come ---------------------------


def profile(*layers: tuple[str, float, float, float]) -> LayerGraph:
    """A chain of PipeDream's operators: (description, forward ms, backward ms, bytes of parameters)."""
    lines = [
        f"node{i} -- {what} -- forward_compute_time={forward}, backward_compute_time={backward}, "
        f"activation_size=8.0, parameter_size={size}"
        for i, (what, forward, backward, size) in enumerate(layers)
    ]
    lines += [f"\tnode{i} -- node{i + 1}" for i in range(len(layers) - 1)]
    return read("\n".join(lines) + "\n")


CHAIN = profile(("Linear", 1.0, 2.0, 4.0), ("ReLU", 1.0, 3.0, 0.0), ("Linear", 1.0, 2.0, 4.0))


def simulated(model: LayerGraph, *, cuts: tuple[int, ...] = (), batch: int = 4, **strategy: object) -> Report:
    """A step of `batch` microbatches on DGX A100, cut before some layers."""
    cluster = explorer.load_cluster("dgx-a100")
    workload = default_workload(model).with_job(global_batch=batch, optimizer="none")
    parts = explorer.uniform(
        model, cluster, workload.job, stages=len(cuts) + 1, microbatch_size=1, cuts=list(cuts)
    )
    changed: dict[str, Any] = dict(strategy)
    return explorer.simulate(model, cluster, workload, parts.with_job(replace(parts.job, **changed)))


def test_measured_seconds_get_no_framework_on_top() -> None:
    """Four microbatches of 3 ms forward and 7 ms backward are 40 ms, on whatever cluster and software."""
    assert explorer.load_cluster("dgx-a100").device_kinds[0].software.action_overhead_s > 0
    assert simulated(CHAIN).step_time_s == pytest.approx(0.040)


def test_a_stage_of_which_something_was_not_measured_is_called_by_the_framework() -> None:
    work = Work(flops=1.0, moved_elements=1.0)
    guessed = replace(CHAIN.layers[1], measured=(), forward=work, input_grad=work)
    mixed = replace(CHAIN, layers=(CHAIN.layers[0], guessed, CHAIN.layers[2]))
    call = explorer.load_cluster("dgx-a100").device_kinds[0].software.action_overhead_s
    assert simulated(mixed).step_time_s > 4 * (0.006 + 2 * call)


def test_layers_without_parameters_have_no_gradient_to_put_off() -> None:
    """All of their backward comes before what earlier stages wait for; with parameters half of it does."""
    found = simulated(CHAIN, cuts=(1, 2))
    prices = found.timeline.prices.pricer
    for stage, (inputs, weights) in enumerate(((1.0, 1.0), (3.0, 0.0), (1.0, 1.0))):
        time = prices.section_time(stage, stage, 1)
        assert (time.input_grad_s, time.weight_grad_s) == pytest.approx((inputs * 1e-3, weights * 1e-3))


def test_their_order_shows_in_a_split_backward() -> None:
    """With W last, the first stage waits for the whole backward of a stage without parameters."""
    text = "0F0 0I0 0W0; 1F0 1I0 1W0; 2F0 2I0 2W0"
    whole = profile(("Linear", 1.0, 2.0, 4.0), ("ReLU", 1.0, 30.0, 0.0), ("Linear", 1.0, 2.0, 4.0))
    found = simulated(whole, cuts=(1, 2), batch=1, schedule="custom", options=(("lanes", text),))
    assert found.makespan_s == pytest.approx(3e-3 + 1e-3 + 30e-3 + 1e-3 + 1e-3, rel=1e-2)
