"""Whole weights of layers that a plan cuts into slices: one process computes the module as it is.

It knows of a cut which part of which parameter has which name, and nothing of how ranks compute with it.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch

from explorer.run.model import ModelSpec
from explorer.run.own.own_model import OwnModel
from explorer.run.own.sliced_model import Part, SlicedModel
from explorer.run.ranks.modules import Weights
from explorer.run.sharded.layout_model import LayoutModel

Model = ModelSpec | OwnModel | LayoutModel


def uncut(model: Model) -> Model:
    """Return a model with all of its layers whole."""
    return model.uncut if isinstance(model, SlicedModel) else model


def in_parts(model: Model, whole: Weights) -> Weights:
    """Return weights with what slices hold of them beside them, each a tensor of its own."""
    if not isinstance(model, SlicedModel):
        return whole
    parts, shapes = {}, dict(model.shapes)
    for name, part in model.parts.items():
        value = whole[part.parameter].detach().reshape(shapes[part.parameter])
        places = [slice(None)] * value.dim()
        for axis, low, high in part.block:
            places[axis] = slice(low, high)
        parts[name] = value[tuple(places)].clone().requires_grad_()
    return {**whole, **parts}


def joined(model: Model, weights: Weights, shapes: Mapping[str, torch.Size]) -> Weights:
    """Return whole weights, those in parts put together, as something to differentiate by the parts.

    Args:
        model: the model.
        weights: whole ones and parts, by name.
        shapes: shapes of all parameters, as the module has them.
    """
    if not isinstance(model, SlicedModel):
        return weights
    found = {name: value for name, value in weights.items() if name not in model.parts}
    for name, parts in _parts_of(model).items():
        found[name] = _put_together(parts, weights).reshape(shapes[name])
    return found


def rewrite_joined(model: Model, whole: Weights, weights: Weights) -> None:
    """Write the parts' values of now into the whole weights that `joined` made of them before.

    A backward that reads other weights than its forward finds them there: what was put together is a copy.
    """
    if not isinstance(model, SlicedModel):
        return
    for name, parts in _parts_of(model).items():
        if name in whole:
            whole[name].data.copy_(_put_together(parts, weights).detach().view_as(whole[name]))


def _parts_of(model: SlicedModel) -> dict[str, list[Part]]:
    """Return the parts of every parameter that is cut, in order."""
    found: dict[str, list[Part]] = {}
    for part in sorted(model.parts.values(), key=lambda part: part.block):
        found.setdefault(part.parameter, []).append(part)
    return found


def _put_together(parts: list[Part], weights: Weights) -> torch.Tensor:
    (axis, _, _), *_ = parts[0].block
    return torch.cat([weights[part.name] for part in parts], dim=axis)
