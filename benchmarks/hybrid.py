"""When workers of two devices converge sooner than workers of one: DLPlacer's rule on simulated steps.

`python benchmarks/hybrid.py [--models inception-v3,...] [--most 128] [--cluster C]`

Every device number is planned twice for the same samples a worker: each device a worker, and pairs placed by
DLPlacer's integer program. Steps are simulated with all gradients exchanged; epochs are those of the model's
own curve. Where a model states none, the column says by how much epochs would have to grow from N to 2 N
workers for pairs to be as fast.
"""

from __future__ import annotations

import argparse

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.planners._pieces.hybrid_rule import (
    Convergence,
    best_gain,
    convergence_s,
    needed_speedup,
    overtakes_at,
)
from explorer.planners.dlplacer import plan_of
from explorer.search import Problem
from explorer.search.objectives import epochs_at
from explorer.simulation.simulate import simulate
from explorer.workload import default_workload

PUBLISHED = {"inception-v3": 26.5, "gnmt-16": 8.0, "biglstm": 22.0}
"""Gains of the paper, percent, at scale."""
SAMPLES = {"inception-v3": 64, "gnmt-16": 128, "biglstm": 128}
"""Samples of a worker."""


def step_s(model: str, cluster: str, devices: int, members: int) -> float:
    """Return the seconds of a step of so many devices in workers of some."""
    graph = load_model(model)
    batch = SAMPLES.get(model, 64) * devices // members
    problem = Problem(
        graph=graph, cluster=load_cluster(cluster), max_devices=devices,
        workload=default_workload(graph).with_job(global_batch=batch),
    )  # fmt: skip
    strategy = plan_of(problem, members, batch, nodes=200)
    if strategy is None:
        raise SystemExit(f"{model} does not fit {members} devices of {cluster}")
    return simulate(graph, problem.needed_cluster, problem.workload, strategy).step_time_s


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default=",".join(PUBLISHED))
    parser.add_argument("--cluster", default="dgx-a100-128")
    parser.add_argument("--most", type=int, default=128)
    given = parser.parse_args()
    for model in given.models.split(","):
        table(model, given.cluster, given.most)


def table(model: str, cluster: str, most: int) -> None:
    """Print the rows of a model, and what they come to."""
    job = default_workload(load_model(model)).job
    batch, points, devices = SAMPLES.get(model, 64), list[Convergence](), 2
    steps = {1: step_s(model, cluster, 1, 1)}
    print(f"\n{model} on {cluster}, {batch} samples a worker")
    print("| devices | single, s | pairs, s | speed-up of a pair needed | had | gain |")
    print("|---|---|---|---|---|---|")
    while devices <= most:
        steps[devices] = step_s(model, cluster, devices, 1)
        pairs, few = step_s(model, cluster, devices, 2), devices // 2
        speedup, ratio = steps[few] / pairs, steps[few] / steps[devices]
        if len(job.epochs) < 2 or not job.samples_per_epoch:
            cells = (steps[devices], pairs, 2 * ratio / speedup, speedup)
            print("| {} | {:.4g} | {:.4g} | epochs x {:.3g} | {:.3g} | |".format(devices, *cells))
        else:
            epochs = [epochs_at(job.epochs, batch * n) for n in (few, devices)]
            samples = float(job.samples_per_epoch)
            point = Convergence(
                devices,
                convergence_s(steps[devices], samples, batch * devices, epochs[1]),
                convergence_s(pairs, samples, batch * few, epochs[0]),
            )
            needed = needed_speedup(2, ratio, epochs[0] / epochs[1])
            points.append(point)
            cells = f"{steps[devices]:.4g} | {pairs:.4g} | {needed:.3g} | {speedup:.3g} | {point.gain:+.1%}"
            print(f"| {devices} | {cells} |")
        devices *= 2
    if points:
        print(f"pairs are faster from {overtakes_at(points) or 'no number of'} devices on")
        print(f"best pairs over best single devices: {best_gain(points):+.1%}", end="; ")
        print(f"the paper's projection: {PUBLISHED.get(model, float('nan'))} %")


if __name__ == "__main__":
    main()
