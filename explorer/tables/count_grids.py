"""Count grids: the counts of memory (`explorer.costs.memory_counts`) of every run of whole units at once.

Every count is a sum of items that a run touches, each once, or a maximum over its units; `pair_grids` and
`peak_grids` fill one square array for each. A few runs have no such form; they are told apart, and asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from explorer.base.caching import MEBIBYTE, remembered
from explorer.costs.memory_arrays import BoolArray, FloatArray, GraphArrays, IntArray, graph_arrays
from explorer.costs.memory_counts import Counts, carved_of
from explorer.costs.memory_peaks import exchange_sizes, kept_twice, product_sizes
from explorer.graph import LayerGraph
from explorer.sharding import ShardedLayers
from explorer.strategies.cuts import units as units_of
from explorer.tables.pair_grids import (
    Largest,
    Members,
    dropped_grid,
    first_largest,
    group_sizes,
    largest_grid,
    members_of,
    rectangle_sums,
    union_grids,
)
from explorer.tables.peak_grids import peak_grid

MOST_UNITS = 256
"""Units of a model whose runs are all counted at once: 10 MiB for so many, 3 MiB for 130."""
GRID_BYTES = 96 * MEBIBYTE
"""Bytes of the grids that are remembered; a grid takes some 50 ms to make again."""
SIZES = (
    "largest block", "largest gathered", "saved none", "saved selective", "saved full", "again selective",
    "again full", "again for inputs selective", "again for inputs full", "waiting", "working none", "working",
    "placeholders", "exchanged", "passing", "border",
)  # fmt: skip
"""Names of the sizes of a run, of scalars and of fixed bytes each."""
WEIGHTS = 9
"""Numbers of `Weights` besides its number of replicas: three sizes of two, and three."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountGrids:
    """Counts of the runs of units."""

    bounds: IntArray
    """First layer of each unit, and the number of layers."""
    values: FloatArray
    """Shape (names, runs), named by `names_of`; runs by first unit, then by the unit behind (`place`)."""
    unknown: BoolArray
    """Runs whose counts have to be asked."""

    def place(self, start: IntArray, stop: IntArray) -> IntArray:
        """Return the places of the runs from some units to before others."""
        return start * (2 * len(self.bounds) - start - 1) // 2 + stop - start - 1


@remembered(256, most_bytes=GRID_BYTES)
def count_grids(graph: LayerGraph, shards: ShardedLayers) -> CountGrids | None:
    """Return the counts of all runs of units; None for models to which the forms do not apply.

    These have too many units, blocks in several pieces, tensors that are read before they are written, or
    state what selective recomputation keeps although they have no blocks.
    """
    found = _Units.of(graph)
    if found is None:
        return None
    counting = _Counting(graph, shards, found)
    return counting.grids() if counting.equal_products else None


def names_of(carved: tuple[float, ...]) -> tuple[str, ...]:
    """Return the names of the numbers of a run; those of `Weights` come for every number of replicas."""
    sizes = [f"{name} {part}" for name in SIZES for part in ("compute", "fixed")]
    return (*sizes, "logits", *(f"weights {fewer} {k}" for fewer in carved for k in range(WEIGHTS)))


def numbers_of(found: Counts, carved: tuple[float, ...]) -> FloatArray:
    """Return the numbers of one run, in the order of `names_of`."""
    sizes = {
        "largest block": found.largest_block,
        "largest gathered": found.largest_gathered,
        **{f"saved {name}": size for name, size in found.saved.items()},
        **{f"again {name}": size for name, size in found.again.items()},
        **{f"again for inputs {name}": size for name, size in found.again_for_inputs.items()},
        "waiting": found.waiting,
        "working none": found.working["none"],
        "working": found.working["full"],
        "placeholders": found.placeholders,
        "exchanged": found.exchanged,
        "passing": found.passing,
        "border": found.border,
    }
    rows = {item.carved: item for item in found.weights}
    weights: list[float] = []
    for fewer in carved:
        row = rows.get(fewer)
        weights += (*row.trained, *row.frozen, *row.touched, *row[4:]) if row else (0.0,) * WEIGHTS
    return np.array([*(part for name in SIZES for part in sizes[name]), found.logits, *weights], dtype=float)


