"""Reductions and gathers share ports and uplinks with each other and with transfers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.cluster import Cluster, Level
from explorer.costs.collective_ports import ring_use, server_use
from explorer.costs.collectives import collective_seconds
from explorer.simulation import one_job
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.report import Report
from explorer.strategy import REPLICA, Mesh, Stage, Strategy, Sync
from explorer.tasks.program import CLOSING, GATHER, REDUCE
from tests.random_plans import Case, cluster_of, pipeline

UPLINK = 10.0


def network(*, efficiency: float = 1.0, port: float = 0.0) -> Cluster:
    """Three nodes of four with one uplink each; inside of nodes everything is free."""
    inner = Level(name="inner", kind="nvlink", scope="node", latency_s=0.0, bandwidth_bytes_per_s=1e12)
    outer = Level(
        name="outer", kind="ethernet", scope="all", latency_s=0.0, bandwidth_bytes_per_s=UPLINK,
        uplink_bytes_per_s=UPLINK, device_bytes_per_s=port, collective_efficiency=efficiency,
    )  # fmt: skip
    return cluster_of((inner, outer))


def stages_over_nodes(stages: int, parameter_bytes: float, **stage: object) -> Case:
    """Stage i on devices i, 4 + i and 8 + i: a replica is a node, all reductions share its uplink."""
    case = pipeline(
        [1.0] * stages, [1.0] * stages, microbatches=1, replicas=3, parameter_bytes=parameter_bytes
    )
    made = tuple(
        replace(item, meshes=(Mesh(devices=(i, 4 + i, 8 + i)),), **stage)  # type: ignore[arg-type]
        for i, item in enumerate(case.strategy.job.stages)
    )
    strategy = Strategy(jobs=(case.strategy.job.with_stages(made),))
    return case._replace(cluster=network(), strategy=strategy)


def unfolded(case: Case) -> Report:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_job, "fold_replicas", lambda *_: UNFOLDED)
        return explorer.simulate(*case)


def reductions(report: Report) -> np.ndarray:
    """(start, end) of the first step's reductions."""
    program, timing = report.timeline.program, report.timeline.timing
    tasks = np.flatnonzero((program.kind == REDUCE) & (program.step == 0))
    return np.stack([timing.start_s[tasks], timing.end_s[tasks]], axis=1)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_groups_through_one_uplink_share_it(stages: int) -> None:
    """All bytes that leave a node need bytes / uplink seconds, however many groups send them."""
    size = 1200.0
    report = explorer.simulate(*stages_over_nodes(stages, size))
    times = reductions(report)
    sent = stages * 2 * (3 - 1) / 3 * size
    assert times[:, 1].max() - times[:, 0].min() == pytest.approx(sent / UPLINK, rel=0.02)
    assert report.pass_name == ("static" if stages == 1 else "events")
    plain = unfolded(stages_over_nodes(stages, size))
    assert plain.step_time_s == pytest.approx(report.step_time_s, rel=1e-9)


def test_a_reviewed_case() -> None:
    """gpt2-small over 10-gigabit Ethernet, a stage's replicas on four nodes, four stages at once."""
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("ethernet-10g-4x4")
    workload = explorer.default_workload(graph).with_job(global_batch=32, precision="fp16")
    strategy = explorer.uniform(graph, cluster, workload.job, stages=4, replicas=4, microbatch_size=1)
    stages = tuple(
        replace(stage, meshes=(Mesh(devices=(i, 4 + i, 8 + i, 12 + i)),))
        for i, stage in enumerate(strategy.job.stages)
    )
    report = explorer.simulate(graph, cluster, workload, Strategy(jobs=(strategy.job.with_stages(stages),)))
    per_node = 2 * 3 / 4 * graph.parameter_count * 2
    assert report.step_time_s > per_node / (0.9 * 1.25e9)


@pytest.mark.parametrize("zero", [1, 3])
def test_gathers_share_too(zero: int) -> None:
    """The replicas of a gather together ask for what the collective passes over each uplink."""
    report = unfolded(stages_over_nodes(1, 1200.0, zero=zero))
    timeline = report.timeline
    shares, slots = timeline.prices.shares, timeline.program.slots
    asked = np.zeros(len(shares.names))
    for slot, demand in zip(slots, shares.demands, strict=True):
        # the parts of one gather follow one another
        for resource, amount in demand if slot.kind == GATHER and slot.part != CLOSING else ():
            asked[resource] += amount
    uplinks = [asked[i] for i, name in enumerate(shares.names) if "group" in name]
    assert uplinks == pytest.approx([UPLINK] * 6)
    assert report.pass_name == "static"


