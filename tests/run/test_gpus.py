"""What is asked of GPUs before ranks start, and what is said of them when they fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from explorer.base.errors import InputError
from explorer.profiling import device_here
from explorer.run import gpus, worker
from explorer.run.instruments import available_ranks
from explorer.run.launching import guard
from explorer.run.one_rank import slice_run
from explorer.run.own import own_scale
from explorer.run.spec import RunSpec, Survey
from tests.run.programs import real

SHARED = """NCCL error in: NCCLUtils.cpp:94, unhandled system error, NCCL version 2.27.5
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
Error while creating shared memory segment /dev/shm/nccl-aBcDeF (size 33030528), error: No space left"""
GONE = """NCCL error in: NCCLUtils.cpp:94, remote process exited or there was a network error
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."""


def present(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, count: int, size: float = 8e9) -> None:
    """Pretend that a driver shows itself, and so many GPUs."""
    monkeypatch.setattr(gpus, "SIGNS", (tmp_path / "none", tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda i: SimpleNamespace(total_memory=size * (1 + i))
    )


def test_any_sign_of_a_driver_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Some containers show one of its files, some another."""
    present(monkeypatch, tmp_path, 1)
    assert gpus.count_gpus() == 1
    assert device_here() == "cuda"
    assert device_here(least=2) == "cpu"
    monkeypatch.setattr(gpus, "SIGNS", (tmp_path / "none",))
    assert gpus.count_gpus() == 0
    assert device_here() == device_here(least=0) == "cpu"


def test_ranks_are_those_of_gpus_if_there_are_several(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    present(monkeypatch, tmp_path, 3)
    assert available_ranks() == 3
    present(monkeypatch, tmp_path, 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(7)), raising=False)
    assert available_ranks() == 7


def test_room_is_that_of_gpus_if_ranks_are_on_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(own_scale, "_free_bytes", lambda: 64e9)
    present(monkeypatch, tmp_path, 2)
    assert own_scale.room_bytes(2, None) == pytest.approx(own_scale.MOST_MEMORY * 2 * 8e9)
    assert own_scale.room_bytes(3, None) == pytest.approx(own_scale.MOST_MEMORY * 64e9)  # on processors
    present(monkeypatch, tmp_path, 2, size=80e9)
    assert own_scale.room_bytes(2, None) == pytest.approx(own_scale.MOST_MEMORY * 64e9)  # drawn on the host


def test_ranks_are_on_gpus_if_each_has_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    present(monkeypatch, tmp_path, 2)
    for ranks, expected in ((1, True), (2, True), (3, False)):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", str(ranks))
        assert gpus.on_gpus("auto") == expected
        assert gpus.on_gpus("cuda")
        assert not gpus.on_gpus("cpu")


def test_kernels_run_beside_receives() -> None:
    """Ranks that only measure a machine load kernels as trainings do: that decides what memory they hold."""
    case = real("1f1b", 2, 1).case
    one = worker.gpu_settings(RunSpec(ranks=2, survey=Survey(precisions=())))
    assert one == {"NCCL_RUNTIME_CONNECT": "0"}
    several = worker.gpu_settings(RunSpec(ranks=2, cases=(case,)))
    assert several == one | {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_MODULE_LOADING": "EAGER"}


def test_an_error_of_nccl_says_why_and_is_no_echo() -> None:
    told = guard.describe(RuntimeError(SHARED))
    assert not told["echo"]
    assert told["message"].startswith("RuntimeError: NCCL error in")
    assert told["message"].endswith("(size 33030528), error: No space left")
    assert "\n" not in told["message"]


def test_an_error_of_nccl_may_be_an_echo() -> None:
    assert guard.is_echo(RuntimeError(GONE))


def test_no_memory_on_a_gpu_is_said() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.2 GiB of which 1.00"
        " GiB is free. Including non-PyTorch memory, this process has 78.0 GiB memory in use."
    )
    told = guard.describe(torch.OutOfMemoryError(text))
    assert told["memory"]
    assert told["message"].endswith("of which 1.00 GiB is free; fewer ranks or --engine likeness need less")
    assert not told["echo"]
    with (
        pytest.raises(
            InputError, match=r"does not fit.*: CUDA out of memory. Tried to allocate 2.00 GiB"
        ) as one,
        slice_run._in_room(),
    ):
        raise torch.OutOfMemoryError(text)
    assert "79.2" not in str(one.value)
    assert "a smaller microbatch" in str(one.value)
