"""What the kinds of layers compute, on what one device has; collectives inside a layer are executed too."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence

import numpy as np

from explorer.graph import Layer, Use
from explorer.sharding.states import PARTIAL
from tests.sharding import ring
from tests.sharding.dense import Execution, Local, Shards

Gradients = tuple[list[Shards | None], list[Shards]]


def _letters(layer: Layer, use: Use) -> str:
    names = [dim.name for dim in layer.dims]
    return "Z" + "".join(string.ascii_lowercase[names.index(dim)] for dim in use.dims)


def _product(layer: Layer, target: Use, operands: Sequence[tuple[Use, Local]]) -> Local:
    """The sum of products; dimensions of the target that no operand has are repeated by a vector of ones."""
    indices: dict[str, np.ndarray] = {}
    terms, arrays = [], []
    for use, local in operands:
        text = _letters(layer, use)
        for letter, found in zip(text, local.indices, strict=True):
            known = indices.setdefault(letter, found)
            if letter == "Z" and len(known) != len(found):  # parameters have one sample for all
                indices[letter] = known if len(known) > len(found) else found
            else:
                np.testing.assert_array_equal(known, found)
        if local.values.shape[0] == 1 and use in layer.parameters:
            terms.append(text[1:])
            arrays.append(local.values[0])
        else:
            terms.append(text)
            arrays.append(local.values)
    out = _letters(layer, target)
    wanted = out[1:] if target in layer.parameters else out
    values = np.einsum(f"{','.join(terms)}->{wanted}", *arrays)
    if target in layer.parameters:
        return Local(values[None], [np.arange(1), *(indices[letter] for letter in out[1:])])
    return Local(values, [indices[letter] for letter in out])


def _ones(layer: Layer, use: Use, like: Local) -> tuple[Use, Local]:
    return use, Local(np.ones_like(like.values), like.indices)


def _operands(run: Execution, layer: Layer, reads: Sequence[Shards], where: tuple[int, ...]):
    parameters = [u for u in layer.parameters if not u.name.endswith("bias")]
    found = [(use, shards[where]) for use, shards in zip(layer.reads, reads, strict=True)]
    return found + [(use, run.weights[layer.name, use.name][where]) for use in parameters]


def einsum(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    plan, out = run.plan(layer.name), {}
    for where in reads[0]:
        result = _product(layer, layer.writes[0], _operands(run, layer, reads, where))
        for use in layer.parameters:
            first = all(c == 0 for c, s in zip(where, plan.writes[0], strict=True) if s == PARTIAL)
            if use.name.endswith("bias") and first:  # added once, not on every device of a sum
                assert layer.writes[0].dims[-len(use.dims) :] == use.dims
                result.values = result.values + run.weights[layer.name, use.name][where].values
        out[where] = result
    return [out]


def einsum_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    for_reads: list[Shards | None] = [{} for _ in reads]
    for_weights: list[Shards] = [{} for _ in layer.parameters]
    for where, gradient in gradients[0].items():
        operands = _operands(run, layer, reads, where)
        for k, (use, local) in enumerate(operands):
            others = [item for j, item in enumerate(operands) if j != k]
            terms = [(layer.writes[0], gradient), *others, _ones(layer, use, local)]
            found = _product(layer, use, terms)
            if k < len(reads):
                for_reads[k][where] = found
            else:
                for_weights[layer.parameters.index(use)][where] = found
        for k, use in enumerate(layer.parameters):
            if use.name.endswith("bias"):
                for_weights[k][where] = _product(layer, use, [(layer.writes[0], gradient)])
    return for_reads, for_weights


def _nonlinear(layer: Layer) -> bool:
    return bool(layer.saves)


def elementwise(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    """A sum of its reads, through tanh where the layer saves something."""
    out = {}
    for where, first in reads[0].items():
        total = sum(shards[where].values for shards in reads)
        out[where] = Local(np.tanh(total) if _nonlinear(layer) else total, first.indices)
    return [out]


def elementwise_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    out = {}
    for where, local in gradients[0].items():
        total = sum(shards[where].values for shards in reads)
        out[where] = Local(
            local.values * (1 - np.tanh(total) ** 2 if _nonlinear(layer) else 1), local.indices
        )
    return [out] * len(reads), []


def _inner_sum(run: Execution, shards: Shards, layer: Layer) -> Shards:
    """All-reduce inside a layer, over the mesh axes that its plan names."""
    for a in sorted({exchange.axis for exchange in run.plan(layer.name).forward}):
        shards = {where: run.mesh.summed(shards, where, a) for where in shards}
    return shards


def norm(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    """RMS normalisation over the last axis, with a scale."""
    weight = run.weights[layer.name, layer.parameters[0].name]
    squares = _inner_sum(
        run, {w: Local((x.values**2).sum(-1, keepdims=True), x.indices) for w, x in reads[0].items()}, layer
    )
    size = run.mesh.sizes[layer.reads[0].name][-1]
    return [
        {
            w: Local(x.values / np.sqrt(squares[w].values / size) * weight[w].values, x.indices)
            for w, x in reads[0].items()
        }
    ]


def norm_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    weight = run.weights[layer.name, layer.parameters[0].name]
    size = run.mesh.sizes[layer.reads[0].name][-1]
    xs, gs = reads[0], gradients[0]
    squares = _inner_sum(
        run, {w: Local((x.values**2).sum(-1, keepdims=True), x.indices) for w, x in xs.items()}, layer
    )
    inner = {
        w: Local((gs[w].values * weight[w].values * x.values).sum(-1, keepdims=True), x.indices)
        for w, x in xs.items()
    }
    inner, back, scale = _inner_sum(run, inner, layer), {}, {}
    for w, x in xs.items():
        rms = np.sqrt(squares[w].values / size)
        back[w] = Local(
            (gs[w].values * weight[w].values - x.values * inner[w].values / (size * rms**2)) / rms, x.indices
        )
        values = (gs[w].values * x.values / rms).sum(tuple(range(x.values.ndim - 1)))
        scale[w] = Local(values[None], weight[w].indices)
    return [back], [scale]


def embedding(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    table, out = run.weights[layer.name, layer.parameters[0].name], {}
    for where, tokens in reads[0].items():
        rows, columns = table[where].indices[1:]
        hot = (tokens.values[..., None] == rows).astype(float)
        out[where] = Local(hot @ table[where].values[0], [*tokens.indices, columns])
    return [out]


def embedding_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    table, out = run.weights[layer.name, layer.parameters[0].name], {}
    for where, tokens in reads[0].items():
        hot = (tokens.values[..., None] == table[where].indices[1]).astype(float)
        values = np.einsum("zsv,zse->ve", hot, gradients[0][where].values)
        out[where] = Local(values[None], table[where].indices)
    return [None], [out]


def _scores(run: Execution, layer: Layer, q: Local, k: Local) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and for every query head here the place of its key-value head here."""
    ratio = run.mesh.sizes[layer.reads[0].name][2] // run.mesh.sizes[layer.reads[1].name][2]
    wanted = q.indices[2] // ratio
    place = np.searchsorted(k.indices[2], wanted)
    np.testing.assert_array_equal(k.indices[2][place], wanted)
    logits = np.einsum("zshd,zthd->zhst", q.values, k.values[:, :, place])
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True), place


