"""Parts of every builder of a graph: tensors, parameters, blocks, and the general layer.

`Value` and `Weight` are a tensor and a parameter as builders handle them. All kinds of layers end in
`GraphParts.layer`, which applies the rules about gradients in one place.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from explorer.base.errors import InputError
from explorer.graph import (
    BY_INPUT,
    BY_WEIGHT,
    COMPUTE,
    Defaults,
    Dim,
    Layer,
    LayerGraph,
    Parameter,
    Tensor,
    Use,
    Work,
)
from explorer.routing import Routing

FREE, NO_DEFAULTS = Work(), Defaults()


class Value(NamedTuple):
    """A tensor as builders handle it: its name, its axes by dimension name, and their sizes."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[float, ...]
    needs_gradient: bool = True

    @property
    def elements(self) -> float:
        """Number of scalars of one sample."""
        return math.prod(self.shape)

    def size(self, dim: str) -> float:
        """Return the size of the axis called `dim`."""
        return self.shape[self.dims.index(dim)]

    def seen_as(self, *dims: str) -> Value:
        """Return the same tensor with the axis names that its reader uses."""
        return self._replace(dims=dims)


class Weight(NamedTuple):
    """A parameter as builders handle it."""

    name: str
    dims: tuple[str, ...]
    shape: tuple[float, ...]
    trainable: bool = True


