"""Coarse stages of a placement beside ones that end where something is sent: `benchmarks/stage_ends.py`.

Planners whose placements need not be contiguous judge both. For drawn graphs of products on three A100, and
some models: the best step with stages of the second kind over that with coarse ones.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Iterator
from statistics import median

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.builder import GraphBuilder
from explorer.search import Problem, search
from explorer.workload import Job, Workload, default_workload

PLANNERS = ("tensorflow_greedy", "min_cut", "tarnawski_ip")
PAIRS = (
    ("inception-v3", "dgx-1-v100", 2), ("inception-v3", "dgx-1-v100", 4), ("gnmt-16", "dgx-1-v100", 4),
    ("gnmt-16", "pipedream-a", 4), ("unet-3d", "dgx-1-v100", 4),
)  # fmt: skip


def drawn(seed: int) -> LayerGraph:
    """Draw a graph of 5 to 12 pairs of products, each of which reads one or two of those before it."""
    luck = random.Random(seed)
    b = GraphBuilder(f"drawn {seed}")
    made, used = [b.input("x", {"seq": 256, "embed": 2048})], set[int]()
    for i in range(luck.randint(5, 12)):
        sources = luck.sample(range(len(made)), k=min(len(made), luck.choice([1, 1, 2])))
        used.update(sources)
        read = [made[k] for k in sources]
        x = b.add(f"add{i}", *read) if len(read) > 1 else read[0]
        wide = b.activation(f"act{i}", b.linear(f"up{i}", x, {"ffn": luck.choice([2048, 8192, 16384])}))
        made.append(b.linear(f"down{i}", wide, {"embed": 2048}, over=("ffn",)))
    ends = [made[k] for k in range(1, len(made)) if k not in used]
    b.linear("head", b.add("join", *ends) if len(ends) > 1 else ends[0], {"vocab": 64})
    return b.build()


def problems(draws: int) -> Iterator[tuple[str, Problem]]:
    """Yield names and problems: drawn graphs, then models."""
    workload = Workload(jobs=(Job(global_batch=8, precision="fp16", optimizer="sgd"),))
    for seed in range(draws):
        graph = drawn(seed)
        cluster = load_cluster("dgx-a100")
        yield graph.name, Problem(graph=graph, cluster=cluster, workload=workload, max_devices=3)
    for model, cluster, devices in PAIRS:
        graph = load_model(model)
        job = default_workload(graph)
        problem = Problem(graph=graph, cluster=load_cluster(cluster), workload=job, max_devices=devices)
        yield f"{model}, {devices} of {cluster}", problem


def both(problem: Problem, planner: str, budget_s: float) -> tuple[float, float]:
    """Return the least step with coarse stages and with the others; infinite where there is none."""
    least = [math.inf, math.inf]
    for item in search(problem, planner, budget_s=budget_s):
        if item.new is not None and item.new.outcome.feasible:
            short = "stages" in item.new.label
            least[short] = min(least[short], item.new.value)
    return least[0], least[1]


def main() -> None:
    """Print a row a problem and a line of medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=12, help="drawn graphs")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of each search")
    options = parser.parse_args()
    print(f"{'':<28}" + "".join(f"{planner:>28}" for planner in PLANNERS))
    ratios: dict[str, list[float]] = {planner: [] for planner in PLANNERS}
    for name, problem in problems(options.draws):
        cells = []
        for planner in PLANNERS:
            coarse, short = both(problem, planner, options.budget)
            known = math.isfinite(coarse) and math.isfinite(short)
            cells.append(f"{coarse:.4g} s x {short / coarse:.3f}" if known else f"{coarse:.4g} s")
            if known and name.startswith("drawn"):
                ratios[planner].append(short / coarse)
        print(f"{name:<28}" + "".join(f"{cell:>28}" for cell in cells), flush=True)
    for planner, own in ratios.items():
        if own:
            print(f"{planner}: {min(own):.3f} to {max(own):.3f}, median of {len(own)} {median(own):.3f}")


if __name__ == "__main__":
    main()
