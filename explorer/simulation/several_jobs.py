"""Several jobs on one cluster: their programs run side by side, sharing links and the compute of devices.

Each job keeps its own lanes and channels. If two jobs use one device, its compute becomes a shared rate
of capacity 1, of which every task asks its layers' occupancy: jobs that together ask for less than 1 do
not slow each other down.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from explorer.base.errors import PlanError
from explorer.cluster import Cluster
from explorer.cluster.memory_room import memory_room, worst
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.passes.events import run_events
from explorer.passes.overfull import is_overfull
from explorer.passes.static import run_static
from explorer.passes.timing import FloatArray, Shares, Timing
from explorer.pricing import Pricer, Prices, price
from explorer.pricing.input_pipeline import with_inputs_s
from explorer.simulation.check import check
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.one_job import get_program, input_seconds
from explorer.simulation.report import Overflow, Report, Timeline, build_report, times_at
from explorer.strategies.framework_choices import strategy_under
from explorer.strategy import JobStrategy, Strategy
from explorer.tasks.placement import place
from explorer.tasks.program import TRANSFER, Program
from explorer.tasks.program_tables import derived
from explorer.workload import Job, Workload

STEPS, MAX_STEPS = 3, 48
"""Steps simulated of the slowest job; a quicker one runs as many more as it is quicker, up to the second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One job, lowered and priced."""

    graph: LayerGraph
    job: Job
    strategy: JobStrategy
    pricer: Pricer
    program: Program
    prices: Prices
    alone_s: float
    """Seconds of a step if it had the cluster to itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Together:
    """Some jobs side by side, each with its own part of the timing."""

    parts: list[_Part]
    timings: list[Timing]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTasks:
    """Tasks of several programs, one after the other."""

    slot: npt.NDArray[np.int64]
    channel: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]

    @property
    def size(self) -> int:
        """Number of tasks."""
        return len(self.first)


def simulate_jobs(
    graphs: LayerGraph | Mapping[str, LayerGraph],
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    *,
    force_events: bool = False,
) -> Report:
    """Predict several jobs together; `Report.jobs` holds each one's own numbers.

    Raises:
        PlanError: everything that is wrong.
    """
    by_key = graphs if isinstance(graphs, Mapping) else {job.graph: graphs for job in workload.jobs}
    problems = check(dict(by_key), cluster, workload, strategy)
    if problems:
        raise PlanError(problems)
    frameworks = {job.name: load_framework(job.framework) for job in workload.jobs}
    jobs = {job.name: job for job in workload.jobs}
    chosen = {
        part.job: strategy_under(part, frameworks[part.job], by_key[jobs[part.job].graph], jobs[part.job])
        for part in strategy.jobs
    }
    counts = [1] * len(workload.jobs)
    once = _run(by_key, cluster, workload, chosen, counts, force_events=force_events)
    longest = max(part.alone_s for part in once.parts)
    counts = [
        min(MAX_STEPS, math.ceil(STEPS * longest / part.alone_s)) if part.alone_s else 1
        for part in once.parts
    ]
    many = _run(
        by_key, cluster, workload, chosen, [max(2, count) for count in counts], force_events=force_events
    )
    return _sum_up(cluster, _reports(once, many))


def _run(
    graphs: Mapping[str, LayerGraph],
    cluster: Cluster,
    workload: Workload,
    chosen: Mapping[str, JobStrategy],
    counts: list[int],
    *,
    force_events: bool,
) -> _Together:
    """Run all jobs side by side from idle, each for so many steps."""
    parts = [
        _lower(graphs[job.graph], cluster, job, chosen[job.name], steps)
        for job, steps in zip(workload.jobs, counts, strict=True)
    ]
    tasks = _merge([part.program for part in parts])
    shares = _merge_shares(parts)
    seconds = np.concatenate([part.prices.seconds for part in parts])
    timing = run_static(tasks, seconds)
    if force_events or is_overfull(tasks, timing, shares):
        timing = run_events(tasks, seconds, shares)
    found = []
    for part, first in zip(parts, _offsets([part.program.size for part in parts]), strict=True):
        own = slice(first, first + part.program.size)
        found.append(Timing(start_s=timing.start_s[own], end_s=timing.end_s[own], pass_name=timing.pass_name))
    return _Together(parts=parts, timings=found)


def _lower(graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy, steps: int) -> _Part:
    placement = place(graph, strategy, training=job.training)
    pricer = Pricer(graph, cluster, job, strategy, placement)
    program = get_program(placement, UNFOLDED, job, strategy, pricer, steps)
    prices = price(program, pricer)
    alone = float(run_static(program, prices.seconds).end_s.max()) / steps
    return _Part(
        graph=graph, job=job, strategy=strategy, pricer=pricer, program=program, prices=prices, alone_s=alone
    )


def _offsets(sizes: list[int]) -> list[int]:
    return [0, *accumulate(sizes)][:-1]


