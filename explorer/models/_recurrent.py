"""Layers of recurrent models: the cell of an LSTM, and additive attention over its states.

An LSTM is two layers, as cuDNN runs it (Appleyard et al. 2016, Optimizing Performance of Recurrent Neural
Networks on GPUs, arXiv:1604.01946, section 3.1). What a step takes from its *input* depends on no other step:
one matrix product over all steps, a `linear`. What it takes from the *previous* step is the cell, of kind
`recurrent`, which runs `trips` = steps times and whose work is that of one step.

Dimensions: ``gates`` (input, forget, cell, output), ``hidden`` (units), ``state`` (what is fed back: the
units, or their projection); of the attention ``units`` (its width) and ``kv_seq`` (steps that are attended
to).
"""

from __future__ import annotations

from explorer.graph import Work
from explorer.models._attention import AttentionLayers
from explorer.models._parts import Value, Weight

GATES = 4


class RecurrentLayers(AttentionLayers):
    """Methods of `GraphBuilder` for recurrent models."""

    def lstm_cell(self, name: str, z: Value, *, projection: int = 0, bias: bool = True) -> Value:
        """Add the steps of an LSTM: everything that depends on the previous step.

            i, f, g, o = z_t + R s_(t-1) + c;    m_t = sigma(f) m_(t-1) + sigma(i) tanh(g)
            h_t = sigma(o) tanh(m_t);    s_t = h_t, or P h_t with a projection

        (Sak et al. 2014, arXiv:1402.1128, section 2.) Keeps gates after their nonlinearities, m, and s;
        with a projection h as well.

        Args:
            name: name of the layer.
            z: what every step takes from its input: (seq, gates, hidden).
            projection: width of s; 0 if none.
            bias: whether c is learned.

        Returns:
            All s: (seq, embed).
        """
        steps, hidden = z.size("seq"), z.size("hidden")
        state = projection or hidden
        weights = self._cell_weights(name, hidden, projection, bias=bias)
        y = self.output(name, {"seq": steps, "state" if projection else "hidden": state}, [z], weights)
        kept = [
            self.internal(name, "gates", {"seq": steps, "gates": GATES, "hidden": hidden}),
            self.internal(name, "memories", {"seq": steps, "hidden": hidden}),
        ]
        kept += [self.internal(name, "unprojected", {"seq": steps, "hidden": hidden})] if projection else []
        # A step reads its part of z, what was fed back and the memories, and writes all that it keeps.
        moved = (z.elements + sum(item.elements for item in kept) + y.elements) / steps + state + hidden
        step = Work(flops=2 * state * hidden * (GATES + bool(projection)), moved_elements=moved)
        self.layer(
            name, "recurrent", reads=[z], writes=[y, *kept], weights=weights, saves=[*kept, y],
            for_weights=[*kept[2:], y],  # what gates and projection multiply
            fixed=("seq", "gates", "hidden", "state"), forward=step, input_grad=step, weight_grad=step,
            trips=int(steps),
        )  # fmt: skip
        return y.seen_as("seq", "embed")

    def _cell_weights(self, name: str, hidden: float, projection: int, *, bias: bool) -> list[Weight]:
        own, units = self.full(name), {"gates": GATES, "hidden": hidden}
        found = [self.parameter(f"{own}.weight", {**units, "state": projection or hidden})]
        if bias:
            found.append(self.parameter(f"{own}.bias", units))
        if projection:
            found.append(self.parameter(f"{own}.projection", {"state": projection, "hidden": hidden}))
        return found

    def additive_attention(self, name: str, q: Value, k: Value, values: Value) -> Value:
        """Add additive attention (Bahdanau et al. 2014, arXiv:1409.0473, A.1.2), without its projections.

            scores = v . tanh(q_i + k_j);    y_i = sum over j of softmax_j(scores) values_j

        This is what frameworks without a kernel for it do: the sums of all pairs are in memory, and kept. Its
        layers are `name`.scores, .softmax and .context.

        Args:
            name: name of the layers.
            q: (seq, units).
            k: (kv_seq, units).
            values: (kv_seq, embed).

        Returns:
            (seq, embed).
        """
        chance = self._softmax(f"{name}.softmax", self._additive_scores(f"{name}.scores", q, k))
        sizes = {"seq": q.size("seq"), "embed": values.size("embed")}
        y = self.output(f"{name}.context", sizes, [chance, values])
        flops, moved = 2 * chance.elements * values.size("embed"), chance.elements + values.elements
        self.layer(
            f"{name}.context", "context", reads=[chance, values], writes=[y], saves=[chance, values],
            forward=Work(flops=flops, moved_elements=moved + y.elements),
            input_grad=Work(flops=2 * flops, moved_elements=2 * moved + y.elements),
        )  # fmt: skip
        return y

    def _additive_scores(self, name: str, q: Value, k: Value) -> Value:
        """Sum over units; the sum of q and k, and its tanh, are written and read again."""
        weight = self.parameter(f"{self.full(name)}.weight", {"units": q.size("units")})
        pairs = {"seq": q.size("seq"), "kv_seq": k.size("kv_seq")}
        y = self.output(name, pairs, [q, k], [weight])
        tanh = self.internal(name, "tanh", {**pairs, "units": q.size("units")})
        flops, border = 2 * tanh.elements, q.elements + k.elements + y.elements
        pointwise = Work(flops=flops, moved_elements=border + 4 * tanh.elements)
        self.layer(
            name, "scores", reads=[q, k], writes=[y, tanh], weights=[weight], saves=[tanh],
            forward=pointwise, input_grad=pointwise,
            weight_grad=Work(flops=flops, moved_elements=tanh.elements + y.elements),
        )  # fmt: skip
        return y
