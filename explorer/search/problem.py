"""What a searcher is given, what it yields, and how candidates are judged: by the one simulator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.base.errors import ExplorerError, InputError
from explorer.cluster import Cluster
from explorer.costs.energy import dollars, energy_joules
from explorer.graph import LayerGraph
from explorer.search._pins import Rules, recut, rules_of
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy
from explorer.workload import Workload

OBJECTIVES: dict[str, str] = {
    "time": "s",
    "memory": "bytes",
    "cost": "dollars/step",
    "energy": "J/step",
    "time_to_accuracy": "s",
}
"""Objectives, all to be minimised, with their units; `frontier` is time with the frontier kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A search problem. Immutable.

    Raises:
        InputError: an unknown objective.
    """

    graph: LayerGraph
    """The model."""
    cluster: Cluster | None
    """The devices; None only for searchers that bring their own (a published cost model)."""
    workload: Workload
    """One job."""
    objective: str = "time"
    """A key of `OBJECTIVES`, or `frontier`."""
    memory_limit_bytes: float = 0.0
    """Per device, below its own capacity; 0 for none."""
    max_devices: int = 0
    """Devices to use at most; 0 for all."""
    pins: tuple[tuple[str, int], ...] = ()
    """(layer, device) that must hold: the layer's stage must contain the device."""
    bans: tuple[tuple[str, int], ...] = ()
    """(layer, device) that must not hold."""
    start: Strategy | None = None
    """A strategy to start from; the result is never worse."""
    seed: int = 0
    """Seed of all randomness."""
    rules: Rules = field(init=False, repr=False, compare=False)
    """Pins and bans, ready to be asked."""

    def __post_init__(self) -> None:
        if self.objective not in (*OBJECTIVES, "frontier"):
            raise InputError(
                f"unknown objective {self.objective!r}",
                key="objective",
                found=self.objective,
                allowed=", ".join((*OBJECTIVES, "frontier")),
            )
        for key, pairs in (("pins", self.pins), ("bans", self.bans)):
            self._check_places(key, pairs)
        object.__setattr__(self, "rules", rules_of(self.pins, self.bans))

    def _check_places(self, key: str, pairs: tuple[tuple[str, int], ...]) -> None:
        for layer in dict.fromkeys(layer for layer, _ in pairs):
            if layer not in self.graph.index:
                raise InputError(
                    f"model {self.graph.name!r} has no layer {layer!r}",
                    key=key,
                    found=layer,
                    allowed=f"one of its {len(self.graph.layers)} layers",
                )
        for device in sorted({device for _, device in pairs}):
            if self.cluster is not None and not 0 <= device < self.cluster.device_count:
                raise InputError(
                    f"cluster {self.cluster.name!r} has no device {device}",
                    key=key,
                    found=device,
                    allowed=f"0 to {self.cluster.device_count - 1}",
                )

    @property
    def device_count(self) -> int:
        """Devices that may be used.

        Raises:
            InputError: no cluster.
        """
        if self.cluster is None:
            raise InputError("this searcher needs a cluster", key="cluster", allowed="--cluster NAME")
        most = self.cluster.device_count
        return min(most, self.max_devices) if self.max_devices else most

    def trivial_bound_s(self) -> float:
        """Work over peak: no step can be shorter than its FLOPs at the peak of all usable devices."""
        if self.cluster is None:
            return 0.0
        job = self.workload.job
        flops = self.graph.flops_per_sample * job.global_batch * (3.0 if job.training else 1.0)
        peaks = sorted(
            (
                kind.peak(job.precision)
                for group in self.cluster.nodes
                for kind in [next(k for k in self.cluster.device_kinds if k.name == group.device_kind)]
                for _ in range(group.count * group.devices_per_node)
            ),
            reverse=True,
        )
        return flops / sum(peaks[: self.device_count])


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A strategy that was costed."""

    strategy: Strategy
    """The strategy."""
    report: Report
    """What it is predicted to do."""
    value: float
    """Objective value; infinite where it does not fit."""
    label: str = ""
    """What it is, in a few words ("pp 4 x dp 2, 1F1B")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of a search after each yield of its searcher."""

    searcher: str
    """Name."""
    objective: str
    """Objective."""
    best: Candidate | None
    """Best feasible candidate so far."""
    evaluations: int
    """Strategies costed so far."""
    wall_s: float
    """Seconds since the start."""
    new: Candidate | None = None
    """Candidate costed last, if any."""
    lower_bound: float | None = None
    """Largest proven lower bound of the objective, in the space `bound` names."""
    bound: str = ""
    """What the bound is of: the searcher's own space, or `work over peak`."""
    optimal: bool = False
    """Whether the best is proven optimal in the searcher's own space."""
    frontier: tuple[Candidate, ...] = ()
    """Non-dominated candidates in (step time, peak memory), by time."""
    foreign_value: float | None = None
    """Value under a foreign cost model, where the searcher uses one instead of ours."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the searcher has to say (stages under a foreign cost model, ...)."""


