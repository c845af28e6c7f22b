"""Tasks under construction, which the phases of lowering fill one after the other."""

from __future__ import annotations

from collections import defaultdict

from explorer.actions import Action, Order, Shape
from explorer.tasks.lanes import Lanes
from explorer.tasks.placement import Piece, Skeleton
from explorer.tasks.program import Slot

Site = tuple[Piece, int]
"""A piece in one sweep."""


class MadeTasks:
    """Tasks of one kind of work by site and microbatch."""

    def __init__(self) -> None:
        self.tasks: dict[Site, dict[int, int]] = {}
        """Per site: microbatch -> task."""
        self.order: list[tuple[Site, int]] = []
        """Every (site, microbatch), in the order they were first made."""

    def record(self, site: Site, numbers: range | tuple[int, ...], task: int) -> None:
        """Record that `task` does this work on these microbatches."""
        found = self.tasks.setdefault(site, {})
        for n in numbers:
            if n not in found:
                self.order.append((site, n))
            found[n] = task


class Lowering:
    """Tasks under construction: parallel lists by task id, filled phase by phase."""

    def __init__(self, skeleton: Skeleton, shape: Shape, order: Order, lanes: Lanes) -> None:
        self.skeleton, self.shape, self.order, self.lanes = skeleton, shape, order, lanes
        self.sections = skeleton.sections
        self.slots: dict[Slot, int] = {Slot(-1, -1, Piece(-1, -1, -1), Piece(-1, -1, -1), 0): 0}
        self.channels: dict[tuple[object, ...], int] = {}
        self.slot: list[int] = []
        self.preds: list[list[int]] = []
        self.channel: list[int] = []
        self.action: list[Action] = []
        self.step: list[int] = []
        self.programs: list[list[int]] = [[] for _ in order.lanes]
        # per lane the actions that are placed by name: (compute tasks before it, action)
        self.marks: list[list[tuple[int, Action]]] = [[] for _ in order.lanes]
        # compute tasks that run as one: forwards and their backwards
        self.overlaps: list[tuple[int, int]] = []
        self.shared_lanes: dict[int, tuple[int, ...]] = {}
        self.forward, self.input_grad, self.weight_grad = MadeTasks(), MadeTasks(), MadeTasks()
        # piece -> (low sample, high sample, sweep) -> task
        self.updates: dict[Piece, dict[tuple[int, int, int], int]] = defaultdict(dict)

    def slot_id(self, slot: Slot) -> int:
        """Return the number of a slot, a new one if none is equal."""
        return self.slots.setdefault(slot, len(self.slots))

    def channel_id(self, *name: object) -> int:
        """Return the number of a channel: ("lane", lane), ("wire", from, to), ("group", devices) or
        ("gather", lane).
        """
        return self.channels.setdefault(name, len(self.channels))

    def add(self, slot: int, channel: int, preds: list[int], action: Action, step: int) -> int:
        """Add a task; return its id."""
        self.slot.append(slot)
        self.preds.append(preds)
        self.channel.append(channel)
        self.action.append(action)
        self.step.append(step)
        return len(self.slot) - 1

    def kept(self, section: int) -> tuple[int, ...]:
        """Return the replicas of a section that are lowered (equal ones are folded away)."""
        return tuple(
            r for r in range(self.sections[section].replicas) if Piece(section, 0, r) in self.lanes.of_piece
        )
