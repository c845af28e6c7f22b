"""Convolution on a rank: channels by the sum of products, height, width or depth with rows of the neighbours.

Domain parallelism (Gholami et al., SPAA 2018): the rank that makes rows [low, high) of the output needs rows
[low stride - padding, (high - 1) stride - padding + kernel) of the input; what it lacks its neighbours send.
In the backward they send rows of the output's gradient, from which each makes the gradient of its own input.
What lies beyond the image is padding. With two directions split the second also brings the corners, which are
counted apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit

from explorer.base.errors import InputError
from explorer.run.sharded.collectives import Halo, apply
from explorer.run.sharded.halos import Run, Window, beside
from explorer.run.sharded.here import Here
from explorer.run.sharded.kinds import Tensors
from explorer.run.sharded.mesh import Line, Meter
from explorer.run.sharded.pieces import Indices
from explorer.run.sharded.sums import once

_TRANSPOSED = False


class Side(NamedTuple):
    """One direction of a convolution on one rank: rows counted over the whole image, from 0."""

    axis: int
    """Axis of the arrays, samples first."""
    line: Line | None
    """Ranks among which it is split."""
    window: Window
    """Kernel, stride and padding."""
    size: int
    """Rows of the whole input."""
    read: tuple[tuple[int, int], ...]
    """Per rank of the line (or of this one alone) the input rows [low, high) that it has."""
    made: tuple[tuple[int, int], ...]
    """Per rank the output rows that it makes."""

    @property
    def place(self) -> int:
        """Place of this rank among them."""
        return self.line.place if self.line else 0

    def needs(self, i: int) -> Run:
        """Return the input rows, beyond the image too, that the output rows of a rank are made of."""
        return self.window.needs(self.made[i])

    def feeds(self, i: int) -> Run:
        """Return the output rows that the input rows of a rank go into."""
        return self.window.feeds(self.read[i], self.made[-1][1])


def convolve(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Return the convolution of images (samples, channels, height, width), volumes or sequences."""
    use, x = here.layer.reads[0], reads[0]
    space = use.dims[1:]
    # kernels of one place may have no axes for it
    kernel = weights[0].reshape(*weights[0].shape, *(1,) * (x.dim() - weights[0].dim()))
    stride, padding = _windows(here, "stride", space), _windows(here, "padding", space)
    sides = tuple(
        _side(here, dim, Window(kernel.shape[2 + i], stride[i], padding[i])) for i, dim in enumerate(space)
    )
    groups = here.shapes[use.name][1] // here.shapes[here.layer.parameters[0].name][2]
    local = max(1, groups * x.shape[1] // here.shapes[use.name][1]) if groups > 1 else 1
    y: torch.Tensor = _Convolution.apply(sides, local, here.layer.name, x, kernel)  # type: ignore[no-untyped-call]
    if len(weights) > 1:
        shape = (-1, *(1,) * len(space))
        y = y + once(weights[1].view(shape), here=here.is_first_of_sum())
    return y


class _Convolution(torch.autograd.Function):
    """Rows of the input come from the neighbours forward, rows of the output's gradient backward."""

    @staticmethod
    def forward(
        ctx: Any, sides: tuple[Side, ...], groups: int, name: str, x: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        ctx.sides, ctx.groups, ctx.name, ctx.shape = sides, groups, name, x.shape
        wanted = [[side.needs(i) for i in range(len(side.read))] for side in sides]
        x = _extended(sides, x, [side.read for side in sides], wanted)
        ctx.save_for_backward(x, weight)
        strides = [side.window[1] for side in sides]
        none = [0] * len(sides)
        return torch.convolution(x, weight, None, strides, none, [1] * len(sides), _TRANSPOSED, none, groups)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        g, sides = gradients[0].contiguous(), ctx.sides
        strides, none = [side.window[1] for side in sides], [0] * len(sides)

        def made(g: torch.Tensor, x: torch.Tensor, mask: list[bool]) -> Any:
            return torch.ops.aten.convolution_backward(
                g,
                x,
                weight,
                None,
                strides,
                none,
                [1] * len(sides),
                _TRANSPOSED,
                none,
                ctx.groups,
                [*mask, False],
            )

        of_weight = made(g, x, [False, True])[1] if ctx.needs_input_grad[4] else None
        if not ctx.needs_input_grad[3]:
            return None, None, None, None, of_weight
        with _meter(sides).about("backward", ctx.name):
            wanted = [[side.feeds(i) for i in range(len(side.made))] for side in sides]
            g = _extended(sides, g, [side.made for side in sides], wanted)
        cover = [
            (n - 1) * side.window[1] + side.window[0] for n, side in zip(g.shape[2:], sides, strict=True)
        ]
        of_input = made(g, x.new_empty((*ctx.shape[:2], *cover)), [True, False])[0]
        for side in sides:
            _, stride, padding = side.window
            first = side.feeds(side.place)[0] * stride - padding
            low, high = side.read[side.place]
            of_input = _rows(of_input, side.axis, (first, first + of_input.shape[side.axis]), (low, high))
        return None, None, None, of_input, of_weight


def _meter(sides: tuple[Side, ...]) -> Meter:
    return next((side.line.meter for side in sides if side.line), Meter())


def _extended(
    sides: tuple[Side, ...],
    x: torch.Tensor,
    held: Sequence[Sequence[tuple[int, int]]],
    wanted: Sequence[Sequence[tuple[int, int]]],
) -> torch.Tensor:
    """Return the rows that this rank wants: its own, those of its neighbours, then zeros beyond the image.

    Args:
        sides: the directions.
        x: the own rows.
        held: per direction and rank the rows that it has.
        wanted: per direction and rank the rows that it wants.
    """
    there = [have[side.place] for side, have in zip(sides, held, strict=True)]
    for k, side in enumerate(sides):
        before, after = beside(held[k], wanted[k])
        if side.line and (any(before) or any(after)):
            rows = tuple(b - a for a, b in held[k])
            others = [i for i in range(len(sides)) if i != k]
            own = math.prod(held[i][sides[i].place][1] - held[i][sides[i].place][0] for i in others)
            total = math.prod(x.shape[sides[i].axis] for i in others)
            x = apply(Halo(side.line, side.axis, rows, before, after, (total - own, total)), x)
            there[k] = (there[k][0] - before[side.place], there[k][1] + after[side.place])
    for k, side in enumerate(sides):
        x = _rows(x, side.axis, there[k], wanted[k][side.place])
    return x


def _rows(x: torch.Tensor, axis: int, have: tuple[int, int], wanted: tuple[int, int]) -> torch.Tensor:
    """Return rows [low, high) of a tensor that has some of them; zeros for the others."""
    low, high = max(have[0], wanted[0]), min(have[1], wanted[1])
    kept = x.narrow(axis, low - have[0], max(0, high - low))
    beside = [0, 0] * (x.dim() - axis - 1) + [low - wanted[0], wanted[1] - high]
    return F.pad(kept, beside) if any(beside) else kept


def _windows(here: Here, name: str, space: tuple[str, ...]) -> tuple[int, ...]:
    """Return strides or paddings of all directions; by sizes alone a stride of 1 that keeps them."""
    given: Any = here.options.get(name)
    if given is not None:
        return tuple(given) if isinstance(given, tuple | list) else (int(given),) * len(space)
    if name == "stride":
        return (1,) * len(space)
    before, after = here.shapes[here.layer.reads[0].name][2:], here.shapes[here.layer.writes[0].name][2:]
    sides = here.shapes[here.layer.parameters[0].name][3:] or (1,) * len(space)
    return tuple((b + k - 1 - a) // 2 for a, b, k in zip(before, after, sides, strict=True))


def _side(here: Here, dim: str, window: Window) -> Side:
    axis = here.layer.reads[0].dims.index(dim) + 1
    size, made = here.shapes[here.layer.reads[0].name][axis], here.shapes[here.layer.writes[0].name][axis]
    split = here.over(dim)
    if not split:
        return Side(axis, None, window, size, ((0, size),), ((0, made),))
    if len(split) > 1:
        raise InputError(
            f"{dim!r} of {here.layer.name!r} is split over two mesh axes, and a halo goes along one",
            key="layout",
            found=" and ".join(here.mesh.lines[a].axis for a in split),
            allowed=f"one mesh axis for {dim!r}",
        )
    places = here.neighbours(split[0])
    read = tuple(_run(here.read_indices(0, place)[axis], dim) for place in places)
    written = tuple(_run(here.written_indices(0, place)[axis], dim) for place in places)
    return Side(axis, here.mesh.lines[split[0]], window, size, read, written)


def _run(indices: Indices, dim: str) -> tuple[int, int]:
    """Return the rows [low, high) that are these indices."""
    if len(indices) == 0 or indices[-1] - indices[0] != len(indices) - 1:
        raise InputError(
            f"the rows of {dim!r} that a rank has are no run, so they have no neighbours",
            key="layout",
            found=dim,
            allowed="one mesh axis for each direction, with a row at least for each rank",
        )
    return int(indices[0]), int(indices[-1]) + 1
