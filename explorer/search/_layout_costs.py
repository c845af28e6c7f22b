"""Costs of any run of layers under one layout: seconds by prefix sums, bytes by the kinds of its units.

A layout says how the devices of a pipeline position share every layer: tensor, context and expert degrees.
The seconds are those that `explorer.pricing.section_time` adds up, as differences of two rows of a table. The
bytes of a run depend on which units follow one another in it, not on where it starts: a model of equal blocks
has a few hundred different runs, whichever way it is cut.
"""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.units import dtype_bytes
from explorer.cluster import Cluster
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import Layer, LayerGraph
from explorer.pricing.lane_collectives import kind_costs
from explorer.pricing.layer_columns import LaneColumns, devices_of, layer_columns, sharded_of
from explorer.pricing.mesh_lines import Lines, axis_lines
from explorer.pricing.overlap import Beside, beside_of
from explorer.pricing.section_time import call_seconds, made_again, section_memory
from explorer.strategies.cuts import units
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.strategies.model_axes import expert_patterns
from explorer.workload import Job

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Key = tuple[tuple[int, int], ...]
"""A run of units: (kind of unit, how many in a row)."""


class Place(NamedTuple):
    """Where a row of devices lies, as far as it decides the seconds of a layer."""

    kinds: tuple[str, ...]
    """Kinds of its devices."""
    lines: Lines
    """Devices along its axes."""


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
        self.framework = load_framework(job.framework)
        self.cluster = cluster_under(cluster, self.framework)
        names = graph.memo("names", lambda: tuple(layer.name for layer in graph.layers))
        own = devices[: layout.position_devices]
        self._stage = layout.stages_of([names], own, expert_patterns(graph))[0]
        self.sharded = sharded_of(graph, self._stage)
        self.places, self.row_places = self._find_places(devices)
        self._tables: dict[tuple[int, int], FloatArray] = {}
        self._calls: dict[int, float] = {}
        self._bytes: dict[tuple[Key, int, int, int], RunBytes] = {}
        self._starts, self._kinds = _unit_kinds(graph)
        self._keys: dict[tuple[int, int], Key] = {}
        self._crossing: FloatArray | None = None

    # ---- seconds ------------------------------------------------------------------------------------

    def _find_places(self, devices: tuple[int, ...]) -> tuple[list[Place], IntArray]:
        """Return the different places of rows of devices, and that of each row."""
        size = self.layout.context * self.layout.tensor
        count = len(devices) // size
        known: dict[object, int] = {}
        places: list[Place] = []
        found = np.zeros(count, dtype=np.int64)
        rows = 1 if _regular(self.cluster, devices, size) else count
        for row in range(rows):
            own = devices[row * size : (row + 1) * size]
            signature = _signature_of_row(self.cluster, own)
            if signature not in known:
                known[signature] = len(places)
                places.append(self._place(devices, row * size, own))
            found[row] = known[signature]
        return places, found

    def _place(self, devices: tuple[int, ...], start: int, own: tuple[int, ...]) -> Place:
        kinds = tuple(dict.fromkeys(self.cluster.kind_of(device).name for device in own))
        meshed = devices[start : start + self.layout.position_devices]
        if len(meshed) < self.layout.position_devices:
            meshed = devices[-self.layout.position_devices :]
        names = self._stage.layers
        stage = self.layout.stages_of([names], meshed, expert_patterns(self.graph))[0]
        return Place(kinds, axis_lines(stage, 0, own))

    def seconds(self, bounds: IntArray, recompute: str, samples: int, place: int) -> StageSeconds:
        """Return the seconds of the stages between consecutive bounds.

        Args:
            bounds: first layer of every stage, and the number of layers.
            recompute: none, selective or full.
            samples: samples of a microbatch on one replica.
            place: number of the place of the devices that work together.
        """
        table = self._table(samples, place)
        sums = table[bounds[1:]] - table[bounds[:-1]]
        call = self._calls[place]
        sent = np.maximum(0.0, sums[:, 5] - sums[:, 6])
        again = np.zeros(len(sums))
        if recompute != "none":
            at = 8 + 3 * (RECOMPUTE.index(recompute) - 1)
            again = sums[:, at] + np.maximum(0.0, sums[:, at + 1] - sums[:, at + 2])
        return StageSeconds(
            forward=sums[:, 0] + np.maximum(0.0, sums[:, 3] - sums[:, 4]) + call,
            input_grad=sums[:, 1] + sent + call,
            weight_grad=sums[:, 2],
            again=again,
            hidden=np.minimum(sums[:, 7], sent),
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

    def _table(self, samples: int, place: int) -> FloatArray:
        key = samples, place
        if key not in self._tables:
            each = self._columns(float(samples), place)
            self._tables[key] = np.concatenate([np.zeros((1, each.shape[1])), np.cumsum(each, axis=0)])
        return self._tables[key]

    def _columns(self, samples: float, place: int) -> FloatArray:
        """Return by layer: F, I, W; sent and waited in F; sent and waited in I, waited in W; both remakings.

        A remaking (selective, full) has its compute, what it sends, and the waits in which that fits.
        """
        graph, precision, sharded = self.graph, self.job.precision, self.sharded
        kinds, lines = self.places[place]
        costs = None
        if sharded.inside is not None:
            costs = kind_costs(self.cluster, sharded.inside, lines, precision, samples)
        found = layer_columns(
            graph, self.cluster, sharded, costs, kinds=kinds, precision=precision, samples=samples
        )
        compute, lane = found.compute_s, found.lane
        each = np.zeros((len(graph.layers), 14))
        each[:, :3] = compute.T
        sent, slack = np.zeros((2, len(graph.layers))), np.zeros((3, len(graph.layers)))
        if lane is not None and sharded.inside is not None:
            ways = beside_of(graph, sharded.shards, sharded.inside, ())[:2]
            hidden = [_hidden_s(way, lane, compute) for way in ways]
            sent, slack = lane.comm_s - np.array(hidden) * lane.apart, lane.slack_s
        each[:, 3:8] = np.stack([sent[0], slack[0], sent[1], slack[1], slack[2]], axis=1)
        every = np.arange(len(graph.layers))
        for i, recompute in enumerate(RECOMPUTE[1:]):
            again = made_again(graph, every, recompute)
            each[:, 8 + 3 * i : 11 + 3 * i] = (
                np.stack([compute[0], sent[0], slack[0]], axis=1) * again[:, None]
            )
        measured = any(layer.measured for layer in graph.layers)
        devices = devices_of(self.cluster, kinds)
        self._calls[place] = 0.0 if measured else call_seconds(graph, devices, sharded.degree, every)
        return each

    # ---- bytes --------------------------------------------------------------------------------------

    def bytes_of(self, first: int, stop: int, recompute: str, zero: int = 0, replicas: int = 1) -> RunBytes:
        """Return the bytes of the layers first to stop - 1, both ends between units."""
        key = self._key(first, stop), RECOMPUTE.index(recompute), zero, replicas if zero else 1
        if key not in self._bytes:
            self._bytes[key] = self._count(np.arange(first, stop), recompute, zero, replicas)
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

    def _count(self, layers: IntArray, recompute: str, zero: int, replicas: int) -> RunBytes:
        job = self.job
        found = section_memory(
            self.graph, self.sharded.shards, layers, None, (),
            precision=job.precision, gradient_precision=job.gradient_precision, optimizer=job.optimizer,
            training=job.training, zero=zero, replicas=replicas, recompute=recompute,
            dummy_gradients=self.framework.dummy_gradients,
        )  # fmt: skip
        return RunBytes(
            weights=found.weight_bytes,
            gradients=found.gradient_bytes,
            optimizer=found.optimizer_bytes,
            activations=found.activation_bytes_per_sample,
            buffers=found.buffer_bytes,
            buffers_per_sample=found.buffer_bytes_per_sample,
            again_per_sample=found.recompute_peak_bytes_per_sample if recompute == "full" else 0.0,
        )

    @property
    def crossing_bytes(self) -> FloatArray:
        """Return by layer the bytes of one sample that a device needs of what layers before it made."""
        if self._crossing is None:
            rows, made, read, sizes = _crossings(self.graph, self.job.precision)
            each = sizes * self.sharded.shards.tensor_share[rows]
            steps = np.zeros(len(self.graph.layers) + 2)
            np.add.at(steps, made + 1, each)
            np.add.at(steps, read + 1, -each)
            self._crossing = np.cumsum(steps)[:-1]
        return self._crossing

    @property
    def gradient_width(self) -> float:
        """Bytes of one gradient."""
        return dtype_bytes(self.job.gradient_precision or self.job.precision)


def _hidden_s(way: Beside | None, lane: LaneColumns, compute: FloatArray) -> FloatArray:
    """Return by layer the seconds of rings that its own work hides."""
    saved = np.zeros(compute.shape[1])
    if way is not None:
        work = compute[way.work, way.payer] * way.overlap
        spent = lane.kind_s[way.kind] * way.hideable
        np.add.at(saved, way.payer, (1.0 - lane.slowdown) * np.minimum(work, spent))
    return saved


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
