"""Calls: what was given to which peer, how far every microbatch is, and what all of them decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from explorer.actions import FORWARD, Action, Assignment

TRANSFER = "transfer"


class StageEdge(NamedTuple):
    """One or several tensors from one stage to another."""

    source: int
    target: int
    gradient: bool
    """Whether a gradient comes back."""


class Done(NamedTuple):
    """A task that ran to its end."""

    kind: str
    """F, B or transfer."""
    where: int
    """Stage (F, B) or edge (transfer)."""
    peer: int
    """Peer that computed or sent."""
    target: int
    """Peer that received; `peer` itself for F and B."""
    microbatch: int
    start_s: float
    end_s: float
    call: int
    """Number of the assignment that it belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRun:
    """Everything that was decided in one run, and when it happened. Microbatches are numbered in the order
    in which they are applied.
    """

    assignments: tuple[Assignment, ...]
    """Who was given what, in the order in which it was decided."""
    tasks: tuple[Done, ...]
    """Tasks in the order in which they ended."""
    applied_s: tuple[float, ...]
    """Seconds at which each microbatch's last gradient was made, ascending."""
    redone: int
    """Number of forwards repeated because their host left."""
    last_start_s: float
    """Seconds at which the last microbatch set out; what follows is drain."""


@dataclass(slots=True)
class Call:
    """A forward or backward given to a peer."""

    op: str
    stage: int
    microbatch: int
    peer: int
    after: int
    event: int
    again: bool = False
    source: dict[int, int] = field(default_factory=dict)
    """Peer that sends, by edge."""
    began: list[int] = field(default_factory=list)
    """Edges whose tensors were sent, or at least begun to be."""
    missing: int = 0
    """Inputs that have not arrived yet."""
    ran: bool = False
    lost_at: int = -1
    """Calls made when the host left that had done this forward, before the backward."""


@dataclass(slots=True)
class Progress:
    """Progress of one microbatch."""

    call: dict[int, int] = field(default_factory=dict)
    """Last call of each stage."""
    place: dict[int, int] = field(default_factory=dict)
    """Call of the forward whose activations its backward reads, by stage."""
    forward: dict[int, int] = field(default_factory=dict)
    """Peer that made the output of each stage, once it is made."""
    lost: set[int] = field(default_factory=set)
    """Stages whose forward was done on a host that left before the backward."""
    backward: dict[int, int] = field(default_factory=dict)
    """Peer that made the gradient of each stage, once it is made."""


def summarise(
    calls: Sequence[Call],
    done: Sequence[Done],
    applied: Mapping[int, float],
    *,
    edges: Sequence[StageEdge],
    first_peer: Sequence[int],
    redone: int,
    last_start_s: float,
) -> DispatchRun:
    """Summarise a run, its microbatches numbered anew by when they were applied.

    Args:
        calls: all calls, in the order in which they were made.
        done: all tasks, in the order in which they ended.
        applied: seconds at which each microbatch was applied.
        edges: edges of the stages.
        first_peer: per stage its first peer.
        redone: forwards repeated.
        last_start_s: seconds at which the last microbatch set out.
    """
    ranked = sorted(applied, key=lambda n: (applied[n], n))
    rank = {n: place for place, n in enumerate(ranked)}

    def assignment(call: Call) -> Assignment:
        sent = [edges[e].source if call.op == FORWARD else edges[e].target for e in call.began]
        return Assignment(
            action=Action(call.op, call.stage, rank[call.microbatch]),
            replica=call.peer - first_peer[call.stage],
            after=call.after,
            event=call.event,
            sent=None if call.ran else tuple(sent),
            lost_at=call.lost_at,
        )

    return DispatchRun(
        assignments=tuple(map(assignment, calls)),
        tasks=tuple(item._replace(microbatch=rank[item.microbatch]) for item in done),
        applied_s=tuple(applied[n] for n in ranked),
        redone=redone,
        last_start_s=last_start_s,
    )