class _Units(NamedTuple):
    """The units of a graph."""

    unit: IntArray
    """Per layer its unit."""
    bounds: IntArray
    blocks: BoolArray
    """Per unit whether it is a block."""

    @staticmethod
    def of(graph: LayerGraph) -> _Units | None:
        return graph.memo("table units", lambda: _find_units(graph))


def _find_units(graph: LayerGraph) -> _Units | None:
    spans, arrays = units_of(graph), graph_arrays(graph)
    bounds = np.array([start for start, _ in spans] + [len(graph.layers)], dtype=np.int64)
    blocks = arrays.block[bounds[:-1]] >= 0
    whole = len(np.unique(arrays.block[arrays.block >= 0])) == int(blocks.sum())
    ordered = all(
        bool((arrays.writer[pairs.item] <= pairs.layer).all()) for pairs in (arrays.touches, arrays.saves)
    )
    stated = arrays.policy is not None and not blocks.any()
    if len(spans) > MOST_UNITS or not whole or not ordered or stated:
        return None
    return _Units(np.repeat(np.arange(len(spans)), np.diff(bounds)), bounds, blocks)


class _Counting:
    """Grids of one graph under one sharding, filled one after another."""

    def __init__(self, graph: LayerGraph, shards: ShardedLayers, units: _Units) -> None:
        self.graph, self.shards, self.units = graph, shards, units
        self.arrays: GraphArrays = graph_arrays(graph)
        self.count = len(units.bounds) - 1
        arrays, share = self.arrays, shards.tensor_share
        self.held = np.stack([arrays.compute * share, arrays.fixed * share])
        self.gradient = self.held * arrays.gradient
        self.writer = np.where(arrays.writer >= 0, units.unit[arrays.writer], -1)
        self.saves = self._members("saves", arrays.saves.layer, arrays.saves.item)
        self.late = self._members("late", arrays.saves_for_weights.layer, arrays.saves_for_weights.item)
        self.reads = self._members("reads", arrays.reads.layer, arrays.reads.item)
        self.found: dict[str, FloatArray] = {}

    @property
    def equal_products(self) -> bool:
        """Whether weights of equal name and shape leave equal placeholders, whichever of them a run has."""
        names, sizes = product_sizes(self.graph, self.arrays, self.shards.holdings.fraction)
        mine = names >= 0
        return bool((_of_each(names, sizes)[:, names[mine]] == sizes[:, mine]).all())

    def grids(self) -> CountGrids:
        twice = self._by_layer(kept_twice(self.graph, self.shards))
        self._put("saved none", self._union(self.saves, self.held) + twice)
        self._selective(twice)
        if self.units.blocks.any():
            self._full()
        else:
            self._full_without_blocks()
        self._waiting()
        unknown = self._working()
        self._weights()
        self._other()
        blocks = np.concatenate([[0], np.cumsum(self.units.blocks)])
        bare = (blocks[None, :] == blocks[:, None]) & bool(blocks[-1])
        carved = tuple(sorted({1.0, *np.unique(carved_of(self.shards)).tolist()}))
        runs = np.triu_indices(len(self.units.bounds), 1)
        return CountGrids(
            bounds=self.units.bounds, unknown=(unknown | bare)[runs],
            values=np.stack([self.found[name][runs] for name in names_of(carved)]),
        )  # fmt: skip

    # ---- activations -----------------------------------------------------------------------------------

    def _selective(self, twice: FloatArray) -> None:
        arrays = self.arrays
        if arrays.policy is None:
            self._put("saved selective", self._union(self.saves, self.held * ~arrays.inner) + twice)
            inner = self.held * arrays.inner
            self._largest("again selective", largest_grid(self._sums(self.saves, inner)))
            self._largest(
                "again for inputs selective", dropped_grid(self.saves, inner, self.late, self.count)
            )
            return
        touched = self._members(
            "touched",
            np.concatenate([arrays.touches.layer, arrays.saves.layer]),
            np.concatenate([arrays.touches.item, arrays.saves.item]),
        )
        kept = self._union(touched, self.held * arrays.policy)
        inputs = self._inputs()
        self._put("saved selective", kept + self._union(inputs, self.held * ~arrays.policy) + twice)
        self._dropped("selective", self.held * ~arrays.policy, inputs)

    def _full(self) -> None:
        inputs = self._inputs()
        self._put("saved full", self._union(inputs, self.held))
        self._dropped("full", self.held, inputs)

    def _dropped(self, name: str, weights: FloatArray, inputs: Members) -> None:
        """Count what blocks drop: no inputs of a block, and for input gradients nothing that W reads."""
        block = self.units.blocks[self.saves.unit]
        pairs = Members(self.saves.unit[block], self.saves.item[block])
        self._largest(f"again {name}", dropped_grid(pairs, weights, inputs, self.count))
        makers = self.graph.memo("members inputs or late", lambda: _either(inputs, self.late))
        self._largest(f"again for inputs {name}", dropped_grid(pairs, weights, makers, self.count))

    def _inputs(self) -> Members:
        """Return the inputs of blocks, and what layers outside of blocks save."""
        arrays, block = self.arrays, self.arrays.block
        layer, item = arrays.reads.layer, arrays.reads.item
        writer = arrays.writer[item]
        read = (block[layer] >= 0) & ~((writer >= 0) & (block[writer] == block[layer]))
        bare = block[arrays.saves.layer] < 0
        return self._members(
            "inputs",
            np.concatenate([layer[read], arrays.saves.layer[bare]]),
            np.concatenate([item[read], arrays.saves.item[bare]]),
        )

    def _full_without_blocks(self) -> None:
        """Count what runs without blocks recompute: at once, all that they save besides their inputs."""
        self._put("saved full", self._union(self.reads, self.held, self.writer))
        saves, late = self._union(self.saves, self.held), self._union(self.late, self.held)

        def read_of(members: Members) -> FloatArray:
            """Sum members of which a run has a reader as well, if these were written before it."""
            both = members_of(
                np.concatenate([members.unit, self.reads.unit]),
                np.concatenate([members.item, self.reads.item]),
            )
            apart = self._union(members, self.held, self.writer) + self._union(
                self.reads, self.held, self.writer
            )
            return apart - self._union(both, self.held, self.writer)

        read, read_late = read_of(self.saves), read_of(self.late)
        self._put("again full", saves - read)
        self._put("again for inputs full", saves - late - read + read_late)

    def _waiting(self) -> None:
        arrays = self.arrays
        made = (arrays.writer >= 0) & arrays.puts_off[arrays.writer]
        readers = np.zeros(len(self.graph.layers), dtype=bool)
        readers[arrays.saves_for_weights.layer] = True
        per_unit = group_sizes(self.writer[made], self.gradient[:, made], self.count)
        twice = self._by_layer(kept_twice(self.graph, self.shards) * readers)
        self._put("waiting", self._union(self.late, self.held) + self._by_unit(per_unit) + twice)

    def _working(self) -> BoolArray:
        """Count gradients under way; return the runs in which they are unknown."""
        peaks, unknown = peak_grid(
            self.graph, self.shards.tensor_share, self.units.unit, self.units.bounds[:-1]
        )
        self._largest("working none", peaks)
        self._largest("working", self._largest_layers(self.gradient))
        self._largest("passing", self._largest_layers(self.held))
        return unknown

    def _largest_layers(self, sizes: FloatArray) -> Largest:
        touches = self.arrays.touches
        each = group_sizes(touches.layer, sizes[:, touches.item], len(self.graph.layers))
        return largest_grid(first_largest(self.units.unit, each, self.count))

    # ---- parameters ------------------------------------------------------------------------------------

    def _weights(self) -> None:
        arrays, table = self.arrays, self.arrays.weight
        part = self.shards.holdings.fraction
        uses = self._members("uses", arrays.uses.layer, arrays.uses.item)
        carved = carved_of(self.shards)
        trained = part * table["trainable"]
        touched = trained * table["density"]
        rows = np.stack(
            [
                *(table[name] * share for share in (trained, part - trained, touched)
                  for name in ("compute", "fixed")),
                table["states"] * trained, table["masters"] * trained,
                (table["compute"] + table["states"]) * touched,
            ]
        )  # fmt: skip
        for fewer in sorted({1.0, *np.unique(carved).tolist()}):
            grids = union_grids(uses, rows * (carved == fewer), self.count)
            for k, grid in enumerate(grids):
                self.found[f"weights {fewer} {k}"] = grid
        for name, share in (("largest block", trained), ("largest gathered", part)):
            sizes = np.stack([table["compute"] * share, table["fixed"] * share])
            self._largest(name, largest_grid(self._sums(uses, sizes)))
        names, placeholders = product_sizes(self.graph, arrays, part)
        mine = names[arrays.uses.item] >= 0
        members = self._members("products", arrays.uses.layer[mine], names[arrays.uses.item[mine]])
        self._put("placeholders", self._union(members, _of_each(names, placeholders)))

    # ---- the rest --------------------------------------------------------------------------------------

    def _other(self) -> None:
        arrays = self.arrays
        sizes = exchange_sizes(self.graph, self.shards)
        per_unit = np.maximum.reduceat(sizes, self.units.bounds[:-1], axis=2)
        none = np.zeros(self.count)
        grids = [[largest_grid(np.stack([row, none])).compute for row in both] for both in per_unit]
        self._put("exchanged", np.stack([gathers + scatters for gathers, scatters in grids]))
        self._put("border", self._border())
        loss = arrays.is_loss[arrays.reads.layer]
        read = self._members("losses", arrays.reads.layer[loss], arrays.reads.item[loss])
        self.found["logits"] = union_grids(read, self.held[:1], self.count)[0]

    def _border(self) -> FloatArray:
        """Count tensors that a run writes and others read, and gradients of what it reads of others."""
        furthest = np.full(len(self.writer), -1)
        np.maximum.at(furthest, self.reads.item, self.reads.unit)
        sent = np.flatnonzero((self.writer >= 0) & (furthest > self.writer))
        written = self.writer[sent]
        here = rectangle_sums(
            np.zeros_like(sent), written + 1, written + 1, furthest[sent] + 1, self.held[:, sent], self.count
        )
        made = self.writer[self.reads.item] >= 0
        read = Members(self.reads.unit[made], self.reads.item[made])
        return here + self._union(read, self.gradient, self.writer)

    # ---- how ------------------------------------------------------------------------------------------

    def _put(self, name: str, grids: FloatArray) -> None:
        self.found[f"{name} compute"], self.found[f"{name} fixed"] = grids

    def _largest(self, name: str, grid: Largest) -> None:
        self._put(name, np.stack(grid))

    def _members(self, name: str, layer: IntArray, item: IntArray) -> Members:
        unit = self.units.unit
        return self.graph.memo(f"members {name}", lambda: members_of(unit[layer], item))

    def _union(self, members: Members, weights: FloatArray, after: IntArray | None = None) -> FloatArray:
        return union_grids(members, weights, self.count, after)

    def _sums(self, members: Members, weights: FloatArray) -> FloatArray:
        return group_sizes(members.unit, weights[:, members.item], self.count)

    def _by_layer(self, values: FloatArray) -> FloatArray:
        return self._by_unit(np.add.reduceat(values, self.units.bounds[:-1], axis=1))

    def _by_unit(self, values: FloatArray) -> FloatArray:
        """Sum values of units (k, units) over runs."""
        prefix = np.concatenate([np.zeros((len(values), 1)), np.cumsum(values, axis=1)], axis=1)
        found: FloatArray = prefix[:, None, :] - prefix[:, :, None]
        return found


def _either(one: Members, other: Members) -> Members:
    """Return the members of either."""
    return members_of(np.concatenate([one.unit, other.unit]), np.concatenate([one.item, other.item]))


def _of_each(names: IntArray, sizes: FloatArray) -> FloatArray:
    """Return the sizes of the first parameter of each number, shape (2, numbers)."""
    numbers, first = np.unique(names, return_index=True)
    found = sizes[:, first]
    return found[:, numbers >= 0]
