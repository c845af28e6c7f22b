"""Lanes of several ranks: every rank of a lane runs the lane's program on its pieces.

Lane i of t ranks is ranks i t to (i + 1) t - 1, in the order of the mesh. What goes from lane to lane goes
from each rank to the rank at the same place, which holds the same piece, and so do reductions between lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from explorer.base.errors import InputError
from explorer.run.ranks.lane import Wire
from explorer.run.ranks.transport import Handle, Transport
from explorer.run.sharded.mesh import RankMesh, open_mesh


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LanePlace:
    """Where this rank stands."""

    lane: int
    """Its lane."""
    place: int
    """Its place in the lane."""
    ranks: int
    """Ranks of a lane."""
    mesh: RankMesh
    """Its lane's mesh."""

    def rank(self, lane: int, place: int) -> int:
        """Return the rank at a place of a lane."""
        return lane * self.ranks + place


def open_lanes(
    axes: Sequence[tuple[str, int]], lanes: int, *, device: torch.device | None = None
) -> LanePlace:
    """Make the meshes of all lanes; every rank calls it with the same arguments.

    Args:
        axes: mesh axes of a lane.
        lanes: number of lanes.
        device: device of the tensors; the CPU if None.

    Raises:
        InputError: another number of ranks than all lanes have.
    """
    each = math.prod(size for _, size in axes)
    if dist.get_world_size() != lanes * each:
        raise InputError(
            f"{lanes} lanes of {each} ranks",
            key="ranks",
            found=dist.get_world_size(),
            allowed=str(lanes * each),
        )
    lane, place = divmod(dist.get_rank(), each)
    grids = [range(i * each, (i + 1) * each) for i in range(lanes)]
    mesh = open_mesh(axes, grids[lane], device=device, all_grids=grids)
    return LanePlace(lane=lane, place=place, ranks=each, mesh=mesh)


@dataclass(frozen=True, slots=True)
class LaneTransport:
    """A transport whose wires and groups join lanes: each rank uses those of its own place."""

    transport: Transport
    where: LanePlace

    def open(self, wires: Iterable[Wire], groups: Iterable[tuple[int, ...]]) -> None:
        """Make the communicators of all places."""
        places = range(self.where.ranks)
        self.transport.open(
            [self._wire(wire, place) for wire in wires for place in places],
            [self._members(group, place) for group in groups for place in places],
        )

    def _wire(self, wire: Wire, place: int) -> Wire:
        return wire[0], self.where.rank(wire[1], place), self.where.rank(wire[2], place)

    def _members(self, lanes: tuple[int, ...], place: int) -> tuple[int, ...]:
        return tuple(self.where.rank(lane, place) for lane in lanes)

    def send(self, wire: Wire, message: torch.Tensor) -> None:
        """Begin to send."""
        self.transport.send(self._wire(wire, self.where.place), message)

    def receive(self, wire: Wire, buffer: torch.Tensor) -> Handle:
        """Begin to receive."""
        return self.transport.receive(self._wire(wire, self.where.place), buffer)

    def reduce(self, members: tuple[int, ...], buffer: torch.Tensor, *, op: Any) -> Handle:
        """Begin to all-reduce; an empty buffer says that the backend has begun something else instead."""
        if not buffer.numel():
            return None
        return self.transport.reduce(self._members(members, self.where.place), buffer, op=op)

    def finish_sends(self) -> None:
        """Wait until every message has gone."""
        self.transport.finish_sends()
