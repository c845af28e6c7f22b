"""Estimates of even plans beside `simulate`: bounds hold for every schedule, guesses are close."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from itertools import product
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.compiling import forced
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.schedules import SCHEDULES, Schedule
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import EXCHANGES, RECOMPUTE, Degrees
from explorer.tables import StageChoice, StageTable, plan_ports
from explorer.tables.borders import flow_tensors
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import distinct
from explorer.tables.estimates import Estimates, Estimator
from explorer.tables.run_kinds import RunKinds
from explorer.tasks.skeleton import FloatArray
from explorer.workload import Job, Workload, default_workload

GPT = {"layers": "9", "embed": "256", "heads": "8", "vocab": "2048", "positions": "128"}
DEEPSEEK = {
    "layers": "6", "embed": "64", "heads": "4", "vocab": "256", "experts": "8", "active": "2",
    "dense_layers": "1",
}  # fmt: skip
MODELS = ("gpt", "deepseek", "t5-large", "resnet50", "gnmt-8")
CLUSTERS = (
    "dgx-a100-4",
    "pipedream-a",
    "mixed-v100-a100",
    "dgx-1-v100",
    "rtx4090-pcie-4",
    "ethernet-10g-4x4",
)
every = pytest.mark.parametrize(
    "schedule",
    [item for item in SCHEDULES if not item.dispatch and not item.literal],
    ids=lambda schedule: schedule.name,
)


@cache
def model(name: str) -> LayerGraph:
    settings_ = {"gpt": GPT, "deepseek": DEEPSEEK}.get(name)
    return load_model(name, settings=settings_) if settings_ else load_model(name)


@cache
def cluster(name: str) -> Cluster:
    return load_cluster(name)


@cache
def estimator(name: str, machine: str, mode: str = "train") -> Estimator:
    return Estimator(model(name), cluster(machine), job_of(name, mode))


def job_of(name: str, mode: str = "train") -> Job:
    made = default_workload(model(name)).job
    return Job(
        name=made.name, global_batch=48, precision=made.precision, optimizer=made.optimizer, mode=mode,
        gradient_precision=made.gradient_precision,
    )  # fmt: skip


@st.composite
def plans(draw: st.DrawFn, schedule: Schedule, name: str, machine: str) -> Degrees:
    """Degrees that the model, the cluster and the schedule allow."""
    several = schedule.placement.several
    while True:
        degrees = Degrees(
            tensor=draw(st.sampled_from([1, 1, 2, 4])), stages=draw(st.integers(1, 4)),
            replicas=draw(st.sampled_from([1, 2, 3, 4])), context=draw(st.sampled_from([1, 1, 1, 2])),
            expert=draw(st.sampled_from([1, 1, 2])),
            chunks=draw(st.sampled_from([0, 0, 2, 4])) if several else 0,
            microbatch_size=draw(st.sampled_from([1, 2, 4])), recompute=draw(st.sampled_from(RECOMPUTE)),
            zero=draw(st.sampled_from([0, 0, 1, 2, 3])), sequence_parallel=draw(st.booleans()),
            context_exchange=draw(st.sampled_from(list(EXCHANGES))),
            bucket_bytes=draw(st.sampled_from([0.0, 0.0, 1e6, 1e8])), schedule=schedule.name,
        )  # fmt: skip
        for change in (
            {},
            {"expert": 1},
            {"context": 1},
            {"tensor": 1},
            {"replicas": 1},
            {"stages": 2},
            {"stages": 4},
        ):
            degrees = degrees.changed(**change)
            try:
                degrees.check(model(name), cluster(machine), job_of(name))
            except InputError:
                continue
            return degrees


def check(found: Estimates, name: str, machine: str, degrees: Degrees, mode: str = "train") -> float:
    """Check the bounds of a plan, that of its ports as well; return the error of its estimate."""
    graph, devices, job = model(name), cluster(machine), job_of(name, mode)
    report = simulate(graph, devices, Workload(jobs=(job,)), degrees.build(graph, devices, job))
    over = [peak - room for peak, room in zip(report.peak_memory_bytes, report.capacity_bytes, strict=True)]
    assert 0 < found.step_lower_s[0] <= report.step_time_s * (1 + 1e-12)
    on_ports = estimator(name, machine, mode).on_ports(DegreesColumns.of([degrees]))
    assert 0 <= on_ports[0] <= report.step_time_s * (1 + 1e-12)
    sent_s = estimator(name, machine, mode).sent_s(SCHEDULES.get(degrees.schedule), degrees)
    assert 0 <= sent_s <= report.step_time_s * (1 + 1e-12)
    assert 0 < found.memory_lower_bytes[0] <= max(report.peak_memory_bytes) * (1 + 1e-12)
    assert found.over_lower_bytes[0] <= max(over) + 1.0
    assert found.step_s[0] >= found.step_lower_s[0]
    assert found.memory_bytes[0] >= found.memory_lower_bytes[0]
    return float(abs(found.step_s[0] / report.step_time_s - 1))


@every
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_bounds_are_never_above_the_simulation(schedule: Schedule, data: st.DataObject) -> None:
    name, machine = data.draw(st.sampled_from(MODELS)), data.draw(st.sampled_from(CLUSTERS))
    degrees = data.draw(plans(schedule, name, machine))
    check(estimator(name, machine).one(degrees), name, machine, degrees)


@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_bounds_hold_for_inference(data: st.DataObject) -> None:
    machine = data.draw(st.sampled_from(CLUSTERS))
    degrees = data.draw(plans(SCHEDULES.get("1f1b"), "gpt", machine))
    check(estimator("gpt", machine, "infer").one(degrees), "gpt", machine, degrees, "infer")


@pytest.mark.parametrize("order", [range(12), range(15, 3, -1)], ids=["slow first", "fast first"])
def test_stages_wait_as_long_as_their_own_kind_spreads(order: range) -> None:
    """V100 and A100 of one pipeline differ by other shares from their like: each stage has its own."""
    graph, devices, job = model("gpt"), cluster("mixed-v100-a100"), job_of("gpt")
    spreads = {devices.kind_of(device).device_spread for device in order}
    assert len(spreads) > 1
    degrees = Degrees(tensor=2, stages=3, replicas=2, microbatch_size=1)
    table = StageTable(graph, devices, job, devices=tuple(order))
    found = Estimator(graph, devices, job, table=table).one(degrees)
    strategy = degrees.build(graph, devices, job, devices=tuple(order))
    step = simulate(graph, devices, Workload(jobs=(job,)), strategy).step_time_s
    assert found.step_lower_s[0] <= step
    assert found.step_s[0] == pytest.approx(step, rel=1e-5)


@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("schedule", ["chimera", "chimera_4"])
def test_bounds_hold_where_copies_of_a_stage_are_on_other_kinds(schedule: str, zero: int) -> None:
    """Of stages in both directions one copy is on V100, the other on A100."""
    degrees = Degrees(
        stages=4, replicas=4, microbatch_size=1, recompute="full", zero=zero, schedule=schedule,
    )  # fmt: skip
    machine = "mixed-v100-a100"
    check(estimator("deepseek", machine).one(degrees), "deepseek", machine, degrees)


@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_bounds_hold_for_uneven_stages_and_frameworks(data: st.DataObject) -> None:
    """Of any cuts, also inside blocks, under a framework with buckets or blocking transfers of its own."""
    graph, devices = model("gpt"), cluster("dgx-a100-4")
    framework = data.draw(st.sampled_from(["", "megatron-2021", "torch-eager", "pipedream-2019"]))
    job = replace(job_of("gpt"), framework=framework)
    schedule = SCHEDULES.get(data.draw(st.sampled_from(["1f1b", "gpipe", "zb_h1", "interleaved_1f1b"])))
    degrees = data.draw(plans(schedule, "gpt", "dgx-a100-4"))
    count, layers = degrees.stage_count, len(graph.layers)
    inner = st.sets(st.integers(1, layers - 1), min_size=count - 1, max_size=count - 1)
    cuts = sorted(data.draw(inner))
    made, columns = Estimator(graph, devices, job), DegreesColumns.of([degrees])
    found = made.of(columns, [0, *cuts, layers])
    strategy = degrees.build(graph, devices, job, cuts=cuts)
    report = simulate(graph, devices, Workload(jobs=(job,)), strategy)
    assert 0 < found.step_lower_s[0] <= report.step_time_s * (1 + 1e-12)
    assert made.on_ports(columns, [0, *cuts, layers])[0] <= report.step_time_s * (1 + 1e-12)
    assert 0 < found.memory_lower_bytes[0] <= max(report.peak_memory_bytes) * (1 + 1e-12)


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved_1f1b", "gpipe", "zb_h1", "hanayo", "chimera"])
@pytest.mark.parametrize(("name", "counts"), [("gnmt-8", (10, 12)), ("inception-v3", (16,))])
def test_bounds_hold_where_stages_of_branches_work_side_by_side(
    name: str, counts: tuple[int, ...], schedule: str
) -> None:
    """Both directions of GNMT's first layer, and branches of Inception, become stages of their own."""
    graph = model(name)
    for count, machine in product(counts, ("dgx-a100-4", "ethernet-10g-4x4")):
        devices = cluster(machine)
        assert not RunKinds(graph).cut(count).chain
        assert RunKinds(graph).cut(4).chain
        for batch in (1, 2, 4):
            job = replace(job_of(name), global_batch=batch)
            chunks = 2 if schedule in ("interleaved_1f1b", "hanayo") else 0
            if SCHEDULES.get(schedule).unmet_even(count // max(1, chunks), batch, chunks or 1):
                continue
            degrees = Degrees(stages=count // max(1, chunks), chunks=chunks, schedule=schedule)
            made = Estimator(graph, devices, job)
            found = made.one(degrees)
            report = simulate(graph, devices, Workload(jobs=(job,)), degrees.build(graph, devices, job))
            assert 0 < found.step_lower_s[0] <= report.step_time_s * (1 + 1e-12)
            assert made.on_ports(DegreesColumns.of([degrees]))[0] <= report.step_time_s * (1 + 1e-12)
            assert found.step_s[0] >= found.step_lower_s[0]


@every
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_bounds_hold_on_crowded_ports(schedule: Schedule, data: st.DataObject) -> None:
    """Ports of devices and nodes give as much as one of their transfers takes, or several times it; all ports
    are looked at, or one as in plans of many devices.
    """
    machine = cluster("pipedream-a")
    inside, outside = machine.levels
    speed = data.draw(st.sampled_from([1e8, 1e9, 1e10]))
    around = replace(
        outside, bandwidth_bytes_per_s=speed,
        uplink_bytes_per_s=speed * data.draw(st.sampled_from([1.0, 1.5, 4.0])),
    )  # fmt: skip
    each = data.draw(st.sampled_from([0.0, 1e9, 12e9]))
    within = replace(inside, device_bytes_per_s=each and max(each, speed))  # nodes are not faster outside
    devices = replace(machine, levels=(within, around))
    name = data.draw(st.sampled_from(["gpt", "gnmt-8", "t5-large"]))
    degrees, job = data.draw(plans(schedule, name, "pipedream-a")), job_of(name)
    made, columns = Estimator(model(name), devices, job), DegreesColumns.of([degrees])
    report = simulate(model(name), devices, Workload(jobs=(job,)), degrees.build(model(name), devices, job))
    with patch.object(plan_ports, "MOST_DEVICES", data.draw(st.sampled_from([64, 0]))):
        assert 0 <= made.on_ports(columns)[0] <= report.step_time_s * (1 + 1e-12)
    assert 0 < made.of(columns).step_lower_s[0] <= report.step_time_s * (1 + 1e-12)


@pytest.mark.parametrize("schedule", ["interleaved_1f1b", "breadth_first"])
def test_gathers_and_reductions_of_many_devices_share_a_port(schedule: str) -> None:
    """Of ZeRO 3 on a slow network they alone take most of a step; each chunk is gathered twice."""
    graph, devices, job = model("gpt"), cluster("pipedream-a"), replace(job_of("gpt"), global_batch=16)
    inside, outside = devices.levels
    slow = replace(outside, bandwidth_bytes_per_s=1e8, uplink_bytes_per_s=1e8)
    devices = replace(devices, levels=(inside, slow))
    degrees = Degrees(stages=2, chunks=2, replicas=8, microbatch_size=1, zero=3, schedule=schedule)
    made, columns = Estimator(graph, devices, job), DegreesColumns.of([degrees])
    report = simulate(graph, devices, Workload(jobs=(job,)), degrees.build(graph, devices, job))
    with patch.object(plan_ports, "MOST_DEVICES", 0):
        found = made.on_ports(columns)[0]
    assert made.of(columns).step_lower_s[0] < found <= report.step_time_s


def test_what_crosses_a_port_takes_its_time() -> None:
    """Four replicas of two stages on two nodes: their samples cross the nodes' port onwards and back."""
    graph, devices, job = model("gpt"), cluster("pipedream-a"), job_of("gpt")
    degrees = Degrees(stages=2, replicas=4, microbatch_size=1)
    found = Estimator(graph, devices, job).on_ports(DegreesColumns.of([degrees]))[0]
    (sent,) = [item for item in graph.tensors if item.name == _crossing(graph, degrees)]
    through = job.global_batch * sent.bytes_per_sample(job.precision) / devices.levels[1].uplink_bytes_per_s
    report = simulate(graph, devices, Workload(jobs=(job,)), degrees.build(graph, devices, job))
    assert through < found <= report.step_time_s
    sent_s = Estimator(graph, devices, job).sent_s(SCHEDULES.get(degrees.schedule), degrees)
    assert sent_s == pytest.approx(through, rel=1e-9)
    assert sent_s <= found


def _crossing(graph: LayerGraph, degrees: Degrees) -> str:
    """Return the one tensor between two stages."""
    first, middle, last = RunKinds(graph).cut(degrees.stages).bounds
    ((tensor, _),) = flow_tensors(graph, (first, middle), (middle, last))
    return graph.tensors[tensor].name


def test_refuses_other_bounds() -> None:
    machine, layers = estimator("gpt", "dgx-a100-4"), len(model("gpt").layers)
    columns = DegreesColumns.of([Degrees(stages=2)])
    for bounds in ([0, layers], [0, 0, layers], [1, 2, layers], [0, 2, layers - 1]):
        with pytest.raises(InputError, match=r"bounds of|begin at the layers"):
            machine.of(columns, bounds)


SPACE = [
    Degrees(
        tensor=tensor, stages=stages, replicas=replicas, chunks=chunks, microbatch_size=size, zero=zero,
        recompute=recompute, sequence_parallel=tensor > 1, bucket_bytes=25e6 * (replicas > 1),
    )
    for tensor, replicas in ((1, 1), (1, 4), (2, 2), (4, 1))
    for stages, chunks in ((1, 0), (2, 0), (4, 0), (2, 2))
    for size, recompute, zero in ((1, "none", 0), (2, "full", 1), (1, "selective", 2), (4, "none", 3))
]  # fmt: skip


def test_guesses_are_close_and_in_order() -> None:
    """Of plans of a model on one node, whose links are fast: a few are off by what exchanges hide."""
    found = estimator("gpt", "dgx-a100-4").of(DegreesColumns.of(SPACE))
    graph, devices, job = model("gpt"), cluster("dgx-a100-4"), job_of("gpt")
    workload = Workload(jobs=(job,))
    step = np.array(
        [simulate(graph, devices, workload, item.build(graph, devices, job)).step_time_s for item in SPACE]
    )
    errors = np.abs(found.step_s / step - 1)
    assert np.median(errors) < 0.01
    assert np.quantile(errors, 0.9) < 0.1
    assert kendall(found.step_s, step) > 0.95


@pytest.mark.parametrize("zero", [2, 3])
def test_what_stages_share_is_exchanged_for_every_microbatch(zero: int) -> None:
    """GPT-2's first and last stage share their embedding: over slow links it decides under ZeRO 2 and 3."""
    graph, devices = model("gpt2-small"), cluster("ethernet-10g-4x4")
    workload = default_workload(graph).with_job(global_batch=32)
    degrees = Degrees(stages=6, replicas=2, microbatch_size=1, zero=zero)
    found = Estimator(graph, devices, workload.job).one(degrees)
    strategy = degrees.build(graph, devices, workload.job)
    step = simulate(graph, devices, workload, strategy).step_time_s
    assert found.step_lower_s[0] <= step
    assert found.step_s[0] == pytest.approx(step, rel=0.1)


def kendall(one: FloatArray, other: FloatArray) -> float:
    """Kendall's tau: the share of pairs in the same order less those in the opposite one."""
    i, j = np.triu_indices(len(one), 1)
    return float(np.mean(np.sign(one[i] - one[j]) * np.sign(other[i] - other[j])))


def test_memory_is_exact_where_orders_are_known() -> None:
    graph, devices, job = model("gpt"), cluster("dgx-a100-4"), job_of("gpt")
    found = estimator("gpt", "dgx-a100-4").of(DegreesColumns.of(SPACE))
    for n, degrees in enumerate(SPACE):
        report = simulate(graph, devices, Workload(jobs=(job,)), degrees.build(graph, devices, job))
        peak = max(report.peak_memory_bytes)
        assert found.memory_lower_bytes[n] == pytest.approx(peak, rel=0.02 if degrees.chunks > 1 else 1e-9)


def test_plans_of_a_batch_are_apart() -> None:
    """Each is estimated as if it were alone, whatever others share with it."""
    together = estimator("gpt", "dgx-a100-4").of(DegreesColumns.of(SPACE))
    alone = Estimator(model("gpt"), cluster("dgx-a100-4"), job_of("gpt"))
    for n in range(0, len(SPACE), 3):
        one = alone.one(SPACE[n])
        for many, single in zip(together, one, strict=True):
            assert many[n] == pytest.approx(single[0], rel=1e-12)


def test_columns_hold_degrees() -> None:
    columns = DegreesColumns.of(SPACE)
    assert [columns.at(row) for row in range(len(columns))] == SPACE
    some = columns.take(np.array([5, 2]))
    assert [some.at(0), some.at(1)] == [SPACE[5], SPACE[2]]


def test_refuses_what_has_no_order() -> None:
    machine = estimator("gpt", "dgx-a100-4")
    with pytest.raises(InputError, match="swarm has no order"):
        machine.one(Degrees(stages=2, schedule="swarm"))
    with pytest.raises(InputError, match="devices"):
        machine.one(Degrees(stages=64, tensor=4))
    with pytest.raises(InputError, match="do not divide"):
        machine.one(Degrees(microbatch_size=5))


@pytest.mark.parametrize("name", ["gpt", "deepseek", "t5-large", "resnet50"])
def test_runs_of_one_kind_cost_the_same(name: str) -> None:
    graph = model(name)
    kinds, table = RunKinds(graph), StageTable(graph, cluster("dgx-a100-4"), job_of(name))
    choice = StageChoice(replicas=2, zero=1, recompute="full", microbatch_size=2)
    for stages in (1, 2, 3, 5, 8):
        cut = kinds.cut(stages)
        bounds = np.array(cut.bounds)
        own = np.array([kinds.starts, kinds.stops])[:, cut.runs]
        mine, kind = table.runs(choice, bounds[:-1], bounds[1:]), table.runs(choice, *own)
        for one, other in zip(mine.seconds, kind.seconds, strict=True):
            assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
        for one, other in zip(mine.exchange, kind.exchange, strict=True):
            assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
        for item in fields(mine.memory):
            assert getattr(mine.memory, item.name) == pytest.approx(getattr(kind.memory, item.name), rel=1e-9)


@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.booleans()), min_size=1),
    wide=st.sampled_from([1, 10**7, 10**17]),
)
def test_distinct_finds_every_combination_once(rows: list[tuple[int, int, bool]], wide: int) -> None:
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    columns[1] = columns[1].astype(np.int64) * wide
    found = distinct(*columns)
    combined = list(zip(*(column.tolist() for column in columns), strict=True))
    assert len({combined[row] for row in found.first}) == found.size == len(set(combined))
    assert [combined[found.first[place]] for place in found.place] == combined


