"""Pricer: the slots of one placement, each handed to the pure function that prices it."""

from __future__ import annotations

from typing import NamedTuple

from explorer.cluster import Cluster
from explorer.costs.compute import update_seconds
from explorer.costs.memory import StageMemory
from explorer.costs.memory_counts import Counts
from explorer.graph import LayerGraph
from explorer.pricing.lines import Lines, axis_lines
from explorer.pricing.routes import Pattern, Route, flow_pattern, lane_route, reversed_pattern, transfer_price
from explorer.pricing.section import (
    SectionTime,
    lane_sends,
    section_counts,
    section_memory,
    section_time,
    sharded_of,
)
from explorer.pricing.states import (
    Sums,
    gather_price,
    gathered_bytes,
    gradient_parts,
    reduce_price,
    updated_elements,
    with_partial_sums,
)
from explorer.strategy import JobStrategy
from explorer.tasks.placement import Piece, Placement
from explorer.tasks.program import GATHER, TRANSFER, B, F, Slot, U, W
from explorer.units import dtype_bytes
from explorer.workload import Job

Row = tuple[int, ...]


class SlotPrice(NamedTuple):
    """Price of one slot."""

    seconds: float = 0.0
    comm_s: float = 0.0
    """Of it, collectives inside a compute task."""
    bytes: float = 0.0
    """Moved between lanes, all devices of a lane together."""
    lane_bytes: float = 0.0
    """Sent by each device along the axes of its lane."""


