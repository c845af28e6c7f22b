"""ResNet-50 as a module, version 1.5 (`explorer.models.resnet`)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import Add, Loss, blocks_of, images_and_targets, shape_of

_EXPANSION = 4


class Mean(nn.Module):
    """The mean over height and width."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a vector of channels for each sample."""
        return x.mean((2, 3))


class Bottleneck(nn.Module):
    """Three convolutions around a connection that skips them."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = _EXPANSION * width
        self.conv1, self.bn1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, after, 1, bias=False), nn.BatchNorm2d(after)
        self.relu1, self.relu2, self.relu3, self.add = nn.ReLU(), nn.ReLU(), nn.ReLU(), Add()
        if stride > 1 or before != after:
            self.conv_skip: nn.Module | None = nn.Conv2d(before, after, 1, stride, bias=False)
            self.bn_skip: nn.Module | None = nn.BatchNorm2d(after)
        else:
            self.conv_skip = self.bn_skip = None

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu2(self.bn2(self.conv2(y)))))
        if self.conv_skip is not None and self.bn_skip is not None:
            x = self.bn_skip(self.conv_skip(x))
        return self.relu3(self.add(y, x))  # type: ignore[no-any-return]


class ResNet(nn.Module):
    """The whole model."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        before = shape_of(graph, "conv1.weight")[0]
        self.conv1 = nn.Conv2d(3, before, 7, 2, 3, bias=False)
        self.bn1, self.relu, self.pool = nn.BatchNorm2d(before), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        self.stages: list[nn.ModuleList] = []
        while count := blocks_of(graph, f"stage{len(self.stages) + 1}"):
            number = len(self.stages) + 1
            width = shape_of(graph, f"stage{number}.0.conv1.weight")[0]
            blocks = nn.ModuleList()
            for i in range(count):
                blocks.append(Bottleneck(before, width, 2 if number > 1 and i == 0 else 1))
                before = _EXPANSION * width
            setattr(self, f"stage{number}", blocks)
            self.stages.append(blocks)
        self.mean, self.head, self.loss = Mean(), nn.Linear(before, shape_of(graph, "head.bias")[0]), Loss()

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        """Return the loss."""
        x = self.pool(self.relu(self.bn1(self.conv1(images))))
        for number in range(len(self.stages)):
            for block in getattr(self, f"stage{number + 1}"):
                x = block(x)
        return self.loss(self.head(self.mean(x)), targets)  # type: ignore[no-any-return]


@MODULES.add("resnet", title="ResNet-50")
def resnet(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a ResNet."""
    return ResNet(graph), images_and_targets(graph)
