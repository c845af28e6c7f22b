"""Parallax: sparse variables over parameter servers, dense ones by all-reduce."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from explorer.library._ideal import free_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models.synthetic import chain
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Mesh, Stage, Sync, single
from explorer.workload import Job, Workload

N, TABLE, DENSE, DENSITY = 4, 800.0, 100.0, 0.25
"""Machines, bytes of a table and of the dense weights, share of the table that a step touches."""


@cache
def _machines(*, table: bool) -> Report:
    """Return one layer with a sparse table, or one with dense weights, on N machines."""
    graph = chain([1.0], backward_s=1.0, parameter_bytes=TABLE if table else DENSE)
    if table:
        graph = replace(graph, parameters=(replace(graph.parameters[0], density=DENSITY),))
    stage = Stage(layers=("layers.0",), meshes=(Mesh(devices=tuple(range(N))),), microbatch_samples=N)
    sync = (Sync(parameters=("*",), method="parameter_server"),) if table else ()
    workload = Workload(jobs=(Job(global_batch=N, precision="fp32", optimizer="none"),))
    return simulate(graph, free_cluster(N, 100.0), workload, single(stages=(stage,), sync=sync))


def _in_and_out(report: Report) -> float:
    """Return the bytes that the first machine sends and receives in a step."""
    return sum(size for pair, size in report.traffic_bytes.items() if 0 in pair)


@SYSTEMS.add(
    System(
        name="parallax",
        title="Parameter servers for sparse variables, all-reduce for dense ones",
        paper="Kim et al., Parallax: Sparsity-aware Data Parallel Training of Deep Neural"
        " Networks, EuroSys 2019",
        year=2018,
        uses=Uses(options=("synchronisation by parameter group",)),
        missing="its choice of partitions",
        claims=(
            Claim(
                text="a sparse variable of w bytes over N balanced servers: 4 a w (N - 1)/N bytes in and out",
                published=4 * DENSITY * TABLE * (N - 1) / N,
                unit="bytes",
                measure=lambda: _in_and_out(_machines(table=True)),
            ),
            Claim(
                text="a dense variable by all-reduce: 4 w (N - 1)/N bytes in and out",
                published=4 * DENSE * (N - 1) / N,
                unit="bytes",
                measure=lambda: _in_and_out(_machines(table=False)),
            ),
        ),
    )
)
def example() -> Example:
    """Big LSTM, a language model with a large embedding, on eight V100, data parallel."""
    return Example(
        model="biglstm",
        cluster="dgx-1-v100",
        global_batch=256,
        shape={"replicas": 8, "microbatch_size": 8},
    )
