"""Weight versions and staleness, counted from an order, its read rule and the update rules; never declared.

A version lives from the U that makes it to its last reader. Version 0 exists from the start; the k-th U
of a stage on a lane makes version k. `delay` is the number of updates between the read of a weight and
the update made from it (0 in synchronous training, p - s - 1 in PipeDream, 1 in 2BW).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.actions import FORWARD, NAMED, UPDATE, Action, ReadRule
from explorer.base.errors import PlanError
from explorer.reads import Read, reading_of
from explorer.tasks.skeleton import Piece
from explorer.updates import rule_of
from tests.support.plain_lowering.work import Lowering


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
    versions, delay = [1] * count, [0] * count
    if not work.shape.training:
        return tuple(versions), tuple(delay)
    rule = work.order.read_rule
    first_reads: dict[int, int] = {}
    seen: dict[tuple[int, int, int], Counted] = {}
    for s, section in enumerate(work.sections):
        for copy in range(len(section.rows)):
            for replica in work.kept(s):
                lane = work.lanes.of_piece[Piece(s, copy, replica)][0]
                key = (section.stage, copy, lane)
                if key not in seen:
                    program = [
                        a
                        for a in work.order.lanes[lane]
                        if a.op not in NAMED and a.stage == section.stage and a.copy == copy
                    ]
                    seen[key] = count_versions(
                        program,
                        rule,
                        microbatches=work.shape.microbatches[section.stage],
                        first_stage_reads=first_reads if section.stage else None,
                    )
                found = seen[key]
                if section.stage == 0:
                    first_reads.update(found.forward)
                versions[s], delay[s] = max(versions[s], found.most), max(delay[s], found.delay)
    late = [0] * count
    for group in work.skeleton.holders:
        for piece in group.pieces:
            late[piece.section] = max(late[piece.section], rule_of(group.update).delay)
    return tuple(versions), tuple(map(sum, zip(delay, late, strict=True)))


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
            version = reading.version(asked)
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
