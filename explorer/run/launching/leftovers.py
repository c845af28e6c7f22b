"""Leftovers: what a run has made so far, and how all of it ends: every process, and the folder."""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
from pathlib import Path

import psutil

from explorer.run.launching.guard import held_back

TERM_WAIT_S = 1.5
FULL_BYTES = 2**16
"""Free bytes below which a disk counts as full."""


class Leftovers:
    """What a run has made so far, and how all of it ends."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.process: subprocess.Popen[bytes] | None = None
        self.pids: dict[int, int] = {}

    def end(self) -> None:
        """End every process and remove the folder, whatever interrupts it."""
        with held_back():
            if self.process is not None and self.folder is not None:
                _end(self.process, self.pids, self.folder)
            if self.folder is not None:
                shutil.rmtree(self.folder, ignore_errors=True)


def _end(process: subprocess.Popen[bytes], pids: dict[int, int], folder: Path) -> None:
    """End ranks first, then torchrun (killed first, it would leave them), then all others."""
    family: dict[int, psutil.Process] = {}
    for pid in (process.pid, *pids.values()):
        _add_family(pid, family, folder)
    ranks = [item for pid, item in family.items() if pid != process.pid]
    for item in (*ranks, *(item for pid, item in family.items() if pid == process.pid)):
        _signal(item, signal.SIGTERM)
        _signal(item, signal.SIGCONT)
    _, alive = psutil.wait_procs(list(family.values()), timeout=TERM_WAIT_S)
    for pid in (process.pid, *pids.values()):  # includes whatever was started meanwhile
        _add_family(pid, family, folder)
    for item in alive:
        _signal(item, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=TERM_WAIT_S)
    process.poll()


def ranks_below(agent: int) -> dict[int, int]:
    """Return the processes of ranks that torchrun has started, which need not have said a word yet."""
    found: dict[int, int] = {}
    with contextlib.suppress(psutil.Error):
        for child in psutil.Process(agent).children():
            with contextlib.suppress(psutil.Error, KeyError, ValueError):
                found[int(child.environ()["RANK"])] = child.pid
    return found


def _add_family(pid: int, family: dict[int, psutil.Process], folder: Path) -> None:
    """Add a process of ours and all below it; leave alone a number that has passed to a foreign process."""
    try:
        found = psutil.Process(pid)
        if str(folder) in " ".join(found.cmdline()):
            family[pid] = found
        for child in found.children(recursive=True) if pid in family else ():
            family[child.pid] = child
    except psutil.Error:
        return


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


def disk_is_full(folder: Path) -> bool:
    """Tell whether nothing more can be written to a folder's disk."""
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return False
