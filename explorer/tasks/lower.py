"""Lowering: actions become tasks with dependencies, channels and one sequence on every wire and group.

In this order: compute tasks of every lane; dependencies and transfers by overlap of sample intervals
(same copy, sweep minus lag), forward then backward; reductions of the holders of each shard, before the
`U` that applies those samples; gathers of ZeRO; the schedule's extra edges; the sequence of every wire
and group by structural level (longest path in tasks), then id; the cycle check. Ordering by level adds
no cycle, because every edge goes up in (level, id).
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from explorer.actions import Action, Order, Shape
from explorer.errors import DeadlockError, PlanError
from explorer.tasks.lanes import Lanes, find_lanes
from explorer.tasks.placement import Flow, Piece, SectionShape, Skeleton
from explorer.tasks.program import GATHER, REDUCE, TRANSFER, Program, Slot
from explorer.tasks.program import B as KIND_B
from explorer.tasks.program import F as KIND_F
from explorer.tasks.program import I as KIND_I
from explorer.tasks.program import U as KIND_U
from explorer.tasks.program import W as KIND_W

OP_KIND = {"F": KIND_F, "B": KIND_B, "I": KIND_I, "W": KIND_W, "U": KIND_U}


class Overlap(NamedTuple):
    """A piece of another section that has some of the samples asked for."""

    replica: int
    microbatch: int
    low: int
    """First sample shared."""
    samples: int


class Lowering:
    """Tasks under construction: parallel lists by task id, filled phase by phase."""

    def __init__(self, skeleton: Skeleton, shape: Shape, order: Order, lanes: Lanes) -> None:
        self.skeleton, self.shape, self.order, self.lanes = skeleton, shape, order, lanes
        self.sections = skeleton.sections
        self.slots: dict[Slot, int] = {Slot(-1, -1, Piece(-1, -1, -1), Piece(-1, -1, -1), 0): 0}
        self.slot: list[int] = []
        self.preds: list[list[int]] = []
        self.channel: list[object] = []
        self.action: list[Action | None] = []
        self.step: list[int] = []
        self.programs: list[list[int]] = [[] for _ in order.lanes]
        self.shared_lanes: dict[int, tuple[int, ...]] = {}
        # (piece, microbatch, sweep) -> task
        self.forward: dict[tuple[Piece, int, int], int] = {}
        self.input_grad: dict[tuple[Piece, int, int], int] = {}
        self.weight_grad: dict[tuple[Piece, int, int], int] = {}
        # piece -> (low sample, high sample, sweep) -> task
        self.updates: dict[Piece, dict[tuple[int, int, int], int]] = defaultdict(dict)
        self._slot_list: list[Slot] = []
        # (piece, sweep) -> microbatch -> task
        self.gradients: dict[tuple[Piece, int], dict[int, int]] = defaultdict(dict)
        self.transfers: dict[tuple[object, ...], int] = {}
        self._overlaps: dict[tuple[int, int, int, int], tuple[Overlap, ...]] = {}

    def slot_of(self, task: int) -> Slot:
        """Slot of a task."""
        if len(self._slot_list) != len(self.slots):
            self._slot_list = list(self.slots)
        return self._slot_list[self.slot[task]]

    def add(self, slot: Slot, channel: object, preds: list[int], action: Action | None, step: int) -> int:
        """A new task; returns its id."""
        self.slot.append(self.slots.setdefault(slot, len(self.slots)))
        self.preds.append(preds)
        self.channel.append(channel)
        self.action.append(action)
        self.step.append(step)
        return len(self.slot) - 1

    def kept(self, section: int) -> range | tuple[int, ...]:
        """Replicas of a section that are lowered (equal ones are folded away)."""
        return tuple(
            r for r in range(self.sections[section].replicas) if Piece(section, 0, r) in self.lanes.of_piece
        )

    def overlaps(self, asked: int, replica: int, microbatch: int, source: int) -> tuple[Overlap, ...]:
        """Pieces of `source` that share samples with one microbatch of a piece of `asked`."""
        key = (asked, replica, microbatch, source)
        if key not in self._overlaps:
            self._overlaps[key] = tuple(self._find_overlaps(*key))
        return self._overlaps[key]

    def _find_overlaps(self, asked: int, replica: int, microbatch: int, source: int) -> list[Overlap]:
        want, have = self.sections[asked], self.sections[source]
        low, high = _interval(want, replica, microbatch)
        size = have.microbatch_samples
        alike = want.microbatch_samples == size and want.offsets == have.offsets
        if alike and not want.round_robin and not have.round_robin:
            return [Overlap(replica, microbatch, low, high - low)]
        found = []
        for n in range(low // size, (high - 1) // size + 1):
            replicas = (n % have.replicas,) if have.round_robin else self.kept(source)
            for r in replicas:
                start, stop = _interval(have, r, n)
                begin, end = max(low, start), min(high, stop)
                if begin < end:
                    found.append(Overlap(r, n, begin, end - begin))
        return found


def _interval(section: SectionShape, replica: int, microbatch: int) -> tuple[int, int]:
    """Samples [low, high) of one microbatch that one replica works on."""
    base = microbatch * section.microbatch_samples
    if section.round_robin:
        return base, base + section.microbatch_samples
    return base + section.offsets[replica], base + section.offsets[replica + 1]


def lower(skeleton: Skeleton, shape: Shape, order: Order, replicas: tuple[int, ...] | None = None) -> Program:
    """Lower an order to a program.

    Args:
        skeleton: sections, flows and holders.
        shape: what the schedule was given.
        order: what it answered.
        replicas: lower only these replicas, the others being equal to one of them.

    Raises:
        PlanError: an action misses its data; every such miss is listed.
        DeadlockError: program order and dependencies form a cycle.
    """
    from explorer.tasks.assemble import assemble

    work = Lowering(skeleton, shape, order, find_lanes(skeleton.sections, replicas))
    _compute_tasks(work)
    problems = _dependencies(work)
    if problems:
        raise PlanError(problems)
    _reductions(work)
    _gathers(work)
    _extra_edges(work)
    return assemble(work)


def _compute_tasks(work: Lowering) -> None:
    """One task per action, section and replica; a piece over several lanes is one task in all of them."""
    by_stage: list[dict[tuple[int, int], list[Piece]]] = []
    for held in work.lanes.pieces:
        table: dict[tuple[int, int], list[Piece]] = {}
        for piece in held:
            table.setdefault((work.sections[piece.section].stage, piece.copy), []).append(piece)
        by_stage.append(table)
    made: dict[tuple[Action, Piece], int] = {}
    for lane, actions in enumerate(work.order.lanes):
        program = work.programs[lane]
        for action in actions:
            pieces = by_stage[lane].get((action.stage, action.copy), [])
            for piece in pieces if action.op in "FU" else pieces[::-1]:
                key = (action, piece)
                task = made.get(key)
                if task is None:
                    task = _compute_task(work, action, piece)
                    if task is None:
                        continue
                    made[key] = task
                program.append(task)


def _compute_task(work: Lowering, action: Action, piece: Piece) -> int | None:
    section = work.sections[piece.section]
    numbers: list[int] = []
    if action.op != "U":
        span = range(action.first_microbatch, action.first_microbatch + action.count)
        numbers = [n for n in span if not section.round_robin or n % section.replicas == piece.replica]
        if not numbers or not section.samples(piece.replica):
            return None
    elif not work.skeleton.updates[piece.section]:
        return None
    samples = section.samples(piece.replica) * len(numbers)
    lanes = work.lanes.of_piece[piece]
    step = action.first_microbatch // max(1, work.shape.microbatches[section.stage])
    slot = Slot(OP_KIND[action.op], piece.section, piece, piece, samples)
    task = work.add(slot, ("lane", lanes[0]), [], action, step)
    if len(lanes) > 1:
        work.shared_lanes[task] = lanes
    _record(work, action, piece, numbers, task)
    return task


def _record(work: Lowering, action: Action, piece: Piece, numbers: list[int], task: int) -> None:
    tables = {
        "F": (work.forward,),
        "B": (work.input_grad, work.weight_grad),
        "I": (work.input_grad,),
        "W": (work.weight_grad,),
    }.get(action.op, ())
    for table in tables:
        for n in numbers:
            table[piece, n, action.sweep] = task
    if action.op in "BW":
        for n in numbers:
            work.gradients[piece, action.sweep][n] = task
    if action.op == "U":
        size = work.sections[piece.section].microbatch_samples
        low = action.first_microbatch * size
        work.updates[piece][low, low + action.count * size, action.sweep] = task


def _dependencies(work: Lowering) -> list[str]:
    """Data dependencies of every forward, input and weight gradient; returns what cannot be had."""
    into: dict[int, list[tuple[int, Flow]]] = defaultdict(list)
    out_of: dict[int, list[tuple[int, Flow]]] = defaultdict(list)
    for f, flow in enumerate(work.skeleton.flows):
        for target in flow.targets:
            into[target].append((f, flow))
        if flow.gradient:
            out_of[flow.source].append((f, flow))
    problems: list[str] = []
    for (piece, n, sweep), task in list(work.forward.items()):
        for f, flow in into[piece.section]:
            _value_for(work, f, flow, piece, n, sweep, task, problems)
    for (piece, n, sweep), task in list(work.input_grad.items()):
        if (piece, n, sweep) not in work.forward:
            problems.append(f"{work.action[task]} runs backward without a forward on its lane")
        for f, flow in out_of[piece.section]:
            _gradient_of(work, f, flow, piece, n, sweep, task, problems)
    for key, task in work.weight_grad.items():
        before = work.input_grad.get(key)
        if before is None:
            problems.append(f"{work.action[task]} needs the input gradient of its microbatch first")
        elif before != task:
            work.preds[task].append(before)
    return list(dict.fromkeys(problems))


def _lag(work: Lowering, sweep: int) -> int:
    """Sweeps back in which the neighbours' values and gradients lie."""
    return work.order.lag[sweep] if sweep < len(work.order.lag) else 0


