"""Collectives as linear operators with their adjoints, over the ranks of a line.

Data movement is linear, so the backward of a collective is its adjoint (Hewett and Grady, A Linear Algebraic
Approach to Model Parallelism in Deep Learning, 2020): over all ranks together <F x, y> = <x, F' y>.

    broadcast       F: the root's tensor to all           F': the sum of all to the root
    scatter         F: pieces of the root's to each       F': gather
    all_gather      F: all pieces to all                  F': reduce_scatter
    all_reduce      F: the sum of all to all              F': itself
    all_to_all      F: split here, joined there           F': the way back
    halo            F: rows of both neighbours            F': rows back, and added
    shift           F: to the next around the ring        F': to the one before

Everything is one exchange of a tensor for each rank (`all_to_all_single`, without tags, which NCCL ignores),
and sums are made in rank order, so every rank has the same bits. Pieces may be uneven. What a rank sends to
others is counted exactly; averaged over the ranks it is the volume of `explorer.costs.collectives`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist

from explorer.base.errors import InputError
from explorer.run.ranks.allocated import until_let_go
from explorer.run.sharded.mesh import Line

Sizes = tuple[int, ...]
"""Size of every rank's piece along one axis, in the order of their places."""


def exchange(
    line: Line, op: str, outgoing: Sequence[torch.Tensor], shapes: Sequence[Sequence[int]]
) -> list[torch.Tensor]:
    """Send a tensor to every rank of a line and receive one from each; one's own is passed on.

    Args:
        line: the ranks.
        op: name under which the bytes are counted.
        outgoing: tensor for each place, all of one data type; may be empty.
        shapes: shape of what comes from each place.
    """
    me = line.place
    own = outgoing[me]
    given = [x.numel() if i != me else 0 for i, x in enumerate(outgoing)]
    taken = [math.prod(shape) if i != me else 0 for i, shape in enumerate(shapes)]
    line.meter.count(op, line.axis, sum(given) * own.element_size())
    if line.size == 1:
        return [own]
    if line.group is None:
        return _imagined(line, own, shapes)
    with line.meter.timed():
        flat = torch.cat([x.reshape(-1) for i, x in enumerate(outgoing) if i != me])
        found = own.new_empty(sum(taken))
        with until_let_go(found, flat):
            dist.all_to_all_single(found, flat, taken, given, group=line.group)
    parts = torch.split(found, taken)
    return [
        own if i == me else part.view(tuple(shape))
        for i, (part, shape) in enumerate(zip(parts, shapes, strict=True))
    ]


