"""Pricing: seconds, bytes and shared rates of every slot of a program, and memory by section.

The only place where a placement meets the cost model. Results per section are cached by what they
depend on, so that moving one layer re-prices two stages.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster import Cluster, DeviceKind
from explorer.costs.collectives import collective_seconds, transfer_seconds
from explorer.costs.compute import layer_times, update_seconds
from explorer.costs.memory import StageMemory, stage_memory
from explorer.graph import COMPUTE, LayerGraph
from explorer.identity import IdentityCache
from explorer.passes.timing import FloatArray, Shares
from explorer.sharding import Collective, ShardedLayers, overrides_of, shard
from explorer.strategy import JobStrategy, Stage
from explorer.tasks.derived import derived
from explorer.tasks.placement import IntArray, Piece, Placement
from explorer.tasks.program import (
    GATHER,
    TRANSFER,
    B,
    F,
    Program,
    Slot,
    U,
    W,
)
from explorer.units import dtype_bytes
from explorer.workload import Job


class SectionTime(NamedTuple):
    """Seconds of one section for some samples on one device kind."""

    forward_s: float
    input_grad_s: float
    weight_grad_s: float
    forward_comm_s: float
    """Part of `forward_s` that is collectives inside the lane (tensor parallelism, experts)."""
    backward_comm_s: float
    """Part of `input_grad_s` that is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """All numbers a program needs."""

    seconds: FloatArray
    """Per slot."""
    comm_s: FloatArray
    """Per slot: seconds of it that are collectives inside a compute task."""
    bytes: FloatArray
    """Per slot: bytes that a transfer or collective moves, all devices of its lanes together."""
    shares: Shares
    """Shared rates."""
    memory: tuple[StageMemory, ...]
    """Per section, of one device."""
    flops: FloatArray
    """Per section: forward FLOPs of one sample, of the whole section (not divided by devices)."""


_OWN, _TRANSFERS = IdentityCache(32768), IdentityCache(32768)


