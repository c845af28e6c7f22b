"""Layer timing: seconds of own layers, forward and backward, one after the other as in a step.

Layers are timed one by one, or sections as one: a section makes masks, positions and views once that each of
its layers makes again if it runs alone, and calls autograd once. A backward that is split is timed in its two
halves.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from explorer.run.own.own_layers import OwnLayers
from explorer.run.ranks.mixed import gradient_type
from explorer.run.ranks.modules import Weights
from explorer.run.ranks.split_backward import input_half, run_cut, weight_half
from explorer.run.sharded.layout_units import LayoutUnits

Pair = tuple[float, float]
"""Seconds of two clocks."""
Tables = tuple[tuple[torch.Tensor, torch.Tensor], ...]
"""What a split backward leaves for its second half (see `split_backward.input_half`)."""


class LayerSeconds(NamedTuple):
    """Seconds of every layer, or section, by two clocks."""

    first: list[tuple[float, ...]]
    """(forward, backward) by the first clock; of a split backward (forward, of inputs, of weights)."""
    second: list[tuple[float, ...]]
    """The same by the second."""
    sums: list[float]
    """By the first clock, what of a backward adds its gradients to those of earlier microbatches."""


class _Graph(NamedTuple):
    """What a forward leaves for its backward."""

    given: dict[int, torch.Tensor]
    made: dict[int, torch.Tensor]
    tables: Tables | None
    """None if its backward is not split."""


def time_layers(
    layers: OwnLayers | LayoutUnits,
    weights: Weights,
    samples: int,
    clock: Callable[[], Pair],
    sections: Sequence[Sequence[int]] = (),
    split: Container[int] = (),
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
        split: sections whose backward is split.
    """
    sections = sections or [(unit,) for unit in range(len(layers.model.layers))]
    device = next(iter(weights.values())).device
    wide = gradient_type(layers.model)
    sums = {name: torch.zeros_like(w, dtype=wide or w.dtype) for name, w in weights.items()}
    data = layers.samples(0, samples, device)
    held: dict[int, torch.Tensor] = {}
    taken: dict[int, list[Pair]] = {}
    graphs: dict[int, _Graph] = {}
    for i in _in_sequence(layers, sections, held):
        section, tables = sections[i], None
        reads = layers.reads(section)
        given = {key: held[key].detach().requires_grad_(layers.differentiable(key)) for key in reads}
        first = layers.first(section) if i in split else []
        for part in (first, [unit for unit in section if unit not in set(first)]):
            if part:
                layers.prepare(part, samples, device)
        begin = clock()
        if i in split:
            made, tables = run_cut(layers, section, weights, given, data)
        else:
            made = layers.run(section, weights, given, data)
        taken[i] = [_since(begin, clock())]
        held.update({key: value.detach() for key, value in made.items() if key != layers.loss})
        graphs[i] = _Graph(given, made, tables)
    slopes: dict[int, torch.Tensor] = {}
    gradients: dict[int, dict[str, torch.Tensor]] = {}
    for i in reversed(graphs):
        seconds, gradients[i] = _backward(layers, weights, sections[i], graphs[i], slopes, clock)
        taken[i] += seconds
    added = {i: _add_up(sums, gradients[i], clock) for i in graphs}
    rows = [(*taken[i][:-1], _both(taken[i][-1], added[i])) for i in range(len(sections))]
    return LayerSeconds(
        [tuple(pair[0] for pair in row) for row in rows],
        [tuple(pair[1] for pair in row) for row in rows],
        [added[i][0] for i in range(len(sections))],
    )


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
    section: Sequence[int],
    graph: _Graph,
    slopes: dict[int, torch.Tensor],
    clock: Callable[[], Pair],
) -> tuple[list[Pair], dict[str, torch.Tensor]]:
    """Return the seconds of a section's backward, or of its two halves, and the gradients of its weights.

    `slopes`: the gradients of tensors that the sections behind have left; those of what this one writes are
    taken, and those of what it reads are left, added to what other readers left.
    """
    given, made = graph.given, graph.made
    made_here = [key for key, value in made.items() if value.requires_grad]
    written = [key for key in made_here if key in slopes or key == layers.loss] or made_here
    own = {name: weights[name] for name in layers.model.parameters_of(section)}
    read = [key for key, x in given.items() if x.requires_grad]
    if not written or not (read or own):
        return [(0.0, 0.0)] * (1 if graph.tables is None else 2), {}
    came = [slopes.pop(key) if key in slopes else torch.ones_like(made[key]) for key in written]
    outputs, inputs = [made[key] for key in written], [given[key] for key in read]
    begin = clock()
    if graph.tables is None:
        all_found: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
            outputs, [*inputs, *own.values()], came, allow_unused=True
        )
        _leave(slopes, read, all_found)
        seconds = _since(begin, clock())
        pairs = zip(own, all_found[len(read) :], strict=True)
        return [seconds], {name: g for name, g in pairs if g is not None}
    found, waiting = input_half(outputs, came, inputs, own, graph.tables)
    _leave(slopes, read, found)
    between = clock()
    gradients = weight_half(waiting)
    return [_since(begin, between), _since(between, clock())], gradients


def _leave(
    slopes: dict[int, torch.Tensor], read: Sequence[int], found: Sequence[torch.Tensor | None]
) -> None:
    """Leave the gradients of what was read to the sections before, added to what other readers left."""
    for key, slope in zip(read, found, strict=False):
        if slope is not None:
            slopes[key] = slopes[key] + slope if key in slopes else slope


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


def _both(one: Pair, two: Pair) -> Pair:
    return one[0] + two[0], one[1] + two[1]
