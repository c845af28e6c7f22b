"""Report: everything predicted for one strategy. Built from a program, its prices and its timing.

Numbers that are cheap are fields; what only some views need (traffic by device pair, memory over time,
exposed communication) is computed on first use from the same arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from explorer.base.caching import remembered
from explorer.cluster import Cluster
from explorer.costs.memory import StageMemory
from explorer.passes.timing import FloatArray, Timing
from explorer.pricing import Pricer, Prices
from explorer.pricing.traffic import device_traffic
from explorer.strategy import JobStrategy, Stage
from explorer.tasks.placement import PlacedStrategy
from explorer.tasks.program import GATHER, HOST, JOIN, REDUCE, TRANSFER, Program
from explorer.tasks.program_tables import derived
from explorer.workload import Job

MEMORY_PARTS = (
    "weights", "versions", "gradients", "optimizer", "activations", "buffers", "reserved", "cached"
)  # fmt: skip
"""Parts of a device's memory, in the order they are stacked. Tensors come first; `reserved` is what a process
takes besides them, `cached` what its allocator holds and would give back before it fails.
"""
NO_FLOPS = "the model does not say its FLOPs"
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
    """Bytes by which it overflows."""


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
class Report:
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
    """Whether everything fits in memory."""
    overflows: tuple[Overflow, ...]
    """Devices that do not fit."""
    lanes: tuple[tuple[int, ...], ...]
    """Devices of each lane (equal replicas folded into one lane of the first)."""
    lane_devices: tuple[tuple[int, ...], ...]
    """Per lane: all devices it stands for, folded replicas included."""
    memory_parts_bytes: tuple[tuple[float, ...], ...]
    """Per lane: bytes of one device at its peak, by `MEMORY_PARTS`."""
    capacity_bytes: tuple[float, ...]
    """Per lane: memory of one device."""
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
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def peak_memory_bytes(self) -> tuple[float, ...]:
        """Per lane: peak of one device, all parts except `cached`: what has to fit."""
        return tuple(sum(parts[:_GIVEN_BACK]) for parts in self.memory_parts_bytes)

    @property
    def allocated_memory_bytes(self) -> tuple[float, ...]:
        """Per lane: tensors of one device at its peak, as an allocator counts them."""
        return tuple(sum(parts[:_TENSORS]) for parts in self.memory_parts_bytes)

    @property
    def devices(self) -> tuple[int, ...]:
        """All devices used, ascending."""
        return tuple(sorted(device for lane in self.lane_devices for device in lane))

    def per_device(self, values: tuple[float, ...]) -> list[float]:
        """Spread values by lane over `devices`."""
        of = {device: value for lane, value in zip(self.lane_devices, values, strict=True) for device in lane}
        return [of[device] for device in self.devices]

    @property
    def traffic_bytes(self) -> dict[tuple[int, int], float]:
        """Bytes that one step sends from device to device; collectives count as a ring over their group."""
        if "traffic" not in self._memo:
            self._memo["traffic"] = device_traffic(self.timeline.program, self.timeline.prices)
        found: dict[tuple[int, int], float] = self._memo["traffic"]
        return found

    @property
    def exposed_communication_s(self) -> dict[str, float]:
        """Seconds of the busiest lane's step in which it waits for, or is inside, communication, by kind."""
        if "exposed" not in self._memo:
            self._memo["exposed"] = _exposed(self)
        found: dict[str, float] = self._memo["exposed"]
        return found

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
        found, _ = memory_by_lane(program, replace(prices, memory=memory))
        for lane, held in enumerate(derived(program).sections):
            own = {s for s, _ in held if _places(pricer.stages[s]) > place}
            devices = _at_place(pricer, own, lanes[lane], place)
            if not devices:
                continue
            capacity, reserved, _ = _room(cluster, (devices,))
            over = float(found[lane].sum()) + reserved[0] - capacity[0]
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


def memory_by_lane(program: Program, prices: Prices) -> tuple[FloatArray, FloatArray]:
    """Return the (lanes, parts) bytes at each lane's peak, and the activation level after every memory
    event.
    """
    memory, lanes = prices.memory, len(program.lane_devices)
    parts = np.zeros((lanes, len(MEMORY_PARTS)))
    for lane, sections in enumerate(derived(program).sections):
        buffers: dict[int, float] = {}
        for section, samples in sections:
            item = memory[section]
            copies = program.versions[section] - 1 + program.copies[section]
            extra = copies * item.version_bytes
            parts[lane, :4] += (item.weight_bytes, extra, item.gradient_bytes, item.optimizer_bytes)
            more = item.run_buffer_bytes if program.whole_over_runs[section] else 0.0
            buffers[section] = item.buffer_bytes + more + item.buffer_bytes_per_sample * samples
        together = program.gathered_together[lane] if program.gathered_together else ()
        most = [max(buffers[s] + _others(memory, s, group) for s in group) for group in together]
        parts[lane, 5] = max(0.0, *buffers.values(), *most)
    events = program.memory
    if not len(events.lane):
        return parts, np.zeros(0)
    level = np.cumsum(activation_changes(program, prices))
    before = np.concatenate(([0.0], level))[events.lane_start]
    peak = np.maximum.reduceat(level, events.lane_start) - before
    parts[events.lane[events.lane_start], 4] = np.maximum(peak, 0.0)
    return parts, level


