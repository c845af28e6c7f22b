"""Peak grids: the worst point of the backward of every run of units (`memory_peaks.backward_peak`).

With one more unit at its end a run's earlier layers free more: everything that only the new unit saves. So

    peak(i, j) = larger of  peak(i, j - 1) - saved only by unit j - 1,  and the peak inside unit j - 1

The latter depends on where the run starts only through the tensors of unit j - 1 that earlier units touch:
there are few different starts for each unit. If the new unit reads a tensor from before the run, its gradient
stays alive from the unit before that reads it: the peak inside that one, if it is the neighbour, is looked at
again; with other units between the two the formula does not hold.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.costs.memory_arrays import BoolArray, FloatArray, GraphArrays, IntArray, graph_arrays
from explorer.graph import LayerGraph
from explorer.tables.pair_grids import Largest, Members, key_of, members_of, union_grids


class _Spans(NamedTuple):
    """Tensors in the layers of units: a row for each (unit, tensor)."""

    unit: IntArray
    item: IntArray
    first: IntArray
    """First layer of the unit that has it, counted from the unit's first."""
    last: IntArray
    """Last such layer."""
    before: IntArray
    """The unit before that has it; -1 if none does."""
    behind: IntArray
    """The unit behind that has it; -1 if none does."""


class _Lives(NamedTuple):
    """Tensors that are alive in some layers of a unit, in one class of runs that end with it."""

    row: IntArray
    item: IntArray
    first: IntArray
    last: IntArray


class _Classes(NamedTuple):
    """Runs by their last unit, in classes of starts that make no difference to what is alive in it."""

    length: IntArray
    """Per class the layers of the unit."""
    place: IntArray
    """(first unit, last unit): class of the run."""
    alive: _Lives
    """Gradients."""
    read_on: _Lives
    """Gradients alive as well if the unit behind, which reads the same from before the run, is in the run."""
    freed: _Lives
    """Saved tensors that are gone by then."""
    kept: Members
    """Saved tensors by unit."""
    unknown: BoolArray
    """Runs in which two units, others between them, read one tensor from before the run."""


def peak_grid(
    graph: LayerGraph, share: FloatArray, unit: IntArray, starts: IntArray
) -> tuple[Largest, BoolArray]:
    """Return gradients alive less tensors freed at the worst point of every run, and where that is unknown.

    Args:
        graph: the model.
        share: per tensor the share that a device holds.
        unit: per layer its unit.
        starts: first layer of each unit.
    """
    arrays, units = graph_arrays(graph), len(starts)
    classes = graph.memo("peak classes", lambda: _classes(arrays, unit, starts))
    sizes = np.stack([arrays.compute * share, arrays.fixed * share])
    gradient = sizes * arrays.gradient
    alive = np.zeros((2, len(classes.length), int(classes.length.max()) + 1))
    _add(alive, gradient, classes.alive)
    _add(alive, -sizes, classes.freed)
    inside, read_on = _highest(alive, classes), None
    if len(classes.read_on.row):
        _add(alive, gradient, classes.read_on)
        read_on = _highest(alive, classes)
    kept = union_grids(classes.kept, sizes, units)
    peak = np.zeros((2, units + 1, units + 1))
    for j in range(1, units + 1):
        found = inside[:, :j, j - 1].copy()
        earlier = peak[:, : j - 1, j - 1]
        if read_on is not None and j > 1:
            earlier = _larger(earlier, read_on[:, : j - 1, j - 2])
        earlier = earlier - (kept[:, : j - 1, j] - kept[:, : j - 1, j - 1])
        found[:, :-1] = _larger(earlier, found[:, :-1])
        peak[:, :j, j] = found
    return Largest(peak[0], peak[1]), classes.unknown


