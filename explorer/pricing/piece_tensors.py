"""Tensors of the pieces of one placement: which they hold, reduce, gather and send to one another."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from explorer.base.caching import STAGES_KEPT, Hashed, remembered_each
from explorer.base.units import scalar_bytes
from explorer.cluster import Cluster
from explorer.costs.memory_counts import Counts, spread_axes
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.pricing.gradient_sync import (
    Sums,
    gathered_bytes,
    gradient_parts,
    weight_bytes,
    with_partial_sums,
)
from explorer.pricing.layer_columns import Sharded, sharded_of
from explorer.pricing.mesh_lines import Lines, axis_lines, cut_rows, lines_of_rows, meshes_of
from explorer.pricing.routes import Pattern, Route, flow_pattern, lane_route, reversed_pattern
from explorer.pricing.section_time import section_counts
from explorer.pricing.stage_transfers import crossing_route
from explorer.sharding.result import ShardedLayers
from explorer.strategy import JobStrategy, Stage
from explorer.tasks.holder_groups import find_groups
from explorer.tasks.placement import Holders, Piece, PlacedStrategy
from explorer.tasks.program import GATHER, OPENING, WHOLE, Slot
from explorer.updates import GRADIENTS, WEIGHTS, rule_of
from explorer.workload import Job

Row = tuple[int, ...]
Groups = tuple[tuple[tuple[Row, ...], float], ...]
"""Rows that hold equal weights, and the bytes of these that one device of a row needs."""


class Parts(NamedTuple):
    """Number of equal parts of a collective."""

    total: int
    """All parts of the collective."""
    here: int
    """Parts in one slot."""


class Exchanges:
    """One placement: who holds which tensors, and which have to go where. `Pricer` adds the seconds."""

    def __init__(
        self, graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy, placement: PlacedStrategy
    ) -> None:
        self.framework = load_framework(job.framework)
        self.graph, self.cluster, self.job = graph, cluster_under(cluster, self.framework), job
        self.strategy, self.placement = strategy, placement
        self.sections = placement.skeleton.sections
        self.stages = [strategy.stages[section.stage] for section in self.sections]
        self._sharded: list[Sharded] | None = None
        self._reduced: list[set[int]] | None = None
        self._keeping: list[tuple[Holders, tuple[int, ...]]] | None = None
        self._flows: dict[int, tuple[float, Pattern]] = {}
        self._held: dict[tuple[int, int | None], Counts] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what it was made from: all else follows from that."""
        return type(self), (self.graph, self.cluster, self.job, self.strategy, self.placement)

    @property
    def sharded(self) -> list[Sharded]:
        """Per section: the sharding of the whole graph under its stage's layout."""
        if self._sharded is None:
            self._sharded = _sharded_each(self.stages, ("",) * len(self.stages), self.graph)
        return self._sharded

    def row(self, piece: Piece) -> Row:
        """Return the devices of a piece."""
        return self.sections[piece.section].rows[piece.copy][piece.replica]

    def lines(self, section: int, copy: int, row: Row) -> Lines:
        """Return the devices along the axes of a row."""
        return axis_lines(self.stages[section], copy, row)

    # ---- held and reduced -------------------------------------------------------------------------

    def whole(self, section: int) -> tuple[int, ...]:
        """Return the parameters of cut layers that a section nevertheless holds whole."""
        return self.placement.whole[section] if self.placement.whole else ()

    def shards(self, section: int, place: int | None = None) -> ShardedLayers:
        """Return the shards of one device of a section: with unequal shares at `place`, or the largest."""
        stage = self.stages[section]
        if place is None or not stage.axis_shares:
            return self.sharded[section].shards
        return sharded_of(self.graph, stage, place).shards

    def held(self, section: int, place: int | None = None) -> Counts:
        """Count what one device of a section holds: with unequal shares at `place`, or the largest."""
        if (section, place) not in self._held:
            self._held[section, place] = section_counts(
                self.graph, self.shards(section, place), self.placement.layers[section],
                self.placement.fractions[section], self.whole(section),
            )  # fmt: skip
        return self._held[section, place]

    def unreduced(self, section: int) -> tuple[int, ...]:
        """Return the parameters of a section whose partial sums inside the replica no reduction adds up."""
        shards = self.sharded[section].shards
        if not self.job.training or not shards.holdings.summed.any():
            return ()
        if self._reduced is None:
            self._reduced = [set() for _ in self.sections]
            skeleton = self.placement.skeleton
            for number, group in enumerate(find_groups(skeleton)):
                if rule_of(skeleton.holders[number].update).exchanges == GRADIENTS:
                    for i in group.sections:
                        self._reduced[i].update(self.placement.held[number])
        reduced = self._reduced[section]
        return tuple(p for p in with_partial_sums(shards, self.held(section)) if p not in reduced)

    def summed(self, piece: Piece) -> tuple[tuple[Sums, float], ...]:
        """Return the bytes of the partial sums that a device of a piece adds up before its update."""
        parameters = self.unreduced(piece.section)
        return self.gradients(piece.section, parameters) if parameters else ()

    def gradients(self, section: int, parameters: tuple[int, ...]) -> tuple[tuple[Sums, float], ...]:
        """Return the bytes of gradients of some parameters on one device, by the axes to add them over."""
        width = scalar_bytes(self.job.gradient_precision or self.job.precision)
        width *= self.stages[section].density
        return gradient_parts(self.graph, self.sharded[section].shards, self.held(section), parameters, width)

    def weights(self, section: int, parameters: tuple[int, ...]) -> float:
        """Return the bytes of some parameters on one device."""
        return weight_bytes(self.graph, self.held(section), parameters, scalar_bytes(self.job.precision))

    def kept(self, section: int) -> tuple[float, float]:
        """Return the bytes of gradients and of weights that a device keeps for a section's update rules."""
        if self._keeping is None:
            pairs = zip(self.placement.skeleton.holders, self.placement.held, strict=True)
            self._keeping = [(group, held) for group, held in pairs if rule_of(group.update).keeps]
        # groups of the same parameters hold a shard each, of which a device has one
        own = dict.fromkeys(
            (group.update, held)
            for group, held in self._keeping
            if any(piece.section == section for piece in group.pieces)
        )
        found = {GRADIENTS: 0.0, WEIGHTS: 0.0}
        for update, held in own:
            gradients = sum(size for _, size in self.gradients(section, held))
            sizes = {GRADIENTS: gradients, WEIGHTS: self.weights(section, held)}
            for item in rule_of(update).keeps:
                found[item.what] += item.copies * sizes[item.what]
        return found[GRADIENTS], found[WEIGHTS]

    def parts(self, slot: Slot) -> Parts:
        """Count the equal parts in which a collective runs, and those in one slot."""
        if slot.part == WHOLE:
            return Parts(1, 1)
        if slot.kind == GATHER:
            count = self.blocks(slot.where)
            return Parts(count, 1 if slot.part == OPENING else count - 1)
        count = self.buckets(slot.where)
        return Parts(count, count - 1 if slot.part == OPENING else 1)

    def buckets(self, number: int) -> int:
        """Count the buckets in which a holders group reduces gradients."""
        name = self.graph.parameters[self.placement.held[number][0]].name
        sync = self.strategy.sync_of(name)
        if not sync or not sync.bucket_bytes:
            return 1
        return max(1, math.ceil(sum(size for _, size in self.reduced(number)[2]) / sync.bucket_bytes))

    def blocks(self, section: int) -> int:
        """Count the blocks of a section; layers outside of blocks go with one of them."""
        names = self.graph.memo("block names", lambda: np.array([item.block for item in self.graph.layers]))
        found = set(names[self.placement.layers[section]].tolist()) - {""}
        return max(1, len(found))

    def chunks(self, number: int) -> tuple[int, ...]:
        """Return for each row of a holders group its group of replicas, over which ZeRO shards."""
        places: dict[Row, int] = {}
        for piece in self.placement.skeleton.holders[number].pieces:
            section = self.sections[piece.section]
            places.setdefault(self.row(piece), section.shard_group(piece.copy, piece.replica))
        return tuple(places.values())

    def reduced(
        self, number: int
    ) -> tuple[tuple[Row, ...], tuple[Lines, ...], tuple[tuple[Sums, float], ...]]:
        """Return the rows of a holders group, devices along their axes if needed, and bytes exchanged."""
        group = self.placement.skeleton.holders[number]
        pieces, held = group.pieces, self.placement.held[number]
        parts: tuple[tuple[Sums, float], ...] = (((), self.weights(pieces[0].section, held)),)
        if rule_of(group.update).exchanges == GRADIENTS:
            parts = self.gradients(pieces[0].section, held)
        rows = find_groups(self.placement.skeleton)[number].rows
        if not any(sums for sums, _ in parts):
            return rows, (), parts
        section, copy = pieces[0].section, pieces[0].copy
        if rows == self.sections[section].rows[copy]:
            return rows, lines_of_rows(meshes_of(self.stages[section], copy), rows), parts
        places = {self.row(piece): piece for piece in reversed(pieces)}
        lines = tuple(self.lines(places[row].section, places[row].copy, row) for row in rows)
        return rows, lines, parts

    # ---- gathered ---------------------------------------------------------------------------------

    def gathered(self, piece: Piece) -> Groups:
        """Return what ZeRO gathers for a piece: first all rows of the section, which need nothing."""
        section = piece.section
        width = scalar_bytes(self.job.precision)
        shape = self.sections[section]
        copies = shape.rows
        everyone = copies[0] if len(copies) == 1 else tuple(row for copy in copies for row in copy)
        found = [(everyone, 0.0)]
        own = shape.shard_group(piece.copy, piece.replica) * shape.shards
        near = everyone if shape.shards == len(everyone) else everyone[own : own + shape.shards]
        for carved, size in gathered_bytes(self.held(section), self.stages[section].zero, width):
            if carved < 1.0:
                rows = self._spread_rows(piece.section, near)
            else:
                rows = near if carved == 1.0 else tuple(r for r in self._carved_rows(piece) if r in near)
            found.append((rows, size))
        return tuple(found)

    def spread(self, piece: Piece) -> Groups:
        """Return what ZeRO gathers within a lane, if it shards over no other replica."""
        if not self.sections[piece.section].zero or self.sections[piece.section].shards > 1:
            return ()
        return tuple((rows, size) for rows, size in self.gathered(piece)[1:] if len(rows) > 1)

    def _spread_rows(self, section: int, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """Cut rows along the axes that split no parameter: all parts hold the same."""
        axes = spread_axes(self.sharded[section].shards)
        known = rows if isinstance(rows, Hashed) else Hashed(rows)
        return cut_rows(self.stages[section].meshes, known, axes)

    def _carved_rows(self, piece: Piece) -> tuple[Row, ...]:
        """Return rows with equal shards of parameters that a mesh of their own spreads over replicas."""
        carved = self.sharded[piece.section].shards.holdings.carved
        for group, found in zip(self.placement.skeleton.holders, self.placement.held, strict=True):
            if piece in group.pieces and any(carved[p] != 1.0 for p in found):
                return tuple(dict.fromkeys([self.row(item) for item in group.pieces]))
        return (self.row(piece),)

    # ---- sent -------------------------------------------------------------------------------------

    def flow(self, number: int) -> tuple[float, Pattern]:
        """Return the bytes of one sample of a flow's whole tensors, and who holds and needs which share."""
        known = self._flows.get(number)
        if known is None:
            found = self.placement.skeleton.flows[number]
            targets = [self.sharded[target].shards for target in found.targets]
            known = self._flows[number] = flow_pattern(
                self.graph, self.job.precision, self.placement.flow_tensors[number],
                self.sharded[found.source].shards, *targets,
            )  # fmt: skip
        return known

    def route(self, slot: Slot) -> Route:
        """Return who sends which share to whom in a transfer; a gather after it is part of its latency."""
        size, pattern = self.flow(slot.where)
        way = reversed_pattern(pattern) if slot.backward else pattern
        source, target = self.row(slot.piece), self.row(slot.peer)
        if self.strategy.transfers in ("", "direct"):
            return lane_route(self.cluster, source, target, way)
        sent = float(size * slot.samples)
        return crossing_route(self.cluster, source, target, way, sent, self.strategy.transfers)

    def lane_route(self, slot: Slot) -> Route:
        """Return the direct way of a transfer, whatever way the strategy chooses."""
        pattern = self.flow(slot.where)[1]
        way = reversed_pattern(pattern) if slot.backward else pattern
        return lane_route(self.cluster, self.row(slot.piece), self.row(slot.peer), way)


@remembered_each(STAGES_KEPT)
def _sharded_each(stage: Stage, _: str, graph: LayerGraph) -> Sharded:
    return sharded_of(graph, stage)
