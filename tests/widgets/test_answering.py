"""How a gesture is answered soon: work in slices, the collector held back, the drop known beforehand."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from threading import RLock
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.views import board_view
from widgets import Board, Explorer, Tiles
from widgets.ahead import Ahead, placed
from widgets.jobs import Idle, at_once
from widgets.opening import first_point
from widgets.quiet import quiet, small_slices
from widgets.reasons import Reasons
from widgets.showing import EDITS


def idle(failed: Any = None) -> Idle:
    return Idle(RLock(), failed or (lambda error: pytest.fail(repr(error))), rest_s=0.0)


async def _until(condition: Any) -> None:
    for _ in range(300_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("never happened")


# -- slices -----------------------------------------------------------------------------------------------


def test_work_is_done_in_slices_with_the_lock_free_between() -> None:
    lock, done = RLock(), []

    def work() -> Iterator[None]:
        for i in range(3):
            done.append(i)
            yield

    async def main() -> None:
        waiting = Idle(lock, lambda error: pytest.fail(repr(error)), rest_s=0.0)
        assert waiting.later(work)
        seen = []
        while len(done) < 3:
            await asyncio.sleep(0)
            with lock:
                seen.append(len(done))
        assert {1, 2} <= set(seen), "others come in between"

    asyncio.run(main())


def test_a_new_wish_ends_what_has_begun() -> None:
    done: list[str] = []

    def work(name: str) -> Iterator[None]:
        for _ in range(100):
            done.append(name)
            yield

    async def main() -> None:
        waiting = idle()
        waiting.later(lambda: work("old"))
        await _until(lambda: len(done) >= 2)
        waiting.later(lambda: work("new"))
        before = done.count("old")
        await _until(lambda: done.count("new") >= 3)
        assert done.count("old") == before

    asyncio.run(main())


def test_an_error_in_any_slice_is_told_and_ends_the_work() -> None:
    told: list[Exception] = []

    def work() -> Iterator[None]:
        yield
        raise ValueError("in the second slice")

    async def main() -> None:
        idle(told.append).later(work)
        await _until(lambda: told)

    asyncio.run(main())
    assert [str(error) for error in told] == ["in the second slice"]


def test_work_that_is_no_generator_is_one_slice() -> None:
    done: list[int] = []

    async def main() -> None:
        idle().later(lambda: done.append(1))
        await _until(lambda: done)

    asyncio.run(main())
    at_once(lambda: done.append(2))
    at_once(lambda: iter(done.append(i) for i in (3, 4)))
    assert done == [1, 2, 3, 4]


def test_without_a_loop_the_caller_is_told() -> None:
    assert not idle().later(lambda: None)


# -- the collector ----------------------------------------------------------------------------------------


def test_the_collector_waits_inside_and_comes_back() -> None:
    assert gc.isenabled()
    with quiet():
        assert not gc.isenabled()
        with quiet():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_with_a_loop_it_waits_until_the_answer_has_left() -> None:
    async def main() -> None:
        with quiet():
            pass
        assert not gc.isenabled()
        await asyncio.sleep(0)
        with quiet():
            pass
        assert not gc.isenabled()
        await _until(gc.isenabled)

    asyncio.run(main())


def test_a_loop_that_ends_lets_go() -> None:
    async def main() -> None:
        with quiet():
            pass
        assert not gc.isenabled()

    asyncio.run(main())
    assert gc.isenabled()


def test_who_had_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with quiet():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_searches_of_everything_wait_for_the_end_of_idle_work() -> None:
    young, middle, _ = usual = gc.get_threshold()
    walks: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        walks.append(info["generation"] if phase == "start" else -1)

    def allocate() -> None:
        kept = []
        for _ in range(20 * young * max(1, middle)):
            kept.append([kept])
        kept.clear()

    gc.callbacks.append(note)
    try:
        with small_slices():
            with small_slices():
                allocate()
            assert gc.get_threshold() != usual, "the outer one still works"
            assert {0, 1} <= set(walks)
            assert 2 not in walks
        assert gc.get_threshold() == usual
        for _ in range(100):
            allocate()
            if 2 in walks:
                break
        assert 2 in walks, "what was put off comes"
    finally:
        gc.callbacks.remove(note)


def test_why_never_searches_everything() -> None:
    found = Reasons()
    usual = gc.get_threshold()
    found.settled(START, None)
    work = found.work(START)
    next(work)
    assert gc.get_threshold() != usual
    work.close()
    assert gc.get_threshold() == usual


# -- the drop known beforehand ----------------------------------------------------------------------------

START = first_point("gpt2-small", "dgx-a100")
LAYERS = [layer.name for layer in START.inputs.graph.layers]
LANES = len(START.groups)


@given(
    st.sets(st.sampled_from(LAYERS[: len(LAYERS) // 2]), min_size=1, max_size=6),
    st.integers(0, LANES - 1),
)
def test_what_was_considered_is_what_the_drop_leads_to(layers: set[str], lane: int) -> None:
    intent = {"kind": "move", "layers": sorted(layers, key=LAYERS.index), "to_lane": str(lane)}
    try:
        expected = placed(START, intent)
    except InputError:
        return
    ahead = Ahead()
    ahead.consider(START, intent)
    found = ahead.take(START, {"seq": 5, **intent})
    assert found.strategy == expected.strategy
    assert board_view(found.scene) == board_view(expected.scene)


def test_another_drop_or_another_state_is_worked_out_anew() -> None:
    block = [name for name in LAYERS if name.startswith("layers.1.")]
    intent = {"kind": "move", "layers": block, "to_lane": "1"}
    ahead = Ahead()
    ahead.consider(START, intent)
    assert ahead.known(START, {"seq": 9, **intent}) is not None
    assert ahead.known(START, {**intent, "to_lane": "2"}) is None
    assert ahead.known(placed(START, intent), intent) is None
    ahead.take(START, intent)
    assert ahead.known(START, intent) is None, "nothing is kept"


def test_what_cannot_be_is_said_at_the_drop_only() -> None:
    wrong = {"kind": "move", "layers": ["no such layer"], "to_lane": "1"}
    ahead = Ahead()
    ahead.consider(START, wrong)
    ahead.consider(START, {"kind": "undo"})
    with pytest.raises(InputError, match="no such layer"):
        ahead.take(START, wrong)


def test_the_page_is_told_what_a_drop_out_of_order_would_lead_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of costs know nothing of what lanes wait for and keep meanwhile."""
    bench = Explorer("gpt2-small", "dgx-a100", global_batch=64, session=False)
    bench.set(stages=4, microbatch_size=2)
    told: list[dict[str, Any]] = []
    monkeypatch.setattr(bench.board, "send", told.append)
    layers = list(bench.history.now.inputs.graph.blocks["layers.7"])
    intent = {"kind": "move", "layers": layers, "to_lane": "0"}
    before = bench.history.now
    for _ in range(2):  # held longer, it is told again
        bench.board._receive(bench.board, {"consider": intent}, [])
    assert bench.history.now is before, "nothing has happened yet"
    assert [item["considered"] for item in told] == [intent, intent]
    wrong = {"kind": "move", "layers": ["nowhere"], "to_lane": "1"}
    bench.board._receive(bench.board, {"consider": wrong}, [])
    assert len(told) == 2
    bench.board.send_intent(**intent)
    lanes = {lane["id"]: lane for lane in bench.board.view["lanes"]}
    for number, lane in told[0]["lanes"].items():
        assert lane == {key: lanes[number][key] for key in lane}
    tiles = {tile["key"]: tile["value"] for tile in bench.tiles.view["tiles"]}
    assert told[0]["values"] == tiles
    bench.close()


