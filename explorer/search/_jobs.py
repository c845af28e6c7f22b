"""Jobs: strategies that other processes cost, ahead of the searcher that will ask for them.

A searcher costs one strategy after the other, and what it asks for next may depend on what it found. It stays
so: who will probably be asked for is only costed *ahead* (`Evaluator.ahead`), and taken when its turn comes.
Whatever the number of processes, a search asks for the same strategies in the same order and counts the same.

Any `concurrent.futures.Executor` does: processes of this machine (`processes`), Dask's, Ray's, MPI's. Only
strategies and outcomes travel; the problem travels once to every process, which asks for it when it is sent
a strategy of a problem that it does not know. An executor that fails is left; the search goes on here.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from explorer.base import compiling
from explorer.base.checkpoints import checkpoint
from explorer.base.errors import ExplorerError, InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.search._outcomes import Outcome, outcome_of
from explorer.search.problem import Problem
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy
from explorer.workload import Workload

logger = logging.getLogger(__name__)

MOST_PROCESSES = 256
"""Most processes of one machine."""
AHEAD = 8
"""Strategies that are looked ahead for every process; 64 where nobody says how many there are."""
AT_ONCE = 3
"""Strategies that a process of this machine is given at once: one that it costs, and what comes next. The
others wait here, so that those that are no longer wanted need not be costed.
"""
KEPT = 1024
"""Most strategies that are given away or were costed ahead and not asked for yet."""
WAIT_S = 0.05
"""Seconds that a search waits for an executor of others before it costs a strategy itself."""
PATIENCE_S = 120.0
"""Seconds after which an executor that does not answer counts as failed: a cluster without workers, say."""
OWN_PATIENCE_S = 2.0
"""Seconds to wait for a process of this machine once nothing else is to do; then this one costs the same."""
LOOK_S = 0.02
"""Seconds between two looks whether one still waits."""
UNKNOWN = "unknown problem"
"""Answer of a process that has not been sent the problem."""


class Refusal(NamedTuple):
    """Answer of a process for a strategy that cannot be simulated."""

    text: str
    """The reason."""


class Cancellable(Future[Any]):
    """Future of a process pool that may be cancelled although its processes die.

    Before Python 3.12.1 the pool's thread then ends with `InvalidStateError`, and others wait for ever.
    """

    def set_exception(self, exception: BaseException | None) -> None:
        """Set the exception, unless the future was cancelled."""
        with suppress(InvalidStateError):
            super().set_exception(exception)


def cancellable(job: Future[Any]) -> None:
    """Make a future of a process pool one that may be cancelled although its processes die."""
    job.__class__ = Cancellable


class Asked(NamedTuple):
    """The part of a problem that judges strategies."""

    graph: LayerGraph
    cluster: Cluster
    workload: Workload
    objective: str
    memory_limit_bytes: float
    min_samples_per_s: float


class Jobs:
    """Strategies of a problem that are costed ahead.

    Args:
        problem: the problem.
        executor: whose processes cost them; None for processes of this machine.
        processes: number of these, this one included: while it waits, it takes over what nobody has begun.
    """

    def __init__(self, problem: Problem, executor: Executor | None = None, *, processes: int = 0) -> None:
        self.problem = problem
        self.limit = AHEAD * (processes or 8)
        """Strategies that one part of a search may look ahead."""
        self.helps = executor is None
        self._room = AT_ONCE * (processes - 1) if self.helps else self.limit
        """Strategies that are given away at once."""
        self.failure = ""
        """Why the executor is used no more; "" while it is."""
        self._silent_since = 0.0
        """Moment of the first wait in vain since the last answer; 0 if there was none."""
        self._key = uuid.uuid4().hex
        self._wishes: dict[str, dict[Strategy, None]] = {}
        """Strategies to be costed ahead, by part of the search, the soonest first."""
        self._waiting: OrderedDict[Strategy, Future[Outcome | Refusal | str]] = OrderedDict()
        """Strategies given away, and those costed ahead."""
        self._away: list[Future[Outcome | Refusal | str]] = []
        """Of these, what was not costed when it was last looked at."""
        # without what they remember: that is large, and changes while it is sent
        self._asked = Asked(
            replace(problem.graph), replace(problem.needed_cluster), problem.workload, problem.objective,
            problem.memory_limit_bytes, problem.min_samples_per_s,
        )  # fmt: skip
        self._executor = executor or ProcessPoolExecutor(
            processes - 1, mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin, initargs=(self._key, self._asked),
        )  # fmt: skip

    def ask(self, strategies: Iterable[Strategy], part: str = "", *, instead: bool = False) -> None:
        """Have strategies costed, as far as there is room.

        Args:
            strategies: strategies, the one wanted soonest first.
            part: part of the search that wants them.
            instead: whether it no longer wants what it asked for before.
        """
        wishes = self._wishes.setdefault(part, {})
        if instead:
            wishes.clear()
        for strategy in strategies:
            if strategy not in self._waiting:
                wishes[strategy] = None
        while len(wishes) > self.limit:
            del wishes[next(iter(wishes))]  # asked for long ago, and not wanted since
        self._give()

    def _give(self) -> None:
        """Give away what is wanted soonest, the parts in turns, until nobody has room."""
        self._away = [job for job in self._away if not job.done()]
        while not self.failure and len(self._away) < self._room:
            strategy = self._next_wish()
            if strategy is None:
                return
            while len(self._waiting) >= KEPT:
                self._waiting.popitem(last=False)[1].cancel()
            try:
                job = self._waiting[strategy] = self._submit(strategy, None)
            except Exception as error:  # noqa: BLE001 - whatever an executor of others raises
                self._fail(error)
                return
            if not job.done():
                self._away.append(job)

    def _next_wish(self) -> Strategy | None:
        """Take the next wish of the part whose turn it is; None if there is none."""
        for part, wishes in list(self._wishes.items()):
            if wishes:
                self._wishes[part] = self._wishes.pop(part)  # the last one next time
                strategy = next(iter(wishes))
                self._forget(strategy)
                return strategy
        return None

    def _forget(self, strategy: Strategy) -> None:
        for wishes in self._wishes.values():
            wishes.pop(strategy, None)

    def take(self, strategy: Strategy) -> Outcome | Refusal | None:
        """Return what became of a strategy; None if it has to be costed here."""
        job = self._waiting.pop(strategy, None)
        self._forget(strategy)
        self._give()
        if job is None or self.failure or (self.helps and job.cancel()):
            return None
        while self.helps and not job.done() and self._help():
            pass
        try:
            found = self._answer(job)
            if found == UNKNOWN:
                job = self._submit(strategy, self._asked)
                self._send()
                found = self._answer(job)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
            return None
        return None if isinstance(found, str) else found

    def _answer(self, job: Future[Outcome | Refusal | str]) -> Outcome | Refusal | str | None:
        """Return what a process answered; None if it keeps the search waiting, which costs that itself then.

        Raises:
            TimeoutError: there has been no answer for too long.
        """
        if self.helps and not _done(job):
            return None  # it has been stopped, say; one that dies breaks the pool, which is an error
        try:
            found = job.result(WAIT_S)
        except TimeoutError:
            now = time.monotonic()
            self._silent_since = self._silent_since or now
            if job.done() or now - self._silent_since > PATIENCE_S:
                raise
            job.cancel()
            return None
        self._silent_since = 0.0
        return found

    def drop(self, strategies: Iterable[Strategy]) -> None:
        """Give up strategies that nobody will ask for, unless they are being costed."""
        for strategy in strategies:
            self._forget(strategy)
            if strategy in self._waiting and self._waiting[strategy].cancel():
                del self._waiting[strategy]

    def _submit(self, strategy: Strategy, asked: Asked | None) -> Future[Outcome | Refusal | str]:
        job = self._executor.submit(judge, self._key, strategy, asked)
        if self.helps:
            cancellable(job)
        return job

    def _help(self) -> bool:
        """Cost here what would be given away next; False if there is nothing."""
        strategy = self._next_wish()
        if strategy is None:
            return False
        own: Future[Outcome | Refusal | str] = Future()
        own.set_result(_outcome(self.problem, strategy))
        self._waiting[strategy] = own
        self._give()
        return True

    def _send(self) -> None:
        """Send the problem with all strategies that came back because nobody knew it."""
        for strategy, job in self._waiting.items():
            if job.done() and not job.exception() and job.result() == UNKNOWN:
                self._waiting[strategy] = self._submit(strategy, self._asked)

    def _fail(self, error: BaseException) -> None:
        if self.failure:
            return
        text = str(error) or type(error).__name__
        if isinstance(error, TimeoutError | CancelledError):
            text = "it was cancelled" if isinstance(error, CancelledError) else "it does not answer"
        self.failure = text.splitlines()[0]
        logger.warning("the executor failed (%s); the search goes on in this process", self.failure)
        self.close()

    def close(self) -> None:
        """Give up what is still waiting, and end the processes that are its own."""
        self._wishes.clear()
        while self._waiting:
            self._waiting.popitem()[1].cancel()
        if self.helps:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _done(job: Future[Outcome | Refusal | str]) -> bool:
    """Wait for a process of this machine, with checkpoints, and tell whether its job is done."""
    until = time.monotonic() + OWN_PATIENCE_S
    while not wait((job,), LOOK_S).done:
        checkpoint()
        if time.monotonic() >= until:
            return False
    return True


def judge(key: str, strategy: Strategy, asked: Asked | None) -> Outcome | Refusal | str:
    """Cost a strategy of the problem that goes by this key; `UNKNOWN` if this process was never sent it."""
    known = _problems(key)
    if asked is not None and not known:
        known.append(_problem(asked))
    return _outcome(known[0], strategy) if known else UNKNOWN


@lru_cache(maxsize=2)
def _problems(key: str) -> list[Problem]:  # noqa: ARG001 - filled by who is sent one
    return []


def _problem(asked: Asked) -> Problem:
    return Problem(**asked._asdict())


def _outcome(problem: Problem, strategy: Strategy) -> Outcome | Refusal:
    try:
        report = simulate(problem.graph, problem.needed_cluster, problem.workload, strategy)
    except ExplorerError as error:
        return Refusal(str(error))
    return outcome_of(problem, report)


def check_processes(processes: int, executor: Executor | None) -> None:
    """Refuse what cannot be.

    Raises:
        InputError: there are too few or too many processes, or an executor and processes.
    """
    if not 1 <= processes <= MOST_PROCESSES or (executor is not None and processes > 1):
        raise InputError(
            f"{processes} processes" + (" and an executor" if executor is not None else ""), key="jobs",
            found=processes, allowed=f"1 to {MOST_PROCESSES}; 1 beside an executor",
        )  # fmt: skip


@contextmanager
def jobs_of(problem: Problem, processes: int, executor: Executor | None) -> Iterator[Jobs | None]:
    """Open the jobs of a search: on an executor, on so many processes here (this one included), or none."""
    if problem.cluster is None or (executor is None and processes == 1):
        yield None
        return
    jobs = Jobs(problem, executor, processes=processes if executor is None else 0)
    try:
        yield jobs
    finally:
        jobs.close()


def _begin(key: str, asked: Asked) -> None:
    _problems(key).append(_problem(asked))
    prepare_process()


def prepare_process() -> None:
    """Prepare a process that does nothing else than to search: the one that made it is interrupted, not this
    one, and this one ends with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compiling.expect(compiling.IMPORT_ROUNDS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
