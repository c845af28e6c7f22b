"""One job under a dispatch policy: peers that come and go, from strategy to report.

The dispatch pass decides who takes what; from its decisions, written as an order with assignments, `lower`
makes a program and the events pass times it, as for any other order. `Report.dispatch` holds what only such a
run has.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from dataclasses import replace

import numpy as np

from explorer.actions import Action, Dispatch, Order, Shape
from explorer.cluster import Cluster
from explorer.passes.calls import TRANSFER as SENT
from explorer.passes.calls import DispatchRun
from explorer.passes.dispatch import run_dispatch
from explorer.passes.events import run_events
from explorer.pricing import Pricer, price
from explorer.pricing.input_pipeline import with_inputs_s
from explorer.schedules import make_dispatch
from explorer.simulation.dispatch_peers import PlacedPeers
from explorer.simulation.report import DispatchOutcome, Report, Timeline, build_report
from explorer.strategy import JobStrategy
from explorer.tasks.lower import lower
from explorer.tasks.placement import PlacedStrategy
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
    inputs_s: float = 0.0,
) -> Report:
    """Predict one job whose schedule is a dispatch policy; only discrete events can.

    Args:
        cluster: the devices, with their events.
        job: the job to run.
        strategy: a strategy whose schedule is a dispatch policy.
        placement: the strategy resolved against its graph.
        pricer: prices of the placement.
        shape: everything the policy may know.
        inputs_s: seconds of one worker of its input pipelines for a step.

    Raises:
        InputError: a shape that the policy cannot serve.
        PlanError: a stage on several device sets, or one without any peer left.
    """
    policy = make_dispatch(strategy.schedule, shape, options=dict(strategy.options))
    peers = PlacedPeers(placement, pricer, shape)
    count, steps = _horizon(cluster, peers, policy, shape)
    run = run_dispatch(
        peers.peers, peers.edges, peers.wire, peers.capacity, policy,
        microbatches=count, events=cluster.events, training=job.training,
    )  # fmt: skip
    program = lower(placement.skeleton, shape, dispatched_order(peers, run, steps))
    program = replace(program, delay=_delays(peers, run, shape.microbatches[0]))
    prices = price(program, pricer)
    timing = run_events(program, prices.seconds, prices.shares)
    outcome = _outcome(cluster, run, policy, samples=pricer.sections[0].microbatch_samples)
    timeline = Timeline(program=program, prices=prices, timing=timing, placement=placement)
    steps_s = np.full(len(program.lane_devices), job.global_batch / outcome.rates[-1][2])
    period = with_inputs_s(job, steps_s, inputs_s)
    report = build_report(
        cluster, job, strategy, timeline, folded=program.lane_devices, periods=(period, outcome.settled)
    )
    return replace(report, dispatch=outcome)


def _horizon(cluster: Cluster, peers: PlacedPeers, policy: Dispatch, shape: Shape) -> tuple[int, int]:
    """Return the (microbatches, steps) to simulate: beyond the last event by some margin, in whole steps."""
    speeds = [0.0] * shape.stages
    for peer in peers.peers:
        speeds[peer.stage] += 1.0 / max(peer.forward_s + peer.backward_s, 1e-30)
    devices = {device for peer in peers.peers for device in peer.devices}
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


def dispatched_order(peers: PlacedPeers, run: DispatchRun, steps: int) -> Order:
    """Return what was decided as an order: what every lane ran, in that sequence, and who was given what."""
    lanes: list[list[Action]] = [[] for _ in peers.lanes.devices]
    for done in run.tasks:  # a lane does one thing at a time: what ends first started first
        if done.kind != SENT:
            lanes[peers.peers[done.peer].host].append(run.assignments[done.call].action)
    return Order(lanes=tuple(map(tuple, lanes)), steps=steps, flush=False, assignments=run.assignments)


def _delays(peers: PlacedPeers, run: DispatchRun, per_step: int) -> tuple[int, ...]:
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
    found = [0] * len(peers.sections)
    for (stage, n), batch in batches.items():
        read = bisect_right(ends[stage], forward[stage, n]) // per_step
        found[stage] = max(found[stage], batch - read)
    return tuple(found)
