"""Layer timing: seconds of every own layer, forward and backward, one after the other as in a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from explorer.run.own.own_layers import OwnLayers
from explorer.run.ranks.mixed import gradient_type
from explorer.run.sharded.layout_units import LayoutUnits

Pair = tuple[float, float]
"""Seconds of two clocks; also of a forward and a backward."""


def time_layers(
    layers: OwnLayers | LayoutUnits,
    weights: Mapping[str, torch.Tensor],
    samples: int,
    clock: Callable[[], Pair],
) -> tuple[list[Pair], list[Pair]]:
    """Time every layer of a model for a number of samples.

    Args:
        layers: the model.
        weights: all its weights.
        samples: number of samples.
        clock: the present time of two clocks.

    Returns:
        For either clock the (forward, backward) seconds of every layer.
    """
    device = next(iter(weights.values())).device
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
    backward = [_backward(layers, weights, unit, *graphs[unit], clock) for unit in range(len(graphs))]
    return _of(0, forward, backward), _of(1, forward, backward)


def _backward(
    layers: OwnLayers | LayoutUnits,
    weights: Mapping[str, torch.Tensor],
    unit: int,
    given: Mapping[int, torch.Tensor],
    made: Mapping[int, torch.Tensor],
    clock: Callable[[], Pair],
) -> Pair:
    """Return the seconds of a layer's backward; a microbatch adds its gradients to those of earlier ones."""
    outputs = [value for value in made.values() if value.requires_grad]
    own = [weights[name] for name in layers.model.parameters_of([unit])]
    wanted = [*(x for x in given.values() if x.requires_grad), *own]
    if not outputs or not wanted:
        return 0.0, 0.0
    came = [torch.ones_like(value) for value in outputs]
    wide = gradient_type(layers.model)
    sums = [None if wide is None else torch.zeros_like(w, dtype=wide) for w in own]
    begin = clock()
    found = torch.autograd.grad(outputs, wanted, came, allow_unused=True)
    gradients: tuple[torch.Tensor | None, ...] = found[len(wanted) - len(own) :]
    added = [
        (g if total is None else total, g) for total, g in zip(sums, gradients, strict=True) if g is not None
    ]
    if added:
        torch._foreach_add_([total for total, _ in added], [g for _, g in added])
    return _since(begin, clock())


def _since(begin: Pair, end: Pair) -> Pair:
    return end[0] - begin[0], end[1] - begin[1]


def _of(clock: int, forward: list[Pair], backward: list[Pair]) -> list[Pair]:
    return [(f[clock], b[clock]) for f, b in zip(forward, backward, strict=True)]
