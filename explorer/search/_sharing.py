"""Sharing: a search by `auto` that other processes take part in, each with a share of the space.

Costing strategies ahead (`_jobs`) leaves everything else that a search does to one process. Where seconds end
a search, and it need not find the same every time, every process therefore searches a share by itself
(`_shares`, `_partner`); this one searches the first. A partner works turn by turn, some of which are asked
for ahead. It is told the best strategy of all, and tells what it found, how much it costed and what is still
open: only strategies, reduced reports and bounds travel.

The share of a partner that fails is searched here, and so is that of one that has not answered when all else
is done.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, NamedTuple

from explorer.base.checkpoints import checkpoint
from explorer.search._branch_and_bound import BranchAndBound
from explorer.search._jobs import cancellable
from explorer.search._partner import Found, Told, begin, candidate_of_found, found_of, take_turn
from explorer.search._portfolio import BRANCHES, Part, bunched
from explorer.search._shares import Share, StillOpen, joined
from explorer.search.evaluator import FAILURE, Candidate, Evaluator
from explorer.search.problem import Problem

logger = logging.getLogger(__name__)

TURN_S = 0.25
"""Seconds of a partner's turn: of work of its thread."""
TURNS = 3
"""Turns that a partner is asked for at once, so that it has work while this process is at a long step."""
LOOK_S = 0.02
"""Seconds that a search waits for partners between two looks, once it has nothing else to do."""
SHARE = 0.5
"""Share of the part that hears what partners found: as soon as there is something."""
OTHERS = "other processes"
"""Name of that part."""


class _Away:
    """A share and the process that searches it.

    Args:
        key: key of the search.
        share: the share.
        executor: an executor of one process.
    """

    def __init__(self, key: str, share: Share, executor: Executor) -> None:
        self.key, self.share, self.executor = key, share, executor
        self.turns: deque[Future[Any]] = deque()
        self.told: Told | None = None
        """What it told last; None before its first answer."""
        self.knows: Candidate | None = None
        """The best of all that it was told, or told itself."""
        self.here: BranchAndBound | None = None
        """Search of its share by this process, once it failed."""
        self.ask(None, 0.0)  # says that it is there
        self.ask(None, TURN_S)

    @property
    def ended(self) -> bool:
        """Whether its process has no more to do."""
        return self.here is not None or (self.told is not None and self.told.ended)

    @property
    def answered(self) -> bool:
        """Whether its process told something that was not heard yet."""
        return not self.ended and bool(self.turns) and self.turns[0].done()

    @property
    def open_bound(self) -> float:
        """The least bound of what is not yet tried of it."""
        return self.still_open().bound if self.here is None else self.here.open_bound

    def still_open(self) -> StillOpen:
        """Return what is not yet tried of it."""
        if self.here is not None:
            return self.here.still_open()
        return _UNKNOWN if self.told is None else self.told.still_open

    def ask(self, best: Found | None, seconds: float) -> None:
        """Ask for one more turn."""
        job: Future[Any]
        try:
            job = self.executor.submit(take_turn, self.key, best, seconds)
        except Exception as error:  # noqa: BLE001 - whatever an executor raises is said when it is heard
            job = Future()
            job.set_exception(error)
        if type(job) is Future:
            cancellable(job)
        self.turns.append(job)

    def close(self) -> None:
        """Ask for no more turns, and end the process."""
        for job in self.turns:
            job.cancel()
        self.turns.clear()
        self.executor.shutdown(wait=False, cancel_futures=True)


_GiveUp = Callable[[_Away, str], None]
"""What is to be done with a share that its process does not search, and why; "" if it was only late."""


