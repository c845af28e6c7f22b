"""Why: what does not fit, what binds and what would help; every number re-simulated."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InfeasibleError
from explorer.base.units import format_bytes, format_seconds
from explorer.explain import Sentence, explain, ordered, reasons, require_feasible
from explorer.explain.changes import everywhere
from explorer.explain.neighbours import cut_anew
from explorer.explain.questions import WORTH, Asked
from explorer.strategies.degrees_reading import regular_degrees
from explorer.strategies.moves import groups_of, place_layers
from explorer.strategy import Keeping
from explorer.workload import default_workload
from tests.random_plans import Case, cluster_of, even_cases, pipeline

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
    assert next(iter(said)) == "memory", "nothing else matters before it fits"
    assert set(said) <= {"memory", "shape", "devices"}
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


def test_where_only_memory_helps_no_other_split_is_advised() -> None:
    """GPT-2 XL in fp16 with Adam: 16 bytes a parameter, on eight devices of 2 GB each."""
    kinds = tuple(replace(kind, memory_bytes=2e9, reserved_bytes=0.0) for kind in V100.device_kinds)
    few = replace(V100, device_kinds=kinds)
    job = BIG.job
    strategy = explorer.uniform(GPT, few, job, stages=8)
    _, said = sentences(Case(GPT, few, BIG, strategy))
    elements = sum(item.elements for item in GPT.parameters)
    kept = 16 * elements
    assert f"need {format_bytes(kept)}, however they are divided" in said["memory"].text
    assert f"{-int(-kept // 2e9)} of them or more" in said["memory"].text
    assert "stages" not in said["memory"].text.split("do not suffice")[1].split("Nearest")[0]
    assert sentences(too_big(0.01))[1]["memory"].text.count("larger devices") == 1


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
    assert "all 8 devices together have" in said["memory"].text  # 175 billion parameters on 128 GB
    alone = explorer.uniform(GPT, V100, BIG.job, stages=1)  # 1.5 billion on one of eight
    _, said = sentences(Case(GPT, V100, BIG, alone))
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


# ---- every sentence carries a number that is true of its change


def check_sentences(case: Case, said: tuple[Sentence, ...]) -> None:
    """What a button applies has the step time that its sentence says; what helps nothing proposes nothing."""
    report = explorer.simulate(*case)
    assert len({item.topic for item in said}) == len(said)
    for item in said:
        assert item.text
        if item.strategy is None:
            assert not item.change
            assert item.saves_s is None
            continue
        again = explorer.simulate(case.graph, case.cluster, case.workload, item.strategy)
        assert again.feasible
        assert item.step_time_s == again.step_time_s
        assert item.change.lower() in item.text.replace("**", "").lower()
        if report.feasible:
            assert item.saves_s == report.step_time_s - again.step_time_s
            assert item.topic == "memory" or item.saves_s >= report.step_time_s * WORTH * (1 - 1e-9)
        else:
            assert item.saves_s is None


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(even_cases("1f1b"))
def test_the_applied_change_has_the_step_time_that_is_said(case: Case) -> None:
    check_sentences(case, explain(*case, explorer.simulate(*case)))


LLAMA = explorer.load_model("llama3-8b", sequence_length=4096)
DGX = explorer.load_cluster("dgx-a100")


def llama(batch: int = 32, **shape: object) -> Case:
    workload = default_workload(LLAMA).with_job(global_batch=batch, sequence_length=4096)
    return Case(LLAMA, DGX, workload, explorer.uniform(LLAMA, DGX, workload.job, **shape))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "shape",
    [
        {"stages": 4, "replicas": 2},
        {"stages": 4, "replicas": 2, "recompute": "full"},
        {"stages": 2, "replicas": 2, "tensor": 2, "zero": 1},
        {"stages": 2, "replicas": 1},
        {"replicas": 8, "zero": 3},
        {"stages": 4, "replicas": 2, "chunks": 2, "schedule": "interleaved_1f1b"},
    ],
    ids=str,
)
def test_sentences_of_a_real_model(shape: dict[str, object]) -> None:
    case = llama(**shape)
    said = explain(*case, explorer.simulate(*case))
    check_sentences(case, said)
    topics = {item.topic for item in said}
    report = explorer.simulate(*case)
    assert ("recompute" in topics) == (report.feasible and shape.get("recompute") == "full")
    assert ("devices" in topics) == (len(report.devices) < 8)
    if report.feasible:
        assert {"memory", "communication", "shape"} <= topics


def test_most_useful_first() -> None:
    case = llama(stages=4, replicas=2)
    saved = [item.saves_s for item in explain(*case, explorer.simulate(*case)) if item.strategy is not None]
    assert saved == sorted(saved, key=lambda value: -(value or 0.0))
    plain = Sentence(topic="a", text="x")
    good = Sentence(topic="b", text="y", strategy=case.strategy, saves_s=1.0)
    assert ordered((plain, good)) == (good, plain)


def test_reasons_pause_after_every_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    from explorer.explain import questions as module

    case, simulated = llama(stages=4, replicas=2), 0

    def counted(*arguments: object) -> object:
        nonlocal simulated
        simulated += 1
        return explorer.simulate(*arguments)  # type: ignore[arg-type]

    report = explorer.simulate(*case)
    monkeypatch.setattr(module, "simulate", counted)
    before, said = 0, 0
    for item in reasons(*case, report):
        assert simulated - before <= 3, "what cannot be applied costs nothing, what was tried ends the slice"
        before, said = simulated, said + (item is not None)
    assert said >= 4
    assert simulated > 15


def test_what_is_not_allowed_is_not_proposed() -> None:
    case = llama(stages=4, replicas=2, microbatch_size=2)
    stages = case.strategy.job.stages
    report = explorer.simulate(*case)

    def keeps(strategy: explorer.Strategy) -> bool:
        return [s.layers for s in strategy.job.stages] == [s.layers for s in stages]

    said = [item for item in reasons(*case, report, allowed=keeps) if item is not None]
    assert all(item.strategy is None or keeps(item.strategy) for item in said)
    assert any(item.strategy is not None for item in said)


def test_recomputation_is_turned_off_where_memory_allows() -> None:
    free = llama(stages=4, replicas=2, recompute="full")
    off = {item.topic: item for item in explain(*free, explorer.simulate(*free))}["recompute"]
    assert off.strategy is not None
    assert {stage.recompute for stage in off.strategy.job.stages} == {"none"}
    # room for all but the first stage, which keeps most microbatches
    without = explorer.simulate(*free._replace(strategy=off.strategy)).peak_memory_bytes
    first, second, *_ = sorted(without, reverse=True)
    room = (first + second) / 2
    kinds = tuple(replace(kind, memory_bytes=room) for kind in DGX.device_kinds)
    tight = free._replace(cluster=replace(DGX, device_kinds=kinds))
    report = explorer.simulate(*tight)
    assert report.feasible
    some = {item.topic: item for item in explain(*tight, report)}["recompute"]
    assert some.strategy is not None
    kept = [stage.recompute for stage in some.strategy.job.stages]
    assert kept[0] != "none"
    assert "none" in kept[1:]
    assert "Stages 1 to 3" in some.text or "stages 1 to 3" in some.text


def test_single_layers_that_recompute_are_said_and_turned_off() -> None:
    """Exceptions count as recomputation; turned off, they still say where their layers keep tensors."""
    case = llama(stages=4, replicas=2)
    items = (Keeping(layers=("*.mlp.*",), recompute="full"), Keeping(layers=("*",), on="device"))
    job = case.strategy.job
    stages = (replace(job.stages[0], keeping=items), *job.stages[1:])
    some = case._replace(strategy=case.strategy.with_job(job.with_stages(stages)))
    off = {item.topic: item for item in explain(*some, explorer.simulate(*some))}["recompute"]
    assert off.text.startswith("Stage 0 recompute")
    assert off.strategy is not None
    assert [stage.keeping for stage in off.strategy.job.stages] == [items[1:], (), (), ()]


def test_a_broken_run_is_mended() -> None:
    case = llama(stages=4, replicas=2)
    job = case.strategy.job
    moved = next(name for name in job.stages[2].layers[40:] if name.startswith("layers."))
    block = [name for name in job.stages[2].layers if LLAMA.layer[name].block == LLAMA.layer[moved].block]
    broken = place_layers(LLAMA, job, dict.fromkeys(block, 0), groups_of(job))
    worse = case._replace(strategy=case.strategy.with_job(broken))
    report = explorer.simulate(*worse)
    runs = {item.topic: item for item in explain(*worse, report)}["runs"]
    assert "comes back to devices it has left twice" in runs.text
    assert f"{len(broken.stages) - 1} boundaries instead of 3" in runs.text
    assert runs.strategy is not None
    assert runs.step_time_s is not None
    assert runs.step_time_s < report.step_time_s
    assert len(runs.strategy.job.stages) < len(broken.stages)
    assert "runs" not in {item.topic for item in explain(*case, explorer.simulate(*case))}


def test_asynchronous_schedules_are_mentioned_not_proposed() -> None:
    case = llama(batch=16, stages=4, replicas=2)
    bubble = {item.topic: item for item in explain(*case, explorer.simulate(*case))}["bubble"]
    assert "but trains on older weights" in bubble.text
    assert bubble.strategy is None or not bubble.strategy.job.schedule.startswith("pipedream")


def test_a_new_shape_keeps_all_other_choices() -> None:
    case = llama(stages=4, replicas=1, tensor=2, zero=1, recompute="selective")
    report = explorer.simulate(*case)
    asked = Asked(graph=LLAMA, cluster=DGX, workload=case.workload, strategy=case.strategy, report=report)
    job = everywhere(asked, layout=(("ffn", "tensor"),)).job
    old = regular_degrees(job)
    assert old is not None
    assert old.words == "4 stages × 1 replica × 2-way tensor"
    new = cut_anew(LLAMA, DGX, case.workload.job, job, old.changed(stages=2, replicas=2))
    assert regular_degrees(new) == old.changed(stages=2, replicas=2)
    assert {(s.zero, s.recompute, s.layout) for s in new.stages} == {(1, "selective", (("ffn", "tensor"),))}


@settings(max_examples=20, deadline=None)
@given(even_cases("gpipe"), st.data())
def test_shape_is_read_off_even_plans(case: Case, data: st.DataObject) -> None:
    job = case.strategy.job
    shape = regular_degrees(job)
    assert shape is not None
    assert shape.devices == len(job.devices)
    assert shape.stages * shape.chunks == len(job.stages)
    if shape.replicas > 1:
        stage = data.draw(st.integers(0, len(job.stages) - 1))
        shares = tuple(float(i + 1) for i in range(shape.replicas))
        odd = [replace(s, shares=shares) if i == stage else s for i, s in enumerate(job.stages)]
        assert regular_degrees(job.with_stages(odd)) is None
