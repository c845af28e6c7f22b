"""Interpreter: executes one rank's plan in order over real communicators, with every task time-stamped.

It knows nothing about the computation: a `Backend` computes and fills messages. Real compute and sleeping
share this file, which makes the dry run a test of launcher, order and transport.

No order waits in a circle, however few receives are posted ahead. Ranks only *begin* to send, to receive
and to reduce; they block for a message, for an answer to one of theirs, for a collective, and at their end
for what they sent. Tasks are numbered so that each comes after all that it needs, after those before it on
its lane and, a message or collective, on its wire or in its group. Take the task T of the least number that
has not run. Its lane has come to it, since what stands before it on the lane has a smaller number, and
whatever T blocks for ends:

* a message k < T: it was sent right after the last task that it or an earlier message of its wire needs,
  all below k; this rank has posted it and all before it on the wire (`_post(through=k)`), so that it
  arrives.
* an answer to a message k < T of its own: on the receiving lane, all tasks before the one that takes k are
  below k (`explorer.tasks.blocking_transfers`), and that one takes its messages in the order of their
  numbers, so that nothing it waits for before k is above k.
* a collective c < T: every member began it, and those before it of the same ranks, after tasks below c.

So T runs, and after it the next, until all have. Every message is needed by a task of its receiver: then
all are posted, and all sends end. The window appears nowhere; it only decides how early a message may
arrive.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from explorer.run.launching.status import COMPUTING, WAITING
from explorer.run.ranks.clocks import core_s, settle, worked_s
from explorer.run.ranks.lane import WINDOW, Gather, LanePlan, LaneTask, Reduction, Transfer, Wire
from explorer.run.ranks.transport import Handle, Transport

if TYPE_CHECKING:
    from explorer.run.sharded.lanes import LaneTransport

SPIN_S = 0.002


class Stamp(NamedTuple):
    """When one compute task waited and ran, in seconds since the common start."""

    task: int
    """Its task in the program."""
    wait_s: float
    """When the rank was free for it."""
    start_s: float
    """When it had all it needed."""
    end_s: float
    """When it had computed."""
    cpu_s: float
    """Processor seconds that it used; on a GPU all of them (`explorer.run.ranks.clocks`)."""
    core_s: float
    """The same with the threads of messages that worked meanwhile."""


class Backend(Protocol):
    """Protocol of what a rank computes, and how messages are filled and read."""

    def compute(self, task: LaneTask) -> None:
        """Run one task."""

    def message(self, item: Transfer) -> torch.Tensor:
        """Return the message to send."""

    def buffer(self, item: Transfer) -> torch.Tensor:
        """Return the buffer to receive into."""

    def deliver(self, item: Transfer, message: torch.Tensor) -> None:
        """Take a message in."""

    def contribution(self, item: Reduction) -> torch.Tensor:
        """Return what this rank adds to a collective."""

    def reduced(self, item: Reduction, total: torch.Tensor) -> None:
        """Take the result of a collective in."""

    def gather(self, item: Gather) -> None:
        """Begin a gather of weights, or a move of activations to the host or back."""

    def gathered(self, task: int) -> None:
        """Wait for its end."""

    reduce_op: Any
    """How collectives combine."""


class Hooks(NamedTuple):
    """Functions that the interpreter calls while it runs."""

    status: Callable[[int, str, float], None]
    """Called with (state, text, predicted seconds) of what begins."""
    before: Callable[[int], None]
    """Called with the position of the task that begins: where tests inject faults."""
    step: Callable[[int], None]
    """Called when a step of this lane has ended."""


class Interpreter:
    """One run of one plan."""

    def __init__(
        self,
        plan: LanePlan,
        backend: Backend,
        transport: Transport | LaneTransport,
        hooks: Hooks,
        seconds: tuple[float, ...] = (),
    ) -> None:
        self.plan, self.backend, self.transport = plan, backend, transport
        self.hooks, self.seconds = hooks, seconds
        self.posted: dict[int, tuple[Handle, torch.Tensor]] = {}
        self.queues: dict[Wire, deque[Transfer]] = {w: deque(q) for w, q in plan.incoming.items()}
        self.ahead: dict[Wire, int] = defaultdict(int)
        self.delivered: set[int] = set()
        self.taken: set[int] = set()
        self.running: dict[int, deque[tuple[Reduction, Handle, torch.Tensor]]] = defaultdict(deque)
        self.gathering: set[int] = set()
        self.group_of = {task: group for group, tasks in plan.sequences.items() for task in tasks}

    def run(self, begin_s: float) -> list[Stamp]:
        """Run every task; times are relative to `begin_s` on this rank's clock, for which it waits."""
        for wire in self.queues:
            self._post(wire)
        while (left := begin_s - time.perf_counter()) > 0:
            time.sleep(left if left > SPIN_S else 0)
        stamps: list[Stamp] = []
        self._issue(0)
        free = time.perf_counter()
        last = len(self.plan.tasks) - 1
        for i, task in enumerate(self.plan.tasks):
            self._wait_for(task)
            self.hooks.status(COMPUTING, task.name, self._predicted(task))
            self.hooks.before(i)
            settle(self.transport.device)  # messages that were waited for have come
            cpu, core = worked_s(self.transport.device), core_s(self.transport.device)
            start = time.perf_counter()
            self.backend.compute(task)
            end = time.perf_counter()
            used = worked_s(self.transport.device) - cpu, core_s(self.transport.device) - core
            self._issue(i + 1)
            stamps.append(Stamp(task.task, free - begin_s, start - begin_s, end - begin_s, *used))
            if i == last or self.plan.tasks[i + 1].step > task.step:
                self.hooks.step(task.step)
            free = time.perf_counter()
        self.hooks.status(WAITING, "the end of its messages", 0.0)
        for group in self.plan.sequences:
            self._finish(group, None)
        for gather in sorted(self.gathering):  # that of the last update: no task waits for it
            self.backend.gathered(gather)
        self.transport.finish_sends()
        settle(self.transport.device)
        return stamps

    def _predicted(self, task: LaneTask) -> float:
        return self.seconds[task.slot] if task.slot < len(self.seconds) else 1.0

    def _wait_for(self, task: LaneTask) -> None:
        for item in task.receives:
            if item.task not in self.delivered:
                self.hooks.status(WAITING, f"{task.name} waits for rank {item.wire[1]}", 0.0)
                self._receive(item)
        for item in task.sent:
            self.hooks.status(WAITING, f"{task.name} waits for rank {item.wire[2]}", 0.0)
            self._until_taken(item)
        for reduction in task.reductions:
            self.hooks.status(WAITING, f"{task.name} waits for its reduction", 0.0)
            self._finish(self.group_of[reduction], reduction)
        for gather in task.gathers:
            self.gathering.discard(gather)
            self.backend.gathered(gather)

    def _post(self, wire: Wire, *, through: int | None = None) -> None:
        """Keep a window of receives posted, extended to a message that is needed further on."""
        queue = self.queues[wire]
        while queue and (self.ahead[wire] < WINDOW or (through is not None and through not in self.posted)):
            item = queue.popleft()
            buffer = self.backend.buffer(item)
            self.posted[item.task] = (self.transport.receive(wire, buffer), buffer)
            self.ahead[wire] += 1

    def _receive(self, item: Transfer) -> None:
        if item.task not in self.posted:
            self._post(item.wire, through=item.task)
        work, buffer = self.posted.pop(item.task)
        work.wait()
        self.ahead[item.wire] -= 1
        self._post(item.wire)
        self.delivered.add(item.task)
        self.backend.deliver(item, buffer)
        if item.answered:
            answer = torch.tensor([item.task], dtype=torch.float64, device=self.transport.device)
            self.transport.send(item.answer, answer)

    def _until_taken(self, item: Transfer) -> None:
        """Wait until the receiver of a message says that it has taken it."""
        while item.task not in self.taken:
            answer = torch.zeros(1, dtype=torch.float64, device=self.transport.device)
            self.transport.receive(item.answer, answer).wait()
            self.taken.add(int(answer.item()))

    def _issue(self, position: int) -> None:
        """Issue everything that belongs to a position: messages, collectives, gathers, moves."""
        for item in self.plan.sends[position]:
            self.transport.send(item.wire, self.backend.message(item))
        for reduction in self.plan.collectives[position]:
            buffer = self.backend.contribution(reduction)
            work = self.transport.reduce(reduction.ranks, buffer, op=self.backend.reduce_op)
            self.running[reduction.group].append((reduction, work, buffer))
        for gather in self.plan.gathers[position]:
            self.backend.gather(gather)
            if not gather.moved:
                self.gathering.add(gather.task)

    def _finish(self, group: int, through: int | None) -> None:
        """Wait for the collectives of a group in sequence, up to one (None: all), and take them in."""
        queue = self.running[group]
        while queue:
            if through is not None and self._is_behind(group, through):
                return
            reduction, work, buffer = queue.popleft()
            if work is not None:
                work.wait()
            del work  # it holds the buffer as well
            self.backend.reduced(reduction, buffer)

    def _is_behind(self, group: int, task: int) -> bool:
        """Tell whether the first running collective of a group comes after `task` in its sequence."""
        return self.running[group][0][0].task > task
