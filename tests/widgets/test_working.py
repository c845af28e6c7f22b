"""A field that takes long: worked out beside the event loop, told phase by phase, ended on request."""

from __future__ import annotations

import asyncio
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.plan import save_plan
from widgets import Explorer
from widgets.phases import PHASES, PLACING, READING, SIMULATING, phase

GATE = threading.Event()
"""What the slow model waits for."""
NET = """
    import torch
    from test_working import GATE

    GATE.reached.set()
    assert GATE.wait(60)

    def build():
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)), (torch.zeros(1, 8),)
"""


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer(model="gpt2-small", cluster="dgx-a100", session=None)
    yield found
    found.close()


async def _until(condition: Callable[[], Any]) -> None:
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("never happened")


def ask(bench: Explorer, kind: str, widget: Any = None, **fields: Any) -> int:
    """What the page does: an intent with the next number, not waited for."""
    place = widget or bench.controls
    ASKED[place] = max(ASKED.get(place, 0), place.seq) + 1
    place._receive(place, {"seq": ASKED[place], "kind": kind, **fields}, [])
    return ASKED[place]


ASKED: dict[Any, int] = {}


def told(bench: Explorer) -> list[Any]:
    seen: list[Any] = []
    bench.controls.observe(lambda change: seen.append(change["new"]), "doing")
    return seen


