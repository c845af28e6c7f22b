"""Layer modules: a captured module in parts computes what the module computes, gradients included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from explorer.base.errors import InputError
from explorer.models.captured_program import CapturedProgram, Capturing, capture_program
from explorer.run.own.criterion import output_loss
from explorer.run.own.layer_modules import TOTAL, LayerModule, layer_module, layer_modules


class Block(nn.Module):
    """Attention with a bias that the first block makes for all, an addition in place, and a dropout."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = (
            nn.LayerNorm(width),
            nn.Linear(width, 3 * width),
            nn.Linear(width, width),
        )
        self.up, self.act, self.down = nn.Linear(width, 16), nn.ReLU(inplace=True), nn.Linear(16, width)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Any, bias: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2)
        scores += bias
        x = x + self.dropout(self.out(scores.softmax(-1) @ v))
        return x + self.down(self.act(self.up(x)))


class Small(nn.Module):
    """A model with tied weights, a position bias read by all blocks, a region under no_grad and a buffer."""

    def __init__(self, blocks: int = 3) -> None:
        super().__init__()
        self.embed, self.bias = nn.Embedding(20, 8), nn.Parameter(torch.randn(6, 6))
        self.layers = nn.ModuleList(Block() for _ in range(blocks))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8), persistent=False)
        self.head = nn.Linear(8, 20, bias=False)
        self.head.weight = self.embed.weight

    @torch.no_grad()
    def waves(self, length: int) -> Any:
        return torch.sin(torch.arange(length).float())[None, :, None]

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens) * self.scale + self.waves(tokens.shape[1])
        for layer in self.layers:
            x = layer(x, self.bias)
        return self.head(x)


class Skipping(nn.Module):
    """Convolutions with a connection over all of them, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(3 if i == 0 else 4, 4, 3, padding=1) for i in range(3))
        self.norm, self.head, self.side = nn.BatchNorm2d(4), nn.Linear(4, 5), nn.Linear(4, 1)

    def forward(self, x: Any) -> Any:
        first = x = torch.relu(self.convs[0](x))
        x = self.norm(self.convs[1](x))
        x = torch.cat([self.convs[2](x), first], 1)[:, 2:6]
        pooled = x.mean((2, 3))
        return self.head(pooled), self.side(pooled)[:, 0]


def small() -> tuple[nn.Module, dict[str, Any]]:
    return Small(), {"tokens": torch.zeros(1, 6, dtype=torch.long)}


def skipping() -> tuple[nn.Module, dict[str, Any]]:
    return Skipping(), {"x": torch.zeros(1, 3, 5, 5)}


def data(program: CapturedProgram, samples: int) -> dict[str, torch.Tensor]:
    made = {}
    for name, example in program.inputs.items():
        shape = (samples, *example.shape[1:])
        floating = example.dtype.is_floating_point
        made[name] = torch.randn(shape).to(example.dtype) if floating else torch.randint(0, 20, shape)
    return made


def gradients(
    parts: Sequence[LayerModule], module: nn.Module, given: Mapping[str, torch.Tensor]
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    parameters = dict(module.named_parameters())
    tensors, total = dict(given), torch.zeros(())
    for part in parts:
        made = part(tensors, parameters)
        total = total + made.pop(TOTAL, torch.zeros(()))
        tensors.update(made)
    found = torch.autograd.grad(total, list(parameters.values()))
    return total, dict(zip(parameters, found, strict=True))


def whole(module: nn.Module, given: Mapping[str, torch.Tensor]) -> tuple[Any, dict[str, torch.Tensor]]:
    for item in module.modules():
        if isinstance(item, nn.Dropout):
            item.p = 0.0
    out = module(**given)
    samples = next(iter(given.values())).shape[0]
    outputs = out if isinstance(out, tuple) else (out,)
    total = sum((output_loss(item, i, samples) for i, item in enumerate(outputs)), torch.zeros(()))
    parameters = dict(module.named_parameters())
    return total, dict(zip(parameters, torch.autograd.grad(total, list(parameters.values())), strict=True))


@pytest.mark.parametrize("make", [small, skipping])
@pytest.mark.parametrize("samples", [1, 3])
def test_layers_and_every_cut_in_two_compute_what_the_module_computes(
    make: Callable[[], Any], samples: int
) -> None:
    torch.manual_seed(0)
    module, inputs = make()
    program = capture_program(Capturing(module=module, kwargs=inputs, name="m"), samples=samples)
    given = data(program, samples)
    expected, right = whole(module, given)
    names = [layer.name for layer in program.graph.layers]
    ways = [list(layer_modules(program).values()), [layer_module(program, names)]]
    ways += [
        [layer_module(program, names[:i]), layer_module(program, names[i:])] for i in range(1, len(names))
    ]
    for parts in ways:
        total, found = gradients(parts, module, given)
        torch.testing.assert_close(total, expected)
        for name, gradient in found.items():
            torch.testing.assert_close(gradient, right[name])


def test_modules_name_tensors_and_parameters_as_the_graph_does() -> None:
    module, inputs = small()
    program = capture_program(Capturing(module=module, kwargs=inputs, name="m"), samples=2)
    graph = program.graph
    for name, part in layer_modules(program).items():
        layer = graph.layer[name]
        assert set(part.reads) == {use.name for use in layer.reads}
        assert set(part.parameters) == {use.name for use in layer.parameters}
        assert set(part.writes) - {TOTAL} <= {use.name for use in layer.writes}
    assert graph.layer["head"].parameters[0].name == "embed.weight"


def test_a_module_with_some_blocks_keeps_the_names_of_all() -> None:
    module, inputs = small()
    source = Capturing(module=module, kwargs=inputs, name="m")
    (blocks,) = source.blocks()
    program = capture_program(source, samples=2, keep=(replace(blocks, keep=(0, 2)),))
    assert {layer.block for layer in program.graph.layers} == {"", "layers.0", "layers.2"}
    assert "layers.2.qkv.weight" in program.graph.parameter
    used = {name for part in layer_modules(program).values() for name in part.parameters}
    assert used == {item.name for item in program.graph.parameters}
    assert len(list(module.get_submodule("layers").children())) == 3
    full = capture_program(source)
    kept = [layer for layer in full.graph.layers if layer.block != "layers.1"]
    assert [layer.name for layer in kept] == [layer.name for layer in program.graph.layers]


class Noisy(nn.Linear):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * torch.rand_like(x)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x)) if x.shape[0] > 1 else self.first(x)


class Empty(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("shift", torch.zeros(4, device="meta"))

    def forward(self, x: Any) -> Any:
        return self.linear(x) + self.shift


def test_what_cannot_be_compared_or_cut_is_refused() -> None:
    inputs = {"x": torch.zeros(1, 4)}
    program = capture_program(Capturing(module=Noisy(4, 4), kwargs=inputs, name="m"))
    with pytest.raises(InputError, match="draws random numbers"):
        layer_modules(program)
    with pytest.raises(InputError, match="has other layers for 2 samples"):
        capture_program(Capturing(module=Counting(), kwargs=inputs, name="m"), samples=2)
    on_meta = Capturing(module=Empty().to("meta"), kwargs={"x": torch.zeros(1, 4, device="meta")}, name="m")
    with pytest.raises(InputError, match="'shift' of 'm' has no value"):
        capture_program(on_meta)
    program = capture_program(
        Capturing(module=nn.Linear(4, 4), args=(torch.zeros(1, 4),), kwargs={}, name="m")
    )
    with pytest.raises(InputError, match="has no layer 'other'"):
        layer_module(program, ("other",))
