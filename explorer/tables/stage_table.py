"""Stage table: seconds and bytes of any run of layers under any choice, made lazily and remembered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError
from explorer.cluster import Cluster, DeviceKind
from explorer.costs.memory import StageMemory, memory_of
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import kind_costs
from explorer.pricing.layer_columns import FloatArray, LayerColumns, Sharded, layer_columns, sharded_of
from explorer.pricing.mesh_lines import Lines, axis_lines
from explorer.pricing.routes import flow_pattern, lane_route, reversed_pattern
from explorer.pricing.section_time import SectionTime
from explorer.pricing.stage_transfers import crossing_route
from explorer.sharding import ShardedLayers
from explorer.strategies.model_axes import check_axes, expert_patterns
from explorer.strategy import Sharding, Stage
from explorer.tables.borders import Borders, Tensors, borders_of, flow_tensors
from explorer.tables.exchange_groups import Rows, alike_exchanges, placed_exchanges
from explorer.tables.exchanges import RunExchange, StageExchanges
from explorer.tables.positions import Positions, cuts_of
from explorer.tables.prefix_sums import RunSeconds, SecondsColumns, seconds_columns
from explorer.tables.run_memory import RunCounts, RunMemory
from explorer.tables.stage_choice import StageChoice
from explorer.tasks.skeleton import IntArray
from explorer.workload import Job

T = TypeVar("T")


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


class _Row(NamedTuple):
    """The devices of one replica, and what they hold."""

    stage: Stage
    sharded: Sharded
    kinds: tuple[DeviceKind, ...]
    lines: Lines
    """Devices along its axes."""


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
        self.transfers = framework.transfers
        self.borders: Borders = borders_of(graph, job.precision)
        self._framework, self._prices = framework, prices
        self._names = tuple(layer.name for layer in graph.layers)
        self.period = period_of(self.cluster, self.devices)
        self.positions = positions or cuts_of(graph)
        self._experts = self.positions.sums(_covered(graph).astype(np.int64))
        self._known: dict[object, object] = {}

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
        self._check(starts, stops)
        if choice.expert == 1:
            return self.columns(choice).runs(starts, stops)
        parts = self._by_experts(choice, starts, stops)
        return _joined([(m, self.columns(c).runs(starts[m], stops[m])) for c, m in parts])

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
        return self._once(("columns", choice), lambda: self._columns(choice))

    def sharding(self, choice: StageChoice) -> ShardedLayers:
        """Return how a choice shards the model; of experts as if every run had some.

        Raises:
            InputError: the model or the cluster does not allow the choice.
        """
        return self._row(self._lane(choice)).sharded.shards

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
        count = len(self.graph.layers)
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
        tensors = flow_tensors(self.graph, written, read)
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
        rows = [self.devices[end.first : end.first + end.row_devices] for end in ends]
        if rows[0] == rows[1]:
            return [0.0] * len(sent)
        shards = [self._row(self._lane(end)).sharded.shards for end in ends]
        if backward:
            rows.reverse()
        samples = min(source.microbatch_size, target.microbatch_size)
        return [self._crossing(rows, shards, item, samples, backward=backward) for item in sent]

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
        size, pattern = flow_pattern(self.graph, self.job.precision, tensors, *shards)
        way = reversed_pattern(pattern) if backward else pattern
        sent = size * samples
        if self.transfers in ("", "direct"):
            route = lane_route(self.cluster, rows[0], rows[1], way)
        else:
            route = crossing_route(self.cluster, rows[0], rows[1], way, sent, self.transfers)
        return route.latency_s + sent * route.seconds_per_byte

    # ---- made ------------------------------------------------------------------------------------------

    def _once(self, key: object, make: Callable[[], T]) -> T:
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]  # type: ignore[assignment]
        return found

    def _check(self, starts: IntArray, stops: IntArray) -> None:
        self.positions.check(starts, stops)

    def _check_choice(self, choice: StageChoice) -> None:
        choice.check_ranks(len(self.devices))
        check_axes(
            self.graph, tensor=choice.tensor, context=choice.context, expert=choice.expert,
            devices=choice.devices,
        )  # fmt: skip

    def _by_experts(
        self, choice: StageChoice, starts: IntArray, stops: IntArray
    ) -> list[tuple[StageChoice, npt.NDArray[np.bool_]]]:
        """Split runs into those with experts, and those without, which are sharded as if there were none."""
        self._once(("checked", choice), lambda: self._check_choice(choice))
        every = np.ones(len(starts), dtype=bool)
        some = self._experts[stops] > self._experts[starts]
        found = [(choice, some), (replace(choice, expert=1), ~some)]
        return [(item, mask) for item, mask in found if mask.any()] or [(choice, every)]

    def _moved(self, choice: StageChoice) -> StageChoice:
        """Return the choice on the first devices of the cluster whose links look alike."""
        if not self.period or choice.first < self.period:
            return choice
        return replace(choice, first=choice.first % self.period)

    def _shifted(self, source: StageChoice, target: StageChoice) -> tuple[StageChoice, StageChoice]:
        """Move both ends of a transfer together, as `_moved` does."""
        if not self.positions.ordered:
            raise InputError("transfers between ideals", key="positions", allowed="cuts in model order")
        if not self.period:
            return source, target
        back = min(source.first, target.first) // self.period * self.period
        return replace(source, first=source.first - back), replace(target, first=target.first - back)

    def _lane(self, choice: StageChoice) -> StageChoice:
        """Return the choice without all that a single row of devices does not depend on."""
        return self._once(("lane", choice), lambda: self._make_lane(choice))

    def _make_lane(self, choice: StageChoice) -> StageChoice:
        self._check_choice(choice)
        return StageChoice(
            tensor=choice.tensor, context=choice.context, expert=choice.expert,
            replicas=choice.replicas if choice.expert > 1 else 1,
            sequence_parallel=choice.sequence_parallel, context_exchange=choice.context_exchange,
            first=self._moved(choice).first,
        )  # fmt: skip

    def _row(self, lane: StageChoice) -> _Row:
        return self._once(("row", lane), lambda: self._make_row(lane))

    def _make_row(self, lane: StageChoice) -> _Row:
        stage = lane.stage(self._names, self.devices, expert_patterns(self.graph))
        row = stage.meshes[0].rows[0]
        kinds = tuple(dict.fromkeys(self.cluster.kind_of(device) for device in row))
        return _Row(stage, sharded_of(self.graph, stage), kinds, axis_lines(stage, 0, row))

    def _columns(self, choice: StageChoice) -> SecondsColumns:
        row, samples, precision = self._row(self._lane(choice)), choice.microbatch_size, self.job.precision
        costs = None
        if row.sharded.inside is not None:
            costs = kind_costs(self.cluster, row.sharded.inside, row.lines, precision, float(samples))
        alike = id(row.sharded), row.kinds, None if costs is None else costs.tobytes(), samples

        def make() -> LayerColumns:
            return self._prices(
                self.graph, self.cluster, row.sharded, costs,
                kinds=tuple(kind.name for kind in row.kinds), precision=precision, samples=float(samples),
            )  # fmt: skip

        found = self._once(("layers", *alike), make)
        return seconds_columns(
            self.graph, row.sharded, found, row.kinds, choice.overlap, choice.recompute, self.positions
        )

    def _counts(self, choice: StageChoice) -> RunCounts:
        shards = self.sharding(choice)
        if not self.positions.ordered:
            make = partial(RunCounts, self.graph, shards, self.positions)
            return self._once(("counts", id(shards)), make)
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
            self._moved(choice), microbatch_size=1, recompute="none", zero=1, overlap=(), bucket_bytes=0.0
        )

        def make() -> StageExchanges:
            if plain.expert > 1:
                stage = plain.stage(self._names, self.devices, expert_patterns(self.graph))
                return placed_exchanges(self.graph, self.cluster, self.job, stage, self.positions)
            row = self._row(self._lane(plain))
            rows = Rows(
                row.stage, row.sharded.shards, self.devices, plain.first, plain.replicas, plain.zero_replicas
            )
            return alike_exchanges(self.graph, self.cluster, self.job, rows, self.positions)

        held = self._counts(choice).runs(starts, stops)
        found = self._once(("exchanges", plain), make)
        return found.runs(held, starts, stops, zero=choice.zero, bucket_bytes=choice.bucket_bytes)


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