def _others(memory: tuple[StageMemory, ...], section: int, group: tuple[int, ...]) -> float:
    """Return the bytes of weights and gradients that are whole at the same time as those of a section."""
    return sum(memory[other].run_buffer_bytes for other in group if other != section)


def activation_changes(program: Program, prices: Prices) -> FloatArray:
    """Return the bytes that each memory event of a program allocates (above 0) or frees on one device."""
    sizes = np.array(
        [
            (
                item.activation_bytes_per_sample,
                item.recompute_peak_bytes_per_sample,
                item.waiting_bytes_per_sample,
                item.recompute_rest_bytes_per_sample,
                item.recompute_whole_bytes_per_sample,
            )
            for item in prices.memory
        ]
    )
    events = program.memory
    changes: FloatArray = events.samples * sizes[events.section, events.part]
    return changes


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
    makespan = float(timing.end_s[derived(program).first_step].max())
    busy, span = _lane_times(program, timing, prices)
    parts, fullest = _fullest_devices(cluster, program, prices)
    capacity, reserved, cached = _room(cluster, fullest)
    parts[:, 6] = reserved
    total = parts.sum(axis=1)
    parts[:, 7] = np.array(cached) * (parts[:, 4] + parts[:, 5])
    overflows = tuple(
        Overflow(device=devices[0], lane=lane, over_bytes=float(total[lane] - capacity[lane]))
        for lane, devices in enumerate(fullest)
        if total[lane] > capacity[lane]
    )
    weights = np.array([len(devices) for devices in folded], dtype=np.float64)
    bubble = 1.0 - float((np.array(busy) * weights).sum() / (step * weights.sum())) if step else 0.0
    stages = len(strategy.stages)
    return Report(
        step_time_s=step,
        makespan_s=makespan,
        device_span_s=tuple(span),
        throughput_samples_per_s=job.global_batch / step if step else 0.0,
        bubble_fraction=max(0.0, bubble),
        mfu=_mfu(cluster, job, prices, folded, step),
        feasible=not overflows,
        overflows=overflows,
        lanes=program.lane_devices,
        lane_devices=folded,
        memory_parts_bytes=tuple(map(tuple, parts.tolist())),
        capacity_bytes=capacity,
        busy_s=tuple(busy),
        versions=_by_stage(program, program.versions, stages),
        delay=_by_stage(program, program.delay, stages),
        pass_name=timing.pass_name,
        settled=settled,
        global_batch=job.global_batch,
        timeline=timeline,
    )


def _by_stage(program: Program, values: tuple[int, ...], stages: int) -> tuple[int, ...]:
    found = [0] * stages
    for section, value in zip(program.skeleton.sections, values, strict=True):
        found[section.stage] = max(found[section.stage], value)
    return tuple(found)


def _lane_times(program: Program, timing: Timing, prices: Prices) -> tuple[list[float], list[float]]:
    """Return per lane compute seconds of one step (averaged over the steps) and the span within the first."""
    table = derived(program)
    busy = table.work @ (prices.seconds - prices.comm_s)
    start, end = np.append(timing.start_s, 0.0), np.append(timing.end_s, 0.0)
    span = end[table.step_last[0]] - start[table.first]
    return busy.tolist(), span.tolist()


@remembered(256)
def _room(
    cluster: Cluster, lanes: tuple[tuple[int, ...], ...]
) -> tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]:
    """Return per lane the memory of its smallest device, what its greediest process reserves, and the share
    it caches.
    """
    kinds = [[cluster.kind_of(device) for device in devices] for devices in lanes]
    return (
        tuple(min(kind.memory_bytes for kind in row) for row in kinds),
        tuple(max(kind.reserved_bytes for kind in row) for row in kinds),
        tuple(max(kind.software.cached_fraction for kind in row) for row in kinds),
    )


@remembered(256)
def _peak_flops_per_s(cluster: Cluster, lanes: tuple[tuple[int, ...], ...], precision: str) -> float:
    """Return the peak of all devices together."""
    return sum(cluster.kind_of(device).peak(precision) for devices in lanes for device in devices)


def _mfu(
    cluster: Cluster, job: Job, prices: Prices, folded: tuple[tuple[int, ...], ...], step_s: float
) -> float | None:
    flops = float(prices.flops.sum()) * job.global_batch * (3.0 if job.training else 1.0)
    peak = _peak_flops_per_s(cluster, folded, job.precision)
    return flops / (peak * step_s) if flops and step_s else None


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
