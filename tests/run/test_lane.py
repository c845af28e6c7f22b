"""What each rank is told: wires agree at both ends, and issuing in order never deadlocks."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.run.ranks.lane import LanePlan, RankLanes, Wire
from explorer.tasks.program import REDUCE, TRANSFER
from tests.run.programs import SCHEDULES, real


def plans_of(lanes: RankLanes) -> list[LanePlan]:
    return [lanes.plan(lane) for lane in range(len(lanes.program.programs))]


def executes(plans: list[LanePlan]) -> bool:
    """Rank by rank in issue order: receives take their wire's next message, collectives need all members."""
    sent: dict[Wire, deque[int]] = {}
    taken: dict[Wire, set[int]] = {}
    issued: list[set[int]] = [set() for _ in plans]
    at = [0] * len(plans)
    moved = True

    def issue(rank: int) -> None:
        for item in plans[rank].sends[at[rank]]:
            sent.setdefault(item.wire, deque()).append(item.task)
        issued[rank].update(item.task for item in plans[rank].collectives[at[rank]])

    for rank in range(len(plans)):
        issue(rank)
    members = {r.task: r.ranks for plan in plans for group in plan.collectives for r in group}
    while moved:
        moved = False
        for rank, plan in enumerate(plans):
            while at[rank] < len(plan.tasks):
                task = plan.tasks[at[rank]]
                for item in task.receives:
                    got = taken.setdefault(item.wire, set())
                    while item.task not in got and sent.get(item.wire):
                        got.add(sent[item.wire].popleft())
                ready = all(item.task in taken[item.wire] for item in task.receives)
                ready &= all(all(r in issued[m] for m in members[r]) for r in task.reductions)
                if not ready:
                    break
                at[rank] += 1
                issue(rank)
                moved = True
    return all(at[rank] == len(plan.tasks) for rank, plan in enumerate(plans))


@given(
    schedule=st.sampled_from(SCHEDULES),
    shape=st.sampled_from([(1, 2), (2, 1), (2, 2), (4, 1), (3, 1)]),
    microbatches=st.sampled_from([4, 8]),
    turns=st.booleans(),
)
def test_wires_agree_and_nothing_deadlocks(
    schedule: str, shape: tuple[int, int], microbatches: int, turns: bool
) -> None:
    if schedule == "interleaved_1f1b" and (shape[0] == 1 or shape == (3, 1)):
        return
    lanes = RankLanes(
        real(schedule, *shape, microbatches=microbatches, batch=8 * shape[1], turns=turns).program
    )
    plans = plans_of(lanes)
    sent = {w: [] for w in lanes.wires}
    for plan in plans:
        for items in plan.sends:
            for item in items:
                assert item.wire[1] == plan.lane
                sent[item.wire].append(item.task)
    got = {wire: [i.task for i in items] for plan in plans for wire, items in plan.incoming.items()}
    assert sent == got
    assert sorted(t for tasks in sent.values() for t in tasks) == [
        t for t in range(lanes.program.size) if lanes.program.kind[t] == TRANSFER
    ]
    for task in (t for t in range(lanes.program.size) if lanes.program.kind[t] == REDUCE):
        issuers = [p.lane for p in plans for items in p.collectives for i in items if i.task == task]
        assert sorted(issuers) == list(lanes.reductions[task].ranks)
    assert executes(plans)


def test_a_wrong_sequence_is_noticed() -> None:
    """The oracle above can fail: one rank that reduces in another place hangs its group."""
    from dataclasses import replace

    plans = plans_of(RankLanes(real("1f1b", 1, 2).program))
    assert executes(plans)
    moved = list(plans[0].collectives)
    where = next(i for i, items in enumerate(moved) if items)
    items, moved[where] = moved[where], ()
    moved[where + 1] += items  # behind the U that needs it
    assert not executes([replace(plans[0], collectives=tuple(moved)), plans[1]])


def test_samples_of_a_message_are_those_that_both_ends_mean() -> None:
    """3 replicas feed 2: pieces of whole samples, as in DAPPLE's uneven data parallelism."""
    names = ["embed", "layers.0", "layers.1", "layers.2", "layers.3", "layers.4", "layers.5", "head"]
    from explorer.strategy import Mesh, Stage

    stages = (
        Stage(layers=tuple(names[:4]), meshes=(Mesh(devices=(0, 1, 2)),), microbatch_samples=6),
        Stage(layers=tuple(names[4:]), meshes=(Mesh(devices=(3, 4)),), microbatch_samples=6),
    )
    lanes = RankLanes(
        real("1f1b", 0, 0, batch=6, microbatches=1, stages=stages, steps=1, name="uneven").program
    )
    forward = sorted(t.interval for t in lanes.transfers.values() if not t.backward)
    assert forward == [(0, 2), (2, 3), (3, 4), (4, 6)]
    backward = sorted(t.interval for t in lanes.transfers.values() if t.backward)
    assert backward == forward


def test_a_part_on_several_lanes_is_refused() -> None:
    from explorer.strategy import Mesh, Sharding, Stage

    names = ("embed", *(f"layers.{i}" for i in range(6)), "head")
    shared = Sharding(layers=("layers.3",), meshes=(Mesh(devices=(0,)),))
    stages = (Stage(layers=names, meshes=(Mesh(devices=(0, 1)),), microbatch_samples=2, shardings=(shared,)),)
    program = real("gpipe", 0, 0, stages=stages, name="subset").program
    if program.other_lanes:
        with pytest.raises(InputError, match="several lanes"):
            RankLanes(program)
    else:
        assert executes(plans_of(RankLanes(program)))