class Pricer:
    """Prices slots of one placement. Made anew for each evaluation; what it asks is remembered below."""

    def __init__(
        self, graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy, placement: Placement
    ) -> None:
        self.graph, self.cluster, self.job = graph, cluster, job
        self.strategy, self.placement = strategy, placement
        self.sections = placement.skeleton.sections
        self.stages = [strategy.stages[section.stage] for section in self.sections]
        self.sharded = [sharded_of(graph, stage) for stage in self.stages]
        self._reduced: list[set[int]] | None = None
        self._flows: dict[int, tuple[float, Pattern]] = {}

    # ---- compute ---------------------------------------------------------------------------------

    def section_time(self, section: int, device: int, samples: int) -> SectionTime:
        """Seconds of a section for some samples on the row that holds `device`."""
        rows = self.sections[section].rows
        for copy, found in enumerate(rows):
            for row in found:
                if device in row:
                    return self._row_time(section, copy, row, samples)
        return self._row_time(section, 0, (device,), samples)

    def _row_time(self, section: int, copy: int, row: Row, samples: int) -> SectionTime:
        kinds = tuple(dict.fromkeys([self.cluster.kind_of(device).name for device in row]))
        lines = self.lines(section, copy, row) if self.sharded[section].inside is not None else ()
        return section_time(
            self.graph, self.cluster, self.job.precision, self.stages[section].recompute,
            self.sharded[section], self.placement.layers[section], self.placement.fractions[section],
            kinds, lines, float(samples),
        )  # fmt: skip

    def lines(self, section: int, copy: int, row: Row) -> Lines:
        """Devices along the axes of a row."""
        return axis_lines(self.stages[section], copy, row)

    def memory(self, section: int) -> StageMemory:
        """Memory of one device of a section."""
        stage, job = self.stages[section], self.job
        return section_memory(
            self.graph, self.sharded[section].shards, self.placement.layers[section],
            self.placement.fractions[section], self._whole(section), job.precision, job.gradient_precision,
            job.optimizer, job.training, stage.zero, self._replicas(section), stage.recompute,
        )  # fmt: skip

    def _whole(self, section: int) -> tuple[int, ...]:
        return self.placement.whole[section] if self.placement.whole else ()

    def _replicas(self, section: int) -> int:
        return self.sections[section].replicas * len(self.sections[section].rows)

    def held(self, section: int) -> Counts:
        """What one device of a section holds."""
        return section_counts(
            self.graph, self.sharded[section].shards, self.placement.layers[section],
            self.placement.fractions[section], self._whole(section),
        )  # fmt: skip

    def unreduced(self, section: int) -> tuple[int, ...]:
        """Parameters of a section with partial sums inside the replica that no reduction adds up."""
        shards = self.sharded[section].shards
        if not shards.partial_sums or not self.job.training:
            return ()
        if self._reduced is None:
            self._reduced = [set() for _ in self.sections]
            for group, found in zip(self.placement.skeleton.holders, self.placement.held, strict=True):
                for i in {piece.section for piece in group.pieces}:
                    self._reduced[i].update(found)
        reduced = self._reduced[section]
        return tuple(p for p in with_partial_sums(self.graph, shards, self.held(section)) if p not in reduced)

    # ---- slots -----------------------------------------------------------------------------------

    def price(self, slot: Slot) -> SlotPrice:
        """Price of a slot."""
        if slot.kind < 0:
            return SlotPrice()
        if slot.kind < U:
            return self._compute(slot)
        if slot.kind == U:
            return self._update(slot)
        if slot.kind == TRANSFER:
            return self._transfer(slot)
        return self._gather(slot) if slot.kind == GATHER else self._reduce(slot)

    def row(self, piece: Piece) -> Row:
        """Devices of a piece."""
        return self.sections[piece.section].rows[piece.copy][piece.replica]

    def _compute(self, slot: Slot) -> SlotPrice:
        time = self._row_time(slot.where, slot.piece.copy, self.row(slot.piece), slot.samples)
        if slot.kind == F:
            return SlotPrice(time.forward_s, time.forward_comm_s, 0.0, time.forward_bytes)
        if slot.kind == W:
            return SlotPrice(time.weight_grad_s)
        seconds = time.input_grad_s + time.recompute_s + (time.weight_grad_s if slot.kind == B else 0.0)
        comm = time.backward_comm_s + time.recompute_comm_s
        return SlotPrice(seconds, comm, 0.0, time.backward_bytes + time.recompute_bytes)

    def _update(self, slot: Slot) -> SlotPrice:
        row, section = self.row(slot.piece), slot.where
        zero = self.stages[section].zero
        elements = updated_elements(self.held(section), zero, self._replicas(section))
        seconds = max(
            update_seconds(
                kind, elements=elements, optimizer=self.job.optimizer, precision=self.job.precision
            )
            for kind in {self.cluster.kind_of(device) for device in row}
        )
        comm = lane_bytes = 0.0
        if parameters := self.unreduced(section):
            lines = (self.lines(section, slot.piece.copy, row),)
            parts = self._gradients(section, parameters)
            comm, _, lane_bytes = reduce_price(self.cluster, "all_reduce", 0, (), (row,), lines, parts)
        return SlotPrice(seconds + comm, comm, 0.0, lane_bytes)

    def sends(self, piece: Piece, samples: int, *, backward: bool) -> dict[tuple[str, int], float]:
        """Bytes that each device of a piece sends along each (axis, size) in a forward or backward."""
        section = piece.section
        return lane_sends(
            self.cluster, self.job.precision, self.stages[section].recompute, self.graph,
            self.sharded[section], self.placement.layers[section], self.placement.fractions[section],
            self.lines(section, piece.copy, self.row(piece)), float(samples), backward=backward,
        )  # fmt: skip

    def summed(self, piece: Piece) -> tuple[tuple[Sums, float], ...]:
        """Bytes of the partial sums that a device of a piece adds up before its update."""
        parameters = self.unreduced(piece.section)
        return self._gradients(piece.section, parameters) if parameters else ()

    def _gradients(self, section: int, parameters: tuple[int, ...]) -> tuple[tuple[Sums, float], ...]:
        width = dtype_bytes(self.job.gradient_precision or self.job.precision)
        return gradient_parts(self.graph, self.sharded[section].shards, self.held(section), parameters, width)

    def _reduce(self, slot: Slot) -> SlotPrice:
        group = self.placement.skeleton.holders[slot.where]
        rows, lines, parts = self.reduced(slot.where)
        zero = self.stages[group.pieces[0].section].zero
        found = reduce_price(self.cluster, group.method, zero, group.servers, rows, lines, parts)
        return SlotPrice(found.seconds, 0.0, found.bytes * len(rows[0]), found.lane_bytes)

    def reduced(
        self, number: int
    ) -> tuple[tuple[Row, ...], tuple[Lines, ...], tuple[tuple[Sums, float], ...]]:
        """Rows of a holders group, devices along their axes if that matters, and bytes of its gradients."""
        pieces = self.placement.skeleton.holders[number].pieces
        parts = self._gradients(pieces[0].section, self.placement.held[number])
        places = {self.row(piece): piece for piece in reversed(pieces)}
        rows = tuple(dict.fromkeys([self.row(piece) for piece in pieces]))
        if not any(sums for sums, _ in parts):
            return rows, (), parts
        lines = tuple(self.lines(places[row].section, places[row].copy, row) for row in rows)
        return rows, lines, parts

    def _gather(self, slot: Slot) -> SlotPrice:
        groups = self.gathered(slot.piece)
        found = gather_price(self.cluster, groups)
        return SlotPrice(found.seconds, 0.0, found.bytes * len(groups[0][0][0]))

    def gathered(self, piece: Piece) -> tuple[tuple[tuple[Row, ...], float], ...]:
        """Rows that hold equal weights, all of the section first, and bytes of them that a device needs."""
        section = piece.section
        everyone = tuple(row for copy in self.sections[section].rows for row in copy)
        found = [(everyone, 0.0)]
        width = dtype_bytes(self.job.precision)
        for carved, size in gathered_bytes(self.held(section), self.stages[section].zero, width):
            found.append((everyone if carved == 1.0 else self._carved_rows(piece), size))
        return tuple(found)

    def _carved_rows(self, piece: Piece) -> tuple[Row, ...]:
        """Rows that hold the same shards of the parameters that a mesh of their own spreads over replicas."""
        carved = self.sharded[piece.section].shards.carved
        for group, found in zip(self.placement.skeleton.holders, self.placement.held, strict=True):
            if piece in group.pieces and any(self.graph.parameters[p].name in carved for p in found):
                return tuple(dict.fromkeys([self.row(item) for item in group.pieces]))
        return (self.row(piece),)

    # ---- transfers -------------------------------------------------------------------------------

    def flow(self, number: int) -> tuple[float, Pattern]:
        """Bytes of one sample of a flow's whole tensors, and who holds and needs which share of them."""
        known = self._flows.get(number)
        if known is None:
            found = self.placement.skeleton.flows[number]
            targets = [self.sharded[target].shards for target in found.targets]
            known = self._flows[number] = flow_pattern(
                self.graph, self.job.precision, self.placement.flow_tensors[number],
                self.sharded[found.source].shards, *targets,
            )  # fmt: skip
        return known

    def _transfer(self, slot: Slot) -> SlotPrice:
        size, pattern = self.flow(slot.where)
        way = reversed_pattern(pattern) if slot.backward else pattern
        seconds, moved = transfer_price(
            self.cluster, self.row(slot.piece), self.row(slot.peer), way, size * slot.samples
        )
        return SlotPrice(seconds, 0.0, moved)

    def route(self, slot: Slot) -> Route:
        """Who sends which share to whom in a transfer."""
        pattern = self.flow(slot.where)[1]
        way = reversed_pattern(pattern) if slot.backward else pattern
        return lane_route(self.cluster, self.row(slot.piece), self.row(slot.peer), way)
