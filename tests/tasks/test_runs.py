"""Gathers and reductions of ZeRO over runs of actions (Lamy-Poirier, Breadth-First Pipeline Parallelism)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models.synthetic import chain
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.tasks.program import CLOSING, GATHER, REDUCE
from explorer.workload import Job, Workload

POSITIONS, CHUNKS, REPLICAS, MICROBATCHES = 2, 4, 2, 8
BUFFERS = MEMORY_PARTS.index("buffers")


def run(
    schedule: str = "gpipe",
    *,
    chunks: int = CHUNKS,
    zero: int = 3,
    reshard: str = "",
    stages: int = POSITIONS,
) -> Report:
    graph = chain([1e-3] * 16, parameter_bytes=1e6, activation_bytes=10.0, saved_bytes=10.0)
    cluster = load_cluster("dgx-a100")
    job = Job(global_batch=MICROBATCHES * REPLICAS, precision="fp32", optimizer="adam")
    strategy = uniform(
        graph, cluster, job, stages=POSITIONS, chunks=chunks, replicas=REPLICAS, microbatches=MICROBATCHES,
        zero=zero, schedule="interleaved_1f1b" if chunks > 1 else "1f1b",
    )  # fmt: skip
    made = tuple(replace(stage, reshard=reshard) for stage in strategy.job.stages)
    strategy = strategy.with_job(replace(strategy.job.with_stages(made), schedule=schedule))
    return simulate(graph, cluster, Workload(jobs=(job,)), strategy)


def counted(report: Report) -> Counter[int]:
    """Gathers (those that close) and reductions of the first step."""
    program = report.timeline.program
    found: Counter[int] = Counter()
    for task in range(program.size):
        slot = program.slots[program.slot[task]]
        if program.step[task] == 0 and (
            slot.kind == REDUCE or (slot.kind == GATHER and slot.part == CLOSING)
        ):
            found[slot.kind] += 1
    return found


def test_breadth_first_gathers_a_chunk_for_all_its_microbatches() -> None:
    """2 v - 1 gathers a position (the last chunk's backwards follow its forwards), and v reductions."""
    lanes = POSITIONS  # equal replicas are folded into one
    by_run, by_action = run(), run(reshard="action")
    assert counted(by_run) == {GATHER: lanes * (2 * CHUNKS - 1), REDUCE: lanes * CHUNKS}
    assert counted(by_action) == {
        GATHER: lanes * 2 * CHUNKS * MICROBATCHES, REDUCE: lanes * CHUNKS * MICROBATCHES
    }  # fmt: skip
    assert sum(by_run.traffic_bytes.values()) < sum(by_action.traffic_bytes.values()) / 4
    assert by_run.step_time_s < by_action.step_time_s


def test_a_run_holds_its_chunk_whole() -> None:
    """All weights and gradients of a chunk of two layers and the layer that is fetched, for two and one."""
    by_run, by_action = run(), run(reshard="action")
    layer, of_chunk = 1e6, 16 / (POSITIONS * CHUNKS)
    for parts, others in zip(by_run.memory_parts_bytes, by_action.memory_parts_bytes, strict=True):
        assert others[BUFFERS] - parts[BUFFERS] == pytest.approx(-(2 * of_chunk - 2) * layer)


@pytest.mark.parametrize("schedule", ["interleaved_1f1b", "1f1b"])
def test_orders_that_change_chunks_at_every_action_gather_at_every_action(schedule: str) -> None:
    chunks = CHUNKS if schedule != "1f1b" else 1
    assert counted(run(schedule, chunks=chunks)) == counted(run(schedule, chunks=chunks, reshard="action"))


def test_one_stage_alone_gathers_once_a_step_if_it_says_so() -> None:
    assert counted(run("1f1b", chunks=1, reshard="run")) == {GATHER: POSITIONS, REDUCE: POSITIONS}
    assert counted(run("1f1b", chunks=1))[GATHER] == POSITIONS * 2 * MICROBATCHES


def test_level_2_adds_up_over_a_run() -> None:
    found = counted(run(zero=2))
    assert found == {REDUCE: POSITIONS * CHUNKS}
