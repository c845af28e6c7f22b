"""Modules: the units of a runnable model in torch, as functions of weights and input, and its data.

Weights are seeded by their name and data by the number of the sample, so that every way of cutting the model
and the batch works on the same numbers. They are functions, not modules with state, so that a schedule that
keeps several weight versions passes the one it means.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit

from explorer.run.model import BLOCK, CONV, EMBED, HEAD, ModelSpec, Unit, parameter_names, parameter_shapes

Weights = dict[str, torch.Tensor]
"""Parameters by their name in the model."""
Samples = dict[str, torch.Tensor]
"""Data by name; the first axis are the samples."""
Made = dict[int, torch.Tensor]
"""Tensors by key (see `explorer.run.ranks.units`); the first axis are the samples, except for the loss."""

DTYPES = {"fp32": torch.float32, "fp64": torch.float64}


def initial_weights(model: ModelSpec, units: Iterable[int], device: torch.device) -> Weights:
    """Return the weights of some units, equal wherever they are made; a tied table once."""
    found: Weights = {}
    for i in units:
        unit = model.units[i]
        shapes = parameter_shapes(model, unit)
        for own, full in parameter_names(model, unit).items():
            if full not in found:
                found[full] = _initial(
                    model, own, full, shapes.get(own, (model.vocab, model.d_model)), device
                )
    return found


def _initial(
    model: ModelSpec, own: str, full: str, shape: tuple[int, ...], device: torch.device
) -> torch.Tensor:
    if own.startswith("norm"):
        value = torch.full(shape, 1.0 if own.endswith("weight") else 0.0, dtype=torch.float64)
    else:
        generator = torch.Generator().manual_seed(zlib.crc32(f"{model.seed}:{full}".encode()))
        fan_in = 1
        for size in shape[1:]:
            fan_in *= size
        value = torch.randn(shape, generator=generator, dtype=torch.float64) / fan_in**0.5
    return value.to(DTYPES[model.dtype]).to(device).requires_grad_()


def sample_tokens(model: ModelSpec, low: int, high: int, device: torch.device) -> torch.Tensor:
    """Return the tokens of samples [low, high): (high - low, seq + 1), each sample from its number alone."""
    sample = torch.arange(low, high, dtype=torch.int64).unsqueeze(1)
    place = torch.arange(model.seq + 1, dtype=torch.int64).unsqueeze(0)
    mixed = sample * 1_000_003 + place * 7_919 + model.seed * 104_729
    mixed = (mixed * 2_654_435_761) % (2**31)
    return ((mixed >> 7) % model.vocab).to(device)


def unit_forward(
    model: ModelSpec,
    unit: Unit,
    weights: Mapping[str, torch.Tensor],
    x: torch.Tensor | None,
    tokens: torch.Tensor,
) -> torch.Tensor:
    """Return the output of a unit: (samples, seq, d_model), or for the head the loss summed over samples.

    Args:
        model: the sizes.
        unit: the unit to run.
        weights: weights by the unit's own names.
        x: summed outputs of the units it reads; None for the embedding.
        tokens: (samples, seq + 1); the embedding reads the first, the head predicts the last `seq`.
    """
    if unit.kind == EMBED:
        return F.embedding(tokens[:, :-1], weights["table"]) + weights["positions"]
    if x is None:
        x = torch.zeros(())
    h = F.layer_norm(x, (model.d_model,), weights["norm.weight"], weights["norm.bias"])
    if unit.kind == HEAD:
        logits = F.linear(h, weights["table"])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].reshape(-1), reduction="sum")
        return loss / model.seq
    if unit.kind == CONV:
        wide = F.gelu(F.conv1d(h.transpose(1, 2), weights["up"], padding=1)).transpose(1, 2)
        return x + F.linear(wide, weights["down"])
    if unit.kind == BLOCK:
        x = x + _attention(model, weights, h)
        h = F.layer_norm(x, (model.d_model,), weights["norm2.weight"], weights["norm2.bias"])
    return x + F.linear(F.gelu(F.linear(h, weights["up"])), weights["down"])


def _attention(model: ModelSpec, weights: Mapping[str, torch.Tensor], h: torch.Tensor) -> torch.Tensor:
    parts = F.linear(h, weights["qkv"]).view(*h.shape[:2], 3, model.heads, -1).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
    return F.linear(mixed.transpose(1, 2).flatten(2), weights["proj"])


def run_units(
    model: ModelSpec,
    units: Iterable[int],
    weights: Mapping[str, torch.Tensor],
    outside: Mapping[int, torch.Tensor],
    tokens: torch.Tensor,
) -> dict[int, torch.Tensor]:
    """Run some units in order, given the outputs of earlier ones that they read."""
    made: dict[int, torch.Tensor] = {}
    for i in units:
        unit = model.units[i]
        x: torch.Tensor | None = None
        for source in unit.reads:
            value = made[source] if source in made else outside[source]
            x = value if x is None else x + value
        own = {name: weights[full] for name, full in parameter_names(model, unit).items()}
        made[i] = unit_forward(model, unit, own, x, tokens)
    return made


__all__ = [
    "DTYPES",
    "Made",
    "Samples",
    "Weights",
    "initial_weights",
    "run_units",
    "sample_tokens",
    "unit_forward",
]
