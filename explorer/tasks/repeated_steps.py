"""Steps that repeat: the first is lowered, the others are copies of its tasks that wait for the one before.

A schedule that flushes orders every step alike, with the numbers of microbatches moved on. Between two steps
only these wait for one another: the first and last task of each lane, wire and group, and the first forward
of a stage for its weights that ZeRO gathers after the update. Where that raises the levels of all tasks of a
step by one number, the sequence of its wires and groups is that of the step before.

Whatever makes steps differ (updates that exchange every so often or late, weights gathered before every
action, weights of older versions, actions placed by name) is lowered over all steps at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.actions import Actions, Order, Repeated, Shape
from explorer.reads import reading_of
from explorer.tasks.indexing import NO_INTS, IntArray, numbered, packed, sorting
from explorer.tasks.program import GATHER, JOIN, REDUCE, TRANSFER, MemoryEvents, Program
from explorer.tasks.sequence import Sequence
from explorer.tasks.skeleton import Holders, Skeleton
from explorer.tasks.work import Lowering
from explorer.updates import GRADIENTS, rule_of


def first_step(skeleton: Skeleton, shape: Shape, order: Order) -> Order | None:
    """Return the order of the first step if all steps repeat it; None if they may differ."""
    special = order.blocking or order.edges or order.assignments
    if order.steps < 2 or special or not (order.flush and reading_of(order.read_rule).newest):
        return None
    if not all(isinstance(lane, Repeated) and lane.times == order.steps for lane in order.lanes):
        return None
    if not shape.training or not all(skeleton.updates):
        return None
    if any(section.zero > 2 and section.shards > 1 for section in skeleton.sections):
        return None
    if not all(_every_update_alike(group) for group in skeleton.holders):
        return None
    lanes = tuple(lane.part for lane in order.lanes if isinstance(lane, Repeated))
    return replace(order, lanes=lanes, steps=1)


def _every_update_alike(group: Holders) -> bool:
    rule = rule_of(group.update)
    return rule.period * group.turn[1] == 1 and not rule.delay and rule.exchanges == GRADIENTS


MOST_RUNS = 64
"""Runs of lanes with as many memory events each, up to which these are put together run by run."""


class Crossings(NamedTuple):
    """What the tasks of one step wait for in the step before."""

    after: IntArray
    """Waiting task, in ascending order."""
    before: IntArray
    """Task of the step before."""
    rise: int
    """Levels from one step to the next."""


def find_crossings(work: Lowering, found: Sequence) -> Crossings | None:
    """Return the waits between two steps; None if steps differ.

    Args:
        work: the first step.
        found: its sequence.
    """
    if work.pieces.shared or any(work.marks) or not work.in_order or not _within_step(work):
        return None
    filled = np.flatnonzero(np.diff(work.program_start))
    channel = work.channel
    apart = np.array([name[0] != "lane" for name in work.channels], dtype=bool)[channel]
    opens = np.flatnonzero(apart & (found.previous < 0))
    closes = apart.copy()
    closes[found.previous[apart & (found.previous >= 0)]] = False
    closes = np.flatnonzero(closes)
    forward, gather = _gathered(work)
    after = np.concatenate(
        [work.program[work.program_start[filled]], opens[np.argsort(channel[opens])], forward]
    )
    before = np.concatenate(
        [work.program[work.program_start[filled + 1] - 1], closes[np.argsort(channel[closes])], gather]
    )
    order = np.argsort(after, kind="stable")
    after, before = after[order], before[order]
    waits = np.full(work.size, -1, dtype=np.int64)
    np.maximum.at(waits, after, found.level[before] + 1)
    starts = waits[found.level == 0]
    rise = int(starts.max(initial=0))
    if not len(starts) or starts.min() < rise or (waits > found.level + rise).any():
        return None
    return Crossings(after, before, rise)


def _within_step(work: Lowering) -> bool:
    """Tell whether every action is on microbatches of the step, and every stage has the same samples."""
    _, stage, first, count, _, _ = work.actions.columns
    microbatches = np.array(work.shape.microbatches, dtype=np.int64)
    if len(stage) and int(stage.max()) >= len(microbatches):
        return False
    samples = {
        section.microbatch_samples * work.shape.microbatches[section.stage] for section in work.sections
    }
    return len(samples) == 1 and bool((first + count <= microbatches[stage]).all())


def _gathered(work: Lowering) -> tuple[IntArray, IntArray]:
    """Return the first forward of every piece that gathers its weights after its last update, and the
    gather.
    """
    if not any(section.zero for section in work.sections):
        return NO_INTS, NO_INTS
    gathers = np.array([slot.kind == GATHER for slot in work.slots])
    after, before = work.edges
    chosen = gathers[work.slot[after]]
    pairs = zip(work.compute_piece[before[chosen]].tolist(), after[chosen].tolist(), strict=True)
    last = dict(pairs)  # numbers of one piece ascend along its lane
    forwards = np.flatnonzero(work.compute_op == 0)
    first = dict(zip(work.compute_piece[forwards[::-1]].tolist(), forwards[::-1].tolist(), strict=True))
    found = [(first[piece], gather) for piece, gather in last.items() if piece in first]
    table = np.array(found, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


class _Block(NamedTuple):
    """A step after the first, whose places count from its own start."""

    place: IntArray
    """Per task of the first step: its place here."""
    source: IntArray
    """Per task: its place in the first step; -1 for joins that only later steps need."""
    first: IntArray
    second: IntArray
    crossing_first: IntArray
    """(2, n): tasks whose `first` lies in the step before, and its place in the first step."""
    crossing_second: IntArray


def repeat_steps(
    one: Program, order: Order, work: Lowering, found: Sequence, at: IntArray, crossings: Crossings
) -> Program:
    """Return the program of all steps.

    Args:
        one: the program of the first step.
        order: the order of all steps.
        work: the lowering of the first step.
        found: its sequence.
        at: per task of the lowering: its place in `one`.
        crossings: what steps wait for.
    """
    block = _later_step(one, at[crossings.after].tolist(), at[crossings.before].tolist())
    steps = range(1, order.steps)
    size, later = one.size, len(block.source)
    starts = [size + (step - 1) * later for step in steps]
    microbatches = np.array(work.shape.microbatches, dtype=np.int64)
    moved = np.zeros(size + 1, dtype=np.int64)
    moved[at] = microbatches[work.actions.columns[1][work.action]]

    def column(values: IntArray, by: IntArray | int | None = None, joins: int = -1) -> IntArray:
        """Return the values of all steps, raised `by` so much from step to step where they are not -1."""
        there = np.append(values, joins)[block.source] if later > size else values
        if by is None:
            return np.concatenate([values, *(there for _ in steps)])
        change = np.where(there >= 0, by if isinstance(by, int) else by[block.source], 0)
        return np.concatenate([values, *(there + step * change for step in steps)])

    def waits(values: IntArray, own: IntArray, crossing: IntArray) -> IntArray:
        """Return the predecessors of all steps."""
        found = [values]
        for step, start in zip(steps, starts, strict=True):
            shifted = np.where(own > 0, own + start, 0)
            before = block.place[crossing[1]] + start - later if step > 1 else crossing[1]
            shifted[crossing[0]] = before + 1
            found.append(shifted)
        return np.concatenate(found)

    stage = Actions.of(one.actions).columns[1]
    made = replace(
        one,
        order=order,
        kind=column(one.kind.astype(np.int64), joins=JOIN).astype(np.int8),
        slot=column(one.slot, joins=0),
        lane=column(one.lane),
        peer=column(one.peer),
        step=np.repeat(np.arange(order.steps), [size, *[later] * len(steps)]),
        action=column(one.action, len(one.actions)),
        microbatch=column(one.microbatch, moved),
        channel=column(one.channel),
        first=waits(one.first, block.first, block.crossing_first),
        second=waits(one.second, block.second, block.crossing_second),
        actions=Repeated(Actions.of(one.actions), order.steps, microbatches[stage]),
        programs=tuple(
            np.concatenate([tasks, *(block.place[tasks] + start for start in starts)])
            for tasks in one.programs
        ),
        memory=_memory(one.memory, block.place, starts),
    )
    if crossings.rise > found.level.max(initial=0):
        return made
    level = np.zeros(size, dtype=np.int64)
    level[at] = found.level
    return _by_level(made, column(level, crossings.rise, joins=0))


def _by_level(made: Program, level: IntArray) -> Program:
    """Return a program whose steps follow one another in the order of levels; at equal ones by the numbers
    that tasks have if all steps are lowered at once: lane by lane (or group by group), then by step.
    """
    where = np.array([slot.where for slot in made.slots])[made.slot]
    backward = np.array([slot.backward for slot in made.slots])[made.slot]
    phase = np.maximum(made.kind.astype(np.int64) - TRANSFER + 1, 0) * 2 + backward * (made.kind == TRANSFER)
    of = np.where(made.kind == TRANSFER, made.peer, np.where(made.kind == REDUCE, where, made.lane))
    key, _ = packed([level, phase, of + 1])
    # joins go with the task that follows them
    task = np.where(made.kind == JOIN, made.size, np.arange(made.size))
    key = key[np.minimum.accumulate(task[::-1])[::-1]]
    order = np.argsort(key, kind="stable")
    place = np.empty(made.size, dtype=np.int64)
    place[order] = np.arange(made.size)
    numbers = np.append(0, place + 1)
    computes = made.action[order] >= 0
    action = made.action[order]
    action[computes], first = numbered(action[computes], len(made.actions))
    columns = Actions.of(made.actions).columns
    return replace(
        made,
        kind=made.kind[order],
        slot=made.slot[order],
        lane=made.lane[order],
        peer=made.peer[order],
        step=made.step[order],
        action=action,
        microbatch=made.microbatch[order],
        channel=made.channel[order],
        first=numbers[made.first[order]],
        second=numbers[made.second[order]],
        actions=Actions(columns[:, made.action[order][computes][first]]),
        programs=tuple(place[tasks] for tasks in made.programs),
        memory=made.memory._replace(task=place[made.memory.task]),
    )


def _memory(one: MemoryEvents, place: IntArray, starts: list[int]) -> MemoryEvents:
    """Return the events of all steps, lane by lane."""
    tasks = [one.task, *(place[one.task] + start for start in starts)]
    start = np.append(one.lane_start, len(one.lane))
    each = np.diff(start)
    runs = np.flatnonzero(np.diff(each, prepend=-1, append=-1))  # lanes with as many events
    if len(runs) <= MOST_RUNS and (np.diff(one.lane[one.lane_start]) > 0).all():
        blocks = partial(_blocks, np.diff(runs).tolist(), start[runs].tolist())
        whole = (one.lane, one.section, one.samples, one.part, one.at_end)
        lane, section, samples, part, at_end = (blocks([values] * len(tasks)) for values in whole)
        begins = np.cumsum(each * len(tasks)) - each * len(tasks)
        return MemoryEvents(lane, section, samples, part, blocks(tasks), at_end, begins)
    rows = np.tile(np.arange(len(one.lane)), len(tasks))
    order = sorting(one.lane[rows])
    rows = rows[order]
    lane = one.lane[rows]
    return MemoryEvents(
        lane=lane,
        section=one.section[rows],
        samples=one.samples[rows],
        part=one.part[rows],
        task=np.concatenate(tasks)[order],
        at_end=one.at_end[rows],
        lane_start=np.flatnonzero(np.diff(lane, prepend=-1)),
    )


def _blocks(lanes: list[int], bounds: list[int], of_steps: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return the values of all steps lane by lane, without sorting.

    Args:
        lanes: of every run of lanes with equally many values, how many.
        bounds: where the values of each run begin, and their end.
        of_steps: (N,) values of each step, lane by lane.
    """
    runs = zip(lanes, pairwise(bounds), strict=True)
    parts = [
        np.stack([values[a:b].reshape(count, -1) for values in of_steps], axis=1).reshape(-1)
        for count, (a, b) in runs
    ]
    return np.concatenate(parts) if parts else of_steps[0][:0]


