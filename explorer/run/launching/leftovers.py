"""Leftovers: what a run has made so far, and how all of it ends: every process, and the folder.

A launcher that is killed cannot tidy up: its ranks end themselves and remove the folder (see `guard`). If it
was killed when they had ended, nobody is left to do so, and the next run does (`sweep`).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psutil

from explorer.base.errors import InputError, RunError
from explorer.base.files import write_text
from explorer.base.formats import json_text
from explorer.base.plain_data import read_json
from explorer.run.launching.guard import held_back, process_start, still_runs

PREFIX = "explorer-run-"
"""What the names of the folders of runs begin with."""
LAUNCHER = "launcher.json"
"""File of such a folder that says which process made it."""
UNSIGNED_S = 3600.0
"""Seconds after which a folder that does not say who made it counts as left behind."""
TERM_WAIT_S, KILL_WAIT_S = 1.5, 5.0
"""Longest waits for the end of processes that were asked to, and that were killed."""
FULL_BYTES = 2**16
"""Free bytes below which a disk counts as full."""
ROOM_BYTES = 2**20
"""Free bytes without which no run starts: its orders, stamps and results take 47 KiB (two ranks whose compute
is slept) to some 400 KiB.
"""


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


def new_folder() -> Path:
    """Make the folder of a run, which says that this process made it.

    Raises:
        RunError: so little room on the disk that the run could not write its results.
    """
    parent = Path(tempfile.gettempdir())
    if (free := shutil.disk_usage(parent).free) < ROOM_BYTES:
        raise RunError(
            f"no space for a run: {free // 1024} KiB free in {parent}, and it needs {ROOM_BYTES // 1024};"
            " make room there, or set TMPDIR to another folder"
        )
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    launcher = {"pid": os.getpid(), "started": process_start(os.getpid()), "place": _place()}
    try:
        write_text(folder / LAUNCHER, json_text(launcher))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def sweep(folder: Path | None = None) -> list[Path]:
    """Remove the folders of runs whose launchers are gone; return them.

    Only folders of this user are looked at, and only those made where process numbers mean the same: another
    container or host may share the temporary folder.

    Args:
        folder: where they lie; the system's folder of temporary files if None.
    """
    removed = []
    for path in sorted(Path(folder or tempfile.gettempdir()).glob(PREFIX + "*")):
        with contextlib.suppress(OSError):
            about = path.lstat()
            ours = not hasattr(os, "getuid") or about.st_uid == os.getuid()
            if path.is_dir() and not path.is_symlink() and ours and _left(path, about.st_mtime):
                shutil.rmtree(path, ignore_errors=True)
                removed.append(path)
    return removed


def _left(folder: Path, changed_s: float) -> bool:
    """Tell whether nobody will come back for a folder, last changed at `changed_s` of the system's clock."""
    try:
        launcher = read_json(folder / LAUNCHER)
        pid, started, place = int(launcher["pid"]), float(launcher["started"]), launcher["place"]
    except (InputError, KeyError, TypeError, ValueError):
        return time.time() - changed_s > UNSIGNED_S
    return place == _place() and not still_runs(pid, started)


def _place() -> str:
    """Name the host and the space in which process numbers count."""
    space = Path("/proc/self/ns/pid")
    return f"{socket.gethostname()} {space.readlink() if space.is_symlink() else ''}".strip()


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
    psutil.wait_procs(alive, timeout=KILL_WAIT_S)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=KILL_WAIT_S)


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
