"""LanePlan: what one rank has to do in a program, in the order in which it must be issued.

A rank is a lane of one device (a tensor-parallel lane is one rank too, in dry runs). Compute tasks run in the
lane's order. Every wire (ordered pair of ranks) and all groups of the same ranks are issued strictly in the
program's sequence, at all ends, so that nothing depends on tags, which NCCL ignores. Because the program has
no cycle with these sequences in it, issuing each message after the last of the actions that it and its
predecessors on the wire need cannot deadlock.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from explorer.actions import OFFLOAD, RECOMPUTE, RELOAD, Action
from explorer.base.errors import InputError
from explorer.run.ranks.sweeps import Interval, Sweeps
from explorer.tasks.placement import Piece
from explorer.tasks.program import (
    CLOSING,
    GATHER,
    HOST,
    JOIN,
    KINDS,
    OPENING,
    REDUCE,
    TRANSFER,
    B,
    F,
    I,
    Program,
    Slot,
    U,
)

WINDOW = 2
"""Number of receives posted on a wire ahead of need: one arrives while another is waited for. Each has a
buffer.
"""
Wire = tuple[str, int, int]
"""("wire", "signal" or "taken", sending rank, receiving rank)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One message of a wire."""

    task: int
    """Its task; below 0 for a signal, which carries no data: each signal has a number of its own."""
    wire: Wire
    """Wire that it takes."""
    flow: int
    """Its flow; -1 for a signal."""
    backward: bool
    """Whether it carries gradients."""
    interval: Interval
    """Samples it carries; for a signal the task that sends it and the one that waits."""
    slot: int
    """Slot of its task; 0 for a signal."""
    blocking: bool = False
    """Whether it begins only when the receiver has come to it."""
    answered: bool = False
    """Whether the sender waits for its end, of which the receiver tells it."""

    @property
    def answer(self) -> Wire:
        """Wire on which the receiver says that it has taken the message."""
        return "taken", self.wire[2], self.wire[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """One collective of a group."""

    task: int
    """Its task."""
    group: int
    """Holders group."""
    ranks: tuple[int, ...]
    """Ranks that take part."""
    span: Interval
    """Samples of the update whose gradients or weights are exchanged."""
    slot: int
    """Slot of its task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather:
    """One gather of weights, or one move of activations to the host or back."""

    task: int
    """Its task."""
    slot: int
    """Slot of its task."""
    channel: int
    """Channel that it holds."""
    piece: Piece
    """Piece whose weights or activations they are."""
    moved: tuple[int, ...] = ()
    """Microbatches whose activations move; () for weights."""
    back: bool = False
    """Whether they come back from the host."""
    after: tuple[int, ...] = ()
    """Tasks of the moves that must have ended before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTask:
    """One compute task of a lane, what it waits for and what is issued after it."""

    task: int
    """Its task."""
    slot: int
    """Slot of its task."""
    op: str
    """F, B, I, W, U or RECOMPUTE."""
    piece: Piece
    """Piece that computes it."""
    numbers: tuple[int, ...]
    """Microbatches (of the piece's own size and turn)."""
    span: Interval
    """For U: the samples it applies."""
    name: str
    """Name, as actions print."""
    step: int
    """Optimizer step."""
    receives: tuple[Transfer, ...]
    """Messages it needs."""
    reductions: tuple[int, ...]
    """Tasks of the collectives it needs."""
    gathers: tuple[int, ...]
    """Tasks of the gathers and moves that it needs."""
    sent: tuple[Transfer, ...] = ()
    """Messages of this rank whose end it waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlan:
    """Everything one rank does."""

    lane: int
    """Lane and rank."""
    tasks: tuple[LaneTask, ...]
    """In program order."""
    incoming: dict[Wire, tuple[Transfer, ...]]
    """Per wire: what arrives, in sequence."""
    sends: tuple[tuple[Transfer, ...], ...]
    """Per position (0: before the first task, i + 1: after task i): the messages issued there."""
    collectives: tuple[tuple[Reduction, ...], ...]
    """Per position: the collectives issued there."""
    sequences: dict[int, tuple[int, ...]]
    """Per group: its tasks, in sequence."""
    gathers: tuple[tuple[Gather, ...], ...]
    """Per position: the gathers and moves that begin there."""


class RankLanes:
    """Plans of the lanes of a program; what all of them need is computed once."""

    def __init__(self, program: Program) -> None:
        if program.other_lanes:
            raise InputError(
                "a stage part that several lanes compute together cannot be run yet",
                key="strategy.stages.shardings",
                found=f"{len(program.other_lanes)} tasks",
                allowed="every layer on its stage's own devices",
            )
        self.program = program
        self.sweeps = Sweeps(program)
        self.sections = program.skeleton.sections
        self.lane_of = {
            piece: lane
            for lane, tasks in enumerate(program.programs)
            for piece in self._pieces(tasks.tolist())
        }
        self.preds = [self._resolved(task) for task in range(program.size)]
        self.position: dict[int, tuple[int, int]] = {}
        for lane, tasks in enumerate(program.programs):
            for i, task in enumerate(tasks.tolist()):
                self.position[task] = (lane, i)
        self.consumers: dict[int, list[int]] = defaultdict(list)
        for task, before in enumerate(self.preds):
            for item in before:
                self.consumers[item].append(task)
        self.updates: dict[tuple[Piece, int], list[int]] = defaultdict(list)
        for task in self._of_kind(U):
            self.updates[self.slot(task).piece, int(program.microbatch[task])].append(task)
        self._earlier: Counter[tuple[Wire, Slot, int, int]] = Counter()
        self.transfers = {task: self._transfer(task) for task in self._of_kind(TRANSFER)}
        self.reductions = {task: self._reduction(task) for task in self._of_kind(REDUCE)}
        self.signals = list(self._signals())
        self.moved = self._moved()

    @property
    def wires(self) -> list[Wire]:
        """Every wire, in one order that all ranks share."""
        sent = {item.wire for item in (*self.transfers.values(), *self.signals)}
        return sorted(sent | {item.answer for item in self.transfers.values() if item.answered})

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """Members of every group, in one order that all ranks share."""
        return sorted({item.ranks for item in self.reductions.values()})

    def slot(self, task: int) -> Slot:
        """Return the slot of a task."""
        return self.program.slots[int(self.program.slot[task])]

    def plan(self, lane: int) -> LanePlan:
        """Make the plan of one lane."""
        tasks = tuple(self._lane_task(lane, task) for task in self.program.programs[lane].tolist())
        count = len(tasks) + 1
        mine = [item for item in (*self.transfers.values(), *self.signals) if item.wire[1] == lane]
        arriving = [item for item in (*self.transfers.values(), *self.signals) if item.wire[2] == lane]
        groups = [item for item in self.reductions.values() if lane in item.ranks]
        return LanePlan(
            lane=lane,
            tasks=tasks,
            incoming=_by_wire(arriving),
            sends=self._placed(lane, _by_wire(mine).values(), count),
            collectives=self._placed(lane, _by_ranks(groups).values(), count),
            sequences={key: tuple(item.task for item in items) for key, items in _by_group(groups).items()},
            gathers=self._gathers(lane, count),
        )

    def _pieces(self, tasks: list[int]) -> set[Piece]:
        return {self.slot(task).piece for task in tasks}

    def _of_kind(self, kind: int) -> list[int]:
        """List the tasks of a kind; for collectives in parts, the one that a run executes as a whole."""
        aside = CLOSING if kind == GATHER else OPENING
        found = [task for task in range(self.program.size) if self.program.kind[task] == kind]
        return [task for task in found if self.slot(task).part != aside]

    def _resolved(self, task: int) -> list[int]:
        """List the predecessors of a task, looking through joins."""
        found: list[int] = []
        stack = [int(self.program.first[task]), int(self.program.second[task])]
        while stack:
            item = stack.pop()
            if not item:
                continue
            if self.program.kind[item - 1] == JOIN:
                stack += [int(self.program.first[item - 1]), int(self.program.second[item - 1])]
            else:
                found.append(item - 1)
        return sorted(set(found))

    def _numbers(self, task: int) -> tuple[int, ...]:
        action = self.program.actions[int(self.program.action[task])]
        return self._numbers_of(action, self.slot(task).piece)

    def _numbers_of(self, action: Action, piece: Piece) -> tuple[int, ...]:
        """Return the microbatches of an action that are a piece's own."""
        section = self.sections[piece.section]
        span = range(action.first_microbatch, action.first_microbatch + action.count)
        own = [n for n in span if not section.round_robin or n % section.replicas == piece.replica]
        return tuple(self.sweeps.number(section.stage, n, action.sweep) for n in own)

    def _moved(self) -> dict[int, tuple[int, ...]]:
        """Return the microbatches of every move: a piece's moves each way are in the sequence of the actions
        that name them.
        """
        named: dict[tuple[Piece, bool], deque[tuple[int, ...]]] = defaultdict(deque)
        for lane, actions in enumerate(self.program.order.lanes):
            for action in (action for action in actions if action.op in (OFFLOAD, RELOAD)):
                for piece in (piece for piece, home in self.lane_of.items() if home == lane):
                    if (self.sections[piece.section].stage, piece.copy) == (action.stage, action.copy):
                        numbers = self._numbers_of(action, piece)
                        named[piece, action.op == RELOAD] += [numbers] if numbers else []
        moves = [task for task in self._of_kind(GATHER) if self.slot(task).part == HOST]
        return {task: named[self.slot(task).piece, self.slot(task).backward].popleft() for task in moves}

    def _interval(self, task: int) -> Interval:
        """Return the samples of a compute task, first to last."""
        piece, numbers = self.slot(task).piece, self._numbers(task)
        section = self.sections[piece.section]
        low = section.interval(piece.replica, numbers[0])[0]
        return low, section.interval(piece.replica, numbers[-1])[1]

    def _transfer(self, task: int) -> Transfer:
        """Make the transfer of a task: those samples of the producers that some consumer needs."""
        slot, program = self.slot(task), self.program
        # transfers that block also wait for the receiver, and hold up what the sender does next
        source, target = int(program.lane[task]), int(program.peer[task])
        made = self._worked_on(self.preds[task], slot, source, reads=slot.backward)
        if not made:  # implied by the order of the sending lane
            made = [self._implied(task)]
        asked = [
            self.sweeps.source(interval) or interval
            for interval in self._worked_on(self.consumers[task], slot, target, reads=not slot.backward)
        ]
        low = max(min(a for a, _ in made), min(a for a, _ in asked))
        high = min(max(b for _, b in made), max(b for _, b in asked))
        wire: Wire = ("wire", source, target)
        if high - low > slot.samples:  # both ends are of several microbatches, each with its transfer
            alike = (wire, slot, low, high)
            low += slot.samples * self._earlier[alike]
            high = low + slot.samples
            self._earlier[alike] += 1
        return Transfer(
            task=task,
            wire=wire,
            flow=slot.where,
            backward=slot.backward,
            interval=(low, high),
            slot=int(program.slot[task]),
            blocking=program.order.blocking,
            answered=any(self.position.get(item, (-1, 0))[0] == source for item in self.consumers[task]),
        )

    def _implied(self, task: int) -> Interval:
        """Return the samples of a transfer that waits for nothing of its own."""
        slot = self.slot(task)
        section = self.sections[slot.piece.section]
        number = int(self.program.microbatch[task])
        if self.sweeps.count > 1:
            reader = next(i for i in self.consumers[task] if i in self.position)
            sweep = self.program.actions[int(self.program.action[reader])].sweep
            number = self.sweeps.number(section.stage, number, sweep - self.sweeps.lag[sweep])
        return section.interval(slot.piece.replica, number)

    def _worked_on(self, tasks: Iterable[int], slot: Slot, lane: int, *, reads: bool) -> list[Interval]:
        """Return the samples of those tasks at one end of a transfer, on a lane: its readers or its source.

        A pair that runs as one also waits for what its other half is sent, and sends when that has ended.
        """
        flow = self.program.skeleton.flows[slot.where]
        sections, kinds = flow.targets if reads else (flow.source,), (B, I) if slot.backward else (F,)
        return [
            self._interval(item)
            for item in tasks
            if self.position.get(item, (-1, 0))[0] == lane
            and self.program.kind[item] in kinds
            and self.slot(item).piece.section in sections
        ]

    def _reduction(self, task: int) -> Reduction:
        slot = self.slot(task)
        pieces = self.program.skeleton.holders[slot.where].pieces
        ranks = tuple(sorted({self.lane_of[piece] for piece in pieces}))
        first = int(self.program.microbatch[task])
        updates = next(self.updates[piece, first] for piece in pieces if (piece, first) in self.updates)
        near = {*self.consumers[task], *self.preds[task]}  # of several sweeps, the one that needs it
        update = next((item for item in updates if item in near), updates[0])
        return Reduction(
            task=task, group=slot.where, ranks=ranks, span=self._span(update),
            slot=int(self.program.slot[task]),
        )  # fmt: skip

    def _span(self, task: int) -> Interval:
        """Return the samples that a U applies."""
        action = self.program.actions[int(self.program.action[task])]
        section = self.sections[self.slot(task).piece.section]
        size = section.microbatch_samples
        low = self.sweeps.number(section.stage, action.first_microbatch, action.sweep) * size
        return low, low + action.count * size

    def _signals(self) -> Iterable[Transfer]:
        """Yield the extra edges between lanes that no transfer carries."""
        edges = [
            (item, task)
            for task, before in enumerate(self.preds)
            for item in before
            if max(self.program.kind[task], self.program.kind[item]) < TRANSFER
            and self.position[item][0] != self.position[task][0]
        ]
        for number, (item, task) in enumerate(edges):
            wire = ("signal", self.position[item][0], self.position[task][0])
            yield Transfer(
                task=-1 - number, wire=wire, flow=-1, backward=False, interval=(item, task), slot=0
            )

    def _lane_task(self, lane: int, task: int) -> LaneTask:
        program, slot = self.program, self.slot(task)
        before = self.preds[task]
        signals = [item for item in self.signals if item.interval[1] == task]
        return LaneTask(
            task=task,
            slot=int(program.slot[task]),
            op=RECOMPUTE if slot.kind == F and slot.backward else KINDS[slot.kind],
            piece=slot.piece,
            numbers=self._numbers(task) if slot.kind != 4 else (),
            span=self._span(task) if KINDS[slot.kind] == "U" else (0, 0),
            name=str(program.actions[int(program.action[task])]),
            step=int(program.step[task]),
            receives=(
                *(
                    self.transfers[i]
                    for i in before
                    if i in self.transfers and self.transfers[i].wire[2] == lane
                ),
                *signals,
            ),
            sent=tuple(
                self.transfers[i]
                for i in before
                if i in self.transfers and self.transfers[i].answered and self.transfers[i].wire[1] == lane
            ),
            reductions=tuple(i for i in before if i in self.reductions),
            gathers=tuple(i for i in before if program.kind[i] == GATHER and self.slot(i).part != CLOSING),
        )

    def _placed(self, lane: int, sequences, count):  # type: ignore[no-untyped-def]
        """Place each item after the last of the lane's tasks that it or an earlier one of its channel
        needs.
        """
        found: list[list[Transfer | Reduction]] = [[] for _ in range(count)]
        for sequence in sequences:
            reached = 0
            for item in sequence:
                reached = max(reached, self._ready(lane, item))
                found[reached].append(item)
        return tuple(tuple(sorted(items, key=_order)) for items in found)

    def _ready(self, lane: int, item: Transfer | Reduction) -> int:
        """Return the position after the last task of this lane that an item needs."""
        if isinstance(item, Transfer) and item.flow < 0:
            return self.position[item.interval[0]][1] + 1
        before = [i for i in self.preds[item.task] if i in self.position]
        mine = [self.position[i][1] + 1 for i in before if self.position[i][0] == lane]
        return max(mine, default=0)

    def _gathers(self, lane: int, count: int) -> tuple[tuple[Gather, ...], ...]:
        """Place each gather and move after the last of the lane's tasks that it or an earlier one of its
        channel needs.
        """
        found: list[list[Gather]] = [[] for _ in range(count)]
        reached: dict[int, int] = defaultdict(int)
        for task in self._of_kind(GATHER):
            if self.program.lane[task] != lane:
                continue
            slot, channel = self.slot(task), int(self.program.channel[task])
            mine = [self.position[i][1] + 1 for i in self.preds[task] if i in self.position]
            reached[channel] = max(reached[channel], max(mine, default=0))
            moves = slot.part == HOST
            found[reached[channel]].append(
                Gather(
                    task=task, slot=int(self.program.slot[task]), channel=channel, piece=slot.piece,
                    moved=self.moved.get(task, ()), back=moves and slot.backward,
                    after=tuple(i for i in self.preds[task] if i in self.moved),
                )
            )  # fmt: skip
        return tuple(tuple(sorted(items, key=lambda item: item.task)) for items in found)


def _order(item: Transfer | Reduction) -> tuple[int, int]:
    if isinstance(item, Transfer) and item.flow < 0:
        return item.interval
    return item.task, 0


def _by_wire(items: Iterable[Transfer]) -> dict[Wire, tuple[Transfer, ...]]:
    found: dict[Wire, list[Transfer]] = defaultdict(list)
    for item in sorted(items, key=_order):
        found[item.wire].append(item)
    return {wire: tuple(found[wire]) for wire in sorted(found)}


def _by_ranks(items: Iterable[Reduction]) -> dict[tuple[int, ...], tuple[Reduction, ...]]:
    """Return collectives in sequence by who takes part: several groups of the same ranks share a channel."""
    found: dict[tuple[int, ...], list[Reduction]] = defaultdict(list)
    for item in sorted(items, key=_order):
        found[item.ranks].append(item)
    return {ranks: tuple(found[ranks]) for ranks in sorted(found)}


def _by_group(items: Iterable[Reduction]) -> dict[int, tuple[Reduction, ...]]:
    found: dict[int, list[Reduction]] = defaultdict(list)
    for item in sorted(items, key=_order):
        found[item.group].append(item)
    return {group: tuple(found[group]) for group in sorted(found)}
