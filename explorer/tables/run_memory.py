"""Memory of runs: bytes by part of many runs of layers at once.

Counts of a run (`explorer.costs.memory_counts`) hold for every recomputation, ZeRO level and precision, so
they are kept by sharding alone; `memory_of` turns those of many runs into bytes at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

import numpy as np

from explorer.costs.memory import StageMemory
from explorer.costs.memory_counts import Counts, Weights, carved_of, counts
from explorer.costs.memory_peaks import TensorSize
from explorer.graph import LayerGraph
from explorer.pricing.layer_columns import FloatArray
from explorer.sharding import ShardedLayers
from explorer.tasks.skeleton import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMemory:
    """Bytes of many runs of layers on one device, arrays by run: the fields of `StageMemory`."""

    weight_bytes: FloatArray
    gradient_bytes: FloatArray
    optimizer_bytes: FloatArray
    version_bytes: FloatArray
    activation_bytes_per_sample: FloatArray
    recompute_peak_bytes_per_sample: FloatArray
    waiting_bytes_per_sample: FloatArray
    recompute_rest_bytes_per_sample: FloatArray
    recompute_whole_bytes_per_sample: FloatArray
    buffer_bytes: FloatArray
    run_buffer_bytes: FloatArray
    buffer_bytes_per_sample: FloatArray

    @staticmethod
    def of(memory: StageMemory, runs: int) -> RunMemory:
        """Return the bytes of so many runs; where `memory` has one number it holds for all of them."""
        found: dict[str, FloatArray] = {
            item.name: np.broadcast_to(np.asarray(getattr(memory, item.name), dtype=float), (runs,))
            for item in fields(memory)
        }
        return RunMemory(**found)

    def at(self, run: int) -> StageMemory:
        """Return the bytes of one run."""
        return StageMemory(**{item.name: float(getattr(self, item.name)[run]) for item in fields(self)})


class RunCounts:
    """Counts of runs of layers of a graph under one sharding, each counted once."""

    def __init__(self, graph: LayerGraph, shards: ShardedLayers) -> None:
        self._graph, self._shards = graph, shards
        self._names = tuple(layer.name for layer in graph.layers)
        self._known: dict[tuple[int, int], Counts] = {}
        self._carved = sorted({1.0, *np.unique(carved_of(shards)).tolist()})

    def of(self, start: int, stop: int) -> Counts:
        """Return the counts of one run."""
        known = self._known.get((start, stop))
        if known is None:
            known = counts(self._graph, self._names[start:stop], self._shards, (), ())
            self._known[start, stop] = known
        return known

    def runs(self, starts: IntArray, stops: IntArray) -> Counts:
        """Return the counts of many runs, in which every number is an array by run."""
        pairs = np.stack([starts, stops], axis=1)
        distinct, place = np.unique(pairs, axis=0, return_inverse=True)
        found = [self.of(*pair) for pair in distinct.tolist()]
        stacked: Counts = _taken(self._stacked(found), place.reshape(-1))
        return stacked

    def _stacked(self, found: list[Counts]) -> Counts:
        def sizes(items: Iterable[TensorSize]) -> TensorSize:
            table = np.array(list(items), dtype=float).reshape(-1, 2)
            return _sizes(table[:, 0], table[:, 1])

        def by_choice(items: Iterable[Mapping[str, TensorSize]]) -> dict[str, TensorSize]:
            rows = list(items)
            return {name: sizes(row[name] for row in rows) for name in rows[0]}

        return Counts(
            weights=tuple(self._weights(found, carved) for carved in self._carved),
            held=np.zeros(0),
            largest_block=sizes(item.largest_block for item in found),
            largest_gathered=sizes(item.largest_gathered for item in found),
            saved=by_choice(item.saved for item in found),
            again=by_choice(item.again for item in found),
            again_for_inputs=by_choice(item.again_for_inputs for item in found),
            waiting=sizes(item.waiting for item in found),
            working=by_choice(item.working for item in found),
            placeholders=sizes(item.placeholders for item in found),
            exchanged=sizes(item.exchanged for item in found),
            passing=sizes(item.passing for item in found),
            border=sizes(item.border for item in found),
            logits=_number(np.array([item.logits for item in found])),
        )

    def _weights(self, found: list[Counts], carved: float) -> Weights:
        """Return the parameters of one number of replicas, 0 where a run has none of them."""
        none = Weights(carved, TensorSize(), TensorSize(), TensorSize(), 0.0, 0.0, 0.0)
        rows = [next((row for row in item.weights if row.carved == carved), none) for item in found]
        table = np.array(
            [(*r.trained, *r.frozen, *r.touched, r.fixed_states, r.fixed_masters, r.updated) for r in rows]
        ).T
        trained, frozen, touched = (_sizes(table[k], table[k + 1]) for k in (0, 2, 4))
        states, masters, updated = (_number(table[k]) for k in (6, 7, 8))
        return Weights(carved, trained, frozen, touched, states, masters, updated)


def _number(values: FloatArray) -> float:
    """Return an array where a number is expected: formulas of costs take either."""
    return cast(float, values)


def _sizes(compute: FloatArray, fixed_bytes: FloatArray) -> TensorSize:
    return TensorSize(_number(compute), _number(fixed_bytes))


def _taken(value: Any, place: IntArray) -> Any:
    """Return counts of arrays at some places."""
    if isinstance(value, np.ndarray):
        return value[place] if len(value) else value
    if isinstance(value, Mapping):
        return {name: _taken(item, place) for name, item in value.items()}
    if isinstance(value, TensorSize):
        return TensorSize(*(_taken(item, place) for item in value))
    if isinstance(value, Weights):
        return Weights(value.carved, *(_taken(item, place) for item in value[1:]))
    if isinstance(value, tuple):
        return tuple(_taken(item, place) for item in value)
    return Counts(**{item.name: _taken(getattr(value, item.name), place) for item in fields(value)})
