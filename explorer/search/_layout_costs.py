"""Costs of any run of layers under one layout, as the tables of stages have them (`explorer.tables`).

A layout says how the devices of a pipeline position share every layer: tensor, context and expert degrees.
Bytes of a run depend on which units follow one another in it, not on where it starts: a model of equal blocks
has a few hundred different runs, whichever way it is cut, which are remembered one by one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.units import dtype_bytes
from explorer.cluster import Cluster
from explorer.graph import Layer, LayerGraph
from explorer.strategies.cuts import units
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.tables import StageChoice, StageTable
from explorer.workload import Job

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Key = tuple[tuple[int, int], ...]
"""A run of units: (kind of unit, how many in a row)."""


class StageSeconds(NamedTuple):
    """Seconds of one microbatch on every stage of a cut."""

    forward: FloatArray
    input_grad: FloatArray
    weight_grad: FloatArray
    again: FloatArray
    """Of recomputation."""
    hidden: FloatArray
    """Of the input gradient, if the weight gradient is made in the same backward."""

    @property
    def backward(self) -> FloatArray:
        """Seconds of whole backwards."""
        return self.input_grad + self.weight_grad + self.again - self.hidden


class RunBytes(NamedTuple):
    """Bytes that one device holds of a run of units."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    """Of one sample, from forward to backward."""
    buffers: float
    buffers_per_sample: float
    again_per_sample: float
    """Made again at once, of one sample."""


class LayoutCosts:
    """Costs of a model under one layout on devices of one cluster.

    Args:
        graph: the model.
        cluster: the devices.
        job: the workload.
        layout: degrees of which only tensor, context and expert parallelism count.
        devices: device of every rank.
    """

    def __init__(
        self, graph: LayerGraph, cluster: Cluster, job: Job, layout: Degrees, devices: tuple[int, ...]
    ) -> None:
        self.graph, self.job, self.layout = graph, job, layout
        self.table = StageTable(graph, cluster, job, devices=devices)
        self.cluster = self.table.cluster
        self._choice = StageChoice.of(layout)
        self._share = self.table.sharding(self._choice).tensor_share
        self.places, self.row_places = self._find_places(devices)
        self._bytes: dict[tuple[Key, int, int, int], RunBytes] = {}
        self._starts, self._kinds = _unit_kinds(graph)
        self._keys: dict[tuple[int, int], Key] = {}
        self._crossing: FloatArray | None = None

    # ---- seconds ------------------------------------------------------------------------------------

    def _find_places(self, devices: tuple[int, ...]) -> tuple[list[int], IntArray]:
        """Return the first rank of each different place of a row of devices, and the place of each row."""
        size = self.layout.context * self.layout.tensor
        count = len(devices) // size
        known: dict[object, int] = {}
        places: list[int] = []
        found = np.zeros(count, dtype=np.int64)
        rows = 1 if _regular(self.cluster, devices, size) else count
        last = len(devices) - self._choice.devices
        for row in range(rows):
            signature = _signature_of_row(self.cluster, devices[row * size : (row + 1) * size])
            if signature not in known:
                known[signature] = len(places)
                places.append(min(row * size, last))
            found[row] = known[signature]
        return places, found

    def seconds(self, bounds: IntArray, recompute: str, samples: int, place: int) -> StageSeconds:
        """Return the seconds of the stages between consecutive bounds.

        Args:
            bounds: first layer of every stage, and the number of layers.
            recompute: none, selective or full.
            samples: samples of a microbatch on one replica.
            place: number of the place of the devices that work together.
        """
        choice = replace(self._choice, first=self.places[place], recompute=recompute, microbatch_size=samples)
        found = self.table.seconds(choice, bounds[:-1], bounds[1:])
        return StageSeconds(
            forward=found.forward_s,
            input_grad=found.input_grad_s,
            weight_grad=found.weight_grad_s,
            again=found.recompute_s,
            hidden=found.behind_weight_s,
        )

    def total_s(self, samples: int, place: int) -> FloatArray:
        """Return the seconds of one microbatch in all layers, by recomputation: no more than of any cut."""
        bounds = np.array([0, len(self.graph.layers)])
        found = []
        for recompute in RECOMPUTE:
            times = self.seconds(bounds, recompute, samples, place)
            backward = float(times.backward[0]) if self.job.training else 0.0
            found.append(float(times.forward[0]) + backward)
        return np.array(found)

    # ---- bytes --------------------------------------------------------------------------------------

    def bytes_of(self, first: int, stop: int, recompute: str, zero: int = 0, replicas: int = 1) -> RunBytes:
        """Return the bytes of the layers first to stop - 1, both ends between units."""
        key = self._key(first, stop), RECOMPUTE.index(recompute), zero, replicas if zero else 1
        if key not in self._bytes:
            self._bytes[key] = self._count(first, stop, recompute, zero, replicas)
        return self._bytes[key]

    def units_of(self, first: int, stop: int) -> int:
        """Count the units of the layers first to stop - 1."""
        a, b = np.searchsorted(self._starts, (first, stop))
        return int(b - a)

    def _key(self, first: int, stop: int) -> Key:
        at = first, stop
        if at not in self._keys:
            a, b = np.searchsorted(self._starts, at)
            self._keys[at] = tuple((kind, len(list(run))) for kind, run in groupby(self._kinds[a:b]))
        return self._keys[at]

    def _count(self, first: int, stop: int, recompute: str, zero: int, replicas: int) -> RunBytes:
        choice = replace(self._choice, recompute=recompute, zero=zero)
        choice = replace(choice, replicas=replicas) if zero else choice
        found = self.table.memory(choice, np.array([first]), np.array([stop])).at(0)
        return RunBytes(
            weights=found.weight_bytes,
            gradients=found.gradient_bytes,
            optimizer=found.optimizer_bytes,
            activations=found.activation_bytes_per_sample,
            buffers=found.buffer_bytes,
            buffers_per_sample=found.buffer_bytes_per_sample,
            again_per_sample=found.recompute_peak_bytes_per_sample,
        )

    @property
    def crossing_bytes(self) -> FloatArray:
        """Return by layer the bytes of one sample that a device needs of what layers before it made."""
        if self._crossing is None:
            rows, made, read, sizes = _crossings(self.graph, self.job.precision)
            each = sizes * self._share[rows]
            steps = np.zeros(len(self.graph.layers) + 2)
            np.add.at(steps, made + 1, each)
            np.add.at(steps, read + 1, -each)
            self._crossing = np.cumsum(steps)[:-1]
        return self._crossing

    @property
    def gradient_width(self) -> float:
        """Bytes of one gradient."""
        return dtype_bytes(self.job.gradient_precision or self.job.precision)


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


def _crossings(graph: LayerGraph, precision: str) -> tuple[IntArray, IntArray, IntArray, FloatArray]:
    """Return number, writer, last reader and bytes of a sample of every tensor that another layer reads."""

    def make() -> tuple[IntArray, IntArray, IntArray, FloatArray]:
        found = []
        for number, tensor in enumerate(graph.tensors):
            readers = graph.consumers.get(tensor.name, ())
            if tensor.name in graph.producer and readers:
                made = graph.index[graph.producer[tensor.name]]
                read = max(graph.index[name] for name in readers)
                found.append((number, made, read, tensor.bytes_per_sample(precision)))
        table = np.array(found).reshape(-1, 4)
        whole = table[:, :3].astype(np.int64)
        return whole[:, 0], whole[:, 1], whole[:, 2], table[:, 3]

    return graph.memo(f"search.crossings {precision}", make)


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
