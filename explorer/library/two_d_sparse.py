"""Two-dimensional sparse parallelism: tables over part of the devices, a copy in every group of them."""

from __future__ import annotations

from functools import cache
from math import prod

from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.library._ideal import free_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.sharding import table_layout
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import REPLICA, Mesh, Sharding, Stage, Strategy, UpdateChoice, single
from explorer.workload import Job, Workload

T, GROUPS, PERIOD, BATCH = 8, 2, 4, 4096
"""Devices T, groups M, updates from one sum of the copies of a table to the next, samples of a step."""


def _tables(graph: LayerGraph) -> tuple[str, ...]:
    return tuple(layer.name for layer in graph.layers if layer.kind == "embedding")


def _divide(graph: LayerGraph, job: Job, groups: int, period: int = 1) -> Strategy:
    """Return data parallelism over T devices, tables by rows over the T / M of each of M groups."""
    devices = tuple(range(T))
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers),
        meshes=(Mesh(devices=devices),),
        microbatch_samples=job.global_batch,
        shardings=(
            Sharding(
                layers=_tables(graph),
                layout=table_layout(),
                meshes=(Mesh(devices=devices, axes=((REPLICA, groups), ("table", T // groups))),),
            ),
        ),
    )
    weights = tuple(f"{name}.weight" for name in _tables(graph))
    seldom = UpdateChoice(rule="periodic", parameters=weights, options=(("period", period),))
    return single(stages=(stage,), updates=(seldom,) if period > 1 else (), job=job.name)


def _in_groups(graph: LayerGraph, _cluster: Cluster, job: Job) -> Strategy:
    """Return the strategy of the example."""
    return _divide(graph, job, GROUPS, PERIOD)


@cache
def _report(groups: int, period: int = 1) -> Report:
    graph = load_model("dlrm")
    workload = Workload(jobs=(Job(global_batch=BATCH, precision="fp32", optimizer="sgd"),))
    return simulate(graph, free_cluster(T, 1e11), workload, _divide(graph, workload.job, groups, period))


def _table_bytes(*, touched: bool) -> float:
    """Return the bytes of all tables, or of the rows that a step touches."""
    graph = load_model("dlrm")
    found = {name: graph.parameter[f"{name}.weight"] for name in _tables(graph)}
    return sum(4 * prod(item.shape) * (item.density if touched else 1) for item in found.values())


def _held_bytes(groups: int) -> float:
    """Return the bytes of tables that a device holds."""
    graph = load_model("dlrm")
    weights = _report(groups).memory_parts_bytes[0][MEMORY_PARTS.index("weights")]
    return weights - (4 * graph.parameter_count - _table_bytes(touched=False))


def _saved_bytes() -> float:
    """Return the bytes a device sends less in a step if copies are not summed at every update."""
    often, seldom = (sum(_report(GROUPS, period).traffic_bytes.values()) for period in (1, PERIOD))
    return (often - seldom) / T


@SYSTEMS.add(
    System(
        name="two_d_sparse",
        title="Embedding tables sharded inside groups of devices, copied across groups",
        paper="Zhang et al., Two-dimensional Sparse Parallelism for Large Scale Deep Learning"
        " Recommendation Model Training, 2025",
        year=2025,
        uses=Uses(updates=("periodic",), options=("table layout", "layers on a mesh of their own")),
        missing="its momentum-scaled row-wise AdaGrad",
        claims=(
            *(
                Claim(
                    text=f"a device of T = {T} holds M/T of the tables: M = {groups}, DLRM",
                    published=groups / T * _table_bytes(touched=False),
                    unit="bytes",
                    measure=lambda groups=groups: _held_bytes(groups),  # type: ignore[misc]
                    within=1e-4,
                    why="rows of small tables do not divide by T/M",
                )
                for groups in (1, 2, 4)
            ),
            Claim(
                text=f"summing copies sends 2 (M - 1)/M of a shard's touched rows: bytes less a step where"
                f" one of {PERIOD} updates sums, M = {GROUPS}",
                published=(1 - 1 / PERIOD) * 2 * (GROUPS - 1) / T * _table_bytes(touched=True),
                unit="bytes",
                measure=_saved_bytes,
                within=1e-4,
                why="worked out by hand from the mechanism; rows of small tables do not divide by T/M",
            ),
        ),
    )
)
def example() -> Example:
    """DLRM on eight A100, tables over two groups of four."""
    return Example(model="dlrm", cluster="dgx-a100", global_batch=BATCH, divide=_in_groups)
