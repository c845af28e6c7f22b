"""Predicted weights take the seconds in which their copies are written, where a read looks ahead."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.cluster import Cluster
from explorer.library._ideal import free_cluster
from explorer.models.synthetic import chain
from explorer.simulation.report import Report
from explorer.strategies.uniform import uniform
from explorer.tasks.program import B, F
from explorer.workload import Job, Workload

STAGES, SCALARS, BYTES_PER_S, LAUNCH_S = 4, 250.0, 1e4, 0.125


def cluster() -> Cluster:
    ideal = free_cluster(STAGES)
    kind = replace(
        ideal.device_kinds[0], memory_bandwidth_bytes_per_s=BYTES_PER_S, launch_overhead_s=LAUNCH_S
    )
    return replace(ideal, device_kinds=(kind,))


def report(schedule: str, optimizer: str, *, mode: str = "train", precision: str = "fp32") -> Report:
    graph = chain([1.0] * STAGES, parameter_bytes=4 * SCALARS)
    job = Job(global_batch=8, precision=precision, optimizer=optimizer, mode=mode)
    strategy = uniform(graph, cluster(), job, stages=STAGES, microbatch_size=1, schedule=schedule)
    return explorer.simulate(graph, cluster(), Workload(jobs=(job,)), strategy)


def seconds(found: Report) -> dict[tuple[int, int], float]:
    """Seconds by kind and stage."""
    program, prices = found.timeline.program, found.timeline.prices
    return {
        (slot.kind, slot.where): float(prices.seconds[number])
        for number, slot in enumerate(program.slots)
        if slot.kind in (F, B)
    }


@pytest.mark.parametrize(
    ("optimizer", "precision", "moved"),
    [
        ("momentum", "fp32", 4 + 4 + 4),  # weight and velocity are read, the copy is written
        ("adam", "fp32", 4 + 8 + 4),
        ("momentum", "bf16", 4 + 4 + 2),  # fp32 master, copy in the precision of compute
        ("none", "fp32", 0),
    ],
)
def test_a_read_ahead_writes_a_copy_first(optimizer: str, precision: str, moved: int) -> None:
    """Stage k of N looks floor(k / 2) + N - k - 1 updates ahead in its forward, floor(k / 2) backward."""
    plain = seconds(report("pipedream", optimizer, precision=precision))
    made = seconds(report("spectrain", optimizer, precision=precision))
    copy_s = LAUNCH_S + moved * SCALARS / BYTES_PER_S if moved else 0.0
    for k in range(STAGES):
        assert made[F, k] - plain[F, k] == pytest.approx(copy_s)
        assert made[B, k] - plain[B, k] == pytest.approx(copy_s if k // 2 else 0.0)


def test_inference_reads_weights_as_they_are() -> None:
    plain, made = (report(name, "momentum", mode="infer") for name in ("pipedream", "spectrain"))
    assert made.step_time_s == plain.step_time_s
