"""Reductions of holders: sums of gradients before updates, averages of weights after them.

What is exchanged and which update waits for it follows from the update rule of a group (`explorer.updates`).

A reduction in buckets overlaps with work in two parts: it *opens* when the last backward starts and *closes*
with one bucket after it; with K buckets of r seconds each and a backward of b

    max(b, (K - 1) r) + r        exactly: max(b + r, b / K + K r)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.actions import OP_CODE, UPDATE
from explorer.base.errors import PlanError
from explorer.tasks.holder_groups import find_groups
from explorer.tasks.indexing import IntArray, Places, numbered, ragged
from explorer.tasks.placement import Holders, Piece
from explorer.tasks.program import CLOSING, OPENING, REDUCE, WHOLE, Slot
from explorer.tasks.runs import Runs
from explorer.tasks.work import Lowering, MadeTasks
from explorer.updates import WEIGHTS, rule_of


def add_reductions(work: Lowering, runs: Runs, weight_grad: MadeTasks) -> None:
    """Add what each holders group exchanges, as its update rule says.

    Gradients are reduced before the update that applies them: the one that names their samples, or with a
    delay of d the d-th after it. Weights are averaged after the update that made them, before the next action
    on them.

    Raises:
        PlanError: a rule that needs replicas to update together, although they take turns.
    """
    if not work.skeleton.holders:
        return
    all_updates = _Updates(work)
    groups = find_groups(work.skeleton, work.lanes.kept)
    averages = any(rule_of(group.update).exchanges == WEIGHTS for group in work.skeleton.holders)
    waits: _Waits | None = None
    for g, group in enumerate(work.skeleton.holders):
        rule = rule_of(group.update)
        pieces = [work.pieces.number[piece] for piece in groups[g].pieces]
        updates = all_updates.of(pieces)
        if rule.delay or rule.exchanges == WEIGHTS:
            _need_together(work, group, np.diff(updates.start), len(pieces))
        if not len(updates.task):
            continue
        if group.buckets and (waits is None or averages):
            waits = _Waits(work)
        turn = np.arange(1, len(updates.low) + 1)
        due = (turn % rule.period == 0) & ((turn // rule.period - 1) % group.turn[1] == group.turn[0])
        channel = work.channel_id("group", groups[g].devices)
        exchange = _Exchange(work, g, channel, work.pieces.all[pieces[0]], waits if group.buckets else None)
        if rule.exchanges == WEIGHTS:
            _average(work, exchange, updates, np.flatnonzero(due))
        else:
            numbers = np.array(pieces, dtype=np.int64)
            _sum(work, exchange, updates, np.flatnonzero(due), _Gradients(work, runs, weight_grad, numbers))


def _need_together(work: Lowering, group: Holders, updates: IntArray, pieces: int) -> None:
    """Refuse a rule whose exchange needs every holder at the same update if the holders take turns."""
    stages = sorted({work.sections[piece.section].stage for piece in group.pieces})
    name = group.update.rule
    if updates.min(initial=pieces) < pieces:
        problem = (
            f"update rule {name} needs replicas that update together, those of stage {stages[0]} take turns"
        )
        raise PlanError([f"{problem}; let replicas split microbatches, or use plain"])
    if len(stages) > 1 and rule_of(group.update).exchanges == WEIGHTS:
        problem = f"update rule {name} needs parameters of one stage, some are shared by {stages}"
        raise PlanError([f"{problem}; use plain for them"])


class _Together(NamedTuple):
    """Updates of some pieces, those of equal samples and sweeps together, in order."""

    low: IntArray
    high: IntArray
    sweep: IntArray
    start: IntArray
    """First place of each in `task`, and the end."""
    task: IntArray


class _Updates:
    """The updates of all pieces."""

    def __init__(self, work: Lowering) -> None:
        task = np.flatnonzero(work.compute_op == OP_CODE[UPDATE])
        piece = work.compute_piece[task]
        self.places = Places(piece, len(work.pieces.all))
        _, _, first, count, _, self.sweep = work.actions.columns[:, work.action[task]]
        sizes = np.array([section.microbatch_samples for section in work.sections], dtype=np.int64)
        size = sizes[work.pieces.section[piece]]
        self.task, self.low, self.high = task, first * size, (first + count) * size

    def of(self, pieces: list[int]) -> _Together:
        """Return the updates of some pieces."""
        _, found = self.places.of(np.array(pieces, dtype=np.int64))
        found = found[np.lexsort((self.sweep[found], self.high[found], self.low[found]))]
        low, high, sweep = self.low[found], self.high[found], self.sweep[found]
        new = np.ones(len(found), dtype=bool)
        new[1:] = (np.diff(low) != 0) | (np.diff(high) != 0) | (np.diff(sweep) != 0)
        start = np.flatnonzero(new)
        return _Together(
            low[start], high[start], sweep[start], np.append(start, len(found)), self.task[found]
        )


class _Waits:
    """What tasks wait for by now: other tasks, and those just before them on their lanes."""

    def __init__(self, work: Lowering) -> None:
        after, self.before = work.edges
        self.edges = Places(after, work.size)
        one, other = work.neighbours
        apart = one != other
        self.earlier = one[apart]
        self.lanes = Places(other[apart], work.size)

    def of(self, tasks: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs (place in `tasks`, task that it waits for)."""
        row, edge = self.edges.of(tasks)
        lane_row, pair = self.lanes.of(tasks)
        return np.concatenate([row, lane_row]), np.concatenate([self.before[edge], self.earlier[pair]])


