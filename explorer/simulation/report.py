"""Report: everything predicted for one strategy. Built from a program, its prices and its timing.

Numbers that are cheap are fields; what only some views need (traffic by device pair, memory over time,
exposed communication) is computed on first use from the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain, pairwise
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from explorer.base.caching import IdentityCache, Owner, remembered
from explorer.cluster import Cluster
from explorer.cluster.memory_room import MemoryRoom, memory_room, worst
from explorer.passes.timing import FloatArray, Timing
from explorer.pricing import Pricer, Prices
from explorer.pricing.traffic import device_traffic
from explorer.simulation.lane_memory import MEMORY_PARTS, memory_by_lane
from explorer.strategy import JobStrategy, Stage
from explorer.tasks.placement import PlacedStrategy
from explorer.tasks.program import GATHER, HOST, JOIN, REDUCE, TRANSFER, Program
from explorer.tasks.program_tables import derived
from explorer.tasks.skeleton import IntArray
from explorer.workload import Job

Value = TypeVar("Value")

NO_FLOPS = "the model does not state its FLOPs"
"""Reason why there is no MFU, if there is none."""
_TENSORS, _GIVEN_BACK = MEMORY_PARTS.index("reserved"), MEMORY_PARTS.index("cached")


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """One device whose memory overflows."""

    device: int
    """First device of the lane."""
    lane: int
    """Its lane."""
    over_bytes: float
    """Bytes by which its predicted peak is above its memory, or what its margin leaves of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchOutcome:
    """Results that only a run under a dispatch policy has."""

    applied: int
    """Microbatches simulated, each applied exactly once."""
    redone: int
    """Forwards done again because their peer left before the backward."""
    rates: tuple[tuple[float, float, float], ...]
    """(from, to, samples per second) between events of the cluster; the last is the report's."""
    settled: bool
    """Whether the run lasted beyond the last event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Everything a drawing of the step needs."""

    program: Program
    """Tasks."""
    prices: Prices
    """Prices of the slots: seconds and bytes."""
    timing: Timing
    """Start and end of each task."""
    placement: PlacedStrategy
    """Layers by section, tensors by flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Owner):
    """Everything predicted for a strategy."""

    step_time_s: float
    """Longest period over devices between equal points of consecutive steps; per global batch."""
    makespan_s: float
    """Seconds of one step from idle."""
    device_span_s: tuple[float, ...]
    """Per lane: seconds from first start to last end within the first step."""
    throughput_samples_per_s: float
    """Global batch over step time."""
    bubble_fraction: float
    """Share of the used devices' time in which nothing is computed."""
    mfu: float | None
    """Model FLOPs (3 x forward in training) over peak FLOPs of the used devices in a step; None if the model
    does not state its FLOPs (measured seconds alone).
    """
    feasible: bool
    """Whether all devices take it: none does not fit, or under the margin `surely` all fit for sure."""
    overflows: tuple[Overflow, ...]
    """Devices that do not take it."""
    lanes: tuple[tuple[int, ...], ...]
    """Devices of each lane (equal replicas folded into one lane of the first)."""
    lane_devices: tuple[tuple[int, ...], ...]
    """Per lane: all devices it stands for, folded replicas included."""
    memory_parts_bytes: tuple[tuple[float, ...], ...]
    """Per lane: bytes of one device at its peak, by `MEMORY_PARTS`."""
    capacity_bytes: tuple[float, ...]
    """Per lane: memory of one device."""
    rooms: tuple[MemoryRoom, ...]
    """Per lane: up to which peak its smallest device fits, and beyond which it does not."""
    busy_s: tuple[float, ...]
    """Per lane: seconds of compute in one step."""
    versions: tuple[int, ...]
    """Per stage: most weight versions alive."""
    delay: tuple[int, ...]
    """Per stage: most updates between read and apply."""
    pass_name: str
    """Which pass computed it: static or events."""
    settled: bool
    """Whether two successive periods agreed on every lane."""
    global_batch: int
    """Samples of one step."""
    timeline: Timeline
    """Tasks with their times."""
    baseline: str = ""
    """Name of the baseline of `speedup`."""
    speedup: float | None = None
    """Baseline's step time over this one's."""
    dispatch: DispatchOutcome | None = None
    """Outcome of the dispatch; None if places were fixed before."""
    jobs: tuple[tuple[str, Report], ...] = ()
    """Each job's own report if several jobs share the cluster (this one then sums them up); else ()."""
    shared_verdict: str = ""
    """Verdict on the memory of devices that several jobs share; empty if there is one job."""
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def peak_memory_bytes(self) -> tuple[float, ...]:
        """Per lane: peak of one device, all parts except `cached`: what has to fit."""
        return self.memo("peaks", lambda: tuple([sum(x[:_GIVEN_BACK]) for x in self.memory_parts_bytes]))

    @property
    def memory_verdicts(self) -> tuple[str, ...]:
        """Per lane: whether it fits, may fit or does not fit (`explorer.cluster.memory_room`)."""
        pairs = zip(self.rooms, self.peak_memory_bytes, strict=True)
        return self.memo("memory verdicts", lambda: tuple([room.verdict(peak) for room, peak in pairs]))

    @property
    def memory_verdict(self) -> str:
        """Whether the plan fits, may fit or does not fit: the worst over its devices."""
        return self.shared_verdict or worst(self.memory_verdicts)

    @property
    def order_gap(self) -> float | None:
        """Share by which the order may exceed the shortest in its memory; None if its schedule says none."""
        gap: float | None = self.timeline.program.order.options.get("gap")
        return gap

    @property
    def allocated_memory_bytes(self) -> tuple[float, ...]:
        """Per lane: tensors of one device at its peak, as an allocator counts them."""
        return tuple(sum(parts[:_TENSORS]) for parts in self.memory_parts_bytes)

    @property
    def devices(self) -> tuple[int, ...]:
        """All devices used, ascending."""
        return self.memo("devices", lambda: tuple(sorted(chain.from_iterable(self.lane_devices))))

    def per_device(self, values: tuple[Value, ...]) -> list[Value]:
        """Spread values by lane over `devices`."""
        of = {device: value for lane, value in zip(self.lane_devices, values, strict=True) for device in lane}
        return [of[device] for device in self.devices]

    @property
    def traffic_bytes(self) -> dict[tuple[int, int], float]:
        """Bytes that one step sends from device to device; collectives count as a ring over their group."""
        return self.memo("traffic", lambda: device_traffic(self.timeline.program, self.timeline.prices))

    @property
    def exposed_communication_s(self) -> dict[str, float]:
        """Seconds of the busiest lane's step in which it waits for, or is inside, communication, by kind."""
        return self.memo("exposed", lambda: _exposed(self))

    def against(self, name: str, step_time_s: float) -> Report:
        """Return the same report with `speedup` over a named baseline."""
        return replace(self, baseline=name, speedup=step_time_s / self.step_time_s)


