"""Pins and locks: what a hand may not move, what a new cut releases, what a searcher is told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.search import Problem
from explorer.search.problem import respects
from widgets import Explorer
from widgets.holds import NOTHING, Holds, bounds, contents, kept, places, released


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32)
    assert not found.error
    yield found
    found.close()


def block(bench: Explorer, number: int) -> list[str]:
    return list(bench.now().inputs.graph.blocks[bench.board.blocks[number]["id"]])


def test_a_pinned_block_stays(bench: Explorer) -> None:
    layers = block(bench, 4)
    lane = bench.now().scene.lane_of_layer[layers[0]]
    bench.board.send_intent("pin", layers=layers, on=True)
    before = bench.strategy
    bench.board.send_intent("move", layers=layers, to_lane="3" if lane != "3" else "0")
    assert bench.strategy == before
    assert "pinned" in bench.error
    assert "press P" in bench.board.notice["text"]
    bench.board.send_intent("pin", layers=layers, on=False)
    bench.board.send_intent("move", layers=layers, to_lane="3" if lane != "3" else "0")
    assert bench.strategy != before


def test_a_locked_lane_takes_and_gives_nothing(bench: Explorer) -> None:
    own = [name for name, lane in bench.now().scene.lane_of_layer.items() if lane == "0"]
    others = [name for name, lane in bench.now().scene.lane_of_layer.items() if lane == "2"]
    bench.board.send_intent("lock", lane="0", on=True)
    before = bench.strategy
    bench.board.send_intent("move", layers=others[:1], to_lane="0")
    bench.board.send_intent("move", layers=own[-1:], to_lane="1")
    bench.board.send_intent("move_boundary", boundary="0", before=0, after=1, layers=-1)
    assert bench.strategy == before
    assert "locked" in bench.error
    bench.board.send_intent("move", layers=others[:1], to_lane="1")
    assert bench.strategy != before


def test_undo_takes_a_pin_back(bench: Explorer) -> None:
    bench.pin(block(bench, 4))
    assert bench.now().holds.pinned
    bench.undo()
    assert bench.now().holds == NOTHING
    bench.redo()
    assert bench.now().holds.pinned


def test_another_cut_releases_what_it_moves(bench: Explorer) -> None:
    first, last = block(bench, 0), block(bench, len(bench.board.blocks) - 1)
    bench.pin([*first, *last])
    bench.set(recompute="full")
    assert bench.now().holds.pinned == {*first, *last}
    bench.set(stages=2)  # all layers go to other devices: stages of two become stages of four
    assert bench.now().holds == NOTHING


def test_a_block_stands_for_its_layers(bench: Explorer) -> None:
    name = bench.board.blocks[4]["id"]
    bench.pin([name])
    assert bench.now().holds.pinned == frozenset(block(bench, 4))
    bench.pin([name], on=False)
    assert bench.now().holds == NOTHING


def test_wrong_pins_are_said(bench: Explorer) -> None:
    bench.board.send_intent("pin", layers=["nothing.of.that.name"], on=True)
    assert "nothing.of.that.name" in bench.error
    bench.board.send_intent("lock", lane="77", on=True)
    assert "no lane 77" in bench.error


@given(data=st.data())
def test_bounds_say_what_released_says(data: st.DataObject) -> None:
    """A strategy respects pins and bans exactly if it releases nothing."""
    bench = _SHARED
    now = bench.now()
    job = now.strategy.job
    names = sorted(places(job))
    pinned = frozenset(data.draw(st.lists(st.sampled_from(names), max_size=4)))
    locked = frozenset(data.draw(st.lists(st.sampled_from(sorted(contents(job))), max_size=2)))
    holds = Holds(pinned=pinned, locked=locked)
    pins, bans = bounds(holds, job, now.inputs.graph, now.inputs.cluster)
    own = now.inputs
    problem = Problem(graph=own.graph, cluster=own.cluster, workload=own.workload, pins=pins, bans=bans)
    assert respects(problem, now.strategy)
    other = data.draw(st.sampled_from(_others()))
    assert respects(problem, other) == (not released(holds, job, other.job))
    assert not released(kept(holds, job, other.job), job, other.job)


_SHARED = Explorer("gpt2-small", "dgx-a100", global_batch=32)


def _others() -> list:  # type: ignore[type-arg]
    """Strategies one edit away from the shared one."""
    if not _FOUND:
        from widgets.edits import move_layers, shift_boundary

        now = _SHARED.now()
        names = [layer.name for layer in now.inputs.graph.layers]
        points = [move_layers(now, [name], lane) for name in names[:: len(names) // 7] for lane in (0, 3)]
        points += [shift_boundary(now, b, b + 1, k) for b in (0, 1, 2) for k in (-1, 1)]
        _FOUND.extend(point.strategy for point in points)
    return _FOUND


_FOUND: list = []  # type: ignore[type-arg]
