"""Peers: the candidate hosts of a stage, who of them is present, what each owes, and who takes the next
forward.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from explorer.actions import Dispatch
from explorer.cluster import Event


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

    @property
    def both_s(self) -> float:
        """Seconds of one microbatch's forward and backward; never 0, so that a speed can be had from it."""
        return max(self.forward_s + self.backward_s, 1e-30)


class PeerChoice:
    """Which peers are present, the seconds of work they owe, and the choice among them."""

    def __init__(
        self, peers: Sequence[Peer], policy: Dispatch, events: Iterable[Event], *, training: bool
    ) -> None:
        self.peers, self.policy, self.training = peers, policy, training
        self.random = random.Random(policy.seed)
        self.owed = [0.0] * len(peers)
        self.credit = [0.0] * len(peers)
        ordered = sorted(events, key=lambda event: event.time_s)
        self.alive = [_starts_alive(peer, ordered) for peer in peers]

    def choose(self, stage: int, sent_s: Callable[[int], float]) -> int | None:
        """Choose the peer of a forward; None if no peer of the stage is present.

        Args:
            stage: the stage of the forward.
            sent_s: function from a peer to the seconds in which the inputs of the forward reach it.
        """
        candidates = [p for p, peer in enumerate(self.peers) if peer.stage == stage and self.alive[p]]
        if not candidates:
            return None
        if self.policy.wiring == "weighted_round_robin":
            return self._in_turn(candidates)
        waits = {p: self._expected_wait(p, sent_s(p)) for p in candidates}
        least = min(waits.values())
        best = [p for p in candidates if waits[p] <= least + 1e-12 * abs(least)]
        return self.random.choice(best) if self.policy.seed else best[0]

    def _expected_wait(self, p: int, sent_s: float) -> float:
        """Estimate the seconds of work that a peer owes, including this microbatch and its transfers."""
        peer = self.peers[p]
        return self.owed[p] + peer.forward_s + peer.backward_s + sent_s

    def _in_turn(self, candidates: Sequence[int]) -> int:
        """Choose by interleaved weighted round robin: everyone gains its speed, the richest pays for all."""
        speed = {p: 1.0 / self.peers[p].both_s for p in candidates}
        for p in candidates:
            self.credit[p] += speed[p]
        richest = max(candidates, key=lambda p: (self.credit[p], -p))
        self.credit[richest] -= sum(speed.values())
        return richest

    def takes(self, p: int) -> None:
        """Record that a peer owes a forward, and the backward that follows it."""
        peer = self.peers[p]
        self.owed[p] += peer.forward_s + (peer.backward_s if self.training else 0.0)

    def has_done(self, p: int, *, forward: bool) -> None:
        """Record that a peer has done a forward, or a backward."""
        self.owed[p] -= self.peers[p].forward_s if forward else self.peers[p].backward_s

    def changed_by(self, event: Event) -> list[int]:
        """Return the peers that an event brings or takes away, which owe nothing from then on."""
        comes = event.kind == "join"
        found = [
            p for p, peer in enumerate(self.peers) if event.device in peer.devices and self.alive[p] != comes
        ]
        for p in found:
            self.alive[p] = comes
            self.owed[p] = self.credit[p] = 0.0
        return found


def _starts_alive(peer: Peer, events: Sequence[Event]) -> bool:
    """Tell whether a peer is present from the start: not if the first thing that happens to it is to join."""
    first = next((event for event in events if event.device in peer.devices), None)
    return first is None or first.kind != "join"
