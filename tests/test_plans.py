"""Fourteen plans, each of another kind, with an outcome worked out by hand or by a closed form."""

from __future__ import annotations

import runpy
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer
from explorer.actions import ReadRule, parse_action
from explorer.base.errors import InputError, PlanError
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.schedules import make_order
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.one_job import make_shape
from explorer.simulation.report import Report
from explorer.strategy import JobStrategy
from explorer.tasks.lower import lower
from explorer.tasks.placement import place
from explorer.tasks.program import REDUCE, TRANSFER

FOLDER = Path(__file__).parent / "plans"
PLANS = sorted(FOLDER.glob("*.yaml"))


def loaded(name: str) -> Resolved:
    return explorer.load_plan(next(path for path in PLANS if path.stem.endswith(name)))


def model(name: str) -> LayerGraph:
    return explorer.load_model(str(FOLDER / "models" / f"{name}.json"))


def report_of(name: str, graph: LayerGraph | None = None, **changes: object) -> Report:
    """The report of a plan, over another model or with changes of its only job's strategy."""
    plan = loaded(name)
    job = replace(plan.plan.strategy.job, **changes)  # type: ignore[arg-type]
    strategy = plan.plan.strategy.with_job(job)
    return explorer.simulate(graph or plan.graph, plan.cluster, plan.plan.workload, strategy)


def groups_of(report: Report) -> list[set[int]]:
    """Devices of every group that reduces something."""
    sections = report.timeline.program.skeleton.sections
    return [
        {d for p in group.pieces for d in sections[p.section].rows[p.copy][p.replica]}
        for group in report.timeline.program.skeleton.holders
    ]


def spans_of(report: Report, op: str, stage: int) -> list[tuple[float, float]]:
    """(start, end) of the actions of a stage, in order."""
    program, timing = report.timeline.program, report.timeline.timing
    found = [
        (float(timing.start_s[i]), float(timing.end_s[i]))
        for tasks in program.programs
        for i in tasks
        if program.actions[program.action[i]][:2] == (op, stage)
    ]
    return sorted(found)


def activations(report: Report) -> tuple[float, ...]:
    """Per device: peak bytes kept for backward."""
    parts = dict(zip(report.lanes, report.memory_parts_bytes, strict=True))
    by_device = {device: parts[lane][4] for lane in parts for device in lane}
    return tuple(by_device[device] for device in sorted(by_device))


def sweep_levels(report: Report, from_s: float, to_s: float) -> set[float]:
    """Activation bytes over all devices together, at every moment between two times."""
    events, timing = report.timeline.program.memory, report.timeline.timing
    kept = np.array([item.activation_bytes_per_sample for item in report.timeline.prices.memory])
    change = events.samples * kept[events.section]
    moment = np.where(change > 0, timing.start_s[events.task], timing.end_s[events.task])
    times = sorted({float(t) for t in moment if from_s <= t < to_s})
    return {round(float(change[moment <= t].sum()), 9) for t in times}


def test_there_are_fourteen() -> None:
    assert [path.stem[:2] for path in PLANS] == [f"{n:02}" for n in range(1, 15)]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_every_plan_loads_checks_and_simulates(path: Path) -> None:
    plan = explorer.load_plan(path)
    assert plan.mismatches == ()
    graphs = plan.graphs if len(plan.graphs) > 1 else plan.graph
    report = explorer.simulate(graphs, plan.cluster, plan.plan.workload, plan.plan.strategy)
    assert report.feasible or path.stem == "09-mixtral"
    assert report.step_time_s > 0
    assert report.settled


def test_the_models_are_what_the_script_makes() -> None:
    made = runpy.run_path(str(FOLDER / "make_inputs.py"))["MODELS"]
    assert {path.stem for path in (FOLDER / "models").glob("*.json")} == set(made)
    for name, graph in made.items():
        assert model(name) == graph, f"run tests/plans/make_inputs.py: {name} has changed"


