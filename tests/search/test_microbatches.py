"""The default microbatch: the fastest of the powers of two that fit."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.search import microbatches
from explorer.search.microbatches import MOST_EVALUATIONS, with_best_microbatch
from explorer.simulation.report import Report
from explorer.strategies.degrees import Degrees
from explorer.workload import default_workload

DGX = explorer.load_cluster("dgx-a100")
GPT = explorer.load_model("gpt2-small")


@pytest.mark.parametrize(
    "degrees", [Degrees(replicas=2), Degrees(stages=4), Degrees(stages=2, chunks=2), Degrees(tensor=4)]
)
@pytest.mark.parametrize("batch", [24, 64])
def test_it_is_the_fastest_that_fits_by_brute_force(degrees: Degrees, batch: int) -> None:
    workload = default_workload(GPT).with_job(global_batch=batch)
    found: dict[int, float] = {}
    for size in range(1, batch + 1):
        if batch // degrees.replicas % size or size & (size - 1):
            continue
        try:
            strategy = degrees.changed(microbatch_size=size).build(GPT, DGX, workload.job)
            report = explorer.simulate(GPT, DGX, workload, strategy)
        except explorer.ExplorerError:
            continue
        if report.feasible:
            found[size] = report.step_time_s
    best = with_best_microbatch(GPT, DGX, workload, degrees)
    assert best.microbatch_size == min(found, key=lambda size: (found[size], size))
    assert best == degrees.changed(microbatch_size=best.microbatch_size)


def test_what_does_not_fit_is_not_chosen() -> None:
    graph = explorer.load_model("gpt2-xl")
    workload = default_workload(graph).with_job(global_batch=64)
    best = with_best_microbatch(graph, DGX, workload, Degrees(replicas=1, recompute="none", zero=0))
    strategy = best.build(graph, DGX, workload.job)
    assert explorer.simulate(graph, DGX, workload, strategy).feasible


def test_where_nothing_fits_the_size_does_not_matter_to_memory_the_fastest_is_taken() -> None:
    """Tables of 100 GB on devices of 80 GB lack as much with one sample as with 2,048."""
    graph, cluster = explorer.load_model("dlrm"), explorer.load_cluster("dgx-a100-4")
    workload = default_workload(graph)
    best = with_best_microbatch(graph, cluster, workload, Degrees(replicas=32))
    sizes = [Degrees(replicas=32, microbatch_size=2**k) for k in range(12)]
    reports = {
        found.microbatch_size: explorer.simulate(
            graph, cluster, workload, found.build(graph, cluster, workload.job)
        )
        for found in sizes
    }
    assert not any(report.feasible for report in reports.values())
    assert best.microbatch_size == workload.job.global_batch // 32
    assert reports[best.microbatch_size].step_time_s == min(item.step_time_s for item in reports.values())


def test_at_most_eight_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(*args: object) -> Report:
        calls.append(1)
        return explorer.simulate(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(microbatches, "simulate", counted)
    workload = default_workload(GPT).with_job(global_batch=2**12, sequence_length=64)
    graph = explorer.load_model("gpt2-small", sequence_length=64)
    best = with_best_microbatch(graph, DGX, workload, Degrees(replicas=8))
    assert len(calls) <= MOST_EVALUATIONS
    assert best.microbatch_size >= 16


@given(count=st.integers(9, 33), best=st.integers(0, 32), refused=st.integers(0, 8), fits=st.integers(0, 33))
def test_the_search_finds_the_bottom_of_a_valley(count: int, best: int, refused: int, fits: int) -> None:
    """Sizes too small to be simulated on the left, too large to fit on the right, one valley between."""
    best = min(best, count - 1)
    judged: dict[int, tuple[float, float]] = {}

    def judge(size: int) -> tuple[float, float]:
        over = max(0.0, size - max(best, fits))
        slow = abs(size - best) + 0.1 * (size > best)
        judged[size] = (math.inf, math.inf) if size < min(refused, best) else (over, slow)
        return judged[size]

    microbatches._search(range(count), judge)
    assert min(judged, key=lambda size: judged[size]) == best
    assert len(judged) <= MOST_EVALUATIONS
