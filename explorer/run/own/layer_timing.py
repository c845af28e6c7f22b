"""Layer timing: seconds of own layers, forward and backward, one after the other as in a step.

Layers are timed one by one, or sections as one: a section makes masks, positions and views once that each of
its layers makes again if it runs alone, and calls autograd once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from explorer.run.own.own_layers import OwnLayers
from explorer.run.ranks.mixed import gradient_type
from explorer.run.sharded.layout_units import LayoutUnits

Pair = tuple[float, float]
"""Seconds of two clocks; also of a forward and a backward."""


class LayerSeconds(NamedTuple):
    """Seconds of every layer, or section, by two clocks."""

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
    sections: Sequence[Sequence[int]] = (),
) -> LayerSeconds:
    """Time every layer of a model, or every section, for a number of samples.

    Backwards go from the last layer to the first with the gradients that came, those of several readers added
    up. Gradients of weights are added to their sums when all are there, as at the end of a backward: by then
    both have left the caches.

    Args:
        layers: the model.
        weights: all its weights.
        samples: number of samples.
        clock: the present time of two clocks.
        sections: all layers, those together that are timed as one; () for each by itself.
    """
    sections = sections or [(unit,) for unit in range(len(layers.model.layers))]
    device = next(iter(weights.values())).device
    wide = gradient_type(layers.model)
    sums = {name: torch.zeros_like(w, dtype=wide or w.dtype) for name, w in weights.items()}
    data = layers.samples(0, samples, device)
    held: dict[int, torch.Tensor] = {}
    forward: dict[int, Pair] = {}
    graphs: dict[int, tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]] = {}
    for i in _in_sequence(layers, sections, held):
        given = {
            key: held[key].detach().requires_grad_(layers.differentiable(key))
            for key in layers.reads(sections[i])
        }
        layers.prepare(sections[i], samples, device)
        begin = clock()
        made = layers.run(sections[i], weights, given, data)
        forward[i] = _since(begin, clock())
        held.update({key: value.detach() for key, value in made.items() if key != layers.loss})
        graphs[i] = given, made
    slopes: dict[int, torch.Tensor] = {}
    found = {i: _backward(layers, weights, sections[i], *graphs[i], slopes, clock) for i in reversed(graphs)}
    added = {i: _add_up(sums, found[i][1], clock) for i in graphs}
    every = range(len(sections))
    backward = [(found[i][0][0] + added[i][0], found[i][0][1] + added[i][1]) for i in every]
    forwards = [forward[i] for i in every]
    return LayerSeconds(_of(0, forwards, backward), _of(1, forwards, backward), [added[i][0] for i in every])


def _in_sequence(
    layers: OwnLayers | LayoutUnits, sections: Sequence[Sequence[int]], held: Mapping[int, torch.Tensor]
) -> Iterator[int]:
    """Yield the number of a section as soon as all that it reads is held."""
    waiting = list(range(len(sections)))
    while waiting:
        ready = next(i for i in waiting if held.keys() >= set(layers.reads(sections[i])))
        waiting.remove(ready)
        yield ready


def _backward(
    layers: OwnLayers | LayoutUnits,
    weights: Mapping[str, torch.Tensor],
    section: Iterable[int],
    given: Mapping[int, torch.Tensor],
    made: Mapping[int, torch.Tensor],
    slopes: dict[int, torch.Tensor],
    clock: Callable[[], Pair],
) -> tuple[Pair, dict[str, torch.Tensor]]:
    """Return the seconds of a section's backward, and the gradients of its weights.

    `slopes`: the gradients of tensors that the sections behind have left; those of what this one writes are
    taken, and those of what it reads are left, added to what other readers left.
    """
    written = [key for key, value in made.items() if value.requires_grad]
    names = layers.model.parameters_of(section)
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
    """Return the seconds in which a section's gradients are added to their sums; they are gone then."""
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