@pytest.mark.parametrize(("graph", "seconds"), [("chain4-equal", 10.0), ("chain4-double", 16.0)])
def test_chimera(graph: str, seconds: float) -> None:
    report = report_of("chimera", model(graph))
    assert report.makespan_s == pytest.approx(seconds, rel=1e-12)
    assert activations(report) == (3.0, 4.0, 4.0, 3.0)
    assert sorted(map(sorted, groups_of(report))) == [[0, 3], [0, 3], [1, 2], [1, 2]]
    # two copies of a stage on every device: twice 4 bytes of weights and of gradients
    assert {parts[0] for parts in report.memory_parts_bytes} == {8.0}


def test_chimera_reduces_before_it_updates() -> None:
    program = report_of("chimera").timeline.program
    reduces = np.flatnonzero(program.kind == REDUCE)
    assert len(reduces) == 4 * program.order.steps
    # both groups of a pair of devices share one channel: they take turns
    assert len(set(program.channel[reduces].tolist())) == 2


def test_graphpipe() -> None:
    """Seconds by hand; F = 1 and B = 2 s a sample, so first and branches take 2 and 4, join 4 and 8.

    ```
    first    F0 0-2  F1 2-4  F2 4-6  F3 6-8                 B0 22-26 B1 26-30 B2 34-38 B3 38-42
    branches         F0 2-4  F1 4-6  F2 6-8  F3 8-10    B0 18-22 B1 22-26 B2 30-34 B3 34-38
    join                             F0 6-10 B0 10-18  F1 18-22  B1 22-30
    ```
    """
    report = report_of("graphpipe")
    assert report.makespan_s == pytest.approx(42.0, rel=1e-12)
    assert spans_of(report, "F", 3)[:2] == [pytest.approx((6, 10)), pytest.approx((18, 22))]
    for branch in (1, 2):
        assert [start for start, _ in spans_of(report, "B", branch)[:4]] == pytest.approx([18, 22, 30, 34])
    # first -> branch0, branch1 and join (skip), branch0 -> join, branch1 -> join: 5 tensors, each in
    # 4 pieces of 2 samples, there and back
    program = report.timeline.program
    assert int(np.sum((program.kind == TRANSFER) & (program.step == 0))) == 5 * 4 * 2
    # 3 bytes a sample x 8 samples on each of the 5, both ways
    assert set(report.traffic_bytes.values()) == {24.0}
    assert len(report.traffic_bytes) == 10


def test_graphpipe_refuses_half_a_batch_at_the_join() -> None:
    plan = loaded("graphpipe")
    placement = place(plan.graph, plan.plan.strategy.job)
    shape = make_shape(placement, UNFOLDED, plan.plan.workload.job)
    order = make_order("1f1b", shape)
    gone = {parse_action("2F1"), parse_action("2B1")}
    lanes = tuple(tuple(a for a in lane if a not in gone) for lane in order.lanes)
    with pytest.raises(PlanError, match="3F0 needs the forward of microbatch 1 on stage 2") as caught:
        lower(placement.skeleton, shape, replace(order, lanes=lanes))
    assert len(caught.value.problems) == 2  # the join's forward, and first's backward


def test_dapple() -> None:
    report = report_of("dapple")
    assert report.makespan_s == pytest.approx(6 + 9 * 4, rel=1e-12)
    pieces = Counter(
        (slot.piece.replica, slot.peer.replica, slot.samples)
        for slot in report.timeline.program.slots
        if slot.kind == TRANSFER and not slot.backward
    )
    assert pieces == Counter({(0, 0, 2): 1, (1, 0, 1): 1, (1, 1, 1): 1, (2, 1, 2): 1})
    assert groups_of(report) == [{0, 1, 2}, {3, 4}]


def test_dapple_reduces_unevenly() -> None:
    """All-reduce of S bytes at one byte a second: 2 x 2/3 S over three devices, S over two."""
    plan = loaded("dapple")
    unit = explorer.load_cluster(FOLDER / "clusters" / "unit.yaml")
    report = explorer.simulate(plan.graph, unit, plan.plan.workload, plan.plan.strategy)
    slots, seconds = report.timeline.program.slots, report.timeline.prices.seconds
    reduces = [float(seconds[i]) for i, slot in enumerate(slots) if slot.kind == REDUCE]
    assert reduces == pytest.approx([4 / 3 * 12, 12.0])


