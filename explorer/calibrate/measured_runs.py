"""Measured runs: a plan with the step time, and perhaps the peak of memory, that somebody saw.

What cannot be is refused before anything is learned from it: a step faster than the devices' peaks allow,
more memory than a device has, devices that the cluster lacks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.base.units import format_bytes, format_seconds
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy
from explorer.workload import Workload

PROCESS, RESERVED, ALLOCATED = "process", "reserved", "allocated"
MEMORIES = (PROCESS, RESERVED, ALLOCATED)
"""Whose memory: all of a process, as nvidia-smi shows it; what its allocator took; what its tensors use."""
_ROUNDING = 1.01  # numbers are typed in with three digits


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """One measured run.

    Raises:
        InputError: a time that is not above 0, memory below 0, or unknown whose memory.
    """

    name: str
    """Name for people: the plan's file."""
    graph: LayerGraph
    """The model."""
    workload: Workload
    """The workload, of one job."""
    strategy: Strategy
    """The strategy that ran."""
    step_time_s: float
    """Measured seconds of one step, a median if there were several."""
    spread: float = 0.0
    """Standard deviation of the logarithm of that median; 0 if unknown."""
    memory_bytes: float = 0.0
    """Most bytes on any device; 0 if not measured."""
    memory_of: str = PROCESS
    """Whose bytes: one of `MEMORIES`."""

    def __post_init__(self) -> None:
        if not 0 < self.step_time_s < math.inf:
            raise InputError(
                f"a step of {self.step_time_s:g} s", key="step_time_s", found=self.step_time_s,
                allowed="seconds above 0",
            )  # fmt: skip
        if not (0 <= self.memory_bytes < math.inf and self.spread >= 0):
            raise InputError(
                f"a peak of {self.memory_bytes:g} bytes", key="memory_bytes", found=self.memory_bytes,
                allowed="bytes above 0",
            )  # fmt: skip
        if self.memory_of not in MEMORIES:
            raise InputError(
                f"memory of {self.memory_of!r}", key="memory_of", found=self.memory_of,
                allowed=", ".join(MEMORIES),
            )  # fmt: skip

    def report(self, cluster: Cluster) -> Report:
        """Predict the run on a cluster.

        Raises:
            ExplorerError: the strategy does not fit the cluster.
        """
        return simulate(self.graph, cluster, self.workload, self.strategy)


def require_possible(run: MeasuredRun, report: Report) -> None:
    """Check a run, of which this is predicted, against what its devices can do at all.

    Raises:
        InputError: it is faster than the peaks of its devices, or had more memory than they have.
    """
    if report.mfu is not None:
        mfu = report.mfu * report.step_time_s / run.step_time_s
        if mfu > _ROUNDING:
            least = run.step_time_s * mfu
            raise InputError(
                f"{run.name}: a step of {format_seconds(run.step_time_s)} would take {mfu:.0%} of the"
                f" devices' peak, which allows {format_seconds(least)} at best: another plan, batch or unit?",
                key="step_time_s", found=run.step_time_s, allowed=f"{least:.4g} s or more",
            )  # fmt: skip
    room = max(report.capacity_bytes)
    if run.memory_bytes > room * _ROUNDING:
        raise InputError(
            f"{run.name}: a peak of {format_bytes(run.memory_bytes)} on devices of {format_bytes(room)}:"
            " another cluster, or the sum of several devices?",
            key="memory_bytes", found=run.memory_bytes, allowed=f"at most {format_bytes(room)}",
        )  # fmt: skip


def predicted_memory(report: Report, memory_of: str) -> float:
    """Return the most bytes on any device that a report predicts, of a process or a part of it."""
    if memory_of == ALLOCATED:
        return max(report.allocated_memory_bytes)
    context = MEMORY_PARTS.index("reserved") if memory_of == RESERVED else None
    return max(
        sum(size for i, size in enumerate(parts) if i != context) for parts in report.memory_parts_bytes
    )
