"""Weight versions of many programs at once: `explorer.tasks.versions.count_versions` in arrays."""

from __future__ import annotations

import numpy as np

from explorer.actions import FORWARD, OP_CODE, OPS, UPDATE
from explorer.reads import Read, Reading
from explorer.tasks.indexing import BoolArray, IntArray, ragged


def count_at_once(
    rows: IntArray, program: IntArray, microbatches: IntArray, reading: Reading, first: IntArray
) -> tuple[IntArray, IntArray, IntArray] | None:
    """Count the versions that some programs read.

    Args:
        rows: (6, actions): columns of `Actions`, one program after the other.
        program: per action: its program.
        microbatches: per program: microbatches of its stage in one step.
        reading: the read rule.
        first: per microbatch: the version that the first stage reads, below 0 if unknown.

    Returns:
        Per program the most versions alive at once and the delay; and per microbatch the version that a
        forward reads, -1 if none does. None if some program reads before its forward, goes forward twice, or
        reads a version that is not made.
    """
    updates, made = _made(rows, program, len(microbatches))
    row, within = ragged(np.where(updates, 0, rows[3]))
    number = rows[2][row] + within
    span = int(number.max(initial=0)) + 1
    key = program[row] * span + number
    read = rows[0][row]
    forwards = read == OP_CODE[FORWARD]
    went = np.full(len(microbatches) * span, -1, dtype=np.int64)
    went[key[forwards]] = row[forwards]
    regular = (went[key] >= 0) & np.where(forwards, went[key] == row, went[key] < row)
    if not regular.all():
        return None
    known = np.append(first, np.full(max(0, span - len(first)), -1))[number]
    known = np.where(known >= 0, known, made[row])
    step = number // microbatches[program[row]]
    version = np.empty(len(row), dtype=np.int64)
    forward = np.empty(len(went), dtype=np.int64)
    for op in OPS:  # forwards come first
        of = np.flatnonzero(read == OP_CODE[op])
        if len(of):
            own = made[row[of]] if op == FORWARD else forward[key[of]]
            version[of] = reading.version(Read(op, step[of], made[row[of]], own, known[of]))
            if op == FORWARD:
                forward[key[of]] = version[of]
    if (version > made[row]).any():
        return None
    by_number = np.full(span, -1, dtype=np.int64)
    by_number[number[forwards]] = version[forwards]
    delay = _delay(rows, program, updates, made, went.reshape(-1, span), forward.reshape(-1, span))
    alive = _most_alive(program, len(microbatches), updates, made, row, version)
    return np.maximum(alive, reading.buffers), delay, by_number


def count_newest(rows: IntArray, program: IntArray, programs: int) -> IntArray:
    """Return per program the delay where every action reads the newest version, of which one is alive.

    Args:
        rows: (6, actions): columns of `Actions`, one program after the other: updates, and one forward of
            each microbatch.
        program: per action: its program.
        programs: how many there are.
    """
    updates, made = _made(rows, program, programs)
    row, within = ragged(np.where(updates, 0, rows[3]))
    number = rows[2][row] + within
    span = int(number.max(initial=0)) + 1
    went = np.full((programs, span), -1, dtype=np.int64)
    went[program[row], number] = row
    return _delay(rows, program, updates, made, went, made[went])


def _made(rows: IntArray, program: IntArray, programs: int) -> tuple[BoolArray, IntArray]:
    """Return, per action, whether it is an update, and the versions that its program has made before."""
    updates = rows[0] == OP_CODE[UPDATE]
    made = np.cumsum(updates) - updates
    made -= np.append(made, 0)[np.searchsorted(program, np.arange(programs))][program]
    return updates, made


def _delay(
    rows: IntArray, program: IntArray, updates: BoolArray, made: IntArray, went: IntArray, forward: IntArray
) -> IntArray:
    """Return per program the most updates between the read of a weight and the update made from it."""
    found = np.zeros(len(went), dtype=np.int64)
    update = np.flatnonzero(updates)
    row, within = ragged(rows[3][update])
    number, row = rows[2][update][row] + within, update[row]
    row, number = row[number < went.shape[1]], number[number < went.shape[1]]
    at = went[program[row], number]
    applied = (at >= 0) & (at < row)
    row, number = row[applied], number[applied]
    np.maximum.at(found, program[row], made[row] - forward[program[row], number])
    return found


def _most_alive(
    program: IntArray, programs: int, updates: BoolArray, made: IntArray, row: IntArray, version: IntArray
) -> IntArray:
    """Return per program the most versions alive at once: each lives to its last reader, or until its
    successor overwrites it.
    """
    total = np.bincount(program[updates], minlength=programs)
    offset = np.cumsum(total + 1) - (total + 1)
    born = np.empty(int((total + 1).sum()), dtype=np.int64)
    born[offset] = np.searchsorted(program, np.arange(programs)) - 1
    update = np.flatnonzero(updates)
    born[offset[program[update]] + made[update] + 1] = update
    last = born.copy()
    last[offset[program[row]] + version] = row  # of equal ones the last assignment stays
    of = np.repeat(np.arange(programs), total + 1)
    followed = np.flatnonzero(of[1:] == of[:-1])
    event = np.concatenate([born, np.maximum(last[followed], born[followed + 1])])
    change = np.repeat([1, -1], [len(born), len(followed)])
    owner = np.concatenate([of, of[followed]])
    order = np.lexsort((change, event, owner))  # ends before starts at the same place
    alive = np.cumsum(change[order]) - owner[order]  # one version is left of each program before
    return np.maximum(1, np.maximum.reduceat(alive, np.searchsorted(owner[order], np.arange(programs))))
