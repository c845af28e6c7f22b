"""Search problems: a model, devices to choose from, a workload, an objective, and rules that must hold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.search._devices import PAID, USUAL, DeviceOrder, Pool, orders_of
from explorer.search._pins import Rules, fit_cuts, rules_of
from explorer.search.objectives import FRONTIER, OBJECTIVES, Objective, axes_of
from explorer.simulation.report import Report
from explorer.strategy import JobStrategy, Strategy
from explorer.workload import Job, Workload

SYNCHRONOUS, ANY = "synchronous", "any"
ROUNDING = 1e-12
"""Share by which a step may miss the least throughput, for roundings."""
WEIGHTS = (SYNCHRONOUS, ANY)
"""Which weights gradients may be of: those they change, or older ones as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A search problem. Immutable.

    Raises:
        InputError: the objective, the weights, a layer or a device is unknown.
    """

    graph: LayerGraph
    """The model."""
    cluster: Cluster | None
    """The devices; None only for searchers that bring their own (a published cost model)."""
    workload: Workload
    """Workload of one job."""
    objective: str = "time"
    """A key of `OBJECTIVES`, or `frontier`, of step time and memory or of others: `frontier:time,cost`."""
    memory_limit_bytes: float = 0.0
    """Limit per device in bytes, below its own capacity; 0 if there is none."""
    min_samples_per_s: float = 0.0
    """Least throughput in samples per second, which every result reaches; 0 if none is asked for."""
    devices: tuple[int, ...] = ()
    """Devices that may be used, in the order of the ranks; () for all of the cluster, pools included."""
    max_devices: int = 0
    """Most devices to use; 0 for all."""
    pins: tuple[tuple[str, int], ...] = ()
    """(layer, device) pairs that must hold: the layer's stage must contain the device."""
    bans: tuple[tuple[str, int], ...] = ()
    """(layer, device) pairs that must not hold."""
    schedule: str = ""
    """Schedule of every candidate, a name in `explorer.schedules`; "" leaves it to the searcher."""
    schedule_options: tuple[tuple[str, Any], ...] = ()
    """Options of that schedule."""
    weights: str = SYNCHRONOUS
    """One of `WEIGHTS`: whether gradients must be of the weights they change, or may be of older ones."""
    start: Strategy | None = None
    """A strategy to start from; the result is never worse."""
    seed: int = 0
    """Seed of all random choices."""
    rules: Rules = field(init=False, repr=False, compare=False)
    """Pins and bans, prepared for checking candidates."""
    axes: tuple[Objective, ...] = field(init=False, repr=False, compare=False)
    """Objectives to be minimised; all axes of a frontier, of which the first ranks candidates."""

    chosen_from: Pool | None = field(init=False, repr=False, compare=False)
    """The devices, as proposers see them; None without a cluster."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", axes_of(self.objective))
        self._check_schedule()
        if self.weights not in WEIGHTS:
            raise InputError(
                f"weights are {self.weights!r}", key="weights", found=self.weights,
                allowed=" or ".join(WEIGHTS),
            )  # fmt: skip
        for key, pairs in (("pins", self.pins), ("bans", self.bans)):
            self._check_layers(key, pairs)
            self._check_devices(key, {device for _, device in pairs})
        self._check_devices("devices", set(self.devices))
        if len(set(self.devices)) < len(self.devices):
            raise InputError(
                "a device is named twice", key="devices", found=len(self.devices), allowed="different devices"
            )
        if not 0 <= self.min_samples_per_s < math.inf:
            raise InputError(
                f"a throughput of {self.min_samples_per_s} samples a second", key="min_samples_per_s",
                found=self.min_samples_per_s, allowed="0 or more, and finite",
            )  # fmt: skip
        if self.max_devices < 0:
            raise InputError(
                f"max_devices is {self.max_devices}", key="max_devices", found=self.max_devices,
                allowed="1 or more, or 0 for all",
            )  # fmt: skip
        object.__setattr__(self, "rules", rules_of(self.pins, self.bans))
        object.__setattr__(self, "chosen_from", self._pool())

    def _check_schedule(self) -> None:
        if self.schedule:
            schedule = SCHEDULES.get(self.schedule)
            schedule.read_options(dict(self.schedule_options))
            schedule.with_options(dict(self.schedule_options))
        elif self.schedule_options:
            raise InputError(
                "options of a schedule without a schedule",
                key="schedule_options",
                found=", ".join(name for name, _ in self.schedule_options),
                allowed="together with a schedule",
            )

    def _pool(self) -> Pool | None:
        if self.cluster is None:
            return None
        devices = self.devices or self.cluster.order
        count = min(len(devices), self.max_devices) if self.max_devices else len(devices)
        return Pool(cluster=self.cluster, devices=devices, count=count, precision=self.job.precision)

    def _check_layers(self, key: str, pairs: tuple[tuple[str, int], ...]) -> None:
        for layer in dict.fromkeys(layer for layer, _ in pairs):
            if layer not in self.graph.index:
                raise InputError(
                    f"model {self.graph.name!r} has no layer {layer!r}",
                    key=key,
                    found=layer,
                    allowed=f"one of its {len(self.graph.layers)} layers",
                )

    def _check_devices(self, key: str, devices: set[int]) -> None:
        for device in sorted(devices):
            if self.cluster is not None and not 0 <= device < self.cluster.device_count:
                raise InputError(
                    f"cluster {self.cluster.name!r} has no device {device}",
                    key=key,
                    found=device,
                    allowed=f"0 to {self.cluster.device_count - 1}",
                )

    @property
    def job(self) -> Job:
        """The only job."""
        return self.workload.job

    @property
    def needed_cluster(self) -> Cluster:
        """The cluster.

        Raises:
            InputError: there is none.
        """
        return self.pool.cluster

    @property
    def pool(self) -> Pool:
        """Devices to choose from.

        Raises:
            InputError: there is no cluster.
        """
        if self.chosen_from is None:
            raise InputError("this searcher needs a cluster", key="cluster", allowed="--cluster NAME")
        return self.chosen_from

    @property
    def device_count(self) -> int:
        """Devices that may be used together.

        Raises:
            InputError: there is no cluster.
        """
        return self.pool.count

    def orders(self, names: tuple[str, ...] = ()) -> tuple[DeviceOrder, ...]:
        """Return the device orders worth trying, most promising first: see `explorer.search._devices`.

        Args:
            names: proposers to ask; () for the usual ones, and for fewer devices if that may be better: if
                there is a pool to choose from, or the devices used are paid for.

        Raises:
            InputError: there is no cluster, or a proposer is unknown.
        """
        pool = self.pool
        if not names:
            fewer = pool.cluster.pools or any(axis.per_device for axis in self.axes)
            names = (*USUAL, *(PAID if fewer else ()))
        key = ("orders", pool.devices if self.devices else pool.count, pool.count, pool.precision, names)
        return pool.cluster.memo(key, lambda: orders_of(pool, names))

    @property
    def order(self) -> DeviceOrder:
        """The devices taken by a searcher that makes no choice of its own.

        Raises:
            InputError: there is no cluster.
        """
        return self.orders()[0]

    @property
    def ranks(self) -> Objective:
        """The objective that ranks candidates: of a frontier its first axis."""
        return self.axes[0]

    @property
    def keeps_frontier(self) -> bool:
        """Whether all non-dominated candidates are sought, not one best."""
        return self.objective.partition(":")[0] == FRONTIER

    def lower_bound(self) -> float | None:
        """Return the lower bound for all strategies (see `Objective.bound`); None without a cluster."""
        return self.ranks.bound(self.graph, self.job, self.pool) if self.cluster is not None else None

    def value(self, report: Report) -> float:
        """Return the objective of a report, whether it fits or not."""
        return self.ranks.value(self.needed_cluster, self.job, report)

    def check_floor(self) -> None:
        """Check that the throughput asked for is not out of reach of all devices at their peak.

        Raises:
            InputError: it is, or there is no cluster to reach it.
        """
        if not self.min_samples_per_s:
            return
        least_s = OBJECTIVES["time"].bound(self.graph, self.job, self.pool)
        if least_s > self.longest_step_s:
            most = self.job.global_batch / least_s
            raise floor_error(self.min_samples_per_s, f"its devices do {most:.4g} at their peak")

    @property
    def longest_step_s(self) -> float:
        """Seconds of the longest step that reaches the least throughput; infinite if none is asked for."""
        floor = self.min_samples_per_s
        return self.job.global_batch / floor * (1 + ROUNDING) if floor else math.inf

    def short_samples_per_s(self, step_s: float) -> float:
        """Return the samples per second that a step of so many seconds is short of the least throughput; 0 if
        it reaches it.
        """
        if step_s <= self.longest_step_s:
            return 0.0
        return self.min_samples_per_s - self.job.global_batch / step_s

    def over_bytes(self, report: Report) -> float:
        """Return the missing bytes over all lanes; 0 if everything fits its devices and the limit."""
        over = sum(item.over_bytes for item in report.overflows)
        if self.memory_limit_bytes:
            over = max(over, max(report.peak_memory_bytes) - self.memory_limit_bytes, 0.0)
        return over


def floor_error(floor: float, words: str) -> InputError:
    """Return the error of a least throughput that the devices do not reach.

    Args:
        floor: samples per second.
        words: how much they do.
    """
    return InputError(
        f"the pool does not reach {floor:g} samples a second: {words}", key="min_samples_per_s", found=floor,
        allowed="a lower floor, or more devices",
    )  # fmt: skip


def synchronous(job: JobStrategy) -> bool:
    """Tell whether every gradient is of the weights that it changes."""
    return SCHEDULES.get(job.schedule).flushes(dict(job.options))


def respects(problem: Problem, strategy: Strategy) -> bool:
    """Tell whether a strategy respects pins and bans."""
    return problem.rules.respected_by(strategy.job)


def respecting(problem: Problem, strategy: Strategy) -> Strategy | None:
    """Return the strategy if it respects pins and bans, else cut so that it does; None if no cut does."""
    if respects(problem, strategy):
        return strategy
    job = fit_cuts(problem.graph, problem.rules, strategy.job)
    return strategy.with_job(job) if job is not None else None
