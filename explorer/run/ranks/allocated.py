"""Peak bytes of tensors while something runs: of the allocator on a GPU, of every allocation on a processor.

On a processor torch's profiler hears of each allocation and release of the thread that computes, temporaries
inside kernels included, but of no release of what was there before it first listened. That costs time, so a
run that is counted is not timed. It is started below its Python front, which always records operators too:
those of collectives end in threads of their own, and torch 2.13 now and then dies of a wild pointer when it
makes text of them. Only a scope that nothing here enters is recorded, so that memory is all it hears of.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch._C import _autograd, _profiler

_MEMORY_EVENT = "[memory]"
LET_GO_S = 1.0
"""Longest wait in seconds for a thread of gloo to let go of tensors: who else holds one would be waited for
forever.
"""


class PeakBytes:
    """The peak of one counted run."""

    peak: float = 0.0
    """Most bytes of tensors at once; 0 until the run has ended."""


@contextmanager
def counted(device: torch.device, held: Iterable[torch.Tensor]) -> Iterator[PeakBytes]:
    """Count the tensors of what runs inside.

    Args:
        device: where it computes.
        held: tensors that it starts with, which count as long as they are there.
    """
    found = PeakBytes()
    storages = {item.untyped_storage().data_ptr(): item.untyped_storage() for item in held}
    del held  # versions of weights go while it counts: here they must not stay
    before = float(sum(storage.nbytes() for storage in storages.values()))
    if device.type == "cuda":
        storages.clear()
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        start = torch.cuda.memory_allocated(device)
        yield found
        torch.cuda.synchronize(device)
        found.peak = before + torch.cuda.max_memory_allocated(device) - start
        return
    with _memory_changes():  # apart: what is given back here may be said to be of any size
        while storages:
            _place_anew(storages.popitem()[1])
    with _memory_changes() as changes:
        yield found
    found.peak = before + highest(changes)


def _place_anew(storage: torch.UntypedStorage) -> None:
    """Give a storage fresh memory for its values, so that its release is heard; all its tensors stay so."""
    size, values = storage.nbytes(), torch.empty(0, dtype=torch.uint8).set_(storage)
    aside = torch.from_numpy(np.empty(size, dtype=np.uint8))  # outside of torch's allocator, which is counted
    aside.copy_(values)
    storage.resize_(0)
    storage.resize_(size)
    values.set_(storage).copy_(aside)


@contextmanager
def until_let_go(*tensors: torch.Tensor) -> Iterator[None]:
    """Wait, after a collective of gloo that is run inside, until its thread has let go of tensors.

    That thread holds them a moment longer than who waits for the collective. Were it the last to let go of
    one, its release would not be heard. It is not waited for longer than `LET_GO_S`.
    """
    before = _users(tensors)
    yield
    _wait_for_users(tensors, before)


def wait_until_let_go(tensor: torch.Tensor) -> None:
    """Wait, after a collective of gloo has ended, until its thread has let go of a tensor that its caller
    alone holds; as `until_let_go`.
    """
    _wait_for_users([tensor], 1)


def _wait_for_users(tensors: Sequence[torch.Tensor], most: int) -> None:
    if tensors and tensors[0].device.type == "cpu":
        end = time.perf_counter() + LET_GO_S
        while _users(tensors) > most and time.perf_counter() < end:
            time.sleep(0)


def _users(tensors: Iterable[torch.Tensor]) -> int:
    return sum(item._use_count() for item in tensors)  # type: ignore[attr-defined]  # missing from torch's stubs


def bytes_of(tensors: Iterable[torch.Tensor]) -> float:
    """Sum the bytes of tensors, memory that several share once."""
    storages = {item.untyped_storage().data_ptr(): item.untyped_storage().nbytes() for item in tensors}
    return float(sum(storages.values()))


def highest(changes: Iterable[float]) -> float:
    """Return the highest level that changes reach from 0.

    >>> highest([3, 4, -5, 2])
    7.0
    """
    level = peak = 0.0
    for change in changes:
        level += change
        peak = max(peak, level)
    return peak


def prepare_counting() -> None:
    """Import and start what `counted` needs once: the first time takes seconds."""
    with _memory_changes():
        torch.zeros(1)


@contextmanager
def _memory_changes() -> Iterator[list[float]]:
    """Yield a list that holds, once this has ended, the bytes of every allocation (+) and release (-) of this
    thread, in sequence.
    """
    changes: list[float] = []
    activities = {_profiler.ProfilerActivity.CPU}
    recorded = (False, True, False, False, False)  # shapes, memory, stacks, FLOPs, modules
    config = _profiler.ProfilerConfig(
        _profiler.ProfilerState.KINETO, *recorded, _profiler._ExperimentalConfig(), ""
    )
    _autograd._prepare_profiler(config, activities)
    # its third argument is missing from torch's stubs
    _autograd._enable_profiler(config, activities, {_profiler.RecordScope.LITE_INTERPRETER})  # type: ignore[call-arg]
    try:
        yield changes
    finally:
        events = _autograd._disable_profiler().events()
        found = [event for event in events if event.name() == _MEMORY_EVENT]
        found.sort(key=lambda event: event.start_ns())
        changes += [float(event.nbytes()) for event in found]  # type: ignore[attr-defined]
