"""Activations of orders that split the backward, lane by lane, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.tasks.program import SAVED, WAITING
from explorer.views.memory_map import memory_levels
from explorer.workload import Job, Workload

ACTIVATIONS = MEMORY_PARTS.index("activations")
STAGES, MICROBATCHES = 4, 9


def graph() -> LayerGraph:
    settings = {"layers": "6", "embed": "256", "heads": "4", "vocab": "512", "attention": "unfused"}
    return load_model("gpt", sequence_length=128, settings={**settings, "dropout": "true"})


def run(lanes: list[str], recompute: str = "none", *, schedule: str = "custom") -> Report:
    cluster: Cluster = load_cluster("dgx-a100")
    job = Job(global_batch=MICROBATCHES, precision="bf16")
    model = graph()
    strategy = uniform(model, cluster, job, stages=STAGES, microbatch_size=1, recompute=recompute)
    options = (("lanes", "; ".join(lanes)),) if schedule == "custom" else ()
    strategy = strategy.with_job(replace(strategy.job, schedule=schedule, options=options))
    return simulate(model, cluster, Workload(jobs=(job,)), strategy)


def zb_h1(stage: int) -> str:
    """Qi et al., figure 2: W lags `stage` microbatches behind I, and comes before the next forward."""
    ahead, m = STAGES - stage, MICROBATCHES
    found = [f"{stage}F{n}" for n in range(ahead)]
    for n in range(m):
        found.append(f"{stage}I{n}")
        found += [f"{stage}W{n - stage}"] if n >= stage else []
        found += [f"{stage}F{n + ahead}"] if n + ahead < m else []
    return " ".join([*found, *(f"{stage}W{n}" for n in range(m - stage, m))])


def one_f_one_b(stage: int, backward: str) -> str:
    ahead, m = STAGES - stage, MICROBATCHES
    found = [f"{stage}F{n}" for n in range(ahead)]
    for n in range(m):
        found += [f"{stage}{op}{n}" for op in backward]
        found += [f"{stage}F{n + ahead}"] if n + ahead < m else []
    return " ".join(found)


def activations(report: Report) -> list[float]:
    return [parts[ACTIVATIONS] for parts in report.memory_parts_bytes]


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_zb_h1_holds_no_more_than_the_first_stage_of_1f1b(recompute: str) -> None:
    """Stage i holds p - i microbatches whole and what i of them leave to W."""
    split = run([zb_h1(i) for i in range(STAGES)], recompute)
    plain = run([], recompute, schedule="1f1b")
    memory = split.timeline.prices.memory
    for i, (found, item) in enumerate(zip(activations(split), memory, strict=True)):
        whole, waits = item.activation_bytes_per_sample, item.waiting_bytes_per_sample
        before = (STAGES - i) * whole + i * waits + item.recompute_peak_bytes_per_sample
        after = (STAGES - i - 1) * whole + (i + 1) * waits + item.recompute_rest_bytes_per_sample
        assert found == pytest.approx(max(before, after), rel=1e-12)
    if recompute == "none":
        assert max(activations(split)) <= activations(plain)[0]


@pytest.mark.parametrize(("schedule", "times"), [("zb_h1", 1), ("zb_h2", 2)])
def test_registered_zero_bubble_schedules_hold_what_the_paper_says(schedule: str, times: int) -> None:
    """No stage above the first of 1F1B, or about twice that (2 p - 1 microbatches)."""
    plain, split = run([], schedule="1f1b"), run([], schedule=schedule)
    allowed = activations(plain)[0] * (times * STAGES - (times - 1)) / STAGES
    assert max(activations(split)) <= allowed * (1 + 1e-12)


def test_two_halves_at_once_are_one_backward() -> None:
    """W right behind its I adds only the gradients that wait, never the forwards' part."""
    whole, split = (run([one_f_one_b(i, ops) for i in range(STAGES)]) for ops in ("B", "IW"))
    assert activations(whole) == activations(run([], schedule="1f1b"))
    for i, (found, other) in enumerate(zip(activations(split), activations(whole), strict=True)):
        item = split.timeline.prices.memory[i]
        more = item.waiting_bytes_per_sample - item.activation_bytes_per_sample
        assert found == pytest.approx(other + max(0.0, more), rel=1e-12)
    assert split.step_time_s == pytest.approx(whole.step_time_s, rel=0.05)


def test_weight_gradients_at_the_end_hold_what_every_microbatch_leaves() -> None:
    """2BP with all second halves behind: m microbatches wait at once."""
    m = MICROBATCHES
    lanes = [one_f_one_b(i, "I") + "".join(f" {i}W{n}" for n in range(m)) for i in range(STAGES)]
    report = run(lanes)
    for i, found in enumerate(activations(report)):
        item = report.timeline.prices.memory[i]
        whole, waits = item.activation_bytes_per_sample, item.waiting_bytes_per_sample
        # when n of them have run I
        levels = [min(n + STAGES - i, m) * whole + n * (waits - whole) for n in range(m + 1)]
        assert found == pytest.approx(max(levels), rel=1e-12)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_drawn_over_time_it_peaks_where_the_report_says_and_ends_empty(recompute: str) -> None:
    report = run([zb_h1(i) for i in range(STAGES)], recompute)
    static = np.array([sum(parts) - parts[ACTIVATIONS] for parts in report.memory_parts_bytes])
    levels = memory_levels(report, 4000)
    assert levels.max(axis=1) == pytest.approx(static + np.array(activations(report)), rel=1e-12)
    events = report.timeline.program.memory
    for part in (SAVED, WAITING):
        for lane in range(STAGES):
            assert events.samples[(events.lane == lane) & (events.part == part)].sum() == 0