def test_considering_answers_nothing() -> None:
    board, seen = Board(), []
    board.on_consider(seen.append)
    board.on_intent(lambda _: pytest.fail("no intent was sent"))
    board._receive(board, {"consider": {"kind": "move", "layers": ["a"], "to_lane": "1"}}, [])
    assert seen == [{"kind": "move", "layers": ["a"], "to_lane": "1"}]
    assert board.seq == 0


def test_idle_work_waits_while_something_is_held() -> None:
    done, clock = [], [0.0]

    async def scenario() -> None:
        held = Idle(RLock(), pytest.fail, rest_s=0.0, clock=lambda: clock[0])
        held.hold_off(0.01)
        assert held.later(lambda: done.append(clock[0]))
        await asyncio.sleep(0.03)
        assert done == [], "its clock stands still"
        clock[0] = 0.02
        await _until(lambda: done)

    asyncio.run(scenario())
    assert done == [0.02]


def test_the_answer_goes_out_before_what_others_show_of_it() -> None:
    board, tiles = Board(), Tiles()
    board.followers = (tiles,)
    sent: list[str] = []
    for widget in (board, tiles):
        name = type(widget).__name__
        widget.send_state = lambda *_args, name=name, **_more: sent.append(name)  # type: ignore[method-assign]

    def handler(_intent: Any) -> None:
        tiles.view = {"tiles": [], "verdict": None, "pending": False}
        board.view = {"lanes": []}

    board.on_intent(handler)
    board.send_intent("undo")
    assert sent == ["Board", "Tiles"]


def test_the_edits_that_follow_are_counted_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what times the tasks of a large plan is compiled before it is moved about."""
    counted: list[int] = []
    monkeypatch.setattr("widgets.showing.expect", counted.append)
    bench = Explorer("gpt2-small", "dgx-a100", global_batch=32, session=False)
    bench.set(stages=4)
    sizes = [point.report.timeline.program.size for point in bench.history.points]
    assert counted == [EDITS * size for size in sizes]
    bench.close()
