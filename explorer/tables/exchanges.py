"""Exchanges of runs: updates, reductions of gradients and gathers of weights of many runs of layers at once.

Who reduces with whom is asked once of a stage that has the whole model (`explorer.tasks.holders`). Bytes are
prefix sums over the parameters of single layers; parameters that several layers share count where a run has
all of these. Others are reduced with further stages, and are no part of a run's own cost.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from explorer.base.units import dtype_bytes
from explorer.cluster import Cluster
from explorer.costs.compute import updates_seconds
from explorer.costs.memory_arrays import graph_arrays
from explorer.costs.memory_counts import Counts
from explorer.graph import LayerGraph
from explorer.pricing.gradient_sync import (
    Sums,
    gather_seconds,
    gathered_bytes,
    reduce_seconds,
    summing_groups,
    updated_elements,
    with_partial_sums,
)
from explorer.pricing.layer_columns import FloatArray
from explorer.pricing.mesh_lines import Line
from explorer.pricing.pricer import Pricer
from explorer.strategy import JobStrategy, Stage
from explorer.tables.prefix_sums import sums as prefix_sums
from explorer.tasks.placement import Piece, place
from explorer.tasks.skeleton import IntArray
from explorer.workload import Job

FIRST = Piece(0, 0, 0)
"""The replica that is looked at."""


class RunExchange(NamedTuple):
    """Seconds and bytes of the exchanges of many runs of layers, arrays by run."""

    update_s: FloatArray
    """Seconds of an update, with sums and gathers inside the lane that come with it."""
    reduce_s: FloatArray
    """Seconds of one bucket of the reduction over replicas; of all gradients without buckets."""
    reduce_parts: FloatArray
    """Number of buckets, all of which take as long."""
    expert_reduce_s: FloatArray
    """As `reduce_s`, of experts that only some of the replicas hold."""
    expert_reduce_parts: FloatArray
    """Number of their buckets."""
    reduce_bytes: FloatArray
    """Bytes of gradients that one device reduces over replicas."""
    gather_s: FloatArray
    """Seconds in which ZeRO gathers all weights over replicas."""
    gather_part_s: FloatArray
    """Seconds in which it gathers one of `blocks` equal parts."""
    gather_bytes: FloatArray
    """Bytes of weights that a gather brings to one device."""
    blocks: FloatArray
    """Blocks of a run, in which weights are gathered one by one; at least 1."""
    fetched_s: FloatArray
    """Seconds of weights that ZeRO 3 gathers within the lane, in every forward and backward."""


class _Reduction(NamedTuple):
    """One group of rows that reduces; bytes of one device by the axes that they are partial over."""

    width: int
    """Devices of a row; 0 for gradients that no other replica holds."""
    chunks: tuple[int, ...]
    shared_by_all: bool
    """Whether all replicas are in it."""
    parts: tuple[tuple[tuple[Line, ...], _Bytes], ...]
    """(devices to add over, by row; bytes)."""


class _Bytes:
    """Bytes of some parameters, for every run that holds them."""

    def __init__(self, layers: int, sizes: dict[int, float], users: dict[int, tuple[int, int]]) -> None:
        own = np.zeros(layers)
        self._apart: list[tuple[int, int, float]] = []
        for parameter, size in sizes.items():
            first, last = users[parameter]
            if first == last:
                own[first] += size
            else:
                self._apart.append((first, last, size))
        self._prefix = prefix_sums(own)

    def of(self, starts: IntArray, stops: IntArray) -> FloatArray:
        found: FloatArray = self._prefix[stops] - self._prefix[starts]
        for first, last, size in self._apart:
            found += np.where((starts <= first) & (last < stops), size, 0.0)
        return found


class StageExchanges:
    """Exchanges of any run of layers on the devices of one stage."""

    def __init__(self, graph: LayerGraph, cluster: Cluster, job: Job, stage: Stage) -> None:
        """Ask who exchanges what.

        Args:
            graph: the model.
            cluster: the devices.
            job: the workload.
            stage: a stage that has the whole model, under some level of ZeRO.
        """
        strategy = JobStrategy(stages=(stage,))
        placement = place(graph, strategy, training=job.training)
        pricer = Pricer(graph, cluster, job, strategy, placement)
        self._cluster, self._job = pricer.cluster, job
        self._shape, self._row = pricer.sections[0], pricer.row(FIRST)
        users = _users(graph)
        self._reductions = [
            _reduction(graph, pricer, number, users)
            for number, group in enumerate(placement.skeleton.holders)
            if FIRST in group.pieces
        ]
        reduced = {p for held in placement.held for p in held}
        shards, held = pricer.sharded[0].shards, pricer.held(0)
        lonely = tuple(p for p in with_partial_sums(shards, held) if p not in reduced)
        self._unreduced = _parts(graph, pricer, (self._row,), lonely, users) if job.training else ()
        carved = [item.carved for item in held.weights]
        gathered = pricer.gathered(FIRST)
        self._everyone = len(gathered[0][0])
        self._rows = dict(zip(carved, [rows for rows, _ in gathered[1:]], strict=True))
        self._block_count = _BlockCount(graph)

    def runs(
        self, held: Counts, starts: IntArray, stops: IntArray, *, zero: int, bucket_bytes: float
    ) -> RunExchange:
        """Return the exchanges of runs of layers from `starts` to before `stops`.

        Args:
            held: counts of the runs, as arrays.
            starts: first layers.
            stops: layers after the last.
            zero: ZeRO level.
            bucket_bytes: bytes of gradients that are reduced at once; 0 for all of them.
        """
        none, one = np.zeros(len(starts)), np.ones(len(starts))
        zero = zero if self._job.training else 0
        spread_s = self._gather(held, zero, one) if zero and self._shape.shards == 1 else none
        update = self._update(held, starts, stops, zero) + (spread_s if zero < 3 else none)
        reduce_s, reduce_parts, everything = [none, none], [one, one], none
        for group in self._reductions:
            sizes = [part.of(starts, stops) for _, part in group.parts]
            total = np.sum(sizes, axis=0)
            count = np.maximum(1.0, np.ceil(total / bucket_bytes)) if bucket_bytes else one
            which = 0 if group.shared_by_all else 1
            reduce_s[which] = reduce_s[which] + self._reduce(group, sizes, count, zero)
            reduce_parts[which] = np.maximum(reduce_parts[which], count)
            everything = everything + total
        blocks = self._block_count.of(starts, stops)
        gathers = bool(zero) and self._shape.shards > 1
        return RunExchange(
            update_s=update,
            reduce_s=reduce_s[0],
            reduce_parts=reduce_parts[0],
            expert_reduce_s=reduce_s[1],
            expert_reduce_parts=reduce_parts[1],
            reduce_bytes=everything,
            gather_s=self._gather(held, zero, one) if gathers else none,
            gather_part_s=self._gather(held, zero, blocks) if gathers else none,
            gather_bytes=self._gathered_bytes(held, zero) if gathers else none,
            blocks=blocks,
            fetched_s=spread_s if zero == 3 else none,
        )

    def _update(self, held: Counts, starts: IntArray, stops: IntArray, zero: int) -> FloatArray:
        """Return seconds of an update on the slowest kind, after the lane's own sums of gradients."""
        found = np.zeros(len(starts))
        if not self._job.training:
            return found
        elements = found + updated_elements(held, zero, self._shape.shards)
        for kind in {self._cluster.kind_of(device) for device in self._row}:
            seconds = updates_seconds(
                kind, elements=elements, optimizer=self._job.optimizer, precision=self._job.precision
            )
            np.maximum(found, seconds, out=found)
        scattered = int(
            bool(zero) and self._shape.shards == 1 and any(len(r) > 1 for r in self._rows.values())
        )
        for groups, part in self._unreduced:
            size = part.of(starts, stops)
            found += self._reduce_part(len(self._row), groups, size, scattered, ())
        return found

    def _reduce(self, group: _Reduction, sizes: list[FloatArray], count: FloatArray, zero: int) -> FloatArray:
        found = np.zeros(len(count))
        for (groups, _), size in zip(group.parts, sizes, strict=True):
            found += self._reduce_part(group.width, groups, size / count, zero, group.chunks)
        return found

    def _reduce_part(
        self, width: int, groups: tuple[Line, ...], size: FloatArray, zero: int, chunks: tuple[int, ...]
    ) -> FloatArray:
        each = cast(float, size)  # formulas of costs take an array as well
        seconds = reduce_seconds(
            self._cluster, "all_reduce", zero, (), width, groups, each, chunks if zero else ()
        )
        return np.where(size > 0, seconds, 0.0)

    def _gather(self, held: Counts, zero: int, parts: FloatArray) -> FloatArray:
        """Return the seconds of a gather of one of some equal parts."""
        found = np.zeros(len(parts))
        for carved, size in gathered_bytes(held, zero, dtype_bytes(self._job.precision)):
            rows = self._rows.get(carved, ())
            if len(rows) > 1:
                everyone = self._everyone if self._shape.shards > 1 else len(rows)
                seconds = gather_seconds(self._cluster, rows, everyone, size / parts)  # type: ignore[arg-type]
                found += np.where(np.asarray(size) > 0, seconds, 0.0)
        return found

    def _gathered_bytes(self, held: Counts, zero: int) -> FloatArray:
        sizes = [size for _, size in gathered_bytes(held, zero, dtype_bytes(self._job.precision))]
        found: FloatArray = np.sum(sizes, axis=0)
        return found


