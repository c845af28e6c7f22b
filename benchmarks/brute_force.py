"""`auto` against brute force on random small problems. `python benchmarks/brute_force.py [--problems N]`

Every problem is searched to the end; then every strategy of the space is simulated, listed by plain loops
that share nothing with the search (`explorer.search.spaces.even_points`), and none may be better than what
the search found, nor below the bound that it claimed. With `--sample N` only so many of each are simulated.
"""

from __future__ import annotations

import argparse
import random
import time

from explorer.base.errors import ExplorerError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.search import Problem, objective_value, search
from explorer.search.spaces import even_points
from explorer.simulation.simulate import simulate
from explorer.workload import Job, Workload

CLUSTERS = {
    "dgx-1-v100": (0, 1, 2, 3),
    "mixed-v100-a100": (0, 1, 8, 9),
    "ethernet-10g-4x4": (0, 1, 4, 5),
    "rtx4090-pcie-4": (0, 1, 2, 3),
}
MODELS = ("gpt2-small", "bert-large", "resnet50", "vgg16", "gnmt-8", "mixtral-8x7b")


def random_problem(luck: random.Random) -> Problem:
    """Draw a problem with few devices and a small batch."""
    name = luck.choice(list(CLUSTERS))
    devices = CLUSTERS[name][: luck.choice((2, 3, 4))]
    graph: LayerGraph = load_model(luck.choice(MODELS))
    job = Job(
        global_batch=luck.choice((2, 4, 6, 8)), sequence_length=graph.defaults.sequence_length,
        precision="fp16", optimizer=luck.choice(("adam", "sgd")),
    )  # fmt: skip
    return Problem(
        graph=graph, cluster=load_cluster(name), workload=Workload(jobs=(job,)), devices=devices,
        objective=luck.choice(("time", "time", "memory", "cost")),
        schedule=luck.choice(("", "1f1b", "interleaved_1f1b", "zb_h1", "chimera", "hanayo")),
        weights=luck.choice(("synchronous", "any")), seed=luck.randrange(1000),
    )  # fmt: skip


def confirm(problem: Problem, sample: int, luck: random.Random) -> tuple[int, int, float, str]:
    """Return members simulated, simulations of the search, seconds of both, and what was wrong."""
    began = time.perf_counter()
    last = list(search(problem, "auto"))[-1]
    best = last.best.value if last.best is not None else float("inf")
    points = list(even_points(problem))
    if sample and len(points) > sample:
        points = luck.sample(points, sample)
    wrong, count = "", 0
    for point in points:
        strategy = point.strategy(problem)
        if strategy is None:
            continue
        try:
            report = simulate(problem.graph, problem.needed_cluster, problem.workload, strategy)
        except ExplorerError:
            continue
        count += 1
        value = objective_value(problem, report)
        if value < best * (1 - 1e-9):
            wrong = f"{point.degrees.label}{', by speed' if point.by_speed else ''}: {value:.6g} < {best:.6g}"
        elif last.lower_bound is not None and value < last.lower_bound * (1 - 1e-9):
            wrong = f"{point.degrees.label}: {value:.6g} below the bound {last.lower_bound:.6g}"
    return count, last.evaluations, time.perf_counter() - began, wrong


def main() -> None:
    """Print one row per problem, and how many were wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=0, help="members of each space to simulate; 0 for all")
    options = parser.parse_args()
    bad = 0
    for number in range(options.seed, options.seed + options.problems):
        luck = random.Random(number)
        problem = random_problem(luck)
        count, tried, seconds, wrong = confirm(problem, options.sample, luck)
        bad += bool(wrong)
        print(
            f"{number:>4} {problem.graph.name:<14}{problem.needed_cluster.name:<18}"
            f"{len(problem.devices)} devices {problem.objective:<7}{problem.schedule or 'any schedule':<18}"
            f"{count:>6} members{tried:>6} tried{seconds:>7.1f} s  {wrong or 'confirmed'}",
            flush=True,
        )
    print(f"{options.problems - bad} of {options.problems} confirmed")


if __name__ == "__main__":
    main()
