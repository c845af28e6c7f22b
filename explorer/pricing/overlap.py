"""Overlap: which collectives inside a lane are hidden behind which layers, and for how long.

Over n devices, a collective that is cut into n parts runs behind the product that it feeds or comes from,
all but one of its parts during that work. With `comm` and `work` seconds alone

    together = work + max(0, comm - (n-1)/n work)        between max(comm, work) and that plus work / n

    tiles             gathers behind the products that read them, reductions behind the product that writes
                      them, forward and backward (Wang et al., Overlap Communication with Dependent
                      Computation via Decomposition, 2023; Flux, arXiv:2406.06858; torch's async TP)
    weight_gradient   reductions of input gradients behind the weight gradients of the same layers, whole
                      (Megatron-LM's asynchronous linear layers): work + max(0, comm - work)
    ring              blocks of keys and values passed on, always behind the attention on the block at hand;
                      backward the last pass of their gradients is not hidden

While a device communicates, its work takes `DeviceKind.overlap_slowdown` longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from explorer.base.caching import MEBIBYTE, remembered
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import FloatArray, Inside
from explorer.sharding import ShardedLayers
from explorer.sharding.result import Kind, Sends
from explorer.strategy import WEIGHT_GRADIENT
from explorer.tasks.skeleton import IntArray

PRODUCTS = frozenset({"linear", "matmul", "einsum", "experts", "conv"})
"""Kinds of layers that can work on a part of their inputs and outputs."""

_FORWARD, _INPUT, _WEIGHT = range(3)
_ITSELF, _READERS, _WRITER = range(3)
_RINGS = ("ring", "ring_gradient")
_REDUCTIONS = ("reduce_scatter", "all_reduce")


class Hidden(NamedTuple):
    """Seconds of collectives that work hides, less the seconds by which that work slows down."""

    forward_s: float = 0.0
    input_grad_s: float = 0.0
    recompute_s: float = 0.0
    weight_grad_s: float = 0.0
    """Hidden behind weight gradients; only if one backward makes both gradients."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Beside:
    """Collectives of one way that run behind the work of layers, as arrays by collective."""

    payer: IntArray
    """Layer that waits for the collective."""
    kind: IntArray
    """Its kind, a position in `Inside.kinds`."""
    hideable: FloatArray
    """Share of its seconds that work may hide."""
    overlap: FloatArray
    """Share of the work that may hide it."""
    work: IntArray
    """Which gradient or forward the work is: a row of the table of layer times."""
    pairs: tuple[IntArray, IntArray]
    """(collective, layer behind which it runs)."""

    def hidden(self, comm_s: FloatArray, times: FloatArray, share: FloatArray) -> float:
        """Sum the seconds hidden in some layers.

        Args:
            comm_s: seconds of every kind of collective.
            times: (3, layers) seconds of work.
            share: per layer the part of it that is on the device and works.
        """
        collective, layer = self.pairs
        work = times[self.work[collective], layer] * share[layer]
        behind = np.bincount(collective, weights=work, minlength=len(self.kind)) * self.overlap
        return float(np.minimum(comm_s[self.kind] * self.hideable * share[self.payer], behind).sum())


@remembered(256, most_bytes=16 * MEBIBYTE)
def beside_of(
    graph: LayerGraph, shards: ShardedLayers, inside: Inside, overlap: tuple[tuple[str, str], ...]
) -> tuple[Beside | None, Beside | None, Beside | None]:
    """Find the collectives that run behind the forward, behind input gradients and behind weight gradients.

    Args:
        graph: the model.
        shards: sharding of all of it.
        inside: its collectives.
        overlap: (mesh axis, `tiles` or `weight_gradient`).
    """
    how = dict(overlap)
    forward = [_behind(kind, how.get(kind[1], ""), backward=False) for kind in inside.kinds]
    backward = [_behind(kind, how.get(kind[1], ""), backward=True) for kind in inside.kinds]
    return (
        _table(graph, inside.kinds, shards.sends[0], forward, _FORWARD),
        _table(graph, inside.kinds, shards.sends[1], backward, _INPUT),
        _table(graph, inside.kinds, shards.sends[1], backward, _WEIGHT),
    )


class _Behind(NamedTuple):
    """How collectives of a kind may be hidden."""

    work: int
    """Forward or gradient behind which they run."""
    where: int
    """Behind which layers: `_ITSELF`, `_READERS` or `_WRITER` of the tensor."""
    whole: bool
    """Whether all of the work may hide them; otherwise all but one part."""


