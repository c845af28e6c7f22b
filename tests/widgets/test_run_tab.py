"""The Run tab: a real run to its end, and what each state and verdict looks like."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from pydantic import TypeAdapter
from sample_run import comparison, slice_check

import explorer.run
from explorer.base.errors import InputError, RunError
from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.passes.static import run_static
from explorer.run.cases.likeness import SMALL
from explorer.run.instruments import ENGINES
from explorer.run.judging import compare
from explorer.run.judging.calibrate import calibrate
from explorer.run.judging.compare import TOO_NOISY, StageTime
from explorer.run.judging.cost_check import CostCheck, LayerSeconds
from explorer.run.model import transformer
from explorer.run.spec import Calibration
from tests.support import view_shapes as shapes
from widgets import Explorer
from widgets.run import slicing
from widgets.run import task as run_task
from widgets.run.calibrating import free_name
from widgets.run.doing import in_words
from widgets.run.ended import Done, SliceDone
from widgets.run.progress import Progress, progress_share
from widgets.run.slicing import SLICE, SliceHandle, SliceProgress
from widgets.run.task import Failed
from widgets.run.words import LABELS, fix_for, intro

LIMIT_S = 600
MODEL = transformer(2)


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=4)
    found.set(stages=2)
    found.set(replicas=1)
    assert not found.error
    yield found
    found.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a tiny likeness on two ranks."""
    make = explorer.run.make_experiment
    monkeypatch.setattr(
        explorer.run,
        "make_experiment",
        lambda resolved, **options: make(resolved, **options | {"size": SMALL, "ranks": 2}),
    )


def page(bench: Explorer) -> dict[str, Any]:
    """The tab's view, which always has its shape."""
    view = bench.run_panel.page.view
    TypeAdapter(shapes.RunViewShape).validate_python(view)
    return view


def calibrated() -> Any:
    units = [[0.0, 0.0], [1e-3, 2e-3], [1e-3, 2e-3], [0.0, 0.0]]
    row = {
        "units": {"1": units}, "update_s": 1e-4, "cpu_share": 0.9,
        "messages": {"4": 1e-4, "1000004": 1.1e-3}, "reduces": {"4": 2e-4, "1000000": 3e-3},
    }  # fmt: skip
    return calibrate(Calibration(model=MODEL, samples=(), optimizer="adamw"), [[row], [row]], ranks=2)


def done(bench: Explorer, *, known: Any = None, **fields: Any) -> Done:
    """A run of the state shown that ended."""
    now = bench.now()
    return Done(
        inputs=now.inputs, strategy=now.strategy, comparison=comparison(**fields), known=known, device="cpu",
        ranks=2, wall_s=20.0, at="14:02",
    )  # fmt: skip


def sliced(bench: Explorer, **fields: Any) -> SliceDone:
    """A slice of the state shown that ended."""
    now = bench.now()
    return SliceDone(
        inputs=now.inputs, strategy=now.strategy, check=slice_check(**fields), device="cpu", wall_s=41.0,
        at="14:05",
    )  # fmt: skip


def put(bench: Explorer, result: Done | SliceDone) -> None:
    task = bench.run_panel.task
    task.last, task.state = result, "done"
    bench.run_panel._changed()


# -- real runs --------------------------------------------------------------------------------------


