"""Clocks are read, and tasks begin, when what a rank waited for has come: on GPUs a call only begins it."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from explorer.run.ranks import clocks, interpreter
from explorer.run.ranks.calibration_timing import Stopwatch
from explorer.run.ranks.plain_fp32 import allow_tf32, plain_fp32
from explorer.run.sharded import mesh
from explorer.run.spec import Calibration
from tests.run import threads
from tests.run.programs import MODEL, real

GPU = torch.device("cuda", 0)


def test_a_rank_waits_for_its_own_stream_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """On others lie receives of messages that come only after this rank has sent its own."""
    waited = list[torch.device]()
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda at: SimpleNamespace(synchronize=lambda: waited.append(at))
    )
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: pytest.fail("waits for every stream"))
    clocks.settle(GPU)
    assert waited == [GPU]
    clocks.settle(torch.device("cpu"))
    assert waited == [GPU]


def test_tasks_begin_when_messages_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a task waits for (w) is settled (s) before the clocks of its start and end (c) are read."""
    seen: dict[int, str] = defaultdict(str)

    def note(letter: str) -> None:
        seen[threading.get_ident()] += letter

    def noted(wait: Callable[[], None]) -> threads.Later:
        return later(lambda: (wait(), note("w"))[0])

    def clock(_device: torch.device) -> float:
        note("c")
        return 0.0

    later = threads.Later
    monkeypatch.setattr(threads, "Later", noted)
    monkeypatch.setattr(interpreter, "settle", lambda _device: note("s"))
    monkeypatch.setattr(interpreter, "worked_s", clock)
    threads.on_threads(real("1f1b", 2, 2))
    assert len(seen) == 4
    assert all(re.fullmatch("(w*scc)+w*s", text) and "w" in text for text in seen.values()), seen


def test_the_share_of_a_core_says_nothing_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread of autograd works there beside the rank's own, which sleeps."""
    assert clocks.worked_s(torch.device("cpu")) <= time.thread_time()
    transport = SimpleNamespace(
        ranks=1, rank=0, device=torch.device("cpu"), open=lambda *_: None, barrier=lambda: None
    )
    watch = Stopwatch(Calibration(model=MODEL, samples=(1,)), transport)  # type: ignore[arg-type]
    monkeypatch.setattr("explorer.run.ranks.calibration_timing.worked_s", lambda _: clocks.worked_s(GPU))
    monkeypatch.setattr(time, "thread_time", lambda: 0.0)
    assert watch.measure()["cpu_share"] == pytest.approx(1.0, abs=1e-2)


def test_collectives_are_timed_without_what_goes_on_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    settled = list[torch.device]()
    monkeypatch.setattr(mesh, "settle", settled.append)
    meter = mesh.Meter(device=GPU)
    with meter.timed(begun=True):
        pass
    assert not settled
    with meter.timed():
        assert settled == [GPU]  # what the device was given before is no part of it
    assert settled == [GPU] * 2
    with meter.imagining():
        pass
    assert settled == [GPU] * 4


def test_fp32_is_no_tf32() -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    allow_tf32(products=True, convolutions=True)
    try:
        with plain_fp32():
            assert not torch.backends.cuda.matmul.allow_tf32
            assert not torch.backends.cudnn.allow_tf32
        assert torch.backends.cuda.matmul.allow_tf32
        assert torch.backends.cudnn.allow_tf32
    finally:
        allow_tf32(products=before[0], convolutions=before[1])
