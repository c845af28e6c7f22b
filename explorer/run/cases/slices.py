"""Slices: units and keys of a case whose plan cuts layers over stages, with the ranges of the cost model.

Fractions of a plan become whole places of the layers that run. What a rank cannot compute so, or one process
cannot judge, is refused in one line before anything starts; whether a layer's operators give the same in
parts as whole is tried in `run.own.slices_check`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from explorer.actions import Order
from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph, Use
from explorer.run.model import ModelSpec
from explorer.run.own.blocks import Block
from explorer.run.own.own_model import OwnModel
from explorer.run.own.sliced_model import LayerSlice, Passed, SlicedModel, fields_of
from explorer.run.sharded.layout_model import LayoutModel
from explorer.strategy import ACTIVATIONS, JobStrategy, Slice
from explorer.tasks.flows import DUST, Ranges
from explorer.tasks.placement import PlacedStrategy
from explorer.updates import PLAIN

WAY_OUT = "whole layers, or --engine likeness"


class SlicedUnits(NamedTuple):
    """What a case with slices runs."""

    model: SlicedModel
    """The model, with a unit for every slice."""
    sections: tuple[tuple[int, ...], ...]
    """Per section: its units."""
    flow_units: tuple[tuple[int, ...], ...]
    """Per flow: the keys of what it carries."""


def is_cut(strategy: JobStrategy) -> bool:
    """Tell whether a strategy cuts layers over stages."""
    return any(stage.slices for stage in strategy.stages)


def sliced_units(
    model: ModelSpec | OwnModel | LayoutModel,
    graph: LayerGraph,
    strategy: JobStrategy,
    placement: PlacedStrategy,
    order: Order,
) -> SlicedUnits:
    """Return the units and keys of a strategy that cuts layers over stages.

    Args:
        model: whole layers.
        graph: their graph, by whose dimensions the strategy cuts.
        strategy: the strategy.
        placement: its sections and flows.
        order: the order in which they run.

    Raises:
        InputError: layers, or a strategy, that cannot be run in slices.
    """
    if not isinstance(model, OwnModel):
        _refuse("only a model's own layers run in slices", type(model).__name__)
    _require_plain(model, strategy, placement, order)
    stages, slices = layer_slices(graph, strategy)
    first = len(model.layers)
    unit_at = {(s, item.layer): first + i for i, (s, item) in enumerate(zip(stages, slices, strict=True))}

    def unit(section: int, layer: int) -> int:
        return unit_at.get((placement.skeleton.sections[section].stage, layer), layer)

    carried = list(_carried(model, graph, placement, unit_at))
    own = [
        Passed(model.number_of[use.name], first + i, item.block(use.name))
        for i, item in enumerate(slices)
        for use in graph.layers[item.layer].writes
        if use.name in model.number_of
    ]
    passed = dict.fromkeys([*own, *(item for keys in carried for item in keys)])
    cut = {name for item in slices for name in model.parameters[item.layer] if item.block(name)}
    made = SlicedModel(
        **fields_of(model), slices=slices, passed=tuple(x for x in passed if _is_part(x, first)),
        shapes=tuple((name, tuple(map(round, graph.parameter[name].shape))) for name in sorted(cut)),
    )  # fmt: skip
    sections = tuple(
        tuple(unit(section, layer) for layer in layers.tolist())
        for section, layers in enumerate(placement.layers)
    )
    _require_one_version(made, sections, order)
    keys = tuple(tuple(sorted(made.key_of.get(x, x.tensor) for x in items)) for items in carried)
    return SlicedUnits(made, sections, keys)


def layer_slices(graph: LayerGraph, strategy: JobStrategy) -> tuple[tuple[int, ...], tuple[LayerSlice, ...]]:
    """Return the slices of a strategy in the order of layers and of their parts, and the stage of each.

    Raises:
        InputError: a part that is no whole places of its layer's tensors, or no unit by itself.
    """
    parts = [(s, part) for s, stage in enumerate(strategy.stages) for part in stage.slices]
    parts.sort(key=lambda item: (graph.index[item[1].layer], item[1].start))
    twice = [key for key, n in Counter((s, part.layer) for s, part in parts).items() if n > 1]
    if twice:
        _refuse(f"stage {twice[0][0]} has two slices of layer {twice[0][1]!r}", twice[0][1], "one slice")
    return tuple(s for s, _ in parts), tuple(_layer_slice(graph, part) for _, part in parts)


def _carried(
    model: OwnModel, graph: LayerGraph, placement: PlacedStrategy, unit_at: dict[tuple[int, int], int]
) -> Iterator[tuple[Passed, ...]]:
    """Yield, per flow, what it carries, with the ranges that the cost model counts."""
    index, producer = graph.index, graph.producer
    flows = zip(placement.skeleton.flows, placement.flow_tensors, placement.flow_ranges, strict=True)
    for flow, tensors, ranges in flows:
        stage = placement.skeleton.sections[flow.source].stage
        found = []
        for (tensor, _), part in zip(tensors, ranges, strict=True):
            item = graph.tensors[tensor]
            layer = index[producer[item.name]]
            block = _block(graph.layers[layer].name, item.name, item.shape, part)
            unit = unit_at.get((stage, layer), layer)
            found.append(Passed(model.number_of[item.name], unit, block))
        yield tuple(found)


def _is_part(item: Passed, layers: int) -> bool:
    """Tell whether something has a key of its own: a whole layer's whole tensor has its number."""
    return bool(item.block) or item.unit >= layers


