"""Criterion: one number from whatever a model returns, a sum over samples, so that parts of a batch add up.

A model that returns its own loss (a scalar) is taken to average it over samples. Any other output counts by a
fixed weight for each of its scalars, so that every scalar sends a gradient of its own. Sums are in fp32 at
least.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit

FP32_BYTES = 4


def token_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of logits, a mean over the places of a sample, summed over samples."""
    places = max(1, labels.numel() // labels.shape[0])
    return F.cross_entropy(_wide(logits).flatten(0, -2), labels.flatten(), reduction="sum") / places


def output_loss(output: torch.Tensor, number: int, samples: int) -> torch.Tensor:
    """Return what an output of a model counts, summed over samples.

    Args:
        output: the output, its first axis the samples; or a scalar, a mean over them.
        number: its place among the model's outputs.
        samples: number of samples.
    """
    output = _wide(output)
    if output.dim() == 0:
        return output * samples
    rows = output.flatten(1) if output.dim() > 1 else output.unsqueeze(1)
    weights = output_weights(rows.shape[1], number, rows.device).to(rows.dtype)
    return (rows * weights).sum() / rows.shape[1]


def _wide(values: torch.Tensor) -> torch.Tensor:
    """Return values in fp32 if they are narrower: a sum of many in bf16 would keep three digits."""
    return values.float() if values.element_size() < FP32_BYTES else values


def output_weights(places: int, number: int, device: torch.device) -> torch.Tensor:
    """Return what each scalar of a sample of an output counts, by its place; no two weigh alike."""
    place = torch.arange(places, dtype=torch.float64, device=device)
    return torch.cos(place * 1.618033988749895 + number)  # irrational steps
