"""GraphBuilder: one method per kind of layer, so every source counts work and memory alike.

Dimension names are a contract that tensor-parallel layouts use: ``seq``, ``embed`` (model width), ``heads``
(query heads), ``kv_heads``, ``head`` (head size; ``v_head`` if that of values differs), ``kv_seq`` (keys that
a query attends to), ``ffn``, ``vocab``, ``experts``; for images ``height``, ``width`` (and ``depth``),
``in_channels``, ``out_channels`` (``channels`` if a layer does not mix them), ``kernel_height`` and so on;
`explorer.models._recurrent` lists those of recurrent layers. Weights keep these axes separate: a query weight
is (heads, head, embed).

Rules of counting, the same for all layers:

* FLOPs are those of matrix products and convolutions, 2mnk each, causal attention not halved, as in torch's
  ``FlopCounterMode`` and in MFU. Everything else costs by the elements it moves.
* `moved_elements` are the activations (and their gradients) read and written; parameters are not in it.
* `saves` is what autograd keeps: inputs of matrix products, norms and activations (the output of a relu), and
  of a fused attention its inputs, its output and one fp32 statistic per head and row; of one in parts the
  softmax's output, too. A dropout keeps a mask of one byte an element. Additions keep nothing.
* A layer whose inputs need no gradient has no `input_grad`, one without trainable weights no `weight_grad`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from explorer.base.errors import InputError
from explorer.graph import Work
from explorer.models._images import ImageLayers
from explorer.models._parts import Value, Weight
from explorer.models._recurrent import GATES, RecurrentLayers
from explorer.models._sequences import SequenceLayers

__all__ = ["GraphBuilder", "Value", "Weight"]


class GraphBuilder(ImageLayers, RecurrentLayers, SequenceLayers):
    """Builder of a graph from layers, in the order of their calls; `build` makes the graph.

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
        """Add a matrix product that contracts the axes `over` of `x` and appends the axes `out`.

        `weight` is the full name of a parameter to share (tied embeddings), empty for one of its own. A
        frozen weight (LoRA) needs no weight gradient, so its input is not kept.

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

    def lstm(self, name: str, x: Value, hidden: int, *, projection: int = 0, biases: int = 2) -> Value:
        """Add an LSTM over the steps of `x` (seq, embed): layers `name`.input and `name`.cell.

        Its 4 `hidden` (input + state) weights are those of `lstm_cell`, which states the formula, and of one
        product of all inputs. `biases` is 2 as in cuDNN and torch, or 1 as in the formula of most papers.
        """
        z = self.linear(f"{name}.input", x, {"gates": GATES, "hidden": hidden}, bias=True)
        return self.lstm_cell(f"{name}.cell", z, projection=projection, bias=biases > 1)

    def concat(self, name: str, *inputs: Value, axis: str) -> Value:
        """Concatenate `inputs` along `axis`; of those larger than the first only the middle is taken.

        Nothing is kept. No split along `axis` survives, because inputs and output have different sizes there,
        and none along what is cropped.
        """
        first = inputs[0]
        sizes = dict(zip(first.dims, first.shape, strict=True))
        y = self.output(name, {**sizes, axis: sum(value.size(axis) for value in inputs)}, inputs)
        plain = {d for d in sizes if d != axis and all(value.size(d) == sizes[d] for value in inputs)}
        moved = Work(moved_elements=2 * y.elements)
        reads = [value.seen_as(*(d if d in plain else "" for d in value.dims)) for value in inputs]
        written = y.seen_as(*(d if d in plain else "" for d in y.dims))
        self.layer(name, "elementwise", reads=reads, writes=[written], forward=moved, input_grad=moved)
        return y

    def norm(self, name: str, x: Value, *, over: Sequence[str] = ("embed",), bias: bool = True) -> Value:
        """Add a layer normalisation (with `bias`) or RMS normalisation over the axes `over`."""
        sizes = {d: x.size(d) for d in over}
        return self.affine(name, x, sizes, names=("weight", "bias") if bias else ("weight",), fixed=over)

    def elementwise(self, name: str, *inputs: Value, saves: str = "none", kind: str = "elementwise") -> Value:
        """Add a pointwise function of `inputs`, shaped like the first.

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
        """Add a sum; its gradient is passed on unchanged, so nothing is kept."""
        return self.elementwise(name, *inputs)

    def activation(self, name: str, x: Value, *, saves: str = "inputs") -> Value:
        """Add a pointwise nonlinearity: gelu and silu keep their input, relu and tanh their ``output``."""
        return self.elementwise(name, x, saves=saves)

    def loss(
        self,
        name: str,
        prediction: Value,
        targets: Value,
        *,
        over: str = "vocab",
        fused: bool = False,
        plain: bool = False,
    ) -> Value:
        """Add a cross entropy over the axis `over`; it keeps log-probabilities in fp32 and writes one scalar.

        `fused` makes it one kernel that writes the gradient over the prediction at once and keeps nothing
        else. `plain` makes it the operators of Megatron-LM's cross_entropy.py, in fp32: of each prediction of
        2 bytes they move 38 forward (a copy in fp32, its largest, less that, powers, their sum, over that: 6,
        4, 8, 8, 4, 8) and 14 backward (times the gradient, narrowed: 8, 6).
        """
        forward, backward = (19, 7) if plain else (3 if fused else 2, 2)
        axes = dict(zip(prediction.dims, prediction.shape, strict=True))
        y = self.output(name, {}, [prediction], dtype="fp32")
        kept = [] if fused else [self.internal(name, "log_softmax", axes, dtype="fp32")]
        n = prediction.elements
        self.layer(
            name, "loss", reads=[prediction, targets], writes=[y, *kept], saves=[*kept, targets],
            fixed=[over], forward=Work(moved_elements=forward * n),
            input_grad=Work(moved_elements=backward * n),
        )  # fmt: skip
        return y
