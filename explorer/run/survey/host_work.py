"""Work of the host: issuing kernels, entering and leaving autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from explorer.run.survey.device_work import ISSUED
from explorer.run.survey.steady import Item, Measured, Timed, steady


class HostWork:
    """Times what the host does besides the work of its device."""

    def __init__(self, device: torch.device, sync: Callable[[], None]) -> None:
        self.device, self._sync = device, sync

    def items(self) -> Iterator[tuple[Item, Measured]]:
        """Yield everything to measure of the host, each with what measures it."""
        yield Item("issue", "", ()), self._issue
        yield Item("action", "", ()), self._action

    def _issue(self) -> float:
        """Return the host seconds for each of many small kernels, autograd included."""
        weight = torch.ones(1, device=self.device, requires_grad=True)

        def chain() -> None:
            made = weight
            for _ in range(ISSUED):
                made = made * weight

        chain()
        self._sync()
        return steady(chain, 1, after=self._sync) / ISSUED

    def _action(self) -> float:
        """Return the host seconds of a backward call besides its kernels: entering and leaving autograd."""
        weight = torch.ones(1, device=self.device, requires_grad=True)

        def call(length: int) -> Timed:
            def work() -> None:
                made = weight
                for _ in range(length):
                    made = made * weight
                torch.autograd.grad(made, [weight])
                self._sync()

            return work

        call(1)()
        one, two = (steady(call(length), 20) for length in (1, 2))
        return max(0.0, 2 * one - two)  # the seconds of a call without any kernel