def _later_step(one: Program, after: list[int], before: list[int]) -> _Block:
    """Return a step whose tasks also wait for some of the step before, given as places in the first."""
    crossing: dict[int, list[int]] = {}
    for task, item in zip(after, before, strict=True):
        crossing.setdefault(task, []).append(item)
    has = (one.first > 0).astype(np.int64) + (one.second > 0)
    joins = np.zeros(one.size, dtype=np.int64)
    tasks = np.array(list(crossing), dtype=np.int64)
    joins[tasks] = np.maximum(has[tasks] + [len(items) for items in crossing.values()] - 2, 0)
    place = np.arange(one.size) + np.cumsum(joins)
    source = np.full(one.size + int(joins.sum()), -1, dtype=np.int64)
    source[place] = np.arange(one.size)
    numbers = np.append(0, place + 1)
    first, second = np.zeros((2, len(source)), dtype=np.int64)
    first[place], second[place] = numbers[one.first], numbers[one.second]
    crossings: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])

    def on_lane(pair: tuple[int, bool]) -> bool:
        return bool(one.kind[pair[0]] < TRANSFER)

    for task, items in crossing.items():
        own = [int(column[task]) - 1 for column in (one.first, one.second) if column[task]]
        # tasks on lanes follow the others
        pairs = sorted([*((item, False) for item in own), *((item, True) for item in items)], key=on_lane)
        row = int(place[task] - joins[task])
        first[row] = second[row] = first[place[task]] = second[place[task]] = 0
        for n, (item, crosses) in enumerate(pairs):
            column, at = (first, row) if not n else (second, row + n - 1)
            if n > 1:
                first[at] = at  # the join before it, as index + 1
            if crosses:
                crossings[n > 0].append((at, item))
            else:
                column[at] = place[item] + 1
    return _Block(
        place, source, first, second, *(np.array(item, dtype=np.int64).reshape(-1, 2).T for item in crossings)
    )
