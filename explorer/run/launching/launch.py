"""Launch: one `torchrun` in a session of its own, watched from outside, that leaves nothing behind.

It never runs inside the caller's process: torch's elastic agent replaces signal handlers and blocks. A handle
is polled (a notebook does it from its event loop); there is no thread. The events that its ranks write are
the truth about a run: exit codes of finished gloo processes are sometimes wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from explorer.base.errors import RunError
from explorer.base.files import read_tail, read_text
from explorer.base.formats import parse_json
from explorer.run.launching.cause import SHOWN_LINES, Event, Evidence, cause_of, only_interrupted
from explorer.run.launching.guard import held_back, process_start
from explorer.run.launching.leftovers import Leftovers, disk_is_full, new_folder, ranks_below, sweep
from explorer.run.launching.status import STARTING, StatusPages
from explorer.run.launching.watchdog import LOOK_EVERY_S, Watchdog, look_at
from explorer.run.spec import RunSpec, write_spec

POLL_S = 0.05
LOG_BYTES = 2**20
"""Bytes read from the end of the log."""
LOG_LINES = 10_000
"""Lines of them in which a cause is looked for."""
RESULT_BYTES = 2**30
"""Most bytes of a rank's result."""
LOOPBACK_S = 5.0
"""Longest wait for a connection to this machine itself."""
SETTLE_S = 1.0
"""Seconds to wait after the first fault for reports of the other ranks, before the cause is chosen."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Results of a finished run."""

    ranks: tuple[dict[str, Any], ...]
    """Per rank: the data of its result."""
    events: tuple[Event, ...]
    """All events, in order of arrival."""
    wall_s: float
    """Seconds from start to the last rank's end."""


def device_of(result: RunResult) -> str:
    """Return what the ranks of a run say they ran on: `cpu`, or the name of an accelerator."""
    names = [str(event["name"]) for event in result.events if event.get("event") == "ready"]
    return names[0] if names else "cpu"


def start(spec: RunSpec) -> RunHandle:
    """Start a run; return at once."""
    return RunHandle(spec)


def run(spec: RunSpec) -> RunResult:
    """Start a run and wait for its end.

    Raises:
        RunError: the run failed; every process of it is gone.
    """
    with start(spec) as handle:
        for _ in handle.events():
            pass
        return handle.result()


def environment() -> dict[str, str]:
    """Return the environment of the ranks: one thread each (set before torch is imported), this package
    importable.
    """
    extra = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    folder = str(Path(__file__).parents[3])
    known = os.environ.get("PYTHONPATH")
    extra["PYTHONPATH"] = folder if not known else os.pathsep.join((folder, known))
    extra["TORCHELASTIC_ERROR_FILE"] = ""
    if "lo" in psutil.net_if_addrs():
        # the host's own name need not resolve to an address that can be reached
        extra["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    return {**os.environ, **extra, "PYTHONUNBUFFERED": "1"}


def command(spec: RunSpec, spec_file: Path) -> list[str]:
    """Return the torchrun command line."""
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "0",
        "--nproc-per-node", str(spec.ranks), "--monitor-interval", "0.1",
        "-m", "explorer.run.worker", str(spec_file),
    ]  # fmt: skip


