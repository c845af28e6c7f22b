"""Transfers between rows of different sizes and shardings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.graph import LayerGraph
from explorer.pricing import lane_route
from explorer.pricing.routes import common_parts
from explorer.pricing.traffic import device_traffic
from explorer.sharding import megatron_layout
from explorer.simulation.report import Report
from explorer.strategies.cuts import balanced_cuts
from explorer.strategy import REPLICA, Mesh, Stage, Strategy, single
from explorer.tasks.program import TRANSFER
from explorer.workload import default_workload
from tests.random_plans import clusters

SIZES = st.sampled_from([1, 2, 4, 8])


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return explorer.load_model("gpt2-medium")


def two(graph: LayerGraph, first: tuple[int, bool], second: tuple[int, bool]) -> Strategy:
    """Two stages of (tensor size, sequence parallel) each."""
    names = tuple(layer.name for layer in graph.layers)
    cut = balanced_cuts(graph, 2)[0]
    stages = []
    for layers, start, (size, sequence) in ((names[:cut], 0, first), (names[cut:], 8, second)):
        mesh = Mesh(devices=tuple(range(start, start + size)), axes=((REPLICA, 1), ("tensor", size)))
        layout = megatron_layout(sequence_parallel=sequence) if size > 1 else ()
        stages.append(Stage(layers=layers, meshes=(mesh,), layout=layout))
    return single(stages=tuple(stages))


def run(graph: LayerGraph, strategy: Strategy) -> Report:
    workload = default_workload(graph).with_job(global_batch=8)
    return explorer.simulate(graph, explorer.load_cluster("dgx-a100-4"), workload, strategy)


def sent(report: Report) -> list[float]:
    """Forward and backward, in tensors."""
    program, prices = report.timeline.program, report.timeline.prices
    found = {s.backward: prices.bytes[i] / 2**21 for i, s in enumerate(program.slots) if s.kind == TRANSFER}
    return [found[False], found[True]]


@pytest.mark.parametrize(("first", "second", "expected"), [
    ((1, False), (1, False), [1, 1]),
    ((8, False), (8, False), [8, 8]),
    ((8, False), (1, False), [1, 8]),
    ((1, False), (8, False), [8, 1]),
    ((8, True), (1, False), [1, 1]),
    ((1, False), (8, True), [1, 1]),
    ((8, True), (8, True), [1, 1]),
    ((4, True), (8, False), [8, 1]),
    ((2, True), (8, True), [1, 1]),
])  # fmt: skip
def test_each_device_gets_what_it_needs_once(
    graph: LayerGraph, first: tuple[int, bool], second: tuple[int, bool], expected: list[float]
) -> None:
    report = run(graph, two(graph, first, second))
    assert sent(report) == [pytest.approx(number) for number in expected]
    traffic = device_traffic(report.timeline.program, report.timeline.prices)
    across = [size for (a, b), size in traffic.items() if a < 8 <= b]
    assert sum(across) / 2**21 / 8 >= expected[0] * (1 - 1e-9)


def test_prices_do_not_depend_on_what_was_priced_before(graph: LayerGraph) -> None:
    """The gradient that comes back has the sharding of the stage it comes back to."""
    plans = [two(graph, (8, sequence), (8, False)) for sequence in (True, False, True)]
    found = [sent(run(graph, plan)) for plan in plans]
    assert found[0] == found[2]
    assert found[0] == [pytest.approx(8), pytest.approx(1)]
    assert found[1] == [pytest.approx(8), pytest.approx(8)]


@given(cluster=clusters(), senders=SIZES, receivers=SIZES, split=st.booleans(), wanted=st.booleans())
def test_routes(cluster, senders: int, receivers: int, split: bool, wanted: bool) -> None:  # type: ignore[no-untyped-def]
    """What arrives is what is needed; no resource is asked for more than it has; overlap is not sent."""
    held, needed = (1 / senders if split else 1.0), (1 / receivers if wanted else 1.0)
    source, target = tuple(range(senders)), tuple(range(4, 4 + receivers))
    route = lane_route(cluster, source, target, ((held, needed, 1.0),))
    kept = [device for device in target if device in source]
    arrived = {device: sum(share for _, b, share in route.pairs if b == device) for device in target}
    assert all(share <= needed + 1e-9 for share in arrived.values())
    if not kept:
        assert all(share == pytest.approx(needed) for share in arrived.values())
    elif not split:
        assert all(arrived[device] == 0 for device in kept)
    assert all(demand <= room for _, room, demand in route.resources)
    for name, room, demand in route.resources:
        through = demand * route.seconds_per_byte
        assert through <= room * route.seconds_per_byte * (1 + 1e-9), name


def test_equal_rows_pair_up() -> None:
    cluster = explorer.load_cluster("dgx-a100")
    route = lane_route(cluster, (0, 1), (2, 3))
    assert route.pairs == ((0, 2, 1.0), (1, 3, 1.0))


@given(data=st.data())
def test_parts_are_where_shards_overlap(data: st.DataObject) -> None:
    sizes = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 64])
    rows = [tuple(range(100 * k, 100 * k + data.draw(sizes))) for k in range(2)]
    counts = [data.draw(st.integers(1, len(row))) for row in rows]
    parts = common_parts(rows[0], 1 / counts[0], rows[1], 1 / counts[1])
    held, needed = (
        [k * count // len(row) for k in range(len(row))] for row, count in zip(rows, counts, strict=True)
    )
    wanted = []
    for device, block in zip(rows[1], needed, strict=True):
        for part in range(counts[0]):
            start, stop = (
                max(block / counts[1], part / counts[0]),
                min((block + 1) / counts[1], (part + 1) / counts[0]),
            )
            if stop - start > 1e-9:
                owners = tuple(d for d, p in zip(rows[0], held, strict=True) if p == part)
                wanted.append((owners, device, pytest.approx(start), pytest.approx(stop)))
    assert [(p.owners, p.receiver, p.start, p.stop) for p in parts] == wanted
