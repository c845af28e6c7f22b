"""Layers of sequence models: embedding, rotation, router and experts; attention is in `_attention`."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.graph import Work
from explorer.models._attention import AttentionLayers
from explorer.models._parts import Value
from explorer.routing import Routing

USUAL_ROUTING = Routing()
"""All-to-all, one kernel for all experts, each with as many rows as come."""


class SequenceLayers(AttentionLayers):
    """Methods of `GraphBuilder` for sequences."""

    def embedding(
        self,
        name: str,
        indices: Value,
        rows: Mapping[str, float],
        out: Mapping[str, float],
        *,
        weight: str = "",
        density: float = 1.0,
    ) -> Value:
        """Add a table lookup: as an einsum it contracts a one-hot `indices` with the (rows, out) table.

        `rows` is the one axis looked up, e.g. ``{"vocab": 50257}``; `weight` is the full name of a table to
        share (empty for one of its own); `density` is the share of its rows used in a step, if its gradient
        has only those.
        """
        table = self.parameter(weight or f"{self.full(name)}.weight", {**rows, **out}, density=density)
        kept = dict(zip(indices.dims, indices.shape, strict=True))
        y = self.output(name, {**kept, **out}, [indices], [table])
        work = Work(moved_elements=2 * y.elements)
        self.layer(
            name, "embedding", reads=[indices], writes=[y], weights=[table], saves=[indices],
            forward=work, weight_grad=work,
        )  # fmt: skip
        return y

    def add_table(self, name: str, x: Value, rows: float, *, indices: Value | None = None) -> Value:
        """Add rows of a learned table to `x`: by position, or by `indices` (token types)."""
        table = self.parameter(f"{self.full(name)}.weight", {"": rows, "embed": x.size("embed")})
        reads = [x] if indices is None else [x, indices]
        y = self.output(name, dict(zip(x.dims, x.shape, strict=True)), reads, [table])
        self.layer(
            name, "embedding", reads=reads, writes=[y], weights=[table], saves=reads[1:],
            forward=Work(moved_elements=2 * y.elements), weight_grad=Work(moved_elements=y.elements),
        )  # fmt: skip
        return y

    def first_token(self, name: str, x: Value) -> Value:
        """Take the first token of (seq, embed), which a classifier reads; its gradient needs only sizes."""
        y = self.output(name, {d: s for d, s in zip(x.dims, x.shape, strict=True) if d != "seq"}, [x])
        moved = Work(moved_elements=2 * y.elements)
        # Only the first part of a split sequence has this row, which no einsum says.
        self.layer(
            name, "elementwise", reads=[x], writes=[y], fixed=("seq",), forward=moved, input_grad=moved
        )
        return y

    def rope(self, name: str, q: Value, k: Value) -> tuple[Value, Value]:
        """Add rotary positions of queries and keys; the gradient rotates back, so nothing is kept."""
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

    def router(self, name: str, x: Value, experts: int, *, bias: bool = False) -> Value:
        """Add a router: normalised scores of every expert for every token; it keeps its input and the scores.

        The `bias` balances the experts' load and gets no gradient (DeepSeek-V3, section 2.1.2).
        """
        own = self.full(name)
        weights = [self.parameter(f"{own}.weight", {"experts": experts, "embed": x.size("embed")})]
        if bias:
            weights.append(self.parameter(f"{own}.bias", {"experts": experts}, trainable=False))
        y = self.output(name, {"seq": x.size("seq"), "experts": experts}, [x], weights)
        work = Work(flops=2 * y.elements * x.size("embed"), moved_elements=x.elements + y.elements)
        self.layer(
            name, "router", reads=[x], writes=[y], weights=weights, saves=[x, y], fixed=("experts",),
            forward=work, input_grad=work, weight_grad=work,
        )  # fmt: skip
        return y

    def experts(
        self, name: str, x: Value, scores: Value, *, ffn: int, active: int, routing: Routing = USUAL_ROUTING
    ) -> Value:
        """Add gated feed-forward experts, `active` of them per token, weighted by `scores`.

        Only active experts cost FLOPs: 6 seq active embed ffn. What is kept has one row per token and chosen
        expert; that axis of size `active` is mapped onto ``experts``, so a device with one part in n of the
        experts is charged one part in n of the rows, times the load that `routing` makes of it. The work's
        elements are those of the products; `explorer.costs.expert_rows` adds what moves rows.
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
        factors = [kept[2], kept[3]]  # the products' inputs; the rest is read by the input gradient
        y = self.output(name, {"seq": seq, "embed": embed}, [x, scores], weights)
        moved = seq * active * (2 * embed + 3 * ffn)
        work = Work(flops=6 * seq * active * embed * ffn, moved_elements=moved)
        self.layer(
            name, "experts", reads=[x, scores], writes=[y, *kept], weights=weights, saves=[*kept, scores],
            for_weights=factors, sizes={"experts": experts}, forward=work, input_grad=work, weight_grad=work,
            routing=routing,
        )  # fmt: skip
        return y
