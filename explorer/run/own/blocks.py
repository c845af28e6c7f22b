"""Blocks: parts of tensors along some of their axes, in whole places."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Block = tuple[tuple[int, int, int], ...]
"""A part of a tensor as the LayerGraph has its axes: (axis, first place, end) of every axis that is cut, in
order; () is all of it.
"""


def common(first: Block, second: Block) -> Block | None:
    """Return the places that lie in both of two blocks; None if none do.

    >>> common(((0, 0, 4),), ((0, 2, 8), (1, 0, 3)))
    ((0, 2, 4), (1, 0, 3))
    """
    found = {axis: (low, high) for axis, low, high in first}
    for axis, low, high in second:
        least, most = found.get(axis, (low, high))
        found[axis] = (max(least, low), min(most, high))
    if any(low >= high for low, high in found.values()):
        return None
    return tuple((axis, *found[axis]) for axis in sorted(found))


def inside(block: Block, holder: Block) -> Block:
    """Return a block in places of another that holds it.

    >>> inside(((0, 2, 4), (1, 0, 3)), ((0, 2, 8),))
    ((0, 0, 2), (1, 0, 3))
    """
    first = {axis: low for axis, low, _ in holder}
    return tuple((axis, low - first.get(axis, 0), high - first.get(axis, 0)) for axis, low, high in block)


def narrowed(x: torch.Tensor, block: Block, before: int) -> torch.Tensor:
    """Return a block of a tensor with so many axes before those that the block counts."""
    for axis, low, high in block:
        x = x.narrow(axis + before, low, high - low)
    return x
