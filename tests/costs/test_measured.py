"""Measured seconds that hold the lane's collectives as well."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.costs.measured import with_collectives
from explorer.graph import LayerGraph, Measured
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
