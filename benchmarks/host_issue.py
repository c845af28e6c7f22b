"""What the host takes to issue a block's backward, over its forward: where `backward_issue` comes from.

python benchmarks/host_issue.py [--rounds N]

A block of tiny tensors on a processor, where nothing but issuing takes time: with torch's own layers, and as
Megatron-LM writes it (2021: copies to lanes, norms and softmax are Python's autograd functions; 2022: linear
layers too, whose backward adds to the gradient itself). Seconds are those of this thread, and the ratios are
medians over rounds of both directions in turn. They are divided by the operations that the cost model counts
(`explorer.costs.graph_work.KERNELS`). A processor launches no kernels; on a GPU a launch is the same in both
directions: its share of the host's seconds, from documents, is added (`LAUNCH_SHARE`).
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from explorer.costs.graph_work import work_table
from explorer.models import load_model

WIDTH, HEADS, TOKENS, BLOCKS, STEPS = 32, 2, 4, 4, 10
STYLES = ("torch", "megatron-2021", "megatron-2022")
LAUNCH_SHARE = (0.25, 0.4)
"""Share of a launch and its allocation in issuing an operation: about 5 us of 12 to 19 (public traces)."""


class Copied(torch.autograd.Function):
    """Megatron-LM's copy to the ranks of a lane, without ranks."""

    @staticmethod
    def forward(_ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(_ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


class ScaledSoftmax(torch.autograd.Function):
    """Scale and softmax in one function."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        result = torch.softmax(x * scale, -1)
        ctx.save_for_backward(result)
        ctx.scale = scale
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (result,) = ctx.saved_tensors
        return torch._softmax_backward_data(gradient, result, -1, result.dtype) * ctx.scale, None


class Normed(torch.autograd.Function):
    """Layer norm as apex calls it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        result, mean, deviation = torch.native_layer_norm(x, weight.shape, weight, bias, 1e-5)
        ctx.save_for_backward(x, weight, bias, mean, deviation)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight, bias, mean, deviation = ctx.saved_tensors
        all_three = [True, True, True]
        return torch.ops.aten.native_layer_norm_backward(
            gradient, x, weight.shape, mean, deviation, weight, bias, all_three
        )


class Summed(torch.autograd.Function):
    """A linear layer whose backward adds to the weight's gradient itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, total: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.total = total
        return torch.matmul(x, weight.t()) + bias

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor, None]:
        x, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, gradient.shape[-1])
        ctx.total.addmm_(rows.t(), x.reshape(-1, x.shape[-1]))
        return gradient.matmul(weight), None, rows.sum(0), None


class Block(nn.Module):
    """A GPT block with plain attention and dropout."""

    def __init__(self, style: str) -> None:
        super().__init__()
        self.style, self.dropout = style, nn.Dropout(0.1)
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        sizes = ((1, 3), (1, 1), (1, 4), (4, 1))
        self.linears = nn.ModuleList(nn.Linear(a * WIDTH, b * WIDTH) for a, b in sizes)
        self.totals = [torch.zeros_like(layer.weight) for layer in self.linears]

    def linear(self, at: int, x: Tensor) -> Tensor:
        layer = self.linears[at]
        if self.style == "torch":
            return functional.linear(x, layer.weight, layer.bias)
        x = Copied.apply(x)
        if self.style == "megatron-2021":
            return functional.linear(x, layer.weight, layer.bias)
        return Summed.apply(x, layer.weight, layer.bias, self.totals[at])

    def norm(self, at: int, x: Tensor) -> Tensor:
        layer = self.norms[at]
        return layer(x) if self.style == "torch" else Normed.apply(x, layer.weight, layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        wide = self.linear(0, self.norm(0, x)).view(batch, tokens, HEADS, -1).transpose(1, 2)
        query, key, value = wide.chunk(3, -1)
        scores = torch.matmul(query, key.transpose(-1, -2))
        plain = self.style == "torch"
        chances = self.dropout(torch.softmax(scores * 0.1, -1) if plain else ScaledSoftmax.apply(scores, 0.1))
        mixed = torch.matmul(chances, value).transpose(1, 2).reshape(batch, tokens, WIDTH)
        x = x + self.dropout(self.linear(1, mixed))
        inner = functional.gelu(self.linear(2, self.norm(1, x)))
        return x + self.dropout(self.linear(3, inner))


def seconds(style: str, rounds: int) -> list[tuple[float, float]]:
    """Time rounds of a few steps: seconds of a block's forward and backward in this thread."""
    model = nn.Sequential(*(Block(style) for _ in range(BLOCKS)))
    x = torch.randn(1, TOKENS, WIDTH, requires_grad=True)
    found = []
    for _ in range(rounds + 2):
        forward = backward = 0.0
        for _ in range(STEPS):
            model.zero_grad(set_to_none=False)
            start = time.thread_time()
            loss = model(x).sum()
            middle = time.thread_time()
            loss.backward()
            forward, backward = forward + middle - start, backward + time.thread_time() - middle
        found.append((forward / STEPS / BLOCKS, backward / STEPS / BLOCKS))
    return found[2:]


def counted() -> float:
    """Operations that the cost model counts of a block's backward, over those of its forward."""
    settings = {"layers": "2", "embed": "64", "heads": "4", "attention": "unfused", "softmax": "fused"}
    graph = load_model("gpt", sequence_length=16, settings=settings)
    table, inverse = work_table(graph)
    own = [i for i, layer in enumerate(graph.layers) if layer.block == "layers.1"]
    each = (table.kernels * table.active)[:, inverse[own]].sum(axis=1)
    return float(each[1:].sum() / each[0])


def main() -> None:
    """Print a line for each style."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    operations = counted()
    print(f"torch {torch.__version__}; {operations:.2f} operations of a backward for each of a forward\n")
    print("| block | forward, us | backward, us | backward / forward | an operation | with launches |")
    print("|---|---:|---:|---:|---:|---:|")
    for style in STYLES:
        timed = seconds(style, rounds)
        forward, backward = (median(row[i] for row in timed) * 1e6 for i in (0, 1))
        ratio = median(back / ahead for ahead, back in timed)
        one = ratio / operations
        launched = " to ".join(f"{share + (1 - share) * one:.2f}" for share in LAUNCH_SHARE)
        print(f"| {style} | {forward:.0f} | {backward:.0f} | {ratio:.2f} | {one:.2f} | {launched} |")


if __name__ == "__main__":
    main()
