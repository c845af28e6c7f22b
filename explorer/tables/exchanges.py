"""Exchanges of runs: updates, reductions of gradients and gathers of weights of many runs of layers at once.

Who exchanges with whom is told by `exchange_groups`. Bytes are prefix sums over the parameters of single
layers; parameters that several layers share count where a run has all of these. Others are reduced with
further stages, and are no part of a run's own cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from explorer.base.units import scalar_bytes
from explorer.cluster import DeviceKind
from explorer.costs.algorithm_lines import CollectiveLines
from explorer.costs.collectives import lowest_line
from explorer.costs.memory_arrays import graph_arrays
from explorer.costs.memory_counts import Counts
from explorer.costs.update_time import update_kernels, updates_seconds
from explorer.framework import UNITS
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.pricing.gradient_sync import Steps, gathered_bytes, updated_elements
from explorer.pricing.layer_columns import FloatArray
from explorer.tables.positions import Positions
from explorer.tasks.skeleton import IntArray
from explorer.workload import Job


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
    first_s: FloatArray
    """Seconds of the units that are gathered at the begin of a forward, if the framework waits for them."""
    last_s: FloatArray
    """Seconds of the units that are reduced at the end of a backward, as `first_s`."""


class ParameterBytes:
    """Bytes of some parameters, for every run that has all layers that use them."""

    def __init__(self, graph: LayerGraph, sizes: Mapping[int, float], positions: Positions) -> None:
        """Sum them.

        Args:
            graph: the model.
            sizes: bytes on one device by position of the parameter.
            positions: where runs start and stop.
        """
        own, users = np.zeros(len(graph.layers)), _users(graph)
        together: dict[tuple[int, ...], float] = {}
        for parameter, size in sizes.items():
            if len(users[parameter]) == 1:
                own[users[parameter][0]] += size
            else:
                together[users[parameter]] = together.get(users[parameter], 0.0) + size
        self._own = positions.sums(own)
        self._shared: list[tuple[IntArray, int, float]] = []
        for layers, size in together.items():
            uses = np.zeros(len(graph.layers), dtype=np.int64)
            uses[list(layers)] = 1
            self._shared.append((positions.sums(uses), len(layers), size))

    def of(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the bytes of runs."""
        found: FloatArray = self._own[stops] - self._own[starts]
        for uses, number, size in self._shared:
            found += np.where(uses[stops] - uses[starts] == number, size, 0.0)
        return found


def _users(graph: LayerGraph) -> dict[int, tuple[int, ...]]:
    """Return the layers that use each parameter."""

    def make() -> dict[int, tuple[int, ...]]:
        uses = graph_arrays(graph).uses
        found: dict[int, list[int]] = {}
        for layer, parameter in zip(uses.layer.tolist(), uses.item.tolist(), strict=True):
            found.setdefault(parameter, []).append(layer)
        return {parameter: tuple(layers) for parameter, layers in found.items()}

    return graph.memo("parameter users", make)


