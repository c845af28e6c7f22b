"""Attention as one fused kernel or as its parts, and dropout.

Unfused, the scores are matrices in memory: query-key product, softmax (scale and mask fused into it),
dropout, product with the values. Together the products have the FLOPs of the fused kernel; what differs is
what is moved and what is kept: 5 as/h of the 34 + 5 as/h times sbh bytes of a block that Korthikanti et al.
count (Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198, equation 1).
"""

from __future__ import annotations

from explorer.graph import COMPUTE, Work
from explorer.matrix_products import mean_document
from explorer.models._parts import GraphParts, Value

_MASK = 0.5
"""Size of one entry of a dropout mask in elements: a byte next to scalars of two."""


def _part(x: Value) -> float:
    """Return the elements of queries, keys or values; a third of the tensor if they are fused."""
    return x.elements / (x.size("qkv") if "qkv" in x.dims else 1)


def _without_parts(x: Value) -> Value:
    return x.seen_as(*("" if dim == "qkv" else dim for dim in x.dims))


class AttentionLayers(GraphParts):
    """Methods of `GraphBuilder` for attention."""

    def attention(
        self,
        name: str,
        *inputs: Value,
        heads: int,
        head: int,
        causal: bool = False,
        documents: tuple[int, ...] = (),
    ) -> Value:
        """Add fused scaled dot-product attention of (q, k, v), or of one fused (seq, qkv, heads, head).

        Args:
            name: name of the layer.
            inputs: queries, keys and values, or all in one tensor.
            heads: query heads.
            head: size of a head of the values, and so of the output.
            causal: whether the kernel skips what the mask hides; FLOPs are counted in full anyway.
            documents: lengths of those packed into a sample, again and again; only pairs of tokens of one
                document are computed and counted.

        Returns:
            (seq, heads, the values' own name of the head axis).

        2 seq_q seq_k heads (head_k + head_v) FLOPs forward, twice that backward, all of it input gradient.
        The backward recomputes the scores, a fifth product that FLOP counts leave out, and so do we.
        """
        q, k = inputs[0], inputs[min(1, len(inputs) - 1)]
        wide = q.dims[-1]
        narrow = inputs[-1].dims[-1]
        sizes = {"seq": q.shape[0], "heads": heads, narrow: head}
        y = self.output(name, sizes, inputs)
        statistics = self.internal(name, "statistics", {"heads": heads, "seq": q.shape[0]}, dtype="fp32")
        keys = mean_document(documents) if documents else k.shape[0]
        flops = 2 * q.shape[0] * keys * heads * (q.size(wide) + head)
        moved = sum(value.elements for value in inputs) + y.elements
        self.layer(
            name, "attention", reads=inputs, writes=[y, statistics], saves=[*inputs, y, statistics],
            fixed=("seq", "kv_seq", wide, narrow, "qkv"), forward=Work(flops=flops, moved_elements=moved),
            input_grad=Work(flops=2 * flops, moved_elements=2 * moved), causal=causal, documents=documents,
        )  # fmt: skip
        return y

    def attention_parts(
        self,
        name: str,
        *inputs: Value,
        heads: int,
        head: int,
        dropout: bool = False,
        plain_softmax: bool = False,
        bias: Value | None = None,
    ) -> Value:
        """Add attention with its scores in memory; arguments and result are those of `attention`.

        Its layers are `name`.scores, .softmax (each step a kernel of its own if `plain_softmax`), .dropout
        (if asked for) and .context. Each of the two products has 2 seq_q seq_k heads head FLOPs forward and
        twice that backward. A `bias` (heads, seq, kv_seq) is added to the scores by a separate kernel.
        """
        chance = self._scores(f"{name}.scores", *inputs, heads=heads)
        if bias is not None:
            chance = self._add_bias(f"{name}.bias", chance, bias)
        chance = (self._plain_softmax if plain_softmax else self._softmax)(f"{name}.softmax", chance)
        if dropout:
            chance = self.dropout(f"{name}.dropout", chance)
        return self._context(f"{name}.context", chance, inputs[-1], head=head)

    def _scores(self, name: str, *inputs: Value, heads: int) -> Value:
        """Multiply queries and keys into scores (heads, seq, kv_seq)."""
        q, k = inputs[0], inputs[min(1, len(inputs) - 1)]
        used = _part(q) + _part(k)
        q, k = _without_parts(q), _without_parts(k)
        # One fused tensor is read twice, by its queries and by its keys, whose axes are different dimensions.
        reads = [q, k.seen_as("kv_seq", *k.dims[1:])]
        y = self.output(name, {"heads": heads, "seq": q.shape[0], "kv_seq": k.shape[0]}, inputs[:2])
        flops = 2 * y.elements * q.size(q.dims[-1])
        self.layer(
            name, "scores", reads=reads, writes=[y], saves=inputs[:2],
            forward=Work(flops=flops, moved_elements=used + y.elements),
            input_grad=Work(flops=2 * flops, moved_elements=2 * used + y.elements),
        )  # fmt: skip
        return y

    def _add_bias(self, name: str, x: Value, bias: Value) -> Value:
        """Add a bias to the scores; nothing is kept, and its gradient is added to that of the bias."""
        y = self.output(name, dict(zip(x.dims, x.shape, strict=True)), [x, bias])
        moved = Work(moved_elements=3 * x.elements)
        self.layer(name, "elementwise", reads=[x, bias], writes=[y], forward=moved, input_grad=moved)
        return y

    def _softmax(self, name: str, x: Value) -> Value:
        """Add scale, mask and softmax over the keys as one kernel; it keeps its output."""
        y = self.output(name, dict(zip(x.dims, x.shape, strict=True)), [x])
        self.layer(
            name, "softmax", reads=[x], writes=[y], saves=[y], fixed=(x.dims[-1],),
            forward=Work(moved_elements=2 * x.elements), input_grad=Work(moved_elements=3 * x.elements),
        )  # fmt: skip
        return y

    def _plain_softmax(self, name: str, x: Value) -> Value:
        """Add the softmax without a fused kernel: to fp32, scaled, masked, softmax, narrowed again."""
        axes, n = dict(zip(x.dims, x.shape, strict=True)), x.elements
        for part, moved in (("widen", 3), ("scale", 4), ("mask", 4 + _MASK), ("softmax", 4), ("narrow", 3)):
            own = f"{name}.{part}"
            y = self.output(own, axes, [x], dtype=COMPUTE if part == "narrow" else "fp32")
            self.layer(
                own, "softmax", reads=[x], writes=[y], saves=[y] if part == "softmax" else [],
                fixed=(x.dims[-1],), forward=Work(moved_elements=moved * n),
                input_grad=Work(moved_elements=(moved + 2 * (part == "softmax")) * n),
            )  # fmt: skip
            x = y
        return x

    def _context(self, name: str, chance: Value, v: Value, *, head: int) -> Value:
        """Weight the values by the softmax: (seq, heads, head)."""
        values = _without_parts(v)
        values = values.seen_as("kv_seq", *values.dims[1:])
        used = _part(v)
        heads, seq, keys = chance.shape
        y = self.output(name, {"seq": seq, "heads": heads, v.dims[-1]: head}, [chance, v])
        flops = 2 * y.elements * keys
        self.layer(
            name, "context", reads=[chance, values], writes=[y], saves=[chance, v],
            forward=Work(flops=flops, moved_elements=chance.elements + used + y.elements),
            input_grad=Work(flops=2 * flops, moved_elements=2 * (chance.elements + used) + y.elements),
        )  # fmt: skip
        return y

    def dropout(self, name: str, x: Value, *residual: Value) -> Value:
        """Add dropout of `x`, then add `residual` in the same kernel (Megatron's bias-dropout-add).

        Its mask is kept, one byte an element. The gradient of the residual is passed on unchanged; as for any
        addition, adding it up if the residual has other readers is counted here.
        """
        axes = dict(zip(x.dims, x.shape, strict=True))
        y = self.output(name, axes, [x, *residual])
        mask = self.internal(name, "mask", axes, dtype="int8")
        n, added = x.elements, sum(value.elements for value in residual)
        self.layer(
            name, "dropout", reads=[x, *residual], writes=[y, mask], saves=[mask],
            forward=Work(moved_elements=(2 + _MASK) * n + added),
            input_grad=Work(moved_elements=(2 + _MASK) * n + 3 * added),
        )  # fmt: skip
        return y