def _imagined(line: Line, own: torch.Tensor, shapes: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """Return what ranks that are not there would have sent: zeros, in their sizes."""
    with line.meter.imagining():
        return [own if i == line.place else own.new_zeros(tuple(shape)) for i, shape in enumerate(shapes)]


class Operator(Protocol):
    """A linear operator over a line, and its adjoint."""

    @property
    def line(self) -> Line:
        """Return the ranks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Apply it to this rank's part of the input."""

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Apply its adjoint to this rank's part of the output's gradient."""


class _Applied(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, x: torch.Tensor) -> torch.Tensor:
        ctx.operator, ctx.what = operator, operator.line.meter.what
        return operator.forward(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        with ctx.operator.line.meter.about("backward", ctx.what):
            return None, ctx.operator.adjoint(gradients[0].contiguous())


def apply(operator: Operator, x: torch.Tensor) -> torch.Tensor:
    """Apply an operator; a backward through it applies the adjoint."""
    found: torch.Tensor = _Applied.apply(operator, x)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True, slots=True)
class AllGather:
    """Join the pieces of all ranks along an axis, on all of them."""

    line: Line
    axis: int
    sizes: Sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the whole tensor."""
        parts = exchange(self.line, "all_gather", [x] * self.line.size, self._shapes(x))
        return torch.cat(parts, self.axis)

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the own piece of the sum."""
        return ReduceScatter(self.line, self.axis, self.sizes).forward(y)

    def _shapes(self, x: torch.Tensor) -> list[tuple[int, ...]]:
        return [_resized(x.shape, self.axis, size) for size in self.sizes]


@dataclass(frozen=True, slots=True)
class ReduceScatter:
    """Add up the tensors of all ranks; each keeps its piece along an axis."""

    line: Line
    axis: int
    sizes: Sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the own piece of the sum."""
        shape = _resized(x.shape, self.axis, self.sizes[self.line.place])
        parts = torch.split(x, list(self.sizes), self.axis)
        return _sum(exchange(self.line, "reduce_scatter", parts, [shape] * self.line.size))

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the whole gradient."""
        return AllGather(self.line, self.axis, self.sizes).forward(y)


@dataclass(frozen=True, slots=True)
class AllReduce:
    """Add up the tensors of all ranks, on all of them."""

    line: Line

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum: each rank adds up a part, then the parts are gathered."""
        n, flat = self.line.size, x.reshape(-1)
        sizes = split_evenly(flat.numel(), n)
        mine = (sizes[self.line.place],)
        part = _sum(exchange(self.line, "all_reduce", torch.split(flat, list(sizes)), [mine] * n))
        parts = exchange(self.line, "all_reduce", [part] * n, [(size,) for size in sizes])
        return torch.cat(parts).view(x.shape)

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the same of the gradient."""
        return self.forward(y)


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Split along one axis, send every rank its piece, join what comes along another."""

    line: Line
    split: int
    split_sizes: Sizes
    join: int
    join_sizes: Sizes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor whole along `split`... of this rank's piece along `split`, joined along `join`."""
        mine = _resized(x.shape, self.split, self.split_sizes[self.line.place])
        shapes = [_resized(mine, self.join, size) for size in self.join_sizes]
        parts = exchange(self.line, "all_to_all", torch.split(x, list(self.split_sizes), self.split), shapes)
        return torch.cat(parts, self.join)

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the gradient, the way back."""
        return AllToAll(self.line, self.join, self.join_sizes, self.split, self.split_sizes).forward(y)


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Send the root's tensor to all ranks; what the others give counts nothing but its shape."""

    line: Line
    root: int = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the root's tensor."""
        return _from_root(self.line, "broadcast", self.root, [x] * self.line.size, x.shape)

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the sum at the root, zeros elsewhere."""
        return SumReduce(self.line, self.root).forward(y)


@dataclass(frozen=True, slots=True)
class SumReduce:
    """Add up the tensors of all ranks at the root; the others keep zeros."""

    line: Line
    root: int = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum at the root, zeros elsewhere."""
        parts = _to_root(self.line, "reduce", self.root, x, [tuple(x.shape)] * self.line.size)
        return _sum(parts) if self.line.place == self.root else torch.zeros_like(x)

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the root's gradient."""
        return Broadcast(self.line, self.root).forward(y)


@dataclass(frozen=True, slots=True)
class Scatter:
    """Send every rank its piece of the root's tensor."""

    line: Line
    axis: int
    sizes: Sizes
    root: int = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the own piece."""
        shape = _resized(x.shape, self.axis, self.sizes[self.line.place])
        return _from_root(
            self.line, "scatter", self.root, list(torch.split(x, list(self.sizes), self.axis)), shape
        )

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the joined gradient at the root, zeros elsewhere."""
        return Gather(self.line, self.axis, self.sizes, self.root).forward(y)


@dataclass(frozen=True, slots=True)
class Gather:
    """Join the pieces of all ranks at the root; the others keep zeros."""

    line: Line
    axis: int
    sizes: Sizes
    root: int = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the whole tensor at the root, zeros elsewhere."""
        shapes = [_resized(x.shape, self.axis, size) for size in self.sizes]
        parts = _to_root(self.line, "gather", self.root, x, shapes)
        if self.line.place == self.root:
            return torch.cat(parts, self.axis)
        return x.new_zeros(_resized(x.shape, self.axis, sum(self.sizes)))

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the own piece of the root's gradient."""
        return Scatter(self.line, self.axis, self.sizes, self.root).forward(y)


@dataclass(frozen=True, slots=True)
class Shift:
    """Pass a tensor on around the ring of ranks, `by` places further."""

    line: Line
    shapes: tuple[tuple[int, ...], ...]
    """Shape of the tensor at each place before the shift."""
    by: int = 1
    op: str = "shift"
    """Name under which it is counted."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what came from the rank before."""
        n, me = self.line.size, self.line.place
        target, source = (me + self.by) % n, (me - self.by) % n
        if target == me:
            return x
        outgoing = [x if i == target else x.new_empty(0) for i in range(n)]
        shapes = [self.shapes[i] if i == source else (0,) for i in range(n)]
        return exchange(self.line, self.op, outgoing, shapes)[source]

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the gradient, one place back."""
        n = self.line.size
        moved = tuple(self.shapes[(i - self.by) % n] for i in range(n))
        return Shift(self.line, moved, -self.by, self.op).forward(y)


@dataclass(frozen=True, slots=True)
class Halo:
    """Put rows of both neighbours around the own ones; nothing beyond the first and the last rank."""

    line: Line
    axis: int
    rows: Sizes
    """Rows that each rank has."""
    before: Sizes
    """Rows that each rank needs of the one before it."""
    after: Sizes
    """Rows that each rank needs of the one after it."""
    corners: tuple[int, int] = (0, 1)
    """(rows of another direction that are no rank's own, all of them): what of a message is corners."""

    def __post_init__(self) -> None:
        n = self.line.size
        for i in range(n):
            reach = max(self.before[i + 1] if i + 1 < n else 0, self.after[i - 1] if i else 0)
            if reach > self.rows[i]:
                raise InputError(
                    f"a neighbour needs {reach} rows, and a rank has {self.rows[i]}",
                    key="layout",
                    found=reach,
                    allowed=f"at most {self.rows[i]}: fewer ranks along {self.line.axis!r}",
                )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the rows of the rank before, one's own, and those of the rank after."""
        n, me = self.line.size, self.line.place
        outgoing = [x.new_empty(0)] * n
        shapes: list[tuple[int, ...]] = [(0,)] * n
        outgoing[me], shapes[me] = x, tuple(x.shape)
        if me:
            outgoing[me - 1] = x.narrow(self.axis, 0, self.after[me - 1])
            shapes[me - 1] = _resized(x.shape, self.axis, self.before[me])
        if me + 1 < n:
            reach = self.before[me + 1]
            outgoing[me + 1] = x.narrow(self.axis, self.rows[me] - reach, reach)
            shapes[me + 1] = _resized(x.shape, self.axis, self.after[me])
        parts = self._exchange(outgoing, shapes)
        return torch.cat(parts[max(0, me - 1) : me + 2], self.axis)

    def _exchange(self, outgoing: list[torch.Tensor], shapes: list[tuple[int, ...]]) -> list[torch.Tensor]:
        parts = exchange(self.line, "halo", outgoing, shapes)
        scalars = sum(x.numel() for i, x in enumerate(outgoing) if i != self.line.place)
        beside, rows = self.corners
        if beside:
            sent = scalars * beside // rows * outgoing[0].element_size()
            self.line.meter.apart("halo", "corners", self.line.axis, sent)
        return parts

    def adjoint(self, y: torch.Tensor) -> torch.Tensor:
        """Return the gradient of the own rows: neighbours' are sent back, what comes back is added."""
        n, me = self.line.size, self.line.place
        low = self.before[me] if me else 0
        own = y.narrow(self.axis, low, self.rows[me]).clone()
        outgoing = [y.new_empty(0)] * n
        shapes: list[tuple[int, ...]] = [(0,)] * n
        outgoing[me], shapes[me] = own, tuple(own.shape)
        if me:
            outgoing[me - 1] = y.narrow(self.axis, 0, low)
            shapes[me - 1] = _resized(y.shape, self.axis, self.after[me - 1])
        if me + 1 < n:
            outgoing[me + 1] = y.narrow(self.axis, low + self.rows[me], self.after[me])
            shapes[me + 1] = _resized(y.shape, self.axis, self.before[me + 1])
        parts = self._exchange(outgoing, shapes)
        if me:
            own.narrow(self.axis, 0, self.after[me - 1]).add_(parts[me - 1])
        if me + 1 < n:
            reach = self.before[me + 1]
            own.narrow(self.axis, self.rows[me] - reach, reach).add_(parts[me + 1])
        return own


def split_evenly(size: int, parts: int) -> Sizes:
    """Split a size into parts that differ by at most one, the larger first.

    >>> split_evenly(5, 2)
    (3, 2)
    """
    edges = [-(-size * i // parts) for i in range(parts + 1)]
    return tuple(sorted((b - a for a, b in itertools.pairwise(edges)), reverse=True))


def _from_root(
    line: Line, op: str, root: int, outgoing: Sequence[torch.Tensor], shape: Sequence[int]
) -> torch.Tensor:
    here, nothing = line.place == root, outgoing[0].new_empty(0)
    sent = outgoing if here else [nothing] * line.size
    shapes = [tuple(shape) if i == root else (0,) for i in range(line.size)]
    found = exchange(line, op, sent, shapes)
    return found[root]


def _to_root(
    line: Line, op: str, root: int, x: torch.Tensor, shapes: Sequence[tuple[int, ...]]
) -> list[torch.Tensor]:
    outgoing = [x if i in (root, line.place) else x.new_empty(0) for i in range(line.size)]
    here = line.place == root
    return exchange(
        line, op, outgoing, [shape if here or i == line.place else (0,) for i, shape in enumerate(shapes)]
    )


def _resized(shape: Sequence[int], axis: int, size: int) -> tuple[int, ...]:
    found = list(shape)
    found[axis] = size
    return tuple(found)


def _sum(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Add tensors up in their order, in place of the first copy."""
    total = parts[0].clone() if len(parts) > 1 else parts[0]
    for part in parts[1:]:
        total += part
    return total