@pytest.mark.parametrize(("together", "seconds"), [(False, 18.0), (True, 21.0)])
def test_pipedream(together: bool, seconds: float) -> None:
    """With a round's updates together, a device of stage 0 also waits for the round's slowest member."""
    report = report_of("pipedream", options=(("together", together),))
    assert report.step_time_s == pytest.approx(seconds, rel=1e-9)
    if not together:
        assert report.versions == (2, 1)
        assert report.delay == (1, 0)


def test_2bw() -> None:
    report = report_of("2bw")
    assert report.versions == (2, 2, 2, 2)
    assert report.delay == (1, 1, 1, 1)
    assert report.step_time_s == pytest.approx(4 * 3.0)  # no bubble in steady state
    # the second version costs memory: weights once more
    assert report.memory_parts_bytes[0][:2] == (4.0, 4.0)


def test_2bw_with_too_few_microbatches_is_refused_by_its_read_rule_alone() -> None:
    """The order itself is sound; only the version that a forward reads does not exist yet.

    The F of microbatch t m on stage 0 comes after the B of t m - p, and reads what the U behind the B of
    (t - 1) m - 1 made: m >= p - 1. The paper (and the schedule) ask for m >= p.
    """
    plan = loaded("2bw")
    placement = place(plan.graph, plan.plan.strategy.job)
    job = plan.plan.workload.job
    fine = lower(placement.skeleton, *ordered(placement, job, 4))
    assert max(fine.versions) == 2
    shape, order = ordered(placement, replace(job, global_batch=2), 4)
    with pytest.raises(PlanError, match=r"reads version \d under rule buffered\(1\)") as caught:
        lower(placement.skeleton, shape, order)
    assert len(caught.value.problems) == 1
    lower(placement.skeleton, shape, replace(order, read_rule=ReadRule()))
    with pytest.raises(InputError, match="microbatches"):
        report_of_batch("2bw", 3)


def ordered(placement, job, steps):  # type: ignore[no-untyped-def]
    """Shape and 2BW's order, made for ever as 1F1B with one update behind every step's last backward."""
    shape = make_shape(placement, UNFOLDED, job)
    endless = make_order("pipedream", shape, steps=steps)
    count = shape.microbatches[0]
    lanes = tuple(
        tuple(
            action._replace(first_microbatch=action.first_microbatch + 1 - count, count=count)
            if action.op == "U"
            else action
            for action in lane
            if action.op != "U" or (action.first_microbatch + 1) % count == 0
        )
        for lane in endless.lanes
    )
    rule = replace(endless.read_rule, name="buffered", parameter=1)
    return shape, replace(endless, lanes=lanes, read_rule=rule)


def report_of_batch(name: str, batch: int) -> Report:
    plan = loaded(name)
    workload = plan.plan.workload.with_job(global_batch=batch)
    return explorer.simulate(plan.graph, plan.cluster, workload, plan.plan.strategy)


def test_cyclic() -> None:
    report = report_of("cyclic")
    assert report.step_time_s == pytest.approx(2 * 4)  # 2 N slots
    assert report.delay == (1,) * 4
    assert report.versions == (1,) * 4
    # between the first worker's second step and its last: N (N + 1) / 2, always
    assert sweep_levels(report, 8.0, 16.0) == {10.0}


def test_layer_parallel() -> None:
    report = report_of("layer-parallel")
    assert report.makespan_s == pytest.approx(3 * 12 / 4 + 12, rel=1e-12)
    assert report.step_time_s == pytest.approx(21.0, rel=1e-12)
    assert report_of("layer-parallel", options=(("sweeps", 0),)).makespan_s == pytest.approx(12.0)


