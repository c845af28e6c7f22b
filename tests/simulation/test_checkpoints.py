"""Checkpoints against their formula, and what is refused because nothing would follow it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.base.errors import PlanError
from explorer.cluster import Event
from explorer.simulation.check import check
from explorer.simulation.simulate import simulate
from explorer.strategy import Sync
from tests.fields.samples import KIND, SMALL, Sample, cluster, one_stage, pipeline, samples, with_layers_of


def with_period(sample: Sample, seconds: float) -> Sample:
    job = replace(sample.strategy.job, checkpoint_period_s=seconds)
    return sample._replace(strategy=sample.strategy.with_job(job))


@pytest.mark.parametrize("name", ["pipeline", "replicas", "weights sharded", "sparse"])
@pytest.mark.parametrize("period_s", [1.0, 600.0])
def test_a_step_is_longer_by_the_share_of_copies(name: str, period_s: float) -> None:
    """Weights and optimizer states of the fullest device over its host's bandwidth, once in a period."""
    sample = samples()[name]
    before, after = simulate(*sample), simulate(*with_period(sample, period_s))
    parts = before.memory_parts_bytes
    copy_s = max(row[0] + row[3] for row in parts) / KIND.host_bandwidth_bytes_per_s
    assert after.step_time_s == pytest.approx(before.step_time_s * (1 + copy_s / period_s), rel=1e-12)
    assert after.throughput_samples_per_s == pytest.approx(16 / after.step_time_s)
    assert (after.makespan_s, after.memory_parts_bytes) == (before.makespan_s, parts)


def test_sharded_states_are_copied_sooner() -> None:
    whole, shared = (
        simulate(*with_period(one_stage(samples()["replicas"].graph, 4, zero=z), 1.0)).step_time_s
        / simulate(*one_stage(samples()["replicas"].graph, 4, zero=z)).step_time_s
        for z in (0, 1)
    )
    assert shared < whole


REFUSED = {
    "checkpoints without a host": (
        with_period(
            pipeline()._replace(
                cluster=cluster(device_kinds=(replace(KIND, host_bandwidth_bytes_per_s=0.0), SMALL))
            ),
            60.0,
        ),
        "host_bandwidth_bytes_per_s) is not known",
    ),
    "checkpoints below nothing": (with_period(pipeline(), -1.0), "checkpoint_period_s is -1"),
    "checkpoints of peers": (with_period(samples()["peers"], 60.0), "schedule swarm prices no checkpoints"),
    "events": (
        pipeline()._replace(cluster=cluster(events=(Event(time_s=1.0, device=3, kind="leave"),))),
        "has events (the first: device 3 leaves), which schedule 1f1b cannot handle",
    ),
    "streams": (
        pipeline()._replace(cluster=cluster(device_kinds=(replace(KIND, compute_lanes=2), SMALL))),
        "device kind big has 2 independent streams of compute (compute_lanes)",
    ),
    "late layers": (
        with_layers_of(pipeline(), release_s=0.5),
        "may start only 0.5 s into a step (release",
    ),
    "sharded tables": (
        one_stage(samples()["replicas"].graph, sync=(Sync(parameters=("*",), method="sharded_table"),)),
        "by sharded_table is not priced; use parameter_server",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nothing_follows_is_refused_by_name(name: str) -> None:
    sample, words = REFUSED[name]
    assert [text for text in check(*sample) if words in text]
    with pytest.raises(PlanError) as caught:
        simulate(*sample)
    assert words in str(caught.value)


def test_checkpoints_beside_other_jobs_are_refused() -> None:
    sample = samples()["together"]
    jobs = tuple(replace(job, checkpoint_period_s=60.0) for job in sample.strategy.jobs)
    found = check(*sample._replace(strategy=replace(sample.strategy, jobs=jobs)))
    assert len([text for text in found if "checkpoints beside other jobs" in text]) == 2
