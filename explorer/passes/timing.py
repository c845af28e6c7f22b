"""What a pass needs beside the program, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class Tasks(Protocol):
    """What a pass reads of a program (`explorer.tasks.program.Program`, or several merged)."""

    @property
    def slot(self) -> npt.NDArray[np.int64]:
        """Per task: what its duration depends on."""

    @property
    def channel(self) -> npt.NDArray[np.int64]:
        """Per task: exclusive channel; -1 for none."""

    @property
    def first(self) -> list[int]:
        """Per task: one predecessor + 1, or 0."""

    @property
    def second(self) -> list[int]:
        """Per task: another, or 0."""

    @property
    def size(self) -> int:
        """Number of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Rates that tasks share: what each slot asks of which resource while it runs unhindered."""

    capacity: FloatArray
    """Per resource: what it gives (bytes/s of a link, 1 of a device's compute)."""
    names: tuple[str, ...]
    """Per resource: its name."""
    demands: tuple[tuple[tuple[int, float], ...], ...]
    """Per slot: (resource, demand); () where a task shares nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timing:
    """When every task runs."""

    start_s: FloatArray
    """Per task."""
    end_s: FloatArray
    """Per task."""
    pass_name: str
    """`static` or `events`."""
