"""Layers of sequence models: embedding, rotation, attention, router and experts."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.graph import Work
from explorer.models._parts import GraphParts, Value


class SequenceLayers(GraphParts):
    """Methods of `GraphBuilder` for sequences."""

    def embedding(
        self, name: str, indices: Value, rows: Mapping[str, float], out: Mapping[str, float]
    ) -> Value:
        """A table lookup: as an einsum it contracts a one-hot `indices` with the (rows, out) table.

        `rows` is the one axis looked up, e.g. ``{"vocab": 50257}``.
        """
        table = self.parameter(f"{self.full(name)}.weight", {**rows, **out})
        kept = dict(zip(indices.dims, indices.shape, strict=True))
        y = self.output(name, {**kept, **out}, [indices], [table])
        work = Work(moved_elements=2 * y.elements)
        self.layer(
            name, "embedding", reads=[indices], writes=[y], weights=[table], saves=[indices],
            forward=work, weight_grad=work,
        )  # fmt: skip
        return y

    def add_table(self, name: str, x: Value, rows: float, *, indices: Value | None = None) -> Value:
        """`x` plus rows of a learned table: by position, or by `indices` (token types)."""
        table = self.parameter(f"{self.full(name)}.weight", {"": rows, "embed": x.size("embed")})
        reads = [x] if indices is None else [x, indices]
        y = self.output(name, dict(zip(x.dims, x.shape, strict=True)), reads, [table])
        self.layer(
            name, "embedding", reads=reads, writes=[y], weights=[table], saves=reads[1:],
            forward=Work(moved_elements=2 * y.elements), weight_grad=Work(moved_elements=y.elements),
        )  # fmt: skip
        return y

    def rope(self, name: str, q: Value, k: Value) -> tuple[Value, Value]:
        """Rotary position embedding of queries and keys. Its gradient rotates back: nothing is kept."""
        rotated = []
        for part, x in (("q", q), ("k", k)):
            sizes = dict(zip(x.dims, x.shape, strict=True))
            rotated.append(self.output(f"{name}.{part}", sizes, [x]))
        moved = Work(moved_elements=2 * (q.elements + k.elements))
        self.layer(
            name,
            "elementwise",
            reads=[q, k],
            writes=rotated,
            fixed=("head",),
            forward=moved,
            input_grad=moved,
        )
        return rotated[0], rotated[1]

    def attention(self, name: str, *inputs: Value, heads: int, head: int) -> Value:
        """Fused scaled dot-product attention of (q, k, v), or of one fused (seq, qkv, heads, head).

        4 seq_q seq_k heads head FLOPs forward, twice that backward, all of it input gradient (the products
        with the recomputed scores are a fifth product that FLOP counts leave out, and so do we).
        """
        q, k = inputs[0], inputs[min(1, len(inputs) - 1)]
        sizes = {"seq": q.shape[0], "heads": heads, "head": head}
        y = self.output(name, sizes, inputs)
        statistics = self.internal(name, "statistics", {"heads": heads, "seq": q.shape[0]}, dtype="fp32")
        flops = 4 * y.elements * k.shape[0]
        moved = sum(value.elements for value in inputs) + y.elements
        self.layer(
            name, "attention", reads=inputs, writes=[y, statistics], saves=[*inputs, y, statistics],
            fixed=("seq", "kv_seq", "head", "qkv"), forward=Work(flops=flops, moved_elements=moved),
            input_grad=Work(flops=2 * flops, moved_elements=2 * moved),
        )  # fmt: skip
        return y

    def router(self, name: str, x: Value, experts: int) -> Value:
        """Scores of every expert for every token, normalised: keeps its input and the scores."""
        weight = self.parameter(f"{self.full(name)}.weight", {"experts": experts, "embed": x.size("embed")})
        y = self.output(name, {"seq": x.size("seq"), "experts": experts}, [x], [weight])
        work = Work(flops=2 * y.elements * x.size("embed"), moved_elements=x.elements + y.elements)
        self.layer(
            name, "router", reads=[x], writes=[y], weights=[weight], saves=[x, y], fixed=("experts",),
            forward=work, input_grad=work, weight_grad=work,
        )  # fmt: skip
        return y

    def experts(self, name: str, x: Value, scores: Value, *, ffn: int, active: int) -> Value:
        """Gated feed-forward experts, `active` of them per token, weighted by `scores`.

        Only active experts cost FLOPs: 6 seq active embed ffn. What is kept has one row per token and chosen
        expert; that axis of size `active` is mapped onto ``experts``, so that a device with one part in n
        of the experts is charged one part in n of the rows: balanced routing is assumed.
        """
        seq, embed, experts = x.size("seq"), x.size("embed"), scores.size("experts")
        wide, narrow = {"experts": experts, "ffn": ffn}, {"embed": embed}
        own = self.full(name)
        weights = [
            self.parameter(f"{own}.gate", {**wide, **narrow}),
            self.parameter(f"{own}.up", {**wide, **narrow}),
            self.parameter(f"{own}.down", {"experts": experts, **narrow, "ffn": ffn}),
        ]
        rows = {"seq": seq, "experts": active}
        kept = [self.internal(name, part, {**rows, "ffn": ffn}) for part in ("gate", "up", "product")]
        kept += [self.internal(name, part, {**rows, "embed": embed}) for part in ("dispatched", "outputs")]
        y = self.output(name, {"seq": seq, "embed": embed}, [x, scores], weights)
        moved = x.elements + y.elements + 2 * sum(value.elements for value in kept)
        work = Work(flops=6 * seq * active * embed * ffn, moved_elements=moved)
        self.layer(
            name, "experts", reads=[x, scores], writes=[y, *kept], weights=weights, saves=[*kept, scores],
            sizes={"experts": experts}, forward=work, input_grad=work, weight_grad=work,
        )  # fmt: skip
        return y
