"""Estimates and bounds of many even plans at once: seconds of a step and bytes of the fullest device.

What a stage costs comes from the cost tables (`kind_costs`), how stages make a step from the schedule itself
(`Schedule.lower`, `estimate`, `in_flight`), what is exchanged in between from `exchange_pairs`. A lower bound
is never above `simulate`: links that are shared only make a step longer. The guess adds how much.

>>> from explorer.cluster_profiles import load_cluster
>>> from explorer.models import load_model
>>> from explorer.strategies.degrees import Degrees
>>> from explorer.workload import default_workload
>>> graph = load_model("gpt2-small")
>>> estimator = Estimator(graph, load_cluster("dgx-a100"), default_workload(graph).job)
>>> found = estimator.one(Degrees(stages=4, replicas=2))
>>> bool(found.step_lower_s[0] <= found.step_s[0])
True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.caching import MEBIBYTE
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.schedules.pipelines import held_pairs
from explorer.schedules.placements import Grid, Placement
from explorer.schedules.spec import ROUNDING, Schedule
from explorer.strategies.degrees import Degrees
from explorer.tables.degrees_columns import DegreesColumns, Scheduled
from explorer.tables.distinct import distinct
from explorer.tables.kind_costs import KindCosts
from explorer.tables.plan_group import PlanGroup
from explorer.tables.run_kinds import Cut, RunKinds
from explorer.tables.stage_rows import StageRows
from explorer.tables.stage_table import StageTable
from explorer.tasks.skeleton import FloatArray, IntArray
from explorer.workload import Job

FEW_DEVICES = 32
"""Devices up to which transfers of whole grids are looked at, each of which takes milliseconds."""
MOST_GROUPS = 4096
"""Groups of plans that are kept."""
MOST_BYTES = 128 * MEBIBYTE
"""Bytes of costs of one estimator, beyond which it begins anew."""
_Key = tuple[Scheduled, int, int, tuple[int, ...]]


class Estimates(NamedTuple):
    """Predictions of N plans, arrays of (N,)."""

    step_s: FloatArray
    """Best guess of the seconds of a step."""
    step_lower_s: FloatArray
    """Seconds that a step takes at least."""
    memory_bytes: FloatArray
    """Best guess of the bytes on the fullest device."""
    memory_lower_bytes: FloatArray
    """Bytes that it needs at least."""
    over_bytes: FloatArray
    """Best guess of the bytes that some device lacks; 0 or less if the plan fits."""
    over_lower_bytes: FloatArray
    """Bytes that some device lacks at least."""


class Estimator:
    """Estimates of even plans of one job on one cluster."""

    def __init__(
        self, graph: LayerGraph, cluster: Cluster, job: Job, *, table: StageTable | None = None
    ) -> None:
        """Start with empty tables.

        Args:
            graph: the model.
            cluster: the devices.
            job: the workload of the model, with its framework.
            table: the cost table to ask; None makes one.
        """
        self.table = table or StageTable(graph, cluster, job)
        self._begin()

    def _begin(self) -> None:
        """Begin with no costs of stages; what the table remembers stays."""
        self._kinds = RunKinds(self.table.graph)
        self._costs = KindCosts(self.table, self._kinds)
        self._rows: dict[object, StageRows] = {}
        self._groups: dict[_Key, PlanGroup] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of the costs of stages that it holds."""
        return self._costs.held.bytes

    def one(self, degrees: Degrees) -> Estimates:
        """Return the estimates of one plan, as arrays of one value."""
        return self.of(DegreesColumns.of([degrees]))

    def of(self, columns: DegreesColumns, bounds: Sequence[int] = ()) -> Estimates:
        """Return the estimates of many plans.

        Args:
            columns: the plans.
            bounds: of the stages of all of them: stage i has the layers from `bounds[i]` to before
                `bounds[i + 1]`; () cuts each evenly, as `Degrees.build` does.

        Raises:
            InputError: a plan that the model or the cluster does not allow, a schedule without an order, or
                bounds of other stages.
        """
        found = Estimates(*np.zeros((len(Estimates._fields), len(columns))))
        for group, rows in self._by_group(columns, bounds):
            for out, values in zip(found, group.of(columns.take(rows)), strict=True):
                out[rows] = values
        return found

    def on_ports(self, columns: DegreesColumns, bounds: Sequence[int] = ()) -> FloatArray:
        """Return the (N,) seconds for which a step of plans keeps its busiest port, which it takes at least.

        This takes longer than `of`, which has the ports between neighbours only.

        Args:
            columns: the plans.
            bounds: as `of` has them.

        Raises:
            InputError: as `of`.
        """
        found = np.zeros(len(columns))
        for group, rows in self._by_group(columns, bounds):
            found[rows] = group.on_ports(columns.take(rows))
        return found

    def sent_s(self, schedule: Schedule, degrees: Degrees) -> float:
        """Return the seconds for which a step of plans keeps its busiest port by transfers alone, whatever is
        chosen of microbatch size, recomputation, ZeRO and buckets; 0 where that is not known.

        Args:
            schedule: their schedule.
            degrees: of which layout, positions, chunks and replicas count.
        """
        if not (schedule.flush and self.table.job.training) or degrees.stages == 1:
            return 0.0
        if degrees.devices > FEW_DEVICES:
            return 0.0  # before the rows of stages are made for nothing
        grid = schedule.placement.grid(degrees.stages, degrees.chunks)
        cut = self._kinds.cut(schedule.placement.stages(grid))
        exchange = int(DegreesColumns.of([degrees]).context_exchange[0])
        lane = (
            degrees.tensor, degrees.context, degrees.expert, int(degrees.sequence_parallel), exchange,
            degrees.replicas,
        )  # fmt: skip
        return self._rows_of(schedule.placement, grid, cut).ports.sent_s(lane) * ROUNDING

    def _by_group(self, columns: DegreesColumns, bounds: Sequence[int]) -> list[tuple[PlanGroup, IntArray]]:
        """Return the groups of plans, each with its rows."""
        self._check(columns)
        groups = distinct(columns.schedule, columns.stages, columns.chunks)
        keys = [
            (
                columns.schedules[int(columns.schedule[row])],
                int(columns.stages[row]),
                int(columns.chunks[row]),
                tuple(int(bound) for bound in bounds),
            )
            for row in groups.first
        ]
        self._prepare(keys)
        order = np.argsort(groups.place.astype(np.int32), kind="stable")
        stops = np.cumsum(np.bincount(groups.place, minlength=groups.size)).tolist()
        return [
            (self._groups[key], order[start:stop])
            for key, start, stop in zip(keys, [0, *stops], stops, strict=False)
        ]

    def _check(self, columns: DegreesColumns) -> None:
        devices = columns.stages * columns.replicas * columns.context * columns.tensor
        most, there = int(devices.max(initial=0)), len(self.table.devices)
        if most > there:
            raise InputError(f"a plan on {most} devices", key="stages", found=most, allowed=f"<= {there}")
        batch, samples = self.table.job.global_batch, columns.microbatch_size * columns.replicas
        if (wrong := np.flatnonzero(batch % samples)).size:
            raise InputError(
                f"microbatches of {samples[wrong[0]]} samples do not divide the global batch of {batch}",
                key="microbatch_size", found=int(samples[wrong[0]]), allowed="a divisor of the global batch",
            )  # fmt: skip

    def _prepare(self, keys: list[_Key]) -> None:
        """Make the groups that are new; costs are asked of all kinds of runs at once, so these come first."""
        if len(self._groups) > MOST_GROUPS or self.held_bytes > MOST_BYTES:
            self._begin()
        cuts = {key: self._cut(key) for key in keys if key not in self._groups}
        if cuts:
            self._costs.grow()
        for key, cut in cuts.items():
            (name, options), stages, chunks, _ = key
            schedule = SCHEDULES.get(name).with_options(dict(options))
            rows = self._rows_of(schedule.placement, schedule.placement.grid(stages, chunks), cut)
            self._groups[key] = PlanGroup(rows, schedule, schedule.read_options(dict(options)))

    def _rows_of(self, placement: Placement, grid: Grid, cut: Cut) -> StageRows:
        """Return the rows of stages, which all schedules that place them alike share."""
        key = held_pairs(placement, grid), cut.bounds
        if key not in self._rows:
            self._rows[key] = StageRows(self._costs, placement, grid, cut)
        return self._rows[key]

    def _cut(self, key: _Key) -> Cut:
        (name, options), stages, chunks, bounds = key
        schedule = SCHEDULES.get(name).with_options(dict(options))
        if schedule.dispatch or schedule.literal:
            raise InputError(
                f"schedule {name} has no order before it runs, or a literal one: it is not estimated",
                key="schedule", found=name, allowed="a schedule that makes an order of its own",
            )  # fmt: skip
        count = schedule.placement.stages(schedule.placement.grid(stages, chunks))
        if not bounds:
            return self._kinds.cut(count)
        if len(bounds) != count + 1:
            raise InputError(
                f"bounds of {len(bounds) - 1} stages for plans of {count}", key="bounds",
                found=len(bounds), allowed=f"{count + 1} numbers",
            )  # fmt: skip
        return self._kinds.cut_at(bounds)