def _fullest_devices(
    cluster: Cluster, program: Program, prices: Prices
) -> tuple[FloatArray, tuple[tuple[int, ...], ...]]:
    """Return the (lanes, parts) bytes of the device of each lane with least room left, and that device by
    lane.

    All devices of a lane hold equal shares unless the stage says otherwise (`Stage.axis_shares`).
    """
    pricer, lanes = prices.pricer, program.lane_devices
    parts, _ = memory_by_lane(program, prices)
    uneven = [stage.axis_shares[0][1] for stage in pricer.stages if stage.axis_shares]
    if not uneven:
        return parts, lanes
    chosen, best = list(lanes), np.full(len(lanes), -np.inf)
    for place in range(max(map(len, uneven))):
        sections = range(len(pricer.stages))
        memory = tuple(
            pricer.memory(s, place if place < _places(pricer.stages[s]) else None) for s in sections
        )
        found, _ = memory_by_lane(program, prices.with_memory(memory))
        for lane, held in enumerate(derived(program).sections):
            own = {s for s, _ in held if _places(pricer.stages[s]) > place}
            devices = _at_place(pricer, own, lanes[lane], place)
            if not devices:
                continue
            room = _room(cluster, (devices,))
            over = float(found[lane].sum() + room.reserved[0] - room.limit[0])
            if over > best[lane]:
                best[lane], parts[lane], chosen[lane] = over, found[lane], devices
    return parts, tuple(chosen)


def _places(stage: Stage) -> int:
    """Return the number of devices along the axis with unequal shares; 0 if there is none."""
    return len(stage.axis_shares[0][1]) if stage.axis_shares else 0


