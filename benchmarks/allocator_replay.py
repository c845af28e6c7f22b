"""Plans replayed by a caching allocator: is any that needs more than 1.1 x its memory called a fit?

    python benchmarks/allocator_replay.py

Microbatches grow until plans do not fit. Ends with 1 if a plan above 1.1 x its memory is called a fit.
"""

from __future__ import annotations

import sys
from collections import Counter
from itertools import product

import explorer
from explorer.base.errors import ExplorerError
from explorer.base.units import GIB
from explorer.cluster.memory_room import FITS
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.simulation.allocator_replay import replay
from explorer.simulation.report import Report
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

MODELS = ("gpt2-xl", "llama3-8b")
CLUSTERS = ("hgx-h100", "dgx-a100")
SHAPES = ((1, 1, 8), (1, 4, 2), (4, 1, 2), (8, 1, 1))
ABOVE = 1.1
"""Reserved over memory from where on a plan must not be called a fit."""


def fullest(report: Report, reserved: float) -> float:
    """Return the share of its memory that the fullest lane would reserve."""
    shares = [
        (replay(report, lane).reserved_bytes + reserved) / capacity
        for lane, capacity in enumerate(report.capacity_bytes)
    ]
    return max(shares)


def main() -> int:
    """Print a line a plan, and the verdicts above and below 1.1 x memory."""
    counts: Counter[tuple[bool, str]] = Counter()
    for model, name in product(MODELS, CLUSTERS):
        graph, cluster = load_model(model), load_cluster(name)
        job = Job(global_batch=256, sequence_length=2048, precision="bf16", optimizer="adamw")
        if model == "gpt2-xl":
            job = Job(global_batch=256, sequence_length=1024, precision="bf16", optimizer="adamw")
        reserved = cluster.device_kinds[0].reserved_bytes
        for (stages, tensor, replicas), size, kept in product(SHAPES, (1, 4, 16), ("none", "full")):
            degrees = Degrees(
                stages=stages, tensor=tensor, replicas=replicas, microbatch_size=size, recompute=kept
            )
            try:
                made = degrees.build(graph, cluster, job)
                report = explorer.simulate(graph, cluster, Workload(jobs=(job,)), made)
            except ExplorerError:
                continue
            share = fullest(report, reserved)
            counts[share > ABOVE, report.memory_verdict] += 1
            peak = max(report.peak_memory_bytes) / GIB
            words = f"{peak:.1f} GiB, replayed {share:.0%}: {report.memory_verdict}"
            print(f"{model} on {name}, {degrees.label}: {words}")
    for (above, verdict), count in sorted(counts.items()):
        print(f"{'above' if above else 'up to'} {ABOVE} x memory, {verdict}: {count}")
    return int(counts[True, FITS] > 0)


if __name__ == "__main__":
    sys.exit(main())
