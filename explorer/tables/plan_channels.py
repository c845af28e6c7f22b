"""Channels of plans: seconds for which one microbatch keeps the busiest wire or shared link of a pipeline.

A wire carries what goes from one position to another, tensor after tensor, both the outputs of stages and the
gradients that run the same way. A port of a node carries what all replicas on it send or receive. However a
schedule orders its work, a step takes as long as the busiest of both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from explorer.schedules.placements import Grid, Placement
from explorer.tables.kind_costs import KindCosts
from explorer.tables.spreads import Spread, devices_of
from explorer.tasks.skeleton import FloatArray

MOST_ROUTES = 512
"""Routes of single replicas up to which ports are looked at: where there are more, links are mostly fast."""


class PlanChannels:
    """Wires and ports of stages on one grid; keeps what it was asked for."""

    def __init__(self, costs: KindCosts, placement: Placement, grid: Grid) -> None:
        self._costs, self._grid = costs, grid
        self._edges = placement.stages(grid) - 1
        self._placement = placement
        self._ports: dict[Spread, tuple[FloatArray, FloatArray]] = {}

    @cached_property
    def _ways(self) -> list[tuple[int, tuple[int, int]]]:
        """(edge, (from, to)) of all that goes from position to position, onwards and back, of every copy."""
        grid, position = self._grid, self._placement.position
        return [
            (stage, ends)
            for stage in range(self._edges)
            for copy in range(grid.copies)
            for ends in self._both(position(stage, copy, grid), position(stage + 1, copy, grid))
        ]

    @staticmethod
    def _both(a: int, b: int) -> tuple[tuple[int, int], ...]:
        return ((a, b), (b, a)) if a != b else ()

    @cached_property
    def _wires(self) -> FloatArray:
        """(wires, edges) times that each edge counts on each wire, different rows only."""
        rows: dict[tuple[int, int], FloatArray] = defaultdict(lambda: np.zeros(self._edges))
        for stage, ends in self._ways:
            rows[ends][stage] += 1.0
        return _different(list(rows.values()), self._edges)

    def seconds(self, lanes: Sequence[Spread], transfer_s: FloatArray) -> FloatArray:
        """Return (N,) seconds of the busiest wire or port for a microbatch of every copy, over the copies.

        Args:
            lanes: devices of the stages.
            transfer_s: (edges, N) seconds in which a microbatch's tensors go from stage to stage, one way.
        """
        if not self._ways:
            return np.zeros(len(lanes))
        found = (self._wires @ transfer_s).max(axis=0, initial=0.0)
        if self._costs.table.crossings.transfers in ("", "direct"):
            for n, lane in enumerate(lanes):
                if lane[0] * lane[1] == 1 and found[n]:
                    if lane not in self._ports:
                        self._ports[lane] = self._find_ports(lane)
                    shares, latency = self._ports[lane]
                    port = shares @ np.maximum(0.0, transfer_s[:, n] - latency)
                    found[n] = max(found[n], port.max(initial=0.0))
        return np.asarray(found / self._grid.copies)

    def _find_ports(self, lane: Spread) -> tuple[FloatArray, FloatArray]:
        """Return the (ports, edges) shares of a port's time that edges take, and their latencies."""
        edges, size = self._edges, devices_of(lane)
        latency, shares = np.zeros(edges), defaultdict[str, FloatArray](lambda: np.zeros(edges))
        if len(self._ways) * lane[5] <= MOST_ROUTES:
            for stage, (a, b) in self._ways:
                for replica in range(lane[5]):
                    waits, ports = self._costs.ports(a * size + replica, b * size + replica)
                    latency[stage] = max(latency[stage], waits)
                    for name, share in ports:
                        shares[name][stage] += share
        return _different(list(shares.values()), edges), latency


def _different(rows: list[FloatArray], width: int) -> FloatArray:
    return np.unique(np.array(rows), axis=0) if rows else np.zeros((0, width))
