"""Dispatch pass: decides while time runs who takes which microbatch, as places come and go.

A *peer* computes one stage on one host; a host does one thing at a time, backwards before forwards
(`host_queues`). A forward is given to a peer when its inputs are made (`peers`); a backward runs where its
forward ran. When a host leaves, whatever waits there is given out again, and a forward that was done there is
repeated when its gradient arrives. A microbatch is applied when all its backwards are done; then the next one
sets out.

The result are decisions, an `Assignment` for each, from which `explorer.tasks` makes a program like any
other; what the pass says of time itself serves to compare the two.

The pass is deterministic: equal arguments give equal runs, with any seed. The averaging of gradients among
the peers of a stage is assumed to overlap (delayed parameter updates, as in SWARM) and is not timed.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence

from explorer.actions import BACKWARD, FORWARD, Dispatch
from explorer.base.errors import PlanError
from explorer.cluster import Event
from explorer.passes.calls import TRANSFER, Call, DispatchRun, Done, Progress, StageEdge, summarise
from explorer.passes.host_queues import Channel, HostQueues, Item
from explorer.passes.peers import Peer, PeerChoice
from explorer.passes.rates import Demands

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
        self.events = deque(sorted(enumerate(events), key=lambda pair: pair[1].time_s))
        self.stages = 1 + max(peer.stage for peer in peers)
        self.inputs = [[e for e, edge in enumerate(edges) if edge.target == s] for s in range(self.stages)]
        self.outputs = [
            [e for e, edge in enumerate(edges) if edge.source == s and edge.gradient]
            for s in range(self.stages)
        ]
        self.choice = PeerChoice(peers, policy, events, training=training)
        self.queues = HostQueues(capacity, self._cost, self._begins)
        self.calls: list[Call] = []
        self.state: dict[int, Progress] = {}
        self.homeless: dict[int, list[tuple[int, int, bool]]] = defaultdict(list)
        self.done: list[Done] = []
        self.applied: dict[int, float] = {}
        self.next_microbatch = self.redone = 0
        self.now = self.last_start = 0.0
        self.event = -1  # the event that is happening

    # ---- time ---------------------------------------------------------------------------------------

    def run(self) -> DispatchRun:
        for _ in range(min(self.policy.in_flight, self.total)):
            self._set_out(-1)
        while len(self.applied) < self.total:
            if self.events and self.events[0][1].time_s <= self.queues.next_time():
                self._happen(*self.events.popleft())
                continue
            found = self.queues.next_end()
            if found is None:
                stages = ", ".join(str(s) for s, waiting in sorted(self.homeless.items()) if waiting)
                done = len(self.applied)
                raise PlanError(
                    [f"stage {stages} has no peer left after {done} of {self.total} microbatches"]
                )
            self._end(*found)
        first = [next(p for p, peer in enumerate(self.peers) if peer.stage == s) for s in range(self.stages)]
        return summarise(
            self.calls, self.done, self.applied, edges=self.edges, first_peer=first,
            redone=self.redone, last_start_s=self.last_start,
        )  # fmt: skip

    def _set_out(self, cause: int) -> None:
        n = self.next_microbatch
        self.next_microbatch, self.last_start = n + 1, self.now
        self.state[n] = Progress()
        for stage in range(self.stages):
            if not self.inputs[stage]:
                self._give(n, stage, cause)

    def _end(self, now: float, item: Item) -> None:
        self.now = now
        call = self.calls[item.call]
        self.done.append(self._done(item, call))
        if item.edge >= 0:
            self._arrive(item.call)
        elif call.op == FORWARD:
            self._forward_done(item.call)
        else:
            self._backward_done(item.call)
        self.queues.serve(item.channel, now)

    def _done(self, item: Item, call: Call) -> Done:
        where, peer = (call.stage, call.peer) if item.edge < 0 else (item.edge, call.source[item.edge])
        kind = call.op if item.edge < 0 else TRANSFER
        return Done(kind, where, peer, call.peer, call.microbatch, item.start_s, self.now, item.call)

    def _cost(self, item: Item) -> tuple[float, Demands]:
        call = self.calls[item.call]
        peer = self.peers[call.peer]
        if item.edge >= 0:
            return self.wire(item.edge, call.source[item.edge], call.peer, call.op == BACKWARD)
        return (peer.forward_s if call.op == FORWARD else peer.backward_s), ()

    def _begins(self, item: Item) -> None:
        if item.edge >= 0:
            self.calls[item.call].began.append(item.edge)

    # ---- who takes what -----------------------------------------------------------------------------

    def _give(self, n: int, stage: int, cause: int, *, again: bool = False) -> None:
        """Choose the peer of a forward and send it its inputs."""
        state = self.state[n]
        sources = {e: state.forward[self.edges[e].source] for e in self.inputs[stage]}

        def sent_s(p: int) -> float:
            return max((self.wire(e, source, p, False)[0] for e, source in sources.items()), default=0.0)  # noqa: FBT003

        found = self.choice.choose(stage, sent_s)
        if found is None:
            state.call[stage] = -1
            self.homeless[stage].append((n, cause, again))
            return
        self.choice.takes(found)
        state.place[stage] = len(self.calls)
        self._call(Call(FORWARD, stage, n, found, cause, self.event, again, sources))

    def _call(self, call: Call) -> None:
        """Send a peer the inputs of what it is given; those on its own host are there already."""
        number = len(self.calls)
        self.calls.append(call)
        self.state[call.microbatch].call[call.stage] = number
        host = self.peers[call.peer].host
        away = [e for e, source in call.source.items() if self.peers[source].host != host]
        call.missing = len(away)
        for e in away:
            self.queues.add(Item(number, e, (self.peers[call.source[e]].host, host)), self.now)
        if not away:
            self._ready(number)

    def _ready(self, number: int) -> None:
        call = self.calls[number]
        channel: Channel = (self.peers[call.peer].host,)
        self.queues.add(Item(number, -1, channel, last=call.op == FORWARD), self.now)

    # ---- progress -----------------------------------------------------------------------------------

    def _is_current(self, number: int) -> bool:
        """Tell whether a call still stands: nobody else was given its work since."""
        call = self.calls[number]
        state = self.state.get(call.microbatch)
        return state is not None and state.call[call.stage] == number

    def _arrive(self, number: int) -> None:
        if self._is_current(number):
            self.calls[number].missing -= 1
            if not self.calls[number].missing:
                self._ready(number)

    def _forward_done(self, number: int) -> None:
        call = self.calls[number]
        n, stage, state = call.microbatch, call.stage, self.state[call.microbatch]
        call.ran = True
        self.choice.has_done(call.peer, forward=True)
        if call.again:
            self.redone += 1
            state.lost.discard(stage)
            self._backward_ready(n, stage, number)
            return
        state.forward[stage] = call.peer
        for target in dict.fromkeys(edge.target for edge in self.edges if edge.source == stage):
            if all(self.edges[e].source in state.forward for e in self.inputs[target]):
                self._give(n, target, number)
        if not self.training:
            self._finish(n, number, len(state.forward))
        elif not self.outputs[stage]:
            self._backward_ready(n, stage, number)

    def _backward_ready(self, n: int, stage: int, cause: int) -> None:
        """Start a backward with all output gradients made: send them to its place, or choose one anew."""
        state = self.state[n]
        if any(self.edges[e].target not in state.backward for e in self.outputs[stage]):
            return
        if stage in state.lost:
            self._give(n, stage, cause, again=True)
            return
        peer = self.calls[state.place[stage]].peer
        sources = {e: state.backward[self.edges[e].target] for e in self.outputs[stage]}
        self._call(Call(BACKWARD, stage, n, peer, cause, self.event, source=sources))

    def _backward_done(self, number: int) -> None:
        call = self.calls[number]
        n, stage, state = call.microbatch, call.stage, self.state[call.microbatch]
        call.ran = True
        self.choice.has_done(call.peer, forward=False)
        state.backward[stage] = call.peer
        for e in self.inputs[stage]:
            if self.edges[e].gradient:
                self._backward_ready(n, self.edges[e].source, number)
        self._finish(n, number, len(state.backward))

    def _finish(self, n: int, number: int, stages: int) -> None:
        """Apply a microbatch that has been through all stages; the next one sets out."""
        if stages == self.stages:
            self.applied[n] = self.now
            del self.state[n]
            if self.next_microbatch < self.total:
                self._set_out(number)

    # ---- coming and going ---------------------------------------------------------------------------

    def _happen(self, number: int, event: Event) -> None:
        self.now, self.event = event.time_s, number
        touched = self.choice.changed_by(event)
        if event.kind == "join":
            for p in touched:
                for n, cause, again in self.homeless.pop(self.peers[p].stage, []):
                    self._give(n, self.peers[p].stage, cause, again=again)
        else:
            self._lose(frozenset(touched))
            for host in sorted({self.peers[p].host for p in touched}):
                self._abandon(host)
        self.event = -1

    def _lose(self, gone: frozenset[int]) -> None:
        """Mark the forwards of peers that are gone whose backward is still to come."""
        for state in self.state.values() if self.training else ():
            for stage, number in state.place.items():
                call = self.calls[number]
                if call.peer in gone and call.ran and stage not in state.backward:
                    state.lost.add(stage)
                    call.lost_at = len(self.calls)

    def _abandon(self, host: int) -> None:
        """Find another place for whatever runs or waits on a host that is gone."""
        found = (item.call for item in self.queues.abandon(host, self.now))
        for number in [item for item in dict.fromkeys(found) if self._is_current(item)]:
            call = self.calls[number]
            if call.op == BACKWARD or call.again:
                self._backward_ready(call.microbatch, call.stage, -1)
            else:
                self._give(call.microbatch, call.stage, -1)
