"""Result of sharding: shares and collectives of the layers of one stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
FloatArray = npt.NDArray[np.float64]


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
class ShardedLayers:
    """Some layers under a layout: what one device computes, holds and sends. Equal only to itself."""

    layers: tuple[str, ...]
    """Names of the layers, in model order."""
    work: FloatArray
    """For each layer of the graph, the share of its work that one device does; 1 for layers not in
    `layers`."""
    split: FloatArray
    """Shares of batch, columns and depth of each layer's matrix products, shape (3, layers of the graph)."""
    parameter_fraction: Mapping[str, float]
    """Share of each parameter that one device holds."""
    parameter_axes: Mapping[str, tuple[str, ...]]
    """Mesh axes that split each parameter: devices with equal coordinates on them hold the same shard."""
    partial_sums: Mapping[str, tuple[tuple[str, int], ...]]
    """(mesh axis, devices to add) of trainable parameters whose gradient is a partial sum inside a
    replica."""
    carved: Mapping[str, float]
    """For parameters on another mesh than the stage's: how many times fewer replicas they have than the
    stage."""
    tensor_fraction: Mapping[str, float]
    """Share of each tensor that one device stores when it is saved or sent, for tensors these layers
    touch."""
    forward: tuple[Collective, ...]
    """Collectives of the forward, in layer order."""
    backward: tuple[Collective, ...]
    """Collectives of the backward, in its order."""
    regather: tuple[Collective, ...]
    """All-gathers that the backward repeats because the tensor is saved split. Megatron hides them behind the
    input gradient, so they are not in `backward`."""
    tensor_share: FloatArray
    """Like `tensor_fraction`, for every tensor of the graph under the same layout."""
    notes: tuple[str, ...] = ()
    """Remarks for users: sizes that do not divide or are too small to split."""
    _memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def partial_gradients(self) -> frozenset[str]:
        """Parameters whose gradient is a partial sum over a mesh axis inside the replica."""
        return frozenset(self.partial_sums)

    def memo(self, key: Any, make: Callable[[], T]) -> T:
        """Return a value derived from these layers, made once; `key` names it."""
        if key not in self._memo:
            self._memo[key] = make()
        value: T = self._memo[key]
        return value
