"""Rows: a published measurement as a complete problem for the simulator, with the measured value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from explorer.base.registry import Registry, Spec
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.strategy import Strategy
from explorer.workload import Workload


class ScoredCase(NamedTuple):
    """Everything that `simulate` needs for one row."""

    graph: LayerGraph
    cluster: Cluster
    workload: Workload
    strategy: Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRow:
    """One measured configuration."""

    name: str
    """Name that tells it apart, for people."""
    line: int
    """Line (CSV, Markdown), element (JSON list, from 1) or 1 (one file per row)."""
    group: str
    """Name shared by rows of equal model, batch and devices: among these a user chooses."""
    case: ScoredCase
    """The problem."""
    measured: float
    """Measured value in the set's `unit`: usually seconds of one step."""
    measured_memory_bytes: float | None = None
    """Most bytes of memory in use on any device; None if unknown."""
    tensors_only: bool = False
    """Whether `measured_memory_bytes` is what an allocator allocated, not all that its process used."""
    predicted: Callable[[], float] | None = None
    """Returns the predicted quantity if it is not `step_time_s` (a ratio, say); None if it is."""
    note: Callable[[], str] | None = None
    """Returns a remark of the simulator on the row, in words; None if there is none."""


class RowProblem(NamedTuple):
    """A row that cannot be read."""

    file: str
    line: int
    message: str


class ReadRows(NamedTuple):
    """Rows and problems that a reader found in a file or folder."""

    rows: tuple[ScoredRow, ...]
    problems: tuple[RowProblem, ...]


Reader = Callable[[Path], ReadRows]
"""Reads one file or folder of a set. Raises InputError only if the file cannot be read at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSet(Spec):
    """Published measurements; its function is a `Reader`."""

    path: str
    """Path of its rows inside the reference folder; empty if its rows are only ever given."""
    device: tuple[str, ...]
    """Device kinds that it needs."""
    source: str
    """Owner of the measurements: leaving a source out keeps sources apart."""
    unit: str
    """Unit of `measured`: `s`, `ratio`, `flops_per_s`, `samples_per_s` or `tokens_per_s`."""
    framework: str = ""
    """Software that ran them; empty if no device is that of a profile."""

    def read(self, path: Path) -> ReadRows:
        """Read one file or folder of the set.

        Raises:
            InputError: it cannot be read at all.
        """
        found: ReadRows = self.function(path)
        return found


SETS: Registry[MeasuredSet] = Registry("set of measurements", "explorer.score.sets", MeasuredSet)
"""Sets by name."""


def published() -> list[str]:
    """Return the names of the sets whose rows lie in the reference folder."""
    return [name for name in SETS.names() if SETS.get(name).path]
