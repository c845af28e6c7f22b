"""Attention on a rank: its heads, its queries with whole keys and values, or a ring of blocks of them.

In a ring (Liu, Zaharia, Abbeel: Ring Attention, 2023) each rank passes its block of keys and values on while
it works on the one it has; the softmax is made block by block with a running maximum. In the backward the
blocks go round once more, and with them their gradients, which need one pass more to come home. Masks follow
from the positions that each rank has, so any order of positions will do.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit

from explorer.base.errors import InputError
from explorer.run.sharded.collectives import AllGather, Shift, apply
from explorer.run.sharded.here import Here
from explorer.run.sharded.kinds import Tensors, head_places
from explorer.run.sharded.mesh import Line
from explorer.sharding.states import BROADCAST

Block = tuple[torch.Tensor, torch.Tensor]
"""Keys and values (samples, positions, heads, head)."""


def attend(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Return softmax(q k' / sqrt(head)) v, (samples, positions, heads, head)."""
    del weights
    if len(reads) == 1:
        return _fused(here, reads[0])
    q, k, v = reads
    positions = here.read_indices(0)[1], here.read_indices(1)[1]
    places = head_places(here, 0, 1).to(q.device)
    if lines := _rings(here):
        a = here.mesh.lines.index(lines[0])
        blocks = [here.read_indices(1, place)[1] for place in here.neighbours(a)]
        return _around(here, q, k, v, blocks, places, lines[0])
    if not _is_identity(places, k.shape[2]):
        k, v = k.index_select(2, places), v.index_select(2, places)
    return _whole(here, q, k, v, *positions)


def _fused(here: Here, x: torch.Tensor) -> torch.Tensor:
    """Take queries, keys and values out of one tensor (positions, 3, heads, head)."""
    q, k, v = x.unbind(here.layer.reads[0].dims.index("qkv") + 1)
    positions = here.read_indices(0)[1]
    heads = torch.arange(q.shape[2], device=x.device)
    if lines := _rings(here):
        a = here.mesh.lines.index(lines[0])
        blocks = [here.read_indices(0, place)[1] for place in here.neighbours(a)]
        return _around(here, q, k, v, blocks, heads, lines[0])
    both, now, keys = torch.stack((k, v), 3), list(here.plan.reads[0]), positions
    for line in here.lines("all_gather"):
        a = here.mesh.lines.index(line)
        blocks = [here.indices_in(0, now, place)[1] for place in here.neighbours(a)]
        both = apply(AllGather(line, 1, tuple(map(len, blocks))), both)
        keys, now[a] = np.concatenate(blocks), BROADCAST
        order = np.argsort(keys)
        both, keys = both.index_select(1, torch.from_numpy(order).to(both.device)), keys[order]
    k, v = both.unbind(3)
    return _whole(here, q, k, v, positions, keys)


def _rings(here: Here) -> tuple[Line, ...]:
    """Return the line that blocks go around, if any."""
    lines = here.lines("ring")
    if len(lines) > 1:
        raise InputError(
            f"keys and values of {here.layer.name!r} would go around two rings",
            key="layout",
            found=" and ".join(line.axis for line in lines),
            allowed="`ring` over one mesh axis",
        )
    return lines


def _is_identity(places: torch.Tensor, heads: int) -> bool:
    return len(places) == heads and bool((places == torch.arange(heads, device=places.device)).all())


def _scale(here: Here, q: torch.Tensor) -> float:
    given = here.options.get("scale")
    return float(given) if given is not None else 1 / math.sqrt(q.shape[-1])


def _mask(here: Here, queries: Any, keys: Any, device: torch.device) -> torch.Tensor | None:
    """Return what each query may see, by their positions; None if all."""
    causal = here.layer.causal or here.options.get("is_causal")
    found = queries[:, None] >= keys[None, :] if causal else np.ones((len(queries), len(keys)), dtype=bool)
    if here.layer.documents:
        ends = np.cumsum(here.layer.documents)
        of_query, of_key = (
            places // ends[-1] * len(ends) + np.searchsorted(ends, places % ends[-1], side="right")
            for places in (queries, keys)
        )
        found = found & (of_query[:, None] == of_key[None, :])
    return torch.from_numpy(found).to(device) if causal or here.layer.documents else None


def _whole(
    here: Here, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, queries: Any, keys: Any
) -> torch.Tensor:
    mask = _mask(here, queries, keys, q.device)
    q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
    mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=_scale(here, q))
    return mixed.transpose(1, 2)


