"""Packing: several tensors as one message. Equal ones are stacked; others lie behind each other as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import torch

_ALIGNED = 16
"""Bytes: every tensor of a message begins at a multiple."""


def pack(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Join tensors to one message."""
    first = parts[0]
    if _alike(parts):
        return first.contiguous() if len(parts) == 1 else torch.stack(list(parts))
    rows = []
    for part in parts:
        flat = part.contiguous().reshape(-1).view(torch.uint8)
        rows += [flat, flat.new_zeros(-flat.numel() % _ALIGNED)]
    return torch.cat(rows)


def empty(likes: Sequence[torch.Tensor]) -> torch.Tensor:
    """Make a buffer for the message of tensors like these."""
    first = likes[0]
    if _alike(likes):
        shape = first.shape if len(likes) == 1 else (len(likes), *first.shape)
        return torch.empty(shape, dtype=first.dtype, device=first.device)
    size = sum(_bytes(item) for item in likes)
    return torch.empty(size, dtype=torch.uint8, device=first.device)


def tensors_of(message: torch.Tensor, likes: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the tensors of a message."""
    if _alike(likes):
        return [message] if len(likes) == 1 else list(message)
    found, start = [], 0
    for item in likes:
        size = prod(item.shape) * item.element_size()
        found.append(message[start : start + size].view(item.dtype).view(item.shape))
        start += _bytes(item)
    return found


def _alike(parts: Sequence[torch.Tensor]) -> bool:
    # collectives know no booleans: they travel as bytes
    first = parts[0]
    return first.dtype != torch.bool and all(
        part.shape == first.shape and part.dtype == first.dtype for part in parts
    )


def _bytes(item: torch.Tensor) -> int:
    size = prod(item.shape) * item.element_size()
    return size + -size % _ALIGNED