def attention(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    if (around := ring.ring_axis(run, layer)) is not None:
        return [ring.forward(run, layer, list(reads), around)[0]]
    out = {}
    for where, q in reads[0].items():
        k, v = reads[1][where], reads[2][where]
        chance, place = _scores(run, layer, q, k)
        out[where] = Local(np.einsum("zhst,zthd->zshd", chance, v.values[:, :, place]), q.indices)
    return [out]


def attention_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    if (around := ring.ring_axis(run, layer)) is not None:
        return [*ring.backward(run, layer, list(reads), gradients[0], around)], []
    back: list[Shards | None] = [{}, {}, {}]
    for where, q in reads[0].items():
        k, v, g = reads[1][where], reads[2][where], gradients[0][where].values
        chance, place = _scores(run, layer, q, k)
        d_chance = np.einsum("zshd,zthd->zhst", g, v.values[:, :, place])
        d_logits = chance * (d_chance - (chance * d_chance).sum(-1, keepdims=True))
        d_q = np.einsum("zhst,zthd->zshd", d_logits, k.values[:, :, place])
        d_k, d_v = np.zeros_like(k.values), np.zeros_like(v.values)
        np.add.at(d_k, (slice(None), slice(None), place), np.einsum("zhst,zshd->zthd", d_logits, q.values))
        np.add.at(d_v, (slice(None), slice(None), place), np.einsum("zhst,zshd->zthd", chance, g))
        for found, local, values in zip(back, (q, k, v), (d_q, d_k, d_v), strict=True):
            found[where] = Local(values, local.indices)
    return back, []


def _loss_parts(run: Execution, layer: Layer, reads: Sequence[Shards]) -> tuple[Shards, Shards]:
    """(sum of exponentials, logit of the target) of every token, all-reduced; logits are small here."""
    totals, target = {}, {}
    for where, logits in reads[0].items():
        hot = reads[1][where].values[..., None] == logits.indices[-1]
        totals[where] = Local(np.exp(logits.values).sum(-1), logits.indices)
        target[where] = Local((logits.values * hot).sum(-1), logits.indices)
    return _inner_sum(run, totals, layer), _inner_sum(run, target, layer)


def loss(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    totals, target = _loss_parts(run, layer, reads)
    return [
        {
            w: Local((np.log(totals[w].values) - target[w].values).sum(-1), [reads[0][w].indices[0]])
            for w in totals
        }
    ]


def loss_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    totals, _ = _loss_parts(run, layer, reads)
    back: Shards = {}
    for where, logits in reads[0].items():
        hot = reads[1][where].values[..., None] == logits.indices[-1]
        chance = np.exp(logits.values) / totals[where].values[..., None]
        back[where] = Local((chance - hot) * gradients[0][where].values[:, None, None], logits.indices)
    return [back, None], []


FORWARD: dict[str, Callable[..., list[Shards]]] = {
    "linear": einsum, "einsum": einsum, "elementwise": elementwise, "norm": norm, "embedding": embedding,
    "attention": attention, "loss": loss,
}  # fmt: skip
BACKWARD: dict[str, Callable[..., Gradients]] = {
    "linear": einsum_back, "einsum": einsum_back, "elementwise": elementwise_back, "norm": norm_back,
    "embedding": embedding_back, "attention": attention_back, "loss": loss_back,
}  # fmt: skip
