"""Transfers that hold up both ends: closed forms, bounds, and a longest path written another way."""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import TopologicalSorter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup
from explorer.models.synthetic import chain
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Mesh, Stage, single
from explorer.workload import Job, Workload

Node = tuple[object, ...]


def run(
    forward_s: Sequence[float], backward_s: Sequence[float], wire_s: float, m: int, **options: bool
) -> Report:
    """One layer a stage, each on a node of its own; every transfer takes `wire_s`."""
    p = len(forward_s)
    kind = DeviceKind(
        name="box", memory_bytes=1e12, memory_bandwidth_bytes_per_s=1e12, peak_flops_per_s=(("fp32", 1e12),)
    )
    cluster = Cluster(
        name="line",
        device_kinds=(kind,),
        nodes=(NodeGroup(count=p, device_kind="box", devices_per_node=1),),
        levels=(
            Level(name="net", kind="ethernet", scope="all", latency_s=wire_s, bandwidth_bytes_per_s=1e9),
        ),
    )
    graph = chain(forward_s, backward_s=backward_s)
    stages = [Stage(layers=(f"layers.{i}",), meshes=(Mesh(devices=(i,)),)) for i in range(p)]
    work = Workload(jobs=(Job(global_batch=m, precision="fp32", optimizer="none"),))
    return simulate(graph, cluster, work, single(stages=tuple(stages), schedule="1f1b", options=options))


def lane(p: int, stage: int, m: int) -> list[tuple[str, int]]:
    """1F1B of one stage."""
    ahead = min(p - stage, m)
    order = [("F", i) for i in range(ahead)]
    for i in range(m):
        order.append(("B", i))
        if ahead + i < m:
            order.append(("F", ahead + i))
    return order


def longest(forward_s: Sequence[float], backward_s: Sequence[float], wire_s: float, m: int) -> float:
    """Seconds of one step, every send and receive a call of both lanes."""
    p = len(forward_s)
    seconds: dict[Node, float] = {}
    waits: dict[Node, set[Node]] = {}
    lanes = [[(stage, *step) for step in lane(p, stage, m)] for stage in range(p)]
    before = {node: lanes[s][i - 1] for s in range(p) for i, node in enumerate(lanes[s]) if i}
    after = {node: following for following, node in before.items()}
    for s, nodes in enumerate(lanes):
        for node in nodes:
            seconds[node] = forward_s[s] if node[1] == "F" else backward_s[s]
            waits.setdefault(node, set()).update([before[node]] if node in before else [])
            source = s - 1 if node[1] == "F" else s + 1
            if not 0 <= source < p:
                continue
            sender, wire = (source, node[1], node[2]), ("wire", s, *node[1:])
            seconds[wire] = wire_s
            waits[wire] = {sender, *([before[node]] if node in before else [])}
            waits[node].add(wire)
            if sender in after:
                waits.setdefault(after[sender], set()).add(wire)
    end: dict[Node, float] = {}
    for found in TopologicalSorter(waits).static_order():
        end[found] = max((end[item] for item in waits.get(found, ())), default=0.0) + seconds[found]
    return max(end.values())


PARTS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=5)


@settings(max_examples=60)
@given(PARTS, st.integers(0, 9), st.integers(1, 9))
def test_as_a_longest_path_written_another_way(parts: list[tuple[int, int]], wire: int, m: int) -> None:
    forward, backward = zip(*parts, strict=True)
    found = run(forward, backward, float(wire), m, blocking=True)
    assert found.step_time_s == pytest.approx(longest(forward, backward, float(wire), m))


@settings(max_examples=40)
@given(PARTS, st.integers(0, 9), st.integers(1, 9))
def test_waiting_never_saves_time(parts: list[tuple[int, int]], wire: int, m: int) -> None:
    forward, backward = zip(*parts, strict=True)
    blocked = run(forward, backward, float(wire), m, blocking=True).step_time_s
    free = run(forward, backward, float(wire), m).step_time_s
    assert blocked >= free * (1 - 1e-12)
    if not wire:
        assert blocked == pytest.approx(free)


@pytest.mark.parametrize(("p", "exchanges"), [(2, 1), (3, 2), (4, 2)])
def test_a_microbatch_costs_its_compute_and_one_exchange_with_each_neighbour(p: int, exchanges: int) -> None:
    """Equal stages, steady state: F + B + t at the ends, F + B + 2 t between; free transfers hide there."""
    seconds = [run([1.0] * p, [2.0] * p, 0.25, m, blocking=True).step_time_s for m in (32, 33)]
    assert seconds[1] - seconds[0] == pytest.approx(3.0 + exchanges * 0.25)


def test_one_stage_has_nobody_to_wait_for() -> None:
    assert run([1.0], [2.0], 5.0, 4, blocking=True).step_time_s == pytest.approx(12.0)
