"""Work of eager operators: each goes through memory, and gradients of several readers are added."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from explorer.models.captured_program import CapturedProgram, Capturing, capture_program
from explorer.run.own.operator_work import eager_graph

WIDTH, PLACES = 8, 3
N = WIDTH * PLACES
"""Elements of a sample."""


class Chain(nn.Module):
    """Pointwise operators inside of one layer, between products."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm, self.gate = nn.LayerNorm(WIDTH), Gate()

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.last(self.norm(self.gate(x)) + x)


class Gate(nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.tanh(x) * torch.sigmoid(x) * 2.0


def captured(samples: int) -> CapturedProgram:
    inputs = {"x": torch.zeros(1, PLACES, WIDTH)}
    return capture_program(
        Capturing(module=Chain(), kwargs=inputs, name="chain", by_module=True), samples=samples
    )


def test_every_operator_moves_its_own() -> None:
    program = captured(2)
    graph = eager_graph(program)
    gate = graph.layer["gate"]
    # tanh and sigmoid read and write, their product reads two, the factor one
    assert gate.forward.moved_elements == (2 + 2 + 3 + 2) * N
    # a gradient of each: read, what was kept, written; the product has two, and both branches are added
    assert gate.input_grad.moved_elements >= (3 + 3 + 6 + 3 + 3) * N
    norm = graph.layer["norm"]
    assert norm.forward.moved_elements == 3 * N
    for name in ("first", "last"):
        assert graph.layer[name].forward == program.graph.layer[name].forward, "products are counted by FLOPs"
        assert graph.layer[name].gradient_passes == 2
    assert gate.gradient_passes == 0


def test_it_is_the_work_of_a_sample_and_never_less_than_that_of_the_borders() -> None:
    one, several = (eager_graph(captured(samples)) for samples in (1, 4))
    for a, b, plain in zip(one.layers, several.layers, captured(1).graph.layers, strict=True):
        assert (a.forward, a.input_grad) == (b.forward, b.input_grad)
        for made, known in ((a.forward, plain.forward), (a.input_grad, plain.input_grad)):
            assert made.moved_elements >= known.moved_elements
            assert made.flops == known.flops
