"""Sessions: light history, files round trip whatever was done, nothing lost whatever is found."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jupyter_client.manager import KernelManager

import explorer as core
from explorer.base.errors import ExplorerError, InputError
from explorer.cluster_profiles import save_cluster
from explorer.strategy import JobStrategy
from widgets import Explorer
from widgets.edits import lock_lane, move_layers, pin_layers, set_field
from widgets.history import places, saving
from widgets.history.file import Look, Recorder, SavedStrategy, read_session, write_session
from widgets.history.filelock import FileLock
from widgets.history.load import restore
from widgets.opening import first_point
from widgets.session import MOST_POINTS, NEAR, History, Point, after

START = first_point("gpt2-small", "dgx-a100", {"global_batch": 32})
BLOCKS = list(START.inputs.graph.blocks.values())
Made = Callable[..., Explorer]


def history(points: list[Point], at: int | None = None) -> History:
    found = History(clock=iter(range(1_700_000_000, 1_800_000_000)).__next__)
    for point in points:
        found.push(point)
    if at is not None:
        found.step(at - found.at)
    return found


def whole(found: History) -> int:
    return len({id(point.outcome) for point in found.points if point.outcome.whole})


def edited(point: Point, kind: str, a: int, b: int) -> Point:
    """Some edit; wrong ones are refused by the edits themselves."""
    if kind == "move":
        return move_layers(point, BLOCKS[a % len(BLOCKS)], b % len(point.groups))
    if kind == "pin":
        return pin_layers(point, BLOCKS[a % len(BLOCKS)], on=bool(b % 2))
    if kind == "lock":
        return lock_lane(point, a % len(point.groups), on=bool(b % 2))
    key, values = [("zero", (0, 1, 2)), ("stages", (2, 4, 8)), ("schedule", ("gpipe", "1f1b"))][a % 3]
    return set_field(point, key, values[b % len(values)])


# -- history ------------------------------------------------------------------------------------------


def test_only_states_near_the_present_keep_their_prediction() -> None:
    found = history([START])
    for number in range(12):
        found.push(move_layers(found.now, BLOCKS[4 + number % 2], number % 4))
        assert whole(found) <= NEAR + 1
    known = [point.figures for point in found.points]
    assert found.step(-8)
    assert found.now.outcome.whole
    assert found.now.report.step_time_s == known[found.at].step_time_s, "made again, it is the same"
    assert whole(found) <= 2 * NEAR + 1
    assert not found.step(99)
    assert not found.step(0)


def test_plan_b_far_away_is_light_and_comes_back() -> None:
    other = set_field(START, "zero", 1)
    compared = Point(inputs=START.inputs, strategy=START.strategy, outcome=START.outcome, other=other)
    found = history([compared, *[set_field(START, "zero", level) for level in (0, 1, 2, 3)]])
    assert not other.outcome.whole
    found.step(-4)
    assert found.now.other.report.step_time_s > 0


def test_states_beyond_the_most_are_given_up_and_numbers_stay() -> None:
    found = history([START] * (MOST_POINTS + 7))
    assert len(found.points) == len(found.times_s) == MOST_POINTS
    assert found.dropped == 7
    assert found.dropped + found.at == MOST_POINTS + 6


def test_a_state_that_can_no_longer_be_simulated_moves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = history([START, *[set_field(START, "zero", level) for level in (1, 2, 3, 0, 1)]])

    def refuse(*_: object) -> None:
        raise InputError("no longer", key="model")

    monkeypatch.setattr("widgets.session.simulate", refuse)
    with pytest.raises(InputError, match="no longer"):
        found.step(-5)
    assert found.at == 5


def gesture(bench: Explorer, rng: random.Random) -> None:
    """One random gesture, as the page sends it; some are refused."""
    kind = rng.choice(("move", "move", "boundary", "undo", "redo", "field", "pin"))
    layers = list(rng.choice(BLOCKS))
    stages = len(bench.strategy.job.stages)
    if kind == "move":
        bench.board.send_intent("move", layers=layers, to_lane=rng.choice(bench.board.view["lanes"])["id"])
    elif kind == "boundary" and stages > 1:
        at = rng.randrange(stages - 1)
        bench.board.send_intent("move_boundary", before=at, after=at + 1, layers=rng.choice((-1, 1)))
    elif kind in ("undo", "redo"):
        bench.board.send_intent(kind)
    elif kind == "pin":
        bench.board.send_intent("pin", layers=layers, on=rng.random() < 0.3)
    else:
        key, value = rng.choice((("zero", "1"), ("zero", "0"), ("recompute", "full"), ("stages", 4)))
        bench.controls.send_intent("set", key=key, value=value)


@pytest.mark.slow
def test_five_hundred_gestures_keep_few_reports() -> None:
    async def session() -> None:
        rng = random.Random(7)
        bench = Explorer("gpt2-small", "dgx-a100", global_batch=32, session=None)
        most = 0
        for _ in range(500):
            gesture(bench, rng)
            await asyncio.sleep(0)
            most = max(most, whole(bench.history))
            assert bench.history.now.outcome.whole
        assert len(bench.history.points) > 50
        assert 1 < most <= 2 * NEAR + 1
        bench.close()

    asyncio.run(session())


# -- files --------------------------------------------------------------------------------------------

EDITS = st.lists(
    st.tuples(
        st.sampled_from(("move", "move", "pin", "lock", "field", "compare")),
        st.integers(0, 50),
        st.integers(0, 50),
    ),
    max_size=8,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, back=st.integers(0, 3), suffix=st.sampled_from((".json", ".yaml")))
def test_round_trip(edits: list[tuple[str, int, int]], back: int, suffix: str, tmp_path: Path) -> None:
    found = history([START])
    for kind, a, b in edits:
        now = found.now
        try:
            if kind == "compare":
                new = Point(
                    **{item.name: getattr(now, item.name) for item in fields(Point)} | {"other": START}
                )
            else:
                new = (
                    after(edited(now, kind, a, b), now)
                    if kind in ("move", "field")
                    else edited(now, kind, a, b)
                )
        except ExplorerError:
            continue
        found.push(new)
    found.step(-min(back, found.at))
    look = Look(searcher="auto", search_budget_s=3.5, selection=("layers.3",), expanded=("layers.1",))
    file = tmp_path / f"session{suffix}"
    write_session(Recorder().document(found, look, version="0"), file)
    session = read_session(file)
    again = restore(session)
    assert (again.at, again.remarks) == (found.at, ())
    assert again.times_s == tuple(found.times_s)
    assert session.look == look
    for old, new in zip(found.points, again.points, strict=True):
        assert new.strategy == old.strategy
        assert new.groups == old.groups
        assert new.holds == old.holds
        assert (new.note, new.maker, new.inputs.workload) == (old.note, old.maker, old.inputs.workload)
        assert new.figures == old.figures
        assert (new.other is None) == (old.other is None)
        assert not new.outcome.whole
    assert again.points[again.at].report.step_time_s == found.now.report.step_time_s


def test_a_saved_strategy_has_the_fields_of_a_strategy() -> None:
    own = {item.name: (item.type, item.default) for item in fields(JobStrategy) if item.name != "stages"}
    saved = {item.name: (item.type, item.default) for item in fields(SavedStrategy) if item.name != "stages"}
    assert saved == own


def test_neighbours_share_their_rows(tmp_path: Path) -> None:
    found = history([START])
    for number in range(60):
        found.push(move_layers(found.now, BLOCKS[4], number % 4))
    document = Recorder().document(found, Look(), version="0")
    assert len(document["states"]) == 61
    assert len(document["strategies"]) <= 8, "four placements come again and again"
    recorder = Recorder()
    assert recorder.document(found, Look(), version="0")["stages"] == document["stages"]
    assert recorder.document(found, Look(), version="0")["stages"] == document["stages"]
    write_session(document, tmp_path / "s.json")
    assert (tmp_path / "s.json").stat().st_size < 40_000
    assert [path.name for path in tmp_path.iterdir()] == ["s.json"], "no draft stays"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(schema="explorer.plan/1"), "not a session"),
        (lambda d: d.update(at=99), "no row 99"),
        (lambda d: d["states"][0].update(strategy=-1), "no row -1"),
        (lambda d: d["strategies"][0].update(stages=[77]), "no row 77"),
        (lambda d: d["states"][0].update(holds=3), "the table is empty"),
        (lambda d: d.update(extra=1), "unknown key"),
        (lambda d: d.update(states="none"), "is not valid"),
        (lambda d: d["stages"][0].update(zero=7), "unknown zero"),
        (lambda d: d["look"].update(selection=3), "is not valid"),
        (lambda d: d.pop("version"), "missing"),
    ],
)
def test_damage_is_named(change: Callable[[Any], Any], said: str, tmp_path: Path) -> None:
    document = Recorder().document(history([START]), Look(), version="0")
    change(document)
    (tmp_path / "s.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=said) as caught:
        read_session(tmp_path / "s.json")
    assert "s.json" in str(caught.value)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 4000), noise=st.binary(max_size=6))
def test_torn_files_never_raise_anything_else(cut: int, noise: bytes, tmp_path: Path) -> None:
    document = Recorder().document(history([START]), Look(), version="0")
    write_session(document, tmp_path / "s.json")
    data = (tmp_path / "s.json").read_bytes()
    (tmp_path / "torn.json").write_bytes(data[:cut] + noise + data[cut + len(noise) + 1 :])
    with suppress(InputError):  # what else it may raise fails the test
        assert restore(read_session(tmp_path / "torn.json")).points


def test_a_file_decides_no_code(tmp_path: Path) -> None:
    document = Recorder().document(history([START]), Look(), version="0")
    document["inputs"][0]["model"] = {"reference": "os:getcwd"}
    (tmp_path / "s.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="runs code"):
        restore(read_session(tmp_path / "s.json"))
    with pytest.raises(InputError, match="runs code"):
        restore(read_session(tmp_path / "s.json"), known=START.inputs)


def test_a_session_keeps_what_is_asked_of_memory(tmp_path: Path) -> None:
    sure = set_field(START, "memory_margin", "surely")
    found = history([START, sure, set_field(sure, "cluster", "hgx-h100")])
    write_session(Recorder().document(found, Look(), version="0"), tmp_path / "s.json")
    again = restore(read_session(tmp_path / "s.json"))
    assert again.remarks == ()
    margins = [{kind.memory_margin for kind in p.inputs.cluster.device_kinds} for p in again.points]
    assert margins == [{"likely"}, {"surely"}, {"surely"}]


def test_a_setting_that_no_cluster_has_is_refused(tmp_path: Path) -> None:
    document = Recorder().document(history([START]), Look(), version="0")
    document["inputs"][0]["cluster"]["settings"] = [["colour", "red"]]
    (tmp_path / "s.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match="unknown setting 'colour'"):
        restore(read_session(tmp_path / "s.json"))


def test_states_of_a_lost_model_are_left_out_and_said(tmp_path: Path) -> None:
    gone = tmp_path / "devices.yaml"
    save_cluster(START.inputs.cluster, gone)
    elsewhere = set_field(START, "cluster", str(gone))
    found = history([START, elsewhere, set_field(START, "zero", 1)], at=1)
    write_session(Recorder().document(found, Look(), version="0"), tmp_path / "s.json")
    gone.unlink()
    again = restore(read_session(tmp_path / "s.json"))
    assert len(again.points) == 2
    assert again.at == 0
    assert any("devices.yaml" in text for text in again.remarks)
    assert "1 state left out" in again.remarks


# -- a workbench --------------------------------------------------------------------------------------


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    monkeypatch.chdir(tmp_path)
    made: list[Explorer] = []

    def one(session: Any = "s.json", **more: Any) -> Explorer:
        made.append(Explorer("gpt2-small", "dgx-a100", **{"global_batch": 32, "session": session} | more))
        return made[-1]

    yield one
    for bench in made:
        bench.close()


def move(bench: Explorer, block: int = 4, lane: str = "3") -> None:
    bench.board.send_intent("move", layers=list(BLOCKS[block]), to_lane=lane)
    assert not bench.error


def names() -> set[str]:
    return {path.name for path in Path().iterdir() if not path.name.endswith(".lock")}


def test_nothing_is_written_before_something_changes(make: Made) -> None:
    bench = make()
    bench.selection = ["layers.3"]
    assert names() == set()
    move(bench)
    assert names() == {"s.json"}
    assert bench.saving.saved_s is not None


@pytest.mark.parametrize("session", [None, False, True])
def test_no_session_without_a_notebook(make: Made, session: Any) -> None:
    bench = make(session)
    move(bench)
    bench.close()
    assert names() == set()


def test_everything_comes_back(make: Made) -> None:
    bench = make()
    move(bench)
    bench.pin(BLOCKS[5])
    bench.lock_lane(0)
    bench.compare_with(bench.history.points[0])
    bench.set(zero=1)
    bench.undo()
    bench.selection = [bench.board.blocks[3]["id"]]
    bench.board.expanded = [bench.board.blocks[2]["id"]]
    bench.searcher, bench.search_budget_s = "megatron", 7.0
    before, now = len(bench.history.points), bench.history.now
    bench.close()
    again = make()
    assert "You were here" in again.tiles.view["verdict"]["text"]
    assert "5 changes" in again.tiles.view["verdict"]["text"]
    assert len(again.history.points) == 1
    again.tiles.send_intent("action", action="reopen")
    assert not again.error
    assert len(again.history.points) == before
    assert again.history.at == before - 2
    assert again.history.can_redo
    assert again.strategy == now.strategy
    assert again.history.now.holds == now.holds
    assert again.other == now.other.strategy
    assert again.selection == bench.selection
    assert again.board.expanded == bench.board.expanded
    assert (again.searcher, again.search_budget_s) == ("megatron", 7.0)
    assert again.report.step_time_s == now.report.step_time_s
    assert again.redo()
    assert names() == {"s.json"}, "it is the same session"


def test_reopen_at_once_and_by_name_of_yaml(make: Made) -> None:
    bench = make("work.yaml")
    move(bench)
    bench.close()
    again = make("work.yaml", reopen=True)
    assert again.strategy == bench.strategy
    assert "nothing" not in again.error
    assert "no session to reopen" in make("other.yaml", reopen=True).error


def test_starting_afresh_keeps_the_session_before(make: Made) -> None:
    bench = make()
    move(bench)
    bench.close()
    fresh = make()
    fresh.tiles.send_intent("action", action="start_afresh")
    move(fresh, 7, "0")
    assert names() == {"s.json", "s.earlier-1.json"}
    assert "s.earlier-1.json" in " ".join(fresh.saving.remarks)
    fresh.close()
    kept = restore(read_session(Path("s.earlier-1.json")))
    assert kept.points[-1].strategy == bench.strategy


def test_reopening_after_an_edit_loses_neither(make: Made) -> None:
    bench = make()
    move(bench)
    bench.close()
    fresh = make()
    move(fresh, 7, "0")
    edit = fresh.strategy
    fresh.reopen()
    assert fresh.strategy == bench.strategy
    files = {name: restore(read_session(Path(name))).points[-1].strategy for name in names()}
    assert sorted(files) == ["s.earlier-1.json", "s.earlier-2.json", "s.json"]
    assert edit in files.values()


def test_a_file_of_something_else_is_left_alone(make: Made) -> None:
    core.save_plan(START.plan(), START.resolved().graphs, "plan.yaml")
    text = Path("plan.yaml").read_text()
    bench = make("plan.yaml")
    assert "is not a session that can be opened" in bench.controls.notice["text"]
    move(bench)
    assert Path("plan.yaml").read_text() == text
    assert names() == {"plan.yaml", "plan-2.yaml"}
    bench.close()
    assert "1 change" in make("plan.yaml").tiles.view["verdict"]["text"]


def test_an_unreadable_one_of_ours_is_renamed(make: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "wanted", lambda: True)
    bench = make(True)
    move(bench)
    path = bench.saving.path
    assert path.parent == Path(".explorer")
    assert Path(".explorer/.gitignore").read_text() == "*\n"
    bench.close()
    path.write_text('{"schema": "explorer.ses')
    again = make(True)
    assert "unreadable-1" in again.controls.notice["text"]
    move(again)
    assert (path.parent / f"{path.stem}.unreadable-1.json").read_text() == '{"schema": "explorer.ses'
    assert len(read_session(path).states) == 2


def test_other_questions_have_other_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(places, "wanted", lambda: True)
    asked = {"model": "../odd model:x", "cluster": "a/b.yaml"}
    one = places.place(session=True, asked=asked)
    assert one == places.place(session=True, asked=dict(reversed(asked.items())))
    assert one != places.place(session=True, asked=asked | {"global_batch": 3})
    assert one.parent == Path(".explorer")
    assert one.name == Path(one.name).name
    monkeypatch.setenv(places.VARIABLE, str(tmp_path))
    assert places.place(session=True, asked=asked).parent == tmp_path
    monkeypatch.setenv(places.VARIABLE, "off")
    assert places.place(session=True, asked=asked) is None
    with pytest.raises(InputError, match="unknown kind"):
        places.place(session="s.pickle", asked=asked)


def test_notebooks_of_one_folder_have_a_file_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "wanted", lambda: True)
    monkeypatch.delenv(places.VARIABLE, raising=False)
    asked = {"model": "gpt2-small", "cluster": "dgx-a100"}
    found = []
    for told in ("", "/home/me/one.ipynb", "/home/me/two.ipynb", "/home/me/two.ipynb-jvsc-5f-1"):
        monkeypatch.setenv(places.NOTEBOOK, told)
        found.append(places.place(session=True, asked=asked))
    assert len(set(found)) == 3
    assert found[2] == found[3], "VS Code gives every kernel a number"
    assert found[1].name.startswith("one-gpt2-small-dgx-a100-")


def test_names_that_are_taken_are_said_once(make: Made) -> None:
    held = [FileLock.take(Path(name)) for name in ("s.json", "s-2.json", "s-3.json")]
    try:
        said = make().controls.notice["text"]
    finally:
        for lock in held:
            lock.release()
    assert said == "Session: s.json is in use by 3 other workbenches, so this one is saved as s-4.json."


def test_no_sessions_where_many_share_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shell:
        kernel = object()

    monkeypatch.setattr("IPython.get_ipython", Shell)
    for name in [name for name in os.environ if name.startswith("VOILA")] + ["SERVER_SOFTWARE"]:
        monkeypatch.delenv(name, raising=False)
    assert places.wanted()
    monkeypatch.setenv("SERVER_SOFTWARE", "voila/0.5.8")
    assert not places.wanted()


def test_a_cell_run_again_takes_the_file_over(make: Made) -> None:
    first = make()
    move(first)
    second = make()
    assert "1 change" in second.tiles.view["verdict"]["text"]
    second.reopen()
    move(second, 7, "0")
    assert names() == {"s.json"}
    move(first, 8, "0")
    assert names() == {"s.json", "s-2.json"}
    assert "belongs to another workbench" in first.controls.notice["text"]
    assert len(read_session(Path("s.json")).states) == 3


def test_another_kernel_has_another_file(make: Made) -> None:
    code = (
        "import sys; from pathlib import Path; from widgets.history.filelock import FileLock;"
        "lock = FileLock.take(Path('s.json')); print(lock.held, flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as other:  # fmt: skip
        assert other.stdout.readline().strip() == "True"
        bench = make()
        assert "in use by another workbench" in bench.controls.notice["text"]
        move(bench)
        assert names() == {"s-2.json"}
        other.kill()
        other.wait()
    assert FileLock.take(Path("s.json")) is not None, "a dead kernel holds nothing"


def test_what_cannot_be_written_is_said_and_the_edit_stays(make: Made, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    bench = make("file/s.json")
    bench.board.send_intent("move", layers=list(BLOCKS[4]), to_lane="3")
    assert len(bench.history.points) == 2
    assert "cannot" in bench.saving.problem
    assert bench.controls.notice["level"] == "error"
    (tmp_path / "file").unlink()
    move(bench, 5, "0")
    assert bench.saving.problem == ""
    assert len(read_session(Path("file/s.json")).states) == 3


def test_saving_waits_for_a_quiet_moment(make: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "REST_S", 0.05)
    written: list[int] = []
    write = saving.write_session

    def count(document: Any, path: Path) -> None:
        written.append(len(document["states"]))
        write(document, path)

    monkeypatch.setattr(saving, "write_session", count)

    async def session() -> None:
        bench = make()
        for number in range(6):
            move(bench, 4, str(number % 4))
            assert not written
        for _ in range(30_000):
            await asyncio.sleep(0.02)
            if written:
                break
        assert written == [len(bench.history.points)]
        move(bench, 7, "0")
        bench.close()
        assert written == [len(bench.history.points) - 1, len(bench.history.points)], (
            "closing writes the rest"
        )

    asyncio.run(session())


def test_moments_are_told_by_day() -> None:
    now = 1_700_000_000.0
    assert places.moment(now, now).startswith("at ")
    assert places.moment(now - 3 * 86_400, now).startswith("on ")
    assert "2022" in places.moment(now - 400 * 86_400, now)


@contextmanager
def kernel(folder: Path) -> Iterator[Callable[[str], str]]:
    """A real kernel, killed at the end; what a cell prints, or what went wrong in it."""
    manager = KernelManager(kernel_name="python3")
    root = str(Path(__file__).parents[2])
    manager.start_kernel(cwd=str(folder), env=os.environ | {"PYTHONPATH": root, "PYTHONWARNINGS": "ignore"})
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=600)

        def run(code: str) -> str:
            said: list[str] = []

            def hear(message: dict[str, Any]) -> None:
                content = message["content"]
                said.append(content.get("text", "") or "\n".join(content.get("traceback", ())))

            client.execute_interactive(code, output_hook=hear, timeout=600)
            return "".join(said).strip()

        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)  # killed, not asked


WAIT_UNTIL_SAVED = """
import asyncio
while e.saving.saved_s is None:
    await asyncio.sleep(0.05)
print("saved")
"""


def test_a_dead_kernel_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(places.VARIABLE, raising=False)
    cell = "from widgets import Explorer; e = Explorer('gpt2-small', 'dgx-a100', global_batch=32)"
    with kernel(tmp_path) as run:
        assert run(cell) == ""
        assert not (tmp_path / ".explorer").exists()
        assert run("e.set(zero=1); e.set(recompute='full'); print(len(e.history.points))") == "3"
        assert run(WAIT_UNTIL_SAVED) == "saved"
    with kernel(tmp_path) as run:
        assert run(cell) == ""
        assert "You were here at" in run("print(e.tiles.view['verdict']['text'])")
        assert run("e.tiles.send_intent('action', action='reopen'); print(e.error)") == ""
        assert run("print(e.strategy.job.stages[0].recompute, e.strategy.job.stages[0].zero)") == "full 1"
        assert run("print(e.undo(), e.strategy.job.stages[0].recompute)") == "True none"