def _layer_slice(graph: LayerGraph, part: Slice) -> LayerSlice:
    layer = graph.layer[part.layer]
    if layer.kind == "loss":
        _refuse(f"the loss {layer.name!r} is no sum of its parts along {part.dim!r}", layer.name)
    _require_alone(graph, layer, part)
    shapes = [
        *((use, graph.tensor[use.name].shape) for use in (*layer.reads, *layer.writes)),
        *((use, graph.parameter[use.name].shape) for use in layer.parameters),
    ]
    places = tuple((use.name, _touched(layer.name, use, shape, part)) for use, shape in shapes)
    return LayerSlice(
        graph.index[layer.name], part.dim, part.start == 0, tuple(item for item in places if item[1]),
        all(part.dim not in use.dims for use in layer.writes),
    )  # fmt: skip


def _touched(layer: str, use: Use, shape: Sequence[float], part: Slice) -> Block:
    if part.dim not in use.dims:
        return ()
    return _block(layer, use.name, shape, ((use.dims.index(part.dim), part.start, part.stop),))


def _block(layer: str, name: str, shape: Sequence[float], ranges: Ranges) -> Block:
    """Return whole places for fractions of the axes of a tensor.

    Raises:
        InputError: a cut inside of a place.
    """
    found = []
    for axis, start, stop in ranges:
        size = round(shape[axis])
        low, high = round(start * size), round(stop * size)
        near = max(1e-6, DUST * size)  # fractions of plans are rounded
        wrong = next((f for f, at in ((start, low), (stop, high)) if abs(f * size - at) > near), None)
        if wrong is not None or low == high:
            _refuse(
                f"layer {layer!r} cannot be cut at {start if wrong is None else wrong!r}: {name!r} has {size}"
                " places along that axis", layer, f"multiples of 1/{size}, or --engine likeness",
            )  # fmt: skip
        found.append((axis, low, high))
    return tuple(found)


def _require_alone(graph: LayerGraph, layer: Layer, part: Slice) -> None:
    """Refuse to cut a parameter that another layer uses: nobody would add up the gradients of its parts."""
    for use in layer.parameters:
        users = [item.name for item in graph.layers if any(p.name == use.name for p in item.parameters)]
        if part.dim in use.dims and len(users) > 1:
            other = next(name for name in users if name != layer.name)
            _refuse(f"layer {layer.name!r} shares {use.name!r}, which is cut, with {other!r}", layer.name)


def _require_plain(model: OwnModel, strategy: JobStrategy, placement: PlacedStrategy, order: Order) -> None:
    """Refuse what slices do not run beside.

    Raises:
        InputError: lanes of several ranks, weights sharded over replicas, activations on the host, another
            exchange than of plain gradients, or sweeps.
    """
    zero = any(section.zero and section.shards > 1 for section in placement.skeleton.sections)
    offload = any(ACTIVATIONS in stage.offload for stage in strategy.stages)
    reasons = (
        (model.lane_ranks > 1 or bool(model.spread), "on lanes of several ranks"),
        (any(stage.shardings for stage in strategy.stages), "beside layers laid out apart"),
        (zero, "beside ZeRO"),
        (offload, "beside activations on the host"),
        (any(group.update != PLAIN for group in placement.skeleton.holders), "under an update rule"),
        (any(action.sweep for lane in order.lanes for action in lane), "in an order with sweeps"),
    )
    for is_so, where in reasons:
        if is_so:
            names = sorted({part.layer for stage in strategy.stages for part in stage.slices})
            _refuse(f"layer {names[0]!r}, cut into slices, cannot be run yet {where}", names[0])


def _require_one_version(model: SlicedModel, sections: Sequence[Sequence[int]], order: Order) -> None:
    """Refuse weights that several sections hold whole where each may read another version of them: no model
    in one process has the two at once.
    """
    if order.flush and order.read_rule.name == "latest":
        return
    held = Counter(name for units in sections for name in model.parameters_of(units))
    if shared := [name for name, count in held.items() if count > 1]:
        _refuse(
            f"{shared[0]!r} is held whole by several stages, which read different versions of it"
            f" ({order.read_rule.name})", shared[0],
            "a schedule with flushes, a cut along a dimension of it, or --engine likeness",
        )  # fmt: skip


def _refuse(why: str, found: str, allowed: str = WAY_OUT) -> NoReturn:
    raise InputError(why, key="slices", found=found, allowed=allowed)
