"""Boxing: conversions of a tensor between layouts on real ranks, forward and backward as sharding plans them.

A tensor that a layer has written is converted once for every state in which layers read it. In the backward
the gradients that its readers leave are added before they are converted, so three readers of a broadcast
cost one all-reduce (`explorer.sharding.traffic`). Both are one node of autograd's graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from explorer.run.sharded.collectives import AllReduce, exchange
from explorer.run.sharded.mesh import RankMesh
from explorer.run.sharded.pieces import Dimensions, Indices, array_axis
from explorer.sharding.reshard import Step, reshard
from explorer.sharding.states import BROADCAST, PARTIAL, Axis, TensorPlacement
from explorer.sharding.traffic import forward_steps


class Want(NamedTuple):
    """How a reader wants a tensor, and how it leaves its gradient."""

    placement: TensorPlacement
    """State over every mesh axis in which it reads."""
    gradient: TensorPlacement
    """State in which it leaves the gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxer:
    """The conversions of one tensor on one rank."""

    name: str
    """The tensor."""
    shape: tuple[int, ...]
    """Its whole shape, samples first."""
    sizes: tuple[float, ...]
    """Sizes in which pieces are counted."""
    axes: tuple[Axis, ...]
    """The mesh axes."""
    mesh: RankMesh
    """This rank's lines, one for each of `axes`."""
    dimensions: Dimensions
    """Pieces of its axes."""

    def cut(self, whole: torch.Tensor, placement: TensorPlacement) -> torch.Tensor:
        """Return this rank's piece of the whole tensor; a partial sum is all on the first rank."""
        for position, indices in enumerate(self._indices(placement, self.mesh.place)):
            whole = _take(whole, position, indices)
        if any(s == PARTIAL and self.mesh.place[a] for a, s in enumerate(placement)):
            return torch.zeros_like(whole)
        return whole

    def cut_apart(self, own: torch.Tensor, placement: TensorPlacement) -> torch.Tensor:
        """Return this rank's piece of a tensor of its own samples alone."""
        for position, indices in enumerate(self._indices(placement, self.mesh.place)[1:], start=1):
            own = _take(own, position, indices)
        return own

    def convert(
        self, x: torch.Tensor, source: TensorPlacement, steps: Sequence[Step], *, added: bool = False
    ) -> torch.Tensor:
        """Run some conversions on this rank's piece.

        Where several devices have the same indices (fewer key-value heads than devices), each has all of a
        value, but its own share of a gradient, which is to be `added` up: it goes to the first of them.
        """
        now = list(source)
        for step in steps:
            x = self._step(x, now, step, added=added)
            now[step.axis] = step.target
            position = array_axis(step.target)
            if (
                added
                and position is not None
                and not self._holders(step.axis, position)[self.mesh.place[step.axis]]
            ):
                x = torch.zeros_like(x)
        return x

    def _once(self, pieces: Sequence[Indices], a: int, position: int) -> list[Indices]:
        """Return what the ranks of a line send of values: of equal pieces the first rank its own."""
        holders = self._holders(a, position)
        return [piece[: len(piece) * first] for piece, first in zip(pieces, holders, strict=True)]

    def _holders(self, a: int, position: int) -> tuple[bool, ...]:
        return self.dimensions.first_holders(self.name, position, self.shape[position], a)

    def forward(
        self, x: torch.Tensor, origin: TensorPlacement, wants: Sequence[TensorPlacement]
    ) -> dict[TensorPlacement, torch.Tensor]:
        """Return a written tensor in all wanted states."""
        there = {origin: x}
        wanted = tuple(dict.fromkeys(wants))
        for k, steps in forward_steps(origin, wanted, self.sizes, self.axes):
            source = next(s for s in there if reshard(s, wanted[k], self.sizes, self.axes) == steps)
            there[wanted[k]] = self.convert(there[source], source, steps)
        return there

    def backward(
        self, left: Sequence[tuple[TensorPlacement, torch.Tensor]], goal: TensorPlacement
    ) -> torch.Tensor:
        """Return the sum of its readers' gradients in the state that its writer needs."""
        partial = [any(item[a] == PARTIAL for item, _ in left) for a in range(len(self.axes))]
        joined: dict[TensorPlacement, torch.Tensor] = {}
        for item, gradient in _added(left):
            target = tuple(PARTIAL if partial[a] else s for a, s in enumerate(item))
            steps = reshard(item, target, self.sizes, self.axes)
            made = self.convert(gradient, item, steps, added=True)
            joined[target] = joined[target] + made if target in joined else made
        ends = [
            self.convert(gradient, item, reshard(item, goal, self.sizes, self.axes), added=True)
            for item, gradient in joined.items()
        ]
        return sum(ends[1:], ends[0])

    # -- one conversion ---------------------------------------------------------------------------

    def indices(self, placement: Sequence[int]) -> list[Indices]:
        """Return the indices that this rank has along every axis in some state."""
        return self._indices(placement, self.mesh.place)

    def _indices(self, placement: Sequence[int], place: Sequence[int]) -> list[Indices]:
        return self.dimensions.indices(self.name, self.shape, tuple(placement), place)

    def peers(self, placement: Sequence[int], a: int, position: int) -> list[Indices]:
        """Return the indices along an axis that every rank of the line along `a` has."""
        found = []
        for c in range(self.mesh.lines[a].size):
            place = (*self.mesh.place[:a], c, *self.mesh.place[a + 1 :])
            found.append(self._indices(placement, place)[position])
        return found

    def _step(self, x: torch.Tensor, now: Sequence[int], step: Step, *, added: bool) -> torch.Tensor:
        a, line = step.axis, self.mesh.lines[step.axis]
        after = [*now[:a], step.target, *now[a + 1 :]]
        if step.op == "all_reduce":
            return AllReduce(line).forward(x)
        if step.op == "pad":
            return self._padded(x, now, step)
        source, target = array_axis(step.source), array_axis(step.target)
        if step.op == "slice":
            return self._sliced(x, now, after, target or 0)
        if step.op == "all_gather":
            pieces = self.peers(now, a, source or 0)
            if not added:
                pieces = self._once(pieces, a, source or 0)
                x = x.narrow(source or 0, 0, len(pieces[line.place]))
            shapes = [_resized(x.shape, source or 0, len(piece)) for piece in pieces]
            parts = exchange(line, "all_gather", [x] * line.size, shapes)
            return _joined(parts, source or 0, pieces)
        pieces = self.peers(now, a, source or 0) if step.op == "all_to_all" else []
        if pieces and not added:
            pieces = self._once(pieces, a, source or 0)
            x = x.narrow(source or 0, 0, len(pieces[line.place]))
        outgoing = self._outgoing(x, now, after, a, target or 0)
        mine = outgoing[line.place].shape
        if step.op == "reduce_scatter":
            parts = exchange(line, "reduce_scatter", outgoing, [mine] * line.size)
            return _total(parts)
        shapes = [_resized(mine, source or 0, len(piece)) for piece in pieces]
        return _joined(exchange(line, "all_to_all", outgoing, shapes), source or 0, pieces)

    def _sliced(
        self, x: torch.Tensor, now: Sequence[int], after: Sequence[int], position: int
    ) -> torch.Tensor:
        held = self._indices(now, self.mesh.place)[position]
        kept = self._indices(after, self.mesh.place)[position]
        return _take(x, position, np.searchsorted(held, kept))

    def _outgoing(
        self, x: torch.Tensor, now: Sequence[int], after: Sequence[int], a: int, position: int
    ) -> list[torch.Tensor]:
        """Cut a tensor into the pieces along an axis that the ranks of a line keep."""
        held = self._indices(now, self.mesh.place)[position]
        return [_take(x, position, np.searchsorted(held, kept)) for kept in self.peers(after, a, position)]

    def _padded(self, x: torch.Tensor, now: Sequence[int], step: Step) -> torch.Tensor:
        if step.source == BROADCAST:  # one rank keeps it, the others have zeros
            return x if self.mesh.place[step.axis] == 0 else torch.zeros_like(x)
        position = array_axis(step.source) or 0
        whole = [*now[: step.axis], BROADCAST, *now[step.axis + 1 :]]
        wanted = self._indices(whole, self.mesh.place)[position]
        held = self._indices(now, self.mesh.place)[position]
        found = x.new_zeros(_resized(x.shape, position, len(wanted)))
        return found.index_copy(position, _index(np.searchsorted(wanted, held), x.device), x)


