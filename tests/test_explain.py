"""Why: what does not fit, by how much, and the cheapest change that does; every number re-simulated."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import explorer
from explorer.errors import InfeasibleError
from explorer.explain import explain, require_feasible
from explorer.units import format_bytes, format_seconds
from explorer.workload import default_workload
from tests.random_plans import Case, cluster_of, pipeline

GPT = explorer.load_model("gpt2-xl")
V100 = explorer.load_cluster("dgx-1-v100")
BIG = default_workload(GPT).with_job(global_batch=32)


def sentences(case: Case):  # type: ignore[no-untyped-def]
    report = explorer.simulate(*case)
    return report, {item.topic: item for item in explain(*case, report)}


def too_big(room: float = 0.8, **changes: int) -> Case:
    """A strategy on devices with only so much of the memory that it needs."""
    strategy = explorer.uniform(GPT, V100, BIG.job, stages=4, replicas=2, **changes)  # type: ignore[arg-type]
    needed = max(explorer.simulate(GPT, V100, BIG, strategy).peak_memory_bytes)
    kinds = tuple(replace(kind, memory_bytes=room * needed) for kind in V100.device_kinds)
    return Case(GPT, replace(V100, device_kinds=kinds), BIG, strategy)


def test_what_does_not_fit_says_where_by_how_much_and_what_would() -> None:
    case = too_big(microbatch_size=2)
    report, said = sentences(case)
    assert not report.feasible
    assert list(said) == ["memory"]
    memory = said["memory"]
    worst = max(report.overflows, key=lambda item: item.over_bytes)
    assert f"Device {worst.device} needs {format_bytes(worst.over_bytes)} more" in memory.text
    assert memory.strategy is not None
    again = explorer.simulate(case.graph, case.cluster, case.workload, memory.strategy)
    assert again.feasible
    assert memory.step_time_s == again.step_time_s
    assert format_seconds(again.step_time_s) in memory.text
    with pytest.raises(InfeasibleError, match=re.escape(memory.change)) as caught:
        require_feasible(*case, report)
    assert caught.value.exit_status == 3
    assert "\n" not in str(caught.value)


def test_the_change_is_the_cheapest_that_fits() -> None:
    case = too_big(microbatch_size=2)
    _, said = sentences(case)
    assert said["memory"].step_time_s is not None
    job = case.strategy.job
    for recompute in ("none", "selective", "full"):
        for zero in (0, 1, 2, 3):
            stages = tuple(replace(stage, recompute=recompute, zero=zero) for stage in job.stages)
            changed = case.strategy.with_job(job.with_stages(stages))
            other = explorer.simulate(case.graph, case.cluster, case.workload, changed)
            if other.feasible:
                assert said["memory"].step_time_s <= other.step_time_s * (1 + 1e-9)


def test_where_nothing_helps_it_says_what_else_to_try() -> None:
    graph = explorer.load_model("gpt3-175b")
    workload = default_workload(graph).with_job(global_batch=8)
    strategy = explorer.uniform(graph, V100, workload.job, stages=8)
    _, said = sentences(Case(graph, V100, workload, strategy))
    assert said["memory"].strategy is None
    assert "more stages, tensor parallelism or devices" in said["memory"].text


def test_an_unbalanced_pipeline_names_the_device_that_binds_and_a_better_cut() -> None:
    base = pipeline([1.0] * 2, [1.0] * 2, microbatches=4)
    graph = explorer.models.synthetic.chain([1.0] * 6, backward_s=1.0)
    names = [layer.name for layer in graph.layers]
    first, second = base.strategy.job.stages
    stages = (replace(first, layers=tuple(names[:4])), replace(second, layers=tuple(names[4:])))
    case = base._replace(graph=graph, strategy=base.strategy.with_job(base.strategy.job.with_stages(stages)))
    report, said = sentences(case)
    balance = said["balance"]
    assert "Device 0 binds" in balance.text
    assert balance.strategy is not None
    assert [len(stage.layers) for stage in balance.strategy.job.stages] == [3, 3]
    again = explorer.simulate(case.graph, case.cluster, case.workload, balance.strategy)
    assert balance.step_time_s == again.step_time_s < report.step_time_s
    assert format_seconds(report.step_time_s - again.step_time_s) in balance.text


def test_a_feasible_plan_says_how_full_it_is() -> None:
    case = pipeline([1.0] * 2, [1.0] * 2, microbatches=4, parameter_bytes=4.0)
    case = case._replace(cluster=cluster_of(case.cluster.levels, memory_bytes=100.0))
    report, said = sentences(case)
    fullest = max(report.peak_memory_bytes)
    assert f"at {fullest / 100.0:.0%} of its memory" in said["memory"].text
    require_feasible(*case, report)  # nothing to say
