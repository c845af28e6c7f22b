"""Memory of runs: bytes by part of many runs of layers at once.

Counts of a run (`explorer.costs.memory_counts`) hold for every recomputation, ZeRO level and precision, so
they are kept by sharding alone; `memory_of` turns those of many runs into bytes at once.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import cast

import numpy as np

from explorer.costs.memory import StageMemory
from explorer.costs.memory_counts import Counts, Weights, carved_of, counts
from explorer.costs.memory_peaks import TensorSize
from explorer.graph import LayerGraph
from explorer.pricing.layer_columns import FloatArray
from explorer.sharding import ShardedLayers
from explorer.tables.count_grids import WEIGHTS, count_grids, names_of, numbers_of
from explorer.tables.positions import Positions, cuts_of
from explorer.tasks.skeleton import IntArray

LISTS_KEPT, LONGEST_KEPT = 64, 1024
"""Lists of runs whose counts are remembered by sharding, and the runs of the longest: 20 MiB at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMemory:
    """Bytes of many runs of layers on one device, arrays by run: the fields of `StageMemory`."""

    weight_bytes: FloatArray
    gradient_bytes: FloatArray
    optimizer_bytes: FloatArray
    version_bytes: FloatArray
    activation_bytes_per_sample: FloatArray
    recompute_peak_bytes_per_sample: FloatArray
    recompute_in_turn_bytes_per_sample: FloatArray
    waiting_bytes_per_sample: FloatArray
    recompute_rest_bytes_per_sample: FloatArray
    recompute_whole_bytes_per_sample: FloatArray
    buffer_bytes: FloatArray
    run_buffer_bytes: FloatArray
    buffer_bytes_per_sample: FloatArray

    @staticmethod
    def of(memory: StageMemory, runs: int) -> RunMemory:
        """Return the bytes of so many runs; where `memory` has one number it holds for all of them."""
        return RunMemory(**{item.name: _of_all(getattr(memory, item.name), runs) for item in fields(memory)})

    def at(self, run: int) -> StageMemory:
        """Return the bytes of one run."""
        return StageMemory(**{item.name: float(getattr(self, item.name)[run]) for item in fields(self)})


def _of_all(value: float | FloatArray, runs: int) -> FloatArray:
    known = isinstance(value, np.ndarray) and len(value) == runs
    return value if known else np.full(runs, value)  # type: ignore[return-value]


class RunCounts:
    """Counts of runs under one sharding: of whole units they come from grids, of others they are asked."""

    def __init__(self, graph: LayerGraph, shards: ShardedLayers, positions: Positions | None = None) -> None:
        """Count the runs of whole units.

        Args:
            graph: the model.
            shards: how it is sharded.
            positions: where runs start and stop; None for cuts in the order of the model. Of others all
                are asked.
        """
        self._graph, self._shards = graph, shards
        self._layers = tuple(layer.name for layer in graph.layers)
        self._asked: dict[tuple[int, int], FloatArray] = {}
        self._lists: dict[tuple[bytes, bytes], Counts] = {}
        self._carved = tuple(sorted({1.0, *np.unique(carved_of(shards)).tolist()}))
        self._names = names_of(self._carved)
        self._positions = positions or cuts_of(graph)

    def runs(self, starts: IntArray, stops: IntArray) -> Counts:
        """Return the counts of many runs, in which every number is an array by run.

        Planners ask of few lists of runs under many choices, so the last lists are remembered.
        """
        key = starts.tobytes(), stops.tobytes()
        known = self._lists.get(key)
        if known is None:
            known = self._find(starts, stops)
            if len(self._lists) >= LISTS_KEPT:
                self._lists.clear()
            if len(starts) <= LONGEST_KEPT:
                self._lists[key] = known
        return known

    def _find(self, starts: IntArray, stops: IntArray) -> Counts:
        table = np.empty((len(self._names), len(starts)))
        unknown = np.ones(len(starts), dtype=bool)
        grids = count_grids(self._graph, self._shards) if self._positions.ordered else None
        if grids is not None:
            unit = np.full(len(self._layers) + 1, -1, dtype=np.int64)
            unit[grids.bounds] = np.arange(len(grids.bounds))
            i, j = unit[starts], unit[stops]
            place = np.where((i < 0) | (j < 0), 0, grids.place(i, j))
            unknown = (i < 0) | (j < 0) | grids.unknown[place]
            table[:] = grids.values[:, place]
        for run in np.flatnonzero(unknown).tolist():
            table[:, run] = self._ask(int(starts[run]), int(stops[run]))
        table.flags.writeable = False
        return self._counts(dict(zip(self._names, table, strict=True)))

    def _ask(self, start: int, stop: int) -> FloatArray:
        known = self._asked.get((start, stop))
        if known is None:
            names = tuple([self._layers[i] for i in self._positions.layers(start, stop).tolist()])
            found = counts(self._graph, names, self._shards, (), ())
            known = self._asked[start, stop] = numbers_of(found, self._carved)
        return known

    def _counts(self, rows: dict[str, FloatArray]) -> Counts:
        def size(name: str) -> TensorSize:
            return TensorSize(_number(rows[f"{name} compute"]), _number(rows[f"{name} fixed"]))

        none = TensorSize(_number(np.zeros(1)), _number(np.zeros(1)))
        chosen = ("selective", "full")
        return Counts(
            weights=tuple(_weights(rows, carved) for carved in self._carved),
            held=np.zeros(0),
            largest_block=size("largest block"),
            largest_gathered=size("largest gathered"),
            saved={name: size(f"saved {name}") for name in ("none", *chosen)},
            again={"none": none, **{name: size(f"again {name}") for name in chosen}},
            again_for_inputs={"none": none, **{name: size(f"again for inputs {name}") for name in chosen}},
            waiting=size("waiting"),
            working={"none": size("working none"), **dict.fromkeys(chosen, size("working"))},
            placeholders=size("placeholders"),
            exchanged=size("exchanged"),
            passing=size("passing"),
            border=size("border"),
            logits=_number(rows["logits"]),
        )


def _weights(rows: dict[str, FloatArray], carved: float) -> Weights:
    found = [_number(rows[f"weights {carved} {k}"]) for k in range(WEIGHTS)]
    sizes = [TensorSize(*found[k : k + 2]) for k in (0, 2, 4)]
    return Weights(carved, sizes[0], sizes[1], sizes[2], *found[6:])


def _number(values: FloatArray) -> float:
    """Return an array where a number is expected: formulas of costs take either."""
    return cast(float, values)
