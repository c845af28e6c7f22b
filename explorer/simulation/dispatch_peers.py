"""Peers of a placed strategy, with the seconds of what they compute and send one another."""

from __future__ import annotations

from explorer.actions import Shape
from explorer.base.errors import PlanError
from explorer.passes.calls import StageEdge
from explorer.passes.peers import Peer
from explorer.passes.rates import Demands
from explorer.pricing import Pricer, lane_route
from explorer.pricing.routes import reversed_pattern
from explorer.tasks.lanes import Lanes, find_lanes
from explorer.tasks.placement import PlacedStrategy
from explorer.tasks.program import TRANSFER, B, F, Slot
from explorer.tasks.skeleton import Piece


class PlacedPeers:
    """Peers and edges of a placement, with their prices."""

    def __init__(self, placement: PlacedStrategy, pricer: Pricer, shape: Shape) -> None:
        self.placement, self.pricer, self.shape = placement, pricer, shape
        self.sections, self.flows = placement.skeleton.sections, placement.skeleton.flows
        if len(self.sections) != shape.stages:
            raise PlanError(["a dispatched stage runs on one device set; shardings name another mesh"])
        self.lanes: Lanes = find_lanes(self.sections)
        if any(len(lanes) > 1 for lanes in self.lanes.of_piece.values()):
            raise PlanError(
                ["peers that share devices must share all of them: their host does one thing at a time"]
            )
        self.pieces = [
            Piece(s, 0, r) for s, section in enumerate(self.sections) for r in range(section.replicas)
        ]
        self.peers = [self._peer(piece) for piece in self.pieces]
        self.edges: list[StageEdge] = []
        self.flow_of: list[int] = []
        for f, flow in enumerate(self.flows):
            for target in flow.targets:
                self.edges.append(StageEdge(flow.source, target, flow.gradient))
                self.flow_of.append(f)
        self.names: dict[str, int] = {}
        self.capacity: list[float] = []
        self._wires: dict[tuple[int, int, int, bool], tuple[float, Demands]] = {}

    def _peer(self, piece: Piece) -> Peer:
        section = self.sections[piece.section]
        samples = section.samples(piece.replica)
        seconds = [self.pricer.price(Slot(kind, piece.section, piece, piece, samples))[0] for kind in (F, B)]
        devices = section.rows[0][piece.replica]
        return Peer(piece.section, self.lanes.of_piece[piece][0], devices, *seconds)

    def wire(self, edge: int, source: int, target: int, backward: bool) -> tuple[float, Demands]:  # noqa: FBT001
        """Return seconds and shared rates of a transfer between two peers."""
        key = (edge, source, target, backward)
        if key not in self._wires:
            flow, pieces = self.flow_of[edge], (self.pieces[source], self.pieces[target])
            samples = self.sections[pieces[0].section].microbatch_samples
            seconds = self.pricer.price(Slot(TRANSFER, flow, *pieces, samples, backward))[0]
            pattern = self.pricer.flow(flow)[1]
            way = reversed_pattern(pattern) if backward else pattern
            route = lane_route(
                self.pricer.cluster, self.peers[source].devices, self.peers[target].devices, way
            )
            asked = [(self._resource(name, room), amount) for name, room, amount in route.resources]
            self._wires[key] = (seconds, tuple(asked))
        return self._wires[key]

    def _resource(self, name: str, capacity: float) -> int:
        if name not in self.names:
            self.names[name] = len(self.capacity)
            self.capacity.append(capacity)
        return self.names[name]
