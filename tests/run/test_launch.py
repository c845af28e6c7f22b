"""Faults, ends and leftovers: whatever happens to a rank, one clear error and no process left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from explorer.base.errors import RunError
from explorer.run import worker
from explorer.run.launching.guard import describe
from explorer.run.launching.launch import RunHandle, environment, start
from explorer.run.launching.leftovers import LAUNCHER, ROOM_BYTES, UNSIGNED_S, new_folder, sweep
from explorer.run.spec import Fault, RunSpec
from tests.run.programs import dry

ROOT = Path(__file__).parents[2]
CASE = dry("1f1b", 2, microbatches=4, seconds=0.01).case
LONG = dry("1f1b", 2, microbatches=400, seconds=0.05).case


def left_over(folder: Path | str) -> list[list[str]]:
    """Command lines of processes that name a run's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(folder) in part for part in line):
            found.append(line)
    return found


def wait_until_gone(folder: Path | str, limit_s: float = 120.0) -> list[list[str]]:
    end = time.monotonic() + limit_s
    while (found := left_over(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("raise", r"rank 1 failed at 1F1: FaultError: injected fault"),
        pytest.param("exit", r"rank 1 left with exit status 3 during 1F1", marks=pytest.mark.slow),
        ("kill", r"rank 1 was killed by SIGKILL.* during 1F1"),
        pytest.param("memory", r"rank 1 failed at 1F1 \(out of memory\)", marks=pytest.mark.slow),
        ("hang", r"rank 1 stands still: 1F1 for .*predicted 0\.01 s"),
        pytest.param("stop", r"rank 1 stands still: 1F1 for", marks=pytest.mark.slow),
    ],
)
def test_a_fault_is_one_error_of_that_rank(kind: str, said: str) -> None:
    fault = Fault(rank=1, kind=kind, action=2)
    handle = start(RunSpec(ranks=2, cases=(CASE,), faults=(fault,), patience_s=2.0))
    for _ in handle.events():
        pass
    with pytest.raises(RunError, match=said) as caught:
        handle.result()
    assert caught.value.rank == 1
    assert handle.done
    assert handle.poll() == []
    assert not left_over(handle.folder)
    assert not handle.folder.exists()


def until_working(handle: RunHandle) -> None:
    for event in handle.events():
        if event["event"] == "round":
            return


def test_stop_midway_through_the_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def watch() -> list[str]:
        names = []
        async for event in handle.stream():
            names.append(event["event"])
            if event["event"] == "round":
                handle.stop()
        return names

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    handle = start(RunSpec(ranks=2, cases=(LONG,)))
    names = asyncio.run(watch())
    assert handle.folder.parent == tmp_path
    assert not list(tmp_path.iterdir()), "torchrun's own temporary files went with the folder"
    assert {"start", "ready", "round"} <= set(names)
    assert not left_over(handle.folder)
    handle.stop()  # twice is no harm
    with pytest.raises(RunError, match="stopped"):
        handle.result()


PARENT = """
import sys, time
from explorer.run.launching.launch import start
from explorer.run.spec import RunSpec
from tests.run.test_launch import LONG
handle = start(RunSpec(ranks=2, cases=(LONG,)))
for event in handle.events():
    if event["event"] == "round":
        print(handle.folder, flush=True)
"""


def test_ranks_end_with_their_launcher() -> None:
    """A closed notebook: nothing of it is asked, and nothing of it stays."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
    ) as parent:
        assert parent.stdout is not None
        folder = parent.stdout.readline().strip()
        assert folder
        assert left_over(folder)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert not wait_until_gone(folder)
    end = time.monotonic() + 60
    while Path(folder).exists() and time.monotonic() < end:
        time.sleep(0.1)
    assert not Path(folder).exists()


def test_an_agent_that_dies_takes_its_ranks_along() -> None:
    handle = start(RunSpec(ranks=2, cases=(LONG,)))
    until_working(handle)
    handle.process.kill()
    for _ in handle.events():
        pass
    assert isinstance(handle.error, RunError)
    assert not wait_until_gone(handle.folder)


def test_a_library_that_fails_for_want_of_memory_is_out_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever words it finds for it."""
    error = RuntimeError("could not create a primitive")
    assert not describe(error)["memory"]
    used = psutil.Process().memory_info().vms
    monkeypatch.setattr("resource.getrlimit", lambda _what: (used, used))
    assert describe(error)["memory"]
    monkeypatch.setattr("resource.getrlimit", lambda _what: (2 * used, 2 * used))
    assert not describe(error)["memory"]


def test_an_agent_that_is_stopped_while_ranks_connect_is_the_cause() -> None:
    """They have begun, but find each other by its store."""
    handle = start(RunSpec(ranks=2, cases=(LONG,), patience_s=2.0))
    for _ in handle.events():
        if len(handle._pids) == handle.spec.ranks:
            handle.process.send_signal(signal.SIGSTOP)
            break
    for _ in handle.events():
        pass
    if handle.error is None:
        pytest.skip("the ranks had found each other before")
    assert str(handle.error).startswith("torchrun is stopped by a signal")
    assert not handle.folder.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_agent_that_is_asked_to_end_is_the_cause(number: signal.Signals) -> None:
    """Its ranks end with it, and say so; they are not to blame."""
    handle = start(RunSpec(ranks=2, cases=(LONG,)))
    until_working(handle)
    handle.process.send_signal(number)
    for _ in handle.events():
        pass
    with pytest.raises(RunError, match=f"torchrun was ended by {number.name}"):
        handle.result()
    assert not handle.folder.exists()


@pytest.mark.parametrize("free", [0, 28 * 2**10, ROOM_BYTES - 1])
def test_no_run_starts_on_a_disk_that_its_results_would_not_fit(
    free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(RunError, match=f"no space for a run: {free // 1024} KiB free .* set TMPDIR"):
        start(RunSpec(ranks=2, cases=(LONG,)))
    assert not list(tmp_path.iterdir())


def test_the_next_run_removes_what_a_killed_launcher_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what runs of living launchers, of other hosts and of strangers need."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine, gone, elsewhere, unsigned, old = (new_folder() for _ in range(5))
    about = json.loads((mine / LAUNCHER).read_text())
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (gone / LAUNCHER).write_text(json.dumps(about | {"pid": dead.pid}))
    (elsewhere / LAUNCHER).write_text(json.dumps(about | {"pid": dead.pid, "place": "another host"}))
    for folder in (unsigned, old):
        (folder / LAUNCHER).unlink()
    long_ago = time.time() - 2 * UNSIGNED_S
    os.utime(old, (long_ago, long_ago))
    (tmp_path / "explorer-run-link").symlink_to(gone, target_is_directory=True)
    (tmp_path / "unrelated").mkdir()
    assert sorted(sweep()) == sorted([gone, old])
    kept = {mine.name, elsewhere.name, unsigned.name, "explorer-run-link", "unrelated"}
    assert {path.name for path in tmp_path.iterdir()} == kept
    assert sweep(tmp_path / "missing") == []


def test_ranks_find_this_package_first() -> None:
    first = Path(environment()["PYTHONPATH"].partition(os.pathsep)[0])
    assert first / "explorer" / "run" / "worker.py" == Path(worker.__file__)
