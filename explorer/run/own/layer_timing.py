"""Layer timing: seconds of every own layer, forward and backward, one after the other as in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import torch

from explorer.run.own.own_layers import OwnLayers
from explorer.run.ranks.mixed import gradient_type
from explorer.run.sharded.layout_units import LayoutUnits

Pair = tuple[float, float]
"""Seconds of two clocks; also of a forward and a backward."""


class LayerSeconds(NamedTuple):
    """Seconds of every layer by two clocks."""

    first: list[Pair]
    """(forward, backward) by the first clock."""
    second: list[Pair]
    """The same by the second."""
    sums: list[float]
    """By the first clock, what of a backward adds its gradients to those of earlier microbatches."""


def time_layers(
    layers: OwnLayers | LayoutUnits,
    weights: Mapping[str, torch.Tensor],
    samples: int,
    clock: Callable[[], Pair],
) -> LayerSeconds:
    """Time every layer of a model for a number of samples.

    Backwards go from the last layer to the first with the gradients that came, those of several readers added
    up. Gradients of weights are added to their sums when all are there, as at the end of a backward: by then
    both have left the caches.

    Args:
        layers: the model.
        weights: all its weights.
        samples: number of samples.
        clock: the present time of two clocks.
    """
    device = next(iter(weights.values())).device
    wide = gradient_type(layers.model)
    sums = {name: torch.zeros_like(w, dtype=wide or w.dtype) for name, w in weights.items()}
    data = layers.samples(0, samples, device)
    held: dict[int, torch.Tensor] = {}
    forward: list[Pair] = []
    graphs: list[tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]] = []
    for unit in range(len(layers.model.layers)):
        given = {
            key: held[key].detach().requires_grad_(layers.differentiable(key)) for key in layers.reads([unit])
        }
        layers.prepare([unit], samples, device)
        begin = clock()
        made = layers.run([unit], weights, given, data)
        forward.append(_since(begin, clock()))
        held.update({key: value.detach() for key, value in made.items() if key != layers.loss})
        graphs.append((given, made))
    slopes: dict[int, torch.Tensor] = {}
    found = [
        _backward(layers, weights, unit, *graphs[unit], slopes, clock)
        for unit in reversed(range(len(graphs)))
    ][::-1]
    added = [_add_up(sums, gradients, clock) for _, gradients in found]
    backward = [(one[0] + two[0], one[1] + two[1]) for (one, _), two in zip(found, added, strict=True)]
    return LayerSeconds(
        _of(0, forward, backward), _of(1, forward, backward), [seconds for seconds, _ in added]
    )


def _backward(
    layers: OwnLayers | LayoutUnits,
    weights: Mapping[str, torch.Tensor],
    unit: int,
    given: Mapping[int, torch.Tensor],
    made: Mapping[int, torch.Tensor],
    slopes: dict[int, torch.Tensor],
    clock: Callable[[], Pair],
) -> tuple[Pair, dict[str, torch.Tensor]]:
    """Return the seconds of a layer's backward, and the gradients of its weights.

    `slopes`: the gradients of tensors that the layers behind have left; those of what this one writes are
    taken, and those of what it reads are left, added to what other readers left.
    """
    written = [key for key, value in made.items() if value.requires_grad]
    names = layers.model.parameters_of([unit])
    read = [key for key, x in given.items() if x.requires_grad]
    wanted = [*(given[key] for key in read), *(weights[name] for name in names)]
    if not written or not wanted:
        return (0.0, 0.0), {}
    came = [slopes.pop(key) if key in slopes else torch.ones_like(made[key]) for key in written]
    begin = clock()
    found = torch.autograd.grad([made[key] for key in written], wanted, came, allow_unused=True)
    for key, slope in zip(read, found, strict=False):
        if slope is not None:
            slopes[key] = slopes[key] + slope if key in slopes else slope
    seconds = _since(begin, clock())
    own: tuple[torch.Tensor | None, ...] = found[len(read) :]
    return seconds, {name: g for name, g in zip(names, own, strict=True) if g is not None}


def _add_up(
    sums: Mapping[str, torch.Tensor], gradients: dict[str, torch.Tensor], clock: Callable[[], Pair]
) -> Pair:
    """Return the seconds in which a layer's gradients are added to their sums; they are gone then."""
    begin = clock()
    if gradients:
        torch._foreach_add_([sums[name] for name in gradients], list(gradients.values()))
    seconds = _since(begin, clock())
    gradients.clear()
    return seconds


def _since(begin: Pair, end: Pair) -> Pair:
    return end[0] - begin[0], end[1] - begin[1]


def _of(clock: int, forward: list[Pair], backward: list[Pair]) -> list[Pair]:
    return [(f[clock], b[clock]) for f, b in zip(forward, backward, strict=True)]