class Pricer:
    """Prices slots of one placement. Made anew for each evaluation; its parts are cached below."""

    def __init__(
        self, graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy, placement: Placement
    ) -> None:
        self.graph, self.cluster, self.job = graph, cluster, job
        self.strategy, self.placement = strategy, placement
        self.sections = placement.skeleton.sections
        self.stages = [strategy.stages[section.stage] for section in self.sections]
        self.sharded = [_sharded(graph, stage) for stage in self.stages]
        self._time: dict[tuple[int, str, int], SectionTime] = {}

    def section_time(self, section: int, device: int, samples: int) -> SectionTime:
        """Seconds of a section for some samples on the kind of `device`."""
        kind = self.cluster.kind_of(device)
        key = (section, kind.name, samples)
        if key not in self._time:
            stage = self.stages[section]
            lane = self.sections[section].rows[0][0]
            self._time[key] = _section_time(
                _Key(self.graph), _Key(self.cluster), kind, self.job.precision, stage,
                _Indices(self.placement.layers[section], self.placement.fractions[section]),
                lane, float(samples), _Key(self.sharded[section]),
            )  # fmt: skip
        return self._time[key]

    def memory(self, section: int) -> StageMemory:
        """Memory of one device of a section."""
        stage = self.stages[section]
        replicas = self.sections[section].replicas * len(self.sections[section].rows)
        return _section_memory(
            _Key(self.graph), self.job, stage.recompute, stage.zero, replicas,
            _Indices(self.placement.layers[section], self.placement.fractions[section]),
            _Key(self.sharded[section].shards),
        )  # fmt: skip

    def own(self, program: Program, section: int) -> tuple[FloatArray, StageMemory]:
        """(slots, 3) prices of what a section computes, and its memory; they depend on its stage alone."""

        def make() -> tuple[FloatArray, StageMemory]:
            slots = derived(program).own_slots[section].tolist()
            rows = [self.price(program.slots[number]) for number in slots]
            return np.array(rows, dtype=np.float64).reshape(-1, 3), self.memory(section)

        stage = self.stages[section]
        return _OWN.get((self.graph, self.cluster, self.job, stage, program), section, make)

    def price(self, slot: Slot) -> tuple[float, float, float]:
        """(seconds, seconds of inner collectives, bytes) of a slot."""
        if slot.kind < 0:
            return 0.0, 0.0, 0.0
        if slot.kind < U:
            return self._compute(slot)
        if slot.kind == U:
            return self._update(slot), 0.0, 0.0
        if slot.kind == TRANSFER:
            stage = self.stages[slot.piece.section]
            key = (
                self.placement.flow_tensors[slot.where],
                slot.samples,
                self._row(slot.piece),
                self._row(slot.peer),
            )
            return _TRANSFERS.get(
                (self.graph, self.cluster, self.job, self.sharded[slot.piece.section], stage.meshes),
                key,
                lambda: self._transfer(slot),
            )
        return self._gather(slot) if slot.kind == GATHER else self._reduce(slot)

    def _row(self, piece: Piece) -> tuple[int, ...]:
        return self.sections[piece.section].rows[piece.copy][piece.replica]

    def _compute(self, slot: Slot) -> tuple[float, float, float]:
        time = self.section_time(slot.where, self._row(slot.piece)[0], slot.samples)
        if slot.kind == F:
            return time.forward_s, time.forward_comm_s, 0.0
        if slot.kind == W:
            return time.weight_grad_s, 0.0, 0.0
        again = self._recompute_s(slot, time)
        seconds = time.input_grad_s + again + (time.weight_grad_s if slot.kind == B else 0.0)
        return seconds, time.backward_comm_s, 0.0

    def _recompute_s(self, slot: Slot, time: SectionTime) -> float:
        choice = self.stages[slot.where].recompute
        if choice == "full":
            return time.forward_s
        if choice == "none":
            return 0.0
        return self._attention_s(slot)

    def _attention_s(self, slot: Slot) -> float:
        kind = self.cluster.kind_of(self._row(slot.piece)[0])
        inner = _attention_layers(self.graph)
        layers = self.placement.layers[slot.where]
        times = layer_times(
            self.graph, kind, samples=float(slot.samples), precision=self.job.precision,
            work=self.sharded[slot.where].work, tensor_degree=self.sharded[slot.where].degree,
        )  # fmt: skip
        return float(times[0, layers[inner[layers]]].sum())

    def _update(self, slot: Slot) -> float:
        kind = self.cluster.kind_of(self._row(slot.piece)[0])
        stage, section = self.stages[slot.where], self.sections[slot.where]
        elements = self._elements(slot.where)
        if stage.zero:
            elements /= section.replicas * len(section.rows)
        return update_seconds(
            kind, elements=elements, optimizer=self.job.optimizer, precision=self.job.precision
        )

    def _elements(self, section: int) -> float:
        """Trainable scalars that one device of a section holds, densities counted."""
        return _trainable_elements(
            _Key(self.graph),
            _Indices(self.placement.layers[section], self.placement.fractions[section]),
            _Key(self.sharded[section].shards),
        )

    def _transfer(self, slot: Slot) -> tuple[float, float, float]:
        flow = self.placement.skeleton.flows[slot.where]
        fractions = self.sharded[flow.source].shards.tensor_fraction
        per_device = 0.0
        for tensor, share in self.placement.flow_tensors[slot.where]:
            item = self.graph.tensors[tensor]
            size = item.bytes_per_sample(self.job.precision) * share * slot.samples
            per_device += size * fractions.get(item.name, 1.0)
        route = lane_route(self.cluster, self._row(slot.piece), self._row(slot.peer))
        return route.latency_s + per_device / route.bandwidth_bytes_per_s, 0.0, per_device * route.pairs

    def _gradient_bytes(self, elements: float) -> float:
        return elements * dtype_bytes(self.job.gradient_precision or self.job.precision)

    def _reduce(self, slot: Slot) -> tuple[float, float, float]:
        group = self.placement.skeleton.holders[slot.where]
        section = group.pieces[0].section
        fraction = self.sharded[section].shards.parameter_fraction
        shares = _parameter_shares(self.graph, self.placement, section)
        elements = 0.0
        for p in self.placement.held[slot.where]:
            item = self.graph.parameters[p]
            elements += (
                item.elements * item.density * fraction.get(item.name, 1.0) * shares.get(item.name, 1.0)
            )
        size = self._gradient_bytes(elements)
        rows = tuple(dict.fromkeys(self._row(piece) for piece in group.pieces))
        zero = self.stages[section].zero and group.method == "all_reduce"
        op = {"all_reduce": "reduce_scatter" if zero else "all_reduce"}.get(group.method, "parameter_server")
        devices = tuple(row[0] for row in rows)
        seconds = collective_seconds(
            self.cluster, op, devices, size, concurrent=len(rows[0]), servers=group.servers
        )
        return seconds, 0.0, size * len(rows[0])

    def _gather(self, slot: Slot) -> tuple[float, float, float]:
        section = self.sections[slot.where]
        rows = [row for copy in section.rows for row in copy]
        size = self._elements(slot.where) * dtype_bytes(self.job.precision)
        devices = tuple(row[0] for row in rows)
        seconds = collective_seconds(self.cluster, "all_gather", devices, size, concurrent=len(rows[0]))
        return seconds, 0.0, size * len(rows[0])