class _Arrival(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        boxer: Boxer,
        origin: TensorPlacement,
        goal: TensorPlacement,
        wants: Sequence[Want],
        x: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        ctx.boxer, ctx.goal, ctx.wants = boxer, goal, wants
        ctx.set_materialize_grads(False)
        with boxer.mesh.meter.about("forward", boxer.name):
            found = boxer.forward(x, origin, [want.placement for want in wants])
        return tuple(found[want.placement].view_as(found[want.placement]) for want in wants)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        pairs = zip(ctx.wants, gradients, strict=True)
        left = [(want.gradient, g.contiguous()) for want, g in pairs if g is not None]
        with ctx.boxer.mesh.meter.about("backward", ctx.boxer.name):
            return None, None, None, None, ctx.boxer.backward(left, ctx.goal) if left else None


def arrive(
    boxer: Boxer, x: torch.Tensor, origin: TensorPlacement, goal: TensorPlacement, wants: Sequence[Want]
) -> dict[Want, torch.Tensor]:
    """Convert a written tensor for its readers; a backward adds and converts what they leave.

    Args:
        boxer: its conversions.
        x: this rank's piece as it was written.
        origin: the state in which it was written.
        goal: the state in which its writer needs the gradient.
        wants: how layers read it, each way once.
    """
    if not wants:
        return {}
    if wants == (Want(origin, goal),):  # read as it was written, and gradients as they are wanted
        return {wants[0]: x}
    if not x.requires_grad:
        with boxer.mesh.meter.about("forward", boxer.name):
            found = boxer.forward(x, origin, [want.placement for want in wants])
        return {want: found[want.placement] for want in wants}
    made = _Arrival.apply(boxer, origin, goal, wants, x)  # type: ignore[no-untyped-call]
    return dict(zip(wants, made, strict=True))


def _added(
    left: Sequence[tuple[TensorPlacement, torch.Tensor]],
) -> list[tuple[TensorPlacement, torch.Tensor]]:
    found: dict[TensorPlacement, torch.Tensor] = {}
    for item, gradient in left:
        found[item] = found[item] + gradient if item in found else gradient
    return list(found.items())


def _index(indices: Indices, device: torch.device) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(indices)).to(device)


def _take(x: torch.Tensor, position: int, indices: Indices) -> torch.Tensor:
    """Return some indices of an axis, without a copy if they are one run."""
    count = len(indices)
    if count == x.shape[position]:
        return x
    if count and indices[-1] - indices[0] == count - 1:
        return x.narrow(position, int(indices[0]), count)
    return x.index_select(position, _index(indices, x.device))


def _joined(parts: Sequence[torch.Tensor], position: int, pieces: Sequence[Indices]) -> torch.Tensor:
    """Join pieces along an axis in the order of their indices; of one that several have the sum counts."""
    joined, order = torch.cat(list(parts), position), np.concatenate(pieces)
    known, first, place = np.unique(order, return_index=True, return_inverse=True)
    if len(first) < len(order):
        total = joined.new_zeros(_resized(joined.shape, position, len(known)))
        return total.index_add(position, _index(place, joined.device), joined)
    if (np.diff(first) > 0).all():
        return joined
    return joined.index_select(position, _index(first, joined.device))


def _resized(shape: Sequence[int], position: int, size: int) -> tuple[int, ...]:
    return (*shape[:position], size, *shape[position + 1 :])


def _total(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total
