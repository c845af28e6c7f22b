"""Seconds in which tensors of one microbatch go from stage to stage, across cuts or between any two runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from explorer.base.errors import InputError
from explorer.pricing.layer_columns import FloatArray
from explorer.pricing.routes import flow_pattern, lane_route, reversed_pattern
from explorer.pricing.stage_transfers import crossing_route
from explorer.sharding import ShardedLayers
from explorer.tables.borders import Tensors, flow_tensors
from explorer.tables.positions import Positions
from explorer.tables.stage_choice import StageChoice
from explorer.tables.stage_lanes import StageLanes
from explorer.tasks.skeleton import IntArray


class StageCrossings:
    """What crosses from the devices of one stage to those of another, under any choices for the two."""

    def __init__(self, lanes: StageLanes, positions: Positions, precision: str, transfers: str) -> None:
        """Take what the seconds depend on.

        Args:
            lanes: rows of devices.
            positions: where runs start and stop; of ideals no transfers are known.
            precision: of the tensors.
            transfers: how the framework sends them, as `Framework.transfers` says.
        """
        self.lanes, self.positions = lanes, positions
        self.precision, self.transfers = precision, transfers
        self._alike: dict[tuple[int, int], tuple[dict[Tensors, Tensors], dict[object, Tensors]]] = {}
        """By shardings of both ends: tensors that go together, and the first of which each are alike."""

    def transfer(
        self, source: StageChoice, target: StageChoice, cuts: IntArray, *, backward: bool = False
    ) -> FloatArray:
        """Return the seconds in which one microbatch crosses each cut, from first replica to first replica.

        All that crosses the cut goes along, as between neighbours that `borders` finds long enough.

        Args:
            source: choice for the stage before the cut.
            target: choice for the stage behind it.
            cuts: first layers of the stages behind.
            backward: whether gradients come back.
        """
        distinct, place = np.unique(cuts, return_inverse=True)
        count = len(self.lanes.graph.layers)
        found = [self.flow(source, (0, c), target, (c, count), backward=backward) for c in distinct.tolist()]
        return np.array(found, dtype=float)[place.reshape(np.shape(cuts))]

    def flow(
        self,
        source: StageChoice,
        written: tuple[int, int],
        target: StageChoice,
        read: tuple[int, int],
        *,
        backward: bool = False,
    ) -> float:
        """Return the seconds in which one microbatch goes from a run to another; 0 on the same devices.

        Args:
            source: choice for the run that writes.
            written: (start, stop) of it.
            target: choice for the run that reads.
            read: (start, stop) of it.
            backward: whether gradients come back.
        """
        tensors = flow_tensors(self.lanes.graph, written, read)
        return self.flows(source, target, [tensors], backward=backward)[0]

    def flows(
        self, source: StageChoice, target: StageChoice, sent: Sequence[Tensors], *, backward: bool = False
    ) -> list[float]:
        """Return the seconds in which one microbatch of some tensors goes from a stage to another, for each.

        Args:
            source: choice for the stage that writes them.
            target: choice for the stage that reads them.
            sent: tensors that go together, as `flow_tensors` names them.
            backward: whether gradients come back.
        """
        ends = self._shifted(source, target)
        rows = [self.lanes.devices[end.first : end.first + end.row_devices] for end in ends]
        if rows[0] == rows[1]:
            return [0.0] * len(sent)
        shards = [self.lanes.shards(end) for end in ends]
        if backward:
            rows.reverse()
        samples = min(source.microbatch_size, target.microbatch_size)
        firsts = self._first_alike(shards, sent)
        seconds = {
            item: self._crossing(rows, shards, item, samples, backward=backward)
            for item in dict.fromkeys(firsts)
        }
        return [seconds[item] for item in firsts]

    def _first_alike(self, shards: list[ShardedLayers], sent: Sequence[Tensors]) -> list[Tensors]:
        """Return for each of some tensors that go together the first ones met that take as long: of as many
        bytes, held and needed in the same shares.
        """
        first, met = self._alike.setdefault((id(shards[0]), id(shards[1])), ({}, {}))  # rows keep the shards
        for item in sent:
            if item not in first:
                key = tuple(
                    (
                        self.lanes.graph.tensors[tensor].bytes_per_sample(self.precision),
                        share, *(float(held.tensor_share[tensor]) for held in shards),
                    )
                    for tensor, share in item
                )  # fmt: skip
                first[item] = met.setdefault(key, item)
        return [first[item] for item in sent]

    def _crossing(
        self,
        rows: list[tuple[int, ...]],
        shards: list[ShardedLayers],
        tensors: Tensors,
        samples: int,
        *,
        backward: bool,
    ) -> float:
        if not tensors:
            return 0.0
        size, pattern = flow_pattern(self.lanes.graph, self.precision, tensors, *shards)
        way = reversed_pattern(pattern) if backward else pattern
        sent = size * samples
        if self.transfers in ("", "direct"):
            route = lane_route(self.lanes.cluster, rows[0], rows[1], way)
        else:
            route = crossing_route(self.lanes.cluster, rows[0], rows[1], way, sent, self.transfers)
        return route.latency_s + sent * route.seconds_per_byte

    def _shifted(self, source: StageChoice, target: StageChoice) -> tuple[StageChoice, StageChoice]:
        """Move both ends of a transfer together, as `StageLanes.moved` does."""
        if not self.positions.ordered:
            raise InputError("transfers between ideals", key="positions", allowed="cuts in model order")
        if not self.lanes.period:
            return source, target
        back = min(source.first, target.first) // self.lanes.period * self.lanes.period
        return replace(source, first=source.first - back), replace(target, first=target.first - back)
