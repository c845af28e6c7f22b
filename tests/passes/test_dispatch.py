"""Dispatch: peers that come and go, closed forms and invariants."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import WIRINGS, Dispatch
from explorer.base.errors import PlanError
from explorer.cluster import Event
from explorer.passes.dispatch import DispatchRun, Peer, StageEdge, run_dispatch


def peers_of(*stages: list[tuple[float, float]]) -> list[Peer]:
    """Peers by stage from their (forward, backward) seconds; hosts and devices counted through."""
    found: list[Peer] = []
    for stage, costs in enumerate(stages):
        for forward, backward in costs:
            found.append(Peer(stage, len(found), (len(found),), forward, backward))
    return found


def run(
    peers: list[Peer],
    edges: list[StageEdge],
    *,
    microbatches: int,
    in_flight: int = 8,
    wiring: str = WIRINGS[0],
    events: tuple[Event, ...] = (),
    seed: int = 0,
    wire_s: float = 0.0,
) -> DispatchRun:
    policy = Dispatch(wiring=wiring, in_flight=in_flight, seed=seed)
    return run_dispatch(
        peers, edges, lambda *_: (wire_s, ()), (), policy, microbatches=microbatches, events=events
    )


CHAIN = [StageEdge(0, 1, True)]


def test_resources_may_be_numbered_as_they_are_met() -> None:
    capacity: list[float] = []

    def wire(*_: object) -> tuple[float, tuple[tuple[int, float], ...]]:
        if not capacity:
            capacity.append(1.0)
        return 1.0, ((0, 2.0),)  # asks for twice what there is: takes twice as long

    peers, policy = peers_of([(1.0, 1.0)], [(1.0, 1.0)]), Dispatch(wiring=WIRINGS[0], in_flight=8, seed=0)
    found = run_dispatch(peers, CHAIN, wire, capacity, policy, microbatches=1)
    assert found.applied_s == (8.0,)  # two forwards, two backwards, two transfers of two seconds


def leave(time_s: float, device: int) -> Event:
    return Event(time_s=time_s, device=device, kind="leave")


def join(time_s: float, device: int) -> Event:
    return Event(time_s=time_s, device=device, kind="join")


def test_one_peer_a_stage_is_a_pipeline() -> None:
    found = run(peers_of([(1.0, 1.0)], [(1.0, 1.0)]), CHAIN, microbatches=1)
    assert found.applied_s == (4.0,)
    found = run(peers_of([(1.0, 1.0)], [(1.0, 1.0)]), CHAIN, microbatches=1, wire_s=0.5)
    assert found.applied_s == (5.0,)


@pytest.mark.parametrize("wiring", WIRINGS)
def test_the_rate_is_the_slowest_stage(wiring: str) -> None:
    """min over stages of the sum of peers' rates: 1 + 1/2 a second on stage 0, 2 on stage 1."""
    peers = peers_of([(0.25, 0.75), (0.5, 1.5)], [(0.25, 0.25)])
    found = run(peers, CHAIN, microbatches=600, in_flight=24, wiring=wiring)
    steady = [t for t in sorted(found.applied_s) if 20 < t <= 320]
    assert len(steady) / 300 == pytest.approx(1.5, rel=0.01)


def test_half_of_what_is_under_way_is_done_again() -> None:
    """Two quick peers on stage 0 hold 32 of 64 each, all waiting for the one slow peer of stage 1."""
    peers = peers_of([(1e-3, 1e-3)] * 2, [(50.0, 50.0)])
    found = run(peers, CHAIN, microbatches=64, in_flight=64, events=(leave(1.0, 1),))
    assert found.redone == 32
    # where little is under way, little is lost
    few = run(peers, CHAIN, microbatches=64, in_flight=2, events=(leave(1.0, 1),))
    assert few.redone == 1


