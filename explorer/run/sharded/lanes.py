"""Lanes of several ranks: every rank of a lane runs the lane's program on its pieces.

Lane i of t ranks is ranks i t to (i + 1) t - 1, in the order of the mesh. What goes from lane to lane goes
from each rank to the rank at the same place, which holds the same piece, and so do reductions between lanes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist

from explorer.base.errors import InputError
from explorer.run.ranks.lane import RankLanes, Wire
from explorer.run.ranks.transport import Handle, Transport
from explorer.run.sharded.communicators import ready_group
from explorer.run.sharded.layout_model import STAGES, TRANSFERS
from explorer.run.sharded.mesh import Line, RankMesh, lines_along, open_mesh
from explorer.strategy import REPLICA


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
) -> LanePlace | None:
    """Make the meshes of all lanes; every rank calls it with the same arguments.

    Args:
        axes: mesh axes of a lane.
        lanes: number of lanes.
        device: device of the tensors; the CPU if None.

    Returns:
        This rank's place; None for a rank after the last lane.

    Raises:
        InputError: fewer ranks than all lanes have.
    """
    each = math.prod(size for _, size in axes)
    if dist.get_world_size() < lanes * each:
        raise InputError(
            f"{lanes} lanes of {each} ranks",
            key="ranks",
            found=dist.get_world_size(),
            allowed=f">= {lanes * each}",
        )
    lane, place = divmod(dist.get_rank(), each)
    grids = [range(i * each, (i + 1) * each) for i in range(lanes)]
    if lane >= lanes:
        for a in range(len(axes)):
            for grid in grids:
                lines_along([size for _, size in axes], grid, a)
        return None
    mesh = open_mesh(axes, grids[lane], device=device, all_grids=grids)
    return LanePlace(lane=lane, place=place, ranks=each, mesh=mesh)


def over_replicas(
    where: LanePlace | None, lanes: RankLanes, axis: tuple[str, int], *, each: int
) -> LanePlace | None:
    """Add a mesh axis over the ranks of several replicas to a place, as its last; every rank calls it.

    The ranks of all replicas of a stage, lane by lane, are cut into lines of neighbours (Megatron's folding).

    Args:
        where: this rank's place; None for a rank without a lane.
        lanes: plans of the lanes.
        axis: name and size of the axis: whole lanes.
        each: ranks of a lane.

    Raises:
        InputError: ranks of a stage that are no whole lines, or a lane in unlike rows of replicas.
    """
    rows: dict[tuple[int, int], list[int]] = {}
    for piece in sorted(lanes.lane_of):
        rows.setdefault((piece.section, piece.copy), []).append(lanes.lane_of[piece])
    grids = sorted({tuple(row) for row in rows.values()})
    uneven = axis[1] % each or any(len(set(row)) * each % axis[1] for row in grids)
    if uneven or len(set(sum(grids, ()))) < sum(map(len, grids)):
        raise InputError(
            f"layers over {axis[1]} ranks of several lanes need whole lanes, a multiple for every stage",
            key="stages.shardings", found=str(grids), allowed="the same replicas of every stage",
        )  # fmt: skip
    found = where
    for grid in grids:
        ranks = [lane * each + place for lane in grid for place in range(each)]
        for low in range(0, len(ranks), axis[1]):
            row = tuple(ranks[low : low + axis[1]])
            group = ready_group(row)
            if where is not None and dist.get_rank() in row:
                line = Line(axis[0], row, row.index(dist.get_rank()), group, where.mesh.meter)
                found = replace(where, mesh=where.mesh.with_line(line))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTransport:
    """A transport whose wires and groups join lanes: each rank uses those of its own place."""

    transport: Transport
    """The transport of all ranks."""
    ranks: int
    """Ranks of a lane."""
    where: LanePlace | None
    """This rank's place; None for a rank without a lane."""

    @property
    def device(self) -> torch.device:
        """Device on which messages live."""
        return self.transport.device

    @property
    def place(self) -> int:
        """This rank's place in its lane."""
        return self.where.place if self.where else 0

    def open(self, wires: Iterable[Wire], groups: Iterable[tuple[int, ...]]) -> None:
        """Make the communicators of all places."""
        places = range(self.ranks)
        self.transport.open(
            [self._wire(wire, place) for wire in wires for place in places],
            [self._members(group, place) for group in groups for place in places],
        )

    def _wire(self, wire: Wire, place: int) -> Wire:
        return wire[0], wire[1] * self.ranks + place, wire[2] * self.ranks + place

    def _members(self, lanes: tuple[int, ...], place: int) -> tuple[int, ...]:
        return tuple(lane * self.ranks + place for lane in lanes)

    def _count(self, op: str, axis: str, sent: float) -> None:
        if self.where is not None:
            self.where.mesh.meter.count(op, axis, round(sent))

    def send(self, wire: Wire, message: torch.Tensor) -> None:
        """Begin to send."""
        if wire[0] == "wire":
            self._count(TRANSFERS, STAGES, message.numel() * message.element_size())
        self.transport.send(self._wire(wire, self.place), message)

    def receive(self, wire: Wire, buffer: torch.Tensor) -> Handle:
        """Begin to receive."""
        return self.transport.receive(self._wire(wire, self.place), buffer)

    def reduce(self, members: tuple[int, ...], buffer: torch.Tensor, *, op: Any) -> Handle:
        """Begin to all-reduce; an empty buffer says that something else has been begun instead."""
        if not buffer.numel():
            return None
        n = len(members)
        self._count("all_reduce", REPLICA, 2 * (n - 1) / n * buffer.numel() * buffer.element_size())
        return self.transport.reduce(self._members(members, self.place), buffer, op=op)

    def finish_sends(self) -> None:
        """Wait until every message has gone."""
        self.transport.finish_sends()

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.transport.barrier()

    def largest(self, value: float) -> float:
        """Return the largest of a number over all ranks."""
        return self.transport.largest(value)
