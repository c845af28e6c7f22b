"""One job under a dispatch policy: peers that come and go, from strategy to report.

The order that results is written down as a program, so that timelines, memory and traffic read it like any
other. `Report.dispatch` holds what only such a run has.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from explorer.actions import Action, Dispatch, Order, Shape
from explorer.base.errors import PlanError
from explorer.cluster import Cluster
from explorer.passes.dispatch import TRANSFER as SENT
from explorer.passes.dispatch import DispatchRun, Done, Peer, StageEdge, run_dispatch
from explorer.passes.rates import Demands
from explorer.passes.timing import Timing
from explorer.pricing import Pricer, lane_route, price
from explorer.schedules import make_dispatch
from explorer.simulation.report import DispatchOutcome, Report, Timeline, build_report
from explorer.strategy import JobStrategy
from explorer.tasks.lanes import Lanes, find_lanes
from explorer.tasks.placement import PlacedStrategy
from explorer.tasks.program import SAVED, TRANSFER, B, F, MemoryEvents, Program, Slot
from explorer.tasks.skeleton import Piece
from explorer.workload import Job

SETTLING = 20
"""Microbatches simulated after the last event, as a multiple of those under way at once."""
MAX_MICROBATCHES = 20_000
"""Most microbatches simulated; later events are not seen."""


def simulate_dispatch(
    cluster: Cluster,
    job: Job,
    strategy: JobStrategy,
    placement: PlacedStrategy,
    pricer: Pricer,
    shape: Shape,
    *,
    least_s: float = 0.0,
) -> Report:
    """Predict one job whose schedule is a dispatch policy; only discrete events can.

    Args:
        cluster: the devices, with their events.
        job: the job to run.
        strategy: a strategy whose schedule is a dispatch policy.
        placement: the strategy resolved against its graph.
        pricer: prices of the placement.
        shape: everything the policy may know.
        least_s: seconds that a step takes at least (its input pipelines).

    Raises:
        InputError: a shape that the policy cannot serve.
        PlanError: a stage on several device sets, or one without any peer left.
    """
    policy = make_dispatch(strategy.schedule, shape, options=dict(strategy.options))
    work = _Work(placement, pricer, shape)
    count, steps = _horizon(cluster, work, policy, shape)
    run = run_dispatch(
        work.peers, work.edges, work.wire, work.capacity, policy,
        microbatches=count, events=cluster.events, training=job.training,
    )  # fmt: skip
    program, timing = _program(work, run, steps)
    outcome = _outcome(cluster, run, policy, samples=pricer.sections[0].microbatch_samples)
    timeline = Timeline(program=program, prices=price(program, pricer), timing=timing, placement=placement)
    period = np.full(len(program.lane_devices), max(least_s, job.global_batch / outcome.rates[-1][2]))
    report = build_report(
        cluster, job, strategy, timeline, folded=program.lane_devices, periods=(period, outcome.settled)
    )
    return replace(report, dispatch=outcome)


class _Work:
    """Peers and edges of a placement, with their prices."""

    def __init__(self, placement: PlacedStrategy, pricer: Pricer, shape: Shape) -> None:
        self.placement, self.pricer, self.shape = placement, pricer, shape
        self.sections, self.flows = placement.skeleton.sections, placement.skeleton.flows
        if len(self.sections) != shape.stages:
            raise PlanError(["a dispatched stage runs on one device set; shardings name another mesh"])
        self.lanes: Lanes = find_lanes(self.sections)
        self.pieces = [
            Piece(s, 0, r) for s, section in enumerate(self.sections) for r in range(section.replicas)
        ]
        self.peers = [self._peer(piece) for piece in self.pieces]
        self.edges: list[StageEdge] = []
        self.flow_of: list[int] = []
        for f, flow in enumerate(self.flows):
            for target in flow.targets:
                self.edges.append(StageEdge(flow.source, target, flow.gradient))
                self.flow_of.append(f)
        self.names: dict[str, int] = {}
        self.capacity: list[float] = []
        self._wires: dict[tuple[int, int, int, bool], tuple[float, Demands]] = {}

    def _peer(self, piece: Piece) -> Peer:
        section = self.sections[piece.section]
        samples = section.samples(piece.replica)
        seconds = [self.pricer.price(Slot(kind, piece.section, piece, piece, samples))[0] for kind in (F, B)]
        devices = section.rows[0][piece.replica]
        return Peer(piece.section, self.lanes.of_piece[piece][0], devices, *seconds)

    def slot(self, kind: str, where: int, peer: int, target: int) -> Slot:
        """Return the slot of a task."""
        piece, other = self.pieces[peer], self.pieces[target]
        samples = self.sections[piece.section].microbatch_samples
        if kind == SENT:
            backward = self.edges[where].source != self.peers[peer].stage
            return Slot(TRANSFER, self.flow_of[where], piece, other, samples, backward)
        return Slot(F if kind == "F" else B, piece.section, piece, piece, samples)

    def wire(self, edge: int, source: int, target: int, backward: bool) -> tuple[float, Demands]:  # noqa: FBT001
        """Return seconds and shared rates of a transfer between two peers."""
        key = (edge, source, target, backward)
        if key not in self._wires:
            seconds = self.pricer.price(self.slot(SENT, edge, source, target))[0]
            route = lane_route(self.pricer.cluster, self.peers[source].devices, self.peers[target].devices)
            asked = [(self._resource(name, room), amount) for name, room, amount in route.resources]
            self._wires[key] = (seconds, tuple(asked))
        return self._wires[key]

    def _resource(self, name: str, capacity: float) -> int:
        if name not in self.names:
            self.names[name] = len(self.capacity)
            self.capacity.append(capacity)
        return self.names[name]


def _horizon(cluster: Cluster, work: _Work, policy: Dispatch, shape: Shape) -> tuple[int, int]:
    """Return the (microbatches, steps) to simulate: beyond the last event by some margin, in whole steps."""
    speeds = [0.0] * shape.stages
    for peer in work.peers:
        speeds[peer.stage] += 1.0 / max(peer.forward_s + peer.backward_s, 1e-30)
    devices = {device for peer in work.peers for device in peer.devices}
    last = max((event.time_s for event in cluster.events if event.device in devices), default=0.0)
    wanted = min(speeds) * last + SETTLING * policy.in_flight
    steps = max(4, math.ceil(min(wanted, MAX_MICROBATCHES) / shape.microbatches[0]))
    return steps * shape.microbatches[0], steps


def _outcome(cluster: Cluster, run: DispatchRun, policy: Dispatch, *, samples: int) -> DispatchOutcome:
    """Compute the rates between events, without the first microbatches of every span and the drain at the
    end.
    """
    times = np.sort(np.array(run.applied_s))
    cuts = sorted({event.time_s for event in cluster.events if 0 < event.time_s < run.last_start_s})
    rates = []
    for start, stop in zip([0.0, *cuts], [*cuts, run.last_start_s], strict=True):
        inside = times[(times > start) & (times <= stop)]
        steady = inside[min(policy.in_flight, len(inside) // 2) :]
        rate = 0.0
        if len(steady) and steady[-1] > steady[0]:
            rate = samples * np.count_nonzero(steady > steady[0]) / float(steady[-1] - steady[0])
        rates.append((start, stop, float(rate)))
    if not rates[-1][2]:
        rates[-1] = (*rates[-1][:2], samples * len(times) / float(times[-1]) if times[-1] else math.inf)
    return DispatchOutcome(
        applied=len(times),
        redone=run.redone,
        rates=tuple(rates),
        settled=all(event.time_s < run.last_start_s for event in cluster.events),
    )


class _Written(NamedTuple):
    """A task with its position in the program."""

    done: Done
    lane: int
    step: int
    slot: int


def _program(work: _Work, run: DispatchRun, steps: int) -> tuple[Program, Timing]:
    """Write down what ran as a program: in order of start, each task after the lane's previous one and its
    cause.
    """
    order = sorted(range(len(run.tasks)), key=lambda i: (run.tasks[i].start_s, run.tasks[i].end_s, i))
    position = {number: place for place, number in enumerate(order)}
    per_step = work.shape.microbatches[0]
    batch = {n: rank // per_step for rank, n in enumerate(np.argsort(run.applied_s, kind="stable").tolist())}
    slots: dict[Slot, int] = {Slot(-1, -1, Piece(-1, -1, -1), Piece(-1, -1, -1), 0): 0}
    rows: list[_Written] = []
    for number in order:
        done = run.tasks[number]
        slot = slots.setdefault(work.slot(done.kind, done.where, done.peer, done.target), len(slots))
        rows.append(_Written(done, work.peers[done.peer].host, batch[done.microbatch], slot))
    programs: list[list[int]] = [[] for _ in work.lanes.devices]
    first = []
    for i, row in enumerate(rows):
        own = programs[row.lane] if row.done.kind != SENT else []
        first.append(own[-1] + 1 if own else 0)
        own.append(i)
    second = [position[row.done.cause] + 1 if row.done.cause >= 0 else 0 for row in rows]
    actions: dict[Action, int] = {}
    acts = [_action(work, row.done) for row in rows]
    channels: dict[object, int] = {}
    columns: dict[str, list[int]] = {
        "slot": [row.slot for row in rows],
        "lane": [row.lane for row in rows],
        "peer": [work.peers[row.done.target].host if row.done.kind == SENT else -1 for row in rows],
        "step": [row.step for row in rows],
        "action": [-1 if act is None else actions.setdefault(act, len(actions)) for act in acts],
        "microbatch": [row.done.microbatch for row in rows],
        "channel": [
            channels.setdefault((row.lane, row.done.kind == SENT and row.done.target), len(channels))
            for row in rows
        ],
    }
    table = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
    lanes = tuple(tuple(act for i in own if (act := acts[i]) is not None) for own in programs)
    kinds = list(slots)
    program = Program(
        skeleton=work.placement.skeleton,
        shape=work.shape,
        order=Order(lanes=lanes, steps=steps, flush=False),
        lane_devices=work.lanes.devices,
        slots=tuple(slots),
        kind=np.array([kinds[row.slot].kind for row in rows], dtype=np.int8),
        first=np.array(first, dtype=np.int64),
        second=np.array(second, dtype=np.int64),
        actions=tuple(actions),
        programs=tuple(np.array(own, dtype=np.int64) for own in programs),
        memory=_memory(rows, programs),
        versions=(1,) * len(work.sections),
        whole_over_runs=(False,) * len(work.sections),
        delay=_delays(work, run, per_step),
        copies=(0,) * len(work.sections),
        slot=table["slot"],
        lane=table["lane"],
        peer=table["peer"],
        step=table["step"],
        action=table["action"],
        microbatch=table["microbatch"],
        channel=table["channel"],
    )
    timing = Timing(
        start_s=np.array([row.done.start_s for row in rows]),
        end_s=np.array([row.done.end_s for row in rows]),
        pass_name="events",
    )
    return program, timing


def _action(work: _Work, done: Done) -> Action | None:
    if done.kind == SENT:
        return None
    return Action("F" if done.kind == "F" else "B", work.peers[done.peer].stage, done.microbatch)


def _memory(rows: list[_Written], programs: list[list[int]]) -> MemoryEvents:
    """Return the memory events: forwards keep activations, backwards free what the forward on the same lane
    kept.
    """
    found: list[tuple[int, int, float, int]] = []
    starts = []
    for lane, own in enumerate(programs):
        if own:
            starts.append(len(found))
        for i in own:
            done = rows[i].done
            found.append((lane, done.where, 1.0 if done.kind == "F" else -1.0, i))
    columns = list(zip(*found, strict=True))
    return MemoryEvents(
        lane=np.array(columns[0], dtype=np.int64),
        section=np.array(columns[1], dtype=np.int64),
        samples=np.array(columns[2], dtype=np.float64),
        part=np.full(len(found), SAVED, dtype=np.int8),
        task=np.array(columns[3], dtype=np.int64),
        at_end=np.array(columns[2], dtype=np.float64) < 0,
        lane_start=np.array(starts, dtype=np.int64),
    )


def _delays(work: _Work, run: DispatchRun, per_step: int) -> tuple[int, ...]:
    """Return per stage the most updates between the read of a weight and the one made from it.

    The n-th batch of gradients of a stage is applied when its last backward is done.
    """
    ends: dict[int, list[float]] = defaultdict(list)
    forward: dict[tuple[int, int], float] = {}
    batches: dict[tuple[int, int], int] = {}
    for done in run.tasks:
        if done.kind == "F":
            forward[done.where, done.microbatch] = done.start_s
        elif done.kind == "B":
            batches[done.where, done.microbatch] = len(ends[done.where]) // per_step
            ends[done.where].append(done.end_s)
    found = [0] * len(work.sections)
    for (stage, n), batch in batches.items():
        read = bisect_right(ends[stage], forward[stage, n]) // per_step
        found[stage] = max(found[stage], batch - read)
    return tuple(found)
