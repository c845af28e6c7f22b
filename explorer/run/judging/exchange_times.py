"""Exchange times: what exchanges of flat weights (ZeRO) add to the tasks of a run, from seconds timed apart.

The computing thread fills a flat tensor after a backward, and adds the parts up when they have come; a gather
it only begins. What is under way is done by threads of messages. On a processor they share the core of the
thread that computes, each runnable thread as much: an exchange that takes c seconds of a core and, alone,
t seconds of the clock, takes from every second of work beside it

    min(1, u / (1 - u)),  u = c / t

until it has had its c. If u is above a half it lasts longer than alone meanwhile. On a GPU c is 0: what
communication costs compute there is part of the layers' seconds, as everywhere.

Our ranks exchange the weights of a group at once, where frameworks do it block by block: so an exchange that
a program cuts into parts is whole here, before what waits for its first or after what ends its last part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from explorer.passes.static import run_each
from explorer.passes.timing import FloatArray
from explorer.run.cases.build import Prepared
from explorer.run.ranks.lane import LanePlan, RankLanes
from explorer.run.ranks.shard_rows import in_step, rows_of, sharded_groups
from explorer.run.spec import FlatGroup
from explorer.tasks.placement import Piece
from explorer.tasks.program import CLOSING, GATHER, HOST, OPENING, REDUCE


class ExchangeSeconds(NamedTuple):
    """Seconds of a scatter of gradients and of a gather of weights, by what they consist of."""

    fill_s: float
    """The computing thread lays gradients out next to each other, and begins a scatter."""
    scatter_s: float
    """Scatter under way, if nothing else runs."""
    scatter_core_s: float
    """What its threads take of the core."""
    take_s: float
    """The computing thread adds up the parts that came."""
    open_s: float
    """The computing thread begins a gather."""
    gather_s: float
    """Gather under way, if nothing else runs."""
    gather_core_s: float
    """What its threads take of the core."""


def exchange_seconds(rows: Iterable[Mapping[str, float]]) -> ExchangeSeconds:
    """Return what ranks and rounds timed of one size: means of the computing thread's work, which adds up,
    and medians of what is under way; zeros if no rank timed any.
    """
    timed = [row for row in rows if row]

    def over(choose: Callable[[Iterable[float]], float], name: str) -> float:
        return choose(row[name] for row in timed) if timed else 0.0

    return ExchangeSeconds(
        fill_s=over(fmean, "fill_s"), scatter_s=over(median, "scatter_s"),
        scatter_core_s=over(median, "scatter_core_s"), take_s=over(fmean, "take_s"),
        open_s=over(fmean, "open_s"), gather_s=over(median, "gather_s"),
        gather_core_s=over(median, "gather_core_s"),
    )  # fmt: skip


def with_exchanges(
    prepared: Prepared,
    seconds: FloatArray,
    groups: Mapping[int, FlatGroup],
    known: Mapping[FlatGroup, ExchangeSeconds],
) -> Prepared:
    """Return a case with its exchanges of flat weights as they were timed; as it is without any.

    Args:
        prepared: the case.
        seconds: those of every task without them.
        groups: its flat weights by the number of their group (`run.cases.flat_groups`).
        known: seconds by size.
    """
    if not groups or any(group not in known for group in groups.values()):
        return prepared
    times = {g: known[group] for g, group in groups.items()}
    found = _Seconds(prepared, seconds, times)
    for plan in found.plans:
        _Walk(found, plan).run()
    durations = found.durations + found.after
    for task, longer in found.longer.items():
        durations[task] += longer
    return replace(
        prepared, timing=run_each(prepared.program, durations), after_s=tuple(found.after.tolist())
    )


class _Seconds:
    """Seconds of all tasks of a program while its lanes are walked through."""

    def __init__(self, prepared: Prepared, seconds: FloatArray, times: Mapping[int, ExchangeSeconds]) -> None:
        program = prepared.program
        self.times, self.lanes = times, RankLanes(program)
        self.plans = [self.lanes.plan(i) for i in range(len(program.programs))]
        self.durations = seconds.copy()
        self.after = np.zeros(program.size)
        """Seconds of the computing thread between a task and the next."""
        self.longer: dict[int, float] = defaultdict(float)
        """Seconds by which an exchange lasts longer beside work, on the lane where that is most."""
        self.groups = {group.number: group for group in sharded_groups(program.skeleton)}
        self._exchanges(prepared)

    def groups_of(self, piece: Piece) -> list[int]:
        """Return the flat weights that a gather of a piece brings."""
        return [g for g in self.times if piece in self.groups[g].holders.pieces]

    def _exchanges(self, prepared: Prepared) -> None:
        """Set the seconds of exchanges under way."""
        program = prepared.program
        for task in np.flatnonzero(np.isin(program.kind, (REDUCE, GATHER))).tolist():
            slot = self.lanes.slot(task)
            if program.kind[task] == REDUCE and slot.where in self.times:
                whole = slot.part != OPENING
                self.durations[task] = self.times[slot.where].scatter_s * whole
            elif program.kind[task] == GATHER and slot.part != HOST:
                whole = slot.part != CLOSING
                parts = (self.times[g].gather_s for g in self.groups_of(slot.piece))
                self.durations[task] = sum(parts) * whole

    def waits_within(self, lane: int) -> dict[int, bool]:
        """Tell of each group whether a lane waits for a scatter before it begins the next."""
        found = {}
        for g, group in self.groups.items():
            for row in rows_of(group, self.lanes):
                if lane in row:
                    found[g] = in_step(self.plans[other] for other in row)
        return found


@dataclass(slots=True)
class _UnderWay:
    """An exchange under way on one lane."""

    task: int
    group: int
    """Group whose gradients are scattered; -1 for a gather."""
    core_s: float
    """What its threads have yet to take of the core."""
    share: float
    """Share of the core that they take if nothing else runs."""
    longer_s: float = 0.0
    """Seconds by which it lasts longer so far, beside work."""


class _Walk:
    """Walk through what one lane does, with the exchanges that are under way."""

    def __init__(self, seconds: _Seconds, plan: LanePlan) -> None:
        self.seconds, self.plan = seconds, plan
        self.waits = seconds.waits_within(plan.lane)
        self.under_way: list[_UnderWay] = []
        self.taken_s = 0.0
        """Seconds in which parts are added up before the next task."""

    def run(self) -> None:
        """Add what exchanges cost to the lane's tasks."""
        self._begin(0, None)
        for i, task in enumerate(self.plan.tasks):
            ended = {*task.reductions, *task.gathers}
            self.under_way = [item for item in self.under_way if item.task not in ended]
            work = float(self.seconds.durations[task.task])
            self.seconds.durations[task.task] += self.taken_s + sum(self._beside(work))
            self.taken_s = 0.0
            self._begin(i + 1, task.task)

    def _beside(self, work_s: float) -> Iterator[float]:
        """Yield the seconds that each exchange under way takes from some work of the computing thread."""
        for item in self.under_way:
            rate = min(1.0, item.share / (1 - item.share)) if item.share < 1 else 1.0
            taken = min(item.core_s, rate * work_s)
            if taken <= 0:
                continue
            item.core_s -= taken
            item.longer_s += taken / rate + taken - taken / item.share
            self.seconds.longer[item.task] = max(self.seconds.longer[item.task], item.longer_s)
            yield taken

    def _begin(self, position: int, task: int | None) -> None:
        """Begin the exchanges of a position, after a task if there is one."""
        spent = 0.0
        for item in self.plan.collectives[position]:
            if item.group in self.seconds.times:
                times = self.seconds.times[item.group]
                spent += self._rest_of(item.group) + times.fill_s
                self.taken_s += times.take_s
                self._add(item.task, item.group, times.scatter_core_s, times.scatter_s)
        for gather in self.plan.gathers[position]:
            if not gather.moved:
                for g in self.seconds.groups_of(gather.piece):
                    times = self.seconds.times[g]
                    spent += times.open_s
                    self._add(gather.task, -1, times.gather_core_s, times.gather_s)
        if task is not None:
            self.seconds.after[task] = spent

    def _rest_of(self, group: int) -> float:
        """Return what a scatter of the same group lasts yet, if the next begins after it."""
        mine = [item for item in self.under_way if item.group == group] if self.waits.get(group) else []
        self.under_way = [item for item in self.under_way if item not in mine]
        return sum(item.core_s / item.share for item in mine if item.share)

    def _add(self, task: int, group: int, core_s: float, seconds: float) -> None:
        share = min(1.0, core_s / seconds) if seconds else 0.0
        self.under_way.append(_UnderWay(task, group, min(core_s, seconds), share))


__all__ = ["ExchangeSeconds", "exchange_seconds", "with_exchanges"]