class Route(NamedTuple):
    """How two lanes talk: the slowest of their device pairs, and what they share."""

    kind: str
    latency_s: float
    bandwidth_bytes_per_s: float
    """Of each pair, after their own contention."""
    pairs: int
    resources: tuple[tuple[str, float, float], ...]
    """(name, capacity, demand) of the shared resources they use."""


def lane_route(cluster: Cluster, source: tuple[int, ...], target: tuple[int, ...]) -> Route:
    """Route between two lanes; each receiving device has one sender (devices in mesh order)."""

    def make() -> Route:
        pairs = max(len(source), len(target))
        paths = [cluster.path(source[i % len(source)], target[i % len(target)]) for i in range(pairs)]
        slowest = min(paths, key=lambda path: path.bandwidth_bytes_per_s)
        latency = max(path.latency_s for path in paths)
        asked: dict[str, float] = defaultdict(float)
        capacity: dict[str, float] = {}
        for path in paths:
            for name, available in path.resources:
                asked[name] += path.bandwidth_bytes_per_s
                capacity[name] = available
        own = min([1.0, *(capacity[name] / demand for name, demand in asked.items())])
        return Route(
            kind=slowest.kind,
            latency_s=latency,
            bandwidth_bytes_per_s=slowest.bandwidth_bytes_per_s * own,
            pairs=pairs,
            resources=tuple((name, capacity[name], demand * own) for name, demand in asked.items()),
        )

    return cluster.memo(("route", source, target), make)


def price(program: Program, pricer: Pricer) -> Prices:
    """Price every slot of a program; sections whose stage is unchanged come from the cache."""
    tables = derived(program)
    values = np.zeros((len(program.slots), 3))
    memory = []
    for section, slots in enumerate(tables.own_slots):
        own, held = pricer.own(program, section)
        values[slots] = own
        memory.append(held)
    for number in tables.other_slots:
        values[number] = pricer.price(program.slots[number])
    return Prices(
        seconds=values[:, 0].copy(),
        comm_s=values[:, 1].copy(),
        bytes=values[:, 2].copy(),
        shares=_SHARES.get((program, pricer.cluster), None, lambda: _shares(program, pricer)),
        memory=tuple(memory),
        flops=_section_flops(pricer),
    )


_SHARES = IdentityCache(1024)


def _shares(program: Program, pricer: Pricer) -> Shares:
    """Shared links of transfers; collectives own the links of their group while they run.

    A folded replica asks for itself and for the equal ones that use the same link.
    """
    index: dict[str, int] = {}
    capacity: list[float] = []
    demands: list[tuple[tuple[int, float], ...]] = []
    for slot in program.slots:
        found = []
        if slot.kind == TRANSFER:
            route = lane_route(pricer.cluster, pricer._row(slot.piece), pricer._row(slot.peer))
            together = _folded_demand(program, pricer, slot)
            for name, available, demand in route.resources:
                if name not in index:
                    index[name] = len(capacity)
                    capacity.append(available)
                found.append((index[name], demand * together.get(name, 1.0)))
        demands.append(tuple(found))
    return Shares(capacity=np.array(capacity), names=tuple(index), demands=tuple(demands))


