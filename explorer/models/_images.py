"""Layers of image models: convolution, batch normalisation, pooling, in two and three dimensions.

Images are (channels, height, width), volumes (channels, depth, height, width). A convolution iterates its
*output* height and width; splitting those needs a halo, so the einsum rule does not split them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.graph import Work
from explorer.models._parts import GraphParts, Value

Window = int | tuple[int, ...]
"""One number for all directions, or one each: (vertical, horizontal), for volumes the depth first."""


def _each(x: Value, window: Window) -> tuple[int, ...]:
    return window if isinstance(window, tuple) else (window,) * (len(x.dims) - 1)


def _outputs(x: Value, kernel: Window, stride: Window, padding: Window) -> dict[str, float]:
    """Return the output size of every direction: floor((n + 2 padding - kernel) / stride) + 1."""
    windows = zip(x.dims[1:], x.shape[1:], *(_each(x, w) for w in (kernel, stride, padding)), strict=True)
    return {dim: (int(n) + 2 * p - k) // s + 1 for dim, n, k, s, p in windows}


class ImageLayers(GraphParts):
    """Methods of `GraphBuilder` for images and volumes."""

    def conv2d(
        self,
        name: str,
        x: Value,
        channels: int,
        kernel: Window,
        *,
        stride: Window = 1,
        padding: Window = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> Value:
        """Add a convolution to `channels` outputs: 2 x outputs x (input channels / groups) x kernel FLOPs."""
        space, inner = _outputs(x, kernel, stride, padding), x.size("channels") / groups
        # With groups a weight sees only its own group's channels: an axis that splits with the outputs.
        mixed = "in_channels" if groups == 1 else ""
        sides = {f"kernel_{dim}": k for dim, k in zip(space, _each(x, kernel), strict=True)}
        weight = {"out_channels": channels, mixed: inner, **sides}
        weights = [self.parameter(f"{self.full(name)}.weight", weight)]
        if bias:
            weights.append(self.parameter(f"{self.full(name)}.bias", {"out_channels": channels}))
        y = self.output(name, {"channels": channels, **space}, [x], weights)
        flops = 2 * y.elements * inner * math.prod(sides.values())
        work = Work(flops=flops, moved_elements=x.elements + y.elements)
        self.layer(
            name, "conv", reads=[x.seen_as(mixed, *space)], writes=[y.seen_as("out_channels", *space)],
            weights=weights, saves=[x], fixed=(*space, *sides), sizes=space,
            forward=work, input_grad=work, weight_grad=work,
        )  # fmt: skip
        return y

    conv3d = conv2d
    """Convolution of volumes: `conv2d` with windows of three sides."""

    def up_conv(self, name: str, x: Value, channels: int, scale: int) -> Value:
        """Add a transposed convolution whose kernel and stride are both `scale`, without bias.

        Every input makes `scale` outputs in each direction and no two inputs share one, so splitting height
        or width needs no halo; that is why its window has dimensions of its own (``up_height``). It iterates
        its *input* height and width: 2 x inputs x `channels` x window FLOPs.
        """
        inner, space = x.size("channels"), dict(zip(x.dims[1:], x.shape[1:], strict=True))
        sides = {f"up_{dim}": scale for dim in space}
        weight = self.parameter(
            f"{self.full(name)}.weight", {"in_channels": inner, "out_channels": channels, **sides}
        )
        y = self.output(
            name, {"channels": channels, **{dim: n * scale for dim, n in space.items()}}, [x], [weight]
        )
        flops = 2 * x.elements * channels * math.prod(sides.values())
        work = Work(flops=flops, moved_elements=x.elements + y.elements)
        self.layer(
            name, "conv", reads=[x.seen_as("in_channels", *space)],
            writes=[y.seen_as("out_channels", *space)], weights=[weight], saves=[x],
            fixed=(*space, *sides), sizes=space, forward=work, input_grad=work, weight_grad=work,
        )  # fmt: skip
        return y

    def batch_norm(self, name: str, x: Value, *, affine: bool = True) -> Value:
        """Add batch normalisation by channel; its running statistics are not parameters.

        Without `affine` (as in Caffe's BatchNorm) it learns no scale and shift.
        """
        sizes = {"channels": x.size("channels")}
        return self.affine(name, x, sizes, names=("weight", "bias") if affine else (), fixed=x.dims[1:])

    def max_pool(self, name: str, x: Value, kernel: Window, *, stride: Window, padding: Window = 0) -> Value:
        """Add a maximum over windows; it keeps its input and, like torch, each maximum's int64 index."""
        space = _outputs(x, kernel, stride, padding)
        sizes = {"channels": x.size("channels"), **space}
        y = self.output(name, sizes, [x])
        indices = self.internal(name, "indices", sizes, dtype="int64")
        moved = Work(moved_elements=x.elements + y.elements)
        self.layer(
            name, "pool", reads=[x], writes=[y, indices], saves=[x, indices], fixed=tuple(space),
            sizes=space, forward=moved, input_grad=moved,
        )  # fmt: skip
        return y

    def average_pool(
        self, name: str, x: Value, kernel: Window, *, stride: Window, padding: Window = 0
    ) -> Value:
        """Add a mean over windows; it keeps its input, as torch does."""
        space = _outputs(x, kernel, stride, padding)
        y = self.output(name, {"channels": x.size("channels"), **space}, [x])
        moved = Work(moved_elements=x.elements + y.elements)
        self.layer(
            name, "pool", reads=[x], writes=[y], saves=[x], fixed=tuple(space), sizes=space,
            forward=moved, input_grad=moved,
        )  # fmt: skip
        return y

    def mean(self, name: str, x: Value, *, over: Sequence[str] = ("height", "width")) -> Value:
        """Add a mean over axes (global average pooling); its gradient needs only sizes: nothing is kept."""
        kept = {d: s for d, s in zip(x.dims, x.shape, strict=True) if d not in over}
        y = self.output(name, kept, [x])
        moved = Work(moved_elements=x.elements + y.elements)
        self.layer(name, "pool", reads=[x], writes=[y], forward=moved, input_grad=moved)
        return y
