"""Calibration and comparison on made-up measurements whose answer is known."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.costs.collectives import collective_seconds
from explorer.costs.update_time import update_seconds
from explorer.run.cases.build import prepare
from explorer.run.judging.calibrate import calibrate
from explorer.run.judging.compare import (
    CONFIRMED,
    OFF,
    TOO_NOISY,
    WRONG,
    measure,
    parts_with_overhead,
    predicted_parts,
    predicted_stages,
    predicted_step,
    relative_pct,
    spread,
    verdict_of,
)  # fmt: skip
from explorer.run.model import model_graph, transformer
from explorer.run.spec import Calibration
from explorer.strategy import JobStrategy
from explorer.workload import Job
from tests.run.programs import SCHEDULES, dry, stages_of

MODEL = transformer(2)


def rows(ranks: int = 2, rounds: int = 3) -> list[list[dict[str, Any]]]:
    """Units take 1 ms a sample forward and 2 ms backward (embedding and head nothing)."""
    unit = {n: [[0.0, 0.0], [n * 1e-3, n * 2e-3], [n * 1e-3, n * 2e-3], [0.0, 0.0]] for n in (1, 4)}
    row = {
        "units": {str(n): pairs for n, pairs in unit.items()},
        "update_s": 5e-3,
        "cpu_share": 0.9,
        "messages": {"4": 1e-4, "1000004": 1.1e-3},
        "reduces": {"4": 2e-4, "1000000": 3e-3},
    }
    return [[row] * rounds for _ in range(ranks)]


def test_the_calibrated_cluster_gives_back_what_was_measured() -> None:
    known = calibrate(Calibration(model=MODEL, samples=(), optimizer="adam"), rows(), ranks=2)
    path = known.cluster.path(0, 1)
    assert path.latency_s + 1000004 / path.bandwidth_bytes_per_s == pytest.approx(1.1e-3, rel=1e-3)
    assert collective_seconds(known.cluster, "all_reduce", (0, 1), 1e6) == pytest.approx(3e-3, rel=1e-6)
    elements = sum(p.elements for p in known.graph.parameters)
    kind = known.cluster.kind_of(0)
    assert update_seconds(kind, elements=elements, optimizer="adam", precision="fp32") == pytest.approx(5e-3)
    assert known.cpu_share == 0.9


def test_simulated_on_it_a_step_is_the_sum() -> None:
    """Two stages of one unit, m microbatches of 4 samples: (m + 1)(4 + 8) ms and the little rest."""
    known = calibrate(Calibration(model=MODEL, samples=(), optimizer="none"), rows(), ranks=2)
    job = Job(global_batch=32, precision="fp32", optimizer="none")
    names = [layer.name for layer in known.graph.layers]
    strategy = JobStrategy(stages=stages_of(names, 2, 1, size=4), schedule="gpipe")
    made = prepare("x", known.graph, known.cluster, job, strategy, steps=2, model=MODEL)
    assert predicted_step(made) == pytest.approx(9 * 12e-3, rel=0.02)
    assert model_graph(MODEL).parameters == known.graph.parameters


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_as_predicted_measures_the_prediction(schedule: str) -> None:
    item = dry(schedule, 4)
    timing = item.timing
    ranks = []
    for tasks in item.program.programs:
        free, stamps = 0.0, []
        for task in tasks.tolist():
            stamps.append(
                [
                    task,
                    free,
                    timing.start_s[task],
                    timing.end_s[task],
                    timing.end_s[task] - timing.start_s[task],
                ]
            )
            free = timing.end_s[task]
        ranks.append([{"stamps": stamps}])
    seen = measure(item, ranks)
    assert seen.step_time_s == pytest.approx(predicted_step(item), rel=1e-12)
    assert seen.makespan_s == pytest.approx(float(timing.end_s.max()), rel=1e-12)
    assert seen.parts == pytest.approx(predicted_parts(item))
    assert sum(seen.parts.values()) * item.program.order.steps == pytest.approx(seen.makespan_s, rel=1e-9)
    assert seen.parts["overhead"] == 0
    assert seen.cpu_share == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("stamp", "inside", "share"),
    [
        ([0.0, 0.0, 2.0, 1.5], (), 0.75),  # of a former version: what its own messages took is not told apart
        ([0.0, 0.0, 2.0, 1.5, 2.0], (), 1.0),  # threads of its messages had the rest
        ([0.0, 0.0, 2.0, 1.5, 1.8], (), 0.9),
        ([0.0, 0.0, 2.0, 1.5, 3.0], (), 1.0),  # on another core
        ([0.0, 0.0, 2.0, 1.5, 2.0], [[0, 1.0, 0.5]], 1.0),  # half was a collective, in which it waited
        ([0.0, 0.0, 2.0, 0.9, 2.0], [[0, 1.0, 0.5]], 0.4),
    ],
)
def test_a_rank_lost_what_neither_it_nor_its_messages_had(
    stamp: list[float], inside: list[list[float]], share: float
) -> None:
    item = dry("gpipe", 1, microbatches=1, steps=1)
    tasks = item.program.programs[0].tolist()
    row = {"stamps": [[task, *stamp] for task in tasks]}
    row["inside"] = [[task, *of[1:]] for task in tasks for of in inside]
    assert measure(item, [[row]]).cpu_share == pytest.approx(share)


def test_gpipe_bubble_by_the_formula() -> None:
    """(p - 1)(F + B) of each step idle on every lane, transfers apart."""
    item = dry("gpipe", 4, microbatches=8, seconds=0.02)
    parts = predicted_parts(item)
    assert parts["compute"] == pytest.approx(8 * 0.06)
    assert parts["bubble"] + parts["communication"] == pytest.approx(3 * 0.06, rel=0.15)


def test_what_is_late_is_named() -> None:
    """A rank that starts its second task 7 ms late by itself: overhead, nothing else."""
    item = dry("gpipe", 1, microbatches=4, steps=1)
    stamps, free = {}, 0.0
    for i, task in enumerate(item.program.programs[0].tolist()):
        begin = free + (0.007 if i == 1 else 0.0)
        end = begin + float(item.timing.end_s[task] - item.timing.start_s[task])
        stamps[task], free = (begin, begin, end), end
    found = parts_with_overhead(item, stamps)
    assert found["overhead"] == pytest.approx(0.007)
    assert found["bubble"] == pytest.approx(0.0)
    assert found["communication"] == 0


@pytest.mark.parametrize(
    ("contention", "ok", "error", "verdict"),
    [
        (0.95, True, 10.0, CONFIRMED),
        (0.95, None, -16.0, OFF),
        (0.5, True, 1.0, TOO_NOISY),
        (0.5, False, 1.0, WRONG),
    ],
)
def test_verdicts(contention: float, ok: bool | None, error: float, verdict: str) -> None:
    assert verdict_of(contention=contention, numerics_ok=ok, error_pct=error, tolerance_pct=15) == verdict


def test_errors_are_relative_to_the_measured() -> None:
    assert relative_pct(1.1, 1.0) == pytest.approx(10)
    assert relative_pct(0.5, 1.0) == pytest.approx(-50)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_compute_by_stage_adds_up_to_compute(schedule: str) -> None:
    item = dry(schedule, 4)
    by_stage = predicted_stages(item)
    sections = item.program.skeleton.sections
    assert set(by_stage) == {section.stage for section in sections}
    lanes = [
        {sections[item.program.slots[item.program.slot[task]].where].stage for task in tasks.tolist()}
        for tasks in item.program.programs
    ]
    whole = sum(by_stage[stage] for held in lanes for stage in held) / len(lanes)
    assert whole == pytest.approx(predicted_parts(item)["compute"])


def test_spread_is_the_distance_of_the_quartiles() -> None:
    assert spread([]) == spread([3.0]) == 0.0
    assert spread([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(3.0)