def _at_place(pricer: Pricer, sections: set[int], row: tuple[int, ...], place: int) -> tuple[int, ...]:
    """Return the devices of a lane at one position along the axis with unequal shares."""
    for section in sections:
        for copy, mesh in enumerate(pricer.stages[section].meshes):
            if set(row) <= set(mesh.devices):
                places = pricer.places(section, copy, row)
                return tuple(d for d, at in zip(row, places, strict=True) if at == place)
    return ()


def build_report(
    cluster: Cluster,
    job: Job,
    strategy: JobStrategy,
    timeline: Timeline,
    *,
    folded: tuple[tuple[int, ...], ...],
    periods: tuple[FloatArray, bool],
) -> Report:
    """Build the report. `folded`: per lane all devices it stands for; `periods`: seconds of a step per lane,
    and whether they settled.
    """
    program, timing, prices = timeline.program, timeline.timing, timeline.prices
    period, settled = periods
    step = float(period.max())
    busy, span = _lane_times(program, timing, prices)
    parts, fullest = _fullest_devices(cluster, program, prices)
    room = _room_of(cluster, program, fullest)
    parts[:, 6] = room.reserved
    peaks = parts.sum(axis=1)
    parts[:, 7] = room.cached * (parts[:, 4] + parts[:, 5])
    overflows = tuple(
        Overflow(device=fullest[lane][0], lane=lane, over_bytes=float(peaks[lane] - room.below[lane]))
        for lane in np.flatnonzero(peaks > room.limit).tolist()
    )
    known = _folded(program, cluster, job, folded)
    bubble = 1.0 - float((busy * known.weights).sum() / (step * known.weights.sum())) if step else 0.0
    flops = float(prices.flops.sum()) * job.global_batch * (3.0 if job.training else 1.0)
    return Report(
        step_time_s=step,
        makespan_s=float(timing.end_s[_last_of_step(program)].max()),
        device_span_s=tuple(span.tolist()),
        throughput_samples_per_s=job.global_batch / step if step else 0.0,
        bubble_fraction=max(0.0, bubble),
        mfu=flops / (known.peak_flops_per_s * step) if flops and step else None,
        feasible=not overflows,
        overflows=overflows,
        lanes=program.lane_devices,
        lane_devices=folded,
        memory_parts_bytes=tuple(map(tuple, parts.tolist())),
        capacity_bytes=room.capacity,
        rooms=room.rooms,
        busy_s=tuple(busy.tolist()),
        versions=_by_stage(program, "versions", program.versions, len(strategy.stages)),
        delay=_by_stage(program, "delay", program.delay, len(strategy.stages)),
        pass_name=timing.pass_name,
        settled=settled,
        global_batch=job.global_batch,
        timeline=timeline,
    )


def _last_of_step(program: Program) -> IntArray:
    """Return the tasks of the first step for which none of that step waits: one of them ends last."""

    def find() -> IntArray:
        tasks = derived(program).first_step
        waited = np.zeros(program.size + 1, dtype=bool)
        waited[np.asarray(program.first)[tasks]] = waited[np.asarray(program.second)[tasks]] = True
        return tasks[~waited[tasks + 1]]

    return program.memo("last of step", find)


def _by_stage(program: Program, name: str, values: tuple[int, ...], stages: int) -> tuple[int, ...]:
    """Return the largest value of the sections of each stage, found once under this name."""

    def find() -> tuple[int, ...]:
        found = [0] * stages
        for section, value in zip(program.skeleton.sections, values, strict=True):
            found[section.stage] = max(found[section.stage], value)
        return tuple(found)

    return program.memo(f"{name} by stage", find)


def _lane_times(program: Program, timing: Timing, prices: Prices) -> tuple[FloatArray, FloatArray]:
    """Return per lane compute seconds of one step (averaged over the steps) and the span within the first."""
    table = derived(program)
    busy = table.work @ (prices.seconds - prices.comm_s)
    return busy, times_at(timing.end_s, table.step_last[0]) - times_at(timing.start_s, table.first)