class _Exchange(NamedTuple):
    """Maker of the tasks of one group's reductions."""

    work: Lowering
    group: int
    channel: int
    """That of its devices: groups over the same ones count as one, and take turns."""
    piece: Piece
    waits: _Waits | None
    """For reductions in buckets: what their gradients wait for."""

    def add(self, row: IntArray, gradient: IntArray, update: IntArray) -> tuple[IntArray, IntArray]:
        """Add reductions: each in one task, or in one during the last backwards and one after them.

        Args:
            row: per gradient: the reduction, by number.
            gradient: tasks whose results are reduced.
            update: per reduction: the first update of its samples.

        Returns:
            All tasks, and the reduction of each.
        """
        work = self.work
        parts = np.zeros(len(update), dtype=np.int64)
        if self.waits is not None:
            parts[row] = 1
        of, within = ragged(1 + parts)
        kind = np.where(parts[of] > 0, np.where(within > 0, CLOSING, OPENING), WHOLE)
        number, first = numbered(kind, HIGHEST)
        slots = [self._slot(part) for part in kind[first].tolist()]
        tasks = work.add(
            np.array(slots, dtype=np.int64)[number],
            np.full(len(of), self.channel),
            work.action[update[of]],
            work.step[update[of]],
        )
        last = tasks[np.cumsum(1 + parts) - 1]
        work.wait(last[row], gradient)
        if self.waits is not None and len(row):
            # it starts when the last backwards do: after their data and what their lanes do before them
            place, before = self.waits.of(gradient)
            work.wait(last[row][place] - 1, before)
            work.wait(last[parts > 0], last[parts > 0] - 1)
        return tasks, of

    def _slot(self, part: int) -> int:
        return self.work.slot_id(Slot(REDUCE, self.group, self.piece, self.piece, 0, part=part))


HIGHEST = 1 + max(WHOLE, OPENING, CLOSING)


def _average(work: Lowering, exchange: _Exchange, updates: _Together, due: IntArray) -> None:
    """Add averages of weights after some updates, before whatever reads or changes them next."""
    row, within = ragged(updates.start[due + 1] - updates.start[due])
    updated = updates.task[updates.start[due][row] + within]
    tasks, of = exchange.add(row, updated, updates.task[updates.start[due]])
    lane_piece = work.program_lane * len(work.pieces.all) + work.compute_piece[work.program]
    order = np.argsort(lane_piece, kind="stable")
    program, same = work.program[order], np.diff(lane_piece[order]) == 0
    one, following = program[:-1][same], program[1:][same]
    place, pair = Places(one, work.size).of(updated)
    averaged, task = Places(of, len(due)).of(row[place])
    work.wait(following[pair][averaged], tasks[task])