def test_layer_parallel_reduces_in_every_sweep() -> None:
    plan = loaded("layer-parallel")
    workload = plan.plan.workload.with_job(global_batch=2)
    stages = tuple(
        replace(stage, meshes=(replace(stage.meshes[0], devices=(i, i + 4), axes=(("replica", 2),)),))
        for i, stage in enumerate(plan.plan.strategy.job.stages)
    )
    stages = tuple(replace(stage, microbatch_samples=2) for stage in stages)
    strategy = plan.plan.strategy.with_job(plan.plan.strategy.job.with_stages(stages))
    program = explorer.simulate(plan.graph, plan.cluster, workload, strategy).timeline.program
    assert int(np.sum((program.kind == REDUCE) & (program.step == 0))) == 4 * 4  # stages x sweeps


def test_wap() -> None:
    report = report_of("wap")
    assert report.makespan_s == pytest.approx(4 + 1 + 8 + 1 + 8 + 12, rel=1e-12)
    assert groups_of(report) == [{0, 1, 2, 3}]
    parameters = loaded("wap").graph.parameters
    held = {parameters[p].name for group in report.timeline.placement.held for p in group}
    assert held == {"w0", "w1"}  # layers.2 has one holder


def test_mixtral() -> None:
    graph = loaded("mixtral").graph
    assert graph.parameter_count == 46_702_792_704
    report = report_of("mixtral")
    placement = report.timeline.placement
    experts = {use.name for layer in graph.layers if layer.kind == "experts" for use in layer.parameters}
    for devices, held in zip(groups_of(report), placement.held, strict=True):
        of_experts = {graph.parameters[p].name in experts for p in held}
        assert of_experts == {len(devices) == 2}
    assert sorted(map(len, groups_of(report))) == [2, 2, 2, 2, 8]
    # device 0 holds 2 of 8 experts and all else, in bf16
    of_experts = sum(graph.parameter[name].elements for name in experts)
    expected = 2 * (graph.parameter_count - of_experts * 6 / 8)
    assert report.memory_parts_bytes[0][0] == pytest.approx(expected, rel=1e-12)
    assert not report.feasible


def test_bapipe() -> None:
    report = report_of("bapipe")
    assert report.makespan_s == pytest.approx((4 + 1) * 4.5, rel=1e-12)
    assert groups_of(report) == []
    placement, tensors = report.timeline.placement, loaded("bapipe").graph.tensors
    carried = {tensors[t].name: part for flow in placement.flow_tensors for t, part in flow}
    assert carried == {"t0": 1.0, "t1": 0.5}
    # t0 has 6 bytes a sample and t1 8, half of which is already there; 4 samples each way
    assert report.traffic_bytes == {(0, 1): 40.0, (1, 0): 40.0}
    assert [parts[0] for parts in report.memory_parts_bytes] == [16 + 32 / 2, 16 + 32 / 2]


def test_tied() -> None:
    report = report_of("tied")
    assert groups_of(report) == [{0, 3}]
    program = report.timeline.program
    (reduce,) = np.flatnonzero((program.kind == REDUCE) & (program.step == 0)).tolist()
    ended = report.timeline.timing.end_s[reduce]
    for stage in (0, 3):  # both updates wait for the reduction
        assert spans_of(report, "U", stage)[0][0] >= ended
    assert report.makespan_s == pytest.approx((4 + 4 - 1) * 2, rel=1e-12)


def test_lora() -> None:
    """Adapters in the last two of four frozen layers."""
    report = report_of("tied", model("lora"))
    assert groups_of(report) == []
    assert sorted(report.traffic_bytes) == [(0, 1), (1, 2), (2, 3), (3, 2)]
    # F of 4 samples; stages 0 and 1 differentiate nothing, stage 2 needs no input gradient
    assert report.busy_s == pytest.approx((4.0, 4.0, 6.0, 8.0))
    assert spans_of(report, "B", 0)[0][0] == pytest.approx(spans_of(report, "B", 0)[0][1])


