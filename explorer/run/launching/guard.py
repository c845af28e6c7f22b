"""Guard: ensures that a rank never outlives its run and never dies without a word.

SIGTERM is blocked in all threads and waited for in one, because a rank that waits inside a collective would
never run a Python signal handler. The same thread checks that the launcher and the agent that started this
rank still exist; torchrun's ranks run in sessions of their own, so nothing else would end them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from explorer.run.spec import Fault

LOOK_EVERY_S = 0.25
ORPHANED = 9
"""Exit status of a rank whose launcher is gone."""
INTERRUPTS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that ask a program to end."""
_TRIES, _PAUSE_S = 20, 0.05
_NEARLY = 0.95
"""Part of a limit of memory from which a failure is its."""

_ECHOES = (
    "Connection closed by peer", "Connection reset by peer", "Timed out waiting", "Broken pipe",
    "remote worker", "remote process exited", "Socket Timeout", "recvValueWithTimeout", "sendBytes failed",
    "failed to recv", "Socket closed", "Connect timeout", "Application timeout",
    "ncclRemoteError", "NCCL communicator was aborted", "closed by remote peer",
)  # fmt: skip


class Events:
    """JSON lines to a file that the launcher reads; one write each, so that lines of ranks never mix."""

    def __init__(self, path: Path, rank: int) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._rank = rank

    def send(self, event: str, **values: Any) -> None:
        """Write one event."""
        line = json.dumps({"event": event, "rank": self._rank, **values}) + "\n"
        os.write(self._fd, line.encode())


def process_start(pid: int) -> float:
    """Return when a process was started, which tells it from a later one with the same number; 0 if it is
    gone.
    """
    try:
        process = psutil.Process(pid)
        return 0.0 if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return 0.0


def still_runs(pid: int, started: float) -> bool:
    """Tell whether that very process exists; its start is known to a second or two (the clock may be set)."""
    return abs(process_start(pid) - started) < 2.0


def block_sigterm() -> None:
    """Block SIGTERM in this thread and all that it starts: call it before any other thread exists."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Let nothing interrupt the block: SIGINT, SIGTERM and SIGHUP that come meanwhile are handled after it.

    Only the main thread handles signals; elsewhere nothing need be done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in INTERRUPTS}
    heard = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in heard:
        signal.signal(number, lambda got, _frame: came.append(got))
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
        if came:
            signal.raise_signal(came[0])


def watch(events: Events, *, launcher: tuple[int, float] | None, folder: Path) -> None:
    """Start the thread that ends this rank on SIGTERM or when the process that started it is gone."""
    agent = os.getppid()

    def look() -> None:
        while True:
            if hasattr(signal, "sigtimedwait"):
                if signal.sigtimedwait({signal.SIGTERM}, LOOK_EVERY_S) is not None:
                    events.send("ended", reason="SIGTERM")
                    os._exit(128 + signal.SIGTERM)
            else:
                time.sleep(LOOK_EVERY_S)
            if launcher is not None and not still_runs(*launcher):
                _end_orphan(agent, folder)
            if os.getppid() != agent:
                os._exit(ORPHANED)

    threading.Thread(target=look, name="guard", daemon=True).start()


def _end_orphan(agent: int, folder: Path) -> None:
    """Clean up after the launcher is gone, end the agent (it would report to nobody) and leave."""
    # Before the agent ends: with it goes the ranks' store, and a main thread that misses it ends this one.
    _remove(folder)
    if os.getppid() == agent:
        os.kill(agent, signal.SIGTERM)
    _remove(folder)
    os._exit(ORPHANED)


def _remove(folder: Path) -> None:
    """Remove a folder that other processes may be removing from, or writing to, at the same time."""
    for _ in range(_TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(_PAUSE_S)


def is_echo(error: BaseException) -> bool:
    """Tell whether an error only says that another rank is gone."""
    name = type(error).__name__
    known = "Dist" in name or isinstance(error, (ConnectionError, RuntimeError))
    return known and any(text in str(error) for text in _ECHOES)


def describe(error: BaseException) -> dict[str, Any]:
    """Return the fields of a `fault` event."""
    text = str(error).strip().splitlines()
    short = text[0] if text else ""
    if "NCCL" in short:  # which says why in its last words
        short += "".join(f"; {line.strip()}" for line in text[1:][-1:])
    if "CUDA out of memory" in short:  # what follows is of the allocator's settings
        short = ". ".join(short.split(". ")[:3]) + "; fewer ranks or --engine likeness need less"
    kind = type(error).__name__
    out_of_memory = (
        isinstance(error, MemoryError)
        or "out of memory" in short
        or "can't allocate memory" in short
        or _at_the_limit()
    )
    return {
        "message": f"{kind}: {short}" if short else kind,
        "echo": is_echo(error),
        "memory": out_of_memory,
        "log": "".join(traceback.format_exception(error))[-4000:],
    }


def _at_the_limit() -> bool:
    """Tell whether this process has all the memory that its limit allows: libraries then fail with words of
    their own.
    """
    try:
        import resource
    except ImportError:
        return False
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    return most != resource.RLIM_INFINITY and psutil.Process().memory_info().vms > _NEARLY * most


class FaultError(RuntimeError):
    """The exception of the fault `raise`."""


def inject(fault: Fault) -> None:
    """Do what a fault says. For tests."""
    if fault.kind == "raise":
        raise FaultError("injected fault")
    if fault.kind == "exit":
        os._exit(3)
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault.kind == "memory":
        _exhaust_memory()
    while fault.kind == "hang":
        time.sleep(1)


def _exhaust_memory() -> None:
    """Request more memory than a limit on the address space leaves."""
    import resource

    import torch

    used = psutil.Process().memory_info().vms
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
    torch.empty(2**31, dtype=torch.uint8).fill_(1)
