"""What autograd saves of own layers, as it is predicted without values, against what it saves with values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from explorer.models.captured_program import CapturedProgram, Capturing, capture_program
from explorer.run.own.layer_modules import layer_module
from explorer.run.own.own_source import open_own
from explorer.run.own.saved_tensors import saved_tensors, with_saved
from tests.run.own.own_cases import GPT, LLAMA, configured, small_resnet, source

SAMPLES = 2


class Gated(nn.Module):
    """A gate, which keeps what is inside of it, and scores with a bias that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(8, 24), nn.Linear(8, 24), nn.Linear(24, 8)
        self.act = Act()
        self.bias = nn.Parameter(torch.zeros(1, 1, 5, 5))

    def forward(self, x: Any) -> Any:
        x = self.down(self.act(self.gate(x), self.up(x)))
        heads = x.view(-1, 5, 2, 4).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, attn_mask=self.bias)


class Act(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return nn.functional.silu(x) * y


def program_of(name: str) -> CapturedProgram:
    if name == "gated":
        own = Capturing(module=Gated(), kwargs={"x": torch.zeros(1, 5, 8)}, name=name, by_module=True)
        return capture_program(own, samples=SAMPLES)
    if name == "resnet":
        model = small_resnet("fp32").model
    elif name in ("t5", "mixtral"):
        model = configured(name, "fp32").model
    else:
        model = source(*(GPT if name == "gpt" else LLAMA), "fp32").model
    opened, chosen = open_own(model)
    return capture_program(opened, samples=SAMPLES, keep=chosen)


def counted_bytes(program: CapturedProgram) -> float:
    """Bytes of all storages that autograd saves in a run with values, weights and data apart, a sample."""
    module = layer_module(program, [layer.name for layer in program.graph.layers])
    values = {node.name: node.meta["val"] for node in program.module.graph.nodes if node.op == "placeholder"}
    data: dict[str, torch.Tensor] = {}
    for name in module.reads:
        shape = values[name].shape if name in values else (SAMPLES, *program.graph.tensor[name].shape)
        dtype = values[name].dtype if name in values else torch.long
        data[name] = torch.zeros(tuple(map(int, shape)), dtype=dtype)
    weights = {
        name: torch.full(values[node].shape, 0.01).requires_grad_()
        for node, name in program.parameter_of.items()
    }
    apart = {
        t.untyped_storage().data_ptr()
        for t in (*data.values(), *weights.values(), *program.constants.values())
    }
    kept: dict[int, torch.Tensor] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in apart:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        made = module(data, weights)
    found = sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / SAMPLES
    del made
    return float(found)


@pytest.mark.parametrize("name", ["gated", "gpt", "llama", "resnet", "t5", "mixtral"])
def test_every_saved_byte_is_there_once(name: str) -> None:
    program = program_of(name)
    found = saved_tensors(program)
    sizes = {"bool": 1, "int64": 8}
    expected = sum(item.elements * sizes.get(item.dtype, 4) for item in found)
    assert expected == pytest.approx(counted_bytes(program), rel=1e-3)
    graph = with_saved(program.graph, program)
    names = {name for layer in graph.layers for name in layer.saves}
    widths = {"compute": 4, "fp32": 4}
    total = sum(
        math.prod(graph.tensor[name].shape)
        * (widths.get(graph.tensor[name].dtype) or sizes[graph.tensor[name].dtype])
        for name in names
    )
    assert total == pytest.approx(expected)


def test_a_gate_keeps_what_is_inside_of_it() -> None:
    program = program_of("gated")
    before, after = (
        graph.layer["act"].saves for graph in (program.graph, with_saved(program.graph, program))
    )
    assert len(before) == 2
    assert len(after) == 3
    hidden = next(iter(set(after) - set(before)))
    graph = with_saved(program.graph, program)
    assert graph.tensor[hidden].shape == graph.tensor["gate"].shape
    cut = {use.name: use.dims for use in (*graph.layer["act"].reads, *graph.layer["act"].writes)}
    assert cut[hidden] == cut["gate"]


@pytest.mark.parametrize("asked", [torch.nonzero, torch.Tensor.item])
def test_a_program_that_needs_values_keeps_what_its_capture_says(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[[torch.Tensor], Any]
) -> None:
    from explorer.run.own import saved_tensors as here

    def refused(_: CapturedProgram) -> Any:
        with FakeTensorMode():
            return asked(torch.ones(1))

    program = program_of("gated")
    monkeypatch.setattr(here, "saved_tensors", refused)
    assert with_saved(program.graph, program) == program.graph


@pytest.mark.parametrize("kind", [RuntimeError, TypeError, ValueError])
def test_a_fault_of_the_count_is_told(monkeypatch: pytest.MonkeyPatch, kind: type[Exception]) -> None:
    from explorer.run.own import saved_tensors as here

    def broken(_: CapturedProgram) -> Any:
        raise kind("no such thing")

    program = program_of("gated")
    monkeypatch.setattr(here, "saved_tensors", broken)
    with pytest.raises(kind, match="no such thing"):
        with_saved(program.graph, program)


def test_a_module_runs_in_the_order_of_the_program() -> None:
    """An encoder before its decoder: gradients come, and memory goes, in the order that a graph says."""
    program = program_of("t5")
    module = layer_module(program, [layer.name for layer in program.graph.layers])
    place = {node.name: i for i, node in enumerate(program.module.graph.nodes)}
    computed = [node.name for node in module.module.graph.nodes if node.op == "call_function"]
    places = [place[module.origin[name]] for name in computed if name in module.origin]
    assert len(places) > 50
    assert places == sorted(places)
