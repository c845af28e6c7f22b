"""Faked peers: what ZeRO leaves of weights, states and gradients to one replica, the others imagined.

A rank holds the first of equal shares of every parameter's states (level 1), gradients (level 2) and values
(level 3). What it would send is dropped; what it would receive stays as it was, or is made of what it has:
sizes and seconds are those of the rank, the values of weights are not those of a training.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch

SHARED_STATES, SHARED_GRADIENTS, SHARED_WEIGHTS = 1, 2, 3
"""Levels of ZeRO from which states, gradients, and weights are divided."""


class FakedPeers:
    """The shares of one rank.

    Args:
        weights: the parameters, by name; those that are divided are emptied.
        groups: level of ZeRO and number of ranks that share a parameter's states, by name.
        clock: what tells seconds.
    """

    def __init__(
        self,
        weights: Mapping[str, torch.Tensor],
        groups: Mapping[str, tuple[int, int]],
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._weights, self._groups, self._clock = weights, groups, clock
        self._sums: dict[str, torch.Tensor] = {}
        self._held: dict[str, torch.Tensor] = {}
        """Per parameter whose values are divided, this rank's part."""
        self.spent_s = 0.0
        """Seconds of making what would be received so far."""
        for name, (level, ranks) in groups.items():
            if level >= SHARED_WEIGHTS and ranks > 1:
                self._held[name] = self._part(name, weights[name].detach()).clone()
            if level >= SHARED_GRADIENTS and ranks > 1:
                weights[name].register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                    partial(self._scatter, name)
                )
        self.release(weights)

    @property
    def held(self) -> tuple[torch.Tensor, ...]:
        """The parts of parameters whose values are divided."""
        return tuple(self._held.values())

    def own(self, names: Iterable[str]) -> dict[str, torch.Tensor]:
        """Return the parts of some parameters that this rank updates."""
        return {
            name: self._held[name] if name in self._held else self._part(name, self._weights[name].detach())
            for name in names
        }

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

    def gather(self, names: Iterable[str]) -> None:
        """Make some parameters whole, in the storage that autograd keeps, out of parts like the own one."""
        begin = self._clock()
        for name in names:
            weight = self._weights[name]
            storage = weight.untyped_storage()
            if name in self._held and not storage.size():
                storage.resize_(weight.numel() * weight.element_size())
                for piece in torch.split(weight.data.view(-1), self._held[name].numel()):
                    piece.copy_(self._held[name][: piece.numel()])
        self.spent_s += self._clock() - begin

    def release(self, names: Iterable[str]) -> None:
        """Give back all of some parameters but this rank's parts."""
        for name in names:
            if name in self._held:
                self._weights[name].untyped_storage().resize_(0)

    def _part(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        level, ranks = self._groups[name]
        if level < SHARED_STATES or ranks == 1:
            return tensor
        return tensor.view(-1)[: -(-tensor.numel() // ranks)]

    def _scatter(self, name: str, weight: torch.Tensor) -> None:
        """Keep a part of a fresh gradient, as a reduce-scatter does; a backward needs the weight no more."""
        if weight.grad is None:
            return
        part = self._part(name, weight.grad)
        if name in self._sums:
            self._sums[name] += part
        else:
            self._sums[name] = part.clone()
        weight.grad = None
        self.release([name])
