"""Ring attention, executed: blocks of keys and values go from device to device, and their gradients home."""

from __future__ import annotations

from collections import Counter

import numpy as np

from explorer.graph import Layer
from tests.sharding.dense import Coordinates, Execution, Local, Shards

PASSED: Counter[tuple[str, str]] = Counter()
"""(layer, way) -> scalars that the first device sent."""


def ring_axis(run: Execution, layer: Layer) -> int | None:
    """Mesh axis that blocks go around, if any."""
    return next((e.axis for e in run.plan(layer.name).forward if e.op == "ring"), None)


def _next(where: Coordinates, a: int, n: int) -> Coordinates:
    return (*where[:a], (where[a] + 1) % n, *where[a + 1 :])


def passed_on(run: Execution, layer: Layer, way: str, a: int, held: dict[Coordinates, tuple[Local, ...]]):
    """Every device's blocks, one device further."""
    n = run.axes[a].size
    first = next(iter(held))
    PASSED[layer.name, way] += sum(block.values.size for block in held[first])
    return {_next(where, a, n): blocks for where, blocks in held.items()}


def _place(run: Execution, layer: Layer, q: Local, k: Local) -> np.ndarray:
    """For every query head here the place of its key-value head here."""
    ratio = run.mesh.sizes[layer.reads[0].name][2] // run.mesh.sizes[layer.reads[1].name][2]
    return np.searchsorted(k.indices[2], q.indices[2] // ratio)


def forward(run: Execution, layer: Layer, reads: list[Shards], a: int) -> tuple[Shards, Shards, Shards]:
    """Output, and per row the sum of exponentials and the output unnormalised: a softmax made block by block.

    The logits of these tests are small, so that no running maximum is needed.
    """
    n = run.axes[a].size
    held = {where: (reads[1][where], reads[2][where]) for where in reads[0]}
    total = dict.fromkeys(held, 0.0)
    value = dict.fromkeys(held, 0.0)
    for step in range(n):
        if step:
            held = passed_on(run, layer, "forward", a, held)
        for where, (k, v) in held.items():
            q = reads[0][where]
            place = _place(run, layer, q, k)
            powers = np.exp(np.einsum("zshd,zthd->zhst", q.values, k.values[:, :, place]))
            total[where] = total[where] + powers.sum(-1)
            value[where] = value[where] + np.einsum("zhst,zthd->zshd", powers, v.values[:, :, place])
    out = {
        where: Local(value[where] / np.moveaxis(total[where], 1, 2)[..., None], reads[0][where].indices)
        for where in held
    }
    return out, total, value


def backward(run: Execution, layer: Layer, reads: list[Shards], gradient: Shards, a: int) -> list[Shards]:
    """Gradients of queries, keys and values: those of a block travel with it and one pass more."""
    n = run.axes[a].size
    sent = PASSED[layer.name, "forward"]
    out, total, _ = forward(run, layer, reads, a)
    PASSED[layer.name, "forward"] = sent  # the statistics are saved, not made again
    held = {where: (reads[1][where], reads[2][where]) for where in reads[0]}
    made = {w: tuple(Local(np.zeros_like(b.values), b.indices) for b in blocks) for w, blocks in held.items()}
    d_q = {where: np.zeros_like(q.values) for where, q in reads[0].items()}
    for step in range(n):
        if step:
            held = passed_on(run, layer, "backward", a, held)
            made = passed_on(run, layer, "backward", a, made)
        for where, (k, v) in held.items():
            q, g = reads[0][where], gradient[where].values
            place = _place(run, layer, q, k)
            logits = np.einsum("zshd,zthd->zhst", q.values, k.values[:, :, place])
            chance = np.exp(logits) / total[where][..., None]
            inner = np.moveaxis((g * out[where].values).sum(-1), 1, 2)[..., None]
            d_logits = chance * (np.einsum("zshd,zthd->zhst", g, v.values[:, :, place]) - inner)
            d_q[where] += np.einsum("zhst,zthd->zshd", d_logits, k.values[:, :, place])
            d_k, d_v = made[where]
            at = (slice(None), slice(None), place)
            np.add.at(d_k.values, at, np.einsum("zhst,zshd->zthd", d_logits, q.values))
            np.add.at(d_v.values, at, np.einsum("zhst,zshd->zthd", chance, g))
    made = passed_on(run, layer, "backward", a, made)
    return [
        {where: Local(values, reads[0][where].indices) for where, values in d_q.items()},
        {where: blocks[0] for where, blocks in made.items()},
        {where: blocks[1] for where, blocks in made.items()},
    ]
