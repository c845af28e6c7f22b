"""Costs of kinds of runs under many choices: matrices that grow as they are asked.

A row is a choice (of devices that share a layer, of samples, of what is recomputed, ...), a column a kind of
run or pair (`run_kinds`). Each matrix is keyed by just what its numbers depend on, so that the many plans of
a space share few rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from explorer.pricing.gradient_sync import reduction_steps
from explorer.pricing.routes import lane_route
from explorer.tables.borders import Tensors, flow_tensors
from explorer.tables.coded_rows import CodedRows, Codes
from explorer.tables.run_kinds import RunKinds
from explorer.tables.stage_choice import StageChoice
from explorer.tables.stage_table import StageTable
from explorer.tasks.skeleton import FloatArray, IntArray


class Rows:
    """A matrix of some quantities: rows by key, each a (quantities, columns) array, made when first asked.

    Values lie column by column, so that one column of many rows is read from little memory.
    """

    def __init__(self, quantities: int, columns: int) -> None:
        self.columns = columns
        self._row_of: dict[tuple[Any, ...], int] = {}
        self._values = np.zeros((quantities, columns, 16))

    @property
    def held_bytes(self) -> int:
        """Bytes of the matrix."""
        return self._values.nbytes

    def row(self, key: tuple[Any, ...], make: Callable[..., FloatArray]) -> int:
        """Return the number of a row; if it is new, `make(*key)` fills it."""
        found = self._row_of.get(key)
        if found is None:
            made = make(*key)
            found = self._new(key)
            self._values[:, :, found] = made
        return found

    def _new(self, key: tuple[Any, ...]) -> int:
        found = len(self._row_of)
        if found == self._values.shape[2]:
            self._values = np.concatenate([self._values, np.zeros_like(self._values)], axis=2)
        self._row_of[key] = found
        return found

    def of(self, rows: IntArray, columns: IntArray, first: int | None = None) -> FloatArray:
        """Return the (quantities, ...) values at rows and columns that broadcast; of the first quantities."""
        values = self._values[:first]
        place = columns * values.shape[2] + rows
        found: FloatArray = np.take(values.reshape(len(values), -1), place, axis=1)
        return found

    def whole(self, rows: IntArray, first: int | None = None) -> FloatArray:
        """Return the (quantities, columns, n) values of n rows; of the first quantities."""
        return np.take(self._values[:first], rows, axis=2)


class GrowingRows(Rows):
    """Rows to which columns are added; a row is filled as far as there are columns whenever it is asked."""

    def __init__(self, quantities: int) -> None:
        super().__init__(quantities, 0)
        self._values = np.zeros((quantities, 4, 16))
        self._filled = np.zeros(16, dtype=np.int64)

    def widen(self, columns: int) -> None:
        """Have so many columns from now on."""
        self.columns = columns
        quantities, there, rows = self._values.shape
        if columns > there:
            grown = np.zeros((quantities, max(columns, 2 * there), rows))
            grown[:, :there] = self._values
            self._values = grown

    def row(self, key: tuple[Any, ...], make: Callable[..., FloatArray]) -> int:
        """Return the number of a row; `make(*key, n)` fills its columns from the n-th on, if it lacks any."""
        found = self._row_of.get(key)
        if found is None:
            found = self._new(key)
            if found == len(self._filled):
                self._filled = np.concatenate([self._filled, np.zeros_like(self._filled)])
        first = int(self._filled[found])
        if first < self.columns:
            self._values[:, first : self.columns, found] = make(*key, first)
            self._filled[found] = self.columns
        return found

    def unfilled(self, rows: IntArray) -> list[int]:
        """Return the places in an array of rows of those that lack columns."""
        found: list[int] = np.flatnonzero(self._filled[rows] < self.columns).tolist()
        return found


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


class KindCosts:
    """Costs of all kinds of runs; new kinds are added to what is known of the others (`grow`)."""

    def __init__(self, table: StageTable, kinds: RunKinds) -> None:
        self.table, self.kinds = table, kinds
        self._starts, self._stops = np.zeros((2, 0), dtype=np.int64)
        self._sent: list[Tensors] = []
        """Tensors that go from one run of a pair to the other."""
        self.seconds = GrowingRows(5)
        self.memory = GrowingRows(len(Memory._fields))
        self.exchange = GrowingRows(len(Exchange._fields))
        self.transfer = GrowingRows(2)
        self.spreads, self.sizes = Codes(), Codes()
        """Codes of devices and of microbatch sizes, for `memory_rows`."""
        self._memory_rows: dict[int, CodedRows] = {}
        self._shared: dict[Hashable, float] = {}
        self._node = max(group.devices_per_node for group in table.cluster.nodes)

    @property
    def held_bytes(self) -> int:
        """Bytes of all matrices."""
        every = self.seconds, self.memory, self.exchange, self.transfer
        return sum(rows.held_bytes for rows in every)

    def grow(self) -> None:
        """Add the kinds of runs and of pairs that are new."""
        self._starts, self._stops = np.array(self.kinds.starts), np.array(self.kinds.stops)
        new = self.kinds.pairs[len(self._sent) :]
        self._sent += [flow_tensors(self.table.graph, (a, b), (b, c)) for a, b, c in new]
        for rows in (self.seconds, self.memory, self.exchange):
            rows.widen(len(self._starts))
        self.transfer.widen(len(self._sent))

    def seconds_row(self, choice: StageChoice) -> int:
        """Return the row of F, B, I and W of a choice, and of what of F and B is collectives of the lane."""
        if choice.expert > 1:
            return self.seconds.row((choice,), self._seconds)
        number = self.table.columns_number(choice)  # equal rows of devices share their columns
        return self.seconds.row((number,), lambda _, first: self._seconds(choice, first))

    def _seconds(self, choice: StageChoice, first: int) -> FloatArray:
        time = self.table.seconds(choice, self._starts[first:], self._stops[first:])
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

    def memory_row(self, choice: StageChoice) -> int:
        """Return the row of `Memory` of a choice."""
        return self.memory.row((choice,), self._memory)

    def _memory(self, choice: StageChoice, first: int) -> FloatArray:
        found = self.table.memory(choice, self._starts[first:], self._stops[first:])
        samples = choice.microbatch_size
        training, again = self.table.job.training, choice.recompute != "none"
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

    def exchange_row(self, choice: StageChoice) -> int:
        """Return the row of `Exchange` of a choice."""
        return self.exchange.row((choice,), self._exchange)

    def _exchange(self, choice: StageChoice, first: int) -> FloatArray:
        starts, stops = self._starts[first:], self._stops[first:]
        if not self.table.job.training:
            return np.zeros((len(Exchange._fields), len(starts)))
        found, three = self.table.exchange(choice, starts, stops), choice.zero == 3
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
            )
        )

    def transfer_row(self, choice: StageChoice, source: int, target: int) -> int:
        """Return the row of transfers forward and back between stages whose first ranks are given."""
        return self.transfer.row((choice, source, target), self._transfer)

    def _transfer(self, choice: StageChoice, source: int, target: int, first: int) -> FloatArray:
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

    def shared_s(
        self, choice: StageChoice, cuts: tuple[int, ...], ranks: tuple[int, ...], zero: int
    ) -> float:
        """Return the seconds in which stages reduce the parameters that they share.

        Args:
            choice: of all of them.
            cuts: first layers of all but the first.
            ranks: first rank of each.
            zero: ZeRO level.
        """
        size = self._shared_bytes(
            replace(choice, replicas=2 if choice.expert == 1 else choice.replicas), cuts
        )
        key = "seconds", choice, ranks, zero, size
        if key not in self._shared:
            self._shared[key] = self._shared_seconds(choice, ranks, zero, size)
        return self._shared[key]

    def _shared_bytes(self, choice: StageChoice, cuts: tuple[int, ...]) -> float:
        key = "bytes", choice, cuts
        if key not in self._shared:
            count = len(self.table.graph.layers)
            runs = np.array([0, 0, *cuts]), np.array([count, *cuts, count])
            whole, *parts = self.table.exchange(choice, *runs).reduce_bytes.tolist()
            self._shared[key] = max(0.0, whole - sum(parts))
        return self._shared[key]

    def _shared_seconds(self, lane: StageChoice, ranks: tuple[int, ...], zero: int, size: float) -> float:
        row = lane.row_devices
        rows = dict.fromkeys(first + replica * row for first in ranks for replica in range(lane.replicas))
        order = self.table.devices
        groups = tuple(tuple(order[at + k * lane.tensor] for k in range(lane.context)) for at in rows)
        if size == 0 or len(set(ranks)) == 1:
            return 0.0
        return float(reduction_steps(self.table.cluster, zero, row, groups).seconds(size))
