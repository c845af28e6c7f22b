"""Faked peers: what ZeRO leaves of states and gradients to one of several replicas, the others imagined.

A rank holds the first of equal shares of every parameter's states (level 1) and gradients (level 2). What it
would send is dropped, what it would receive stays as it was: sizes and seconds are those of the rank, the
values of weights are not those of a training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import torch

SHARED_STATES, SHARED_GRADIENTS = 1, 2
"""Levels of ZeRO from which states, and gradients, are divided."""


class FakedPeers:
    """The shares of one rank.

    Args:
        weights: the parameters, by name.
        groups: level of ZeRO and number of ranks that share a parameter's states, by name.
    """

    def __init__(self, weights: Mapping[str, torch.Tensor], groups: Mapping[str, tuple[int, int]]) -> None:
        self._weights, self._groups = weights, groups
        self._sums: dict[str, torch.Tensor] = {}
        for name, (level, ranks) in groups.items():
            if level >= SHARED_GRADIENTS and ranks > 1:
                weights[name].register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    partial(self._scatter, name)
                )

    def own(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """Return the parts of some parameters that this rank updates."""
        return {name: self._part(name, self._weights[name].detach()) for name in names}

    def gradients(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """Return the gradients of these parts, and forget them."""
        found = {}
        for name in names:
            weight = self._weights[name]
            if name in self._sums:
                found[name] = self._sums.pop(name)
            elif weight.grad is not None:
                found[name] = self._part(name, weight.grad)
        return found

    def _part(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        level, ranks = self._groups[name]
        if level < SHARED_STATES or ranks == 1:
            return tensor
        return tensor.view(-1)[: -(-tensor.numel() // ranks)]

    def _scatter(self, name: str, weight: torch.Tensor) -> None:
        """Keep a part of a fresh gradient, as a reduce-scatter does."""
        if weight.grad is None:
            return
        part = self._part(name, weight.grad)
        if name in self._sums:
            self._sums[name] += part
        else:
            self._sums[name] = part.clone()
        weight.grad = None
