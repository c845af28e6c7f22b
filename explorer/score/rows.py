"""Rows: a published measurement as a complete problem for the simulator, with the measured value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from explorer.base.registry import Registry, Spec
from explorer.cluster import Cluster, DeviceKind
from explorer.framework import Framework
from explorer.framework_files import load_framework
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
    amount: float = 0.0
    """Tokens, samples or operations of a step where the quantity is so many of them a second, and follows
    from the seconds of the step alone; 0 elsewhere."""
    predicted: Callable[[], float] | None = None
    """Returns the predicted quantity if it does not follow from `step_time_s` (a ratio, say)."""
    note: Callable[[], str] | None = None
    """Returns a remark of the simulator on the row, in words; None if there is none."""
    source: str = ""
    """Owner of the measurement; empty for that of its set."""

    @property
    def kinds(self) -> tuple[DeviceKind, ...]:
        """Device kinds of the nodes that it ran on."""
        used = {group.device_kind for group in self.case.cluster.nodes}
        return tuple(kind for kind in self.case.cluster.device_kinds if kind.name in used)

    @property
    def layout(self) -> str:
        """How its first stage works on its devices, in words: `replica 4, tensor 8, stages 2, zero 3`."""
        stages = self.case.strategy.jobs[0].stages
        axes = [f"{axis} {size}" for axis, size in stages[0].meshes[0].axes]
        found = [*axes, f"stages {len(stages)}", f"zero {stages[0].zero}", f"recompute {stages[0].recompute}"]
        return ", ".join(found)

    @property
    def framework(self) -> Framework:
        """Software that ran it, with its year."""
        return load_framework(self.case.workload.jobs[0].framework)


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