def _folded_demand(program: Program, pricer: Pricer, slot: Slot) -> dict[str, float]:
    """Per resource of a folded replica's route: how many equal replicas use it, itself included."""
    users: dict[str, float] = defaultdict(float)
    members = program.replica_classes.get(slot.piece.replica, ())
    for replica in members if len(members) > 1 else ():
        source = pricer.sections[slot.piece.section].rows[slot.piece.copy][replica]
        target = pricer.sections[slot.peer.section].rows[slot.peer.copy][replica]
        for name, _, _ in lane_route(pricer.cluster, source, target).resources:
            users[name] += 1.0
    return users


def _section_flops(pricer: Pricer) -> FloatArray:
    flops = pricer.graph.memo(
        "flops", lambda: np.array([item.forward.flops * item.trips for item in pricer.graph.layers])
    )
    found = []
    for layers, fractions in zip(pricer.placement.layers, pricer.placement.fractions, strict=True):
        part = flops[layers]
        found.append(float(part.sum() if fractions is None else (part * fractions).sum()))
    return np.array(found)


def _attention_layers(graph: LayerGraph) -> npt.NDArray[np.bool_]:
    return graph.memo("attention", lambda: np.array([item.kind == "attention" for item in graph.layers]))


# ---- cached parts -------------------------------------------------------------------------------


class _Key:
    """A large immutable value as a cache key: compared by identity, kept alive by the key."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self.value is other.value


class _Indices:
    """Layers of a section, compared by content."""

    __slots__ = ("fractions", "key", "layers")

    def __init__(self, layers: IntArray, fractions: FloatArray | None) -> None:
        self.layers, self.fractions = layers, fractions
        self.key = (layers.tobytes(), None if fractions is None else fractions.tobytes())

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Indices) and self.key == other.key


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharded:
    """Sharding of a whole graph under one layout, with what pricing reads of it as arrays."""

    shards: ShardedLayers
    work: FloatArray
    """Per layer: share of its work one device does, in units of its lane's samples."""
    degree: int
    """Tensor-parallel size."""


def _sharded(graph: LayerGraph, stage: Stage) -> Sharded:
    """Sharding under a stage's layout, of the whole graph: its layers are summed by section later."""
    mesh = stage.meshes[0]
    key = f"sharded {stage.layout} {stage.shardings} {mesh.axes if stage.shardings or stage.layout else ''}"

    def make() -> Sharded:
        names = graph.memo("names", lambda: tuple(layer.name for layer in graph.layers))
        shards = shard(
            graph, names, layout=stage.layout, sizes=dict(mesh.axes), overrides=overrides_of(stage)
        )
        return Sharded(shards=shards, work=shards.work, degree=mesh.size("tensor"))

    return graph.memo(key, make)


@lru_cache(maxsize=8192)
def _section_time(
    graph_key: _Key,
    cluster_key: _Key,
    kind: DeviceKind,
    precision: str,
    stage: Stage,
    indices: _Indices,
    lane: tuple[int, ...],
    samples: float,
    sharded_key: _Key,
) -> SectionTime:
    graph: LayerGraph = graph_key.value  # type: ignore[assignment]
    cluster: Cluster = cluster_key.value  # type: ignore[assignment]
    sharded: Sharded = sharded_key.value  # type: ignore[assignment]
    times = layer_times(
        graph, kind, samples=samples, precision=precision, work=sharded.work, tensor_degree=sharded.degree
    )
    part = times[:, indices.layers]
    if indices.fractions is not None:
        part = part * indices.fractions
    forward, input_grad, weight_grad = part.sum(axis=1).tolist()
    inside = _layer_comm(graph, cluster, sharded, stage, lane, precision, samples)
    comm = inside[:, indices.layers].sum(axis=1).tolist()
    return SectionTime(forward + comm[0], input_grad + comm[1], weight_grad, comm[0], comm[1])


