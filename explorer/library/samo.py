"""SAMO: optimizer states and gradients of the weights that pruning left."""

from __future__ import annotations

from dataclasses import replace

from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import Job, default_workload

DENSITY, REPLICAS = 0.1, 8


def pruned(graph: LayerGraph, cluster: Cluster, job: Job, density: float = DENSITY) -> Strategy:
    """Return plain data parallelism of a model of which pruning left a share of the weights."""
    found = uniform(graph, cluster, job, replicas=REPLICAS, microbatch_size=1)
    stages = (replace(stage, density=density) for stage in found.job.stages)
    return found.with_job(found.job.with_stages(stages))


def _report(density: float) -> Report:
    graph, cluster = load_model("gpt2-medium"), load_cluster("dgx-1-v100")
    workload = default_workload(graph).with_job(global_batch=16, precision="fp16", optimizer="adam")
    return simulate(graph, cluster, workload, pruned(graph, cluster, workload.job, density))


def _saved_bytes_per_parameter() -> float:
    """Return the bytes that sparse states save on a device, per parameter."""
    parts = ("weights", "gradients", "optimizer", "buffers")
    held = [
        sum(
            value
            for name, value in zip(MEMORY_PARTS, report.memory_parts_bytes[0], strict=True)
            if name in parts
        )
        for report in (_report(1.0), _report(DENSITY))
    ]
    return (held[0] - held[1]) / load_model("gpt2-medium").parameter_count


@SYSTEMS.add(
    System(
        name="samo",
        title="Sparse states of a pruned model",
        paper="Singh and Bhatele, Exploiting Sparsity in Pruned Neural Networks to Optimize"
        " Large Model Training, IPDPS 2023",
        year=2023,
        uses=Uses(options=("density",)),
        missing="together with ZeRO",
        claims=(
            Claim(
                text=f"states of 2 phi + 24 f phi bytes where dense ones have 16 phi: saved at f = {DENSITY}",
                published=16 - (2 + 24 * DENSITY),
                unit="bytes per parameter",
                measure=_saved_bytes_per_parameter,
                within=1e-6,
            ),
            Claim(
                text=f"reductions send the share f = {DENSITY} of the dense ones' bytes",
                published=DENSITY,
                unit="",
                measure=lambda: (
                    sum(_report(DENSITY).traffic_bytes.values()) / sum(_report(1.0).traffic_bytes.values())
                ),
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 medium on eight V100 with a tenth of its weights left."""
    return Example(model="gpt2-medium", cluster="dgx-1-v100", global_batch=16, divide=pruned)
