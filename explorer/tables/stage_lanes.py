"""Rows of devices that hold one replica of a stage, made once for all choices that share them.

Choices that differ in nothing that a row depends on share it, and so do rows that lie alike in the cluster.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

from explorer.base.caching import MEBIBYTE, Recent
from explorer.cluster import Cluster, DeviceKind
from explorer.graph import LayerGraph
from explorer.pricing.layer_columns import Sharded, sharded_of
from explorer.pricing.mesh_lines import Lines, axis_lines
from explorer.sharding import ShardedLayers
from explorer.strategies.degrees import ALL_TO_ALL
from explorer.strategies.model_axes import check_axes, expert_patterns
from explorer.strategy import Stage
from explorer.tables.stage_choice import StageChoice

T = TypeVar("T")

COLUMNS = Recent("explorer.tables.stage_lanes.COLUMNS", most_bytes=32 * MEBIBYTE, limit=4096)
"""Columns of whole graphs on rows of devices, of all tables."""


class LaneRow(NamedTuple):
    """The devices of one replica, and what they hold."""

    stage: Stage
    sharded: Sharded
    kinds: tuple[DeviceKind, ...]
    lines: Lines
    """Devices along its axes."""


class StageLanes:
    """Rows of one graph on one cluster; keeps what is made."""

    def __init__(self, graph: LayerGraph, cluster: Cluster, devices: tuple[int, ...]) -> None:
        """Start with nothing made.

        Args:
            graph: the model.
            cluster: the devices.
            devices: device of every rank, in order.
        """
        self.graph, self.cluster, self.devices = graph, cluster, devices
        self.period = period_of(cluster, devices)
        self._names = tuple(layer.name for layer in graph.layers)
        self._known: dict[object, object] = {}
        self._own = object()  # tells its columns from those of others

    def once(self, key: object, make: Callable[[], T]) -> T:
        """Return what was made for a key; make it if it is new."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]  # type: ignore[assignment]
        return found

    def recent(self, key: object, make: Callable[[], T]) -> T:
        """Return the columns that were made for a key; make them if they are new, or were forgotten."""
        return COLUMNS.get((self._own, key), make)

    def check_choice(self, choice: StageChoice) -> None:
        """Refuse a choice.

        Raises:
            InputError: the model or the cluster does not allow the choice.
        """
        choice.check_ranks(len(self.devices))
        check_axes(
            self.graph, tensor=choice.tensor, context=choice.context, expert=choice.expert,
            devices=choice.devices, exchanged=choice.context_exchange == ALL_TO_ALL,
        )  # fmt: skip

    def moved(self, choice: StageChoice) -> StageChoice:
        """Return the choice on the first devices of the cluster whose links look alike."""
        if not self.period or choice.first < self.period:
            return choice
        return replace(choice, first=choice.first % self.period)

    def lane(self, choice: StageChoice) -> StageChoice:
        """Return the choice without all that a single row of devices does not depend on."""
        return self.once(("lane", choice), lambda: self._make_lane(choice))

    def _make_lane(self, choice: StageChoice) -> StageChoice:
        self.check_choice(choice)
        return StageChoice(
            tensor=choice.tensor, context=choice.context, expert=choice.expert,
            replicas=choice.replicas if choice.expert > 1 else 1,
            sequence_parallel=choice.sequence_parallel, context_exchange=choice.context_exchange,
            first=self.moved(choice).first,
        )  # fmt: skip

    def row(self, lane: StageChoice) -> LaneRow:
        """Return the row of a choice that `lane` gave."""
        return self.once(("row", lane), lambda: self._make_row(lane))

    def _make_row(self, lane: StageChoice) -> LaneRow:
        stage = self.stage(lane)
        row = stage.meshes[0].rows[0]
        kinds = tuple(dict.fromkeys(self.cluster.kind_of(device) for device in row))
        return LaneRow(stage, sharded_of(self.graph, stage), kinds, axis_lines(stage, 0, row))

    def stage(self, choice: StageChoice) -> Stage:
        """Return the stage of all layers that a choice makes."""
        return choice.stage(self._names, self.devices, expert_patterns(self.graph))

    def shards(self, choice: StageChoice) -> ShardedLayers:
        """Return how a choice shards the model; of experts as if every run had some.

        Raises:
            InputError: the model or the cluster does not allow the choice.
        """
        return self.row(self.lane(choice)).sharded.shards


def period_of(cluster: Cluster, devices: tuple[int, ...]) -> int:
    """Return a number of ranks by which any group of devices can be moved and its links look alike.

    0 if there is none: kinds or sizes of nodes differ, links are listed one by one, or the ranks are not in
    the order of the devices.
    """
    sizes = {(group.device_kind, group.devices_per_node) for group in cluster.nodes}
    scopes = [level.scope for level in cluster.levels]
    if len(sizes) > 1 or cluster.links or devices != tuple(range(len(devices))):
        return 0
    node = next(iter(sizes))[1]
    period = math.lcm(node, *(int(scope) for scope in scopes if scope not in ("all", "node")))
    return period if cluster.device_count % period == 0 else 0