def times_at(times: FloatArray, tasks: IntArray) -> FloatArray:
    """Return the times of some tasks; 0 for one behind the last, which stands for none."""
    return np.where(tasks < len(times), times[np.minimum(tasks, len(times) - 1)], 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Room:
    """Room of every lane."""

    capacity: tuple[float, ...]
    """Memory of its smallest device."""
    memory: FloatArray
    """The same as an array."""
    rooms: tuple[MemoryRoom, ...]
    """Borders of that device."""
    limit: FloatArray
    """Largest peak that it takes."""
    below: FloatArray
    """What a peak above the limit is compared with: its memory, or the limit if that is less."""
    reserved: FloatArray
    """What its greediest process reserves."""
    cached: FloatArray
    """The share that its allocator caches."""


def _room_of(cluster: Cluster, program: Program, lanes: tuple[tuple[int, ...], ...]) -> _Room:
    if lanes is not program.lane_devices:
        return _room(cluster, lanes)
    rooms = program.memo("rooms", lambda: IdentityCache(8))
    return rooms.get((cluster,), None, lambda: _room(cluster, lanes))


@remembered(256)
def _room(cluster: Cluster, lanes: tuple[tuple[int, ...], ...]) -> _Room:
    kinds = [[cluster.kind_of(device) for device in devices] for devices in lanes]
    capacity = tuple(min(kind.memory_bytes for kind in row) for row in kinds)
    rooms = tuple(min(map(memory_room, row), key=attrgetter("limit_bytes")) for row in kinds)
    limit = np.array([room.limit_bytes for room in rooms])
    return _Room(
        capacity=capacity,
        memory=np.array(capacity),
        rooms=rooms,
        limit=limit,
        below=np.minimum(limit, capacity),
        reserved=np.array([max(kind.reserved_bytes for kind in row) for row in kinds]),
        cached=np.array([max(kind.software.cached_fraction for kind in row) for row in kinds]),
    )


class _Folded(NamedTuple):
    """What the devices that lanes stand for are together."""

    weights: FloatArray
    """Per lane: number of devices."""
    peak_flops_per_s: float
    """Peak of all devices together."""


def _folded(program: Program, cluster: Cluster, job: Job, lanes: tuple[tuple[int, ...], ...]) -> _Folded:
    known = program.memo("folded devices", lambda: IdentityCache(8))
    return known.get((cluster, lanes), job.precision, lambda: _together(cluster, lanes, job.precision))


@remembered(64)
def _together(cluster: Cluster, lanes: tuple[tuple[int, ...], ...], precision: str) -> _Folded:
    kinds = cluster.kinds_among([device for devices in lanes for device in devices])
    return _Folded(
        np.array([len(devices) for devices in lanes], dtype=np.float64),
        sum(count * kind.peak(precision) for _, kind, count in kinds),
    )


_WAITS = {TRANSFER: "transfer", REDUCE: "reduce", GATHER: "gather"}


def _exposed(report: Report) -> dict[str, float]:
    """Sum, for the busiest lane in the last step, waits that end with communication and communication inside
    tasks.
    """
    program, timing, prices = report.timeline.program, report.timeline.timing, report.timeline.prices
    tasks = program.programs[int(np.argmax(report.busy_s))]
    last = program.order.steps - 1
    inside = tasks[program.step[tasks] == last]
    found = dict.fromkeys((*_WAITS.values(), "inside"), 0.0)
    found["inside"] = float(prices.comm_s[program.slot[inside]].sum())
    for before, task in pairwise(tasks.tolist()):
        wait = float(timing.start_s[task] - timing.end_s[before])
        if program.step[task] != last or wait <= 0:
            continue
        for cause in _leaves(program, task):
            name = _WAITS.get(int(program.kind[cause]))
            if program.slots[program.slot[cause]].part == HOST:
                name = "host"
                found.setdefault(name, 0.0)
            if name and timing.end_s[cause] >= timing.start_s[task] * (1 - 1e-12):
                found[name] += min(wait, float(timing.end_s[cause] - timing.start_s[cause]))
                break
    return found


def _leaves(program: Program, task: int) -> list[int]:
    """List the predecessors of a task, those behind joins included."""
    found, open_tasks = [], [task]
    while open_tasks:
        current = open_tasks.pop()
        for pred in (int(program.first[current]), int(program.second[current])):
            if pred and program.kind[pred - 1] == JOIN:
                open_tasks.append(pred - 1)
            elif pred:
                found.append(pred - 1)
    return found
