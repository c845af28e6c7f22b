"""Worker: the program that `torchrun` starts on every rank: ``torchrun ... -m explorer.run.worker SPEC``.

It reads a run specification, runs its cases, writes its result next to it and ends with `os._exit`: gloo
processes that have done all their work sometimes abort while they are taken down.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.files import write_text
from explorer.base.formats import json_text
from explorer.base.plain_data import read_json
from explorer.run.launching import guard
from explorer.run.launching.leftovers import LAUNCHER
from explorer.run.launching.status import IDLE, STARTING, StatusPages
from explorer.run.spec import RunSpec, mark_of, read_spec

if TYPE_CHECKING:
    from explorer.run.launching.guard import Events

FAILED = 1
_CONNECTED = {"NCCL_RUNTIME_CONNECT": "0"}
"""Connections of groups on GPUs are made with the groups, not at some first use at which ranks would wait for
each other in the midst of an order.
"""
_BESIDE_MESSAGES = {"CUDA_DEVICE_MAX_CONNECTIONS": "32", "CUDA_MODULE_LOADING": "EAGER"}
"""What kernels on GPUs need to run beside receives that wait for their messages: streams have queues of their
own, and no kernel is loaded late, for which CUDA may wait until the device is idle.
"""


class Desk:
    """Where a rank reports: its events and its status page."""

    def __init__(self, folder: Path, rank: int, ranks: int) -> None:
        self.folder, self.rank, self.ranks = folder, rank, ranks
        self.events: Events = guard.Events(folder / "events", rank)
        path = folder / "status"
        self._pages = StatusPages(path, ranks, create=not path.exists())
        self.at = ""

    def status(self, state: int, text: str = "", predicted_s: float = 0.0) -> None:
        """Report what this rank does now."""
        self.at = text
        self._pages.write(self.rank, state, text, predicted_s)


def main(argv: list[str]) -> int:
    """Run a specification; return only if it could not be read."""
    guard.block_sigterm()
    faulthandler.enable()  # a rank that dies in C code says where
    spec_file = Path(argv[1]).resolve()
    rank, ranks = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    desk = Desk(spec_file.parent, rank, ranks)
    desk.events.send("start", pid=os.getpid())
    try:
        guard.watch(desk.events, launcher=_launcher(spec_file.parent), folder=spec_file.parent)
        desk.status(STARTING)
        spec = read_spec(spec_file)
        result = _work(spec, desk) | {"plan": spec.plan, "spec": mark_of(spec)}
        write_text(spec_file.parent / f"result-{rank}.json", json_text(result, indent=None))
        desk.status(IDLE)
        desk.events.send("done")
        status = 0
    except BaseException as error:  # noqa: BLE001 - the launcher must hear of every end
        desk.events.send("fault", at=desk.at, **guard.describe(error))
        status = FAILED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _launcher(folder: Path) -> tuple[int, float] | None:
    """Return the process to outlive by no more than a moment; none if torchrun was started by hand."""
    path = folder / LAUNCHER
    if not path.exists():
        return None
    data = read_json(path)
    return int(data["pid"]), float(data["started"])


def gpu_settings(spec: RunSpec) -> dict[str, str]:
    """Return what NCCL and CUDA read from the environment when they start; processors do not mind it."""
    beside = _BESIDE_MESSAGES if spec.ranks > 1 and spec.cases else {}
    return {**_CONNECTED, **beside}


def _work(spec: RunSpec, desk: Desk) -> dict[str, Any]:
    os.environ.update(gpu_settings(spec))
    from explorer.run.ranks.plain_fp32 import plain_fp32  # imports torch
    from explorer.run.ranks.session import run_session

    with plain_fp32():
        return run_session(spec, desk)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
