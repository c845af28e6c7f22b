"""What is found out before slices of layers start: one line says which layer cannot be computed in parts.

Whether an operator may be cut along an axis is not read off its name: every cut layer runs once here, whole
and in its parts, on numbers drawn by lot, and both must give the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import torch

from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph
from explorer.run.cases.slices import layer_slices
from explorer.run.own.blocks import narrowed
from explorer.run.own.own_model import OwnModel
from explorer.run.own.sliced_layers import SlicedLayers, sliced_layers
from explorer.run.own.sliced_model import LayerSlice, SlicedModel, fields_of
from explorer.run.sharded.layout_units import WHOLE, alone
from explorer.run.sharded.own_check import BOUND, by_operators, drawn
from explorer.run.sharded.own_execution import OwnExecution
from explorer.strategy import JobStrategy

CPU = torch.device("cpu")


def require_slices(model: OwnModel, graph: LayerGraph, strategy: JobStrategy) -> None:
    """Refuse layers that give something else in the slices of a strategy than whole.

    Args:
        model: the layers.
        graph: their graph, by whose dimensions the strategy cuts.
        strategy: the strategy.

    Raises:
        InputError: such a layer.
    """
    _, slices = layer_slices(graph, strategy)
    units = sliced_layers(SlicedModel(**fields_of(model.whole), slices=slices))
    samples = max(max(1, stage.microbatch_samples // len(stage.meshes[0].rows)) for stage in strategy.stages)
    for layer, numbers in units.model.makers.items():
        cut = slices[numbers[0] - len(model.layers)]
        try:
            _require_outputs(units, units.graph.layers[layer], cut)
            _require_alike(units, layer, numbers, samples)
        except (InputError, RuntimeError, ValueError, IndexError) as error:
            why = _why(error, model.layers[layer])
            raise InputError(
                f"layer {model.layers[layer]!r} cannot run in slices along {cut.dim!r}: {why}", key="slices",
                found=model.layers[layer], allowed="another dimension, whole layers, or --engine likeness",
            ) from None  # fmt: skip


def _why(error: Exception, layer: str) -> str:
    if isinstance(error, InputError):
        return error.message.removeprefix(f"layer {layer!r} cannot be cut so: ")
    return f"its operators take no such parts ({str(error).splitlines()[0]})"


def _require_outputs(units: SlicedLayers, layer: Layer, cut: LayerSlice) -> None:
    """Refuse an output of the model that is a mean over samples, or lies otherwise than the layer made it."""
    program, written = units.own.program(1), {use.name for use in layer.writes}
    for node in program.outputs:
        name = program.tensor_at.get(node, "")
        if name not in written:
            continue
        if not program.shapes[name] or program.made_at[name] != node:
            _refuse(f"the model returns {name!r} as one number, or with other axes than it was made", cut)


def _require_alike(units: SlicedLayers, layer: int, numbers: Sequence[int], samples: int) -> None:
    """Refuse a layer whose parts do not give what it gives whole."""
    data = units.samples(0, samples, CPU)
    whole = OwnExecution(units.shapes(samples), units.graph, WHOLE, alone(CPU))
    item = units.graph.layers[layer]
    with torch.no_grad():
        reads, weights = drawn(whole, data, item)
        expected = by_operators(whole, item, reads, weights)
        rows = {use.name: x for use, x in zip(item.reads, reads, strict=True) if use.name not in data}
        named = {use.name: x for use, x in zip(item.parameters, weights, strict=True)}
        parts = [_part(units, unit, rows, named, data) for unit in numbers]
    for k, (use, other) in enumerate(zip(item.writes, expected, strict=True)):
        found = [part[k] for part in parts]
        cut = units.model.slices[numbers[0] - len(units.model.layers)]
        block = cut.block(use.name)
        one = torch.cat(found, dim=1 + block[0][0]) if block else torch.stack(found).sum(0)
        scale = max(float(other.abs().max()), 1e-30)
        if one.shape != other.shape or float((one - other).abs().max()) > BOUND[units.model.dtype] * scale:
            _refuse(f"its parts give another {use.name!r} than the whole", cut)


def _part(
    units: SlicedLayers,
    unit: int,
    rows: dict[str, torch.Tensor],
    weights: dict[str, torch.Tensor],
    data: dict[str, torch.Tensor],
) -> list[torch.Tensor]:
    """Return what a slice makes of its part of whole tensors."""
    cut = units.model.slices[unit - len(units.model.layers)]
    parameters = {
        part.name if part.block else part.parameter: narrowed(weights[part.parameter], part.block, 0)
        for part in units.model.parts_of(unit)
    }
    made = units.computed(
        unit, {name: narrowed(x, cut.block(name), 1) for name, x in rows.items()}, parameters, data
    )
    return list(made.values())


def _refuse(why: str, cut: LayerSlice) -> NoReturn:
    raise InputError(why, key="slices", found=cut.dim)
