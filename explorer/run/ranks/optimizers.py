"""Optimizers as one update of some weights, with their state kept separately: what `U` runs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from explorer.base.errors import InputError

MOMENTUM, BETA1, BETA2, EPSILON, DECAY = 0.9, 0.9, 0.999, 1e-8, 0.01
KINDS = ("none", "sgd", "momentum", "adam", "adamw")


class Optimizer:
    """Optimizer state by parameter name; `step` changes the weights it is given in place."""

    def __init__(self, kind: str, learning_rate: float) -> None:
        if kind not in KINDS:
            raise InputError(
                f"unknown optimizer {kind!r}", key="optimizer", found=kind, allowed=", ".join(KINDS)
            )
        self.kind, self.learning_rate = kind, learning_rate
        self.first: dict[str, torch.Tensor] = {}
        self.second: dict[str, torch.Tensor] = {}
        self.count: dict[str, int] = {}

    @torch.no_grad()
    def step(self, weights: Mapping[str, torch.Tensor], gradients: Mapping[str, torch.Tensor]) -> None:
        """Apply mean gradients of some of the weights."""
        if self.kind == "none" or not gradients:
            return
        names = list(gradients)
        # data, not the leaves: graphs of microbatches in flight may hold them
        held, given = [weights[name].data for name in names], [gradients[name] for name in names]
        if self.kind == "sgd":
            torch._foreach_add_(held, given, alpha=-self.learning_rate)
        elif self.kind == "momentum":
            state = self._state(self.first, names, weights)
            torch._foreach_mul_(state, MOMENTUM)
            torch._foreach_add_(state, given)
            torch._foreach_add_(held, state, alpha=-self.learning_rate)
        else:
            self._adam(names, held, given, weights)

    def _adam(
        self,
        names: list[str],
        held: list[torch.Tensor],
        given: list[torch.Tensor],
        weights: Mapping[str, torch.Tensor],
    ) -> None:
        """Apply algorithm 1 of Kingma and Ba, 2015; adamw decays the weights themselves."""
        m, v = self._state(self.first, names, weights), self._state(self.second, names, weights)
        torch._foreach_lerp_(m, given, 1 - BETA1)
        torch._foreach_mul_(v, BETA2)
        torch._foreach_addcmul_(v, given, given, 1 - BETA2)
        if self.kind == "adamw":
            torch._foreach_mul_(held, 1 - self.learning_rate * DECAY)
        for name in names:
            self.count[name] = self.count.get(name, 0) + 1
        steps = [self.count[name] for name in names]
        root = torch._foreach_sqrt(v)
        torch._foreach_div_(root, [math.sqrt(1 - BETA2**t) for t in steps])
        torch._foreach_add_(root, EPSILON)
        torch._foreach_addcdiv_(held, m, root, [-self.learning_rate / (1 - BETA1**t) for t in steps])

    def direction(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return what the next update subtracts from a parameter, over the learning rate, if gradients stay
        the same.

        The velocity of momentum; of Adam the corrected mean over the root of the second moment; 0 before the
        first update and without updates.

        Raises:
            InputError: an optimizer without momentum.
        """
        if self.kind == "sgd":
            raise InputError(
                "sgd keeps no momentum to predict weights from",
                key="optimizer", found="sgd", allowed="momentum, adam, adamw",
            )  # fmt: skip
        if name not in self.first:
            return torch.zeros_like(weight.data)
        if self.kind == "momentum":
            return self.first[name]
        count = self.count[name]
        mean = self.first[name] / (1 - BETA1**count)
        return mean / (torch.sqrt(self.second[name] / (1 - BETA2**count)) + EPSILON)

    @staticmethod
    def _state(
        held: dict[str, torch.Tensor], names: list[str], weights: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        for name in names:
            if name not in held:
                held[name] = torch.zeros_like(weights[name])
        return [held[name] for name in names]
