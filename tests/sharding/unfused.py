"""What the parts of an unfused attention compute, on what one device has; see `tests.sharding.layers`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.graph import Layer
from tests.sharding.dense import Execution, Local, Shards
from tests.sharding.layers import BACKWARD, FORWARD, Gradients, _inner_sum


def _part(x: Local, which: int) -> np.ndarray:
    """(samples, tokens, heads, head) of queries (0), keys (1) or values (2), fused in one tensor or not."""
    return x.values[:, :, which] if x.values.ndim == 5 else x.values


def _spread(x: Local, which: int, values: np.ndarray) -> Local:
    """The gradient of a part as one of the tensor it is in."""
    if x.values.ndim < 5:
        return Local(values, x.indices)
    whole = np.zeros_like(x.values)
    whole[:, :, which] = values
    return Local(whole, x.indices)


def _served(run: Execution, layer: Layer, heads: np.ndarray, k: Local) -> np.ndarray:
    """For every query head here the place of its key-value head here."""
    names = [use.name for use in layer.reads]
    all_heads = run.mesh.sizes[names[0]][1 if layer.kind == "context" else -2]
    wanted = heads // (all_heads // run.mesh.sizes[names[1]][-2])
    place = np.searchsorted(k.indices[-2], wanted)
    np.testing.assert_array_equal(k.indices[-2][place], wanted)
    return place


def scores(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    out = {}
    for where, q in reads[0].items():
        k = reads[1][where]
        place = _served(run, layer, q.indices[-2], k)
        values = np.einsum("zshd,zthd->zhst", _part(q, 0), _part(k, 1)[:, :, place])
        out[where] = Local(values, [q.indices[0], q.indices[-2], q.indices[1], k.indices[1]])
    return [out]


def scores_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    back: list[Shards | None] = [{}, {}]
    for where, q in reads[0].items():
        k, g = reads[1][where], gradients[0][where].values
        place = _served(run, layer, q.indices[-2], k)
        of_k = np.zeros_like(_part(k, 1))
        np.add.at(of_k, (slice(None), slice(None), place), np.einsum("zhst,zshd->zthd", g, _part(q, 0)))
        of_q = np.einsum("zhst,zthd->zshd", g, _part(k, 1)[:, :, place])
        back[0][where], back[1][where] = _spread(q, 0, of_q), _spread(k, 1, of_k)
    return back, []


def _chances(run: Execution, layer: Layer, x: Shards) -> Shards:
    powers = {where: Local(np.exp(local.values), local.indices) for where, local in x.items()}
    sums = {w: Local(p.values.sum(-1, keepdims=True), p.indices) for w, p in powers.items()}
    sums = _inner_sum(run, sums, layer)
    return {where: Local(p.values / sums[where].values, p.indices) for where, p in powers.items()}


def softmax(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    return [_chances(run, layer, reads[0])]


def softmax_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    chance = _chances(run, layer, reads[0])
    inner = {
        where: Local((p.values * gradients[0][where].values).sum(-1, keepdims=True), p.indices)
        for where, p in chance.items()
    }
    inner = _inner_sum(run, inner, layer)
    return [
        {
            where: Local(p.values * (gradients[0][where].values - inner[where].values), p.indices)
            for where, p in chance.items()
        }
    ], []


def context(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    out = {}
    for where, chance in reads[0].items():
        v = reads[1][where]
        place = _served(run, layer, chance.indices[1], v)
        values = np.einsum("zhst,zthd->zshd", chance.values, _part(v, 2)[:, :, place])
        out[where] = Local(values, [chance.indices[0], chance.indices[2], chance.indices[1], v.indices[-1]])
    return [out]


def context_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    back: list[Shards | None] = [{}, {}]
    for where, chance in reads[0].items():
        v, g = reads[1][where], gradients[0][where].values
        place = _served(run, layer, chance.indices[1], v)
        of_v = np.zeros_like(_part(v, 2))
        np.add.at(of_v, (slice(None), slice(None), place), np.einsum("zhst,zshd->zthd", chance.values, g))
        of_chance = np.einsum("zshd,zthd->zhst", g, _part(v, 2)[:, :, place])
        back[0][where] = Local(of_chance, chance.indices)
        back[1][where] = _spread(v, 2, of_v)
    return back, []


def _mask(x: Local) -> np.ndarray:
    """A fixed pattern of kept and dropped elements, by their places in the whole tensor."""
    places = np.ix_(*x.indices)
    return (sum((i + 2) * place for i, place in enumerate(places)) % 3 > 0).astype(float)


def dropout(run: Execution, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
    """The first read dropped out, plus the others."""
    return [
        {
            where: Local(x.values * _mask(x) + sum(other[where].values for other in reads[1:]), x.indices)
            for where, x in reads[0].items()
        }
    ]


def dropout_back(
    run: Execution, layer: Layer, reads: Sequence[Shards], gradients: Sequence[Shards]
) -> Gradients:
    own = {where: Local(g.values * _mask(g), g.indices) for where, g in gradients[0].items()}
    return [own, *gradients[:1] * (len(reads) - 1)], []


FORWARD.update({"scores": scores, "softmax": softmax, "context": context, "dropout": dropout})
BACKWARD.update(
    {"scores": scores_back, "softmax": softmax_back, "context": context_back, "dropout": dropout_back}
)
