"""Weight versions and staleness, counted from an order, its read rule and the update rules; never declared.

A version lives from the U that makes it to its last reader. Version 0 exists from the start; the k-th U
of a stage on a lane makes version k. `delay` is the number of updates between the read of a weight and
the update made from it (0 in synchronous training, p - s - 1 in PipeDream, 1 in 2BW).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.actions import FORWARD, OP_CODE, OPS, UPDATE, Action, Actions, ReadRule
from explorer.base.errors import PlanError
from explorer.reads import Read, reading_of
from explorer.tasks.indexing import NO_INTS, BoolArray, IntArray, numbered, packed, sorting
from explorer.tasks.version_counts import count_at_once, count_newest
from explorer.tasks.work import Lowering
from explorer.updates import rule_of


class Counted(NamedTuple):
    """Weight versions that one stage and copy on one lane reads."""

    most: int
    """Most versions alive at once."""
    delay: int
    """Most updates between a read and the update made from it."""
    forward: dict[int, int]
    """Version that the forward of each microbatch reads."""
    backward: dict[tuple[str, int], int]
    """Version that each B, I and W of a microbatch reads."""


def versions_of(work: Lowering) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return per section the most versions that take memory and the largest delay, over its pieces.

    An update rule that applies gradients late adds to the delay.
    """
    count = len(work.sections)
    versions, delay = np.ones(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if work.shape.training:
        reading = reading_of(work.order.read_rule)
        number, programs = _programs(work, newest=work.in_order and reading.newest)
        if work.in_order and reading.newest:
            most = np.full(len(programs.stage), max(1, reading.buffers))
            least = count_newest(programs.rows, programs.program, len(programs.stage))
        else:
            most, least = _counted_at_once(work, programs) or _counted_one_by_one(work, programs)
        np.maximum.at(versions, work.pieces.section, most[number])
        np.maximum.at(delay, work.pieces.section, least[number])
    late = [0] * count
    for group in work.skeleton.holders:
        by = rule_of(group.update).delay
        for piece in group.pieces if by else ():
            late[piece.section] = max(late[piece.section], by)
    return tuple(versions.tolist()), tuple(map(sum, zip(delay.tolist(), late, strict=True)))


class _Programs(NamedTuple):
    """Actions of some stages and copies on their lanes, one program after the other."""

    stage: IntArray
    """Per program."""
    rows: IntArray
    """(6, actions): columns of `Actions`."""
    program: IntArray
    """Per action: its program."""

    def some(self, chosen: BoolArray) -> _Programs:
        """Return a part of the programs, numbered anew."""
        kept = chosen[self.program]
        return _Programs(self.stage[chosen], self.rows[:, kept], (np.cumsum(chosen) - 1)[self.program[kept]])


def _programs(work: Lowering, *, newest: bool) -> tuple[IntArray, _Programs]:
    """Return the program of every piece, by number, and the different ones: one role runs one program.

    Args:
        work: the lowering.
        newest: whether only forwards and updates count.
    """
    same: dict[int, int] = {}
    alike = [same.setdefault(id(lane), i) for i, lane in enumerate(work.order.lanes)]
    lane = np.array(alike, dtype=np.int64)[work.pieces.lane]
    key, size = packed([lane, work.pieces.stage, work.pieces.copy])
    number, first = numbered(key, size)
    op, stage, _, _, copy, _ = work.actions.columns
    counts = np.isin(op, (OP_CODE[FORWARD], OP_CODE[UPDATE])) if newest else op < len(OPS)
    possible = counts & (stage <= work.pieces.stage.max()) & (copy <= work.pieces.copy.max())
    rows = np.flatnonzero(possible[work.row_action])
    action, at = work.row_action[rows], work.row_lane[rows]
    stages, copies = int(work.pieces.stage.max()) + 1, int(work.pieces.copy.max()) + 1
    table = np.full(len(work.order.lanes) * stages * copies, -1, dtype=np.int64)
    table[(lane[first] * stages + work.pieces.stage[first]) * copies + work.pieces.copy[first]] = np.arange(
        len(first)
    )
    program = table[(at * stages + stage[action]) * copies + copy[action]]
    order = sorting(program[program >= 0])
    action = action[program >= 0][order]
    columns = work.actions.columns[:, action]
    return number, _Programs(work.pieces.stage[first], columns, program[program >= 0][order])


def _counted_one_by_one(work: Lowering, programs: _Programs) -> tuple[IntArray, IntArray]:
    """Return the most versions and the delay of every program, action by action.

    Raises:
        PlanError: an op reads a version that no earlier U made.
    """
    first: dict[int, int] = {}
    most, delay = np.ones((2, len(programs.stage)), dtype=np.int64)
    for number in np.argsort(programs.stage, kind="stable").tolist():
        stage = int(programs.stage[number])
        found = count_versions(
            Actions(programs.rows[:, programs.program == number]),
            work.order.read_rule,
            microbatches=work.shape.microbatches[stage],
            first_stage_reads=first if stage else None,
        )
        if stage == 0:
            first.update(found.forward)
        most[number], delay[number] = found.most, found.delay
    return most, delay


def _counted_at_once(work: Lowering, programs: _Programs) -> tuple[IntArray, IntArray] | None:
    """Return the same for all programs at once; None if some read before their forward, go forward twice, or
    read what is not made.
    """
    reading = reading_of(work.order.read_rule)
    microbatches = np.array(work.shape.microbatches, dtype=np.int64)
    most, delay = np.ones((2, len(programs.stage)), dtype=np.int64)
    first = NO_INTS
    for chosen in (programs.stage == 0, programs.stage != 0):
        if chosen.any():
            some = programs.some(chosen)
            found = count_at_once(some.rows, some.program, microbatches[some.stage], reading, first)
            if found is None:
                return None
            most[chosen], delay[chosen], first = found
    return most, delay


def count_versions(
    program: Sequence[Action],
    rule: ReadRule,
    *,
    microbatches: int,
    first_stage_reads: dict[int, int] | None = None,
) -> Counted:
    """Count the versions that one stage and copy on one lane reads.

    Args:
        program: its actions, in order.
        rule: the read rule.
        microbatches: microbatches of this stage in one step.
        first_stage_reads: for `vertical`, the version that the first stage read per microbatch.

    Raises:
        PlanError: an op reads a version that no earlier U made.
    """
    reading = reading_of(rule)
    first = first_stage_reads or {}
    made = 0
    forward: dict[int, int] = {}
    backward: dict[tuple[str, int], int] = {}
    last_read: dict[int, int] = {0: -1}
    born: dict[int, int] = {0: -1}
    delay = 0
    for position, action in enumerate(program):
        covered = range(action.first_microbatch, action.first_microbatch + action.count)
        if action.op == UPDATE:
            read = [forward[n] for n in covered if n in forward]
            if read:
                delay = max(delay, made - min(read))
            made += 1
            born[made] = position
            last_read[made] = position
            continue
        for n in covered:
            known = forward.get(n, made)
            asked = Read(action.op, n // microbatches, made, known, first.get(n, made))
            version = int(reading.version(asked))
            if version > made:
                raise PlanError(
                    [f"{action} reads version {version} under rule {rule}, but only {made} updates were made"]
                )
            if action.op != FORWARD:
                backward[action.op, n] = version
            if action.op == FORWARD or n not in forward:
                forward[n] = version
            last_read[version] = position
    return Counted(max(_most_alive(born, last_read, made), reading.buffers), delay, forward, backward)


def _most_alive(born: dict[int, int], last_read: dict[int, int], made: int) -> int:
    """Return the most versions alive at once: each lives to its last reader, or until its successor
    overwrites it.
    """
    events: list[tuple[int, int]] = []
    for version, start in born.items():
        events.append((start, 1))
        if version < made:
            events.append((max(last_read[version], born[version + 1]), -1))
    most = alive = 0
    for _, change in sorted(events):  # ends (-1) before starts at the same position
        alive += change
        most = max(most, alive)
    return max(1, most)
