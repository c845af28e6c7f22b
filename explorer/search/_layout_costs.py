"""Costs of a model under one layout, as the tables of stages have them (`explorer.tables`).

A layout says how the devices of a pipeline position share every layer: tensor, context and expert degrees.
Costs are those of all kinds of runs of even cuts (`EvenStages`): a model of equal blocks has a few hundred,
whichever way it is cut, and asking a table for all of them takes hardly longer than asking for one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster import Cluster
from explorer.search._even_stages import EvenStages, IntArray
from explorer.search.exhaustive import divisors
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS, Degrees
from explorer.tables import Estimator, StageChoice

FloatArray = npt.NDArray[np.float64]


class HeldBytes(NamedTuple):
    """(kinds of runs, ZeRO levels): bytes that one device holds of a kind of run, whatever is in flight."""

    states: FloatArray
    """Weights, gradients and optimizer states."""
    buffers: FloatArray
    """Buffers in which sharded states are made whole block by block."""
    run_buffers: FloatArray
    """The same, where they stay whole for several microbatches."""


class RunSeconds(NamedTuple):
    """(kinds of runs, recomputations): seconds of one microbatch on each kind of run."""

    once: FloatArray
    """Of all its work."""
    passed: FloatArray
    """Of its forward and its input gradient."""
    bare: FloatArray
    """Of all its work but its collectives."""
    comm: FloatArray
    """Of its collectives inside the lane."""
    forward: FloatArray
    """Of its forward."""


class WholeModel(NamedTuple):
    """(sizes,): seconds of one microbatch on all layers, where they take least."""

    sizes: IntArray
    """Samples of a microbatch: all divisors of the batch."""
    once: FloatArray
    passed: FloatArray
    bare: FloatArray
    comm: FloatArray
    """As `RunSeconds` has them."""


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
        self.stages = EvenStages.of(self.graph)
        self._choice = StageChoice.of(layout)
        self.table.sharding(self._choice)  # raises where the model cannot be laid out like this
        self._place_of: dict[object, int] = {}
        self.places = self._find_places(self.table.devices)
        self._alone_s: dict[tuple[int, int], float] = {}
        self._whole: dict[int, WholeModel] = {}
        self._seconds: dict[tuple[int, int], RunSeconds] = {}
        self._waited: dict[int, float] = {}
        self._held: dict[int, HeldBytes] = {}
        self._exchanged: dict[int, FloatArray] = {}

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
        self._place_of = {signature: place for place, signature in enumerate(known)}
        return [min(first, last) for first in known.values()]

    def place_of(self, first: int) -> int:
        """Return the number of the place of the row of devices that begins with a rank."""
        row = self.table.devices[first : first + self.row]
        return self._place_of.get(_signature_of_row(self.cluster, row), 0)

    @cached_property
    def row_places(self) -> IntArray:
        """(rows,): number of the place of every row of devices, one after the other."""
        if len(self.places) == 1:
            return np.zeros(len(self.table.devices) // self.row, dtype=np.int64)
        starts = range(0, len(self.table.devices) - self.row + 1, self.row)
        return np.array([self.place_of(first) for first in starts], dtype=np.int64)

    @cached_property
    def kinds(self) -> IntArray:
        """(devices,): kind of every rank's device, each as a bit of its own."""
        bit = {kind.name: 1 << number for number, kind in enumerate(self.cluster.device_kinds)}
        return np.array([bit[self.cluster.kind_of(device).name] for device in self.table.devices])

    def alone_s(self, place: int, samples: int) -> float:
        """Return the seconds of all layers for a microbatch of any size at a place, nothing recomputed."""
        if (place, samples) not in self._alone_s:
            (once,), *_ = self._whole_at([samples], self.places[place], 0)
            self._alone_s[place, samples] = float(once[0] if np.ndim(once) else once)
        return self._alone_s[place, samples]

    def seconds(self, samples: int, place: int) -> RunSeconds:
        """Return the seconds of all kinds of runs at one of the places."""
        key = samples, place
        if key not in self._seconds:
            self._seconds[key] = self._seconds_at(samples, self.places[place])
        return self._seconds[key]

    def least_s(self, samples: int) -> RunSeconds:
        """Return the seconds of all kinds of runs, each at the place where it takes least."""
        found = [self.seconds(samples, place) for place in range(len(self.places))]
        return RunSeconds(*(np.minimum.reduce(part) for part in zip(*found, strict=True)))

    @cached_property
    def alone(self) -> WholeModel:
        """Return the seconds of all layers for every size of a microbatch, nothing recomputed."""
        return self._every_size(0)

    def whole(self, sizes: IntArray, recompute: int) -> WholeModel:
        """Return the seconds of all layers for (N,) sizes of a microbatch under a recomputation."""
        if recompute not in self._whole:
            self._whole[recompute] = self._every_size(recompute) if recompute else self.alone
        found = self._whole[recompute]
        place = np.searchsorted(found.sizes, sizes)
        return WholeModel(sizes, *(part[place] for part in found[1:]))

    def _every_size(self, recompute: int) -> WholeModel:
        sizes = divisors(self.job.global_batch)
        found = [self._whole_at(sizes, first, recompute) for first in self.places]
        return WholeModel(
            np.array(sizes), *(np.minimum.reduce(part) for part in zip(*found, strict=True))
        )  # fmt: skip

    def _whole_at(self, sizes: list[int], first: int, recompute: int) -> list[FloatArray]:
        """Return `once` and the others of `WholeModel` at one place."""
        choice = replace(self._choice, first=first, recompute=RECOMPUTE[recompute])
        whole = self.table.whole(choice, tuple(sizes))
        if whole is None:
            ends = self.stages.starts[[self.stages.whole]], self.stages.stops[[self.stages.whole]]
            rows = [self._runs_at(samples, first, RECOMPUTE[recompute], *ends) for samples in sizes]
            return [np.concatenate(part) for part in zip(*(row[:4] for row in rows), strict=True)]
        if not self.job.training:
            return [whole.forward] * 3 + [0.0 * whole.forward]
        gradient = whole.input_grad + whole.again
        both = gradient + whole.weight_grad - whole.behind_weight
        once = whole.forward + both
        passed = whole.forward + np.minimum(gradient, both)
        comm = whole.comm + whole.again_comm - whole.behind_weight
        return [once, passed, once - comm, comm]

    def waits(self, replicas: IntArray) -> FloatArray:
        """Return how many times as long as `seconds` has them stages with (N,) so many replicas work at
        least: at every update all of their devices wait for the slowest (`explorer.costs.stragglers`).
        """
        found = np.ones(len(replicas))
        for count in np.unique(replicas).tolist():
            found[replicas == count] = self._waits(int(count) * self.row)
        return found

    def _waits(self, devices: int) -> float:
        if devices not in self._waited:
            every = [self._choice.at(first) for first in self.places]
            factor = self.table.stage_factor
            self._waited[devices] = min(factor(one, devices) / factor(one, one.devices) for one in every)
        return self._waited[devices]

    @property
    def slowdown(self) -> float:
        """How much longer work takes beside exchanges, on the slowest kind of a row."""
        return self.table.overlap_slowdown(self._choice)

    def most_s(self, samples: int) -> FloatArray:
        """Return the (recomputations,) seconds of all layers, on the place where they take longest."""
        found = [self.seconds(samples, place).once[self.stages.whole] for place in range(len(self.places))]
        return np.asarray(np.maximum.reduce(found))

    def _seconds_at(self, samples: int, first: int) -> RunSeconds:
        ends = self.stages.starts, self.stages.stops
        found = [self._runs_at(samples, first, recompute, *ends) for recompute in RECOMPUTE]
        return RunSeconds(*(np.array(part).T for part in zip(*found, strict=True)))

    def _runs_at(
        self, samples: int, first: int, recompute: str, starts: IntArray, stops: IntArray
    ) -> RunSeconds:
        """Return the seconds of runs as `RunSeconds` has them, for one recomputation."""
        choice = replace(self._choice, first=first, recompute=recompute, microbatch_size=samples)
        times = self.table.seconds(choice, starts, stops)
        if not self.job.training:
            way = times.forward_s
            return RunSeconds(once=way, passed=way, bare=way, comm=0.0 * way, forward=way)
        gradient = times.input_grad_s + times.recompute_s
        whole = gradient + times.weight_grad_s - times.behind_weight_s
        once = times.forward_s + whole
        comm = times.forward_comm_s + times.backward_comm_s + times.recompute_comm_s - times.behind_weight_s
        return RunSeconds(
            once=once, passed=times.forward_s + np.minimum(gradient, whole), bare=once - comm, comm=comm,
            forward=times.forward_s,
        )  # fmt: skip

    # ---- bytes --------------------------------------------------------------------------------------

    @cached_property
    def per_sample(self) -> tuple[FloatArray, FloatArray]:
        """(kinds of runs, recomputations): bytes of one sample, from forward to backward, and of buffers."""
        choices = [replace(self._choice, recompute=recompute) for recompute in RECOMPUTE]
        held = [self.table.memory(choice, self.stages.starts, self.stages.stops) for choice in choices]
        return (
            np.array([item.activation_bytes_per_sample for item in held]).T,
            np.array([item.buffer_bytes_per_sample for item in held]).T,
        )

    def held(self, shards: int) -> HeldBytes:
        """Return the bytes of all kinds of runs where ZeRO shares states among so many devices."""
        if shards not in self._held:
            choices = [replace(self._choice, replicas=shards, zero=level) for level in ZERO_LEVELS]
            held = [self.table.memory(choice, self.stages.starts, self.stages.stops) for choice in choices]
            states = [item.weight_bytes + item.gradient_bytes + item.optimizer_bytes for item in held]
            buffers = [item.buffer_bytes for item in held]
            whole = [item.buffer_bytes + item.run_buffer_bytes for item in held]
            self._held[shards] = HeldBytes(*(np.array(part).T for part in (states, buffers, whole)))
        return self._held[shards]

    # ---- exchanges ----------------------------------------------------------------------------------

    def exchanged(self, replicas: int) -> FloatArray:
        """Return the (kinds of runs, 2) seconds in which the first devices reduce the gradients of each kind
        of run, and gather its weights under ZeRO 3; with so many replicas.
        """
        if replicas not in self._exchanged:
            choice = replace(self._choice, replicas=replicas, zero=3)
            found = self.table.exchange(choice, self.stages.starts, self.stages.stops)
            reduced = np.maximum(
                found.reduce_s * found.reduce_parts, found.expert_reduce_s * found.expert_reduce_parts
            )
            self._exchanged[replicas] = np.stack([reduced, found.gather_part_s * found.blocks], axis=1)
        return self._exchanged[replicas]


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