class Sharing:
    """The shares of a search that others search.

    Args:
        problem: the search problem.
        processes: number of processes, this one included.
        executor_of: makes the executor of one process that searches a share.
    """

    def __init__(
        self,
        problem: Problem,
        processes: int,
        executor_of: Callable[[str, Problem, Share], Executor] | None = None,
    ) -> None:
        key, make = uuid.uuid4().hex, executor_of or _process
        self.problem, self.share = problem, Share(0, processes)
        shares = [Share(number, processes) for number in range(1, processes)]
        self.away = [_Away(key, share, make(key, problem, share)) for share in shares]

    # ---- bounds --------------------------------------------------------------------------------------

    @property
    def open_bound(self) -> float:
        """The least bound of what is not yet tried of all shares of others; infinite if nothing is open."""
        return min((item.open_bound for item in self.away), default=math.inf)

    def still_open(self) -> StillOpen:
        """Return what is not yet tried of all shares of others."""
        return joined([item.still_open() for item in self.away])

    # ---- what partners find ----------------------------------------------------------------------------

    def part(self, evaluator: Evaluator, search: BranchAndBound, parts: list[Part]) -> Part:
        """Return the part of a search that hears what partners found, and waits for them at the end.

        Args:
            evaluator: judge of all candidates.
            search: branch and bound over the share of this process.
            parts: all parts of the search; shares that partners give back are added to them.
        """

        def idle() -> bool:
            return not any(other.ready() for other in parts if other is not mine and not other.ended)

        def ready() -> bool:
            return any(item.answered for item in self.away) or idle()

        mine = Part(name=OTHERS, steps=self._steps(evaluator, search, parts), share=SHARE, ready=ready)
        return mine

    def _steps(
        self, evaluator: Evaluator, search: BranchAndBound, parts: list[Part]
    ) -> Iterator[Candidate | None]:
        def give_up(item: _Away, reason: str) -> None:
            """Search the share of a partner here."""
            item.close()
            item.here = BranchAndBound(self.problem, evaluator, item.share, _Beside(self, item, search))
            parts.append(Part(name=BRANCHES, steps=bunched(item.here.run()), share=SHARE))
            if reason:
                evaluator.details[FAILURE] = reason = reason.splitlines()[0]
                logger.warning("the executor failed (%s); the search goes on in this process", reason)

        while not all(item.ended for item in self.away):
            answered = [item for item in self.away if item.answered]
            for item in answered:
                yield from self._hear(item, evaluator, give_up)
            if not answered:
                self._wait(give_up)
            yield None

    def _hear(self, item: _Away, evaluator: Evaluator, give_up: _GiveUp) -> Iterator[Candidate]:
        """Take what a partner told into the search, and ask it for the next turns."""
        before = item.told
        try:
            item.told = told = item.turns.popleft().result()
            if not told.ended:
                self._ask(item, evaluator)
        except Exception as error:  # noqa: BLE001 - whatever an executor raises
            give_up(item, str(error) or type(error).__name__)
            return
        evaluator.evaluations += told.evaluations - (before.evaluations if before else 0)
        evaluator.refused += told.refused - (before.refused if before else 0)
        evaluator.failed += told.failed - (before.failed if before else 0)
        evaluator.first_error = evaluator.first_error or told.first_error
        for found in told.found:
            candidate = candidate_of_found(self.problem, found)
            evaluator.keep(candidate)
            if evaluator.best is candidate:
                item.knows = candidate
            yield candidate

    def _ask(self, item: _Away, evaluator: Evaluator) -> None:
        while len(item.turns) < TURNS:
            best = evaluator.best if evaluator.best is not item.knows else None
            item.knows = evaluator.best
            item.ask(found_of(best) if best is not None else None, TURN_S)

    def _wait(self, give_up: _GiveUp) -> None:
        """Wait a little, as nothing else is to do; give up partners that have not answered yet."""
        for item in self.away:
            if item.told is None and not item.ended:
                give_up(item, "")
                return
        wait([item.turns[0] for item in self.away if item.turns], LOOK_S)
        checkpoint()

    def close(self) -> None:
        """Ask for no more turns, and end the processes."""
        for item in self.away:
            item.close()


class _Beside(NamedTuple):
    """All shares but one, which this process took over."""

    sharing: Sharing
    mine: _Away
    search: BranchAndBound

    @property
    def open_bound(self) -> float:
        return min([self.search.open_bound, *(item.open_bound for item in self._others)])

    def still_open(self) -> StillOpen:
        return joined([self.search.still_open(), *(item.still_open() for item in self._others)])

    @property
    def _others(self) -> list[_Away]:
        return [item for item in self.sharing.away if item is not self.mine]


_UNKNOWN = StillOpen(least={"layouts not yet looked at": 0.0})
"""What is open of a share before its first answer."""


def _process(key: str, problem: Problem, share: Share) -> Executor:
    given = {item.name: getattr(problem, item.name) for item in fields(problem) if item.init}
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(1, mp_context=context, initializer=begin, initargs=(key, given, share))


@contextmanager
def sharing_of(problem: Problem, processes: int) -> Iterator[Sharing | None]:
    """Open the shares of a search by so many processes of this machine, this one included; None if by one."""
    if processes == 1:
        yield None
        return
    sharing = Sharing(problem, processes)
    try:
        yield sharing
    finally:
        sharing.close()
