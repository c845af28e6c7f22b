"""Collectives of holders: reductions of gradients, averages of weights, gathers of sharded weights (ZeRO).

What is exchanged and which update waits for it follows from the update rule of a group (`explorer.updates`).

Two collectives overlap with work in parts. A reduction in buckets *opens* when the last backward starts and
*closes* with one bucket after it; with K buckets of r seconds each and a backward of b

    max(b, (K - 1) r) + r        exactly: max(b + r, b / K + K r)

A gather of ZeRO-3 *opens* with the first block of its section, before the work on it, and *closes* during
that work with the other K - 1, before anything that follows the work. How long gathered weights stay is
decided in `tests.support.plain_lowering.runs`.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from explorer.actions import RECOMPUTE, UPDATE
from explorer.base.errors import PlanError
from explorer.tasks.placement import Holders, Piece
from explorer.tasks.program import CLOSING, GATHER, OPENING, REDUCE, WHOLE, Slot
from explorer.updates import WEIGHTS, rule_of
from tests.support.plain_lowering.runs import Runs
from tests.support.plain_lowering.work import Lowering


def add_reductions(work: Lowering, runs: Runs) -> None:
    """Add what each holders group exchanges, as its update rule says.

    Gradients are reduced before the update that applies them: the one that names their samples, or with a
    delay of d the d-th after it. Weights are averaged after the update that made them, before the next action
    on them.

    Raises:
        PlanError: a rule that needs replicas to update together, although they take turns.
    """
    earlier = _lane_before(work) if any(group.buckets for group in work.skeleton.holders) else {}
    following = _Following(work)
    for g, group in enumerate(work.skeleton.holders):
        rule = rule_of(group.update)
        pieces = list(dict.fromkeys(piece for piece in group.pieces if piece in work.lanes.of_piece))
        spans: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for piece in pieces:
            for span, task in work.updates[piece].items():
                spans[span].append(task)
        ordered = sorted(spans.items())
        if rule.delay or rule.exchanges == WEIGHTS:
            _need_together(work, group, [len(updates) for _, updates in ordered], len(pieces))
        for count, ((low, high, sweep), updates) in enumerate(ordered, start=1):
            if count % rule.period or (count // rule.period - 1) % group.turn[1] != group.turn[0]:
                continue
            if rule.exchanges == WEIGHTS:
                averaged = _reduce(work, g, pieces[0], updates, updates[0], earlier)
                for task in dict.fromkeys(item for update in updates for item in following.of(update)):
                    work.preds[task].extend(averaged)
                continue
            applied = ordered[count + rule.delay - 1][1] if count + rule.delay <= len(ordered) else []
            for start, stop in _reduced_together(work, runs, pieces, low, high, sweep):
                preds = _gradients_within(work, pieces, start, stop, sweep)
                preds += [item for task in preds for item in runs.ends.get(runs.gradients.get(task, -1), ())]
                tasks = _reduce(work, g, pieces[0], preds, updates[0], earlier)
                for update in applied:
                    work.preds[update].extend(tasks)


def _need_together(work: Lowering, group: Holders, updates: list[int], pieces: int) -> None:
    """Refuse a rule whose exchange needs every holder at the same update if the holders take turns."""
    stages = sorted({work.sections[piece.section].stage for piece in group.pieces})
    name = group.update.rule
    if min(updates, default=pieces) < pieces:
        problem = (
            f"update rule {name} needs replicas that update together, those of stage {stages[0]} take turns"
        )
        raise PlanError([f"{problem}; let replicas split microbatches, or use plain"])
    if len(stages) > 1 and rule_of(group.update).exchanges == WEIGHTS:
        problem = f"update rule {name} needs parameters of one stage, some are shared by {stages}"
        raise PlanError([f"{problem}; use plain for them"])


class _Following:
    """The next action of the same piece in its lane, for each update."""

    def __init__(self, work: Lowering) -> None:
        self.work = work
        self.found: dict[int, list[int]] | None = None

    def of(self, update: int) -> list[int]:
        """Return the tasks that read or change the weights next; none after the last."""
        if self.found is None:
            self.found = defaultdict(list)
            pieces = [slot.piece for slot in self.work.slots]
            for program in self.work.programs:
                last: dict[Piece, int] = {}
                for task in reversed(program):
                    piece = pieces[self.work.slot[task]]
                    if self.work.action[task].op == UPDATE and piece in last:
                        self.found[task].append(last[piece])
                    last[piece] = task
        return self.found.get(update, [])


def _reduce(
    work: Lowering, g: int, piece: Piece, gradients: list[int], update: int, earlier: dict[int, list[int]]
) -> list[int]:
    """Add the tasks of one reduction: one, or one during the last backwards and one after them."""
    group = work.skeleton.holders[g]
    channel = work.channel_id("group", _devices(work, group.pieces))

    def add(part: int, preds: list[int]) -> int:
        slot = work.slot_id(Slot(REDUCE, g, piece, piece, 0, part=part))
        return work.add(slot, channel, preds, work.action[update], work.step[update])

    if not (group.buckets and gradients):
        return [add(WHOLE, gradients)]
    # it starts when the last backwards do: after their data and what their lanes do before them
    before = [item for task in gradients for item in (*work.preds[task], *earlier[task])]
    opening = add(OPENING, list(dict.fromkeys(before)))
    return [opening, add(CLOSING, [*gradients, opening])]


def _lane_before(work: Lowering) -> dict[int, list[int]]:
    """Map each compute task to those just before it, in all lanes it runs on."""
    found: dict[int, list[int]] = defaultdict(list)
    for program in work.programs:
        for before, after in pairwise(program):
            if before != after:
                found[after].append(before)
    return found


def _reduced_together(
    work: Lowering, runs: Runs, pieces: list[Piece], low: int, high: int, sweep: int
) -> list[tuple[int, int]]:
    """Return the sample ranges reduced together: all of an update's, or each microbatch's if gradients are
    sharded.

    ZeRO levels 2 and 3 keep only their own shard of the gradients, so nothing can be added up before it is
    reduced, except over a run whose gradients stay whole.
    """
    sections = [work.sections[piece.section] for piece in pieces]
    by_run = all(runs.sums[piece.section] for piece in pieces)
    if min(section.zero for section in sections) < 2 and not by_run:
        return [(low, high)]
    size = max(section.microbatch_samples for section in sections)
    spans = [(start, min(start + size, high)) for start in range(low, high, size)]
    if not by_run:
        return spans
    found: list[tuple[int, int]] = []
    before: list[int] = []
    for span in spans:
        made = [runs.gradients[task] for task in _gradients_within(work, pieces, *span, sweep)]
        if found and made == before:
            found[-1] = found[-1][0], span[1]
        else:
            found.append(span)
        before = made
    return found


def _devices(work: Lowering, pieces: tuple[Piece, ...]) -> tuple[int, ...]:
    """Return the devices of a process group; groups over the same devices count as one, and take turns."""
    sections = work.sections
    return tuple(sorted({d for p in pieces for d in sections[p.section].rows[p.copy][p.replica]}))


def _gradients_within(work: Lowering, pieces: list[Piece], low: int, high: int, sweep: int) -> list[int]:
    """Return per piece the last task that makes a gradient of samples [low, high): lane order implies the
    rest.
    """
    found: list[int] = []
    for piece in pieces:
        section = work.sections[piece.section]
        size, index = section.microbatch_samples, work.weight_grad.tasks.get((piece, sweep), {})
        made = [index[n] for n in range(low // size, -(-high // size)) if n in index]
        if made:
            found.append(max(made))  # ids of one piece ascend in the order of its lane
    return found


_READERS = ("F", "B", "I", RECOMPUTE)
"""Ops that read weights."""


def add_gathers(work: Lowering, runs: Runs) -> None:
    """Add the gathers of ZeRO: levels 1 and 2 gather the updated weights after U, level 3 before every
    forward and backward.

    If weights stay gathered over a run, level 3 gathers only before its first action.
    """
    if not any(section.zero for section in work.sections):
        return
    slots = list(work.slots)  # slots of compute tasks; gathers append their own
    rest: dict[int, int] = {}
    for program in work.programs:
        waiting: dict[Piece, int] = {}
        compute_before: list[int] = []
        there: dict[Piece, int] = {}  # weights that are gathered: the run since which they are
        for task in program:
            action = work.action[task]
            slot = slots[work.slot[task]]
            section = work.sections[slot.where]
            if section.zero and section.shards > 1:
                if action.op == "U" and section.zero < 3:
                    waiting[slot.piece] = _gather(work, slot.piece, [task], task, WHOLE)
                elif action.op == "F" and slot.piece in waiting:
                    work.preds[task].append(waiting.pop(slot.piece))
                elif runs.gathers[slot.where] and there.get(slot.piece) == runs.weights[task]:
                    pass
                elif action.op in _READERS and section.zero == 3 and task not in rest:
                    there[slot.piece] = runs.weights[task]
                    # blocks come in the order in which they are worked on
                    after = [*runs.begins.get(runs.weights[task], _prefetch_point(work, compute_before))]
                    after += [rest[item] for item in compute_before[-1:] if item in rest]
                    first = _gather(work, slot.piece, after, task, OPENING)
                    work.preds[task].append(first)
                    rest[task] = _gather(work, slot.piece, [first], task, CLOSING)
            compute_before.append(task)
    _wait_for_rest(work, rest)


def _wait_for_rest(work: Lowering, rest: dict[int, int]) -> None:
    """Make whatever waits for a task also wait for the blocks that are gathered during it."""
    if not rest:
        return
    for before in work.preds:
        before.extend([rest[item] for item in before if item in rest])
    for program in work.programs:
        for earlier, later in pairwise(program):
            if earlier in rest and earlier != later:
                work.preds[later].append(rest[earlier])


def _prefetch_point(work: Lowering, before: list[int]) -> list[int]:
    """Return what a gather waits for: it starts with the previous task of the lane, but not before weights
    are updated.
    """
    last = work.action[before[-1]] if before else None
    return before[-1:] if last is not None and last.op == "U" else before[-2:-1]


def _gather(work: Lowering, piece: Piece, preds: list[int], task: int, part: int) -> int:
    slot = work.slot_id(Slot(GATHER, piece.section, piece, piece, 0, part=part))
    channel = work.channel_id("gather", work.lanes.of_piece[piece][0])
    return work.add(slot, channel, preds, work.action[task], work.step[task])
