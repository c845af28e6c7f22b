"""What if: closed forms of scaling, and refusals in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster import Cluster, Link
from explorer.plan import Resolved, make_plan
from explorer.strategy import Mesh, Strategy, single
from explorer.sweep import KEYS, sweep, sweeping, values_of, vary
from explorer.sweep.devices import scaled, with_devices
from explorer.sweep.variations import faster
from explorer.workload import default_workload
from tests.random_plans import Case, even_cases

GRAPH = explorer.load_model("gpt2-small")
DGX = explorer.load_cluster("dgx-a100")


def plan(batch: int = 32, cluster: Cluster = DGX, strategy: Strategy | None = None, **shape: int) -> Resolved:
    work = default_workload(GRAPH).with_job(global_batch=batch)
    made = strategy or explorer.uniform(GRAPH, cluster, work.job, **(shape or {"stages": 2, "replicas": 2}))  # type: ignore[arg-type]
    written = make_plan("gpt2-small", GRAPH, "dgx-a100", cluster, work, made)
    return Resolved(plan=written, graphs={"model": GRAPH}, cluster=cluster)


def test_present_values_are_the_plan_itself() -> None:
    own = plan()
    now = vary(own, {}).report()
    length = float(own.plan.workload.job.sequence_length)
    same = {"sequence_length": length, "global_batch": 32, "devices": 4, "stages": 2, "microbatch_samples": 2}
    for key, value in {**same, "bandwidth": 1.0}.items():
        report = vary(own, {key: value}).report()
        assert report.step_time_s == now.step_time_s, key
        assert report.peak_memory_bytes == now.peak_memory_bytes, key
    assert set(same) | {"bandwidth"} == set(KEYS)


def test_more_microbatches_take_the_time_of_one_more_each() -> None:
    """1F1B of equal stages: every further microbatch adds the same time."""
    times = [row.report.step_time_s for row in sweep(plan(), "global_batch", [16, 32, 48]) if row.report]
    assert times[2] - times[1] == pytest.approx(times[1] - times[0], rel=1e-6)


def test_bandwidth_halves_what_takes_bandwidth_only() -> None:
    """With no latency a transfer takes bytes over bandwidth: twice as fast, half the time.

    Nor may protocols have any: theirs is in overheads, steps and slices, which bandwidth does not shorten.
    """
    free = {"latency_s": 0.0, "collective_overhead_s": 0.0}
    at_once = {"overhead_s": 0.0, "step_s": 0.0, "slice_s": 0.0}
    levels = tuple(
        replace(level, **free, protocols=tuple(replace(item, **at_once) for item in level.protocols))
        for level in DGX.levels
    )
    assert any(level.protocols for level in levels)
    own = plan(cluster=replace(DGX, levels=levels), replicas=4)
    exposed = [
        sum(row.report.exposed_communication_s.values())
        for row in sweep(own, "bandwidth", [0.01, 0.02])
        if row.report
    ]
    assert exposed[0] == pytest.approx(2 * exposed[1], rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(even_cases("1f1b"), st.integers(2, 4))
def test_weak_scaling_gives_every_device_the_work_it_had(case: Case, factor: int) -> None:
    """With ZeRO a little less: updates are shared by more replicas."""
    used = len(case.strategy.job.devices)
    written = make_plan("m", case.graph, "c", case.cluster, case.workload, case.strategy)
    own = Resolved(plan=written, graphs={"model": case.graph}, cluster=case.cluster)
    now = vary(own, {}).report()
    then = vary(own, {"devices": used * factor}, weak=True).report()
    assert then.global_batch == now.global_batch * factor
    assert len(then.devices) == used * factor
    had, has = (sum(report.per_device(report.busy_s)) for report in (now, then))
    assert has <= factor * had * (1 + 1e-9) + 1e-12
    if not any(stage.zero for stage in case.strategy.job.stages):
        assert has == pytest.approx(factor * had, rel=1e-9, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(even_cases("1f1b"), st.integers(1, 4))
def test_scaling_there_and_back_is_the_same_placement(case: Case, factor: int) -> None:
    job = case.strategy.job
    grown = scaled(job, len(job.devices) * factor)
    assert [stage.layers for stage in grown.stages] == [stage.layers for stage in job.stages]
    assert [s.meshes[0].replicas for s in grown.stages] == [factor * s.meshes[0].replicas for s in job.stages]
    assert scaled(grown, len(job.devices)) == job


def test_strong_scaling_keeps_the_batch_and_says_what_does_not_divide() -> None:
    rows = sweep(plan(batch=32), "devices", ["2", 4, 8, 6, 5, 128])
    assert [row.value for row in rows] == [2, 4, 8, 6, 5, 128]
    assert [bool(row.report) for row in rows] == [True, True, True, False, False, False]
    assert all(row.report.global_batch == 32 for row in rows if row.report)
    steps = [row.report.step_time_s for row in rows if row.report]
    assert steps == sorted(steps, reverse=True)
    assert "a multiple of 2" in rows[4].problem
    assert "do not divide" in rows[3].problem
    assert "more problems" in rows[3].problem


def test_nodes_are_added_where_devices_lack() -> None:
    assert with_devices(DGX, 8) is DGX
    grown = with_devices(DGX, 20)
    assert grown.device_count == 24
    assert grown.path(0, 23).kind == "infiniband"
    report = vary(plan(), {"devices": 16}).report()
    assert report.devices == tuple(range(16))
    own = Link(source=0, target=1, kind="pcie", latency_s=0.0, bandwidth_bytes_per_s=1e9)
    for closed in (replace(DGX, levels=DGX.levels[:1]), replace(DGX, links=(own,))):
        with pytest.raises(InputError, match="no network to add nodes to"):
            with_devices(closed, 9)


def test_stages_cut_anew_use_as_many_device_groups() -> None:
    rows = sweep(plan(), "stages", [1, 2, 4])
    assert [len(row.report.devices) for row in rows if row.report] == [2, 4, 8]


def test_sequences_are_built_anew_and_models_without_any_say_so() -> None:
    rows = sweep(plan(), "sequence_length", [256, 512])
    assert rows[0].report
    assert rows[1].report
    assert rows[1].report.step_time_s > rows[0].report.step_time_s
    graph = explorer.load_model("resnet50")
    work = default_workload(graph).with_job(global_batch=8)
    strategy = explorer.uniform(graph, DGX, work.job, replicas=2)
    written = make_plan("resnet50", graph, "dgx-a100", DGX, work, strategy)
    found = sweep(Resolved(plan=written, graphs={"model": graph}, cluster=DGX), "sequence_length", [512])
    assert "no sequences" in found[0].problem


def test_plans_that_have_no_larger_copy_say_so() -> None:
    job = plan().plan.strategy.job
    shared = [replace(stage, meshes=(Mesh(devices=(0, i + 1)),)) for i, stage in enumerate(job.stages)]
    uneven = [replace(stage, shares=(1.0, 2.0)) for stage in job.stages]
    for stages in (shared, uneven):
        odd = plan(strategy=single(stages=tuple(stages)))
        assert "replicas cannot follow" in sweep(odd, "devices", [8])[0].problem
        assert sweep(odd, "devices", [len(odd.plan.strategy.job.devices)])[0].report
    assert "cut anew" in sweep(plan(strategy=single(stages=tuple(uneven))), "stages", [4])[0].problem


@pytest.mark.parametrize("values", [["a"], [0], [-1], [float("nan")], [float("inf")], []])
def test_wrong_values_are_refused_in_words(values: list[str | float]) -> None:
    with pytest.raises(InputError, match=r"a number above 0|no value of devices"):
        values_of("devices", values)


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(InputError, match="cannot sweep over 'joy'"):
        sweep(plan(), "joy", [1])
    with pytest.raises(InputError, match="cannot vary 'joy'"):
        vary(plan(), {"joy": 1})
    assert "a whole number" in sweep(plan(), "global_batch", [1.5])[0].problem


def test_a_sweep_can_be_stopped_between_values() -> None:
    rows = sweeping(plan(), "global_batch", [16, 32])
    assert next(rows).value == 16


def test_faster_leaves_latency_alone() -> None:
    twice = faster(DGX, 2)
    assert [level.latency_s for level in twice.levels] == [level.latency_s for level in DGX.levels]
    assert twice.path(0, 1).bandwidth_bytes_per_s == 2 * DGX.path(0, 1).bandwidth_bytes_per_s
    assert faster(DGX, 1) is DGX