def _value_for(
    work: Lowering, f: int, flow: Flow, piece: Piece, n: int, sweep: int, task: int, problems: list[str]
) -> None:
    """Forward of `piece` waits for the values it reads, of the sweep that its lag names."""
    lag = _lag(work, sweep)
    if sweep < lag:
        return  # the first sweep of a lagged neighbour starts from its initial guess
    for part in work.overlaps(piece.section, piece.replica, n, flow.source):
        source = Piece(flow.source, piece.copy, part.replica)
        producer = work.forward.get((source, part.microbatch, sweep - lag))
        if producer is None:
            problems.append(_missing(work, task, source, part, "forward"))
        else:
            _connect(work, f, (producer,), source, piece, part, task, backward=False)


def _gradient_of(
    work: Lowering, f: int, flow: Flow, piece: Piece, n: int, sweep: int, task: int, problems: list[str]
) -> None:
    """Backward of `piece` waits for its readers' gradients, summed where readers share a device."""
    lag = _lag(work, sweep)
    if sweep < lag:
        return
    first = flow.targets[0]
    for part in work.overlaps(piece.section, piece.replica, n, first):
        readers = [Piece(target, piece.copy, part.replica) for target in flow.targets]
        tasks = [work.input_grad.get((reader, part.microbatch, sweep - lag)) for reader in readers]
        if None in tasks:
            problems.append(_missing(work, task, readers[tasks.index(None)], part, "backward"))
            continue
        found = tuple(item for item in tasks if item is not None)
        _connect(work, f, found, readers[0], piece, part, task, backward=True)


