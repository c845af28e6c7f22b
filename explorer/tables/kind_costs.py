"""Costs of kinds of runs under many choices.

A row is a choice (of devices that share a layer, of samples, of what is recomputed, ...), a column a kind of
run or pair (`run_kinds`). Each matrix is keyed by just what its numbers depend on, so that the many plans of
a space share few rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from explorer.pricing.gradient_sync import reduction_steps
from explorer.pricing.routes import lane_route
from explorer.tables.borders import Tensors, flow_tensors
from explorer.tables.coded_rows import CodedRows, Codes
from explorer.tables.cost_rows import GrowingRows, Held
from explorer.tables.run_kinds import RunKinds
from explorer.tables.run_memory import RunMemory
from explorer.tables.spreads import Spread, choice_of, devices_of
from explorer.tables.stage_choice import StageChoice
from explorer.tables.stage_table import StageTable
from explorer.tasks.skeleton import FloatArray

MOST_MEMORIES = 1024
"""Bytes of all kinds of runs that are remembered, by devices, recomputation and ZeRO level."""


class Memory(NamedTuple):
    """Bytes of stages on one device for a microbatch size, arrays of any shape."""

    held: FloatArray
    """Weights, gradients and optimizer states."""
    buffers: FloatArray
    run_buffers: FloatArray
    """Buffers of a stage that keeps its weights and gradients whole over runs (`Schedule.stays`)."""
    saved: FloatArray
    """Of a microbatch from its forward to its backward."""
    again: FloatArray
    """Recomputed in a backward, on top."""
    waiting: FloatArray
    """Of a microbatch from its input gradient to its weight gradient."""
    version: FloatArray
    """One more version of the weights."""


class Exchange(NamedTuple):
    """Seconds of exchanges of stages, arrays of any shape."""

    last: FloatArray
    """The last bucket of the reduction; all of it without buckets."""
    earlier: FloatArray
    """The buckets before it, which run during the last backward."""
    expert_last: FloatArray
    expert_earlier: FloatArray
    """Those of experts, beside the others."""
    update: FloatArray
    gather: FloatArray
    """ZeRO 1 and 2: of the updated weights, before the first forward."""
    fetch: FloatArray
    """ZeRO 3: of all weights, before and during each forward and backward."""
    inside: FloatArray
    """Of these, what is gathered inside the lane, where nothing hides it."""
    first: FloatArray
    """Units gathered at the begin of every forward, if the framework waits (`Framework.exchanges`)."""
    end: FloatArray
    """Units reduced at the end of every backward, as `first`."""
    slowdown: FloatArray
    """How much longer work takes beside exchanges."""


class KindCosts:
    """Costs of all kinds of runs; new kinds are added to what is known of the others (`grow`)."""

    def __init__(self, table: StageTable, kinds: RunKinds) -> None:
        self.table, self.kinds = table, kinds
        self._starts, self._stops = np.zeros((2, 0), dtype=np.int64)
        self._sent: list[Tensors] = []
        """Tensors that go from one run of a pair to the other."""
        self.held = Held()
        """Bytes of all its matrices, and of those of its stages' rows (`StageRows`)."""
        self.seconds = GrowingRows(5, self.held)
        self.memory = GrowingRows(len(Memory._fields), self.held)
        self.exchange = GrowingRows(len(Exchange._fields), self.held)
        self.transfer = GrowingRows(2, self.held)
        self.spreads, self.sizes = Codes(), Codes()
        """Codes of devices and of microbatch sizes, for `memory_rows`."""
        self._memory_rows: dict[int, CodedRows] = {}
        self._column_rows: dict[tuple[Any, ...], tuple[StageChoice, tuple[Any, ...]]] = {}
        self._run_memory: dict[tuple[Any, ...], RunMemory] = {}
        self._ports: dict[tuple[int, int], tuple[float, tuple[tuple[str, float], ...]]] = {}
        self._shared: dict[Hashable, float] = {}
        self._node = max(group.devices_per_node for group in table.cluster.nodes)

    def grow(self) -> None:
        """Add the kinds of runs and of pairs that are new."""
        self._starts, self._stops = np.array(self.kinds.starts), np.array(self.kinds.stops)
        self._run_memory.clear()
        new = self.kinds.pairs[len(self._sent) :]
        self._sent += [flow_tensors(self.table.graph, (a, b), (b, c)) for a, b, c in new]
        for rows in (self.seconds, self.memory, self.exchange):
            rows.widen(len(self._starts))
        self.transfer.widen(len(self._sent))

    def seconds_row(self, lane: Spread, samples: int, recompute: int, rank: int) -> int:
        """Return the row of F, B, I and W, and of what of F and B is collectives of the lane.

        Args:
            lane: devices of the stage; one replica, unless experts are spread.
            samples: of a microbatch.
            recompute: position in `RECOMPUTE`.
            rank: of the first device.
        """
        key = lane, samples, recompute, rank
        known = self._column_rows.get(key)
        if known is None:
            choice = choice_of(lane, samples=samples, recompute=recompute, replicas=lane[5]).at(rank)
            # equal rows of devices share their columns
            row: tuple[Any, ...] = key if lane[2] > 1 else (self.table.columns_number(choice),)
            known = self._column_rows[key] = choice, row
        return self.seconds.row(known[1], lambda *of: self._seconds(known[0], of[-1]))

    def stage_factor(self, lane: Spread, copies: int, rank: int) -> float:
        """Return how many times as long as `seconds` a stage takes whose devices meet at every update.

        Args:
            lane: devices of the stage, with all replicas.
            copies: positions that hold the same weights.
            rank: of the first device.
        """
        key = "factor", lane, copies, rank
        if key not in self._shared:
            choice = choice_of(lane, replicas=lane[5]).at(rank)
            self._shared[key] = self.table.stage_factor(choice, devices_of(lane) * copies)
        return self._shared[key]

    def _seconds(self, choice: StageChoice, first: int) -> FloatArray:
        time = self.table.alone(choice, self._starts[first:], self._stops[first:])
        if not self.table.job.training:
            return np.array([time.forward_s, *np.zeros((4, len(time.forward_s)))])
        gradient = time.input_grad_s + time.recompute_s
        whole = gradient + time.weight_grad_s - time.behind_weight_s
        comm = time.forward_comm_s + time.backward_comm_s + time.recompute_comm_s - time.behind_weight_s
        return np.array([time.forward_s, whole, gradient, time.weight_grad_s, comm])

    def memory_rows(self, copies: int) -> CodedRows:
        """Return the rows of `Memory` of plans with so many copies by the codes of devices and microbatch
        size, recomputation and ZeRO level: they are the same for any number of stages.
        """
        return self._memory_rows.setdefault(copies, CodedRows(4))

    def memory_row(self, lane: Spread, samples: int, recompute: int, zero: int) -> int:
        """Return the row of `Memory`.

        Args:
            lane: devices of the stage, with all replicas of its weights.
            samples: of a microbatch.
            recompute: position in `RECOMPUTE`.
            zero: ZeRO level.
        """
        if not zero and lane[2] == 1:
            lane = (*lane[:5], 1)  # every replica holds everything
        return self.memory.row((lane, samples, recompute, zero), self._memory)

    def _memory(self, lane: Spread, samples: int, recompute: int, zero: int, first: int) -> FloatArray:
        found = self._found_memory(lane, recompute, zero, first)
        training, again = self.table.job.training, recompute > 0
        forward = found.activation_bytes_per_sample
        buffers = found.buffer_bytes + found.buffer_bytes_per_sample * samples
        return np.array(
            Memory(
                held=found.weight_bytes + found.gradient_bytes + found.optimizer_bytes,
                buffers=buffers,
                run_buffers=buffers + found.run_buffer_bytes,
                saved=forward * samples * training,
                again=found.recompute_peak_bytes_per_sample * samples * again,
                waiting=found.waiting_bytes_per_sample * samples,
                version=found.version_bytes,
            )
        )

    def _found_memory(self, lane: Spread, recompute: int, zero: int, first: int) -> RunMemory:
        """Return the bytes of kinds of runs, which hold for all sizes of microbatches."""
        key = lane, recompute, zero, first
        if key not in self._run_memory:
            choice = choice_of(lane, recompute=recompute, zero=zero, replicas=lane[5])
            if len(self._run_memory) >= MOST_MEMORIES:
                self._run_memory.clear()
            self._run_memory[key] = self.table.memory(choice, self._starts[first:], self._stops[first:])
        return self._run_memory[key]

    def exchange_row(self, lane: Spread, zero: int, bucket_bytes: float, rank: int) -> int:
        """Return the row of `Exchange`.

        Args:
            lane: devices of the stage, with all replicas of its weights.
            zero: ZeRO level.
            bucket_bytes: of gradients that are reduced at once; 0 for all.
            rank: of the first device.
        """
        return self.exchange.row((lane, zero, bucket_bytes, rank), self._exchange)

    def _exchange(self, lane: Spread, zero: int, bucket_bytes: float, rank: int, first: int) -> FloatArray:
        starts, stops = self._starts[first:], self._stops[first:]
        if not self.table.job.training:
            return np.zeros((len(Exchange._fields), len(starts)))
        choice = choice_of(lane, zero=zero, bucket_bytes=bucket_bytes, replicas=lane[5]).at(rank)
        found, three = self.table.exchange(choice, starts, stops), zero == 3
        return np.array(
            Exchange(
                last=found.reduce_s,
                earlier=found.reduce_s * (found.reduce_parts - 1),
                expert_last=found.expert_reduce_s,
                expert_earlier=found.expert_reduce_s * (found.expert_reduce_parts - 1),
                update=found.update_s,
                gather=found.gather_s * (not three),
                fetch=found.gather_part_s * found.blocks * three,
                inside=found.fetched_s,
                first=found.first_s,
                end=found.last_s,
                slowdown=np.full(len(starts), self.table.overlap_slowdown(choice)),
            )
        )

    def transfer_row(self, lane: Spread, samples: int, source: int, target: int) -> int:
        """Return the row of transfers of one microbatch forward and back.

        Args:
            lane: devices of the stages; one replica, unless experts are spread.
            samples: of a microbatch.
            source: first rank of the stage that sends forward.
            target: first rank of the one that receives.
        """
        return self.transfer.row((lane, samples, source, target), self._transfer)

    def _transfer(self, lane: Spread, samples: int, source: int, target: int, first: int) -> FloatArray:
        choice = choice_of(lane, samples=samples, replicas=lane[5])
        ends, sent = (choice.at(source), choice.at(target)), self._sent[first:]
        both = [self.table.crossings.flows(*ends, sent, backward=way) for way in (False, True)]
        return np.array(both)

    def crowd(self, row: int, source: int, target: int, replicas: int) -> float:
        """Return how many times as long a transfer takes if those of all replicas go at the same time.

        Only the replicas of one node are looked at, whose links they could share.

        Args:
            row: devices of a replica.
            source: first rank of the first replica that sends.
            target: first rank of the one that receives.
            replicas: number of them.
        """
        most = max(1, min(replicas, self._node // row))
        key = "crowd", row, source, target, most
        if key not in self._shared:
            self._shared[key] = self._crowd(row, source, target, most)
        return self._shared[key]

    def _crowd(self, row: int, source: int, target: int, replicas: int) -> float:
        order, cluster = self.table.devices, self.table.cluster
        asked: dict[str, float] = defaultdict(float)
        rooms: dict[str, float] = {}
        for replica in range(replicas):
            first, last = (order[at + replica * row :][:row] for at in (source, target))
            for name, room, amount in lane_route(cluster, first, last).resources:
                asked[name] += amount
                rooms[name] = room
        return max([1.0, *(asked[name] / room for name, room in rooms.items())])

    def ports(self, source: int, target: int) -> tuple[float, tuple[tuple[str, float], ...]]:
        """Return the latency in seconds from one rank to another, and the share of which ports' time what
        is sent takes.
        """
        known = self._ports.get((source, target))
        if known is None:
            devices = self.table.devices
            route = lane_route(self.table.cluster, (devices[source],), (devices[target],))
            shares = tuple((name, demand / room) for name, room, demand in route.resources)
            known = self._ports[source, target] = route.latency_s, shares
        return known

    def shared_s(self, lane: Spread, cuts: tuple[int, ...], ranks: tuple[int, ...], zero: int) -> float:
        """Return the seconds in which stages reduce the parameters that they share.

        Args:
            lane: devices of all of them.
            cuts: first layers of all but the first.
            ranks: first rank of each.
            zero: ZeRO level.
        """
        if len(set(ranks)) == 1:
            return 0.0
        size = self._shared_bytes(lane if lane[2] > 1 else (*lane[:5], 2), cuts)
        key = "seconds", lane, ranks, zero, size
        if key not in self._shared:
            self._shared[key] = self._shared_seconds(lane, ranks, zero, size)
        return self._shared[key]

    def _shared_bytes(self, lane: Spread, cuts: tuple[int, ...]) -> float:
        key = "bytes", lane, cuts
        if key not in self._shared:
            choice = choice_of(lane, replicas=lane[5])
            count = len(self.table.graph.layers)
            runs = np.array([0, 0, *cuts]), np.array([count, *cuts, count])
            whole, *parts = self.table.exchange(choice, *runs).reduce_bytes.tolist()
            self._shared[key] = max(0.0, whole - sum(parts))
        return self._shared[key]

    def _shared_seconds(self, lane: Spread, ranks: tuple[int, ...], zero: int, size: float) -> float:
        if size == 0:
            return 0.0
        order, tensor, row = self.table.devices, lane[0], lane[0] * lane[1]
        rows = dict.fromkeys(first + replica * row for first in ranks for replica in range(lane[5]))
        groups = tuple([tuple([order[at + k * tensor] for k in range(lane[1])]) for at in rows])
        return float(reduction_steps(self.table.cluster, zero, row, groups).seconds(size))
