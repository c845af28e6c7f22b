"""Inputs of a pass other than the program, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Tasks(Protocol):
    """The part of a program (`explorer.tasks.program.Program`, or several merged) that a pass reads."""

    @property
    def slot(self) -> npt.NDArray[np.int64]:
        """Slot of each task: what its duration depends on."""

    @property
    def channel(self) -> npt.NDArray[np.int64]:
        """Exclusive channel of each task; -1 for none."""

    @property
    def first(self) -> npt.NDArray[np.int64]:
        """One predecessor + 1 of each task; 0 for none."""

    @property
    def second(self) -> npt.NDArray[np.int64]:
        """Another predecessor + 1 of each task; 0 for none."""

    @property
    def size(self) -> int:
        """Number of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Rates that tasks share: what each slot asks of which resource while it runs unhindered."""

    capacity: FloatArray
    """Amount that each resource gives (bytes/s of a link, 1 of a device's compute)."""
    names: tuple[str, ...]
    """Name of each resource."""
    demands: tuple[tuple[tuple[int, float], ...], ...]
    """(resource, demand) pairs of each slot; () if it shares nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing:
    """Start and end of every task."""

    start_s: FloatArray
    """Seconds at which each task starts."""
    end_s: FloatArray
    """Seconds at which each task ends."""
    pass_name: str
    """Pass that decided: `static` or `events`."""
