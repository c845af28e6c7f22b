"""ZeRO: optimizer states, gradients and weights divided over data-parallel replicas."""

from __future__ import annotations

from explorer.cluster_profiles import load_cluster
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

N = 8
STATES = ("weights", "gradients", "optimizer")


def _bytes_per_parameter(level: int) -> float:
    """Return the bytes of weights, gradients and optimizer states on a device, per parameter of the model."""
    graph, cluster = load_model("gpt2-medium"), load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=N, precision="fp16", optimizer="adam")
    report = simulate(graph, cluster, workload, uniform(graph, cluster, workload.job, replicas=N, zero=level))
    held = dict(zip(MEMORY_PARTS, report.memory_parts_bytes[0], strict=True))
    return sum(held[part] for part in STATES) / graph.parameter_count


def _claim(level: int, published: float, text: str) -> Claim:
    return Claim(
        text=f"mixed precision with Adam on N = {N} replicas, {text}",
        published=published,
        unit="bytes per parameter",
        measure=lambda: _bytes_per_parameter(level),
        within=1e-3,
        why="tensors that do not divide by N are padded",
    )


@SYSTEMS.add(
    System(
        name="zero",
        title="Sharded states of data parallelism",
        paper="Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion"
        " Parameter Models, SC 2020",
        year=2019,
        uses=Uses(options=("ZeRO level",)),
        missing="partitioned activations",
        claims=(
            _claim(0, 16, "nothing sharded: 16 bytes"),
            _claim(1, 4 + 12 / N, "optimizer states sharded: 4 + 12/N bytes"),
            _claim(2, 2 + 14 / N, "and gradients: 2 + 14/N bytes"),
            _claim(3, 16 / N, "and weights: 16/N bytes"),
        ),
    )
)
def example() -> Example:
    """Llama 3 8B on eight A100, everything sharded."""
    return Example(
        model="llama3-8b",
        cluster="dgx-a100",
        global_batch=32,
        shape={"replicas": 8, "zero": 3, "recompute": "full", "microbatch_size": 1},
    )