def _behind(kind: Kind, how: str, *, backward: bool) -> _Behind | None:
    """Return how collectives of a kind may be hidden; None if they may not."""
    way, op = _INPUT if backward else _FORWARD, kind[0]
    if op in _RINGS:
        return _Behind(way, _ITSELF, whole=False)
    gathers = op == "all_gather"
    if not how or not (gathers or op in _REDUCTIONS):
        return None
    if how == WEIGHT_GRADIENT:
        return _Behind(_WEIGHT, _READERS, whole=True) if backward and not gathers else None
    # a gradient goes the other way
    return _Behind(way, _READERS if gathers != backward else _WRITER, whole=False)


class _Products(NamedTuple):
    """Layers that work may be hidden behind, by tensor."""

    writer: IntArray
    """The product that writes it; -1 if none does."""
    first: IntArray
    """Where its readers begin in `readers`; one more at the end."""
    readers: IntArray
    """The products that read tensors, tensor by tensor."""
    dtypes: tuple[str, ...]
    """Data types of tensors."""
    dtype: IntArray
    """Position of its data type; one more at the end, for no tensor."""


def _products(graph: LayerGraph) -> _Products:
    products = {item.name: i for i, item in enumerate(graph.layers) if item.kind in PRODUCTS}
    readers = [
        [products[name] for name in graph.consumers.get(item.name, ()) if name in products]
        for item in graph.tensors
    ]
    dtypes = tuple(dict.fromkeys(item.dtype for item in graph.tensors))
    return _Products(
        writer=np.array([products.get(graph.producer.get(item.name, ""), -1) for item in graph.tensors]),
        first=np.cumsum([0, *map(len, readers)]),
        readers=np.array([i for found in readers for i in found], dtype=np.int64),
        dtypes=dtypes,
        dtype=np.array([*(dtypes.index(item.dtype) for item in graph.tensors), -1]),
    )


def _table(
    graph: LayerGraph,
    kinds: tuple[Kind, ...],
    sends: Sends,
    behind: Sequence[_Behind | None],
    work: int,
) -> Beside | None:
    chosen = [(k, item) for k, item in enumerate(behind) if item and item.work == work]
    pairs = [_pairs(graph, kinds[k], item, np.flatnonzero(sends.kind == k), sends) for k, item in chosen]
    if not sum(len(row) for row, _ in pairs):
        return None
    row, layer = (np.concatenate(column) for column in zip(*pairs, strict=True))
    order = np.argsort(row, kind="stable")
    rows, collective = np.unique(row[order], return_inverse=True)
    kind = sends.kind[rows]
    sizes = np.array([item[2] for item in kinds], dtype=np.float64)[kind]
    whole = np.array([item is not None and item.whole for item in behind])[kind]
    last = np.array([item[0] == "ring_gradient" for item in kinds])[kind]
    return Beside(
        payer=sends.layer[rows],
        kind=kind,
        hideable=np.where(last, (2 * sizes - 2) / (2 * sizes - 1), 1.0),
        overlap=np.where(whole, 1.0, (sizes - 1) / sizes),
        work=np.full(len(rows), work),
        pairs=(collective, layer[order]),
    )


def _pairs(
    graph: LayerGraph, kind: Kind, behind: _Behind, rows: IntArray, sends: Sends
) -> tuple[IntArray, IntArray]:
    """Return (collective, layer behind which it runs) of the collectives of a kind, in order."""
    if behind.where == _ITSELF:
        return rows, sends.layer[rows]
    products = graph.memo("overlap.products", lambda: _products(graph))
    if kind[4] not in products.dtypes:
        return rows[:0], rows[:0]
    # of another type than their tensor are statistics inside a layer
    rows = rows[products.dtype[sends.tensor[rows]] == products.dtypes.index(kind[4])]
    tensor = sends.tensor[rows]
    if behind.where == _WRITER:
        found = products.writer[tensor] >= 0
        return rows[found], products.writer[tensor[found]]
    count = products.first[tensor + 1] - products.first[tensor]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(rows, count), products.readers[np.repeat(products.first[tensor], count) + within]


def hidden_seconds(
    ways: tuple[Beside | None, Beside | None, Beside | None],
    comm_s: FloatArray,
    times: FloatArray,
    share: FloatArray,
    again: FloatArray,
    slowdown: float,
) -> Hidden:
    """Return the seconds that some layers save because their collectives run behind their work.

    Args:
        ways: the result of `beside_of`.
        comm_s: seconds of every kind of collective.
        times: (3, layers) seconds of work.
        share: per layer of the graph the part on this device.
        again: as `share`, the part that a backward recomputes.
        slowdown: how much longer work takes meanwhile.
    """
    forward, input_grad, weight_grad = ways
    gain = 1.0 - slowdown

    def seconds(way: Beside | None, part: FloatArray) -> float:
        return gain * way.hidden(comm_s, times, part) if way else 0.0

    return Hidden(
        seconds(forward, share), seconds(input_grad, share), seconds(forward, again),
        seconds(weight_grad, share),
    )  # fmt: skip
