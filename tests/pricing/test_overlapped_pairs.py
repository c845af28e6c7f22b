"""Forwards and backwards that run as one: their seconds, when they begin and end, and what they keep."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.actions import parse_action
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.pricing.pricer import Pricer
from explorer.schedules import make_order
from explorer.schedules.check import coverage
from explorer.schedules.custom import lanes_text, parse_lanes
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.tasks.program import BESIDE, WHOLE, B, F
from explorer.workload import default_workload
from tests.schedules.shapes import line

GPT = load_model("gpt2-small")
CLUSTER = load_cluster("a100-pcie")
WORKLOAD = default_workload(GPT).with_job(global_batch=32)


def run(tensor: int, lanes: str = "") -> Report:
    """DualPipeV over two positions, or the same stages with an order spelt out."""
    strategy = uniform(
        GPT, CLUSTER, WORKLOAD.job, stages=2, tensor=tensor, microbatches=8, schedule="dualpipe_v"
    )
    if lanes:
        job = replace(strategy.job, schedule="custom", options=(("lanes", lanes),))
        strategy = strategy.with_job(job)
    return simulate(GPT, CLUSTER, WORKLOAD, strategy)


def pairs(report: Report) -> list[tuple[int, int]]:
    """Tasks of forwards and the backwards that run with them, lane by lane."""
    program = report.timeline.program
    part = [program.slots[slot].part for slot in program.slot.tolist()]
    found = []
    for lane in program.programs:
        tasks = [task for task in lane.tolist() if part[task] == BESIDE]
        found += list(zip(tasks[::2], tasks[1::2], strict=True))
    assert found
    assert all((program.kind[f], program.kind[b]) == (F, B) for f, b in found)
    return found


@pytest.mark.parametrize("tensor", [1, 2])
def test_a_pair_takes_the_longest_of_work_collectives_and_either_half(tensor: int) -> None:
    report = run(tensor)
    program, pricer = report.timeline.program, report.timeline.prices.pricer
    assert isinstance(pricer, Pricer)
    seconds = report.timeline.prices.seconds
    shorter = 0
    for forward, backward in pairs(report):
        slots = [program.slots[int(program.slot[task])] for task in (forward, backward)]
        alone = [pricer.price(slot._replace(peer=slot.piece, part=WHOLE)) for slot in slots]
        one, other = (price.seconds for price in alone)
        comm = sum(price.comm_s for price in alone)
        found = sum(float(seconds[int(program.slot[task])]) for task in (forward, backward))
        assert found == pytest.approx(max(one + other - comm, comm, one, other), rel=1e-12)
        assert found <= (one + other) * (1 + 1e-12)
        shorter += found < (one + other) * (1 - 1e-6)
    assert bool(shorter) is (tensor > 1)


@pytest.mark.parametrize("tensor", [1, 2])
def test_both_halves_begin_when_both_can_and_end_together(tensor: int) -> None:
    """Nothing that either half needs comes after its start, and nobody has its results before its end."""
    report = run(tensor)
    program, end = report.timeline.program, report.timeline.timing.end_s
    first, second = program.first.tolist(), program.second.tolist()
    joined = dict(pairs(report))
    behind = {backward: forward for forward, backward in joined.items()}
    start = end - report.timeline.prices.seconds[program.slot]
    for task in range(program.size):
        for before in (first[task] - 1, second[task] - 1):
            if before in joined and joined[before] != task:
                assert start[task] >= end[joined[before]] * (1 - 1e-12)
            if task in behind and before >= 0 and before != behind[task]:
                assert end[before] <= start[behind[task]] * (1 + 1e-12)


def test_hiding_collectives_makes_a_step_shorter() -> None:
    """The same order without the mark takes longer where there is tensor parallelism, and as long without."""
    shape = run(1).timeline.program.shape
    order = make_order("dualpipe_v", shape)
    plain = "; ".join(
        " ".join(str(action) for action in lane if action.op != "OVERLAP") for lane in order.lanes
    )
    marked = lanes_text(order.lanes).replace("\n", "; ")
    for tensor in (1, 2):
        with_mark, without = (run(tensor, text) for text in (marked, plain))
        assert with_mark.step_time_s == pytest.approx(run(tensor).step_time_s, rel=1e-12)
        work = [float(report.busy_s[0]) for report in (with_mark, without)]
        assert work[0] == pytest.approx(work[1], rel=1e-9)
        assert with_mark.peak_memory_bytes == without.peak_memory_bytes
        if tensor > 1:
            assert with_mark.step_time_s < without.step_time_s


def test_the_mark_is_read_and_checked() -> None:
    assert str(parse_action("0OVERLAP3~1")) == "0OVERLAP3~1"
    shape = line(1, 2)
    good = make_order("custom", shape, options={"lanes": "0F0 0F1 0OVERLAP1 0B0 0B1"})
    assert lanes_text(good.lanes).startswith("0F0 0F1 0OVERLAP1 0B0 0B1")
    for text in ("0F0 0F1 0B0 0OVERLAP1 0B1", "0F0 0F1 0OVERLAP0 0B0 0B1", "0F0 0OVERLAP0 0F1 0B0 0B1"):
        made = good.__class__(lanes=(parse_lanes(text)[0] + (parse_action("0U0-1"),),), steps=1)
        assert any("OVERLAP" in problem for problem in coverage(made, shape))
