"""Optimizers as one update of some weights, with their state kept separately: what `U` runs.

Torch's fused kernels do it: each scalar's weight, gradient and states are read once and written once, which
is what `OptimizerKind.moved_bytes` counts. A kernel for every operation of Adam moves three times that.
Weights narrower than fp32 have a main copy in fp32, which is updated and then rounded.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from explorer.base.errors import InputError
from explorer.run.ranks.mixed import is_narrow

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
        self.main: dict[str, torch.Tensor] = {}
        """Weights in fp32 of which those that are computed with are roundings."""
        self.count: dict[str, int] = {}

    def make_states(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Make the states of some weights before their first update, which else makes them."""
        for name, weight in weights.items():
            held = self._main(name, weight) if is_narrow(weight.dtype) else weight
            for states in self._states():
                self._state(states, [name], {name: held})

    def _states(self) -> tuple[dict[str, torch.Tensor], ...]:
        """Return the states that this optimizer keeps, each by parameter name."""
        if self.kind in ("none", "sgd"):
            return ()
        return (self.first,) if self.kind == "momentum" else (self.first, self.second)

    @torch.no_grad()
    def step(
        self,
        weights: Mapping[str, torch.Tensor],
        gradients: Mapping[str, torch.Tensor],
        samples: float = 1,
    ) -> None:
        """Apply gradients of some of the weights, divided by a number of samples on the way.

        Torch's kernels write the quotients into the gradients, so no gradient may be used again. Those of
        narrow weights are cast to fp32 one by one, so that only one is there twice.
        """
        if self.kind == "none":
            return
        narrow = {name for name in gradients if is_narrow(weights[name].dtype)}
        self._step(weights, {name: g for name, g in gradients.items() if name not in narrow}, samples)
        for name in (name for name in gradients if name in narrow):
            main = self._main(name, weights[name])
            self._step({name: main}, {name: gradients[name].float()}, samples)
            weights[name].data.copy_(main)

    def _main(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return the main weights of a narrow parameter, at first its own values."""
        if name not in self.main:
            self.main[name] = weight.detach().float()
        return self.main[name]

    def _step(
        self, weights: Mapping[str, torch.Tensor], gradients: Mapping[str, torch.Tensor], samples: float
    ) -> None:
        """Apply gradients in the data type of their weights."""
        if not gradients:
            return
        names = list(gradients)
        # data, not the leaves: graphs of microbatches in flight may hold them
        held = [weights[name].data for name in names]
        # fused kernels go through memory, whatever the strides: autograd may leave a gradient transposed
        given = [gradients[name].contiguous() for name in names]
        if self.kind == "sgd":
            torch._foreach_add_(held, given, alpha=-self.learning_rate / samples)
        elif self.kind == "momentum":
            torch._fused_sgd_(
                held, given, self._state(self.first, names, weights), weight_decay=0.0, momentum=MOMENTUM,
                lr=self.learning_rate, dampening=0.0, nesterov=False, maximize=False, is_first_step=False,
                grad_scale=_scale(samples, held[0]),
            )  # fmt: skip
        else:
            self._adam(names, held, given, weights, samples)

    def _adam(
        self,
        names: list[str],
        held: list[torch.Tensor],
        given: list[torch.Tensor],
        weights: Mapping[str, torch.Tensor],
        samples: float,
    ) -> None:
        """Apply algorithm 1 of Kingma and Ba, 2015; adamw decays the weights themselves."""
        m, v = self._state(self.first, names, weights), self._state(self.second, names, weights)
        for name in names:
            self.count[name] = self.count.get(name, 0) + 1
        numbers = {
            (self.count[name], w.device): torch.tensor(float(self.count[name]), device=w.device)
            for name, w in zip(names, held, strict=True)
        }
        steps = [numbers[self.count[name], w.device] for name, w in zip(names, held, strict=True)]
        update, decay = (torch._fused_adamw_, DECAY) if self.kind == "adamw" else (torch._fused_adam_, 0.0)
        update(
            held, given, m, v, [], steps, lr=self.learning_rate, beta1=BETA1, beta2=BETA2,
            weight_decay=decay, eps=EPSILON, amsgrad=False, maximize=False,
            grad_scale=_scale(samples, held[0]),
        )  # fmt: skip

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
        if self.kind == "momentum" and name in self.first:
            return self.first[name]
        if not (count := self.count.get(name, 0)):
            return torch.zeros_like(weight.data)
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


def _scale(samples: float, like: torch.Tensor) -> torch.Tensor | None:
    """Return the divisor of gradients for a fused kernel; None for 1."""
    return None if samples == 1 else torch.tensor(float(samples), device=like.device)