@pytest.mark.parametrize("op", ["all_reduce", "all_gather"])
@pytest.mark.parametrize("devices", [(0, 4), (0, 1, 4, 5), (0, 1, 4), (0, 4, 8), tuple(range(12))])
@pytest.mark.parametrize("efficiency", [1.0, 0.5])
def test_bytes_over_an_uplink_are_those_of_the_collective(
    op: str, devices: tuple[int, ...], efficiency: float
) -> None:
    """Oracle: the rate asked for times the seconds is the bytes that a node sends, at most its uplink."""
    cluster, size = network(efficiency=efficiency), 600.0
    seconds = collective_seconds(cluster, op, devices, size)
    found = {use.resource: use for device in devices for use in ring_use(cluster, devices, 1).of(device)}
    passes = 2 if op == "all_reduce" else 1
    nodes = len({device // 4 for device in devices})
    even = len({sum(d // 4 == n for d in devices) for n in {d // 4 for d in devices}}) == 1
    each = (nodes - 1) / nodes if even else (len(devices) - 1) / len(devices)
    assert len(found) == 2 * nodes
    for use in found.values():
        assert use.group * seconds * efficiency == pytest.approx(passes * each * size, rel=1e-3)
        assert use.group <= use.capacity


def test_concurrent_groups_of_a_row_fill_an_uplink_once() -> None:
    """Four tensor ranks reduce through one uplink: their price knows, and together they ask for all of it."""
    cluster = network()
    total = sum(ring_use(cluster, (k, 4 + k), 4).of(k)[0].group for k in range(4))
    assert total == pytest.approx(UPLINK)


def test_servers_ask_for_what_they_exchange() -> None:
    """One worker and one server: S there, S back."""
    uses = {use.resource: use.group for use in server_use(network(), (0,), (4,), 1).of(0)}
    assert uses == {
        "outer:out:group0": pytest.approx(UPLINK / 2),
        "outer:in:group0": pytest.approx(UPLINK / 2),
    }


def test_a_transfer_waits_for_a_reduction_on_its_uplink() -> None:
    """Stage 1 sends its last gradients while stage 2 reduces: both take longer than alone."""
    case = stages_over_nodes(2, 1200.0)
    tensors = tuple(replace(t, shape=(30.0,)) if t.name == "t0" else t for t in case.graph.tensors)
    crossed = (Mesh(devices=(0, 4, 8)), Mesh(devices=(5, 9, 1)))
    stages = tuple(
        replace(stage, meshes=(mesh,)) for stage, mesh in zip(case.strategy.job.stages, crossed, strict=True)
    )
    strategy = Strategy(jobs=(case.strategy.job.with_stages(stages),))
    report = explorer.simulate(*case._replace(graph=replace(case.graph, tensors=tensors), strategy=strategy))
    alone = report.timeline.prices.seconds
    program, timing = report.timeline.program, report.timeline.timing
    took = timing.end_s - timing.start_s
    assert report.pass_name == "events"
    for kind in (REDUCE, 5):
        tasks = np.flatnonzero(program.kind == kind)
        assert (took[tasks] > alone[program.slot[tasks]] * 1.01).any()


def test_folded_expert_groups_count_all() -> None:
    """Expert groups {0, 4}, {1, 5}, ... meet on the uplinks; one of them is lowered, all four are counted."""
    graph, cluster = explorer.load_model("mixtral-8x7b"), explorer.load_cluster("ethernet-10g-4x4")
    workload = explorer.default_workload(graph).with_job(global_batch=8)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=1, replicas=8, microbatch_size=1)
    mesh = Mesh(devices=tuple(range(8)), axes=((REPLICA, 2), ("expert", 4)))
    experts = explorer.strategy.Sharding(
        layers=("*experts*",), layout=(("experts", "expert"),), meshes=(mesh,)
    )
    stage: Stage = replace(strategy.job.stages[0], shardings=(experts,))
    case = Case(graph, cluster, workload, Strategy(jobs=(strategy.job.with_stages((stage,)),)))
    folded, plain = explorer.simulate(*case), unfolded(case)
    assert len(folded.lanes) < len(plain.lanes)
    assert folded.step_time_s == pytest.approx(plain.step_time_s, rel=1e-6)


def test_a_sync_method_has_demands() -> None:
    case = stages_over_nodes(1, 1200.0)
    job = replace(case.strategy.job, sync=(Sync(parameters=("*",), method="parameter_server", servers=(3,)),))
    report = explorer.simulate(*case._replace(strategy=Strategy(jobs=(job,))))
    names = {
        report.timeline.prices.shares.names[r] for d in report.timeline.prices.shares.demands for r, _ in d
    }
    assert "outer:in:group0" in names