def held(monkeypatch: pytest.MonkeyPatch, name: str = "simulate") -> threading.Event:
    """Hold every simulation on a thread until the event is set."""
    from widgets import session

    gate, own = threading.Event(), session.simulate

    def wait(*given: Any, **named: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():
            assert gate.wait(60)
        return own(*given, **named)

    monkeypatch.setattr(session, name, wait)
    return gate


def test_a_field_is_worked_out_beside_the_loop(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, seen = held(monkeypatch), told(bench)

    async def main() -> None:
        number = ask(bench, "set", key="cluster", value="hgx-h100")
        await _until(lambda: seen and seen[-1]["text"] == SIMULATING)
        assert bench.controls.seq < number, "not answered yet"
        assert bench.cluster == "dgx-a100"
        gate.set()
        await _until(lambda: bench.controls.seq == number)

    asyncio.run(main())
    assert bench.cluster == "hgx-h100"
    assert [(x["text"], x["at"], x["of"]) for x in seen if x] == [(PLACING, 1, 2), (SIMULATING, 2, 2)]
    assert bench.controls.doing is None


def test_cancelled_everything_is_as_before(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, before = held(monkeypatch), bench.history.now

    async def main() -> None:
        number = ask(bench, "set", key="model", value="llama3-8b")
        await _until(lambda: bench.controls.doing and bench.controls.doing["text"] == SIMULATING)
        bench.tiles._receive(bench.tiles, {"cancel": True}, [])
        assert bench.controls.seq == number, "answered at once, not when the thread is done"
        assert bench.history.now is before
        assert bench.controls.doing is None
        assert {f["key"]: f["value"] for f in bench.controls.view["fields"]}["model"] == "gpt2-small"
        gate.set()
        for _ in range(50):
            await asyncio.sleep(0.002)
        assert bench.history.now is before, "what the thread makes later is dropped"
        assert not bench.error

    asyncio.run(main())


def test_a_thread_that_nobody_waits_for_ends_at_the_next_phase(bench: Explorer) -> None:
    ended = threading.Event()

    def make() -> Any:
        for _ in range(30_000):
            phase(READING)
            if ended.wait(0.002):
                break
        raise AssertionError("was never ended")

    from widgets.working import Task

    async def main() -> None:
        task = Task(bench.controls, {"key": "model"}, None)
        done: list[Any] = []
        assert task.start(make, lambda *_: None, done.append)
        task.wanted = False
        await _until(lambda: not any(thread.name == "field" for thread in threading.enumerate()))
        assert not done

    asyncio.run(main())


def test_gestures_wait_for_their_turn(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = held(monkeypatch)

    async def main() -> None:
        ask(bench, "set", key="global_batch", value=64)
        ask(bench, "set", key="microbatch_size", value=2)
        undo = ask(bench, "undo", bench.board)
        assert bench.board.seq < undo
        gate.set()
        await _until(lambda: bench.board.seq == undo)

    asyncio.run(main())
    notes = [point.note for point in bench.history.points]
    assert notes[1:] == ["batch 64", "microbatch 2"], "in the order they were made"
    assert bench.now().note == "batch 64", "the last of them was undone"


def test_what_is_wrong_is_said_at_the_field_as_ever(bench: Explorer) -> None:
    async def main() -> None:
        number = ask(bench, "set", key="stages", value=64)
        await _until(lambda: bench.controls.seq == number)

    asyncio.run(main())
    field = next(f for f in bench.controls.view["fields"] if f["key"] == "stages")
    assert field["error"]
    assert field["value"] == 64
    assert bench.controls.notice["level"] == "error"


def test_a_first_model_can_be_ended_too(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Explorer(model="nosuch", cluster="dgx-a100", session=None)
    gate = held(monkeypatch)

    async def main() -> None:
        ask(bench, "set", key="model", value="gpt2-small")
        await _until(lambda: bench.controls.doing and bench.controls.doing["text"] == SIMULATING)
        bench.controls._receive(bench.controls, {"cancel": True}, [])
        assert bench.history.now is None
        gate.set()
        number = ask(bench, "set", key="model", value="gpt2-small")
        await _until(lambda: bench.controls.seq == number)

    asyncio.run(main())
    assert bench.model == "gpt2-small"
    bench.close()


def test_a_state_from_a_cell_meanwhile_is_where_the_field_begins(
    bench: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = held(monkeypatch)

    async def main() -> None:
        number = ask(bench, "set", key="global_batch", value=64)
        await _until(lambda: bench.controls.doing)
        bench.set(precision="fp32")
        gate.set()
        await _until(lambda: bench.controls.seq == number)

    asyncio.run(main())
    job = bench.workload.job
    assert (job.precision, job.global_batch) == ("fp32", 64), "neither is lost"


@pytest.mark.slow
def test_code_that_never_looks_is_left_alone(
    bench: Explorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of somebody's own that takes for ever to import: the workbench goes on without it."""
    (tmp_path / "slow_net.py").write_text(textwrap.dedent(NET))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "test_working", sys.modules[__name__])
    monkeypatch.setattr(GATE, "reached", threading.Event(), raising=False)

    async def main() -> None:
        ask(bench, "set", key="model", value="slow_net:build")
        await _until(GATE.reached.is_set)  # type: ignore[attr-defined]
        await _until(lambda: bench.controls.doing.get("text") == READING)
        bench.controls._receive(bench.controls, {"cancel": True}, [])
        assert bench.model == "gpt2-small"
        number = ask(bench, "set", key="global_batch", value=64)
        await _until(lambda: bench.controls.seq == number)
        assert bench.workload.job.global_batch == 64
        GATE.set()

    asyncio.run(main())


def test_every_phase_of_a_field_is_one_that_it_is_said_to_have(bench: Explorer) -> None:
    seen = told(bench)
    values = {"model": "bert-large", "cluster": "h200", "sequence_length": 256, "framework": "", "stages": 2}

    async def main() -> None:
        for key, value in values.items():
            seen.clear()
            number = ask(bench, "set", key=key, value=value)
            await _until(lambda number=number: bench.controls.seq == number)
            assert not bench.error
            expected = PHASES.get(key, (SIMULATING,))
            assert tuple(dict.fromkeys(x["text"] for x in seen if x)) == expected

    asyncio.run(main())


# -- while the cell itself loads --------------------------------------------------------------------------


def test_the_cell_says_what_is_loaded_and_takes_it_back() -> None:
    from widgets.loading import said
    from widgets.opening import first_point

    lines: list[str] = []
    with said("gpt2-small on dgx-a100", slow=True, show=lines.append):
        first_point("gpt2-small", "dgx-a100")
    assert [line.partition(". ")[0] for line in lines] == [
        "Loading gpt2-small on dgx-a100: reading the model, step 1 of 3",
        "Loading gpt2-small on dgx-a100: placing the model on the devices, step 2 of 3",
        "Loading gpt2-small on dgx-a100: simulating a step, step 3 of 3",
        "",
    ]


def test_what_is_quick_is_not_worth_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    from widgets import loading

    lines: list[str] = []
    monkeypatch.setattr(loading.time, "monotonic", lambda: 0.0)
    with loading.said("gpt2-small", slow=False, show=lines.append):
        phase(READING)
    assert lines == []


def test_an_interrupted_cell_leaves_the_pickers(monkeypatch: pytest.MonkeyPatch) -> None:
    from widgets import opening

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(opening, "load_inputs", interrupted)
        bench = Explorer(model="gpt2-small", cluster="dgx-a100", session=None)
    assert "interrupted" in bench.error
    assert bench.controls.view["fields"][0]["value"] == "gpt2-small"
    bench.controls.send_intent("set", key="cluster", value="hgx-h100")
    assert bench.cluster == "hgx-h100"
    bench.close()


# ---- files --------------------------------------------------------------------------------------


def plan_file(folder: Path) -> Path:
    """A plan of another model, written to a file."""
    other = Explorer(model="llama3-8b", cluster="dgx-a100", session=None)
    try:
        found = folder / "plan.yaml"
        save_plan(other.plan, {"model": other.now().inputs.graph}, found)
        return found
    finally:
        other.close()


def gestures_of(bench: Explorer, path: Path) -> dict[str, tuple[Any, dict[str, Any]]]:
    """The three ways to open a file: (widget, fields) by kind."""
    text = path.read_text()
    return {
        "open_path": (bench.history_panel.states, {"path": str(path)}),
        "open_text": (bench.history_panel.states, {"name": path.name, "text": text}),
        "drop_text": (bench.tiles, {"name": path.name, "text": text}),
    }


@pytest.mark.parametrize("kind", ["open_path", "open_text", "drop_text"])
def test_a_file_is_opened_beside_the_loop_and_can_be_cancelled(
    bench: Explorer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    path = plan_file(tmp_path)
    widget, fields = gestures_of(bench, path)[kind]
    gate, before = held(monkeypatch), bench.history.now

    async def main() -> None:
        number = ask(bench, kind, widget, **fields)
        assert widget.seq < number, "not answered yet"
        widget._receive(widget, {"cancel": True}, [])
        assert widget.seq == number, "answered at once"
        gate.set()
        await _until(lambda: not any(thread.name == "field" for thread in threading.enumerate()))
        await asyncio.sleep(0.01)
        assert bench.history.now is before, "what the thread made is dropped"
        assert not bench.error
        gate.clear()
        number = ask(bench, kind, widget, **fields)
        undo = ask(bench, "undo", bench.board)
        assert bench.board.seq < undo, "it waits for the file"
        gate.set()
        await _until(lambda: bench.board.seq == undo)
        assert widget.seq == number
        assert [point.inputs.model.reference for point in bench.history.points][-1] == "llama3-8b"

    asyncio.run(main())
    assert bench.model == "gpt2-small", "undone after it was opened"


def test_what_is_wrong_with_a_file_is_said_after_it_was_read(bench: Explorer, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("schema: explorer.plan/1\n")
    bench.open_tab("History")
    states, before = bench.history_panel.states, bench.history.now

    async def main() -> None:
        number = ask(bench, "open_path", states, path=str(tmp_path / "bad.yaml"))
        await _until(lambda: states.seq == number)
        assert states.view["file"]["value"] == str(tmp_path / "bad.yaml"), "what was typed stays"
        assert states.view["file"]["error"]
        number = ask(bench, "drop_text", bench.tiles, name="mail.txt", text="hello")
        await _until(lambda: bench.tiles.seq == number)
        assert "the plan stays as it was" in bench.error

    asyncio.run(main())
    assert bench.history.now is before
