"""Peak bytes of tensors while something runs: of the allocator on a GPU, of every allocation on a processor.

On a processor torch's profiler hears of each allocation and release of the thread that computes, temporaries
inside kernels included. That costs time, so a run that is counted is not timed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

_MEMORY_EVENT = "[memory]"


class PeakBytes:
    """The peak of one counted run."""

    peak: float = 0.0
    """Most bytes of tensors at once; 0 until the run has ended."""


@contextmanager
def counted(device: torch.device, held: Iterable[torch.Tensor]) -> Iterator[PeakBytes]:
    """Count the tensors of what runs inside.

    Args:
        device: where it computes.
        held: tensors that it starts with, which count as well.
    """
    found, before = PeakBytes(), bytes_of(held)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        start = torch.cuda.memory_allocated(device)
        yield found
        torch.cuda.synchronize(device)
        found.peak = before + torch.cuda.max_memory_allocated(device) - start
        return
    with _profiler() as profiler:
        yield found
    found.peak = before + highest(
        [
            float(event.nbytes())  # type: ignore[attr-defined]
            for event in sorted(_events(profiler), key=lambda event: event.start_ns())
            if event.name() == _MEMORY_EVENT
        ]
    )


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
    with _profiler():
        torch.zeros(1)


def _profiler() -> torch.profiler.profile:
    activities = [torch.profiler.ProfilerActivity.CPU]
    return torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True)


def _events(profiler: torch.profiler.profile) -> list[torch._C._autograd._KinetoEvent]:
    inner = profiler.profiler
    return [] if inner is None or inner.kineto_results is None else inner.kineto_results.events()
