"""Program: lowered tasks as arrays, in topological order. One program serves every strategy of its shape.

Durations are not here: each task names a *slot* (forward of section 2 for 4 samples, transfer of flow 1,
...), and a pricing of the few slots prices all tasks. A task has at most two predecessors; more are
joined by `join` tasks of no duration, so that the longest path is one tight loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.actions import Action, Order, Shape
from explorer.base.caching import Owner
from explorer.tasks.placement import Piece, Skeleton

F, B, I, W, U, TRANSFER, REDUCE, GATHER, JOIN = range(9)  # noqa: E741
WHOLE, OPENING, CLOSING, REMADE_BEFORE, HOST, BESIDE = range(6)
"""Parts of a collective: all of it; or, if it runs in parts, those that overlap with work or that work waits
for. A reduction in buckets opens with the last backward and closes with its last bucket; a gather of sharded
weights opens with the first block and closes during the work on it and the next. For a backward: what it
would recompute is made before it, by a separate action. A move of activations to the host, or back
(`Slot.backward`), counts as a gather as well. A forward and a backward that run as one share its seconds
(BESIDE).
"""

KINDS = ("F", "B", "I", "W", "U", "transfer", "reduce", "gather", "join")
"""Names of task kinds; pieces compute the first five, the others move bytes."""


class Slot(NamedTuple):
    """Everything a duration depends on. One slot serves all equal tasks."""

    kind: int
    """Index in `KINDS`."""
    where: int
    """Section (compute), flow (transfer), holders group (reduce, gather) or event of the cluster (join)."""
    piece: Piece
    """Piece that computes or sends; the first of a group."""
    peer: Piece
    """Piece that receives; `piece` itself if nothing is sent, or that of the other half (BESIDE)."""
    samples: int
    """Samples worked on or sent."""
    backward: bool = False
    """For a transfer: whether it carries gradients; for a forward: whether it is done again."""
    part: int = WHOLE
    """For a collective that runs in parts: which part; for a backward: whether its recomputation is
    separate.
    """


SAVED, REMADE, WAITING, REMADE_REST, REMADE_WHOLE, REMADE_IN_TURN = range(6)
"""What a memory event concerns: what a forward leaves; what exists only while a backward recomputes; what
waits from an input gradient to its weight gradient; what is recomputed of the last block besides all that
waits; what an action that recomputes leaves for the backward; and what exists only while a whole backward
recomputes, block by block as it frees what later blocks kept.
"""


class MemoryEvents(NamedTuple):
    """Changes of activation memory by lane, in the order they happen whatever the durations are."""

    lane: npt.NDArray[np.int64]
    section: npt.NDArray[np.int64]
    samples: npt.NDArray[np.float64]
    """Samples: above 0 allocated, below freed."""
    part: npt.NDArray[np.int8]
    """SAVED, REMADE, WAITING, REMADE_REST, REMADE_WHOLE or REMADE_IN_TURN."""
    task: npt.NDArray[np.int64]
    """Task at whose start or end it happens."""
    at_end: npt.NDArray[np.bool_]
    """Whether it happens at the end: everything freed, and what an input gradient leaves."""
    lane_start: npt.NDArray[np.int64]
    """First event of each lane that has any."""


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Program(Owner):
    """Lowered tasks. Index 0 of `first`/`second` means the start of time; task i is index i + 1 there."""

    skeleton: Skeleton
    """Skeleton it was lowered from."""
    shape: Shape
    """Shape that the schedule was given."""
    order: Order
    """Order that the schedule returned."""
    lane_devices: tuple[tuple[int, ...], ...]
    """Devices of each lane."""
    slots: tuple[Slot, ...]
    """Distinct slots; slot 0 belongs to joins and takes no time. A join with a slot of its own lasts from the
    start until an event of the cluster.
    """
    kind: npt.NDArray[np.int8]
    """Per task: index in `KINDS`."""
    slot: npt.NDArray[np.int64]
    """Per task: index in `slots`."""
    lane: npt.NDArray[np.int64]
    """Per task: (first) lane that computes or sends; -1 for joins."""
    peer: npt.NDArray[np.int64]
    """Per task: receiving lane of a transfer; -1 elsewhere."""
    step: npt.NDArray[np.int64]
    """Per task: optimizer step it belongs to."""
    action: npt.NDArray[np.int64]
    """Per task: index in `actions`; -1 if it is not a lane's action."""
    microbatch: npt.NDArray[np.int64]
    """Per task: (first) microbatch of its stage; -1 if it has none."""
    channel: npt.NDArray[np.int64]
    """Per task: exclusive channel it holds (lane, wire or group); -1 for joins."""
    first: npt.NDArray[np.int64]
    """Per task: one predecessor + 1, or 0."""
    second: npt.NDArray[np.int64]
    """Per task: the other predecessor + 1, or 0."""
    actions: Sequence[Action]
    """Distinct actions."""
    other_lanes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Tasks that hold more than one lane: task -> all lanes."""
    programs: tuple[npt.NDArray[np.int64], ...]
    """Per lane: its compute tasks in order."""
    memory: MemoryEvents
    """Activation memory."""
    versions: tuple[int, ...]
    """Per section: most weight versions alive at once."""
    delay: tuple[int, ...]
    """Per section: most updates between the read of a weight and the update made from it."""
    copies: tuple[int, ...]
    """Per section: copies of the weights besides its versions, made anew for every read (predicted ones)."""
    whole_over_runs: tuple[bool, ...]
    """Per section: whether ZeRO keeps its weights gathered over runs of actions (`explorer.tasks.runs`)."""
    gathered_together: tuple[tuple[tuple[int, ...], ...], ...] = ()
    """Per lane: sections whose weights are gathered at once, if the order names gathers; () if none."""
    kept_replicas: tuple[int, ...] | None = None
    """Replicas lowered if equal ones are folded; None for all."""
    replica_classes: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Kept replica -> replicas it stands for."""
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    @property
    def size(self) -> int:
        """Number of tasks, joins included."""
        return len(self.first)
