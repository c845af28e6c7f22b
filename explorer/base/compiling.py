"""Kernels: one function each, run plainly by Python while little is to do and compiled once that pays.

A kernel is written in the common subset of Python and numba: loops over one-dimensional arrays, which it is
given as lists when it runs plainly, and the last of which it fills with results. Room to work in is among its
arguments: then nothing is allocated inside, and arrays go to its helpers without their references being
counted, which in small helpers takes longer than their work. Both ways do the same
operations in the same order, so results are equal bit for bit; which way is taken depends on counted work
alone, never on a clock.

>>> @kernel(results=1)
... def running_sum(values, sums):
...     total = 0.0
...     for i, value in enumerate(values):
...         total += value
...         sums[i] = total
>>> sums = np.zeros(3)
>>> running_sum(np.array([1.0, 2.0, 3.0]), sums)
>>> sums.tolist()
[1.0, 3.0, 6.0]

What it costs to compile is rented before it is bought (ski rental): numba is imported once all kernels of
this process together have done as many rounds as importing it takes, and a kernel is compiled once its own
rounds would have paid for reading it back from the disk, where numba keeps it beside the source (or in the
user's cache folder). Where no folder can be written a kernel has to pay for its compilation in every process.
While one thread compiles, others go on plainly. Nothing is compiled under `NUMBA_DISABLE_JIT`, nor where
numba cannot be imported.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from types import FunctionType, ModuleType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from explorer.base.checkpoints import checkpoint

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

IMPORT_ROUNDS = 5_000_000
"""Rounds of plain loops (some 0.1 microseconds each) that take as long as importing numba: half a second."""
KERNEL_ROUNDS = 200_000
"""Rounds of one kernel that take as long as reading its machine code from the disk."""
COMPILE_ROUNDS = 20_000_000
"""Rounds of one kernel that take as long as compiling it, which counts where nothing can be kept."""


class _Work:
    """Work of this process so far, and numba once it is imported."""

    def __init__(self) -> None:
        self.rounds = 0
        self.lock = Lock()
        self.numba: ModuleType | None = None
        self.absent = False
        """Whether compiling is switched off or impossible here."""
        self.forced: bool | None = None
        """Whether all kernels run compiled, whatever pays; None to count."""
        self.background = False
        """Whether kernels are compiled on a thread of their own."""


_WORK = _Work()


def expect(rounds: int) -> None:
    """Count work that is to come, so that a long search need not first do half a second of it plainly."""
    _WORK.rounds += rounds


def compile_in_background() -> None:
    """Compile on a thread of its own from now on, while kernels go on plainly: for a process that lives long
    and in which somebody waits for every answer.
    """
    _WORK.background = True


@contextmanager
def forced(*, compiled: bool) -> Iterator[None]:
    """Run all kernels of all threads one way meanwhile, whatever pays: for tests and benchmarks."""
    before, _WORK.forced = _WORK.forced, compiled
    try:
        yield
    finally:
        _WORK.forced = before


class Kernel(Generic[P, T]):
    """A function that runs plainly or compiled; made by `kernel`.

    Args:
        function: the function; it may call others of its own file.
        results: number of arrays, the last arguments, that it fills.
        rounds: rounds of plain loops that it takes for some arguments.
        lists: whether it makes lists of its own.
    """

    def __init__(
        self, function: Callable[P, T], results: int, rounds: Callable[..., int], *, lists: bool
    ) -> None:
        self.function = function
        self.lists = lists
        self.name = function.__name__
        self.results = results
        self.rounds_of = rounds
        self.rounds = 0
        self._machine: Callable[..., T] | None = None
        self._refused = False
        """Whether numba does not compile it."""

    def __call__(self, *arguments: P.args, **_: P.kwargs) -> T:
        """Run the kernel on arrays and numbers, the way that pays."""
        checkpoint()
        return self.compiled(*arguments) if self.compiles(*arguments) else self.plain(*arguments)

    def compiles(self, *arguments: Any) -> bool:
        """Count the work of a call, and tell whether it will run compiled: who has a faster way than the
        kernel's own plain one asks before the call.
        """
        if _WORK.forced is not None:
            return _WORK.forced and self._ready(arguments)
        if self._machine is None:
            rounds = self.rounds_of(*arguments)
            self.rounds += rounds
            _WORK.rounds += rounds
            return self._pays() and self._bought(arguments)
        return True

    def plain(self, *arguments: Any) -> T:
        """Run the kernel as plain Python, over lists."""
        lists = [item.tolist() if isinstance(item, np.ndarray) else item for item in arguments]
        function: Callable[..., T] = self.function
        found = function(*lists)
        for array, values in zip(arguments[-self.results :], lists[-self.results :], strict=True):
            array[:] = values
        return found

    def compiled(self, *arguments: Any) -> T:
        """Run the kernel compiled, whatever that costs now; plainly where nothing can be compiled."""
        return self._machine(*arguments) if self._ready(arguments) else self.plain(*arguments)  # type: ignore[misc]

    def _ready(self, arguments: tuple[Any, ...]) -> bool:
        if self._machine is None:
            with _WORK.lock:
                self._buy(arguments)
        return self._machine is not None

    def _pays(self) -> bool:
        known = _WORK.numba is not None
        possible = not (_WORK.absent or self._refused)
        return possible and self.rounds >= KERNEL_ROUNDS and (known or _WORK.rounds >= IMPORT_ROUNDS)

    def _bought(self, arguments: tuple[Any, ...]) -> bool:
        """Compile, or tell that another thread is at it: then this one goes on plainly."""
        if not _WORK.lock.acquire(blocking=False):
            return False
        if _WORK.background:
            try:
                Thread(target=self._buy_and_release, args=(arguments,), name="compiling").start()
            except RuntimeError:  # no more threads, or the process is about to end
                _WORK.lock.release()
            return False
        return self._buy_and_release(arguments)

    def _buy_and_release(self, arguments: tuple[Any, ...]) -> bool:
        try:
            return self._buy(arguments, least=COMPILE_ROUNDS)
        finally:
            _WORK.lock.release()

    def _buy(self, arguments: tuple[Any, ...], *, least: int = 0) -> bool:
        """Compile for the types of some arguments, under the lock; False if that is impossible or, where the
        code cannot be kept, not worth it yet.
        """
        numba = None if self._machine or self._refused else _import_numba()
        if numba is None:
            return self._machine is not None
        try:
            return self._translate(numba, arguments, least)
        except Exception as error:
            if _WORK.forced:
                raise
            # a numba newer or older than this was written for: what it refuses runs plainly
            logger.warning("%s runs plainly, numba refuses it: %s", self.name, str(error).split("\n")[0])
            self._refused = True
            return False

    def _translate(self, numba: ModuleType, arguments: tuple[Any, ...], least: int) -> bool:
        """Compile; False if the code cannot be kept and is not worth it yet."""
        machine, kept = self._translated(numba, keep=True)
        if kept is None and self.rounds < least:
            return False
        try:
            _compile(machine, kept, self.name, arguments)
        except (OSError, EOFError) as error:  # a full disk, a broken file
            logger.warning("%s: the compiled code cannot be kept: %s", self.name, error)
            machine, _ = self._translated(numba, keep=False)
            _compile(machine, None, self.name, arguments)
        self._machine = machine
        return True

    def _translated(self, numba: ModuleType, *, keep: bool) -> tuple[Any, Path | None]:
        """Return the function for the compiler, and the folder where its code is kept; None if nowhere."""
        # Without numba's run time (nrt) no references are counted, and nothing can be allocated.
        njit = partial(numba.njit, nogil=True, _nrt=self.lists)
        whole = _with_helpers(partial(njit, inline="always"), cast("FunctionType", self.function))
        if keep:
            try:
                machine = njit(cache=True)(whole)
                return machine, Path(machine.stats.cache_path)
            except RuntimeError:  # no folder can be written
                pass
        return njit()(whole), None


def kernel(
    *, results: int, rounds: Callable[..., int] = lambda first, *_: len(first), lists: bool = False
) -> Callable[[Callable[P, T]], Kernel[P, T]]:
    """Return a decorator that makes a function a kernel.

    The function takes one-dimensional arrays and numbers by position, fills its last `results` arguments,
    and may return a number. It may use `math`, and functions and constants of its own file, as numba looks
    for changes in that file only; none of them may call itself. With `lists` it may make lists, and use
    `heapq`.

    Args:
        results: number of arrays, the last arguments, that it fills; at least 1.
        rounds: function of the arguments to the rounds of plain loops that they take (some 0.1 microseconds
            each); the length of the first argument by default.
        lists: whether it makes lists of its own.
    """
    return lambda function: Kernel(function, results, rounds, lists=lists)


def _import_numba() -> ModuleType | None:
    """Import numba, once; None if compiling is switched off or impossible here. Called under the lock."""
    if _WORK.numba is None and not _WORK.absent:
        if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
            _WORK.absent = True
            return None
        try:
            import numba
        except ImportError as error:  # of a NumPy newer than it knows, for example
            _WORK.absent = True
            logger.warning("without numba large plans take longer: %s", error)
            return None
        _WORK.numba = numba
    return _WORK.numba


def _with_helpers(njit: Callable[[], Any], function: FunctionType) -> FunctionType:
    """Return a function under whose names the functions of its own file are compiled ones."""
    scope = function.__globals__
    helpers = {
        name: njit()(_with_helpers(njit, item))
        for name in function.__code__.co_names
        if isinstance(item := scope.get(name), FunctionType) and item.__module__ == function.__module__
    }
    copy = FunctionType(function.__code__, scope | helpers, function.__name__, function.__defaults__)
    copy.__qualname__ = function.__qualname__
    return copy


def _compile(machine: Any, folder: Path | None, name: str, arguments: tuple[Any, ...]) -> None:
    """Compile for the types of some arguments, and say so unless the code is on the disk already."""
    known = folder is not None and any(folder.glob(f"*{name}*.nbi"))
    if not known:
        logger.info("compiling %s, once%s", name, f" (kept in {folder})" if folder else " in this process")
    begun = time.perf_counter()
    machine.compile(tuple(sys.modules["numba"].typeof(item) for item in arguments))
    logger.debug("%s is ready after %.2f s", name, time.perf_counter() - begun)
