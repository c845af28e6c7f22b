"""Ports that the stages of a plan use: what transfers and exchanges of a step ask of them (`port_loads`)."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import NamedTuple

import numpy as np

from explorer.pricing.gradient_sync import reduction_steps
from explorer.pricing.link_shares import ring_demand
from explorer.pricing.routes import Pattern, flow_pattern, lane_route, reversed_pattern
from explorer.schedules.pipelines import held_pairs
from explorer.schedules.placements import Grid, Placement
from explorer.tables.borders import Tensors
from explorer.tables.exchange_pairs import Seconds
from explorer.tables.kind_costs import KindCosts
from explorer.tables.port_loads import CopyReductions, PortLoads, Ways
from explorer.tables.run_kinds import Cut
from explorer.tables.spreads import Spread, choice_of, devices_of
from explorer.tasks.indexing import BoolArray
from explorer.tasks.placement import layer_edges
from explorer.tasks.skeleton import FloatArray, IntArray

MOST_DEVICES = 64
"""Devices of a plan up to which all of its ports are looked at; of more, one of the first position."""


class _Use(NamedTuple):
    """Ports that transfers one way between two positions keep."""

    ports: IntArray
    """Their numbers."""
    per_byte: FloatArray
    """Seconds for which a byte of every replica keeps each."""


class _Crossing(NamedTuple):
    """What goes from one position to another."""

    copy: int
    """Copy of the stages."""
    first: int
    """Stage that writes it."""
    last: int
    """Stage that reads it; the first of several there."""
    source: int
    """Position of the one."""
    target: int
    """Position of the other."""
    back: bool
    """Whether gradients come back."""
    tensors: Tensors


class _Sent(NamedTuple):
    """What transfers of a step ask of ports."""

    names: tuple[str, ...]
    """The ports."""
    seconds: FloatArray
    """(ports, P): between two steps of each position, as `PortLoads.sent`."""
    ends: FloatArray
    """(ports, 2, 2, S): by (onwards or back, sender or receiver) 1 for the stages whose transfers that the
    first stage waits for use it.
    """


class PlanPorts:
    """Ports that the stages of one cut on one grid use; keeps what it was asked for."""

    def __init__(self, costs: KindCosts, placement: Placement, grid: Grid, cut: Cut) -> None:
        self._costs, self._placement, self._grid, self._cut = costs, placement, grid, cut
        self._table = costs.table
        self._stages, self._held = placement.stages(grid), held_pairs(placement, grid)
        self._flows: list[_Crossing] | None = None
        self._edges: list[tuple[int, int]] = []
        """(from, to) of stages between which gradients come back."""
        self._loads: dict[Spread, PortLoads | None] = {}
        self._sent_of: dict[Spread, _Sent] = {}

    def of(self, lane: Spread) -> PortLoads | None:
        """Return the loads of plans whose positions have these devices; None if too little is known."""
        if lane not in self._loads:
            few = self._grid.positions * devices_of(lane) <= MOST_DEVICES
            self._loads[lane] = self._find(lane) if few else self._find_first(lane)
        return self._loads[lane]

    def sent_s(self, lane: Spread) -> float:
        """Return the seconds for which transfers of a step keep the busiest port at least, whatever else is
        chosen; 0 for too many devices.
        """
        if self._grid.positions * devices_of(lane) > MOST_DEVICES:
            return 0.0
        return float(self._sent(lane).seconds.max(initial=0.0))

    def _find(self, lane: Spread) -> PortLoads:
        sent, asked = self._sent(lane), self._asked(lane)
        positions, stages = self._grid.positions, self._stages
        number = {name: n for n, name in enumerate(dict.fromkeys((*sent.names, *asked)))}
        rows = np.zeros((len(number), positions + 5 * stages))
        ends = positions + 4 * stages
        rows[: len(sent.names), :positions] = sent.seconds
        rows[: len(sent.names), positions:ends] = sent.ends.reshape(len(sent.names), 4 * stages)
        for name, shares in asked.items():
            rows[number[name], ends:] = shares
        table = np.unique(rows, axis=0)  # some lie alike
        return PortLoads(
            table[:, :positions].T, table[:, positions:ends] > 0, table[:, ends:], self._stages_at,
            self._copies(lane) if self._grid.copies > 1 else None,
        )  # fmt: skip

    def _find_first(self, lane: Spread) -> PortLoads | None:
        """Return what exchanges of the first position ask of the busiest of their ports, and nothing else."""
        stages = [stage for stage, _ in self._held[0]]
        rows = self._rows(stages[0], lane)
        if self._grid.copies > 1 or len(rows) == 1:
            return None
        positions, count = self._grid.positions, self._stages
        demand = ring_demand(self._table.cluster, rows).values()
        asked = np.zeros((1, count))
        asked[0, stages] = max((item.amount / item.capacity for item in demand), default=0.0)
        nothing = np.zeros((positions, 1)), np.zeros((1, 4 * count), dtype=bool)
        return PortLoads(*nothing, asked, self._stages_at, None)

    @cached_property
    def _stages_at(self) -> FloatArray:
        """(R, S): 1 for the stages at each position."""
        found = np.zeros((self._grid.positions, self._stages))
        for position, pairs in enumerate(self._held):
            found[position, [stage for stage, _ in pairs]] = 1.0
        return found

    def _row(self, position: int, replica: int, lane: Spread) -> tuple[int, ...]:
        """Return the devices of a replica at a position."""
        first = position * devices_of(lane) + replica * lane[0] * lane[1]
        return self._table.devices[first : first + lane[0] * lane[1]]

    # ---- transfers -------------------------------------------------------------------------------------

    def _crossing(self) -> list[_Crossing]:
        """Return all that goes from position to position, of one copy after the other: each tensor once for
        all stages that read it there.
        """
        if self._flows is not None:
            return self._flows
        graph, bounds = self._table.graph, np.array(self._cut.bounds)
        writer, reader, tensor = layer_edges(graph)
        ends = [np.searchsorted(bounds, end, side="right") - 1 for end in (writer, reader)]
        across = np.flatnonzero(ends[0] != ends[1])
        rows = sorted({*zip(*(part[across].tolist() for part in (*ends, tensor)), strict=True)})
        learns = {t for t in {row[2] for row in rows} if graph.tensors[t].name in graph.needs_gradient}
        self._edges = sorted({(a, b) for a, b, t in rows if t in learns})
        found = []
        for copy in range(self._grid.copies):
            home = [self._placement.position(stage, copy, self._grid) for stage in range(self._stages)]
            once: dict[tuple[int, int, int], int] = {}
            for a, b, t in rows:
                if home[a] != home[b]:
                    once.setdefault((a, home[b], t), b)  # the first that reads it there
            sent: dict[tuple[int, int, bool], list[tuple[int, float]]] = defaultdict(list)
            for (a, _, t), b in once.items():
                sent[a, b, t in learns].append((t, 1.0))
            found += [
                _Crossing(copy, a, b, home[a], home[b], back, tuple(tensors))
                for (a, b, back), tensors in sent.items()
            ]
        self._flows = found
        return found

    @cached_property
    def _reached(self) -> BoolArray:
        """(S, S): which stages wait for each, and have gradients come back to it; itself included."""
        self._crossing()
        found = np.eye(self._stages, dtype=bool)
        for a, b in self._edges:
            found[:, b] |= found[:, a]
        return found

    @cached_property
    def _alike(self) -> list[list[tuple[int, int]]]:
        """(stage, copy) pairs of each position and of all others that hold the same stages: reductions of all
        of these are the same, and so is when they end.
        """
        sets = [frozenset(stage for stage, _ in pairs) for pairs in self._held]
        together: dict[frozenset[int], list[tuple[int, int]]] = defaultdict(list)
        for own, pairs in zip(sets, self._held, strict=True):
            together[own] += pairs
        return [together[own] for own in sets]

    @cached_property
    def _between(self) -> FloatArray:
        """(flows, P): 1 where all of a flow is sent between two steps of a position."""
        found = np.zeros((len(self._crossing()), self._grid.positions))
        for number, flow in enumerate(self._crossing()):
            inside = self._reached[:, flow.first] & self._reached[:, flow.last]
            for position, pairs in enumerate(self._alike):
                found[number, position] = any(inside[stage] and copy == flow.copy for stage, copy in pairs)
        return found

    def _sent(self, lane: Spread) -> _Sent:
        """Return what transfers of a step ask of every port, found once."""
        if lane not in self._sent_of:
            self._sent_of[lane] = self._find_sent(lane)
        return self._sent_of[lane]

    def _find_sent(self, lane: Spread) -> _Sent:
        table, replicas = self._table, lane[5]
        apart = self._grid.positions == 1 or table.crossings.transfers not in ("", "direct")
        flows = [] if apart else self._crossing()
        shards = table.sharding(choice_of(lane, replicas=replicas))
        samples = table.job.global_batch / (replicas * self._grid.copies)
        ports: dict[str, int] = {}
        known: dict[tuple[int, int, Pattern], list[_Use]] = {}
        sent: list[tuple[int, int, bool, float, _Use]] = []
        for number, flow in enumerate(flows):
            size, pattern = flow_pattern(table.graph, table.job.precision, flow.tensors, shards, shards)
            inner = self._grid.copies == 1 and bool(self._reached[0, [flow.first, flow.last]].all())
            place = flow.source, flow.target, pattern
            if place not in known:  # chunks go the same ways, one after the other
                known[place] = self._uses_between(*place, lane, ports)
            ways = known[place] if flow.back else known[place][:1]
            sent += [(number, back, inner, samples * size, use) for back, use in enumerate(ways)]
        seconds, marks = np.zeros((len(ports), len(flows))), np.zeros((len(ports), 2, 2, self._stages))
        for number, back, inner, amount, use in sent:
            seconds[use.ports, number] += amount * use.per_byte
            if inner:
                ends = (flows[number].first, flows[number].last)
                marks[use.ports, back, 0, ends[back]] = marks[use.ports, back, 1, ends[1 - back]] = 1.0
        between = self._between if flows else np.zeros((0, self._grid.positions))
        return _Sent(tuple(ports), seconds @ between, marks)

    def _uses_between(
        self, source: int, target: int, pattern: Pattern, lane: Spread, ports: dict[str, int]
    ) -> list[_Use]:
        """Return the ports that a byte of every replica keeps onwards and back; new ones are numbered."""
        onwards, home = defaultdict[str, float](float), defaultdict[str, float](float)
        for replica in range(lane[5]):
            ends = self._row(source, replica, lane), self._row(target, replica, lane)
            ways = (onwards, (*ends, pattern)), (home, (ends[1], ends[0], reversed_pattern(pattern)))
            for use, way in ways:
                route = lane_route(self._table.cluster, *way)
                for name, room, demand in route.resources:
                    use[name] += route.seconds_per_byte * demand / room
        return [
            _Use(
                np.array([ports.setdefault(name, len(ports)) for name in use], dtype=np.int64),
                np.array(list(use.values())),
            )
            for use in (onwards, home)
        ]

    def ways(self, seconds: Seconds, transfer_s: FloatArray) -> Ways:
        """Return the ways of a microbatch through the stages that wait for the first.

        Args:
            seconds: of the stages.
            transfer_s: (S - 1, N) seconds from stage to stage, one way.
        """
        self._crossing()
        forward, backward = seconds.forward, np.minimum(seconds.input_grad, seconds.backward)
        onwards, home, round_s = forward.copy(), backward.copy(), np.zeros(forward.shape)
        edges = [(a, b, transfer_s[a] if b == a + 1 else 0.0) for a, b in self._edges]
        for a, b, sent in edges:
            np.maximum(onwards[b], onwards[a] + sent + forward[b], out=onwards[b])
            np.maximum(home[b], home[a] + sent + backward[b], out=home[b])
        for a, b, sent in reversed(edges):  # down to the last stage, and back
            np.maximum(round_s[a], 2 * sent + forward[b] + round_s[b] + backward[b], out=round_s[a])
        there = np.concatenate([onwards, onwards + round_s + backward])
        back = np.concatenate([forward + round_s + home, home])
        return Ways(there, back)

    # ---- exchanges -------------------------------------------------------------------------------------

    def _rows(self, stage: int, lane: Spread) -> tuple[tuple[int, ...], ...]:
        """Return the devices of all replicas of a stage, of one copy after the other."""
        homes = [self._placement.position(stage, copy, self._grid) for copy in range(self._grid.copies)]
        return tuple([self._row(home, replica, lane) for home in homes for replica in range(lane[5])])

    def _asked(self, lane: Spread) -> dict[str, FloatArray]:
        """Return the (S,) shares of every port that exchanges of stages take."""
        found: dict[str, FloatArray] = defaultdict(lambda: np.zeros(self._stages))
        for stage in range(self._stages):
            rows = self._rows(stage, lane)
            if len(rows) > 1:
                for name, item in ring_demand(self._table.cluster, rows).items():
                    found[name][stage] = item.amount / item.capacity
        return found

    def _copies(self, lane: Spread) -> CopyReductions:
        """Return how copies at several positions reduce their gradients."""
        bounds, table = np.array(self._cut.bounds), self._table
        held = choice_of((*lane[:5], lane[5] * self._grid.copies), replicas=lane[5] * self._grid.copies)
        sizes, found = np.zeros(self._stages), np.zeros((2, self._stages))
        if lane[2] == 1:  # experts are reduced over others as well
            sizes = table.exchange(held, bounds[:-1], bounds[1:]).reduce_bytes
        # what is a partial sum along a tensor axis, as norms are, is added up over whole rows
        width, steps = lane[0] * lane[1], (lane[0], 1) if lane[3] else (lane[0],)
        for stage in np.flatnonzero(sizes).tolist():
            rows = self._rows(stage, lane)
            groups = [tuple([row[::step] for row in rows]) for step in steps]
            for zero in (0, 1):
                found[zero, stage] = min(
                    reduction_steps(table.cluster, zero, width, group).seconds(sizes[stage])
                    for group in groups
                )
        return CopyReductions(sizes, found)