def _reduction(
    graph: LayerGraph, pricer: Pricer, number: int, users: dict[int, tuple[int, int]]
) -> _Reduction:
    rows, _, _ = pricer.reduced(number)
    group, held = pricer.placement.skeleton.holders[number], pricer.placement.held[number]
    everyone = sum(len(found) for found in pricer.sections[0].rows)
    return _Reduction(
        width=len(rows[0]),
        chunks=pricer.chunks(number),
        shared_by_all=len(group.pieces) == everyone,
        parts=_parts(graph, pricer, rows, held, users),
    )


def _parts(
    graph: LayerGraph,
    pricer: Pricer,
    rows: tuple[Line, ...],
    parameters: tuple[int, ...],
    users: dict[int, tuple[int, int]],
) -> tuple[tuple[tuple[Line, ...], _Bytes], ...]:
    """Return the gradients of some parameters by the devices to add them over, inside each row."""
    table, held = graph_arrays(graph).weight, pricer.held(0).held
    width = dtype_bytes(pricer.job.gradient_precision or pricer.job.precision)
    sizes = (table["compute"] * width + table["fixed"]) * table["density"] * held
    own = pricer.sharded[0].shards.holdings
    by_sums: dict[Sums, dict[int, float]] = {}
    for p in parameters:
        partial = own.table[own.number[p]].sums if own.summed[p] else ()
        by_sums.setdefault(partial, {})[p] = float(sizes[p])
    lines = tuple(pricer.lines(0, 0, row) for row in rows) if any(by_sums) else ()
    return tuple(
        (summing_groups(rows, lines, sums), _Bytes(len(graph.layers), found, users))
        for sums, found in sorted(by_sums.items())
    )


