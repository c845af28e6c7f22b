"""VGG as a module (`explorer.models.vgg`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import Loss, images_and_targets, shape_of


class Vgg(nn.Module):
    """The whole model: convolutions in the order of the graph, then three linear layers."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        self.steps: list[str] = []
        for layer in graph.layers:
            if layer.kind == "conv":
                wide, before, size, _ = shape_of(graph, f"{layer.name}.weight")
                self._add(layer.name, nn.Conv2d(before, wide, size, padding=size // 2))
            elif layer.kind == "pool":
                self._add(layer.name, nn.MaxPool2d(2))
            elif layer.kind == "linear":
                wide, *before_axes = shape_of(graph, f"{layer.name}.weight")
                self._add(layer.name, nn.Linear(torch.Size(before_axes).numel(), wide))
            elif layer.kind == "elementwise":
                self._add(layer.name, nn.ReLU())
        self.loss = Loss()

    def _add(self, name: str, module: nn.Module) -> None:
        self.add_module(name, module)
        self.steps.append(name)

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        """Return the loss."""
        x = images
        for name in self.steps:
            module = getattr(self, name)
            x = module(x.flatten(1) if isinstance(module, nn.Linear) else x)
        return self.loss(x, targets)  # type: ignore[no-any-return]


@MODULES.add("vgg", title="VGG")
def vgg(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a VGG."""
    return Vgg(graph), images_and_targets(graph)
