"""Edits of devices: every one keeps each device once, and is simulated or refused in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import ExplorerError, InputError
from explorer.strategies import device_edits as edits
from explorer.strategies.degrees import Degrees
from explorer.strategies.device_edits import (
    Placed,
    row_of,
    swapped,
    with_device,
    with_row,
    without_row,
)
from explorer.strategies.moves import groups_of
from explorer.strategy import JobStrategy, Mesh, Strategy
from explorer.workload import default_workload

CLUSTER = explorer.load_cluster("dgx-a100")
GRAPH = explorer.load_model("gpt2-small")
MIXTURE = explorer.load_model("mixtral-8x7b")
WORKLOAD = default_workload(GRAPH).with_job(global_batch=48)


def placed(job: JobStrategy) -> Placed:
    return Placed(job=job, groups=groups_of(job))


def job_of(**degrees: int) -> JobStrategy:
    return Degrees(**degrees).build(GRAPH, CLUSTER, WORKLOAD.job).job


def devices(now: Placed) -> list[int]:
    return [device for group in now.groups for mesh in group.meshes for device in mesh.devices]


def assert_consistent(now: Placed) -> None:
    """Each device once, and every stage on the meshes of a group."""
    assert len(set(devices(now))) == len(devices(now))
    known = {group.meshes for group in now.groups}
    assert {stage.meshes for stage in now.job.stages} <= known
    assert all(group.template.meshes == group.meshes for group in now.groups)


JOBS = (
    job_of(stages=2, replicas=3, microbatch_size=2),
    job_of(stages=3, replicas=2, microbatch_size=4, zero=1),
    job_of(stages=2, replicas=2, tensor=2, microbatch_size=4),
    job_of(stages=4, replicas=1, tensor=2),
)


@settings(max_examples=60, deadline=None)
@given(job=st.sampled_from(JOBS), data=st.data())
def test_any_edit_is_simulated_or_refused_in_words(job: JobStrategy, data: st.DataObject) -> None:
    now = placed(job)
    for _ in range(data.draw(st.integers(1, 3))):
        device = data.draw(st.integers(0, 7))
        lane = data.draw(st.none() | st.integers(0, len(now.groups) - 1))
        other = data.draw(st.none() | st.integers(0, 7))
        idle = [item for item in CLUSTER.present if item not in devices(now)]
        try:
            after = with_device(now, idle, device, lane=lane, other=other)
            assert_consistent(after)
            report = explorer.simulate(GRAPH, CLUSTER, WORKLOAD, Strategy(jobs=(after.job,)))
        except ExplorerError as error:
            refused = str(error)
            assert "allowed" in refused or "use" in refused
            continue
        assert set(report.devices) <= set(devices(after))
        now = after


def test_a_swap_changes_nothing_but_places() -> None:
    now = placed(JOBS[0])
    there = swapped(now, 0, 5)
    assert swapped(there, 0, 5) == now
    assert sorted(devices(there)) == sorted(devices(now))
    assert row_of(there, 0) == (0,)
    assert there.groups[1].meshes[0].devices[2] == 0
    assert swapped(now, 0, 7).groups[0].meshes[0].devices[0] == 7  # 7 was out of use


def test_a_replica_goes_to_another_lane_and_back() -> None:
    now = placed(JOBS[0])
    there = edits.given(now, 1, 1)
    assert [group.meshes[0].replicas for group in there.groups] == [2, 4]
    assert there.groups[1].meshes[0].devices == (3, 4, 5, 1)
    assert edits.given(there, 1, 0).groups[0].meshes[0].devices == (0, 2, 1)


def test_replicas_of_several_devices_move_together() -> None:
    now = placed(JOBS[2])
    there = edits.given(now, 3, 1)
    assert there.groups[1].meshes[0] == Mesh(devices=(4, 5, 6, 7, 2, 3), axes=(("replica", 3), ("tensor", 2)))
    assert without_row(now, 4).groups[1].meshes[0].devices == (6, 7)


def test_the_last_replica_stays_and_widths_must_agree() -> None:
    now = placed(JOBS[3])
    with pytest.raises(InputError, match="lane 1 has no replica but"):
        edits.given(now, 2, 0)
    with pytest.raises(InputError, match="whose replicas have 2"):
        with_row(placed(job_of(stages=2, replicas=1, tensor=2)), (7,), 0)
    with pytest.raises(InputError, match="is in use"):
        with_row(now, (0, 1), 1)
    with pytest.raises(InputError, match="cannot change places"):
        swapped(now, 3, 3)


def test_experts_go_along_if_they_divide() -> None:
    job = Degrees(stages=2, replicas=4, expert=2, microbatch_size=1).build(
        MIXTURE, CLUSTER, default_workload(MIXTURE).with_job(global_batch=64).job
    ).job  # fmt: skip
    now = placed(job)
    with pytest.raises(InputError, match="groups of 2, which do not divide 3"):
        without_row(now, 0)
    swap = swapped(now, 0, 4)
    assert swap.job.stages[0].shardings[0].meshes[0].devices == (4, 1, 2, 3)


def test_shares_and_groups_of_zero_are_dropped_where_they_no_longer_fit() -> None:
    job = JOBS[0]
    stages = [replace(stage, shares=(2.0, 1.0, 1.0), zero=1, zero_replicas=3) for stage in job.stages]
    there = without_row(placed(job.with_stages(stages)), 0)
    assert (there.job.stages[0].shares, there.job.stages[0].zero_replicas) == ((), 0)
    assert there.job.stages[1] == stages[1]