def _layer_comm(
    graph: LayerGraph,
    cluster: Cluster,
    sharded: Sharded,
    stage: Stage,
    lane: tuple[int, ...],
    precision: str,
    samples: float,
) -> FloatArray:
    """(2, layers): seconds of the collectives inside a lane, forward and backward, by layer."""

    def make() -> FloatArray:
        found = np.zeros((2, len(graph.layers)))
        for way, collectives in enumerate((sharded.shards.forward, sharded.shards.backward)):
            seconds: dict[tuple[str, str, float, str], float] = {}
            for item in collectives:
                key = (item.op, item.axis, item.elements_per_sample, item.dtype)
                if key not in seconds:
                    seconds[key] = _collective(cluster, item, stage, lane, precision, samples)
                found[way, graph.index[item.layer]] += seconds[key]
        return found

    key = ("lane comm", id(graph), id(sharded), lane, precision, samples)
    return cluster.memo(key, lambda: (make(), graph, sharded))[0]


def _collective(
    cluster: Cluster,
    item: Collective,
    stage: Stage,
    lane: tuple[int, ...],
    precision: str,
    samples: float,
) -> float:
    devices = _axis_devices(stage, item.axis, lane)
    if len(devices) < 2:
        return 0.0
    size = (
        item.elements_per_sample * samples * dtype_bytes(precision if item.dtype == COMPUTE else item.dtype)
    )
    if item.op == "halo":  # both neighbours at once, on wires of their own
        return transfer_seconds(cluster.path(devices[0], devices[1]), size)
    return collective_seconds(cluster, item.op, devices, size)


def _axis_devices(stage: Stage, axis: str, lane: tuple[int, ...]) -> tuple[int, ...]:
    """Devices of one line along an axis, of the lane or of another mesh of the stage."""
    for mesh in (stage.meshes[0], *(mesh for item in stage.shardings for mesh in item.meshes[:1])):
        if mesh.size(axis) > 1:
            own = mesh.coordinates(mesh.devices.index(lane[0])) if lane[0] in mesh.devices else None
            if own is None:
                continue
            return tuple(
                device
                for position, device in enumerate(mesh.devices)
                if {**mesh.coordinates(position), axis: 0} == {**own, axis: 0}
            )
    return lane


@lru_cache(maxsize=8192)
def _section_memory(
    graph_key: _Key,
    job: Job,
    recompute: str,
    zero: int,
    replicas: int,
    indices: _Indices,
    shards_key: _Key,
) -> StageMemory:
    graph: LayerGraph = graph_key.value  # type: ignore[assignment]
    shards: ShardedLayers = shards_key.value  # type: ignore[assignment]
    names = tuple(graph.layers[i].name for i in indices.layers.tolist())
    extra: dict[str, object] = {}
    if indices.fractions is not None:
        extra["fractions"] = dict(zip(names, indices.fractions.tolist(), strict=True))
    return stage_memory(
        graph, names, shards, precision=job.precision, optimizer=job.optimizer, zero=zero,
        replicas=replicas, recompute=recompute, training=job.training,
        gradient_precision=job.gradient_precision, **extra,  # type: ignore[arg-type]
    )  # fmt: skip


@lru_cache(maxsize=8192)
def _trainable_elements(graph_key: _Key, indices: _Indices, shards_key: _Key) -> float:
    graph: LayerGraph = graph_key.value  # type: ignore[assignment]
    shards: ShardedLayers = shards_key.value  # type: ignore[assignment]
    fractions = indices.fractions if indices.fractions is not None else np.ones(len(indices.layers))
    held: dict[str, float] = {}
    for layer, share in zip(indices.layers.tolist(), fractions.tolist(), strict=True):
        for use in graph.layers[layer].parameters:
            item = graph.parameter[use.name]
            if item.trainable:
                amount = item.elements * item.density * shards.parameter_fraction.get(use.name, 1.0)
                held[use.name] = max(held.get(use.name, 0.0), amount * share)
    return sum(held.values())


def _parameter_shares(graph: LayerGraph, placement: Placement, section: int) -> dict[str, float]:
    """Share of each parameter that a section with slices of layers holds; {} where all are whole."""
    fractions = placement.fractions[section]
    if fractions is None:
        return {}
    return {
        use.name: part
        for layer, part in zip(placement.layers[section].tolist(), fractions.tolist(), strict=True)
        for use in graph.layers[layer].parameters
    }
