"""Layers of image models: convolution, batch normalisation, pooling.

Images are (channels, height, width). A convolution iterates its *output* height and width; splitting those
needs a halo, so they are not splittable by the einsum rule.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.graph import Work
from explorer.models._parts import GraphParts, Value

Pair = int | tuple[int, int]
"""One number for both directions, or (vertical, horizontal)."""


def _pair(value: Pair) -> tuple[int, int]:
    return value if isinstance(value, tuple) else (value, value)


def _window(x: Value, kernel: Pair, stride: Pair, padding: Pair) -> tuple[int, int]:
    """Output height and width: floor((n + 2 padding - kernel) / stride) + 1."""
    sizes = (int(x.size("height")), int(x.size("width")))
    windows = zip(sizes, _pair(kernel), _pair(stride), _pair(padding), strict=True)
    height, width = ((n + 2 * p - k) // s + 1 for n, k, s, p in windows)
    return height, width


class ImageLayers(GraphParts):
    """Methods of `GraphBuilder` for images."""

    def conv2d(
        self,
        name: str,
        x: Value,
        channels: int,
        kernel: Pair,
        *,
        stride: Pair = 1,
        padding: Pair = 0,
        groups: int = 1,
        bias: bool = False,
    ) -> Value:
        """A convolution to `channels` outputs, of 2 x outputs x (input channels / groups) x kernel FLOPs."""
        height, width = _window(x, kernel, stride, padding)
        (k_height, k_width), inner = _pair(kernel), x.size("channels") / groups
        # With groups a weight sees only its own group's channels: an axis that splits with the outputs.
        mixed = "in_channels" if groups == 1 else ""
        window = {mixed: inner, "kernel_height": k_height, "kernel_width": k_width}
        weights = [self.parameter(f"{self.full(name)}.weight", {"out_channels": channels, **window})]
        if bias:
            weights.append(self.parameter(f"{self.full(name)}.bias", {"out_channels": channels}))
        y = self.output(name, {"channels": channels, "height": height, "width": width}, [x], weights)
        flops = 2 * y.elements * inner * k_height * k_width
        work = Work(flops=flops, moved_elements=x.elements + y.elements)
        self.layer(
            name, "conv", reads=[x.seen_as(mixed, "height", "width")],
            writes=[y.seen_as("out_channels", "height", "width")], weights=weights, saves=[x],
            fixed=("height", "width", "kernel_height", "kernel_width"),
            sizes={"height": height, "width": width}, forward=work, input_grad=work, weight_grad=work,
        )  # fmt: skip
        return y

    def batch_norm(self, name: str, x: Value) -> Value:
        """Batch normalisation of (channels, height, width); its running statistics are no parameters."""
        sizes = {"channels": x.size("channels")}
        return self.affine(name, x, sizes, names=("weight", "bias"), fixed=("height", "width"))

    def max_pool(self, name: str, x: Value, kernel: Pair, *, stride: Pair, padding: Pair = 0) -> Value:
        """Maximum over windows; keeps its input and, as torch does, the int64 index of each maximum."""
        height, width = _window(x, kernel, stride, padding)
        sizes = {"channels": x.size("channels"), "height": height, "width": width}
        y = self.output(name, sizes, [x])
        indices = self.internal(name, "indices", sizes, dtype="int64")
        moved = Work(moved_elements=x.elements + y.elements)
        self.layer(
            name, "pool", reads=[x], writes=[y, indices], saves=[x, indices], fixed=("height", "width"),
            sizes={"height": height, "width": width}, forward=moved, input_grad=moved,
        )  # fmt: skip
        return y

    def mean(self, name: str, x: Value, *, over: Sequence[str] = ("height", "width")) -> Value:
        """Mean over axes (global average pooling); its gradient needs only sizes, so nothing is kept."""
        kept = {d: s for d, s in zip(x.dims, x.shape, strict=True) if d not in over}
        y = self.output(name, kept, [x])
        moved = Work(moved_elements=x.elements + y.elements)
        self.layer(name, "pool", reads=[x], writes=[y], forward=moved, input_grad=moved)
        return y
