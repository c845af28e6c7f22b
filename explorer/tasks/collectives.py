"""Collectives of holders: reductions of gradients before their U, gathers of sharded weights (ZeRO)."""

from __future__ import annotations

from collections import defaultdict

from explorer.tasks.lower import Lowering
from explorer.tasks.placement import Piece
from explorer.tasks.program import GATHER, REDUCE, Slot


def add_reductions(work: Lowering) -> None:
    """Each holders group reduces the gradients of the samples that a U names, before that U."""
    for g, group in enumerate(work.skeleton.holders):
        pieces = [piece for piece in group.pieces if piece in work.lanes.of_piece]
        spans: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for piece in dict.fromkeys(pieces):
            for span, task in work.updates[piece].items():
                spans[span].append(task)
        channel = work.channel_id("group", _devices(work, group.pieces))
        for count, ((low, high, sweep), updates) in enumerate(sorted(spans.items()), start=1):
            if count % group.every:
                continue
            slot = work.slot_id(Slot(REDUCE, g, pieces[0], pieces[0], 0))
            for start, stop in _reduced_together(work, pieces, low, high):
                preds = _gradients_within(work, pieces, start, stop, sweep)
                task = work.add(slot, channel, preds, work.action[updates[0]], work.step[updates[0]])
                for update in updates:
                    work.preds[update].append(task)


def _reduced_together(work: Lowering, pieces: list[Piece], low: int, high: int) -> list[tuple[int, int]]:
    """Samples of each reduction: all of an update's, or each microbatch's where gradients are sharded.

    ZeRO levels 2 and 3 keep only their own shard of the gradients, so nothing can be added up before it
    is reduced.
    """
    sections = [work.sections[piece.section] for piece in pieces]
    if min(section.zero for section in sections) < 2:
        return [(low, high)]
    size = max(section.microbatch_samples for section in sections)
    return [(start, min(start + size, high)) for start in range(low, high, size)]


def _devices(work: Lowering, pieces: tuple[Piece, ...]) -> tuple[int, ...]:
    """Devices of a process group: groups over the same devices are one, and take turns."""
    sections = work.sections
    return tuple(sorted({d for p in pieces for d in sections[p.section].rows[p.copy][p.replica]}))


def _gradients_within(work: Lowering, pieces: list[Piece], low: int, high: int, sweep: int) -> list[int]:
    """Per piece the last task that makes a gradient of samples [low, high): lane order implies the rest."""
    found: list[int] = []
    for piece in pieces:
        section = work.sections[piece.section]
        size, index = section.microbatch_samples, work.weight_grad.tasks.get((piece, sweep), {})
        made = [index[n] for n in range(low // size, -(-high // size)) if n in index]
        if made:
            found.append(max(made))  # ids of one piece ascend in the order of its lane
    return found


def add_gathers(work: Lowering) -> None:
    """ZeRO: levels 1 and 2 gather the updated weights after U; level 3 before every forward and backward."""
    if not any(section.zero for section in work.sections):
        return
    slots = list(work.slots)  # of compute tasks; gathers add their own behind
    for program in work.programs:
        waiting: dict[Piece, int] = {}
        compute_before: list[int] = []
        for task in program:
            action = work.action[task]
            slot = slots[work.slot[task]]
            section = work.sections[slot.where]
            if section.zero and section.replicas * len(section.rows) > 1:
                if action.op == "U" and section.zero < 3:
                    waiting[slot.piece] = _gather(work, slot.piece, [task], task)
                elif action.op == "F" and slot.piece in waiting:
                    work.preds[task].append(waiting.pop(slot.piece))
                elif action.op in "FBI" and section.zero == 3:
                    after = _prefetch_point(work, compute_before)
                    work.preds[task].append(_gather(work, slot.piece, after, task))
            compute_before.append(task)


def _prefetch_point(work: Lowering, before: list[int]) -> list[int]:
    """A gather starts while the previous task of the lane computes, but never before weights are updated."""
    last = work.action[before[-1]] if before else None
    return before[-1:] if last is not None and last.op == "U" else before[-2:-1]


def _gather(work: Lowering, piece: Piece, preds: list[int], task: int) -> int:
    slot = work.slot_id(Slot(GATHER, piece.section, piece, piece, 0))
    channel = work.channel_id("gather", work.lanes.of_piece[piece][0])
    return work.add(slot, channel, preds, work.action[task], work.step[task])
