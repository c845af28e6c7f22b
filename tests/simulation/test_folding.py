"""Folded replicas give the numbers of unfolded ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.cluster import Level
from explorer.pricing.mesh_lines import lines_of
from explorer.simulation import one_job
from explorer.simulation.folding import UNFOLDED, fold_replicas, used_by
from explorer.simulation.replica_arrays import UsedArrays
from explorer.simulation.replica_routes import Used
from explorer.simulation.report import Report
from explorer.strategy import Mesh, Stage, single
from explorer.tasks.placement import place
from tests.random_plans import DEVICES, Case, cluster_of, even_cases, pipeline

SCHEDULES = ("gpipe", "1f1b", "pipedream", "pipedream_2bw")


def both(case: Case) -> tuple[Report, Report]:
    """The report as it is, and with every replica lowered."""
    folded = explorer.simulate(*case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_job, "fold_replicas", lambda *_: UNFOLDED)
        return folded, explorer.simulate(*case)


def compare(folded: Report, plain: Report) -> None:
    assert folded.step_time_s == pytest.approx(plain.step_time_s, rel=1e-9, abs=1e-12)
    assert folded.makespan_s == pytest.approx(plain.makespan_s, rel=1e-9, abs=1e-12)
    assert folded.devices == plain.devices
    assert folded.bubble_fraction == pytest.approx(plain.bubble_fraction, abs=1e-9)
    assert folded.pass_name == plain.pass_name
    assert folded.versions == plain.versions
    for name in ("peak_memory_bytes", "busy_s", "capacity_bytes"):
        ours, theirs = (report.per_device(getattr(report, name)) for report in (folded, plain))
        assert ours == pytest.approx(theirs, rel=1e-9), name
    ours, theirs = ({p: x for p, x in r.traffic_bytes.items() if x} for r in (folded, plain))
    assert ours == pytest.approx(theirs, rel=1e-9)


@settings(max_examples=60)
@given(case=st.one_of(*(even_cases(name) for name in SCHEDULES)), data=st.data())
def test_folded_replicas_give_the_same_numbers(case: Case, data: st.DataObject) -> None:
    """Also where devices are dealt out at random, so that replicas lie differently in the nodes."""
    if data.draw(st.booleans()):
        order = data.draw(st.permutations(range(DEVICES)))
        stages = tuple(
            replace(s, meshes=tuple(replace(m, devices=tuple(order[d] for d in m.devices)) for m in s.meshes))
            for s in case.strategy.job.stages
        )
        case = case._replace(strategy=case.strategy.with_job(case.strategy.job.with_stages(stages)))
    compare(*both(case))


@settings(max_examples=20)
@given(case=even_cases("1f1b"))
def test_replicas_on_equal_nodes_are_folded(case: Case) -> None:
    placement = place(case.graph, case.strategy.job)
    replicas = placement.skeleton.sections[0].replicas
    folding = fold_replicas(case.cluster, placement.skeleton, case.strategy.job)
    if replicas > 1 and all(max(s.meshes[0].devices) < 4 for s in case.strategy.job.stages):
        assert folding.kept is not None
        assert len(folding.kept) == 1
    if folding.kept is not None:
        assert sorted(r for members in folding.classes.values() for r in members) == list(range(replicas))


def crossing(first: tuple[int, ...], second: tuple[int, ...]) -> Case:
    """Three stages with two replicas on given devices; nodes of four behind an uplink of one transfer."""
    base = pipeline([0.1] * 3, [0.1] * 3, microbatches=4, replicas=2)
    tensors = tuple(replace(t, shape=(10.0,)) if t.name in ("t0", "t1") else t for t in base.graph.tensors)
    levels = (
        Level(name="inner", kind="nvlink", scope="node", latency_s=0.0, bandwidth_bytes_per_s=100.0),
        Level(
            name="outer", kind="ethernet", scope="all", latency_s=0.0, bandwidth_bytes_per_s=20.0,
            uplink_bytes_per_s=20.0,
        ),
    )  # fmt: skip
    stages = tuple(
        replace(stage, meshes=(Mesh(devices=(first[s], second[s])),))
        for s, stage in enumerate(base.strategy.job.stages)
    )
    strategy = base.strategy.with_job(base.strategy.job.with_stages(stages))
    return Case(replace(base.graph, tensors=tensors), cluster_of(levels), base.workload, strategy)


@pytest.mark.parametrize(
    ("first", "second", "folded"),
    [
        ((0, 4, 8), (1, 5, 9), True),
        # replica 0 leaves node 0 with its first tensor, replica 1 with its second: neither alone shows it
        ((0, 5, 8), (4, 1, 9), False),
        ((0, 4, 8), (9, 1, 5), False),
    ],
)
def test_replicas_that_meet_on_a_shared_network(
    first: tuple[int, ...], second: tuple[int, ...], folded: bool
) -> None:
    case = crossing(first, second)
    found, plain = both(case)
    compare(found, plain)
    assert (found.timeline.program.kept_replicas is not None) == folded
    assert found.pass_name == "events"


@pytest.mark.parametrize("cluster", ["dgx-1-v100", "ethernet-10g-4x4", "mixed-v100-a100"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (0, 4, 1, 5), (0, 1, 4, 5, 2, 3)])
@pytest.mark.parametrize("zero", [1, 3])
def test_groups_of_replicas_behind_other_links_are_no_class(
    cluster: str, order: tuple[int, ...], zero: int
) -> None:
    """Groups that shard weights meet one link or two, or a network: alike are those that meet the same."""
    graph, devices = explorer.load_model("gpt2-small"), explorer.load_cluster(cluster)
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers), meshes=(Mesh(devices=order),),
        microbatch_samples=len(order), zero=zero, zero_replicas=2,
    )  # fmt: skip
    work = explorer.default_workload(graph).with_job(global_batch=2 * len(order))
    compare(*both(Case(graph, devices, work, single(stages=(stage,), schedule="1f1b"))))


@settings(max_examples=60)
@given(case=st.one_of(*(even_cases(name) for name in SCHEDULES)), data=st.data())
def test_arrays_find_the_classes_that_names_find(case: Case, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(DEVICES)))
    zero = data.draw(st.sampled_from([0, 3]))
    stages = tuple(
        replace(
            s, zero=zero, zero_replicas=data.draw(st.sampled_from([0, 1])),
            meshes=tuple(replace(m, devices=tuple(order[d] for d in m.devices)) for m in s.meshes),
        )
        for s in case.strategy.job.stages
    )  # fmt: skip
    skeleton = place(case.graph, case.strategy.job.with_stages(stages)).skeleton
    if skeleton.sections[0].replicas == 1:
        return
    along = [stages[section.stage].meshes[:1] for section in skeleton.sections]
    found = used_by(case.cluster, skeleton, along)
    assert isinstance(found, UsedArrays)
    lines = tuple(
        tuple(
            tuple(line for _, _, lines in lines_of(meshes, row) for line in lines) for row in section.rows[0]
        )
        for meshes, section in zip(along, skeleton.sections, strict=True)
    )
    named = Used(case.cluster, skeleton.sections, skeleton.flows, lines)
    classes = named.classes()
    assert found.classes() == classes
    for members in (*classes, list(range(skeleton.sections[0].replicas))):
        assert found.crossed(members) == named.crossed(members)