def test_parallax() -> None:
    report = report_of("parallax")
    slots, seconds = report.timeline.program.slots, report.timeline.prices.seconds
    found = {
        report.timeline.program.skeleton.holders[slot.where].method: float(seconds[i])
        for i, slot in enumerate(slots)
        if slot.kind == REDUCE
    }
    assert found == pytest.approx({"parameter_server": 3.0, "all_reduce": 1.5})
    # per machine, in and out: 4 a w (N - 1) / N of the table, as much of the dense weights with a = 1
    expected = 4 * 0.25 * 800 * 3 / 4 + 4 * 100 * 3 / 4
    for device in range(4):
        moved = sum(size for pair, size in report.traffic_bytes.items() if device in pair)
        assert moved == pytest.approx(expected)


def test_parallax_with_servers_apart() -> None:
    """One server: every worker sends and receives all of a w."""
    plan = loaded("parallax")
    job = plan.plan.strategy.job
    stages = (
        replace(
            job.stages[0],
            meshes=(replace(job.stages[0].meshes[0], devices=(0, 1, 2), axes=(("replica", 3),)),),
        ),
    )
    stages = (replace(stages[0], microbatch_samples=3),)
    sync = (replace(job.sync[0], servers=(3,)),)
    strategy = plan.plan.strategy.with_job(replace(job, stages=stages, sync=sync))
    workload = plan.plan.workload.with_job(global_batch=3)
    report = explorer.simulate(plan.graph, plan.cluster, workload, strategy)
    for worker in range(3):
        assert report.traffic_bytes[worker, 3] == pytest.approx(200.0)
        assert report.traffic_bytes[3, worker] == pytest.approx(200.0)


@pytest.mark.parametrize(
    ("kind", "ends", "pass_name"), [("light", (6.0, 12.0), "static"), ("heavy", (11.0, 17.0), "events")]
)
def test_two_jobs(kind: str, ends: tuple[float, float], pass_name: str) -> None:
    plan = loaded("two-jobs")
    graphs = {"a": model(f"short-{kind}"), "b": model(f"long-{kind}")}
    report = explorer.simulate(graphs, plan.cluster, plan.plan.workload, plan.plan.strategy)
    assert [item.makespan_s for _, item in report.jobs] == pytest.approx(ends, rel=1e-12)
    assert {item.pass_name for _, item in report.jobs} == {pass_name}
    if kind == "heavy":
        # for ever: in a cycle of long, 3 s alone on device 1 and 9 s at half speed on device 0
        assert report.jobs[1][1].step_time_s == pytest.approx(21.0)
        assert report.jobs[0][1].step_time_s == pytest.approx(10.5, rel=0.02)  # 12 s of work in 21 s


def test_swarm() -> None:
    report = report_of("swarm")
    outcome = report.dispatch
    assert outcome is not None
    assert [round(rate, 2) for _, _, rate in outcome.rates] == [3.0, 2.0]
    assert report.throughput_samples_per_s == pytest.approx(2.0, rel=0.01)
    assert report.pass_name == "events"
    program = report.timeline.program
    done = Counter(program.actions[i] for i in program.action.tolist() if i >= 0)
    backward = {action: count for action, count in done.items() if action.op == "B"}
    assert set(backward.values()) == {1}  # every microbatch once on each stage
    assert len(backward) == 2 * outcome.applied
    again = sum(count - 1 for action, count in done.items() if action.op == "F")
    assert again == outcome.redone > 0
    assert report.delay == (1, 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("chimera", "runs 1 copy of every stage, not 2"),
        ("pipedream", "replicas that take whole microbatches"),
        ("cyclic", "runs 1 copy of every stage, not"),
    ],
)
def test_swarm_needs_peers(name: str, said: str) -> None:
    plan = loaded(name)
    stages = tuple(replace(stage, replicas="split") for stage in plan.plan.strategy.job.stages)
    strategy = JobStrategy(stages=stages, schedule="swarm")
    sizes = max(stage.meshes[0].replicas for stage in stages)
    stages = tuple(replace(stage, microbatch_samples=sizes) for stage in stages)
    workload = plan.plan.workload.with_job(global_batch=12)
    with pytest.raises(InputError, match=said):
        explorer.simulate(
            plan.graph, plan.cluster, workload, explorer.Strategy(jobs=(strategy.with_stages(stages),))
        )
