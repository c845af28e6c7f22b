"""Bytes inside lanes that convolutional layers send otherwise than the cost model counts them, and why.

Statistics by channel go once for all samples of a microbatch, where every sample is counted. Rows of
neighbours follow strides and unequal pieces (`run.sharded.halos`), where half a window each way is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from math import prod

from explorer.base.units import dtype_bytes
from explorer.graph import COMPUTE, Layer, LayerGraph
from explorer.run.cases.build import Prepared
from explorer.run.lane_layout import LaneLayout
from explorer.run.sharded.halos import rows_sent, window_of
from explorer.sharding.conv import WINDOWS
from explorer.sharding.reshard import wire_factor
from explorer.sharding.result import Collective
from explorer.sharding.states import runs
from explorer.tasks.program import HOST, B, F, I, U

CORNERS = "corners"
"""Operation under which ranks count what a second direction brings besides its own rows."""
_STATISTICS = "statistics by channel are of all samples at once, and counted for each sample in fp32"
_ROWS = "rows of neighbours that strides and unequal pieces need, where half a window each way is counted"
_IN_TURN = "sums over several mesh axes go over one after the other, and are counted as one over all devices"
_CORNERS = "corners of images that are cut both ways"


def known_places(prepared: Prepared, corners: int) -> list[tuple[str, float]]:
    """Return (reason, bytes) of what layers over places send otherwise.

    Args:
        prepared: the case, priced.
        corners: bytes of corners that ranks sent.
    """
    found: Counter[str] = Counter()
    graph, model = prepared.prices.pricer.graph, prepared.case.model
    layers = graph.layer
    if not isinstance(model, LaneLayout) or not model.axes:
        return []
    for item, samples, forward in _collectives(prepared):
        scalars = wire_factor(item.op, item.size) * item.elements_per_sample * prepared.case.lane_ranks
        width = dtype_bytes(prepared.job.precision)
        word = width if item.dtype == COMPUTE else dtype_bytes(item.dtype)
        if item.op == "all_reduce" and _by_channel(layers[item.layer]):
            found[_STATISTICS] += scalars * (max(width, word) - samples * word)  # type: ignore[assignment]
        elif item.op == "halo":
            share = _share(graph, layers[item.layer], model, item, forward=forward)
            found[_ROWS] += scalars * samples * (share - 1) * word  # type: ignore[assignment]
    found[_CORNERS] += corners
    found[_IN_TURN] += _in_turn(prepared) * prepared.case.lane_ranks  # type: ignore[assignment]
    return [(why, float(count)) for why, count in found.items() if count]


def _collectives(prepared: Prepared) -> Iterator[tuple[Collective, float, bool]]:
    """Yield every collective of every action, with its samples, and whether it is one of a forward."""
    program, pricer, placement = prepared.program, prepared.prices.pricer, prepared.placement
    names = [{pricer.graph.layers[i].name for i in own.tolist()} for own in placement.layers]
    for number in program.slot.tolist():
        slot = program.slots[number]
        if not number or slot.kind not in (F, B, I) or slot.part == HOST:
            continue
        shards, again = pricer.shards(slot.where), prepared.case.skeleton.sections[slot.where].full_recompute
        ways = [True] if slot.kind == F else [True, False] if again else [False]
        for forward in ways:
            for item in shards.forward if forward else shards.backward:
                if item.layer in names[slot.where]:
                    yield item, slot.samples, forward


def _in_turn(prepared: Prepared) -> float:
    """Return the bytes of a rank for sums before updates beyond those of one sum over all axes at once."""
    program, pricer, total = prepared.program, prepared.prices.pricer, 0.0
    for number in program.slot.tolist():
        slot = program.slots[number]
        if not number or slot.kind != U or not (parameters := pricer.unreduced(slot.where)):
            continue
        for sums, count in pricer.gradients(slot.where, parameters):
            sizes = [size for _, size in sums]
            total += count * sum(wire_factor("all_reduce", size) for size in sizes)
            total -= count * wire_factor("all_reduce", prod(sizes))
    return total


def _by_channel(layer: Layer) -> bool:
    fixed = {dim.name for dim in layer.dims if not dim.splittable}
    return layer.kind == "norm" and not (layer.parameters and set(layer.parameters[0].dims) & fixed)


def _share(graph: LayerGraph, layer: Layer, model: LaneLayout, item: Collective, *, forward: bool) -> float:
    """Return the rows that go from rank to rank over those that are counted."""
    own = [layout for names, layout in model.exceptions if any(fnmatchcase(layer.name, n) for n in names)]
    pairs = own[0] if own else model.layout
    size = {dim.name: int(dim.size) for dim in layer.dims}
    dim = next(d for d in WINDOWS if (d, item.axis) in pairs and size.get(WINDOWS[d], 1) > 1)
    rows, uneven = (_lengths(graph, layer, dim), dict(model.uneven))
    pieces = [runs(count, item.size, uneven.get(item.axis, ())) for count in rows]
    sent = rows_sent(window_of(*rows, size[WINDOWS[dim]]), *pieces)[not forward]
    found = sent / (2 * (item.size - 1) * (size[WINDOWS[dim]] // 2))
    for other, axis in pairs:  # of rows that are cut as well the longest pieces are counted
        if other in WINDOWS and axis != item.axis and other in size:
            count, n = _lengths(graph, layer, other)[not forward], dict(model.axes)[axis]
            found *= count / (n * max(high - low for low, high in runs(count, n, uneven.get(axis, ()))))
    return found


def _lengths(graph: LayerGraph, layer: Layer, dim: str) -> tuple[int, int]:
    """Return the places along a dimension of what a layer reads, and of what it writes."""
    read, written = (
        int(graph.tensor[use.name].shape[use.dims.index(dim)]) for use in (layer.reads[0], layer.writes[0])
    )
    return read, written
