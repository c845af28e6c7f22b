"""Recurrent networks in mixed precision: gradients cross the network in 16 bit."""

from __future__ import annotations

from functools import cache

from explorer.cluster_profiles import load_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

N = 8


@cache
def _report(precision: str) -> Report:
    graph, cluster = load_model("awd-lm"), load_cluster("dgx-1-v100")
    workload = default_workload(graph).with_job(global_batch=8 * N, precision=precision)
    strategy = uniform(graph, cluster, workload.job, replicas=N, microbatch_size=8)
    return simulate(graph, cluster, workload, strategy)


def _sent(precision: str) -> float:
    """Return the bytes that a device sends in a step, per parameter."""
    return sum(_report(precision).traffic_bytes.values()) / N / load_model("awd-lm").parameter_count


@SYSTEMS.add(
    System(
        name="mixed_precision_rnn",
        title="Recurrent networks on a cluster in mixed precision",
        paper="Svyatkovskiy, Kates-Harbeck and Tang, Training distributed deep recurrent neural networks"
        " with mixed precision on GPU clusters, MLHPC 2017",
        year=2017,
        uses=Uses(options=("precision",)),
        missing="loss scaling, which changes no time",
        claims=tuple(
            Claim(
                text=f"gradients in {bits} bit: 2 (n - 1)/n of {bits // 8} bytes, LSTM on n = {N} devices",
                published=2 * (N - 1) / N * bits / 8,
                unit="bytes per parameter",
                measure=lambda precision=precision: _sent(precision),  # type: ignore[misc]
                why="worked out by hand from a ring all-reduce",
            )
            for precision, bits in (("fp32", 32), ("fp16", 16))
        ),
    )
)
def example() -> Example:
    """AWD-LSTM on eight V100, data parallel."""
    return Example(
        model="awd-lm",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"replicas": 8, "microbatch_size": 8},
    )
