"""Compute tasks: one per action and piece; a piece that spans several lanes is one task in all of them."""

from __future__ import annotations

from explorer.actions import FREE, OFFLOAD, OVERLAP, RECOMPUTE, RELOAD, WHOLE_STAGE, Action
from explorer.tasks.placement import Piece
from explorer.tasks.program import BESIDE, REMADE_BEFORE, WHOLE, B, F, I, Slot, U, W
from tests.support.plain_lowering.work import Lowering, MadeTasks

OP_KIND = {"F": F, "B": B, "I": I, "W": W, "U": U, RECOMPUTE: F}

_DOWN = ("F", "U", RECOMPUTE)
"""Ops that go through the sections of a stage from first to last."""


_BESIDE = frozenset({*WHOLE_STAGE, OFFLOAD, FREE, RELOAD})
"""Ops that do not occupy the lane itself."""


def add_compute(work: Lowering) -> None:
    """Add the tasks of every lane in the order of its actions."""
    makers = {piece: _Maker(work, piece) for held in work.lanes.pieces for piece in held}
    joins: list[tuple[int, int]] = []
    for lane, actions in enumerate(work.order.lanes):
        held: dict[tuple[int, int], list[_Maker]] = {}
        for piece in work.lanes.pieces[lane]:
            held.setdefault((work.sections[piece.section].stage, piece.copy), []).append(makers[piece])
        program = work.programs[lane]
        for action in actions:
            if action[0] == OVERLAP:
                joins.append((lane, len(program)))
                continue
            if action[0] in _BESIDE:
                work.marks[lane].append((len(program), action))
                continue
            here = held.get((action[1], action[4]), [])
            for maker in here if len(here) == 1 or action[0] in _DOWN else here[::-1]:
                task = maker.task(action)
                if task is not None:
                    program.append(task)

    slots = list(work.slots)
    for lane, at in joins:
        program = work.programs[lane]
        if not 0 < at < len(program) or (program[at - 1], program[at]) in work.overlaps:
            continue
        one, other = (slots[work.slot[task]] for task in program[at - 1 : at + 1])
        if (one.kind, other.kind, other.part) == (F, B, WHOLE) and one.samples == other.samples:
            work.overlaps.append((program[at - 1], program[at]))
    for forward, backward in work.overlaps:
        one, other = slots[work.slot[forward]], slots[work.slot[backward]]
        work.slot[forward] = work.slot_id(one._replace(peer=other.piece, part=BESIDE))
        work.slot[backward] = work.slot_id(other._replace(peer=one.piece, part=BESIDE))


def wait_together(work: Lowering) -> None:
    """Make overlapped pairs begin when both can, and whoever waits for their forwards wait for their ends."""
    found = [list(preds) for preds in work.preds]
    for forward, backward in work.overlaps:
        found[forward] += [task for task in work.preds[backward] if task != forward]
        for task, preds in enumerate(work.preds):
            if forward in preds and task != backward:
                found[task].append(backward)
    work.preds[:] = found


class _Maker:
    """Maker of the tasks of one piece, one per action."""

    def __init__(self, work: Lowering, piece: Piece) -> None:
        self.work, self.piece = work, piece
        self.section = work.sections[piece.section]
        self.samples = self.section.samples(piece.replica)
        self.lanes = work.lanes.of_piece[piece]
        self.channel = work.channel_id("lane", self.lanes[0])
        self.microbatches = max(1, work.shape.microbatches[self.section.stage])
        self.made: dict[Action, int] = {}
        self.slots: dict[tuple[str, int, int], int] = {}
        self.remade: set[int] = set()
        forward, input_grad, weight_grad = work.forward, work.input_grad, work.weight_grad
        self.records: dict[str, tuple[MadeTasks, ...]] = {
            "F": (forward,), "B": (input_grad, weight_grad), "I": (input_grad,), "W": (weight_grad,), "U": (),
            RECOMPUTE: (),
        }  # fmt: skip

    def task(self, action: Action) -> int | None:
        """Return the task of an action of this piece's stage and copy; None if the piece has no part in
        it.
        """
        found = self.made.get(action)
        if found is not None:
            return found
        op, _, first, count, _, sweep = action
        numbers = self._numbers(op, first, count)
        if not numbers and (op != "U" or not self.work.skeleton.updates[self.piece.section]):
            return None
        part = WHOLE
        if op == RECOMPUTE:
            self.remade.update(numbers)
        elif self.remade and op in "BI" and self.remade.issuperset(numbers):
            part = REMADE_BEFORE
        slot = self._slot(op, self.samples * len(numbers), part)
        task = self.work.add(slot, self.channel, [], action, first // self.microbatches)
        self.made[action] = task
        if len(self.lanes) > 1:
            self.work.shared_lanes[task] = self.lanes
        for table in self.records[op]:
            table.record((self.piece, sweep), numbers, task)
        if op == "U":
            size = self.section.microbatch_samples
            self.work.updates[self.piece][first * size, (first + count) * size, sweep] = task
        return task

    def _numbers(self, op: str, first: int, count: int) -> range | tuple[int, ...]:
        """Return the microbatches of an action that the piece works on; an update names samples of all
        pieces.
        """
        if op == "U" or not self.samples:
            return ()
        span = range(first, first + count)
        if not self.section.round_robin:
            return span
        return tuple(n for n in span if n % self.section.replicas == self.piece.replica)

    def _slot(self, op: str, samples: int, part: int) -> int:
        found = self.slots.get((op, samples, part))
        if found is None:
            again = op == RECOMPUTE
            slot = Slot(OP_KIND[op], self.piece.section, self.piece, self.piece, samples, again, part)
            found = self.slots[op, samples, part] = self.work.slot_id(slot)
        return found
