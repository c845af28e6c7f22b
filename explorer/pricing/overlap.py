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

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from explorer.base.caching import remembered
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import FloatArray, Inside, Kind, kind_of
from explorer.sharding import Collective, ShardedLayers
from explorer.strategy import WEIGHT_GRADIENT
from explorer.tasks.skeleton import IntArray

PRODUCTS = frozenset({"linear", "matmul", "einsum", "experts", "conv"})
"""Kinds of layers that can work on a part of their inputs and outputs."""

_FORWARD, _INPUT, _WEIGHT = range(3)
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


@remembered(256)
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
    forward = [_found(graph, item, how.get(item.axis, ""), backward=False) for item in shards.forward]
    backward = [_found(graph, item, how.get(item.axis, ""), backward=True) for item in shards.backward]
    number = {kind: k for k, kind in enumerate(inside.kinds)}

    def table(found: list[_Found | None], *rows: int) -> Beside | None:
        return _table(graph, number, [item for item in found if item and item.work in rows])

    return table(forward, _FORWARD), table(backward, _INPUT), table(backward, _WEIGHT)


class _Found(NamedTuple):
    item: Collective
    layers: tuple[str, ...]
    work: int
    whole: bool
    """Whether all of the work may hide it; otherwise all but one part."""


def _found(graph: LayerGraph, item: Collective, how: str, *, backward: bool) -> _Found | None:
    way = _INPUT if backward else _FORWARD
    if item.op in _RINGS:
        return _Found(item, (item.layer,), way, whole=False)
    tensor = graph.tensor.get(item.tensor)
    if not how or tensor is None or tensor.dtype != item.dtype:  # statistics inside a layer
        return None
    gathers = item.op == "all_gather"
    if not gathers and item.op not in _REDUCTIONS:
        return None
    if how == WEIGHT_GRADIENT:
        layers = _products(graph, graph.consumers.get(item.tensor, ())) if backward and not gathers else ()
        return _Found(item, layers, _WEIGHT, whole=True) if layers else None
    writer = graph.producer.get(item.tensor)
    readers_work = gathers != backward  # a gradient goes the other way
    names = graph.consumers.get(item.tensor, ()) if readers_work else ((writer,) if writer else ())
    layers = _products(graph, names)
    return _Found(item, layers, way, whole=False) if layers else None


def _products(graph: LayerGraph, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if graph.layer[name].kind in PRODUCTS)


def _table(graph: LayerGraph, number: dict[Kind, int], found: list[_Found]) -> Beside | None:
    if not found:
        return None
    sizes = np.array([entry.item.size for entry in found], dtype=np.float64)
    whole = np.array([entry.whole for entry in found])
    last = np.array([entry.item.op == "ring_gradient" for entry in found])
    pairs = [(k, graph.index[name]) for k, entry in enumerate(found) for name in entry.layers]
    collective, layer = np.array(pairs, dtype=np.int64).T
    return Beside(
        payer=np.array([graph.index[entry.item.layer] for entry in found]),
        kind=np.array([number[kind_of(entry.item)] for entry in found]),
        hideable=np.where(last, (2 * sizes - 2) / (2 * sizes - 1), 1.0),
        overlap=np.where(whole, 1.0, (sizes - 1) / sizes),
        work=np.array([entry.work for entry in found]),
        pairs=(collective, layer),
    )


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
