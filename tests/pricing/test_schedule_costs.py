"""What schedules are told of seconds and bytes is what the simulator charges."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.pricing import Pricer
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.one_job import make_shape
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.tasks.placement import place
from explorer.tasks.program import TRANSFER, B, F
from explorer.workload import Job, Workload

MODEL = load_model("gpt", settings={"layers": "6", "embed": "128", "heads": "4", "vocab": "512"})
CLUSTER = load_cluster("dgx-a100")


def case(recompute: str, *, chunks: int = 1, micro: int = 2) -> tuple[Job, Strategy]:
    job = Job(global_batch=8 * micro, precision="bf16")
    return job, uniform(
        MODEL, CLUSTER, job, stages=2, replicas=2, chunks=chunks, microbatch_size=micro, recompute=recompute
    )


def prices_by_kind(report: Report, kind: int) -> dict[int, float]:
    line = report.timeline
    return {
        slot.where: float(seconds)
        for slot, seconds in zip(line.program.slots, line.prices.seconds, strict=True)
        if slot.kind == kind and not slot.backward
    }


@given(
    recompute=st.sampled_from(["none", "full"]), chunks=st.sampled_from([1, 2]), micro=st.sampled_from([2, 4])
)
def test_they_are_what_is_charged(recompute: str, chunks: int, micro: int) -> None:
    job, strategy = case(recompute, chunks=chunks, micro=micro)
    placement = place(MODEL, strategy.job)
    shape = make_shape(placement, UNFOLDED, job, Pricer(MODEL, CLUSTER, job, strategy.job, placement))
    report = simulate(MODEL, CLUSTER, Workload(jobs=(job,)), strategy)
    forward, backward = (prices_by_kind(report, kind) for kind in (F, B))
    assert shape.forward_s == pytest.approx([forward[s] for s in range(shape.stages)], rel=1e-12)
    both = [a + b for a, b in zip(shape.input_grad_s, shape.weight_grad_s, strict=True)]
    assert both == pytest.approx([backward[s] for s in range(shape.stages)], rel=1e-12)
    sent = prices_by_kind(report, TRANSFER)
    assert shape.transfer_s == pytest.approx([sent[f] for f in range(len(shape.edges))], rel=1e-12)
    assert all(shape.transfer_s)


def test_the_cap_is_what_a_lane_has_left() -> None:
    """Fill each lane with as many microbatches as the cap takes: they fit, and one more does not."""
    job, strategy = case("none")
    placement = place(MODEL, strategy.job)
    shape = make_shape(placement, UNFOLDED, job, Pricer(MODEL, CLUSTER, job, strategy.job, placement))
    report = simulate(MODEL, CLUSTER, Workload(jobs=(job,)), strategy)
    at = MEMORY_PARTS.index("activations")
    for parts, used, capacity, lane in zip(
        report.memory_parts_bytes, report.peak_memory_bytes, report.capacity_bytes, report.lanes, strict=True
    ):
        number = next(i for i, places in enumerate(shape.lanes) if places[0].stage == lane[0] // 2)
        assert capacity - used + parts[at] == pytest.approx(shape.memory_cap_bytes[number], rel=1e-12)
        in_flight = 2 - shape.lanes[number][0].stage
        assert parts[at] == in_flight * shape.activation_bytes[shape.lanes[number][0].stage]


def test_without_a_pricer_there_are_none() -> None:
    job, strategy = case("none")
    shape = make_shape(place(MODEL, strategy.job), UNFOLDED, job)
    assert shape == replace(shape, forward_s=(), transfer_s=(), waiting_bytes=(), memory_cap_bytes=())