class _Ring(NamedTuple):
    """What does not change from pass to pass."""

    line: Line
    scale: float
    masks: list[torch.Tensor | None]
    """Per rank of the line what the own queries may see of its block."""
    shapes: tuple[tuple[int, ...], ...]
    """Shape of every rank's keys and values in one tensor."""
    places: torch.Tensor
    """Key-value head of every query head."""
    heads: int
    """Key-value heads."""


def _around(
    here: Here, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: list[Any],
    places: torch.Tensor, line: Line,
) -> torch.Tensor:  # fmt: skip
    mine = blocks[line.place] if len(here.layer.reads) == 1 else here.read_indices(0)[1]
    masks = [_mask(here, mine, keys, q.device) for keys in blocks]
    shapes = tuple((q.shape[0], len(keys), k.shape[2], k.shape[3] + v.shape[3]) for keys in blocks)
    ring = _Ring(line, _scale(here, q), masks, shapes, places, k.shape[2])
    found: torch.Tensor = _RingAttention.apply(ring, here.layer.name, q, k, v)  # type: ignore[no-untyped-call]
    return found


class _RingAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, ring: _Ring, name: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        n, me = ring.line.size, ring.line.place
        held = torch.cat((k, v), -1)
        top = q.new_full((q.shape[0], q.shape[2], q.shape[1]), -math.inf)
        total, value = torch.zeros_like(top), q.new_zeros((*q.shape[:3], v.shape[-1]))
        with ring.line.meter.about("forward", name):
            for turn in range(n):
                source = (me - turn) % n
                if turn:
                    held = _passed(ring, held, turn - 1, "ring")
                logits = _logits(ring, q, held[..., : k.shape[-1]], source)
                higher = torch.maximum(top, logits.amax(-1))
                # a row that saw nothing yet has no maximum to compare with
                finite = torch.where(higher.isinf(), torch.zeros_like(higher), higher)
                powers = torch.exp(logits - finite.unsqueeze(-1))
                fade = torch.exp(top - finite)
                total = total * fade + powers.sum(-1)
                seen = held[..., k.shape[-1] :].index_select(2, ring.places)
                value = value * fade.transpose(1, 2).unsqueeze(-1)
                value = value + torch.einsum("zhst,zthd->zshd", powers, seen)
                top = higher
        out = value / total.transpose(1, 2).unsqueeze(-1)
        ctx.ring, ctx.name = ring, name
        ctx.save_for_backward(q, k, v, out, top + torch.log(total))
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ring, g = ctx.ring, gradients[0]
        q, k, v, out, logsum = ctx.saved_tensors
        n, me, wide = ring.line.size, ring.line.place, k.shape[-1]
        held = torch.cat((k, v), -1)
        made, d_q = torch.zeros_like(held), torch.zeros_like(q)
        inner = (g * out).sum(-1).transpose(1, 2).unsqueeze(-1)
        with ring.line.meter.about("backward", ctx.name):
            for turn in range(n):
                source = (me - turn) % n
                if turn:
                    held = _passed(ring, held, turn - 1, "ring_gradient")
                    made = _passed(ring, made, turn - 1, "ring_gradient")
                keys, values = held[..., :wide], held[..., wide:].index_select(2, ring.places)
                chance = torch.exp(_logits(ring, q, keys, source) - logsum.unsqueeze(-1))
                d_logits = chance * (torch.einsum("zshd,zthd->zhst", g, values) - inner) * ring.scale
                d_q += torch.einsum("zhst,zthd->zshd", d_logits, keys.index_select(2, ring.places))
                both = torch.cat(
                    (
                        torch.einsum("zhst,zshd->zthd", d_logits, q),
                        torch.einsum("zhst,zshd->zthd", chance, g),
                    ),
                    -1,
                )
                made = made.index_add(2, ring.places, both)
            made = _passed(ring, made, n - 1, "ring_gradient")
        return None, None, d_q, made[..., :wide], made[..., wide:]


def _logits(ring: _Ring, q: torch.Tensor, keys: torch.Tensor, source: int) -> torch.Tensor:
    logits = torch.einsum("zshd,zthd->zhst", q, keys.index_select(2, ring.places)) * ring.scale
    mask = ring.masks[source]
    return logits if mask is None else logits.masked_fill(~mask, -math.inf)


def _passed(ring: _Ring, x: torch.Tensor, turn: int, op: str) -> torch.Tensor:
    """Pass the block on that has made `turn` turns."""
    n = ring.line.size
    shapes = tuple(ring.shapes[(i - turn) % n] for i in range(n))
    return Shift(ring.line, shapes, 1, op).forward(x)


__all__ = ["attend"]