def _users(graph: LayerGraph) -> dict[int, tuple[int, int]]:
    """Return the first and the last layer that uses each parameter."""

    def make() -> dict[int, tuple[int, int]]:
        uses = graph_arrays(graph).uses
        found: dict[int, tuple[int, int]] = {}
        for layer, parameter in zip(uses.layer.tolist(), uses.item.tolist(), strict=True):
            first, last = found.get(parameter, (layer, layer))
            found[parameter] = min(first, layer), max(last, layer)
        return found

    return graph.memo("parameter users", make)


class _BlockCount:
    """Number of blocks of every run; layers outside of blocks go with one of them."""

    def __init__(self, graph: LayerGraph) -> None:
        self._block = graph_arrays(graph).block
        before = np.concatenate([[-1], self._block[:-1]])
        begins = (self._block >= 0) & (self._block != before)
        self._whole = begins.sum() == len(np.unique(self._block[self._block >= 0]))
        self._begins, self._number = begins, prefix_sums(begins.astype(np.int64))

    def of(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the blocks of runs, at least 1."""
        if self._whole:
            inside = (self._block[starts] >= 0) & ~self._begins[starts]
            found: FloatArray = np.maximum(1.0, self._number[stops] - self._number[starts] + inside)
            return found
        runs = zip(starts.tolist(), stops.tolist(), strict=True)
        return np.array([max(1.0, len(set(self._block[a:b].tolist()) - {-1})) for a, b in runs], dtype=float)
