"""Memory of ZeRO 2 and 3 where lanes stay with a stage: its weights and gradients are whole."""

from __future__ import annotations

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.tables import Estimator
from explorer.workload import default_workload

GPT = {"layers": "24", "embed": "256", "heads": "8", "vocab": "2048", "positions": "128"}


@pytest.mark.parametrize("zero", [2, 3])
@pytest.mark.parametrize("schedule", ["interleaved_1f1b", "gpipe"])
@pytest.mark.parametrize(("batch", "chunks"), [(8, 3), (16, 3), (16, 6), (8, 1)])
def test_levels_differ_as_the_simulators_do(zero: int, schedule: str, batch: int, chunks: int) -> None:
    """One round of microbatches, or two; of one chunk or several."""
    graph, cluster = load_model("gpt", settings=GPT), load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=batch)
    estimator = Estimator(graph, cluster, workload.job)
    plain = Degrees(stages=4, replicas=2, chunks=chunks, zero=1, microbatch_size=1, schedule=schedule)
    sharded = plain.changed(zero=zero)
    reports = [
        simulate(graph, cluster, workload, d.build(graph, cluster, workload.job)) for d in (plain, sharded)
    ]
    more = max(reports[1].peak_memory_bytes) - max(reports[0].peak_memory_bytes)
    guesses = [estimator.one(d) for d in (plain, sharded)]
    for part in ("memory_bytes", "memory_lower_bytes"):
        before, after = (float(getattr(found, part)[0]) for found in guesses)
        assert after - before == pytest.approx(more, abs=1.0), part
    assert guesses[1].step_lower_s[0] <= reports[1].step_time_s
