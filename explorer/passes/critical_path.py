"""Critical path: the gapless chain of tasks that decides how long a step takes.

It is found backwards from the last end: of everything a task had to wait for, the one that ended last decided
its start. A task waits for its data, for its lane (the previous task there) or for its channel (a wire or
process group carries one thing at a time); the passes hold all three as predecessors. In both passes a task
starts exactly when its last predecessor ends, so the chain has no gaps; under a dispatch policy a start may
come later, and that time is kept as a wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from explorer.passes.timing import FloatArray, Tasks, Timing
from explorer.tasks.program import JOIN, KINDS, TRANSFER

IntArray = npt.NDArray[np.int64]

START, LANE, CHANNEL, DATA = range(4)
REASONS = ("start", "lane", "channel", "data")
"""Reasons for a task's start: nothing before it, the previous task of its lane or of its channel, or the data
it reads."""
PARTS = (*KINDS[:JOIN], "collective", "contention", "wait")
"""Parts of the path's seconds: kinds of tasks, collectives inside compute, time lost to shared links that are
asked for more than they have, and waits."""
ROUNDING = 1e-9
"""Relative difference of times up to which they count as the same moment."""


class PathTasks(Tasks, Protocol):
    """The part of a program (`explorer.tasks.program.Program`) that the search for a critical path reads."""

    @property
    def kind(self) -> npt.NDArray[np.int8]:
        """Index in `KINDS` of each task."""

    @property
    def lane(self) -> IntArray:
        """Lane that computes or sends each task; -1 for joins."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CriticalPath:
    """A chain of tasks in the order of time."""

    tasks: IntArray
    """Numbers of the tasks, without joins."""
    reason: tuple[str, ...]
    """Reason for each task's start, one of `REASONS`."""
    wait_s: FloatArray
    """Seconds between the end of the previous task (or time 0) and the start of each task."""
    length_s: float
    """Seconds from time 0 to the end of the last task."""
    parts_s: dict[str, float]
    """Seconds by `PARTS`; they add up to `length_s`."""


def critical_path(
    program: PathTasks, timing: Timing, seconds: FloatArray, comm_s: FloatArray, among: IntArray | None = None
) -> CriticalPath:
    """Find the chain of tasks that ends last.

    Args:
        program: the tasks with their predecessors.
        timing: start and end of each task.
        seconds: duration per slot of a task that nothing slows down.
        comm_s: the part of it, per slot, that is collectives inside compute.
        among: tasks (for example one step's) whose last end is explained; None for all.
    """
    last = _last(program, timing, among)
    tasks = _walk(program, timing, last) if last >= 0 else np.zeros(0, dtype=np.int64)
    start, end = timing.start_s[tasks], timing.end_s[tasks]
    before = np.concatenate(([0.0], end[:-1])) if len(tasks) else np.zeros(0)
    wait = start - before
    wait[wait <= ROUNDING * np.maximum(end, 1e-300)] = 0.0
    length = float(end[-1]) if len(tasks) else 0.0
    return CriticalPath(
        tasks=tasks,
        reason=_reasons(program, tasks),
        wait_s=wait,
        length_s=length,
        parts_s=_parts(program, tasks, end - before - wait, wait, seconds, comm_s),
    )


def _last(program: PathTasks, timing: Timing, among: IntArray | None) -> int:
    """Return the task that ends last, of several the first; -1 if there is none."""
    chosen = np.arange(program.size) if among is None else among
    chosen = chosen[program.kind[chosen] != JOIN]
    return int(chosen[np.argmax(timing.end_s[chosen])]) if len(chosen) else -1


def _walk(program: PathTasks, timing: Timing, last: int) -> IntArray:
    """Walk back along a task's chain; of predecessors that end together, the one on its lane counts."""
    end, lane, kind = timing.end_s.item, program.lane.item, program.kind.item
    first, second = program.first.item, program.second.item
    found, task = [last], last
    while True:
        one, other = first(task) - 1, second(task) - 1
        if one < 0 and other < 0:
            return np.array(found[::-1], dtype=np.int64)
        if one < 0 or other < 0:
            task = max(one, other)
        else:
            on = lane(found[-1])
            task = max(one, other, key=lambda number: (end(number), lane(number) == on))
        if kind(task) != JOIN:
            found.append(task)


def _reasons(program: PathTasks, tasks: IntArray) -> tuple[str, ...]:
    follows = program.channel[tasks[1:]] == program.channel[tasks[:-1]]
    computes = program.kind[tasks[1:]] < TRANSFER
    reasons = np.where(follows, np.where(computes, LANE, CHANNEL), DATA)
    return (REASONS[START], *(REASONS[reason] for reason in reasons.tolist())) if len(tasks) else ()


def _parts(
    program: PathTasks,
    tasks: IntArray,
    spent_s: FloatArray,
    wait_s: FloatArray,
    seconds: FloatArray,
    comm_s: FloatArray,
) -> dict[str, float]:
    """Split the path's seconds into parts: what each task needs unhindered, and contention for the rest."""
    slot, kind = program.slot[tasks], program.kind[tasks]
    hindered = spent_s - seconds[slot]
    hindered[hindered <= ROUNDING * np.maximum(spent_s, 1e-300)] = 0.0
    inside = np.minimum(comm_s[slot], spent_s)
    own = spent_s - hindered - inside
    sums = np.bincount(kind, weights=own, minlength=JOIN)
    found = {name: float(sums[k]) for k, name in enumerate(KINDS[:JOIN])}
    return found | {
        "collective": float(inside.sum()), "contention": float(hindered.sum()), "wait": float(wait_s.sum())
    }  # fmt: skip
