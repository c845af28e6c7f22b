"""What the kinds of layers compute on a rank's pieces, with the collectives that they have inside.

A layer that is a sum of products is one `einsum` over its named dimensions, whatever is split. The others
follow the rules of `explorer.sharding`: statistics, tables, softmax and classes. Attention and windows have
files of their own. What a graph does not say (the function of an activation, strides, epsilons) comes as
options of the layer.
"""

from __future__ import annotations

import itertools
import math
import string
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit

from explorer.base.errors import InputError
from explorer.graph import Use
from explorer.run.sharded.here import Here
from explorer.run.sharded.pieces import Indices
from explorer.run.sharded.sums import largest, once, summed, summed_for_all

Tensors: TypeAlias = Sequence[torch.Tensor]
Compute: TypeAlias = Callable[[Here, Tensors, Tensors], torch.Tensor | tuple[torch.Tensor, ...]]
"""Function from (the layer here, pieces of its reads, of its parameters) to its writes that are read."""

FUNCTIONS: dict[str, Callable[..., torch.Tensor]] = {
    "gelu": F.gelu,
    "relu": F.relu,
    "silu": F.silu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "product": torch.mul,
    "mul": lambda gate, up: F.silu(gate) * up,
}
"""Pointwise functions by the last word of a layer's name, where no option says which."""


