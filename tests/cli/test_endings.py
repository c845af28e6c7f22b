"""How the program ends: interrupted at any moment, or with nowhere to write to. Never with a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import make_plan, save_plan
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

PROGRAM = [sys.executable, "-m", "explorer"]
SEARCH = ["search", "--model", "gpt2-small", "--cluster", "dgx-a100", "--searcher", "local", "--budget", "60"]
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
HOOK = '''"""Stops the start of the program in the midst of its imports, until a signal ends it."""
import sys
import time


class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "explorer.cli.main":
            print("importing", flush=True)
            time.sleep(60)


sys.meta_path.insert(0, Slow())
'''


IN_A_STRING = HOOK.replace("explorer.cli.main", "explorer.run").replace(
    "time.sleep(60)", "exec('time.sleep(60)', {'time': time})"
)
"""Stops it in a string that an import executes, as that of a module with dataclasses does."""


@pytest.fixture(autouse=True)
def signals_as_usual() -> Iterator[None]:
    """Undo what a program started here would inherit: `nohup` and a shell's `&` ignore some signals."""
    ignored = [number for number in SIGNALS if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def ended(process: subprocess.Popen[str], number: int) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_the_start_is_no_traceback(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK)
    known = os.environ.get("PYTHONPATH", "")
    process = subprocess.Popen(
        [*PROGRAM, "list", "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{known}"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    assert ended(process, number) == (128 + number, "explorer: interrupted\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_in_the_midst_of_a_string_has_the_same_status(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(IN_A_STRING)
    known = os.environ.get("PYTHONPATH", "")
    process = subprocess.Popen(
        [*PROGRAM, "validate", "nowhere.yaml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{known}"},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "importing\n"
    assert ended(process, number) == (128 + number, "explorer: interrupted\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_command_in_order(number: signal.Signals) -> None:
    process = subprocess.Popen([*PROGRAM, *SEARCH], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("explorer:"), "the search has begun"
    status, errors = ended(process, number)
    assert "Traceback" not in errors
    assert status in (128 + number, 0), "or it had just ended"


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_a_run_with_its_ranks_and_files(number: signal.Signals, tmp_path: Path) -> None:
    graph, cluster = load_model("gpt2-small"), load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=8)
    strategy = uniform(graph, cluster, workload.job, stages=2, microbatches=4)
    plan, folder = tmp_path / "plan.yaml", tmp_path / "files"
    folder.mkdir()
    made = make_plan("gpt2-small", graph, "dgx-a100", cluster, workload, strategy)
    save_plan(made, {workload.job.graph: graph}, plan)
    process = subprocess.Popen(
        [*PROGRAM, "validate", str(plan), "--engine", "dry", "--steps", "50"],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )  # fmt: skip
    assert process.stderr is not None
    assert any("round" in line for line in process.stderr), "its ranks are in their rounds"
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) > 2, "torchrun and two ranks"
    status, errors = ended(process, number)
    assert status == 128 + number
    assert errors.splitlines()[-1] == "explorer: interrupted"
    assert "Traceback" not in errors
    assert not psutil.wait_procs(family, timeout=60)[1]
    assert not list(folder.iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has this device")
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_full_disk_behind_standard_output(more: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*PROGRAM, "list", "schedules", *more],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "explorer: standard output: cannot be read or written: No space left on device"
    ]


def test_a_reader_that_has_seen_enough() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "list", "models"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_wrong_file_with_nowhere_to_say_it() -> None:
    process = subprocess.Popen(
        [*PROGRAM, "check", "nothing.yaml", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 2
    assert process.stderr is not None
    process.stderr.close()


def test_a_pin_that_is_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    from explorer.cli.main import main

    assert main([*SEARCH, "--pin", "embed=²"]) == 2
    assert "--pin embed=²" in capsys.readouterr().err


def test_torch_leaves_no_folder_among_temporary_files(tmp_path: Path) -> None:
    """It makes one when it captures a module, and never removes it."""
    temporary, kept, plan = tmp_path / "tmp", tmp_path / "cache", tmp_path / "plan.yaml"
    temporary.mkdir()
    given = {**os.environ, "TMPDIR": str(temporary), "EXPLORER_CACHE": str(kept)}
    given.pop("TORCHINDUCTOR_CACHE_DIR", None)
    sizes = [part for pair in ("layers=2", "embed=32", "heads=2", "vocab=64") for part in ("--set", pair)]
    shape = ["--stages", "2", "--microbatches", "2", "--global-batch", "2", "--seq-len", "8"]
    made = ["simulate", "--model", "gpt", "--cluster", "dgx-a100", *sizes, *shape, "-o", str(plan)]
    for command in (made, ["validate", str(plan), "--engine", "slice"]):
        subprocess.run([*PROGRAM, *command], env=given, check=True, capture_output=True)
    assert not list(temporary.iterdir())
