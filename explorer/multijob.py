"""Several jobs on one cluster: their programs run side by side, sharing links and the compute of devices.

Each job keeps its own lanes and channels. Where two jobs use one device its compute becomes a shared rate
of capacity 1, of which every task asks its layers' occupancy: jobs that together ask for less than 1 do
not slow each other down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from explorer.check import check
from explorer.cluster import Cluster
from explorer.errors import PlanError
from explorer.fold import UNFOLDED
from explorer.graph import LayerGraph
from explorer.onejob import get_program, period_of
from explorer.passes.events import run_events
from explorer.passes.static import overfull_resources, run_static
from explorer.passes.timing import Shares, Timing
from explorer.pricing import Pricer, Prices, price
from explorer.report import Report, Timeline, build_report
from explorer.strategy import JobStrategy, Strategy
from explorer.tasks.placement import place
from explorer.tasks.program import TRANSFER, Program
from explorer.workload import Job, Workload

STEPS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """One job, lowered and priced."""

    graph: LayerGraph
    job: Job
    strategy: JobStrategy
    pricer: Pricer
    program: Program
    prices: Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedTasks:
    """Tasks of several programs, one after the other."""

    slot: npt.NDArray[np.int64]
    channel: npt.NDArray[np.int64]
    first: list[int]
    second: list[int]

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
    chosen = {part.job: part for part in strategy.jobs}
    parts = [_lower(by_key[job.graph], cluster, job, chosen[job.name]) for job in workload.jobs]
    tasks = _merge([part.program for part in parts])
    shares = _merge_shares(parts)
    seconds = np.concatenate([part.prices.seconds for part in parts])
    timing = run_static(tasks, seconds)
    if force_events or overfull_resources(tasks, timing, shares):
        timing = run_events(tasks, seconds, shares)
    reports = _reports(cluster, parts, timing)
    return _sum_up(reports)


def _lower(graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy) -> _Part:
    placement = place(graph, strategy, training=job.training)
    pricer = Pricer(graph, cluster, job, strategy, placement)
    program = get_program(placement, UNFOLDED, job, strategy, pricer, STEPS)
    return _Part(
        graph=graph, job=job, strategy=strategy, pricer=pricer, program=program, prices=price(program, pricer)
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
        first=[i + by if i else 0 for p, by in zip(programs, tasks, strict=True) for i in p.first],
        second=[i + by if i else 0 for p, by in zip(programs, tasks, strict=True) for i in p.second],
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
    """Per section: the largest occupancy of its layers."""
    layers = part.graph.layers
    return [max(layers[i].occupancy for i in members.tolist()) for members in part.pricer.placement.layers]


def _reports(cluster: Cluster, parts: list[_Part], timing: Timing) -> list[tuple[str, Report]]:
    found = []
    for part, first in zip(parts, _offsets([p.program.size for p in parts]), strict=True):
        own = slice(first, first + part.program.size)
        mine = Timing(start_s=timing.start_s[own], end_s=timing.end_s[own], pass_name=timing.pass_name)
        timeline = Timeline(
            program=part.program, prices=part.prices, timing=mine, placement=part.pricer.placement
        )
        report = build_report(
            cluster, part.job, part.strategy, timeline,
            folded=part.program.lane_devices, periods=period_of(part.program, mine, flush=True, drain=0),
        )  # fmt: skip
        found.append((part.job.name, report))
    return found


def _sum_up(reports: list[tuple[str, Report]]) -> Report:
    """The slowest job's report, with all of them inside, and memory of shared devices added up."""
    held: dict[int, float] = {}
    room: dict[int, float] = {}
    for _, report in reports:
        for devices, used, capacity in zip(
            report.lanes, report.peak_memory_bytes, report.capacity_bytes, strict=True
        ):
            for device in devices:
                held[device] = held.get(device, 0.0) + used
                room[device] = capacity
    slowest = max((report for _, report in reports), key=lambda report: report.step_time_s)
    return replace(
        slowest,
        makespan_s=max(report.makespan_s for _, report in reports),
        throughput_samples_per_s=sum(report.throughput_samples_per_s for _, report in reports),
        feasible=all(held[device] <= room[device] for device in held),
        jobs=tuple(reports),
    )
