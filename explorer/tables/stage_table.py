"""Stage table: seconds and bytes of any run of layers under any choice, made lazily and remembered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from explorer.cluster import Cluster
from explorer.costs.memory import StageMemory, memory_of
from explorer.costs.stragglers import stage_factor
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import kind_costs
from explorer.pricing.layer_columns import FloatArray, LayerColumns, Sharded, layer_columns
from explorer.pricing.section_time import SECONDS, SectionTime
from explorer.sharding import ShardedLayers
from explorer.strategies.model_axes import expert_patterns
from explorer.strategy import Sharding
from explorer.tables.borders import Borders, borders_of
from explorer.tables.exchange_groups import Rows, alike_exchanges, placed_exchanges
from explorer.tables.exchanges import RunExchange, StageExchanges
from explorer.tables.positions import Positions, cuts_of
from explorer.tables.prefix_sums import RunSeconds, SecondsColumns, seconds_columns
from explorer.tables.run_memory import RunCounts, RunMemory
from explorer.tables.stage_choice import StageChoice
from explorer.tables.stage_crossings import StageCrossings
from explorer.tables.stage_lanes import StageLanes
from explorer.tables.whole_model import WholeSeconds, whole_seconds
from explorer.tasks.skeleton import IntArray
from explorer.workload import Job


class LayerPrices(Protocol):
    """Prices of every layer of a graph on one row of devices; `layer_columns` is ours."""

    def __call__(
        self,
        graph: LayerGraph,
        cluster: Cluster,
        sharded: Sharded,
        costs: FloatArray | None,
        *,
        kinds: tuple[str, ...],
        precision: str,
        samples: float,
    ) -> LayerColumns:
        """Return the columns of the graph; the arguments are those of `layer_columns`."""


class StageRuns(NamedTuple):
    """Costs of many runs of layers under one choice, arrays by run."""

    seconds: RunSeconds
    memory: RunMemory
    exchange: RunExchange


class StageRun(NamedTuple):
    """Costs of one run of layers under one choice."""

    seconds: SectionTime
    memory: StageMemory
    exchange: RunExchange
    """Arrays of one entry."""


class StageTable:
    """Costs of the stages of one job on one cluster: any run of layers under any `StageChoice`.

    Runs are given by positions in the order of the model: from layer `start` to before layer `stop`.
    """

    def __init__(
        self,
        graph: LayerGraph,
        cluster: Cluster,
        job: Job,
        *,
        devices: Sequence[int] = (),
        prices: LayerPrices = layer_columns,
        positions: Positions | None = None,
    ) -> None:
        """Start an empty table.

        Args:
            graph: the model.
            cluster: the devices.
            job: the workload of the model, with its framework.
            devices: device of every rank, in order; () is `cluster.order`.
            prices: what prices the layers.
            positions: where runs start and stop; None for cuts in the order of the model. Of ideals no
                transfers are known, as these depend on who reads what of whom.
        """
        framework = load_framework(job.framework)
        self.graph, self.job = graph, job
        self.cluster = cluster_under(cluster, framework)
        self.devices = tuple(devices) or tuple(cluster.order)
        self.borders: Borders = borders_of(graph, job.precision)
        self._framework, self._prices = framework, prices
        self._lanes = StageLanes(graph, self.cluster, self.devices)
        self.period = self._lanes.period
        self.positions = positions or cuts_of(graph)
        self.crossings = StageCrossings(self._lanes, self.positions, job.precision, framework.transfers)
        self._numbers: dict[tuple[object, ...], int] = {}
        self._experts = self.positions.sums(_covered(graph).astype(np.int64))

    # ---- asked -----------------------------------------------------------------------------------------

    def run(self, choice: StageChoice, start: int, stop: int) -> StageRun:
        """Return the costs of one run of layers.

        Raises:
            InputError: as `runs`.
        """
        found = self.runs(choice, np.array([start]), np.array([stop]))
        return StageRun(found.seconds.at(0), found.memory.at(0), found.exchange)

    def runs(self, choice: StageChoice, starts: IntArray, stops: IntArray) -> StageRuns:
        """Return the costs of many runs of layers.

        Raises:
            InputError: a run without layers, or a choice that the model or the cluster does not allow.
        """
        return StageRuns(
            self.seconds(choice, starts, stops),
            self.memory(choice, starts, stops),
            self.exchange(choice, starts, stops),
        )

    def seconds(self, choice: StageChoice, starts: IntArray, stops: IntArray) -> RunSeconds:
        """Return the seconds of one microbatch on the first replica, and the bytes sent inside the lane.

        Raises:
            InputError: as `runs`.
        """
        found, factor = self.alone(choice, starts, stops), self.stage_factor(choice, choice.devices)
        if factor == 1.0:
            return found
        return found._replace(**{name: getattr(found, name) * factor for name in SECONDS})

    def stage_factor(self, choice: StageChoice, devices: int) -> float:
        """Return how many times as long as `alone` a stage takes if so many devices meet at every update."""
        if not self.job.training:
            return 1.0
        return stage_factor(self._lanes.row(self._lanes.lane(choice)).kinds, devices)

    def overlap_slowdown(self, choice: StageChoice) -> float:
        """Return how much longer work takes beside exchanges, on the slowest kind of a row."""
        return max(kind.overlap_slowdown for kind in self._lanes.row(self._lanes.lane(choice)).kinds)

    def alone(self, choice: StageChoice, starts: IntArray, stops: IntArray) -> RunSeconds:
        """Return `seconds` as if one replica did not wait for the slowest device of all.

        Raises:
            InputError: as `runs`.
        """
        self._check(starts, stops)
        if choice.expert == 1:
            return self.columns(choice).runs(starts, stops)
        parts = self._by_experts(choice, starts, stops)
        return _joined([(m, self.columns(c).runs(starts[m], stops[m])) for c, m in parts])

    def whole(self, choice: StageChoice, sizes: tuple[int, ...]) -> WholeSeconds | None:
        """Return the seconds of all layers for microbatches of many sizes; None where only `seconds` tells.

        Raises:
            InputError: the model or the cluster does not allow the choice.
        """
        if self._prices is not layer_columns or not self.positions.ordered or choice.overlap:
            return None
        row = self._lanes.row(self._lanes.lane(choice))
        found = whole_seconds(self.graph, self.cluster, row, sizes, self.job.precision, choice.recompute)
        factor = self.stage_factor(choice, choice.devices)
        if found is None or factor == 1.0:
            return found
        return WholeSeconds(*(part * factor for part in found))

    def memory(self, choice: StageChoice, starts: IntArray, stops: IntArray) -> RunMemory:
        """Return the bytes on one device.

        Raises:
            InputError: as `runs`.
        """
        self._check(starts, stops)
        if choice.expert == 1:
            return self._memory(choice, starts, stops)
        parts = self._by_experts(choice, starts, stops)
        found = [(m, self._memory(c, starts[m], stops[m])) for c, m in parts]
        names = [item.name for item in fields(RunMemory)]
        return RunMemory(**{name: _put([(m, getattr(part, name)) for m, part in found]) for name in names})

    def exchange(self, choice: StageChoice, starts: IntArray, stops: IntArray) -> RunExchange:
        """Return the costs of updates, reductions and gathers.

        Raises:
            InputError: as `runs`.
        """
        self._check(starts, stops)
        if choice.expert == 1:
            return self._exchange(choice, starts, stops)
        parts = self._by_experts(choice, starts, stops)
        return _joined([(m, self._exchange(c, starts[m], stops[m])) for c, m in parts])

    def columns(self, choice: StageChoice) -> SecondsColumns:
        """Return the prefix sums of a choice, which equal rows share; of experts as if every run had some.

        Raises:
            InputError: the model or the cluster does not allow the choice.
        """
        number = self.columns_number(choice)
        return self._lanes.recent(("columns", number), lambda: self._columns(choice))

    def columns_number(self, choice: StageChoice) -> int:
        """Return a number that two choices share if their columns are the same."""
        return self._lanes.once(("number", choice), lambda: self._number(choice))

    def sharding(self, choice: StageChoice) -> ShardedLayers:
        """Return how a choice shards the model; of experts as if every run had some.

        Raises:
            InputError: the model or the cluster does not allow the choice.
        """
        return self._lanes.shards(choice)

    # ---- made ------------------------------------------------------------------------------------------

    def _check(self, starts: IntArray, stops: IntArray) -> None:
        self.positions.check(starts, stops)

    def _by_experts(
        self, choice: StageChoice, starts: IntArray, stops: IntArray
    ) -> list[tuple[StageChoice, npt.NDArray[np.bool_]]]:
        """Split runs into those with experts, and those without, which are sharded as if there were none."""
        self._lanes.once(("checked", choice), lambda: self._lanes.check_choice(choice))
        every = np.ones(len(starts), dtype=bool)
        some = self._experts[stops] > self._experts[starts]
        found = [(choice, some), (replace(choice, expert=1), ~some)]
        return [(item, mask) for item, mask in found if mask.any()] or [(choice, every)]

    def _columns(self, choice: StageChoice) -> SecondsColumns:
        row, costs = self._lanes.row(self._lanes.lane(choice)), self._collectives(choice)
        kinds, precision = tuple(kind.name for kind in row.kinds), self.job.precision

        def make() -> LayerColumns:
            return self._prices(
                self.graph, self.cluster, row.sharded, costs,
                kinds=kinds, precision=precision, samples=float(choice.microbatch_size),
            )  # fmt: skip

        found = self._lanes.recent(("layers", *self._alike(choice)), make)
        return seconds_columns(
            self.graph, row.sharded, found, row.kinds, choice.overlap, choice.recompute, self.positions
        )

    def _collectives(self, choice: StageChoice) -> FloatArray | None:
        """Return the seconds and bytes of every kind of collective of a row; None if it has none."""
        row = self._lanes.row(self._lanes.lane(choice))
        if row.sharded.inside is None:
            return None
        samples = float(choice.microbatch_size)
        return kind_costs(self.cluster, row.sharded.inside, row.lines, self.job.precision, samples)

    def _alike(self, choice: StageChoice) -> tuple[object, ...]:
        """Return what the seconds of layers depend on; the rows stay, and so the identity of a sharding."""
        row, costs = self._lanes.row(self._lanes.lane(choice)), self._collectives(choice)
        return id(row.sharded), row.kinds, None if costs is None else costs.tobytes(), choice.microbatch_size

    def _number(self, choice: StageChoice) -> int:
        key = (*self._alike(choice), choice.overlap, choice.recompute)
        return self._numbers.setdefault(key, len(self._numbers))

    def _counts(self, choice: StageChoice) -> RunCounts:
        shards = self.sharding(choice)
        if not self.positions.ordered:
            make = partial(RunCounts, self.graph, shards, self.positions)
            return self._lanes.once(("counts", id(shards)), make)
        found: RunCounts = shards.memo("counts of runs", partial(RunCounts, self.graph, shards))
        return found

    def _memory(self, choice: StageChoice, starts: IntArray, stops: IntArray) -> RunMemory:
        job = self.job
        found = memory_of(
            self._counts(choice).runs(starts, stops),
            precision=job.precision, gradient_precision=job.gradient_precision, optimizer=job.optimizer,
            training=job.training, zero=choice.zero if job.training else 0,
            replicas=choice.zero_replicas or choice.replicas, recompute=choice.recompute,
            dummy_gradients=self._framework.dummy_gradients,
        )  # fmt: skip
        return RunMemory.of(found, len(starts))

    def _exchange(self, choice: StageChoice, starts: IntArray, stops: IntArray) -> RunExchange:
        plain = replace(
            self._lanes.moved(choice),
            microbatch_size=1,
            recompute="none",
            zero=1,
            overlap=(),
            bucket_bytes=0.0,
        )

        def make() -> StageExchanges:
            if plain.expert > 1:
                stage = self._lanes.stage(plain)
                return placed_exchanges(self.graph, self.cluster, self.job, stage, self.positions)
            row = self._lanes.row(self._lanes.lane(plain))
            rows = Rows(
                row.stage, row.sharded.shards, self.devices, plain.first, plain.replicas, plain.zero_replicas
            )
            return alike_exchanges(self.graph, self.cluster, self.job, rows, self.positions)

        held = self._counts(choice).runs(starts, stops)
        found = self._lanes.once(("exchanges", plain), make)
        return found.runs(held, starts, stops, zero=choice.zero, bucket_bytes=choice.bucket_bytes)


def _covered(graph: LayerGraph) -> npt.NDArray[np.bool_]:
    """Tell which layers expert parallelism puts on a mesh of their own."""
    own = Sharding(layers=expert_patterns(graph))
    return np.array([own.covers(layer.name) for layer in graph.layers], dtype=bool)


def _put(parts: list[tuple[npt.NDArray[np.bool_], FloatArray]]) -> FloatArray:
    """Put the values of parts of the runs together."""
    if len(parts) == 1:
        return parts[0][1]
    found = np.empty(len(parts[0][0]))
    for mask, values in parts:
        found[mask] = values
    return found


Arrays = TypeVar("Arrays", RunSeconds, RunExchange)


def _joined(parts: list[tuple[npt.NDArray[np.bool_], Arrays]]) -> Arrays:
    if len(parts) == 1:
        return parts[0][1]
    masks = [mask for mask, _ in parts]
    columns = zip(*(values for _, values in parts), strict=True)
    return type(parts[0][1])(*(_put(list(zip(masks, column, strict=True))) for column in columns))
