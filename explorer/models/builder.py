"""GraphBuilder: one method per kind of layer, so that every source counts work and memory alike.

Dimension names are a contract that tensor-parallel layouts use: ``seq``, ``embed`` (model width), ``heads``
(query heads), ``kv_heads``, ``head`` (head size), ``ffn``, ``vocab``, ``experts``; for images ``height``,
``width``, ``in_channels``, ``out_channels`` (``channels`` where a layer does not mix them), ``kernel_height``
and ``kernel_width``. Weights keep these axes apart: a query weight is (heads, head, embed).

Rules of counting, the same for all layers:

* FLOPs are those of matrix products and convolutions, 2mnk each, causal attention not halved, as in torch's
  ``FlopCounterMode`` and in MFU. Everything else costs by the elements it moves.
* `moved_elements` are the activations (and their gradients) read and written; parameters are not in it.
* `saves` is what autograd keeps: inputs of matrix products, norms and activations (the output of a relu), and
  of a fused attention its inputs, its output and one fp32 statistic per head and row. Additions keep nothing.
* A layer whose inputs need no gradient has no `input_grad`, one without trainable weights no `weight_grad`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from explorer.errors import InputError
from explorer.graph import Work
from explorer.models._images import ImageLayers
from explorer.models._parts import Value, Weight
from explorer.models._sequences import SequenceLayers

__all__ = ["GraphBuilder", "Value", "Weight"]


class GraphBuilder(ImageLayers, SequenceLayers):
    """Collects layers in the order in which they are called; `build` gives the graph.

    >>> b = GraphBuilder("two")
    >>> x = b.input("x", {"embed": 4})
    >>> y = b.linear("up", x, {"ffn": 8})
    >>> b.linear("down", y, {"embed": 4}, over=("ffn",)).dims
    ('embed',)
    >>> b.build().parameter_count
    64
    """

    def linear(
        self,
        name: str,
        x: Value,
        out: Mapping[str, float],
        *,
        over: Sequence[str] = ("embed",),
        bias: bool = False,
        weight: str = "",
        trainable: bool = True,
    ) -> Value:
        """A matrix product: contracts the axes `over` of `x` and appends the axes `out`.

        `weight` is the full name of a parameter to share (tied embeddings), empty for one of its own. A
        frozen weight (LoRA) needs no weight gradient, so that its input is not kept.

        Raises:
            InputError: a name that is an axis of both sides.
        """
        kept = {d: s for d, s in zip(x.dims, x.shape, strict=True) if d not in over}
        inner = {d: x.size(d) for d in over}
        if clash := set(out) & set(x.dims):
            raise InputError(
                f"linear {name!r} has {clash} on both sides", key=name, allowed="different names"
            )
        own = self.full(name)
        weights = [self.parameter(weight or f"{own}.weight", {**out, **inner}, trainable=trainable)]
        if bias:
            weights.append(self.parameter(f"{own}.bias", out, trainable=trainable))
        y = self.output(name, {**kept, **out}, [x], weights)
        work = Work(flops=2 * y.elements * math.prod(inner.values()), moved_elements=x.elements + y.elements)
        self.layer(
            name, "linear", reads=[x], writes=[y], weights=weights, saves=[x] if trainable else [],
            forward=work, input_grad=work, weight_grad=work,
        )  # fmt: skip
        return y

    def norm(self, name: str, x: Value, *, over: Sequence[str] = ("embed",), bias: bool = True) -> Value:
        """Layer normalisation (`bias`), else RMS normalisation over the axes `over`."""
        sizes = {d: x.size(d) for d in over}
        return self.affine(name, x, sizes, names=("weight", "bias") if bias else ("weight",), fixed=over)

    def elementwise(self, name: str, *inputs: Value, saves: str = "none", kind: str = "elementwise") -> Value:
        """A pointwise function of `inputs`, shaped like the first.

        `saves` is ``none`` (an addition), ``inputs`` (gelu, a product) or ``output`` (relu, tanh).
        """
        first = inputs[0]
        y = self.output(name, dict(zip(first.dims, first.shape, strict=True)), inputs)
        kept = {"none": (), "inputs": inputs, "output": (y,)}[saves]
        read = sum(value.elements for value in inputs)
        extra = sum(value.elements for value in kept)
        self.layer(
            name, kind, reads=inputs, writes=[y], saves=kept,
            forward=Work(moved_elements=read + y.elements),
            input_grad=Work(moved_elements=y.elements + read + extra),
        )  # fmt: skip
        return y

    def add(self, name: str, *inputs: Value) -> Value:
        """A sum; its gradient is passed on unchanged, so that nothing is kept."""
        return self.elementwise(name, *inputs)

    def activation(self, name: str, x: Value, *, saves: str = "inputs") -> Value:
        """A pointwise nonlinearity: gelu and silu keep their input, relu and tanh their ``output``."""
        return self.elementwise(name, x, saves=saves)

    def loss(self, name: str, prediction: Value, targets: Value, *, over: str = "vocab") -> Value:
        """Cross entropy over the axis `over`: keeps its log-probabilities in fp32, writes one scalar."""
        axes = dict(zip(prediction.dims, prediction.shape, strict=True))
        y = self.output(name, {}, [prediction], dtype="fp32")
        kept = self.internal(name, "log_softmax", axes, dtype="fp32")
        n = prediction.elements
        self.layer(
            name, "loss", reads=[prediction, targets], writes=[y, kept], saves=[kept, targets], fixed=[over],
            forward=Work(moved_elements=2 * n), input_grad=Work(moved_elements=2 * n),
        )  # fmt: skip
        return y