def _larger(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the larger of sizes (2, n); of equals the first."""
    return np.where(key_of(one[0], one[1]) >= key_of(other[0], other[1]), one, other)


def _add(found: FloatArray, sizes: FloatArray, lives: _Lives) -> None:
    """Add sizes from the first layer of lives on, and take them away behind the last."""
    width = found.shape[2]
    for k, size in enumerate(sizes):
        amount = size[lives.item]
        flat = np.bincount(lives.row * width + lives.first, weights=amount, minlength=found[k].size)
        flat -= np.bincount(lives.row * width + lives.last + 1, weights=amount, minlength=found[k].size)
        found[k] += flat.reshape(found[k].shape)


def _highest(changes: FloatArray, classes: _Classes) -> FloatArray:
    """Return the largest of sums up to each layer, the first of equals: (2, first unit, last unit)."""
    net = np.cumsum(changes, axis=2)[:, :, :-1]
    keys = key_of(net[0], net[1])
    keys[np.arange(keys.shape[1])[None, :] >= classes.length[:, None]] = -np.inf
    found: FloatArray = net[:, np.arange(len(classes.length)), np.argmax(keys, axis=1)]
    return found[:, classes.place]


# ---- what does not depend on sizes ----------------------------------------------------------------------


def _classes(arrays: GraphArrays, unit: IntArray, starts: IntArray) -> _Classes:
    units = len(starts)
    length = np.bincount(unit, minlength=units)
    writer = np.where(arrays.writer >= 0, unit[arrays.writer], -1)
    furthest = np.full(len(writer), -1)
    np.maximum.at(furthest, arrays.reads.item, unit[arrays.reads.layer])
    touched = _spans(arrays.touches.layer, arrays.touches.item, unit, starts, arrays.gradient)
    saved = _spans(arrays.saves.layer, arrays.saves.item, unit, starts, np.ones(len(writer), dtype=bool))
    passing = _passing(writer, furthest, arrays.gradient, touched, units)
    breaks = [
        (touched.unit, touched.before), (touched.unit, writer[touched.item]), (saved.unit, saved.before),
        (passing.unit, writer[passing.item]), (np.arange(units), np.arange(units)),
    ]  # fmt: skip
    flat = np.concatenate([u * units + start for u, start in breaks])
    valid = np.concatenate([(start >= 0) & (start <= u) for u, start in breaks])
    rows = np.unique(flat[valid])  # (unit, latest start of a class)
    row_unit, row_start = rows // units, rows % units
    first_row = np.searchsorted(row_unit, np.arange(units + 1))
    wanted = np.arange(units)[None, :] * units + np.arange(units)[:, None]  # (start, unit)
    row, k = _joined(touched.unit, first_row)
    start, item, end = row_start[row], touched.item[k], length[touched.unit[k]] - 1
    # from the unit's begin if touched before in the run, to its end if a later unit reads what the run writes
    first = np.where(touched.before[k] >= start, 0, touched.first[k])
    stays = (writer[item] >= start) & (furthest[item] > touched.unit[k])
    last = np.where(stays, end, touched.last[k])
    longer = ~stays & (touched.behind[k] == touched.unit[k] + 1) & (last < end)
    over, which = _joined(passing.unit, first_row)
    here = writer[passing.item[which]] >= row_start[over]
    over, which = over[here], which[here]
    # saved tensors are gone before the first layer of the run that saves them
    gone, s = _joined(saved.unit, first_row)
    new = (saved.before[s] < row_start[gone]) & (saved.first[s] > 0)
    gone, s = gone[new], s[new]
    return _Classes(
        length=length[row_unit],
        place=np.minimum(np.searchsorted(rows, wanted), len(rows) - 1),
        alive=_Lives(
            np.concatenate([row, over]), np.concatenate([item, passing.item[which]]),
            np.concatenate([first, np.zeros_like(over)]),
            np.concatenate([last, length[passing.unit[which]] - 1]),
        ),
        read_on=_Lives(row[longer], item[longer], last[longer] + 1, end[longer]),
        freed=_Lives(gone, saved.item[s], np.zeros_like(gone), saved.first[s] - 1),
        kept=Members(saved.unit, saved.item),
        unknown=_unknown(arrays, unit, writer, units),
    )  # fmt: skip


def _spans(layer: IntArray, item: IntArray, unit: IntArray, starts: IntArray, chosen: BoolArray) -> _Spans:
    kept = chosen[item]
    layer, item = layer[kept], item[kept]
    members = members_of(unit[layer], item)
    size = len(starts)
    place = np.searchsorted(members.item * size + members.unit, item * size + unit[layer])
    first = np.full(len(members.unit), np.iinfo(np.int64).max)
    last = np.full(len(members.unit), -1)
    np.minimum.at(first, place, layer)
    np.maximum.at(last, place, layer)
    begin = starts[members.unit]
    return _Spans(
        members.unit, members.item, first - begin, last - begin, members.previous, members.following(-1)
    )  # fmt: skip


def _passing(writer: IntArray, furthest: IntArray, chosen: BoolArray, touched: _Spans, units: int) -> Members:
    """Return the tensors that pass over a unit: written before it, read behind it, not touched in it."""
    item = np.flatnonzero(chosen & (writer >= 0) & (furthest > writer + 1))
    number = furthest[item] - writer[item] - 1
    row = np.repeat(np.arange(len(item)), number)
    unit = np.arange(len(row)) - np.repeat(np.cumsum(number) - number, number) + writer[item][row] + 1
    apart = ~np.isin(item[row] * units + unit, touched.item * units + touched.unit)
    return Members(unit[apart], item[row][apart])


def _joined(unit: IntArray, first_row: IntArray) -> tuple[IntArray, IntArray]:
    """Join spans with the rows of their units: (row, span) pairs."""
    number = first_row[unit + 1] - first_row[unit]
    span = np.repeat(np.arange(len(unit)), number)
    row = np.arange(len(span)) - np.repeat(np.cumsum(number) - number, number) + first_row[unit][span]
    return row, span


def _unknown(arrays: GraphArrays, unit: IntArray, writer: IntArray, units: int) -> BoolArray:
    read = arrays.gradient[arrays.reads.item]
    members = members_of(unit[arrays.reads.layer[read]], arrays.reads.item[read])
    found = np.zeros((units + 1, units + 1), dtype=bool)
    after, before = writer[members.item], members.previous
    apart = (before > after) & (members.unit > before + 1)
    for low, high, last in zip(*(x[apart].tolist() for x in (after, before, members.unit)), strict=True):
        found[low + 1 : high + 1, last + 1 :] = True
    return found