class _Gradients(NamedTuple):
    """Gradients that some pieces make."""

    work: Lowering
    runs: Runs
    made: MadeTasks
    pieces: IntArray

    def latest(self, low: IntArray, high: IntArray, sweep: IntArray) -> IntArray:
        """Return, per (span, piece), the last task that makes a gradient of samples [low, high): it implies
        the others; -1 for none.
        """
        found = np.empty((len(low), len(self.pieces)), dtype=np.int64)
        section = self.work.pieces.section[self.pieces]
        for s in np.unique(section).tolist():
            own = self.pieces[section == s]
            span, size = int(self.made.span[own[0]]), self.work.sections[s].microbatch_samples
            whole = span * self.made.sweeps
            table = np.full((len(own), whole + 1), -1, dtype=np.int64)
            table[:, :whole] = self.made.table[self.made.base[own][:, None] + np.arange(whole)]
            start = sweep * span + np.minimum(low // size, span)
            stop = sweep * span + np.minimum(-(-high // size), span)
            bounds = np.stack([start, stop], axis=1).reshape(-1)
            # ids of one piece ascend in the order of its lane
            most = np.maximum.reduceat(table, bounds, axis=1)[:, ::2]
            found[:, section == s] = np.where(start < stop, most, -1).T
        return found

    def reduced_together(self, updates: _Together, due: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the sample ranges reduced together, and the update of each: all of an update's, or each
        microbatch's if gradients are sharded.

        ZeRO levels 2 and 3 keep only their own shard of the gradients, so nothing can be added up before it
        is reduced, except over a run whose gradients stay whole.
        """
        low, high = updates.low[due], updates.high[due]
        sections = [self.work.sections[s] for s in set(self.work.pieces.section[self.pieces].tolist())]
        by_run = all(self.runs.sums[s] for s in set(self.work.pieces.section[self.pieces].tolist()))
        if min(section.zero for section in sections) < 2 and not by_run:
            return low, high, due
        size = max(section.microbatch_samples for section in sections)
        of, within = ragged(-(-(high - low) // size))
        low = low[of] + within * size
        high = np.minimum(low + size, high[of])
        if not by_run or not len(of):
            return low, high, due[of]
        latest = self.latest(low, high, updates.sweep[due[of]])
        run = np.where(latest >= 0, self.runs.gradients[latest], -1)
        new = within == 0
        new[1:] |= (run[1:] != run[:-1]).any(axis=1)
        start = np.flatnonzero(new)
        return low[start], high[np.append(start[1:], len(low)) - 1], due[of[start]]


def _sum(
    work: Lowering, exchange: _Exchange, updates: _Together, due: IntArray, gradients: _Gradients
) -> None:
    """Add sums of gradients before some updates."""
    low, high, update = gradients.reduced_together(updates, due)
    latest = gradients.latest(low, high, updates.sweep[update])
    row, column = np.nonzero(latest >= 0)
    gradient = latest[row, column]
    if gradients.runs.ends:
        row, gradient = _with_ends(gradients.runs, row, gradient)
    tasks, of = exchange.add(row, gradient, updates.task[updates.start[update]])
    rule = rule_of(work.skeleton.holders[exchange.group].update)
    applied = update[of] + rule.delay
    there = applied < len(updates.low)
    applied, tasks = applied[there], tasks[there]
    row, within = ragged(updates.start[applied + 1] - updates.start[applied])
    work.wait(updates.task[updates.start[applied][row] + within], tasks[row])


def _with_ends(runs: Runs, row: IntArray, gradient: IntArray) -> tuple[IntArray, IntArray]:
    """Return the gradients, and after them the tasks before REDUCE_GRAD of their runs."""
    more = [
        (at, item)
        for at, task in zip(row.tolist(), gradient.tolist(), strict=True)
        for item in runs.ends.get(int(runs.gradients[task]), ())
    ]
    table = np.array(more, dtype=np.int64).reshape(-1, 2)
    return np.concatenate([row, table[:, 0]]), np.concatenate([gradient, table[:, 1]])
