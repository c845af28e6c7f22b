"""A dispatched job: the program made of its decisions runs exactly as the pass that took them said."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.actions import WIRINGS, Dispatch
from explorer.base.errors import PlanError
from explorer.cluster import Cluster, DeviceKind, Event, Level, NodeGroup
from explorer.graph import LayerGraph
from explorer.models.synthetic import branches, chain
from explorer.passes.calls import DispatchRun
from explorer.passes.dispatch import run_dispatch
from explorer.passes.events import run_events
from explorer.passes.timing import Timing
from explorer.pricing import Pricer, price
from explorer.simulation.dispatch_job import dispatched_order
from explorer.simulation.dispatch_peers import PlacedPeers
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.lane_memory import memory_by_lane
from explorer.simulation.one_job import make_shape
from explorer.strategy import ROUND_ROBIN, Mesh, Stage, single
from explorer.tasks.lower import lower
from explorer.tasks.placement import place
from explorer.tasks.program import TRANSFER, Program
from explorer.workload import Job, Workload

KIND = DeviceKind(
    name="peer", memory_bytes=1e12, memory_bandwidth_bytes_per_s=1e18, peak_flops_per_s=(("fp32", 1e18),)
)
JOB = Job(global_batch=4, precision="fp32", optimizer="none")


def cluster(devices: int, events: tuple[Event, ...], latency_s: float = 0.0) -> Cluster:
    """Nodes of two devices behind an uplink that two transfers at once ask for too much."""
    return Cluster(
        name="peers",
        device_kinds=(KIND,),
        nodes=(NodeGroup(count=-(-devices // 2), device_kind="peer", devices_per_node=2),),
        levels=(
            Level(name="inner", kind="nvlink", scope="node", latency_s=0.0, bandwidth_bytes_per_s=20.0),
            Level(
                name="outer", kind="internet", scope="all", latency_s=latency_s, bandwidth_bytes_per_s=4.0,
                uplink_bytes_per_s=5.0,
            ),
        ),
        events=events,
    )  # fmt: skip


class Swarm(NamedTuple):
    """All that decides a dispatched run."""

    graph: LayerGraph
    cluster: Cluster
    stages: tuple[Stage, ...]
    policy: Dispatch
    microbatches: int
    job: Job = JOB


class Ran(NamedTuple):
    """What the dispatch pass decided and timed, and the program made of its decisions."""

    run: DispatchRun
    peers: PlacedPeers
    program: Program
    timing: Timing
    activations: list[float]
    """Per lane: peak, in samples of one byte each."""


def ran(swarm: Swarm) -> Ran:
    strategy = single(stages=swarm.stages, schedule="swarm").job
    placement = place(swarm.graph, strategy, training=swarm.job.training)
    pricer = Pricer(swarm.graph, swarm.cluster, swarm.job, strategy, placement)
    shape = make_shape(placement, UNFOLDED, swarm.job)
    peers = PlacedPeers(placement, pricer, shape)
    run = run_dispatch(
        peers.peers, peers.edges, peers.wire, peers.capacity, swarm.policy,
        microbatches=swarm.microbatches, events=swarm.cluster.events, training=swarm.job.training,
    )  # fmt: skip
    steps = -(-swarm.microbatches // swarm.job.global_batch)
    program = lower(placement.skeleton, shape, dispatched_order(peers, run, steps))
    prices = price(program, pricer)
    timing = run_events(program, prices.seconds, prices.shares)
    return Ran(run, peers, program, timing, memory_by_lane(program, prices)[0][:, 4].tolist())


@st.composite
def swarms(draw: st.DrawFn) -> Swarm:
    seconds = st.sampled_from([0.1, 0.5, 1.0, 3.0])
    sent = draw(st.sampled_from([0.0, 1.0, 6.0]))
    if draw(st.booleans()):
        count = draw(st.integers(1, 3))
        costs = [draw(seconds) for _ in range(count)]
        graph = chain(costs, activation_bytes=sent, saved_bytes=1.0)
    else:
        graph = branches((1, 1), forward_s=draw(seconds), activation_bytes=sent, skip=draw(st.booleans()))
    stages: list[Stage] = []
    devices = 0
    for layer in graph.layers:
        if stages and draw(st.integers(0, 3)) == 0:
            mesh = stages[-1].meshes[0]  # on the same devices as the stage before
        else:
            replicas = draw(st.integers(1, 3))
            mesh = Mesh(devices=tuple(range(devices, devices + replicas)))
            devices += replicas
        stages.append(Stage(layers=(layer.name,), meshes=(mesh,), replicas=ROUND_ROBIN))
    events = tuple(
        Event(
            time_s=draw(st.floats(0.0, 30.0)),
            device=draw(st.integers(0, devices - 1)),
            kind=draw(st.sampled_from(["leave", "fail", "join"])),
        )
        for _ in range(draw(st.integers(0, 6)))
    )
    everyone = tuple(Event(time_s=40.0 + d, device=d, kind="join") for d in range(devices))
    policy = Dispatch(
        wiring=draw(st.sampled_from(WIRINGS)), in_flight=draw(st.integers(1, 8)), seed=draw(st.integers(0, 3))
    )
    there = cluster(devices, _alternating((*events, *everyone)), draw(st.sampled_from([0.0, 0.2])))
    job = replace(JOB, mode=draw(st.sampled_from(["train", "train", "infer"])))
    return Swarm(graph, there, tuple(stages), policy, draw(st.integers(1, 20)), job)


def _alternating(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """Events of devices that are there at the start: each leaves before it joins, and so on."""
    present: dict[int, bool] = defaultdict(lambda: True)
    kept = []
    for event in sorted(events, key=lambda event: event.time_s):
        if present[event.device] != (event.kind == "join"):
            present[event.device] = event.kind == "join"
            kept.append(event)
    return tuple(kept)


@settings(max_examples=150)
@given(swarm=swarms())
def test_the_program_of_the_decisions_runs_as_the_pass_that_took_them(swarm: Swarm) -> None:
    """The pass that decides and the one that times a program know nothing of each other."""
    found = ran(swarm)
    program, timing = found.program, found.timing
    said: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for done in found.run.tasks:
        hosts = tuple(found.peers.peers[p].host for p in (done.peer, done.target))
        said[hosts if done.kind == "transfer" else (hosts[0], -1)].append((done.start_s, done.end_s))
    for lane, tasks in enumerate(program.programs):
        times = list(zip(timing.start_s[tasks], timing.end_s[tasks], strict=True))
        assert times == _near(said[lane, -1])
    last = max(done.end_s for done in found.run.tasks)
    wires: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for task in range(program.size):
        if program.kind[task] == TRANSFER:
            wire = int(program.lane[task]), int(program.peer[task])
            wires[wire].append((timing.start_s[task], timing.end_s[task]))
    for wire, times in wires.items():
        times.sort()
        ended = len(said[wire])
        assert times[:ended] == _near(sorted(said[wire]))
        # what nobody waits for any more may still be under way at the end
        assert all(end >= last - 1e-9 for _, end in times[ended:])
    assert set(wires) >= {wire for wire, times in said.items() if wire[1] >= 0 and times}


def _near(times: list[tuple[float, float]]) -> object:
    return [pytest.approx(pair, rel=1e-9, abs=1e-9) for pair in times]


@settings(max_examples=100)
@given(swarm=swarms())
def test_every_microbatch_is_applied_once_however_devices_come_and_go(swarm: Swarm) -> None:
    found = ran(swarm)
    stages, total = len(swarm.stages), swarm.microbatches
    count = Counter((done.kind, done.where, done.microbatch) for done in found.run.tasks)
    every = {(s, n) for s in range(stages) for n in range(total)}
    assert {(s, n) for kind, s, n in count if kind == "F"} == every
    if swarm.job.training:
        assert {key[1:]: times for key, times in count.items() if key[0] == "B"} == dict.fromkeys(every, 1)
    forwards = sum(times for key, times in count.items() if key[0] == "F")
    assert forwards == stages * total + found.run.redone
    assert list(found.run.applied_s) == sorted(found.run.applied_s)
    for own in found.program.programs:
        assert all(found.timing.end_s[a] <= found.timing.start_s[b] + 1e-9 for a, b in pairwise(own))


def pair(events: tuple[Event, ...], *, microbatches: int = 8, in_flight: int = 4, **fields: object) -> Swarm:
    """One layer on two devices: a forward of a second, a backward of two; a sample keeps a byte."""
    stage = Stage(layers=("layers.0",), meshes=(Mesh(devices=(0, 1)),), replicas=ROUND_ROBIN)
    policy = Dispatch(wiring=WIRINGS[0], in_flight=in_flight)
    graph = chain([1.0], saved_bytes=1.0)
    return Swarm(graph, cluster(2, events), (stage,), policy, microbatches, **fields)  # type: ignore[arg-type]


def test_a_host_that_comes_back_has_lost_what_it_kept() -> None:
    """Quick first stage, slow second: device 0 has done all four forwards when it leaves."""
    graph = chain([1.0, 100.0], saved_bytes=1.0)
    stages = tuple(
        Stage(layers=(f"layers.{s}",), meshes=(Mesh(devices=(s,)),), replicas=ROUND_ROBIN) for s in range(2)
    )
    events = (Event(time_s=50.0, device=0, kind="leave"), Event(time_s=60.0, device=0, kind="join"))
    found = ran(Swarm(graph, cluster(2, events), stages, Dispatch(wiring=WIRINGS[0], in_flight=4), 4))
    assert found.run.redone == 4
    assert found.activations == [4.0, 1.0]


def test_activations_count_by_samples() -> None:
    """Microbatches of two samples keep two bytes each."""
    swarm = pair((), microbatches=2, in_flight=2)
    stages = (replace(swarm.stages[0], microbatch_samples=2),)
    assert ran(swarm._replace(stages=stages)).activations == [2.0, 2.0]


def test_an_event_is_waited_for() -> None:
    """Device 1 is gone, device 0 leaves at 1.5 s in its first backward, and comes back at 10 s."""
    events = (
        Event(time_s=0.0, device=1, kind="leave"),
        Event(time_s=1.5, device=0, kind="leave"),
        Event(time_s=10.0, device=0, kind="join"),
    )
    found = ran(pair(events, microbatches=1))
    assert found.run.redone == 1
    assert found.timing.end_s[found.program.programs[0]].tolist() == [1.0, 11.0, 13.0]


def test_zero_is_refused_and_hosts_that_overlap() -> None:
    swarm = pair(())
    workload = Workload(jobs=(JOB,))
    zero = single(stages=(replace(swarm.stages[0], zero=1),), schedule="swarm")
    with pytest.raises(PlanError, match="lets replicas leave"):
        explorer.simulate(swarm.graph, swarm.cluster, workload, zero)
    graph = chain([1.0, 1.0])
    axes = (("replica", 1), ("tensor", 2))
    wide = tuple(
        Stage(layers=(f"layers.{s}",), meshes=(Mesh(devices=(s, s + 1), axes=axes),), replicas=ROUND_ROBIN)
        for s in range(2)
    )
    with pytest.raises(PlanError, match="must share all of them"):
        explorer.simulate(graph, cluster(4, ()), workload, single(stages=wide, schedule="swarm"))