class BlockCount:
    """Number of blocks of every run; layers outside of blocks go with one of them."""

    def __init__(self, graph: LayerGraph, positions: Positions) -> None:
        """Count them once, block by block if they are in one piece each."""
        self._block, self._positions = graph_arrays(graph).block, positions
        before = np.concatenate([[-1], self._block[:-1]])
        begins = (self._block >= 0) & (self._block != before)
        self._whole = begins.sum() == len(np.unique(self._block[self._block >= 0]))
        self._begins, self._number = begins, positions.sums(begins.astype(np.int64))
        uses, elements = graph_arrays(graph).uses, np.array([item.elements for item in graph.parameters])
        of_layer = np.bincount(uses.layer, weights=elements[uses.item], minlength=len(graph.layers))
        self._elements = positions.sums(of_layer)
        self._within = positions.sums(of_layer * (self._block >= 0))

    def outside(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the share of the parameters of runs that is outside of blocks; 0 where there are none."""
        every, within = (part[stops] - part[starts] for part in (self._elements, self._within))
        return np.asarray(np.where(within > 0, (every - within) / np.maximum(every, 1e-300), 0.0))

    def of(self, starts: IntArray, stops: IntArray) -> FloatArray:
        """Return the blocks of runs, at least 1."""
        if self._whole:
            number = self._number[stops] - self._number[starts]
            if self._positions.ordered:  # a cut may divide a block
                number = number + ((self._block[starts] >= 0) & ~self._begins[starts])
            found: FloatArray = np.maximum(1.0, number)
            return found
        runs = zip(starts.tolist(), stops.tolist(), strict=True)
        blocks = [set(self._block[self._positions.layers(*run)].tolist()) - {-1} for run in runs]
        return np.array([max(1.0, len(item)) for item in blocks])


class Part(NamedTuple):
    """Gradients that are added up over the same devices."""

    size: ParameterBytes
    plain: Steps
    """Their reduction."""
    scattered: Steps
    """The same under ZeRO, where each replica gets its shard."""

    def seconds(self, size: FloatArray, zero: int) -> FloatArray:
        """Return the seconds for some sizes; 0 where there is nothing."""
        steps = self.scattered if zero else self.plain
        return np.where(size > 0, steps.seconds(cast(float, size)), 0.0)


class Reduction(NamedTuple):
    """Gradients that some replicas reduce together, part by part."""

    everyone: bool
    """Whether all replicas do."""
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageExchanges:
    """Exchanges of any run of layers on the devices of one stage."""

    job: Job
    kinds: tuple[DeviceKind, ...]
    """Kinds of the devices of a replica."""
    shards: int
    """Replicas over which ZeRO shards."""
    reductions: tuple[Reduction, ...]
    """Those that the first replica takes part in."""
    unreduced: tuple[Part, ...]
    """Gradients that are partial sums inside a replica, and that no other replica holds."""
    gathers: Mapping[float, CollectiveLines]
    """How weights are gathered, by the factor by which they have fewer replicas (`Weights.carved`); those of
    which a device has everything are left out."""
    block_count: BlockCount

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
        zero = zero if self.job.training else 0
        spread_s = self._gather(held, zero, one) if zero and self.shards == 1 else none
        update = self._update(held, starts, stops, zero) + (spread_s if zero < 3 else none)
        reduce_s, reduce_parts, everything = [none, none], [one, one], none
        for group in self.reductions:
            sizes = [part.size.of(starts, stops) for part in group.parts]
            total = np.sum(sizes, axis=0)
            count = np.maximum(1.0, np.ceil(total / bucket_bytes)) if bucket_bytes else one
            which = 0 if group.everyone else 1
            for part, size in zip(group.parts, sizes, strict=True):
                reduce_s[which] = reduce_s[which] + part.seconds(size / count, zero)
            reduce_parts[which] = np.maximum(reduce_parts[which], count)
            everything = everything + total
        blocks = self.block_count.of(starts, stops)
        gathers = bool(zero) and self.shards > 1
        by_units = gathers and zero >= 2 and load_framework(self.job.framework).exchanges == UNITS
        first, last = self._ends(held, starts, stops, zero) if by_units else (none, none)
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
            first_s=first,
            last_s=last,
        )

    def _ends(
        self, held: Counts, starts: IntArray, stops: IntArray, zero: int
    ) -> tuple[FloatArray, FloatArray]:
        """Return the seconds of the units at the begin of a forward and the end of a backward."""
        blocks, outside = self.block_count.of(starts, stops), self.block_count.outside(starts, stops)
        first, last = np.zeros((2, len(starts)))
        for share in (outside, (1.0 - outside) / blocks):
            there = share > 0
            if zero == 3:
                parts = 1.0 / np.where(there, share, 1.0)
                first += np.where(there, self._gather(held, zero, parts), 0.0)
            for part in (part for group in self.reductions for part in group.parts):
                last += part.seconds(part.size.of(starts, stops) * share, zero)
        return first, last

    def _update(self, held: Counts, starts: IntArray, stops: IntArray, zero: int) -> FloatArray:
        """Return seconds of an update on the slowest kind, after the lane's own sums of gradients."""
        found = np.zeros(len(starts))
        if not self.job.training:
            return found
        elements = found + updated_elements(held, zero, self.shards)
        for kind in self.kinds:
            seconds = updates_seconds(
                kind, elements=elements, optimizer=self.job.optimizer, precision=self.job.precision,
                kernels=update_kernels(load_framework(self.job.framework)),
                gradient_bytes=scalar_bytes(self.job.gradient_precision or self.job.precision),
            )  # fmt: skip
            np.maximum(found, seconds, out=found)
        for part in self.unreduced:
            spread = zero if self.shards == 1 and self.gathers else 0
            found += part.seconds(part.size.of(starts, stops), spread)
        return found

    def _gather(self, held: Counts, zero: int, parts: FloatArray) -> FloatArray:
        """Return the seconds of a gather of one of some equal parts."""
        found = np.zeros(len(parts))
        for carved, size in gathered_bytes(held, zero, scalar_bytes(self.job.precision)):
            if carved in self.gathers:
                each = np.asarray(size)
                seconds = lowest_line(self.gathers[carved], cast(float, each / parts))
                found += np.where(each > 0, seconds, 0.0)
        return found

    def _gathered_bytes(self, held: Counts, zero: int) -> FloatArray:
        sizes = [size for _, size in gathered_bytes(held, zero, scalar_bytes(self.job.precision))]
        found: FloatArray = np.sum(sizes, axis=0)
        return found
