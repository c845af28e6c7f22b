"""Parts that modules of several families share: additions, losses, and sizes read off a graph."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from explorer.base.errors import InputError
from explorer.graph import LayerGraph


class Add(nn.Module):
    """An addition, which the graph has as a layer."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum."""
        return x + y


class Loss(nn.Module):
    """Cross entropy over the last axis, a mean over samples and places; of half precision in fp32."""

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return a scalar."""
        wide = logits.float() if logits.element_size() < torch.float32.itemsize else logits
        return F.cross_entropy(wide.flatten(0, -2), targets.flatten())


class FirstToken(nn.Module):
    """The first token of each sample."""

    def forward(self, x: Tensor) -> Tensor:
        """Return it: a row is looked up, since a view would be no layer."""
        return x.index_select(1, torch.zeros(1, dtype=torch.long, device=x.device)).squeeze(1)


class Part(nn.Module):
    """Modules under names: one half of a block."""

    def __init__(self, **parts: nn.Module) -> None:
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)

    def __getattr__(self, name: str) -> nn.Module:
        found = super().__getattr__(name)
        if not isinstance(found, nn.Module):
            raise AttributeError(name)
        return found


def shape_of(graph: LayerGraph, parameter: str) -> tuple[int, ...]:
    """Return the shape of a parameter.

    Raises:
        InputError: the graph has no such parameter, so that it is not what its family says.
    """
    if parameter not in graph.parameter:
        raise missing(graph, parameter)
    return tuple(map(round, graph.parameter[parameter].shape))


def size_of(graph: LayerGraph, layer: str, dim: str) -> int:
    """Return the size of a dimension of a layer."""
    for item in graph.layer[layer].dims if layer in graph.layer else ():
        if item.name == dim:
            return round(item.size)
    raise missing(graph, f"{layer}.{dim}")


def input_shape(graph: LayerGraph, name: str) -> tuple[int, ...]:
    """Return the shape of one sample of an input."""
    return tuple(map(round, graph.tensor[name].shape))


def tokens(graph: LayerGraph, *names: str) -> dict[str, Tensor]:
    """Make inputs of token numbers, one sample each."""
    return {name: torch.zeros(1, *input_shape(graph, name), dtype=torch.long) for name in names}


def images_and_targets(graph: LayerGraph) -> dict[str, Tensor]:
    """Make inputs of images and classes, one sample each."""
    images = torch.zeros(1, *input_shape(graph, "images"))
    return {"images": images, "targets": torch.zeros(1, dtype=torch.long)}


def blocks_of(graph: LayerGraph, prefix: str) -> int:
    """Count the blocks `prefix`.0, `prefix`.1, ... of a graph."""
    return len({layer.block for layer in graph.layers if layer.block.startswith(f"{prefix}.")})


def missing(graph: LayerGraph, what: str) -> InputError:
    """Return the error of a graph with other layers than its family's module."""
    return InputError(
        f"{graph.name} has no {what!r}, so that no module is like it",
        key="model",
        found=graph.name,
        allowed="the model without options that change its layers, or --engine likeness",
    )
