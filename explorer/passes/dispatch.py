"""Dispatch pass: tasks without a given order find their place while time runs, and places come and go.

A *peer* computes one stage on one host; a host does one thing at a time, backwards before forwards. A forward
is bound to a peer when its inputs are made; a backward runs where its forward ran. When a host leaves,
whatever waits there is bound again, and a forward that was done there is repeated when its gradient arrives.
A microbatch is applied when all its backwards are done; then the next one sets out.

The pass is deterministic: equal arguments give equal runs, with any seed. The averaging of gradients among
the peers of a stage is assumed to overlap (delayed parameter updates, as in SWARM) and is not timed.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.actions import Dispatch
from explorer.base.errors import PlanError
from explorer.cluster import Event
from explorer.passes.rates import Demands, Rates

F, B, TRANSFER = "F", "B", "transfer"


class Peer(NamedTuple):
    """One candidate host for a stage."""

    stage: int
    host: int
    """Host that it shares with the other stages of the same devices."""
    devices: tuple[int, ...]
    forward_s: float
    """Seconds of one microbatch's forward."""
    backward_s: float
    """Seconds of one microbatch's backward."""


class StageEdge(NamedTuple):
    """One or several tensors from one stage to another."""

    source: int
    target: int
    gradient: bool
    """Whether a gradient comes back."""


class Done(NamedTuple):
    """A task that ran to its end."""

    kind: str
    where: int
    """Stage (F, B) or edge (transfer)."""
    peer: int
    """Peer that computed or sent."""
    target: int
    """Peer that received; `peer` itself for F and B."""
    microbatch: int
    start_s: float
    end_s: float
    cause: int
    """Number of the task that made it ready; -1 for none."""
    again: bool
    """Whether it is a repeated forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRun:
    """Everything that happened in one run."""

    tasks: tuple[Done, ...]
    """Tasks in the order in which they ended."""
    applied_s: tuple[float, ...]
    """Seconds at which each microbatch's last gradient was made."""
    redone: int
    """Number of forwards repeated because their host left."""
    last_start_s: float
    """Seconds at which the last microbatch set out; what follows is drain."""


Wire = Callable[[int, int, int, bool], tuple[float, Demands]]
"""Function from (edge, sending peer, receiving peer, backward) to (seconds, demands on shared resources)."""


def run_dispatch(
    peers: Sequence[Peer],
    edges: Sequence[StageEdge],
    wire: Wire,
    capacity: Sequence[float],
    policy: Dispatch,
    *,
    microbatches: int,
    events: Sequence[Event] = (),
    training: bool = True,
) -> DispatchRun:
    """Run some microbatches through peers that come and go.

    Raises:
        PlanError: a stage has no peer left and none will come.
    """
    return _Run(peers, edges, wire, capacity, policy, microbatches, events, training).run()


@dataclass(slots=True)
class _Task:
    """A task that is under way or waiting."""

    kind: str
    where: int
    peer: int
    target: int
    microbatch: int
    cause: int
    again: bool = False
    start_s: float = 0.0


@dataclass(slots=True)
class _Microbatch:
    """Progress of one microbatch."""

    place: dict[int, int] = field(default_factory=dict)
    """Peer of the forward, by stage."""
    forward: set[int] = field(default_factory=set)
    """Stages whose forward is done."""
    lost: set[int] = field(default_factory=set)
    """Stages whose forward was done on a host that left before the backward."""
    backward: set[int] = field(default_factory=set)
    """Stages whose backward is done."""
    arrived: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    """Edges whose tensors have arrived, by (op, stage)."""