def test_a_run_to_its_end(bench: Explorer, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes; the gauge is set so that any machine is too noisy, which is the same everywhere."""
    monkeypatch.setattr(compare, "QUIET", 2.0)
    seen: list[tuple[dict[str, Any], dict[str, Any]]] = []

    monkeypatch.setattr(run_task, "TELL_EVERY_S", 0.0)  # a quick machine is done before the next picture

    def note(_change: Any) -> None:
        if bench.run_panel.task.running:
            seen.append((bench.run_panel.verdict(), page(bench)))

    async def scenario() -> None:
        bench.run_panel.set("rounds", "1")
        bench.run_panel.page.observe(note, "view")
        bench.controls.send_intent("action", action="run")
        assert bench.tabs_title() == "Run"
        assert bench.tiles.view["verdict"]["level"] == "busy"
        for _ in range(LIMIT_S * 20):
            if not bench.run_panel.task.running:
                return
            await asyncio.sleep(0.05)

    asyncio.run(scenario())
    assert not bench.error
    assert all(verdict["level"] == "busy" for verdict, _ in seen)
    shares = [view["progress"]["share"] for _, view in seen]
    assert shares == sorted(shares)
    assert 0 < shares[-1] <= 1
    assert {row["rank"] for row in seen[-1][1]["progress"]["ranks"]} == {0, 1}
    assert {row["state"] for _, view in seen for row in view["progress"]["ranks"]} & {"computing", "waiting"}
    assert any(view["progress"]["contention"] for _, view in seen)
    rows = [row for _, view in seen for row in view["progress"]["ranks"]]
    assert any(row["memory_bytes"] for row in rows)
    assert all(row["at_s"] <= row["of_s"] for row in rows if row["at_s"] is not None)
    line = bench.run_panel.timeline
    assert line is not None
    for drawn in (line.view, line.view_b):
        TypeAdapter(shapes.TimelineView).validate_python(drawn)
    assert (line.view["name"], line.view_b["name"]) == ("predicted", "measured")
    assert [lane["name"] for lane in line.view_b["lanes"]] == ["rank 0", "rank 1"]
    verdict, view = bench.tiles.view["verdict"], page(bench)
    assert verdict["level"] == "warn"
    assert verdict["text"].startswith("**No verdict, machine too busy: the ranks got ")
    assert view["state"] == "done"
    assert view["note"].startswith("likeness on 2 ranks (processors)")
    result = view["result"]
    assert [row["name"] for row in result["rows"]] == [
        "compute", "communication", "bubble", "overhead", "step time", "speedup over data parallel"
    ]  # fmt: skip
    assert [item["name"] for item in result["stages"]] == ["0", "1"]
    assert all(item["measured_s"] > 0 for item in result["stages"])
    assert "stages: 2" in result["validated"]
    assert "precision: bf16 in the plan, fp32 here: stand-ins compute in fp32" in result["not_validated"]
    assert result["checks"][0]["ok"] is True, "gradients"
    assert not view["calibration"]["possible"]
    assert "too busy" in view["calibration"]["text"]
    buttons = {button["action"]: button["enabled"] for button in bench.controls.view["buttons"]}
    assert buttons["run"]
    assert "stop" not in buttons, "there is nothing to stop"
    bench.set(global_batch=8)
    assert "busy" not in bench.tiles.view["verdict"]["text"], "a verdict is of the state that was run"
    assert "Of another strategy" in page(bench)["result"]["old"], "former results stay and say they are old"
    bench.undo()
    assert page(bench)["result"]["old"] is None


def test_stop_ends_every_rank_and_keeps_the_former_result(bench: Explorer, small: None) -> None:
    pids: list[int] = []
    put(bench, done(bench))

    async def scenario() -> None:
        bench.controls.send_intent("action", action="run")
        handle = bench.run_panel.task._handle
        assert handle is not None
        for _ in range(LIMIT_S * 20):
            if handle._pids:
                break
            await asyncio.sleep(0.05)
        pids.extend([handle.process.pid, *handle._pids.values()])
        bench.run_panel.controls.send_intent("action", action="stop")
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))
    assert page(bench)["state"] == "stopped", "said at once"
    bench.run_panel.task.wait()
    # One look at all processes: one that is asked about twice may end in between.
    states = {p.pid: p.info["status"] for p in psutil.process_iter(["status"])}
    alive = [p for p in pids if states.get(p, psutil.STATUS_ZOMBIE) != psutil.STATUS_ZOMBIE]
    assert not alive
    view = page(bench)
    assert view["state"] == "stopped"
    assert view["progress"] is None
    assert view["result"] is not None
    assert "Running" not in bench.tiles.view["verdict"]["text"]


SMALL_MODEL = """
import torch
from torch import nn

def make():
    blocks = [nn.Sequential(nn.Linear(32, 32), nn.GELU()) for _ in range(4)]
    return nn.Sequential(*blocks), (torch.zeros(1, 32),)
"""


@pytest.mark.slow
def test_a_slice_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One rank of a user's own module, found by a reference relative to the folder of the kernel."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.py").write_text(SMALL_MODEL, encoding="utf-8")
    bench = Explorer("small.py:make", "dgx-a100", global_batch=4)
    said: list[str] = []

    async def scenario() -> None:
        bench.set(stages=2)
        bench.set(replicas=1)
        assert not bench.error
        bench.run_panel.set("engine", SLICE)
        bench.controls.send_intent("action", action="run")
        for _ in range(LIMIT_S * 20):
            if not bench.run_panel.task.running:
                return
            said.append(page(bench)["progress"]["phase"])
            await asyncio.sleep(0.05)

    try:
        asyncio.run(scenario())
        assert page(bench)["failure"] is None
        assert len(set(said)) > 1, "it tells what it does"
        done = bench.run_panel.task.last
        assert isinstance(done, SliceDone)
        assert {item.action[0] for item in done.check.actions} == set("FBU")
        assert page(bench)["note"].startswith("slice: rank ")
        handle = bench.run_panel.task._handle
        assert isinstance(handle, SliceHandle)
        assert not handle.folder.exists()
    finally:
        bench.close()


@pytest.mark.parametrize(
    ("script", "text"),
    [
        (
            'import sys; print(\'{"error": {"message": "no", "allowed": "x"}}\'); sys.exit(2)',
            "no; allowed: x",
        ),
        (
            "import sys; print('explorer: counting', file=sys.stderr); sys.exit(3)",
            "the run ended with 3 while counting",
        ),
        ("1 / 0", "the run ended with 1: ZeroDivisionError: division by zero"),
        ("import os; os.kill(os.getpid(), 9)", "the run was ended by signal 9"),
    ],
)
def test_a_slice_that_fails_says_why(
    bench: Explorer, monkeypatch: pytest.MonkeyPatch, script: str, text: str
) -> None:
    monkeypatch.setattr(slicing, "command", lambda: [sys.executable, "-c", script])
    handle = SliceHandle(bench.now().resolved())
    told = []
    while not handle.done:
        told += handle.poll()
    with pytest.raises(RunError, match=text):
        handle.result()
    assert told == (["counting"] if "counting" in text else [])
    assert not handle.folder.exists()


def test_stop_ends_a_slice(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicing, "command", lambda: [sys.executable, "-c", "import time; time.sleep(600)"])
    handle = SliceHandle(bench.now().resolved())
    assert handle.poll() == []
    handle.stop()
    assert handle.done
    assert handle.process.poll() is not None
    assert not handle.folder.exists()
    with pytest.raises(RunError, match="stopped"):
        handle.result()


def test_a_slice_tells_how_far_it_is() -> None:
    now = [0.0]
    found = SliceProgress(expected_s=40.0, clock=lambda: now[0])
    assert (found.left_s, found.phase) == (40.0, "Starting")
    now[0] = 60.0
    found.note("timing every layer by itself")
    assert found.phase == "Timing every layer by itself"
    assert found.left_s == pytest.approx(60.0), "half of it took a minute"


# -- states -----------------------------------------------------------------------------------------


def test_before_any_run_it_says_what_it_would_do(bench: Explorer) -> None:
    view = page(bench)
    assert view["state"] == "none"
    assert "model's own layers" in view["intro"][0]
    assert "about 55 s" in view["intro"][-1]
    bench.run_panel.set("engine", "likeness")
    assert "small likeness" in page(bench)["intro"][0]
    assert "about 25 s" in page(bench)["intro"][-1]
    bench.run_panel.set("engine", "dry")
    assert "sleeps in place of computing" in page(bench)["intro"][0]
    assert bench.run_panel.rounds == 1
    assert "min" in intro("dry", 200.0)[-1]


def test_every_registered_engine_is_offered(bench: Explorer) -> None:
    kinds, *_ = bench.run_panel.controls.view["fields"]
    assert [item["value"] for item in kinds["options"]] == [*ENGINES, SLICE]
    assert set(LABELS) == {*ENGINES, SLICE}
    texts = set()
    for name in (*ENGINES, SLICE):
        bench.run_panel.set("engine", name)
        texts.add(page(bench)["intro"][0])
        fields = {field["key"] for field in bench.run_panel.controls.view["fields"]}
        assert ("rounds" in fields) is (name != SLICE), "one rank is timed action by action"
    assert any("own layers" in text for text in texts)
    assert any("busiest rank" in text for text in texts)


def test_wrong_fields_are_said_where_they_are(bench: Explorer) -> None:
    bench.run_panel.controls.send_intent("set", key="rounds", value="many")
    field = bench.run_panel.controls.view["fields"][1]
    assert field["error"] == ">= 1"
    assert field["value"] == "many"
    assert bench.run_panel.rounds == 3
    bench.run_panel.controls.send_intent("set", key="engine", value="magic")
    assert "magic" in bench.error
    assert bench.run_panel.engine == "layers"


def test_a_graph_without_code_gets_stand_ins_and_it_says_why() -> None:
    bench = Explorer("alexnet", "pipedream-a", global_batch=64)
    assert bench.run_panel.engine == "likeness"
    assert bench.run_panel.controls.view["fields"][0]["value"] == "likeness"
    assert "no layers of its own" in page(bench)["intro"][-2]
    bench.set(model="gpt2-small")
    assert bench.run_panel.engine == "layers"
    assert bench.run_panel.controls.view["fields"][0]["value"] == "layers", "the tab is drawn for it"
    bench.run_panel.set("engine", "likeness")
    assert not any("Own layers cannot" in text for text in page(bench)["intro"]), "they were chosen"
    bench.close()


def test_a_plan_that_cannot_be_run_is_said_and_former_results_stay(
    bench: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bench, done(bench))

    def refuse(*_: Any, **__: Any) -> None:
        raise InputError("a layer cut into slices cannot be run yet", key="slices", allowed="whole layers")

    monkeypatch.setattr(explorer.run, "make_experiment", refuse)
    bench.controls.send_intent("action", action="run")
    view = page(bench)
    assert view["state"] == "failed"
    assert "whole layers" in view["failure"]["text"]
    assert view["failure"]["rank"] is None
    assert view["result"] is not None
    assert "slices" in bench.error


@pytest.mark.parametrize(
    ("message", "log", "action"),
    [
        ("rank 1 was killed by SIGKILL; the system does that when memory runs out", "", "run_dry"),
        ("the ranks did not start (torchrun ended with 1): x", "No module named 'torch'", "run"),
        ("rank 0 stands still: 0F3 for 30 s", "", "run"),
        ("rank 1 failed at 0B1: ValueError: x", "Traceback", "run_dry"),
    ],
)
def test_every_failure_has_a_way_out(bench: Explorer, message: str, log: str, action: str) -> None:
    task = bench.run_panel.task
    handle: Any = SimpleNamespace(log=lambda: "", stop=lambda: None)
    task._fail(handle, RunError(message, rank=1, log=log))
    bench.run_panel.draw()
    failure = page(bench)["failure"]
    assert failure["text"] == message
    assert failure["action"] == action
    assert failure["action"] in bench.gestures._actions
    assert failure["log"] == log
    verdict = bench.run_panel.verdict()
    assert verdict is not None
    assert (verdict["level"], verdict["actions"][0]["action"]) == ("bad", action)
    assert task.failure is not None
    assert fix_for(task.failure, "dry").action == "run", "a dry run is no way out of a dry run"


def test_a_dry_run_that_is_killed_does_not_advise_a_dry_run() -> None:
    text = "rank 1 was killed by SIGKILL; the system does that when memory runs out"
    killed = Failed(rank=1, text=text, log="")
    assert fix_for(killed, "likeness").action == "run_dry"
    assert fix_for(killed, "dry").action == "run"
    assert fix_for(killed, "dry").text.startswith("Memory ran out"), "the log says nothing of it"


# -- progress ---------------------------------------------------------------------------------------


def progress(now: list[float], *, rounds: int = 2) -> Progress:
    cases = [
        SimpleNamespace(name=name, once=name == "numerics", engine="torch")
        for name in ("numerics", "strategy", "baseline")
    ]
    spec: Any = SimpleNamespace(cases=cases, warmup_rounds=2, rounds=rounds, ranks=2)
    return Progress(spec, expected_s=30.0, starts_s=10.0, clock=lambda: now[0])


def test_progress_counts_rounds_that_warm_up_and_cases() -> None:
    spec = progress([0.0]).spec
    events = [
        {"event": "round", "number": -2},
        {"event": "case", "name": "strategy", "round": -2},
        {"event": "round", "number": 0},
        {"event": "case", "name": "baseline", "round": 1},
    ]
    assert [progress_share(event, spec) for event in events] == [0, 0.125, 0.5, 1]
    assert progress_share({"event": "case", "name": "numerics", "round": -1}, spec) is None
    assert progress_share({"event": "ready"}, spec) is None


def test_time_left_is_first_expected_then_by_the_pace_of_rounds() -> None:
    now = [0.0]
    found = progress(now)
    assert found.left_s == 30.0
    now[0] = 3.0
    assert found.left_s == pytest.approx(27.0)
    for rank in (0, 1):
        found.note({"event": "round", "rank": rank, "number": -2})
    now[0] = 7.0
    found.note({"event": "round", "rank": 0, "number": -1})
    assert found.left_s == pytest.approx(12.0), "a quarter took four seconds"
    assert found.round_s == pytest.approx(4.0)
    now[0] = 10.0
    assert found.left_s == pytest.approx(9.0), "it counts down between two quarters"
    now[0] = 15.0
    assert found.left_s == pytest.approx(8.0), "the second quarter is late: the other two are still to come"
    found.note({"event": "round", "rank": 0, "number": 0})
    assert found.left_s == pytest.approx(12.0), "now both took six seconds"


def test_what_was_announced_is_corrected_by_how_the_start_goes() -> None:
    now = [0.0]
    found = progress(now)
    now[0] = 7.0
    assert found.left_s == pytest.approx(53.0), "nobody has started, and it was to take 3.5 s: twice as slow"
    for rank in (0, 1):
        found.note({"event": "start", "rank": rank, "pid": 0})
    assert found.left_s == pytest.approx(53.0)
    now[0] = 10.5
    for rank in (0, 1):
        found.note({"event": "ready", "rank": rank, "device": "cpu", "name": "cpu"})
    assert found.left_s == pytest.approx(34.5), "it has caught up: half as long again as expected"
    now[0] = 60.0
    assert found.left_s == pytest.approx(120.0), "and falls behind: it never ends before it is over"


def test_how_far_a_rank_is_is_told_in_predicted_seconds(bench: Explorer) -> None:
    spec = explorer.run.make_experiment(bench.now().resolved(), engine="dry", rounds=1).spec
    found = Progress(spec, expected_s=30.0, starts_s=10.0, clock=lambda: 0.0)
    case = spec.cases[0]
    program = case.lowered()
    timing = run_static(program, np.array(case.seconds))
    tasks = program.programs[1].tolist()
    names = {task: str(program.actions[int(program.action[task])]) for task in tasks}
    first = names[tasks[0]]
    pages: Any = [SimpleNamespace(state=0, text=""), SimpleNamespace(state=1, text=first)]
    found.look(pages)
    assert found.rows[1].at_s is None, "before the rounds nothing of it runs"
    for rank in (0, 1):
        found.note({"event": "round", "rank": rank, "number": 0})
    found.look(pages)
    assert found.rows[0].at_s is None
    assert found.rows[1].at_s == pytest.approx(timing.start_s[tasks[0]])
    assert found.rows[1].of_s == pytest.approx(timing.end_s.max())
    found.note({"event": "step", "rank": 1, "case": "dry", "step": 0})
    later = next(task for task in tasks if program.step[task] == 1)
    pages[1] = SimpleNamespace(state=2, text=f"{names[later]} waits for rank 0")
    found.look(pages)
    assert found.rows[1].at_s == pytest.approx(timing.start_s[later]), "of the next step"
    found.note({"event": "case", "rank": 1, "name": "dry", "round": 0})
    found.look(pages)
    assert found.rows[1].at_s is None


def test_memory_is_what_the_process_holds() -> None:
    found = progress([0.0])
    found.note({"event": "start", "rank": 0, "pid": os.getpid()})
    found.note({"event": "start", "rank": 1, "pid": 2**22 + 1})
    pages: Any = [SimpleNamespace(state=1, text="0F3")] * 2
    found.look(pages)
    held, gone = (row.memory_bytes for row in found.rows)
    assert held == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert gone is None


def test_rows_follow_the_ranks() -> None:
    now = [0.0]
    found = progress(now)
    assert found.phase == "Starting the ranks"
    found.note({"event": "ready", "rank": 0, "device": "cpu", "name": "cpu"})
    pages: Any = [SimpleNamespace(state=1, text="0F3"), SimpleNamespace(state=2, text="1F0 waits for rank 0")]
    found.look(pages)
    assert [(row.state, row.doing) for row in found.rows] == [
        ("computing", "0F3"),
        ("waiting", "1F0 waits for rank 0"),
    ]
    assert found.phase == "Checking the gradients"
    for text, said in (("calibration", "layers and messages"), ("measuring product fp32", "this machine")):
        found.look([SimpleNamespace(state=2, text=text), pages[1]])
        assert found.rows[0].state == "computing", "it is timed, it does not wait"
        assert found.rows[0].doing == f"timing {said}"
    found.note({"event": "step", "rank": 0, "case": "strategy", "step": 0})
    now[0] = 0.4
    found.note({"event": "step", "rank": 0, "case": "strategy", "step": 1})
    assert found.rows[0].step_s == pytest.approx(0.4)
    found.note({"event": "load", "rank": 0, "share": 0.95, "round": 0})
    found.note({"event": "load", "rank": 1, "share": 0.6, "round": 0})
    assert found.contention == 0.6
    found.note({"event": "fault", "rank": 1, "message": "x"})
    found.look(pages)
    assert found.rows[1].state == "failed"


def test_announcements_are_seldom() -> None:
    now = [0.0]
    found = progress(now, rounds=50)
    said = []
    for number in range(50):
        now[0] = number * 1.0
        for rank in (0, 1):
            found.note({"event": "round", "rank": rank, "number": number})
        said.append(found.said())
    changes = sum(a != b for a, b in pairwise(said))
    assert 5 <= changes <= 10
    assert said[-1].startswith("Round ")


# -- what other views are told ----------------------------------------------------------------------


def test_a_likeness_gives_errors_by_layer_and_no_seconds(bench: Explorer) -> None:
    times = [
        StageTime(stages=(0,), predicted_s=1.1, measured_s=1.0),
        StageTime(stages=(1,), predicted_s=0.9, measured_s=1.0),
    ]
    put(bench, done(bench, known=calibrated(), stages=times))
    panel, now = bench.run_panel, bench.now()
    assert panel.measured(now) is None
    errors = panel.errors(now)
    assert errors is not None
    stages = now.strategy.job.stages
    assert set(errors) == {name for stage in stages for name in stage.all_layers}
    assert errors[stages[0].layers[0]] == pytest.approx(0.1)
    assert errors[stages[1].layers[-1]] == pytest.approx(-0.1)
    bench.set(stages=4)
    assert panel.errors(bench.now()) is None
    bench.undo()
    put(bench, done(bench, known=calibrated(), stages=times, verdict=TOO_NOISY))
    assert panel.errors(bench.now()) is None


def test_a_slice_gives_errors_layer_by_layer(bench: Explorer) -> None:
    now = bench.now()
    first, other = now.strategy.job.stages[0].layers[:2]
    layers = [
        LayerSeconds(layer=first, samples=1, predicted_s=(1.0, 2.0), measured_s=(1.0, 1.0)),
        LayerSeconds(layer=other, samples=1, predicted_s=(0.0, 0.0), measured_s=(1.0, 1.0)),
        LayerSeconds(layer="elsewhere", samples=1, predicted_s=(1.0, 1.0), measured_s=(1.0, 1.0)),
    ]
    put(bench, sliced(bench, layers=layers))
    assert bench.run_panel.errors(now) == {first: 0.5}
    nodes = [node for node in bench.graph.view["nodes"] if node["error"] is not None]
    assert nodes
    assert bench.graph.view["no_errors"] is None
    view = page(bench)
    assert view["result"]["errors"]
    assert view["result"]["layers"][0] == {
        "name": first, "predicted_s": 3.0, "measured_s": 2.0, "error": 0.5
    }  # fmt: skip
    assert [row["name"] for row in view["result"]["rows"]][-2:] == ["all its actions", "peak of tensors"]
    assert view["calibration"] is None
    bench.run_panel.page.send_intent("action", action="show_errors")
    assert bench.graph.colour == "error"
    verdict = bench.run_panel.verdict()
    assert verdict is not None
    assert verdict["text"].startswith("**The costs are confirmed.**")
    bench.set(stages=4)
    assert bench.run_panel.errors(bench.now()) is None
    assert not page(bench)["result"]["errors"]
    assert "Of another strategy" in page(bench)["result"]["old"]


def test_without_a_profile_a_slice_has_no_errors(bench: Explorer) -> None:
    missing: dict[str, Any] = {
        "layers": [], "predicted_s": None, "error_pct": None, "verdict": "",
        "costs_missing": "there is no profile of this machine yet: `explorer profile` makes one",
    }  # fmt: skip
    put(bench, sliced(bench, **missing))
    assert bench.graph.view["no_errors"] == "no profile of this machine"
    view = page(bench)["result"]
    assert "`explorer profile`" in view["verdict"]["text"]
    assert not view["errors"]


def test_own_layers_give_errors_layer_by_layer(bench: Explorer) -> None:
    name = bench.now().strategy.job.stages[0].layers[0]
    costs = CostCheck(
        profile="this machine", clock="processor", predicted={"compute_s": 1.0},
        measured={"compute_s": 1.0}, error_pct=0.0, step_error_pct=0.0, verdict="confirmed",
        layers=[LayerSeconds(layer=name, samples=1, predicted_s=(1.0, 2.0), measured_s=(2.0, 2.0))],
    )  # fmt: skip
    put(bench, done(bench, engine="layers", costs=costs, verdict=TOO_NOISY))
    assert bench.run_panel.errors(bench.now()) == {name: -0.25}
    assert page(bench)["result"]["layers"][0]["name"] == name
    put(bench, done(bench, engine="likeness", costs=costs, verdict=TOO_NOISY))
    assert bench.run_panel.errors(bench.now()) is None, "its layers are stand-ins"
    assert bench.graph.view["no_errors"] == "machine was too busy"


def test_a_dry_run_gives_the_tiles_what_it_measured(bench: Explorer) -> None:
    step = bench.now().report.step_time_s
    dry: dict[str, Any] = {
        "engine": "dry", "stages": [], "numerics_ok": None, "not_validated": ["seconds of compute"],
        "predicted": {"step_time_s": step, "speedup": None},
        "measured": {"step_time_s": 1.1 * step, "speedup": None, "iqr_s": 0.0},
        "parts": {"predicted": {}, "measured": {"compute": 3.0, "bubble": 1.0}},
    }  # fmt: skip
    put(bench, done(bench, **dry))
    panel = bench.run_panel
    found = panel.measured(bench.now())
    assert found is not None
    assert found["step_time"] == pytest.approx(1.1 * step)
    assert found["bubble"] == 0.25
    assert not panel.old(bench.now())
    bench.set(stages=4)
    assert panel.old(bench.now())
    assert panel.measured(bench.now()) == found, "old ones stay on the tiles"
    bench.set(cluster="dgx-1-v100")
    assert panel.measured(bench.now()) is None, "other devices"
    bench.undo()
    bench.undo()
    fewer = dry | {"not_validated": ["replicas: 8 in the plan, 2 here"]}
    put(bench, done(bench, **fewer))
    assert panel.measured(bench.now()) is None
    put(bench, done(bench, **dry | {"predicted": {"step_time_s": 2 * step, "speedup": None}}))
    assert panel.measured(bench.now()) is None, "another definition of the step"


# -- calibration ------------------------------------------------------------------------------------


def cpu_file(folder: Path) -> Path:
    kind = DeviceKind(
        name="cpu", memory_bytes=64e9, memory_bandwidth_bytes_per_s=2e10, peak_flops_per_s=(("fp32", 5e11),)
    )
    level = Level(name="host", kind="shared_memory", scope="all", latency_s=1e-5, bandwidth_bytes_per_s=9e9)
    group = NodeGroup(count=1, device_kind="cpu", devices_per_node=2)
    path = folder / "two-cpus.yaml"
    save_cluster(Cluster(name="two-cpus", device_kinds=(kind,), nodes=(group,), levels=(level,)), path)
    return path


def test_accelerators_are_not_calibrated_by_processors(bench: Explorer) -> None:
    put(bench, done(bench, known=calibrated()))
    view = page(bench)["calibration"]
    assert not view["possible"]
    assert "a100-sxm-80gb" in view["text"]
    before = bench.now()
    bench.run_panel.page.send_intent("action", action="calibrate")
    assert "a100-sxm-80gb" in bench.error
    assert bench.now() is before


def test_calibrating_is_an_edit_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bench = Explorer("gpt2-small", str(cpu_file(tmp_path)), global_batch=4, precision="fp32")
    assert not bench.error
    try:
        put(bench, done(bench, known=calibrated()))
        before = bench.now()
        view = page(bench)["calibration"]
        assert view["possible"]
        assert {row["what"] for row in view["changes"]} >= {"host", "host latency", "matmul", "memory"}
        assert "two-cpus-calibrated.yaml" in view["text"]
        assert not (tmp_path / "two-cpus-calibrated.yaml").exists(), "nothing is done before it is pressed"
        bench.run_panel.page.send_intent("action", action="calibrate")
        assert not bench.error
        now = bench.now()
        assert now.inputs.cluster.name == "two-cpus calibrated"
        assert bench.cluster == "two-cpus-calibrated.yaml"
        assert now.strategy == before.strategy
        assert now.report.step_time_s == view["step_s"]
        assert load_cluster(tmp_path / "two-cpus-calibrated.yaml") == now.inputs.cluster
        bench.undo()
        assert bench.now() is before
        bench.run_panel.page.send_intent("action", action="calibrate")
        assert bench.cluster == "two-cpus-calibrated.yaml", "the file holds this very cluster"
    finally:
        bench.close()


def test_a_run_that_was_too_noisy_calibrates_nothing(bench: Explorer) -> None:
    put(bench, done(bench, known=calibrated(), verdict=TOO_NOISY))
    assert "too busy" in page(bench)["calibration"]["text"]


def test_a_dry_run_calibrates_nothing(bench: Explorer) -> None:
    put(bench, done(bench, engine="dry"))
    assert page(bench)["calibration"] is None
    bench.run_panel.page.send_intent("action", action="calibrate")
    assert "nothing was measured" in bench.error


def test_no_file_of_somebody_else_is_overwritten(tmp_path: Path) -> None:
    cluster = load_cluster(cpu_file(tmp_path))
    assert free_name(cluster, tmp_path) == "two-cpus.yaml"
    other = replace(cluster, title="another")
    assert free_name(other, tmp_path) == "two-cpus-2.yaml"
    (tmp_path / "two-cpus-2.yaml").write_text("my notes", encoding="utf-8")
    assert free_name(other, tmp_path) == "two-cpus-3.yaml"
    assert free_name(replace(other, name="../x y"), tmp_path) == "x-y.yaml"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0F6", "forward of microbatch 6"),
        ("1B0 waits for rank 2", "backward of microbatch 0 waits for rank 2"),
        (
            "0W4-5 waits for its reduction",
            "gradients of weights of microbatches 4 to 5 waits for its reduction",
        ),
        ("3F2~1", "forward of microbatch 2, copy 1"),
        ("1U8-11", "update, stage 1"),
        ("the start of strategy", "the start of strategy"),
        ("", ""),
    ],
)
def test_actions_are_said_in_words(text: str, words: str) -> None:
    assert in_words(text) == words