def test_a_peer_that_joins_is_used() -> None:
    peers = peers_of([(0.5, 0.5)] * 2)
    alone = run(peers, [], microbatches=40, events=(join(1e9, 1),))
    assert max(alone.applied_s) == pytest.approx(40.0)
    helped = run(peers, [], microbatches=40, in_flight=2, events=(join(20.0, 1),))
    assert max(helped.applied_s) == pytest.approx(30.0, abs=2)
    assert {done.peer for done in helped.tasks} == {0, 1}


def test_work_waits_for_a_peer_to_join_and_says_so_if_none_comes() -> None:
    peers = peers_of([(0.5, 0.5)])
    found = run(peers, [], microbatches=4, events=(leave(1.25, 0), join(10.0, 0)))
    # B goes first: one microbatch is done at 1 s; the F that ran at 1.25 s starts again at 10 s
    assert sorted(found.applied_s) == pytest.approx([1.0, 11.0, 12.0, 13.0])
    assert found.redone == 0
    with pytest.raises(PlanError, match="stage 0 has no peer left after 1 of 4 microbatches"):
        run(peers, [], microbatches=4, in_flight=1, events=(leave(1.25, 0),))


@st.composite
def swarms(draw: st.DrawFn) -> tuple[list[Peer], list[StageEdge], dict[str, object]]:
    stages = draw(st.integers(1, 3))
    cost = st.tuples(st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([0.0, 0.5, 2.0]))
    peers = peers_of(*(draw(st.lists(cost, min_size=2, max_size=3)) for _ in range(stages)))
    edges = [StageEdge(s, s + 1, True) for s in range(stages - 1)]
    if stages == 3 and draw(st.booleans()):
        edges.append(StageEdge(0, 2, draw(st.booleans())))
    # the first peer of each stage stays, so that somebody is always there
    first = {min(i for i, peer in enumerate(peers) if peer.stage == s) for s in range(stages)}
    others = [i for i in range(len(peers)) if i not in first]
    events = tuple(
        Event(
            time_s=draw(st.floats(0.0, 20.0)),
            device=draw(st.sampled_from(others)),
            kind=draw(st.sampled_from(["leave", "fail", "join"])),
        )
        for _ in range(draw(st.integers(0, 4)))
    )
    options = {
        "microbatches": draw(st.integers(1, 25)),
        "in_flight": draw(st.integers(1, 8)),
        "wiring": draw(st.sampled_from(WIRINGS)),
        "events": events,
        "seed": draw(st.integers(0, 3)),
        "wire_s": draw(st.sampled_from([0.0, 0.3])),
    }
    return peers, edges, options


@settings(max_examples=150)
@given(swarm=swarms())
def test_every_microbatch_is_applied_exactly_once(
    swarm: tuple[list[Peer], list[StageEdge], dict[str, object]],
) -> None:
    peers, edges, options = swarm
    found = run(peers, edges, **options)  # type: ignore[arg-type]
    total, stages = len(found.applied_s), 1 + max(peer.stage for peer in peers)
    backward = Counter((done.where, done.microbatch) for done in found.tasks if done.kind == "B")
    assert set(backward) == {(s, n) for s in range(stages) for n in range(total)}
    assert set(backward.values()) == {1}
    forward = Counter((done.where, done.microbatch) for done in found.tasks if done.kind == "F")
    assert sum(forward.values()) == stages * total + found.redone
    assert found == run(peers, edges, **options)  # type: ignore[arg-type]
    _assert_sound(found, peers, options["events"])  # type: ignore[arg-type]


def _assert_sound(found: DispatchRun, peers: list[Peer], events: tuple[Event, ...]) -> None:
    """A host does one thing at a time, only while it is there, and a backward runs where its forward did."""
    place = {}
    for done in found.tasks:
        if done.kind == "F":
            place[done.where, done.microbatch] = done.peer
        elif done.kind == "B":
            assert done.peer == place[done.where, done.microbatch]
    for p in range(len(peers)):
        own = sorted((d.start_s, d.end_s) for d in found.tasks if d.kind != "transfer" and d.peer == p)
        assert all(start >= end - 1e-9 for (_, end), (start, _) in pairwise(own))
        for event in events:
            if event.device == p and event.kind != "join":
                assert not any(start < event.time_s < end for start, end in own)