class _Run:
    def __init__(
        self,
        peers: Sequence[Peer],
        edges: Sequence[StageEdge],
        wire: Wire,
        capacity: Sequence[float],
        policy: Dispatch,
        microbatches: int,
        events: Sequence[Event],
        training: bool,  # noqa: FBT001
    ) -> None:
        self.peers, self.edges, self.wire, self.policy = peers, edges, wire, policy
        self.total, self.training = microbatches, training
        self.events = deque(sorted(events, key=lambda event: event.time_s))
        self.stages = 1 + max(peer.stage for peer in peers)
        self.inputs = [[e for e, edge in enumerate(edges) if edge.target == s] for s in range(self.stages)]
        self.outputs = [
            [e for e, edge in enumerate(edges) if edge.source == s and edge.gradient]
            for s in range(self.stages)
        ]
        self.alive = [self._starts_alive(peer) for peer in peers]
        self.rates = Rates(capacity)
        self.random = random.Random(policy.seed)
        self.tasks: dict[int, _Task] = {}
        self.number = 0
        self.queues: dict[object, tuple[deque[_Task], deque[_Task]]] = defaultdict(lambda: (deque(), deque()))
        self.busy: dict[object, int] = {}
        self.owed = [0.0] * len(peers)
        self.credit = [0.0] * len(peers)
        self.state: dict[int, _Microbatch] = {}
        self.homeless: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
        self.done: list[Done] = []
        self.applied: dict[int, float] = {}
        self.next_microbatch = self.redone = 0
        self.last_start = 0.0

    def _starts_alive(self, peer: Peer) -> bool:
        first = next((event for event in self.events if event.device in peer.devices), None)
        return first is None or first.kind != "join"

    # ---- time ---------------------------------------------------------------------------------------

    def run(self) -> DispatchRun:
        for _ in range(min(self.policy.in_flight, self.total)):
            self._set_out(0.0, -1)
        while len(self.applied) < self.total:
            if self.events and self.events[0].time_s <= self.rates.next_time():
                self._happen(self.events.popleft())
                continue
            found = self.rates.next_end()
            if found is None:
                stages = ", ".join(str(s) for s, waiting in sorted(self.homeless.items()) if waiting)
                done = len(self.applied)
                raise PlanError(
                    [f"stage {stages} has no peer left after {done} of {self.total} microbatches"]
                )
            self._end(*found)
        return DispatchRun(
            tasks=tuple(self.done),
            applied_s=tuple(self.applied[n] for n in range(self.total)),
            redone=self.redone,
            last_start_s=self.last_start,
        )

    def _set_out(self, now: float, cause: int) -> None:
        n = self.next_microbatch
        self.next_microbatch, self.last_start = n + 1, now
        self.state[n] = _Microbatch()
        for stage in range(self.stages):
            if not self.inputs[stage]:
                self._bind(n, stage, now, cause)

    def _end(self, now: float, number: int) -> None:
        task = self.tasks.pop(number)
        who = (task.peer, task.target, task.microbatch)
        when = (task.start_s, now, task.cause)
        self.done.append(Done(task.kind, task.where, *who, *when, task.again))
        this = len(self.done) - 1
        channel = self._channel(task)
        del self.busy[channel]
        if task.kind == F:
            self._forward_done(task, now, this)
        elif task.kind == B:
            self._backward_done(task, now, this)
        else:
            self._transferred(task, now, this)
        self._serve(channel, now)

    # ---- channels: one thing at a time ---------------------------------------------------------------

    def _channel(self, task: _Task) -> object:
        if task.kind == TRANSFER:
            return (self.peers[task.peer].host, self.peers[task.target].host)
        return self.peers[task.peer].host

    def _queue(self, task: _Task, now: float) -> None:
        channel = self._channel(task)
        self.queues[channel][task.kind == F].append(task)
        self._serve(channel, now)

    def _serve(self, channel: object, now: float) -> None:
        """Start what waits on a channel: backwards first, each kind in order of arrival."""
        if channel in self.busy:
            return
        for queue in self.queues[channel]:
            if queue:
                task = queue.popleft()
                break
        else:
            return
        task.start_s = now
        number = self.number = self.number + 1
        self.tasks[number], self.busy[channel] = task, number
        self.rates.begin(number, *self._cost(task), now)

    def _cost(self, task: _Task) -> tuple[float, Demands]:
        if task.kind == TRANSFER:
            edge = self.edges[task.where]
            return self.wire(task.where, task.peer, task.target, self.peers[task.peer].stage != edge.source)
        peer = self.peers[task.peer]
        return (peer.forward_s if task.kind == F else peer.backward_s), ()

    # ---- places -------------------------------------------------------------------------------------

    def _bind(self, n: int, stage: int, now: float, cause: int, *, again: bool = False) -> None:
        """Choose the peer of a forward and send it its inputs."""
        found = self._choose(stage, n)
        if found is None:
            self.homeless[stage].append((n, cause, again))
            return
        state = self.state[n]
        state.place[stage] = found
        state.arrived.pop((F, stage), None)
        peer = self.peers[found]
        self.owed[found] += peer.forward_s + (peer.backward_s if self.training else 0.0)
        for e in self.inputs[stage]:
            self._send(e, state.place[self.edges[e].source], found, n, now, cause, again=again)
        if not self.inputs[stage]:
            self._queue(_Task(F, stage, found, found, n, cause, again), now)

    def _choose(self, stage: int, n: int) -> int | None:
        candidates = [p for p, peer in enumerate(self.peers) if peer.stage == stage and self.alive[p]]
        if not candidates:
            return None
        if self.policy.wiring == "weighted_round_robin":
            return self._in_turn(candidates)
        waits = {p: self._expected_wait(p, n) for p in candidates}
        least = min(waits.values())
        best = [p for p in candidates if waits[p] <= least + 1e-12 * abs(least)]
        return self.random.choice(best) if self.policy.seed else best[0]

    def _expected_wait(self, peer: int, n: int) -> float:
        """Estimate the seconds of work that a peer owes, including this microbatch and its transfers."""
        ours = self.peers[peer]
        sent = (
            self.wire(e, self.state[n].place[self.edges[e].source], peer, False)[0]  # noqa: FBT003
            for e in self.inputs[ours.stage]
        )
        return self.owed[peer] + ours.forward_s + ours.backward_s + max(sent, default=0.0)

    def _in_turn(self, candidates: Sequence[int]) -> int:
        """Choose by interleaved weighted round robin: everyone gains its speed, the richest pays for all."""
        speed = {p: 1.0 / max(self.peers[p].forward_s + self.peers[p].backward_s, 1e-30) for p in candidates}
        for p in candidates:
            self.credit[p] += speed[p]
        richest = max(candidates, key=lambda p: (self.credit[p], -p))
        self.credit[richest] -= sum(speed.values())
        return richest

    def _send(
        self, edge: int, source: int, target: int, n: int, now: float, cause: int, *, again: bool = False
    ) -> None:
        if self.peers[source].host == self.peers[target].host:
            self._transferred(_Task(TRANSFER, edge, source, target, n, cause, again), now, cause)
        else:
            self._queue(_Task(TRANSFER, edge, source, target, n, cause, again), now)

    # ---- progress -----------------------------------------------------------------------------------

    def _forward_done(self, task: _Task, now: float, this: int) -> None:
        n, stage, state = task.microbatch, task.where, self.state[task.microbatch]
        self.owed[task.peer] -= self.peers[task.peer].forward_s
        state.forward.add(stage)
        if task.again:
            self.redone += 1
            state.lost.discard(stage)
            self._backward_ready(n, stage, now, this)
            return
        for target in dict.fromkeys(edge.target for edge in self.edges if edge.source == stage):
            if all(self.edges[e].source in state.forward for e in self.inputs[target]):
                self._bind(n, target, now, this)
        if not self.training:
            self._applied(n, now, this, state.forward)
        elif not self.outputs[stage]:
            self._backward_ready(n, stage, now, this)

    def _backward_ready(self, n: int, stage: int, now: float, cause: int) -> None:
        """Start a backward with all output gradients made: send them to its place, or choose one anew."""
        state = self.state[n]
        if any(self.edges[e].target not in state.backward for e in self.outputs[stage]):
            return
        if stage in state.lost:
            self._bind(n, stage, now, cause, again=True)
            return
        place = state.place[stage]
        state.arrived[B, stage].clear()
        for e in self.outputs[stage]:
            self._send(e, state.place[self.edges[e].target], place, n, now, cause)
        if not self.outputs[stage]:
            self._queue(_Task(B, stage, place, place, n, cause), now)

    def _backward_done(self, task: _Task, now: float, this: int) -> None:
        n, stage, state = task.microbatch, task.where, self.state[task.microbatch]
        self.owed[task.peer] -= self.peers[task.peer].backward_s
        state.backward.add(stage)
        for e in self.inputs[stage]:
            if self.edges[e].gradient:
                self._backward_ready(n, self.edges[e].source, now, this)
        self._applied(n, now, this, state.backward)

    def _applied(self, n: int, now: float, this: int, stages: set[int]) -> None:
        if len(stages) == self.stages:
            self.applied[n] = now
            del self.state[n]
            if self.next_microbatch < self.total:
                self._set_out(now, this)

    def _transferred(self, task: _Task, now: float, this: int) -> None:
        n, edge, state = task.microbatch, self.edges[task.where], self.state.get(task.microbatch)
        stage = self.peers[task.target].stage
        if state is None or state.place.get(stage) != task.target:
            return  # bound elsewhere meanwhile
        forward = stage == edge.target
        needed = self.inputs[stage] if forward else self.outputs[stage]
        arrived = state.arrived[F if forward else B, stage]
        arrived.add(task.where)
        if len(arrived) < len(needed):
            return
        if forward:
            self._queue(_Task(F, stage, task.target, task.target, n, this, task.again), now)
        else:
            self._queue(_Task(B, stage, task.target, task.target, n, this), now)

    # ---- coming and going ---------------------------------------------------------------------------

    def _happen(self, event: Event) -> None:
        comes = event.kind == "join"
        touched = [
            p for p, peer in enumerate(self.peers) if event.device in peer.devices and self.alive[p] != comes
        ]
        for p in touched:
            self.alive[p] = comes
            self.owed[p] = self.credit[p] = 0.0
        if comes:
            for p in touched:
                waiting = self.homeless.pop(self.peers[p].stage, [])
                for n, cause, again in waiting:
                    self._bind(n, self.peers[p].stage, event.time_s, cause, again=again)
            return
        for state in self.state.values():
            gone = {stage for stage, p in state.place.items() if p in touched}
            state.lost |= gone & state.forward - state.backward
        for host in sorted({self.peers[p].host for p in touched}):
            self._abandon(host, event.time_s)

    def _abandon(self, host: int, now: float) -> None:
        """Drop a host that is gone: whatever it runs and whatever waits there finds another place."""
        orphans = [task for queue in self.queues.pop(host, ()) for task in queue]
        if (running := self.busy.pop(host, None)) is not None:
            self.rates.cancel(running, now)
            orphans.insert(0, self.tasks.pop(running))
        coming = [t for t in self.tasks.values() if t.kind == TRANSFER and self.peers[t.target].host == host]
        for channel, (queue, _) in self.queues.items():
            if isinstance(channel, tuple) and channel[1] == host:
                coming += queue
                queue.clear()
        moved: set[tuple[int, int]] = set()
        for task in [*orphans, *coming]:
            stage = self.peers[task.target].stage
            if (task.microbatch, stage) not in moved:
                moved.add((task.microbatch, stage))
                self._rebind(task.microbatch, stage, now, again=task.again)

    def _rebind(self, n: int, stage: int, now: float, *, again: bool) -> None:
        state = self.state[n]
        if stage in state.forward:  # its backward was waiting here: the forward is lost
            self._backward_ready(n, stage, now, -1)
        else:
            self._bind(n, stage, now, -1, again=again)
