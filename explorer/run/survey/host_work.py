"""Work of the host: issuing kernels, entering and leaving autograd.

On a processor that issues to itself an operator costs more in a step than in a loop of one: many kinds take
turns, and their code has left the caches of the core when it is called again. That is timed on a block of a
transformer too small to compute anything, after as much memory has been read as a small layer's weights take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from explorer.costs.graph_work import KERNELS
from explorer.run.ranks.clocks import worked_s
from explorer.run.survey.device_work import ISSUED
from explorer.run.survey.steady import Item, Measured, Timed, steady

ROWS, HEADS, WIDTH = 4, 2, 16
"""Tokens, heads and width of the block."""
BLOCK = ("norm", "linear", "attention", "linear", "add", "norm", "linear", "gelu", "linear", "add")
"""Kinds of its layers."""
BLOCKS = 24
"""Timings of a block in one round."""
WASH_BYTES = 1 << 22
"""Bytes read before each: the weights of a layer of a million parameters."""


class HostWork:
    """Times what the host does besides the work of its device."""

    def __init__(self, device: torch.device, sync: Callable[[], None]) -> None:
        self.device, self._sync = device, sync
        self._worked = partial(worked_s, device)

    def items(self) -> Iterator[tuple[Item, Measured]]:
        """Yield everything to measure of the host, each with what measures it."""
        yield Item("issue", "", ()), self._issue
        yield Item("action", "", ()), self._action
        if self.device.type == "cpu":
            yield Item("operator", "", ()), self._operator

    def _issue(self) -> float:
        """Return the host seconds for each of many small kernels, autograd included."""
        weight = torch.ones(1, device=self.device, requires_grad=True)

        def chain() -> None:
            made = weight
            for _ in range(ISSUED):
                made = made * weight

        chain()
        self._sync()
        return steady(chain, 1, after=self._sync, worked=self._worked) / ISSUED

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
        # on a GPU a thread of autograd's issues the backward: what this one worked is not all of it
        one, two = (steady(call(length), 20, worked=self._worked) for length in (1, 2))
        return max(0.0, 2 * one - two)  # the seconds of a call without any kernel

    def _operator(self) -> float:
        """Return the seconds of one of the kernels that the costs count of a block, forward and backward."""
        weights = _weights()
        memory = torch.ones(WASH_BYTES // 4)
        given = torch.randn(1, ROWS, WIDTH, requires_grad=True)
        times = []
        for _ in range(BLOCKS):
            taken = 0.0
            memory.add_(1.0)
            begin = time.thread_time()
            made = _block(given, weights)
            taken += time.thread_time() - begin
            came = torch.ones_like(made)
            memory.add_(1.0)
            begin = time.thread_time()
            torch.autograd.grad([made], [given, *weights], [came])
            times.append(taken + time.thread_time() - begin)
        return median(times) / block_kernels()


def block_kernels() -> int:
    """Count the kernels of a block as the costs do, forward and backward."""
    return sum(
        sum(count for count, works in zip(KERNELS.get(kind, (1, 1, 1)), _works(kind), strict=True) if works)
        for kind in BLOCK
    )


def _works(kind: str) -> tuple[bool, bool, bool]:
    """Tell in which directions a layer of the block works: only some have weights."""
    return True, True, kind in ("norm", "linear")


def _weights() -> list[torch.Tensor]:
    """Return the weights of a block: of a norm, queries, keys and values, a projection, a norm, an MLP."""
    shapes = (
        (WIDTH,), (WIDTH,), (3 * WIDTH, WIDTH), (3 * WIDTH,), (WIDTH, WIDTH), (WIDTH,),
        (WIDTH,), (WIDTH,), (2 * WIDTH, WIDTH), (2 * WIDTH,), (WIDTH, 2 * WIDTH), (WIDTH,),
    )  # fmt: skip
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def _block(x: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
    """Run a block of a transformer."""
    norm, shift, mixed, mixed_bias, out, out_bias, norm2, shift2, up, up_bias, down, down_bias = weights
    h = F.layer_norm(x, (WIDTH,), norm, shift)
    heads = F.linear(h, mixed, mixed_bias).view(1, ROWS, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
    q, k, v = heads.unbind(0)
    made = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(1, ROWS, WIDTH)
    x = x + F.linear(made, out, out_bias)
    h = F.layer_norm(x, (WIDTH,), norm2, shift2)
    return x + F.linear(F.gelu(F.linear(h, up, up_bias)), down, down_bias)