def contract(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Multiply and add up over the dimensions that the output lacks; then add biases, once in a sum."""
    layer, names = here.layer, _Letters()
    biases = [k for k in range(1, len(layer.parameters)) if layer.kind != "einsum"]
    terms = [names.of(use, samples=True) for use in layer.reads]
    terms += [names.of(use) for k, use in enumerate(layer.parameters) if k not in biases]
    operands = [*reads, *(w for k, w in enumerate(weights) if k not in biases)]
    if "kv_heads" in here.sizes and "heads" in here.sizes:
        terms, operands = _shared_heads(here, names, terms, operands)
    out = names.of(layer.writes[0], samples=True)
    y: torch.Tensor = torch.einsum(f"{','.join(terms)}->{out}", *operands)
    for k in biases:
        added = _aligned(weights[k], layer.parameters[k], layer.writes[0])
        y = y + once(added, here=here.is_first_of_sum())
    return y


class _Letters:
    """Letters of an einsum for dimension names."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, use: Use, *, samples: bool = False) -> str:
        blank = 0
        found = "Z" if samples else ""
        for dim in use.dims:
            blank += not dim
            found += self.one(dim or f" {blank}")
        return found

    def one(self, dim: str) -> str:
        return self._known.setdefault(dim, string.ascii_lowercase[len(self._known)])


def _shared_heads(
    here: Here, names: _Letters, terms: list[str], operands: list[torch.Tensor]
) -> tuple[list[str], list[torch.Tensor]]:
    """Repeat key-value heads for the query heads that share them."""
    letter, heads = names.one("kv_heads"), names.one("heads")
    found = []
    for k, (term, x) in enumerate(zip(terms, operands, strict=True)):
        at = term.find(letter)
        if at < 0 or k >= len(here.layer.reads):
            found.append((term, x))
            continue
        place = head_places(here, next(i for i, t in enumerate(terms) if heads in t), k)
        found.append((term.replace(letter, heads), x.index_select(at, place.to(x.device))))
    return [term for term, _ in found], [x for _, x in found]


def head_places(here: Here, queries: int, keys: int) -> torch.Tensor:
    """Return for every query head here the place of its key-value head here."""
    wanted, held = _heads_at(here, queries, keys, here.mesh.place)
    return torch.from_numpy(np.searchsorted(held, wanted))


def _heads_at(here: Here, queries: int, keys: int, place: Sequence[int]) -> tuple[Indices, Indices]:
    """Return the key-value heads that the query heads of a rank need, and those that it has."""
    q, k = here.layer.reads[queries], here.layer.reads[keys]
    at_q = q.dims.index("heads") + 1
    at_k = (k.dims.index("kv_heads") if "kv_heads" in k.dims else k.dims.index("heads")) + 1
    ratio = here.shapes[q.name][at_q] // here.shapes[k.name][at_k]
    return here.read_indices(queries, place)[at_q] // ratio, here.read_indices(keys, place)[at_k]


def check_heads(here: Here) -> None:
    """Refuse unequal shares that part query heads from their key-value heads; all ranks come to the same.

    Raises:
        InputError: a rank would lack a key-value head.
    """
    if here.layer.kind != "attention" or len(here.layer.reads) < 2:
        return
    for place in itertools.product(*(range(size) for _, size in here.mesh.axes)):
        wanted, held = _heads_at(here, 0, 1, place)
        if not np.isin(wanted, held).all():
            raise InputError(
                f"a rank would have query heads of {here.layer.name!r} without their key-value heads",
                key="axis_shares",
                found=f"{len(held)} key-value heads for {len(wanted)} query heads",
                allowed="shares that divide the key-value heads as they divide the query heads",
            )


def _aligned(x: torch.Tensor, use: Use, target: Use) -> torch.Tensor:
    """Return a parameter with its axes where the target has them."""
    shape = [x.shape[use.dims.index(dim)] if dim in use.dims else 1 for dim in target.dims]
    order = sorted(range(len(use.dims)), key=lambda i: target.dims.index(use.dims[i]))
    return x.permute(order).reshape(shape)


def pointwise(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Apply the layer's own function, or add up; rotary positions rotate all that is read."""
    layer = here.layer
    if len(layer.writes) > 1:
        return tuple(_rotated(here, k, x) for k, x in enumerate(reads))
    word = layer.name.rpartition(".")[2].rstrip("0123456789").rpartition("_")[2]
    function = here.options.get("function") or FUNCTIONS.get(word)
    if function is not None:
        found: torch.Tensor = function(*reads, *weights)
        return found
    if layer.saves or weights:
        raise InputError(
            f"what layer {layer.name!r} computes is not known",
            key=f"layers.{layer.name}",
            found=layer.kind,
            allowed=f"an option `function`, or a name that ends in {', '.join(FUNCTIONS)}",
        )
    return sum(reads[1:], reads[0])


def _rotated(here: Here, k: int, x: torch.Tensor) -> torch.Tensor:
    """Rotate pairs of a head's scalars by angles that grow with the position (Su et al., RoFormer, 2021)."""
    half = x.shape[-1] // 2
    speed = 10000.0 ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
    positions = torch.from_numpy(here.read_indices(k)[1]).to(x)
    angle = (positions.unsqueeze(-1) * speed).unsqueeze(1)
    one, other = x[..., :half], x[..., half : 2 * half]
    turned = (one * angle.cos() - other * angle.sin(), one * angle.sin() + other * angle.cos())
    return torch.cat((*turned, x[..., 2 * half :]), -1)


def normalise(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Normalise over the fixed dimensions: by mean and variance, or by the mean square if there is no shift.

    A norm by channel (its scale lacks the fixed dimensions) has its statistics over the samples, too.
    """
    layer, x = here.layer, reads[0]
    use, eps = layer.reads[0], float(here.options.get("eps", 1e-5))
    by_channel = is_by_channel(here)
    over = [i + 1 for i, dim in enumerate(use.dims) if dim in here.fixed]
    count = math.prod(here.shapes[use.name][i] for i in over)
    if by_channel:
        over, count = [0, *over], count * x.shape[0]
    lines = here.lines("all_reduce")
    centred = by_channel or len(weights) > 1 or bool(here.options.get("centred"))
    if centred:
        x = x - summed(lines, x.sum(over, keepdim=True)) / count
    square = summed(lines, (x * x).sum(over, keepdim=True)) / count
    y = x * torch.rsqrt(square + eps)
    for k, weight in enumerate(weights):
        part = _aligned(weight, layer.parameters[k], layer.writes[0])
        y = y * part if k == 0 else y + part
    return y


def is_by_channel(here: Here) -> bool:
    """Tell whether a norm has one scale for each channel, and statistics over samples."""
    parameters = here.layer.parameters
    return not parameters or not set(parameters[0].dims) & set(here.fixed)


def softmax(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Return the softmax over the fixed dimension."""
    del weights
    x, position = reads[0], here.layer.reads[0].dims.index(here.fixed[0]) + 1
    lines = here.lines("all_reduce")
    if not lines:
        return torch.softmax(x, position)
    powers = torch.exp(x - largest(lines, x.detach().amax(position, keepdim=True)))
    return powers / summed(lines, powers.sum(position, keepdim=True))


def look_up(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Look rows of a table up: zeros for those that other ranks hold; or add rows by position."""
    table, use = weights[0], here.layer.parameters[0]
    if here.layer.reads[0].dims and reads[0].is_floating_point():
        rows = reads[1] if len(reads) > 1 else _positions(here, reads[0].device)
        return reads[0] + F.embedding(rows, table)
    mine = here.held_indices(0)[use.dims.index("vocab")]
    size = here.shapes[use.name][use.dims.index("vocab") + 1]
    if len(mine) == size:
        return F.embedding(reads[0], table)
    local = _places_of(reads[0], mine, size)
    found = F.embedding(local.clamp(min=0), table)
    return found * (local >= 0).unsqueeze(-1)


def _places_of(numbers: torch.Tensor, mine: Indices, size: int) -> torch.Tensor:
    """Return the place of numbers below `size` among those that this rank has; -1 for others."""
    known = torch.full((size,), -1, dtype=torch.int64)
    known[torch.from_numpy(mine)] = torch.arange(len(mine))
    return known.to(numbers.device)[numbers]


def _positions(here: Here, device: torch.device) -> torch.Tensor:
    at = here.layer.reads[0].dims.index("seq") + 1
    return torch.from_numpy(here.read_indices(0)[at]).to(device)


def cross_entropy(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Return each sample's mean cross entropy; where the classes are split from three numbers a token."""
    del weights
    logits, targets = reads
    use = here.layer.reads[0]
    position = use.dims.index(here.fixed[0]) + 1
    lines = here.lines("all_reduce")
    if not lines:
        losses = F.cross_entropy(logits.movedim(position, 1), targets, reduction="none")
    else:
        local = _places_of(targets, here.read_indices(0)[position], here.shapes[use.name][position])
        logits = logits.movedim(position, -1)
        top = largest(lines, logits.detach().amax(-1))
        total = summed_for_all(lines, torch.exp(logits - top.unsqueeze(-1)).sum(-1))
        own = logits.gather(-1, local.clamp(min=0).unsqueeze(-1)).squeeze(-1) * (local >= 0)
        losses = torch.log(total) + top - summed_for_all(lines, own)
    tokens = math.prod(
        n for n, dim in zip(here.shapes[use.name][1:], use.dims, strict=True) if dim not in here.fixed
    )
    return losses.flatten(1).sum(1) / tokens if losses.dim() > 1 else losses


def mean(here: Here, reads: Tensors, weights: Tensors) -> torch.Tensor:
    """Return the mean over the dimensions that the output lacks; of a split one each rank's part of it."""
    del weights
    use, target = here.layer.reads[0], here.layer.writes[0]
    over = [i + 1 for i, dim in enumerate(use.dims) if dim not in target.dims]
    count = math.prod(here.shapes[use.name][i] for i in over)
    return reads[0].sum(over) / count