def _merge(programs: list[Program]) -> MergedTasks:
    tasks = _offsets([program.size for program in programs])
    slots = _offsets([len(program.slots) for program in programs])
    channels = _offsets([int(program.channel.max()) + 1 for program in programs])
    return MergedTasks(
        slot=np.concatenate([p.slot + by for p, by in zip(programs, slots, strict=True)]),
        channel=np.concatenate(
            [np.where(p.channel < 0, -1, p.channel + by) for p, by in zip(programs, channels, strict=True)]
        ),
        first=np.concatenate(
            [np.where(p.first, p.first + by, 0) for p, by in zip(programs, tasks, strict=True)]
        ),
        second=np.concatenate(
            [np.where(p.second, p.second + by, 0) for p, by in zip(programs, tasks, strict=True)]
        ),
    )


def _merge_shares(parts: list[_Part]) -> Shares:
    index: dict[str, int] = {}
    capacity: list[float] = []

    def resource(name: str, available: float) -> int:
        if name not in index:
            index[name] = len(capacity)
            capacity.append(available)
        return index[name]

    users: dict[int, int] = {}
    for part in parts:
        for device in part.strategy.devices:
            users[device] = users.get(device, 0) + 1
    demands: list[tuple[tuple[int, float], ...]] = []
    for part in parts:
        own = part.prices.shares
        occupancy = _occupancy(part)
        for slot, asked in zip(part.program.slots, own.demands, strict=True):
            found = [(resource(own.names[r], float(own.capacity[r])), amount) for r, amount in asked]
            if 0 <= slot.kind < TRANSFER:
                row = part.pricer.sections[slot.where].rows[slot.piece.copy][slot.piece.replica]
                found += [
                    (resource(f"compute of device {device}", 1.0), occupancy[slot.where])
                    for device in row
                    if users[device] > 1
                ]
            demands.append(tuple(found))
    return Shares(capacity=np.array(capacity), names=tuple(index), demands=tuple(demands))


def _occupancy(part: _Part) -> list[float]:
    """Return per section the largest occupancy of its layers."""
    layers = part.graph.layers
    return [max(layers[i].occupancy for i in members.tolist()) for members in part.pricer.placement.layers]


def _reports(once: _Together, many: _Together) -> list[tuple[str, Report]]:
    """Build each job's own report: makespan of one step of all from idle, period while all of them go on."""
    stop = min(float(timing.end_s.max()) for timing in many.timings)
    found = []
    for part, timing, more, later in zip(once.parts, once.timings, many.parts, many.timings, strict=True):
        period, settled = _period(more.program, later, stop)
        period = with_inputs_s(part.job, period, input_seconds(part.job, part.pricer.placement.skeleton))
        timeline = Timeline(
            program=part.program, prices=part.prices, timing=timing, placement=part.pricer.placement
        )
        report = build_report(
            part.pricer.cluster, part.job, part.strategy, timeline,
            folded=part.program.lane_devices, periods=(period, settled),
        )  # fmt: skip
        found.append((part.job.name, report))
    return found


def _period(program: Program, timing: Timing, stop: float) -> tuple[FloatArray, bool]:
    """Return per lane the mean seconds of a step among those that end while every job still goes on."""
    ends = times_at(timing.end_s, derived(program).step_last)
    whole = max(2, int(np.count_nonzero(ends.max(axis=1) <= stop * (1 + 1e-9))))
    gaps = np.diff(ends[:whole], axis=0)
    settled = bool(np.all(np.abs(gaps - gaps[-1]) <= 1e-9 * max(float(gaps.max()), 1e-30)))
    return gaps.mean(axis=0), settled


def _sum_up(cluster: Cluster, reports: list[tuple[str, Report]]) -> Report:
    """Sum up: the slowest job's report, with all of them inside, and memory of shared devices added up."""
    held: dict[int, float] = defaultdict(float)
    home: dict[int, int] = {}
    slowest = max((report for _, report in reports), key=lambda report: report.step_time_s)
    for _, report in reports:
        for lane, (devices, used) in enumerate(zip(report.lanes, report.peak_memory_bytes, strict=True)):
            for device in devices:
                # what a process loses before its first tensor is lost once for each job
                held[device] += used
                home.setdefault(device, lane)
    rooms = {device: memory_room(cluster.kind_of(device)) for device in sorted(held)}
    overflows = tuple(
        Overflow(
            device=device,
            lane=home[device],
            over_bytes=held[device] - min(room.limit_bytes, cluster.kind_of(device).memory_bytes),
        )
        for device, room in rooms.items()
        if held[device] > room.limit_bytes
    )
    return replace(
        slowest,
        makespan_s=max(report.makespan_s for _, report in reports),
        throughput_samples_per_s=sum(report.throughput_samples_per_s for _, report in reports),
        feasible=not overflows,
        overflows=overflows,
        shared_verdict=worst(tuple(room.verdict(held[device]) for device, room in rooms.items())),
        jobs=tuple(reports),
    )
