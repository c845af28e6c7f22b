"""Batch, model and domain parallelism on a grid of Pr x Pc: Gholami et al., SPAA 2018, equations 3 to 9."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.pricing.traffic import device_traffic
from explorer.sharding import shard
from explorer.simulation.report import Report
from explorer.strategy import REPLICA, Mesh, Sharding, Stage, single
from explorer.workload import Job, Workload

WIDTHS = st.lists(st.sampled_from([8, 16, 32]), min_size=2, max_size=5)
GRIDS = st.sampled_from([(1, 1), (1, 4), (4, 1), (2, 2), (2, 4), (4, 2), (8, 1), (1, 8)])


def chain(widths: list[int]) -> LayerGraph:
    """Fully connected layers; every width is a dimension of its own."""
    b = GraphBuilder("chain")
    x = b.input("x", {"d0": widths[0]})
    for i, width in enumerate(widths[1:], start=1):
        x = b.linear(f"fc{i}", x, {f"d{i}": width}, over=(f"d{i - 1}",))
    return b.build()


def by_model(graph: LayerGraph, rows: int, columns: int, batch: int) -> Report:
    """Every layer by its outputs over Pr, batches over Pc."""
    mesh = Mesh(devices=tuple(range(rows * columns)), axes=((REPLICA, columns), ("model", rows)))
    shardings = tuple(
        Sharding(layers=(layer.name,), layout=((f"d{i}", "model"),))
        for i, layer in enumerate(graph.layers, start=1)
    )
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers), meshes=(mesh,), microbatch_samples=batch,
        shardings=shardings if rows > 1 else (),
    )  # fmt: skip
    workload = Workload(jobs=(Job(global_batch=batch, precision="fp32", optimizer="sgd"),))
    return explorer.simulate(graph, explorer.load_cluster("dgx-a100"), workload, single(stages=(stage,)))


@settings(max_examples=25)
@given(WIDTHS, GRIDS, st.sampled_from([8, 24]))
def test_integrated_model_and_batch_parallelism(widths: list[int], grid: tuple[int, int], batch: int) -> None:
    """Bytes of each device: B/Pc (Pr-1)/Pr d_i forward and twice backward, 2 (Pc-1)/Pc |W_i| / Pr.

    The outputs of the last layer stay where they are. With Pr = 1 this is batch, with Pc = 1 model
    parallelism. The gradient of d_i is reduced into parts and d_i gathered again for the weight gradient,
    which together are their all-reduce.
    """
    (rows, columns), graph = grid, chain(widths)
    report = by_model(graph, rows, columns, batch)
    model = 3 * batch / columns * (rows - 1) / rows * sum(widths[1:-1])
    weights = sum(a * b for a, b in pairwise(widths))
    expected = 4.0 * (model + 2 * (columns - 1) / columns * weights / rows)
    sent = sum(device_traffic(report.timeline.program, report.timeline.prices).values())
    assert sent / (rows * columns) == pytest.approx(expected)


@pytest.mark.parametrize("sizes", [{"h": 4}, {"w": 2}, {"h": 4, "w": 2}, {"h": 2, "w": 2, "d": 2}])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_halos_of_several_directions(sizes: dict[str, int], kernel: int) -> None:
    """X_W X_C floor(k_h / 2) by height, each direction's divided by the parts of the others."""
    b = GraphBuilder("volumes")
    edges = {"depth": 8, "height": 32, "width": 24}
    x = b.conv3d("first", b.input("x", {"channels": 3, **edges}), 8, 1)
    b.conv3d("second", x, 16, kernel, padding=kernel // 2)
    directions = {"h": "height", "w": "width", "d": "depth"}
    layout = tuple((directions[axis], axis) for axis in sizes)
    result = shard(b.build(), ("first", "second"), layout=layout, sizes=sizes)
    for collectives, channels in ((result.forward, 8), (result.backward, 16)):
        found = {item.axis: item.elements_per_sample for item in collectives}
        assert {item.op for item in collectives} <= {"halo"}
        expected = {}
        for axis in sizes if kernel > 1 else ():
            size = channels * (kernel // 2)
            for name, edge in edges.items():
                other = next((k for k, dim in directions.items() if dim == name), "")
                size *= 1 if name == directions[axis] else edge / sizes.get(other, 1)
            expected[axis] = size
        assert found == expected
    parts = 1
    for size in sizes.values():
        parts *= size
    assert result.work.tolist() == [1 / parts] * 2
    assert result.partial_gradients == {"first.weight", "second.weight"}


def test_domain_parallelism_reduces_weights_as_batch_parallelism_does() -> None:
    """Halos inside, and one all-reduce of all weights over all devices: 2 (P-1)/P |W|."""
    b = GraphBuilder("conv")
    x = b.conv2d("first", b.input("x", {"channels": 4, "height": 16, "width": 16}), 8, 3, padding=1)
    b.conv2d("second", x, 8, 3, padding=1)
    graph, p, batch = b.build(), 4, 2
    mesh = Mesh(devices=tuple(range(p)), axes=((REPLICA, 1), ("domain", p)))
    stage = Stage(
        layers=("first", "second"), meshes=(mesh,), microbatch_samples=batch, layout=(("height", "domain"),)
    )
    workload = Workload(jobs=(Job(global_batch=batch, precision="fp32", optimizer="sgd"),))
    report = explorer.simulate(graph, explorer.load_cluster("dgx-a100"), workload, single(stages=(stage,)))
    sent = sum(device_traffic(report.timeline.program, report.timeline.prices).values())
    sides = 2 * (p - 1)  # each neighbour both ways
    halos = batch * 16 * (4 + 8 + 8) * sides  # inputs of both layers, output gradient of the second
    weights = p * 2 * (p - 1) / p * (4 * 8 + 8 * 8) * 9
    assert sent == pytest.approx(4.0 * (halos + weights))
