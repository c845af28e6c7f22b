"""Embedding tables over part of the replicas: lookups, memory and sums (2D sparse parallelism)."""

from __future__ import annotations

import pytest

import explorer
from explorer.graph import LayerGraph
from explorer.models._tables import lookup_sum
from explorer.models.builder import GraphBuilder
from explorer.pricing.traffic import device_traffic
from explorer.sharding import Override, shard, table_layout
from explorer.strategy import REPLICA, Mesh, Sharding, Stage, UpdateChoice, single
from explorer.workload import Job, Workload

ROWS, WIDTH, DENSITY = 4096, 16, 0.125


def tables(lookups: int) -> LayerGraph:
    b = GraphBuilder("tables")
    indices = b.input("indices", {"": lookups}, dtype="int64")
    vector = lookup_sum(b, "table", indices, ROWS, WIDTH, density=DENSITY)
    b.linear("dense", vector, {"ffn": 8}, over=("embed",))
    return b.build()


def sharded(graph: LayerGraph, by: str, n: int):  # type: ignore[no-untyped-def]
    override = Override(layers=("table",), layout=table_layout(by=by), sizes=(("table", n),))
    return shard(graph, ("table", "dense"), overrides=(override,))


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("lookups", [1, 3, 100])
def test_rows_send_indices_and_bring_sums(n: int, lookups: int) -> None:
    """A bag of L rows comes as the sums of at most min(L, n) devices."""
    result = sharded(tables(lookups), "rows", n)
    sums = min(lookups, n) * WIDTH
    assert [(c.op, c.dtype, c.elements_per_sample) for c in result.forward] == [
        ("all_to_all", "int64", lookups),
        ("all_to_all", "compute", sums),
    ]
    assert [(c.op, c.elements_per_sample) for c in result.backward] == [("all_to_all", sums)]
    assert result.parameter_fraction["table.weight"] == 1 / n
    assert result.work.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("n", [2, 4])
def test_columns_gather_indices_and_exchange_columns(n: int) -> None:
    result = sharded(tables(1), "columns", n)
    assert [(c.op, c.dtype, c.elements_per_sample) for c in result.forward] == [
        ("all_gather", "int64", n),
        ("all_to_all", "compute", WIDTH),
    ]
    assert [(c.op, c.elements_per_sample) for c in result.backward] == [("all_to_all", WIDTH)]
    assert result.parameter_fraction["table.weight"] == 1 / n


@pytest.mark.parametrize("by", ["rows", "columns"])
@pytest.mark.parametrize(("groups", "every"), [(1, 1), (2, 1), (4, 1), (2, 4)])
def test_groups_of_tables(by: str, groups: int, every: int) -> None:
    """T = 8 devices, M groups: lookups stay inside T / M, and each shard is summed over M, now and then."""
    graph, total = tables(1), 8
    n, cluster = total // groups, explorer.load_cluster("dgx-a100")
    mesh = Mesh(devices=tuple(range(total)), axes=((REPLICA, groups), ("table", n)))
    sharding = Sharding(layers=("table",), layout=table_layout(by=by), meshes=(mesh,))
    stage = Stage(
        layers=("table", "dense"), meshes=(Mesh(devices=tuple(range(total))),),
        microbatch_samples=total, shardings=(sharding,),
    )  # fmt: skip
    workload = Workload(jobs=(Job(global_batch=total, precision="fp32", optimizer="sgd"),))
    choice = UpdateChoice(rule="periodic", parameters=("table.weight",), options=(("period", every),))
    report = explorer.simulate(graph, cluster, workload, single(stages=(stage,), updates=(choice,)))
    shard_bytes = ROWS * WIDTH * 4.0 / n
    assert report.memory_parts_bytes[0][0] == pytest.approx(shard_bytes + WIDTH * 8 * 4.0)
    steps = report.timeline.program.order.steps
    found = device_traffic(report.timeline.program, report.timeline.prices)
    inside = sum(size for (a, b), size in found.items() if a // n == b // n)
    across = sum(size for (a, b), size in found.items()) - inside
    dense = 2 * (total - 1) * WIDTH * 8 * 4.0
    indices = 8.0 if by == "rows" else 2 * 8.0 * n  # gathered once more for the gradient
    lookups = total * (n - 1) / n * (indices + 2 * WIDTH * 4.0)
    sums = total * 2 * (groups - 1) / groups * shard_bytes * DENSITY
    reduced = sum(1 for step in range(1, steps + 1) if step % every == 0) / steps
    assert inside + across == pytest.approx(dense + lookups + sums * reduced)


def test_fewer_devices_a_group_look_up_in_less_time() -> None:
    """All-to-all inside a node of four, not over the network, is what a second dimension is for."""
    from explorer.costs.collectives import collective_seconds

    cluster = explorer.load_cluster("ethernet-10g-4x4")
    wide, near = (collective_seconds(cluster, "all_to_all", tuple(range(n)), 1e6) for n in (16, 4))
    assert near < wide
