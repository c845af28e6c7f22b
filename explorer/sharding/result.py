"""Result of sharding: shares and collectives of the layers of one stage.

Costs read columns (`Sends`, `Holdings`): one row per collective, one per parameter. Names, for people and
for checks, are looked up when asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from explorer.base.caching import Owner
from explorer.graph import LayerGraph
from explorer.sharding.layer_plan import Held

T = TypeVar("T")
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

Kind: TypeAlias = tuple[str, str, int, float, str]
"""Facts that decide the price of a collective: (op, axis, devices along it, elements per sample, data
type)."""


class Collective(NamedTuple):
    """A collective over one mesh axis, for one sample of a replica."""

    op: str
    """all_reduce, reduce_scatter, all_gather, all_to_all, halo (to each neighbour along the axis), ring or
    ring_gradient (blocks passed on from device to device)."""
    axis: str
    """Mesh axis, one of the mesh of `layer`."""
    tensor: str
    """Tensor, or in the backward the tensor whose gradient is sent; for a collective inside `layer`, its
    first read."""
    layer: str
    """Layer that waits for it: the reader forward, the writer backward (the other end if that one is
    outside)."""
    elements_per_sample: float
    """Buffer per sample: the whole buffer of all_reduce, all_gather and reduce_scatter, the local one of
    all_to_all, what goes to one neighbour in a halo, all blocks of a ring together."""
    dtype: str
    """Data type name, or `compute`."""
    size: int
    """Number of devices along the axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Another layout, or another mesh over the same devices, for some layers of a stage."""

    layers: tuple[str, ...]
    """Layer names or shell patterns."""
    layout: tuple[tuple[str, str], ...] = ()
    """(dimension, mesh axis) pairs; () replicates."""
    sizes: tuple[tuple[str, int], ...] | None = None
    """Axes of the override's mesh; None for the stage's. An axis that the stage lacks is carved out of its
    replicas."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sends:
    """Collectives of some layers in one direction, in its order: a row for each."""

    layer: IntArray
    """Layer that waits for it."""
    tensor: IntArray
    """Tensor it is about; -1 for one inside a layer that reads nothing."""
    kind: IntArray
    """Position in `ShardedLayers.kinds`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Holdings:
    """What one device holds of every parameter of a graph, if some layers are there."""

    table: tuple[Held, ...]
    """Different holdings."""
    number: IntArray
    """Per parameter its place in `table`; -1 if none of the layers uses it."""
    fraction: FloatArray
    """Per parameter the share that a device holds; 1 if none of the layers uses it."""
    carved: FloatArray
    """Per parameter how many times fewer replicas it has than the stage; below 1 if more."""
    summed: BoolArray
    """Per parameter whether it is trained and its gradient is a partial sum inside a replica."""
    order: IntArray
    """Parameters of the layers, in the order of their first use."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ShardedLayers(Owner):
    """Some layers under a layout: what one device computes, holds and sends. Equal only to itself."""

    graph: LayerGraph
    """The model that they belong to."""
    layers: tuple[str, ...]
    """Names of the layers, in model order."""
    work: FloatArray
    """For each layer of the graph, the share of its work that one device does; 1 for layers not in
    `layers`."""
    split: FloatArray
    """Shares of batch, columns and depth of each layer's matrix products, shape (3, layers of the graph)."""
    tensor_share: FloatArray
    """Share of every tensor of the graph that one device stores when it is saved or sent."""
    alike: IntArray | None
    """Per layer of the graph a number, equal only where `work` and `split` are; None if not all are here."""
    touched: IntArray
    """Tensors that these layers read or write, in order."""
    kinds: tuple[Kind, ...]
    """Different collectives, in the order of their first use."""
    sends: tuple[Sends, Sends, Sends]
    """Collectives of the forward, of the backward, and gathers that the backward repeats unseen."""
    holdings: Holdings
    """Parameters as columns."""
    notes: tuple[str, ...] = ()
    """Remarks for users: sizes that do not divide or are too small to split."""
    _memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def forward(self) -> tuple[Collective, ...]:
        """Collectives of the forward, in layer order."""
        return self.memo("forward", lambda: self._named(self.sends[0]))

    @property
    def backward(self) -> tuple[Collective, ...]:
        """Collectives of the backward, in its order."""
        return self.memo("backward", lambda: self._named(self.sends[1]))

    @property
    def regather(self) -> tuple[Collective, ...]:
        """All-gathers that the backward repeats because the tensor is saved split.

        Megatron hides them behind the input gradient, so they are not in `backward`.
        """
        return self.memo("regather", lambda: self._named(self.sends[2]))

    def _named(self, sends: Sends) -> tuple[Collective, ...]:
        layers, tensors, found = self.graph.layers, self.graph.tensors, []
        for i, t, k in zip(sends.layer.tolist(), sends.tensor.tolist(), sends.kind.tolist(), strict=True):
            op, axis, size, elements, dtype = self.kinds[k]
            name = tensors[t].name if t >= 0 else ""
            found.append(Collective(op, axis, name, layers[i].name, elements, dtype, size))
        return tuple(found)

    @property
    def parameter_fraction(self) -> Mapping[str, float]:
        """Share of each parameter that one device holds."""
        return self.memo("parameter_fraction", lambda: self._by_name(lambda item: item.fraction))

    @property
    def parameter_axes(self) -> Mapping[str, tuple[str, ...]]:
        """Mesh axes that split each parameter: devices with equal coordinates on them hold the same shard."""
        return self.memo("parameter_axes", lambda: self._by_name(lambda item: item.axes))

    @property
    def partial_sums(self) -> Mapping[str, tuple[tuple[str, int], ...]]:
        """(mesh axis, devices to add) of trainable parameters whose gradient is a partial sum inside a
        replica.
        """
        return self.memo("partial_sums", lambda: self._by_name(lambda item: item.sums, self.holdings.summed))

    @property
    def carved(self) -> Mapping[str, float]:
        """For parameters on another mesh than the stage's: how many times fewer replicas they have."""

        def make() -> dict[str, float]:
            order, carved = self.holdings.order.tolist(), self.holdings.carved
            return {self.graph.parameters[p].name: float(carved[p]) for p in order if carved[p] != 1.0}

        return self.memo("carved by name", make)

    def _by_name(self, value: Callable[[Held], T], chosen: BoolArray | None = None) -> dict[str, T]:
        held, parameters = self.holdings, self.graph.parameters
        order = held.order if chosen is None else held.order[chosen[held.order]]
        table = [value(item) for item in held.table]
        return {parameters[p].name: table[n] for p, n in zip(order, held.number[order], strict=True)}

    @property
    def tensor_fraction(self) -> Mapping[str, float]:
        """Share of each tensor that one device stores when it is saved or sent, for tensors these layers
        touch.
        """

        def make() -> dict[str, float]:
            shares = self.tensor_share[self.touched].tolist()
            names = [self.graph.tensors[t].name for t in self.touched.tolist()]
            return dict(zip(names, shares, strict=True))

        return self.memo("tensor_fraction", make)

    @property
    def partial_gradients(self) -> frozenset[str]:
        """Parameters whose gradient is a partial sum over a mesh axis inside the replica."""
        return frozenset(self.partial_sums)