@dataclass(kw_only=True)
class Evaluator:
    """Costs candidates, counts them, keeps the best. A searcher calls `evaluate`; nothing else judges."""

    problem: Problem
    max_evaluations: int = 0
    best: Candidate | None = None
    evaluations: int = 0
    frontier: list[Candidate] = field(default_factory=list)
    lower_bound: float | None = None
    bound: str = ""
    optimal: bool = False
    foreign_value: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    refused: int = 0
    """Candidates that break pins or bans, and that no other cut would save; they are never costed."""

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        return bool(self.max_evaluations) and self.evaluations >= self.max_evaluations

    def evaluate(self, strategy: Strategy, label: str = "", *, recut: bool = True) -> Candidate | None:
        """Cost a strategy; None if it cannot be lowered or breaks a pin, or no evaluation is left.

        One that breaks pins or bans is cut anew so that it respects them, if its stages allow that and
        `recut` is not False.
        """
        if self.exhausted:
            return None
        held = respecting(self.problem, strategy) if recut else strategy
        if held is None or not respects(self.problem, held):
            self.refused += 1
            return None
        if held is not strategy:
            strategy, label = held, f"{label}, cut to respect pins"
        if self.problem.cluster is None:
            raise InputError("this searcher needs a cluster", key="cluster", allowed="--cluster NAME")
        self.evaluations += 1
        try:
            report = simulate(self.problem.graph, self.problem.cluster, self.problem.workload, strategy)
        except ExplorerError:
            return None
        found = Candidate(
            strategy=strategy, report=report, value=objective_value(self.problem, report), label=label
        )
        self._keep(found)
        return found

    def _keep(self, found: Candidate) -> None:
        if not math.isfinite(found.value):
            return
        if self.best is None or found.value < self.best.value:
            self.best = found
        key = _point(found)
        if any(_dominates(_point(other), key) for other in self.frontier):
            return
        self.frontier = [other for other in self.frontier if not _dominates(key, _point(other))]
        self.frontier.append(found)


def _point(candidate: Candidate) -> tuple[float, float]:
    return candidate.report.step_time_s, max(candidate.report.peak_memory_bytes)


def _dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a[0] <= b[0] and a[1] <= b[1]


def respects(problem: Problem, strategy: Strategy) -> bool:
    """Whether pins and bans hold."""
    return problem.rules.respected_by(strategy.job)


def respecting(problem: Problem, strategy: Strategy) -> Strategy | None:
    """The strategy itself where pins and bans hold, else its stages cut anew so that they do, else None."""
    if respects(problem, strategy):
        return strategy
    job = recut(problem.graph, problem.rules, strategy.job)
    return strategy.with_job(job) if job is not None else None


def objective_value(problem: Problem, report: Report) -> float:
    """The objective of a report; infinite where it does not fit the devices or the limit."""
    peak = max(report.peak_memory_bytes)
    if not report.feasible or (problem.memory_limit_bytes and peak > problem.memory_limit_bytes):
        return math.inf
    if problem.objective in ("time", "frontier"):
        return report.step_time_s
    if problem.objective == "memory":
        return peak
    if problem.objective == "time_to_accuracy":
        return time_to_accuracy_s(problem, report)
    return _spent(problem, report)


def _spent(problem: Problem, report: Report) -> float:
    """Dollars or joules of one step."""
    if problem.cluster is None:
        return math.inf
    if problem.objective == "cost":
        return dollars(problem.cluster, report.devices, report.step_time_s)
    busy_s = report.per_device(report.busy_s)
    return energy_joules(problem.cluster, report.devices, busy_s, report.step_time_s)


def time_to_accuracy_s(problem: Problem, report: Report) -> float:
    """Step time x steps per epoch x epochs at this global batch (log-linear between known batches).

    Raises:
        InputError: the workload states no epochs or no samples per epoch.
    """
    job = problem.workload.job
    if not job.epochs or not job.samples_per_epoch:
        raise InputError(
            "the objective time_to_accuracy needs samples per epoch and epochs to converge",
            key="workload.epochs",
            allowed="epochs: [[batch, epochs], ...] and samples_per_epoch > 0",
        )
    return (
        report.step_time_s
        * job.samples_per_epoch
        / job.global_batch
        * epochs_at(job.epochs, job.global_batch)
    )


def epochs_at(points: tuple[tuple[int, float], ...], batch: int) -> float:
    """Epochs to converge at a batch: linear in log(batch) between points, flat outside.

    >>> epochs_at(((32, 10.0), (128, 20.0)), 64)
    15.0
    """
    before = [point for point in points if point[0] <= batch]
    after = [point for point in points if point[0] >= batch]
    if not before or not after:
        return (before or after)[-1 if before else 0][1]
    (x0, y0), (x1, y1) = before[-1], after[0]
    return y0 if x0 == x1 else y0 + (y1 - y0) * math.log(batch / x0) / math.log(x1 / x0)


Searcher = Callable[..., Iterator[Candidate | None]]
"""`searcher(problem, evaluator, **options)`: yields at least every 50 ms, None where there is nothing new."""