def _missing(work: Lowering, task: int, piece: Piece, part: Overlap, way: str) -> str:
    stage = work.sections[piece.section].stage
    return (
        f"{work.action[task]} needs the {way} of microbatch {part.microbatch} on stage {stage}"
        f" (copy {piece.copy}, replica {part.replica}), which no lane runs"
    )


def _connect(
    work: Lowering,
    flow: int,
    producers: tuple[int, ...],
    source: Piece,
    target: Piece,
    part: Overlap,
    task: int,
    *,
    backward: bool,
) -> None:
    """Make `task` wait for `producers`, through a transfer where the devices differ."""
    sections = work.sections
    source_row = sections[source.section].rows[source.copy][source.replica]
    target_row = sections[target.section].rows[target.copy][target.replica]
    if source_row == target_row:
        work.preds[task].extend(producers)
        return
    key = (flow, producers, target_row, part.low, part.samples, backward)
    transfer = work.transfers.get(key)
    if transfer is None:
        slot = Slot(TRANSFER, flow, source, target, part.samples, backward)
        wire = ("wire", work.lanes.of_piece[source][0], work.lanes.of_piece[target][0])
        transfer = work.add(slot, wire, list(producers), work.action[producers[0]], work.step[producers[0]])
        work.transfers[key] = transfer
    work.preds[task].append(transfer)


def _reductions(work: Lowering) -> None:
    """Each holders group reduces the gradients of the samples that a U names, before that U."""
    for g, group in enumerate(work.skeleton.holders):
        pieces = [piece for piece in group.pieces if piece in work.lanes.of_piece]
        spans: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for piece in dict.fromkeys(pieces):
            for span, task in work.updates[piece].items():
                spans[span].append(task)
        channel = ("group", _devices(work, group.pieces))
        for count, ((low, high, sweep), updates) in enumerate(sorted(spans.items()), start=1):
            if count % group.every:
                continue
            slot = Slot(REDUCE, g, pieces[0], pieces[0], 0)
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
        size, index = section.microbatch_samples, work.gradients[piece, sweep]
        made = [index[n] for n in range(low // size, -(-high // size)) if n in index]
        if made:
            found.append(max(made))  # ids of one piece ascend in the order of its lane
    return found


def _gathers(work: Lowering) -> None:
    """ZeRO: levels 1 and 2 gather the updated weights after U; level 3 before every forward and backward."""
    for _lane, program in enumerate(work.programs):
        waiting: dict[Piece, int] = {}
        compute_before: list[int] = []
        for task in program:
            action = work.action[task]
            slot = work.slot_of(task)
            section = work.sections[slot.where]
            if action is not None and section.zero and section.replicas * len(section.rows) > 1:
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
    slot = Slot(GATHER, piece.section, piece, piece, 0)
    lane = work.lanes.of_piece[piece][0]
    return work.add(slot, ("gather", lane), preds, work.action[task], work.step[task])


def _extra_edges(work: Lowering) -> None:
    if not work.order.edges:
        return
    by_action: dict[Action, list[int]] = defaultdict(list)
    for task, action in enumerate(work.action):
        if action is not None and isinstance(work.channel[task], tuple) and work.channel[task][0] == "lane":  # type: ignore[index]
            by_action[action].append(task)
    for edge in work.order.edges:
        if edge.before not in by_action or edge.after not in by_action:
            raise PlanError([f"edge {edge.before} -> {edge.after} names an action that no lane runs"])
        for after in by_action[edge.after]:
            work.preds[after].extend(by_action[edge.before])


__all__ = ["DeadlockError", "Lowering", "lower"]