def test_parameters_shared_by_chunks_of_one_position() -> None:
    graph, devices = load_model("gpt2-small"), load_cluster("dgx-a100")
    job = default_workload(graph).job
    degrees = Degrees(tensor=8, stages=1, chunks=2, microbatch_size=1, schedule="interleaved_1f1b")
    found = Estimator(graph, devices, job).one(degrees)
    report = simulate(graph, devices, Workload(jobs=(job,)), degrees.build(graph, devices, job))
    assert found.step_lower_s[0] <= report.step_time_s * (1 + 1e-12)
    assert found.step_s[0] == pytest.approx(report.step_time_s, rel=0.05)


@given(codes=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, max_size=60))
def test_distinct_combinations_compiled_and_by_arrays(codes: list[tuple[int, int]]) -> None:
    columns = tuple(np.array(codes, dtype=np.int64).T)
    with forced(compiled=False):
        wanted = distinct(*columns)
    with forced(compiled=True):
        found = distinct(*columns)
    assert (
        found.first.tolist() == wanted.first.tolist() == [codes.index(pair) for pair in dict.fromkeys(codes)]
    )
    assert found.place.tolist() == wanted.place.tolist()


@every
def test_estimates_compiled_equal_those_by_arrays(schedule: Schedule) -> None:
    graph, devices, job = model("gpt"), cluster("dgx-a100-4"), default_workload(model("gpt")).job
    rows = []
    for tensor, stages, replicas, size, zero in product((1, 2), (1, 2, 4), (1, 2, 4), (1, 2), (0, 3)):
        degrees = Degrees(
            tensor=tensor, stages=stages, replicas=replicas, microbatch_size=size, zero=zero,
            chunks=2 * schedule.placement.several, schedule=schedule.name,
        )  # fmt: skip
        try:
            degrees.check(graph, devices, job)
        except InputError:
            continue
        rows.append(degrees)
    assert rows
    columns = DegreesColumns.of(rows)
    found = []
    for compiled in (False, True):
        with forced(compiled=compiled):
            found.append(Estimator(graph, devices, job).of(columns))
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)