class GraphParts:
    """Collector of layers in the order of their calls; `build` makes the graph."""

    def __init__(self, name: str, *, defaults: Defaults = NO_DEFAULTS, source: str = "") -> None:
        self.name, self.defaults, self.source = name, defaults, source
        self._layers: list[Layer] = []
        self._tensors: dict[str, Tensor] = {}
        self._parameters: dict[str, Parameter] = {}
        self._block = ""

    def build(self) -> LayerGraph:
        """Make the graph of all layers so far.

        Raises:
            InputError: repeated names, or no layer at all.
        """
        return LayerGraph(
            name=self.name,
            layers=tuple(self._layers),
            tensors=tuple(self._tensors.values()),
            parameters=tuple(self._parameters.values()),
            defaults=self.defaults,
            source=self.source,
        )

    @contextmanager
    def block(self, name: str) -> Iterator[None]:
        """Put everything made inside into the block `name`, with ``name.`` before its own name."""
        before, self._block = self._block, name
        try:
            yield
        finally:
            self._block = before

    def full(self, name: str) -> str:
        """Return `name` with the block before it."""
        return f"{self._block}.{name}" if self._block else name

    # -- tensors, parameters and the general layer -------------------------------------------------

    def input(self, name: str, dims: Mapping[str, float], *, dtype: str = COMPUTE) -> Value:
        """Add a tensor that the input pipeline writes; no gradient flows into it."""
        return self.tensor(name, dims, dtype=dtype, backward=False)

    def tensor(
        self, name: str, dims: Mapping[str, float], *, dtype: str = COMPUTE, backward: bool = True
    ) -> Value:
        """Add a tensor under its full name; an axis that no layer iterates may be called ``""`` once."""
        shape = tuple(dims.values())
        self._tensors[name] = Tensor(name=name, shape=shape, dtype=dtype, backward=backward)
        return Value(name, tuple(dims), shape, backward)

    def parameter(
        self, name: str, dims: Mapping[str, float], *, trainable: bool = True, density: float = 1.0
    ) -> Weight:
        """Add a parameter under its full name, or share it if it exists. `density` is that of `Parameter`.

        Raises:
            InputError: the name is shared with another number of elements.
        """
        shape = tuple(dims.values())
        made = Parameter(name=name, shape=shape, trainable=trainable, density=density)
        known = self._parameters.setdefault(name, made)
        if known.shape != shape:
            raise InputError(
                f"parameter {name!r} is shared with another shape",
                key=name,
                found=shape,
                allowed=str(known.shape),
            )
        return Weight(name, tuple(dims), shape, known.trainable)

    def layer(
        self,
        name: str,
        kind: str,
        *,
        reads: Sequence[Value],
        writes: Sequence[Value],
        weights: Sequence[Weight] = (),
        saves: Collection[Value] = (),
        for_weights: Collection[Value] | None = None,
        fixed: Collection[str] = (),
        sizes: Mapping[str, float] | None = None,
        forward: Work = FREE,
        input_grad: Work = FREE,
        weight_grad: Work = FREE,
        trips: int = 1,
        causal: bool = False,
        documents: tuple[int, ...] = (),
        routing: Routing | None = None,
    ) -> None:
        """Add any layer in its own terms: all other methods end here.

        `for_weights` lists those of `saves` that the weight gradient reads last; None if the kind determines
        it. `fixed` names dimensions whose splitting needs more than the einsum rule; `sizes` gives extents
        that differ from the axes' (the output height of a strided convolution) or that no tensor has.
        Gradients that nobody needs, and what would be kept for them, are dropped here.
        """
        moving = any(value.needs_gradient for value in reads)
        learning = any(weight.trainable for weight in weights)
        axes: dict[str, float] = {}
        touched: tuple[Value | Weight, ...] = (*reads, *writes, *weights)
        for item in touched:
            axes.update(zip(item.dims, item.shape, strict=True))
        axes.update(sizes or {})
        saved = tuple(dict.fromkeys(value.name for value in saves)) if moving or learning else ()
        late = {value.name for value in for_weights or ()}
        said = for_weights is not None and learning
        self._layers.append(
            Layer(
                name=self.full(name),
                kind=kind,
                block=self._block,
                dims=tuple(Dim(name=d, size=s, splittable=d not in fixed) for d, s in axes.items() if d),
                reads=tuple(Use(name=value.name, dims=value.dims) for value in reads),
                writes=tuple(Use(name=value.name, dims=value.dims) for value in writes),
                parameters=tuple(Use(name=weight.name, dims=weight.dims) for weight in weights),
                forward=forward,
                input_grad=input_grad if moving else FREE,
                weight_grad=weight_grad if learning else FREE,
                saves=saved,
                last_read_by=tuple(BY_WEIGHT if item in late else BY_INPUT for item in saved) if said else (),
                causal=causal,
                documents=documents,
                routing=routing,
                trips=trips,
            )
        )

    def output(
        self,
        name: str,
        dims: Mapping[str, float],
        reads: Sequence[Value],
        weights: Sequence[Weight] = (),
        *,
        dtype: str = COMPUTE,
    ) -> Value:
        """Add the output tensor, named like its layer; it needs a gradient if any of its sources does."""
        value = self.tensor(self.full(name), dims, dtype=dtype)
        needed = any(item.needs_gradient for item in reads) or any(item.trainable for item in weights)
        return value._replace(needs_gradient=needed)

    def internal(self, name: str, part: str, dims: Mapping[str, float], *, dtype: str = COMPUTE) -> Value:
        """Add a tensor kept for the layer's own backward, named like it with `part` appended."""
        # Kept for the layer's own backward and read by nobody else: no edge, no transfer, no gradient.
        return self.tensor(f"{self.full(name)}.{part}", dims, dtype=dtype, backward=False)

    def affine(
        self, name: str, x: Value, sizes: Mapping[str, float], *, names: Sequence[str], fixed: Collection[str]
    ) -> Value:
        """Add a normalisation with learned scale (and shift) of `sizes`; it keeps its input."""
        weights = [self.parameter(f"{self.full(name)}.{item}", sizes) for item in names]
        y = self.output(name, dict(zip(x.dims, x.shape, strict=True)), [x], weights)
        n = x.elements
        self.layer(
            name, "norm", reads=[x], writes=[y], weights=weights, saves=[x], fixed=fixed,
            forward=Work(moved_elements=2 * n), input_grad=Work(moved_elements=3 * n),
            weight_grad=Work(moved_elements=2 * n),
        )  # fmt: skip
        return y
