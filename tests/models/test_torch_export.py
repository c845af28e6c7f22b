"""Capture of any module: axes, gradients, sharing, layers called again, and what cannot be exported."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch
from torch import nn

from explorer.graph import LayerGraph
from explorer.models._axes import Axes
from explorer.models.torch_export import capture
from tests.models import torch_factories


def graph_of(module: nn.Module, *shapes: tuple[int, ...], **options: Any) -> LayerGraph:
    inputs = tuple(torch.zeros(shape) for shape in shapes)
    return capture(module, inputs, name="model", source="test", **options)


class Called(nn.Module):
    """Calls a function of its parameters and inputs."""

    def __init__(self, function: Any, **parameters: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        for name, shape in parameters.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape)))

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self, *inputs)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_view_keeps_sizes_and_comes_back(sizes: list[int], random: Any) -> None:
    axes = Axes()
    shape = axes.fresh(sizes)
    total = math.prod(sizes)
    cut = random.choice([n for n in range(1, total + 1) if total % n == 0])
    seen = axes.reshape(shape, (cut, total // cut))
    assert [axes.size(axis) for axis in seen] == [cut, total // cut]
    back = axes.reshape(seen, sizes)
    assert [axes.size(axis) for axis in back] == sizes
    if all(axis for axis in seen):
        # Nothing got lost on the way: the atoms of all axes are still those of the original.
        assert math.prod(axes.size(axis) for axis in map(axes.resolve, shape)) == total


@given(st.lists(st.sampled_from([2, 3, 4, 6, 12]), min_size=1, max_size=3), st.data())
def test_equal_axes_resolve_alike(sizes: list[int], data: st.DataObject) -> None:
    axes = Axes()
    total = math.prod(sizes)
    one, other = axes.new(total), tuple(atom for size in sizes for atom in axes.new(size))
    axes.unify(one, other)
    assert axes.resolve(one) == axes.resolve(other)
    again = axes.new(total)
    axes.unify(again, one)
    assert axes.resolve(again) == axes.resolve(other)
    assert axes.size(axes.resolve(again)) == total
    assert data is not None


def test_axes_of_unequal_size_are_left_alone() -> None:
    axes = Axes()
    one, other = axes.new(6), axes.new(4)
    axes.unify(one, other)
    assert axes.resolve(one) != axes.resolve(other)
    assert axes.size(one) == 6


@pytest.mark.parametrize("equation", ["bsi,io->bso", "bsi,ihd->bshd", "...i,io->...o", "bsi,bti->bst"])
def test_einsum_flops_are_the_product_of_its_extents(equation: str) -> None:
    second = {
        "bsi,io->bso": (4, 5),
        "bsi,ihd->bshd": (4, 2, 3),
        "...i,io->...o": (4, 5),
        "bsi,bti->bst": (1, 7, 4),
    }
    model = Called(lambda self, x: torch.einsum(equation, x, self.w), w=second[equation])
    graph = graph_of(model, (1, 6, 4))
    assert graph.flops_per_sample == 2 * 6 * 4 * math.prod(second[equation]) / 4


def test_a_frozen_first_layer_has_no_gradients() -> None:
    module, inputs = torch_factories.frozen()
    graph = capture(module, inputs, name="frozen", source="test")
    first, last = graph.layers[0], graph.layers[-1]
    assert (first.input_grad.flops, first.weight_grad.flops, first.saves) == (0, 0, ())
    assert last.input_grad.flops == 0  # nothing before it wants a gradient
    assert last.weight_grad.flops == last.forward.flops == 2 * 16 * 4
    assert not graph.parameter["0.weight"].trainable


def test_a_layer_called_twice_is_two_layers_with_one_weight() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(torch.relu(self.inner(x)))

    graph = graph_of(Twice(), (1, 8))
    assert [layer.kind for layer in graph.layers] == ["linear", "elementwise", "linear"]
    assert graph.parameter_count == 72
    assert graph.layers[0].name == "inner"
    assert graph.layers[2].name == "inner_2"


def test_unused_parameters_are_counted() -> None:
    graph = graph_of(Called(lambda self, x: x @ self.w, w=(4, 4), spare=(3, 5)), (1, 4))
    assert graph.parameter_count == 16 + 15
    assert [use.name for use in graph.layer["unused"].parameters] == ["spare"]


def test_shared_parameters_are_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False)
            self.other.weight = self.one.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.other(torch.relu(self.one(x)))

    graph = graph_of(Tied(), (1, 8))
    assert [item.name for item in graph.parameters] == ["one.weight"]
    assert graph.parameter_count == 64


def test_in_place_results_are_read_by_those_after_them() -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.w
        y.add_(1.0)
        return y @ self.w

    graph = graph_of(Called(function, w=(4, 4)), (1, 3, 4))
    assert len(graph.layers) == 3
    (read,) = graph.layers[2].reads
    assert graph.producer[read.name] == graph.layers[1].name


def test_what_is_written_into_a_part_is_read_with_the_whole() -> None:
    def function(self: Any, x: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        out[:, 1] = x[:, 1] @ self.w
        return out @ self.v

    graph = graph_of(Called(function, w=(4, 4), v=(4, 4)), (1, 3, 4))
    assert "unused" not in graph.layer
    assert graph.flops_per_sample == 2 * 16 + 2 * 3 * 16
    products = [layer for layer in graph.layers if layer.kind == "linear"]
    assert products[1].reads[0].name in graph.producer
    assert graph.tensor[products[1].reads[0].name].shape == (3, 4)


def test_constants_are_no_tensors() -> None:
    graph = graph_of(Called(lambda self, x: x * torch.arange(4.0).cos() + self.b, b=(4,)), (1, 3, 4))
    assert set(graph.tensor) == {"inputs_0", *(use.name for layer in graph.layers for use in layer.writes)}
    (layer,) = graph.layers
    assert [use.name for use in layer.reads] == ["inputs_0"]


def test_recurrent_cells_multiply_every_weight_every_step() -> None:
    class Cells(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.LSTM(6, 5, num_layers=2, batch_first=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.cells(x)[0]

    graph = graph_of(Cells(), (1, 7, 6))
    assert graph.flops_per_sample == 2 * 7 * 4 * 5 * (6 + 5 + 5 + 5)
    assert graph.parameter_count == 4 * 5 * (6 + 5 + 2) + 4 * 5 * (5 + 5 + 2)


def test_an_encoder_of_torch_has_attention_with_heads() -> None:
    module, inputs = torch_factories.encoder()
    graph = capture(module, inputs, name="encoder", source="test")
    attention = [layer for layer in graph.layers if layer.kind == "attention"]
    assert len(attention) == 3
    assert {"heads", "head"} <= {dim.name for dim in attention[0].dims}
    assert {layer.block for layer in graph.layers} >= {f"layers.{i}" for i in range(3)}
    matrices = 3 * (32 * 96 + 32 * 32 + 2 * 32 * 64)
    assert graph.flops_per_sample == 2 * 16 * matrices + 3 * 4 * 16 * 16 * 32


def test_dropout_keeps_a_mask_and_only_in_training() -> None:
    graph = graph_of(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8)), (1, 8))
    masks = [item for item in graph.tensors if item.dtype == "bool"]
    assert [item.shape for item in masks] == [(8.0,)]
    graph = graph_of(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0), nn.Linear(8, 8)), (1, 8))
    assert not [item for item in graph.tensors if item.dtype == "bool"]


def test_what_cannot_be_exported_is_read_per_module() -> None:
    module, inputs = torch_factories.opaque()
    graph = capture(module, inputs, name="opaque", source="test")
    assert "torch.export failed" in graph.source
    assert [layer.name for layer in graph.layers] == ["blocks.0", "blocks.1", "blocks.2", "head"]
    assert graph.parameter_count == sum(p.numel() for p in module.parameters())
    assert graph.flops_per_sample == 2 * (3 * 64 + 32)
    assert all(layer.saves for layer in graph.layers)
    assert list(graph.digraph.edges) == [
        ("blocks.0", "blocks.1"),
        ("blocks.1", "blocks.2"),
        ("blocks.2", "head"),
    ]


def test_the_module_is_left_as_it_was() -> None:
    module, inputs = torch_factories.encoder()
    module.eval()
    blocks = list(module.layers)
    capture(module, inputs, name="encoder", source="test")
    assert list(module.layers) == blocks
    assert not any(item.training for item in module.modules())
    assert all(item.grad is None for item in module.parameters())
