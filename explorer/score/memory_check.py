"""Memory verdicts on runs that ran: none of them should be called too large, none that is too large a fit.

Published runs fitted, whatever they held. How often one of them is called *does not fit* is one error of the
verdicts. The other is found by replaying a run's plan with a caching allocator
(`explorer.simulation.allocator_replay`) and asking for the verdict on devices so small that what the replay
reserves is `ABOVE` times their memory: *fits* would be wrong there.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from explorer.base.errors import ExplorerError
from explorer.cluster import Cluster
from explorer.cluster.memory_room import DOES_NOT_FIT, FITS, MAY_FIT, VERDICTS, memory_room
from explorer.score.rows import SETS
from explorer.simulation.allocator_replay import replay
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate

ABOVE = 1.1
"""What a replay reserves over the memory of devices on which its plan must not be called a fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChecked:
    """Verdicts on the runs of one set."""

    source: str
    """Owner of the measurements."""
    verdicts: tuple[int, int, int]
    """Runs by verdict, in the order of `VERDICTS`."""
    replayed: int
    """Runs that an allocator replayed."""
    called_fits: int
    """Of these, runs called a fit on devices that they overfill by `ABOVE`."""

    @property
    def rows(self) -> int:
        """Number of runs that have a verdict."""
        return sum(self.verdicts)

    @property
    def refused(self) -> int:
        """Runs that ran and are called *does not fit*."""
        return self.verdicts[VERDICTS.index(DOES_NOT_FIT)]


def check_memory(name: str, path: Path, *, every: int = 1) -> MemoryChecked:
    """Return the verdicts on the runs of a set; those whose plan is not published in full are left out.

    Args:
        name: name of the set.
        path: place of its rows.
        every: of how many runs one is replayed.

    Raises:
        InputError: the set is unknown, or its file cannot be read at all.
    """
    verdicts: Counter[str] = Counter()
    replayed = called_fits = 0
    one = SETS.get(name)
    for i, row in enumerate(one.read(path).rows):
        if row.predicted is not None and row.measured_memory_bytes is None:
            continue  # the best of several plans, or a ratio of two runs
        try:
            report = simulate(*row.case)
        except ExplorerError:
            continue  # `score` lists it among its problems
        verdicts[report.memory_verdict] += 1
        if i % every == 0:
            replayed += 1
            called_fits += overfilled_fits(report, row.case.cluster)
    return MemoryChecked(
        source=one.source, verdicts=(verdicts[FITS], verdicts[MAY_FIT], verdicts[DOES_NOT_FIT]),
        replayed=replayed, called_fits=called_fits,
    )  # fmt: skip


def overfilled_fits(report: Report, cluster: Cluster) -> bool:
    """Tell whether a plan is called a fit where a replay of it reserves `ABOVE` times a device's memory.

    Every lane is asked on devices as small as that for it alone; one that is called a fit is enough.

    Args:
        report: of the plan.
        cluster: its devices, under the framework that ran.
    """
    for lane, peak in enumerate(report.peak_memory_bytes):
        kind = cluster.kind_of(report.lane_devices[lane][0])
        reserved = replay(report, lane).reserved_bytes + kind.reserved_bytes
        if memory_room(replace(kind, memory_bytes=reserved / ABOVE)).verdict(peak) == FITS:
            return True
    return False
