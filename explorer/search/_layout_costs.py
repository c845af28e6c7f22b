"""Costs of whole models under one layout, as the tables of stages have them (`explorer.tables`).

A layout says how the devices of a pipeline position share every layer: tensor, context and expert degrees.
Bytes of a run depend on which units follow one another in it, not on where it starts: a model of equal blocks
has a few hundred different runs, whichever way it is cut, which are remembered one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster import Cluster
from explorer.graph import Layer, LayerGraph
from explorer.strategies.cuts import units
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.tables import Estimator, StageChoice

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Key = tuple[tuple[int, int], ...]
"""A run of units: (kind of unit, how many in a row)."""


class RunBytes(NamedTuple):
    """Bytes that one device holds of a run of units."""

    states: float
    """Of weights, gradients and optimizer states, without ZeRO."""
    activations: float
    """Of one sample, from forward to backward."""


class LayoutCosts:
    """Costs of a model under one layout on devices of one cluster.

    Args:
        estimator: estimates of plans on the devices of an order, with their table.
        layout: degrees of which only tensor, context and expert parallelism count.
    """

    def __init__(self, estimator: Estimator, layout: Degrees) -> None:
        self.estimator, self.layout = estimator, layout
        self.table = estimator.table
        self.graph, self.job, self.cluster = self.table.graph, self.table.job, self.table.cluster
        self._choice = StageChoice.of(layout)
        self.table.sharding(self._choice)  # raises where the model cannot be laid out like this
        self.places = self._find_places(self.table.devices)
        self._totals: dict[tuple[int, int], FloatArray] = {}
        self._bytes: dict[tuple[Key, int], RunBytes] = {}
        self._starts, self._kinds = _unit_kinds(self.graph)
        self._keys: dict[tuple[int, int], Key] = {}

    @property
    def row(self) -> int:
        """Devices of one replica at a pipeline position."""
        return self.layout.context * self.layout.tensor

    # ---- seconds ------------------------------------------------------------------------------------

    def _find_places(self, devices: tuple[int, ...]) -> list[int]:
        """Return the first rank of each different place of a row of devices."""
        known: dict[object, int] = {}
        last = len(devices) - self._choice.devices
        for first in range(0, len(devices) - self.row + 1, self.row):
            known.setdefault(_signature_of_row(self.cluster, devices[first : first + self.row]), first)
            if _regular(self.cluster, devices, self.row):
                break
        return [min(first, last) for first in known.values()]

    def total_s(self, samples: int, place: int) -> FloatArray:
        """Return the seconds of one microbatch in all layers, by recomputation: no more than of any cut."""
        key = samples, place
        if key not in self._totals:
            self._totals[key] = self._total_s(samples, place)
        return self._totals[key]

    def _total_s(self, samples: int, place: int) -> FloatArray:
        first, stop = np.array([0]), np.array([len(self.graph.layers)])
        found = []
        for recompute in RECOMPUTE:
            choice = replace(
                self._choice, first=self.places[place], recompute=recompute, microbatch_size=samples
            )
            times = self.table.seconds(choice, first, stop)
            seconds = float(times.forward_s[0])
            if self.job.training:
                whole = times.input_grad_s + times.weight_grad_s + times.recompute_s - times.behind_weight_s
                seconds += float(whole[0])
            found.append(seconds)
        return np.array(found)

    # ---- bytes --------------------------------------------------------------------------------------

    def bytes_of(self, runs: Sequence[tuple[int, int]], recompute: str) -> list[RunBytes]:
        """Return the bytes of runs of layers, from first to before stop, both ends between units."""
        level = RECOMPUTE.index(recompute)
        keys = [(self._key(*run), level) for run in runs]
        new = {key: run for key, run in zip(keys, runs, strict=True) if key not in self._bytes}
        if new:
            starts, stops = np.array(list(new.values())).T
            found = self.table.memory(replace(self._choice, recompute=recompute), starts, stops)
            states = found.weight_bytes + found.gradient_bytes + found.optimizer_bytes
            both = zip(states.tolist(), found.activation_bytes_per_sample.tolist(), strict=True)
            self._bytes.update(zip(new, (RunBytes(*pair) for pair in both), strict=True))
        return [self._bytes[key] for key in keys]

    def _key(self, first: int, stop: int) -> Key:
        at = first, stop
        if at not in self._keys:
            a, b = np.searchsorted(self._starts, at)
            self._keys[at] = tuple((kind, len(list(run))) for kind, run in groupby(self._kinds[a:b]))
        return self._keys[at]


def _regular(cluster: Cluster, devices: tuple[int, ...], size: int) -> bool:
    """Tell whether all rows of so many devices surely lie alike."""
    sizes = {group.devices_per_node for group in cluster.nodes}
    node = min(sizes)
    return (
        len(cluster.device_kinds) == 1
        and len(sizes) == 1
        and not cluster.links
        and (node % size == 0 or size % node == 0)
        and devices[0] % node == 0
        and devices == tuple(range(devices[0], devices[0] + len(devices)))
    )


def _signature_of_row(cluster: Cluster, devices: tuple[int, ...]) -> object:
    """Return what decides the links of a row: kinds, which share a node, and where in it if that matters."""
    nodes = [cluster.node_of(device) for device in devices]
    number = {node: i for i, node in enumerate(dict.fromkeys(nodes))}
    within = tuple(devices) if cluster.links else ()
    return tuple(cluster.kind_of(device).name for device in devices), tuple(number[n] for n in nodes), within


def _unit_kinds(graph: LayerGraph) -> tuple[IntArray, list[int]]:
    """Return the first layer of every unit (and the number of layers), and numbers equal for equal units."""

    def make() -> tuple[IntArray, list[int]]:
        known: dict[object, int] = {}
        spans = units(graph)
        shared = _shared_parameters(graph)
        kinds = [known.setdefault(_signature(graph, a, b, shared), len(known)) for a, b in spans]
        return np.array([a for a, _ in spans] + [len(graph.layers)]), kinds

    return graph.memo("search.unit_kinds", make)


def _shared_parameters(graph: LayerGraph) -> frozenset[str]:
    seen: set[str] = set()
    several: set[str] = set()
    for layer in graph.layers:
        for use in layer.parameters:
            (several if use.name in seen else seen).add(use.name)
    return frozenset(several)


def _signature(graph: LayerGraph, first: int, stop: int, shared: frozenset[str]) -> object:
    """Return what decides the bytes of a unit in any run: its layers without names, and how they are linked.

    A unit that holds parameters or tensors which layers of units further away use as well equals no other.
    """
    if any(use.name in shared for layer in graph.layers[first:stop] for use in layer.parameters):
        return first
    return tuple(_layer_signature(graph, graph.layers[i], i) for i in range(first, stop))


def _layer_signature(graph: LayerGraph, layer: Layer, at: int) -> object:
    def tensor(name: str) -> object:
        item = graph.tensor[name]
        made = graph.producer.get(name)
        read = tuple(graph.index[reader] - at for reader in graph.consumers.get(name, ()))
        return item.shape, item.dtype, item.backward, made is not None and graph.index[made] - at, read

    return (
        layer.kind, layer.dims, layer.forward, layer.input_grad, layer.weight_grad, layer.trips,
        layer.selective,
        tuple((tensor(use.name), use.dims) for use in (*layer.reads, *layer.writes)),
        tuple(map(tensor, layer.saves)), layer.last_read_by, layer.causal, layer.gradient_passes,
        tuple((graph.parameter[use.name].shape, graph.parameter[use.name].dtype,
               graph.parameter[use.name].trainable, graph.parameter[use.name].density, use.dims)
              for use in layer.parameters),
    )  # fmt: skip