class RunHandle:
    """A run under way: `poll`, `events`, `stream`, `stop`, `result`. Also a context manager that stops it."""

    def __init__(self, spec: RunSpec) -> None:
        require_loopback()
        self.spec = spec
        self._left = Leftovers()
        # runs when the handle is dropped and when Python ends
        self._finalizer = weakref.finalize(self, self._left.end)
        with held_back():
            sweep()
            self.folder = self._left.folder = new_folder()
        self._began = time.monotonic()
        self._seen: list[Event] = []
        self._read_to = 0
        self._pids = self._left.pids
        self._done: dict[int, Event] = {}
        self._faults: dict[int, Event] = {}
        self._first_trouble_s = 0.0
        longest_s = max((s for case in spec.cases for s in case.seconds), default=0.0)
        self._watchdog = Watchdog(spec.ranks, spec.patience_s, longest_s=longest_s)
        self._looked_s = 0.0
        self._stopped_s = 0.0
        self._starting: dict[int, int] = {}
        self._error: RunError | None = None
        self._stopped = False
        self._result: RunResult | None = None
        self.pages = StatusPages(self.folder / "status", spec.ranks, create=True)
        (self.folder / "events").touch()
        write_spec(spec, self.folder / "spec.json")
        self._log = (self.folder / "log").open("wb")
        logger.info("starting %d ranks in %s", spec.ranks, self.folder)
        with held_back():
            self.process = self._left.process = subprocess.Popen(
                command(spec, self.folder / "spec.json"),
                stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
                # torchrun's temporary files go with the folder
                env=environment() | {"TMPDIR": str(self.folder)}, start_new_session=True,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def done(self) -> bool:
        """Whether the run has ended, successfully or not, and all its processes are gone."""
        return self._result is not None or self._error is not None or self._stopped

    @property
    def error(self) -> RunError | None:
        """The error of the run; None if it has none."""
        return self._error

    def poll(self) -> list[Event]:
        """Return new events without blocking for long; end the run if a rank failed or stands still."""
        if self.done:
            return []
        fresh = self._read_events()
        ended = self.process.poll() is not None
        if ended:
            fresh += self._read_events()
        if len(self._done) == self.spec.ranks:
            self._finish()
        elif self._faults or ended:
            self._first_trouble_s = self._first_trouble_s or time.monotonic()
            # why ranks were interrupted torchrun knows, and says when it ends
            all_spoke = len({*self._done, *self._faults}) == self.spec.ranks
            all_spoke = all_spoke and not only_interrupted(self._faults)
            if ended or all_spoke or time.monotonic() - self._first_trouble_s > SETTLE_S + 1.0:
                self._fail(self._cause())
        elif stuck := self._stuck():
            self._fail(stuck)
        return fresh

    def events(self) -> Iterator[Event]:
        """Yield all events until the run ends; block between them."""
        while not self.done:
            yield from self.poll()
            if not self.done:
                time.sleep(POLL_S)

    async def stream(self) -> AsyncIterator[Event]:
        """Yield events as `events` does, for an event loop: without blocking it, without a thread."""
        while not self.done:
            for event in self.poll():
                yield event
            await asyncio.sleep(POLL_S)

    def stop(self) -> None:
        """End every rank and wait until all are gone; do nothing if they are."""
        if not self.done:
            self._stopped = True
        self._end_processes()

    def result(self) -> RunResult:
        """Return what the ranks returned.

        Raises:
            RunError: the run failed, was stopped, or has not ended.
        """
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise RunError("the run was stopped" if self._stopped else "the run has not ended")
        return self._result

    def log(self, lines: int = SHOWN_LINES) -> str:
        """Return the last lines that the ranks and torchrun printed."""
        path = self.folder / "log"
        start = max(0, path.stat().st_size - LOG_BYTES) if path.exists() else 0
        text = read_tail(path, start=start).decode("utf-8", "replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def _read_events(self) -> list[Event]:
        data = read_tail(self.folder / "events", start=self._read_to)
        whole = data[: data.rfind(b"\n") + 1]
        self._read_to += len(whole)
        fresh: list[Event] = [parse_json(line, ours=False) for line in whole.splitlines()]
        for event in fresh:
            rank = int(event["rank"])
            logger.debug("rank %d: %s", rank, {k: v for k, v in event.items() if k not in ("rank", "log")})
            if event["event"] == "start":
                self._pids[rank] = int(event["pid"])
            elif event["event"] == "done":
                self._done[rank] = event
            elif event["event"] == "fault":
                self._faults.setdefault(rank, event)
        self._seen += fresh
        return fresh

    def _finish(self) -> None:
        results = tuple(
            parse_json(read_text(self.folder / f"result-{rank}.json", most=RESULT_BYTES), ours=False)
            for rank in range(self.spec.ranks)
        )
        wall_s = time.monotonic() - self._began
        self._result = RunResult(ranks=results, events=tuple(self._seen), wall_s=wall_s)
        # the ranks have reported everything; how torchrun ends does not matter
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=3.0)
        self._end_processes()

    def _fail(self, error: RunError) -> None:
        logger.info("the run failed: %s", error)
        self._error = error
        self._end_processes()

    def _end_processes(self) -> None:
        self._finalizer()
        self._log.close()
        self.pages.close()

    def _cause(self) -> RunError:
        """Return why the run failed."""
        return cause_of(
            Evidence(
                torchrun=self.process.pid,
                status=self.process.returncode,
                log=self.log(LOG_LINES),
                seen=self._seen,
                found=self._starting,
                disk_is_full=disk_is_full(self.folder),
                doing=lambda rank: self.pages.read(rank).text,
                lives=lambda pid: bool(process_start(pid)),
            )
        )

    def _stuck(self) -> RunError | None:
        """Return the verdict of the watchdog, or that torchrun itself is stopped."""
        now = time.monotonic()
        if now - self._looked_s > LOOK_EVERY_S:
            self._looked_s = now
            if len(self._pids) < self.spec.ranks:
                self._starting = ranks_below(self.process.pid)
            # torchrun keeps the store by which ranks find each other; once they have, they do without it
            agent = look_at(self.process.pid) if self._some_start() else None
            self._stopped_s = (self._stopped_s or now) if agent is not None and agent.stopped else 0.0
        if self._stopped_s:  # ranks that wait for it are not to blame
            if now - self._stopped_s <= self.spec.patience_s:
                return None
            return RunError("torchrun is stopped by a signal; the run was ended", log=self.log())
        pids = {**self._starting, **self._pids}
        found = self._watchdog.judge(self.pages.read, pids, self._done, agent=self.process.pid)
        return RunError(f"{found}; the run was ended", rank=found.rank, log=self.log()) if found else None

    def _some_start(self) -> bool:
        """Tell whether a rank has not begun its first case."""
        ranks = (rank for rank in range(self.spec.ranks) if rank not in self._done)
        return any(self.pages.read(rank).state == STARTING for rank in ranks)


def require_loopback() -> None:
    """Refuse a machine on which processes cannot reach each other: torchrun would try for minutes.

    Raises:
        RunError: no connection to this machine's own address.
    """
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            socket.create_connection(server.getsockname()[:2], timeout=LOOPBACK_S).close()
    except OSError as error:
        raise RunError(
            f"ranks cannot reach each other: no connection to 127.0.0.1 ({error.strerror or error});"
            " bring the loopback interface up (ip link set lo up)"
        ) from None
