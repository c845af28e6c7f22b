"""When workers of two devices converge sooner than workers of one: DLPlacer's rule on simulated steps.

`python benchmarks/hybrid.py [--models inception-v3,...] [--most 256] [--cluster C] [--epochs 64:4,4096:7]`

Every number of devices is planned twice for the same samples a worker: each device a worker, and pairs. A
pair has its operators placed by DLPlacer's integer program, or is a pipeline of two even stages, whichever
step is shorter. Steps are simulated with all gradients exchanged; epochs are those of the model's own curve,
or those of `--epochs`; a star marks batches outside of it. Without a curve, the columns say by how much
epochs would have to grow from half as many samples a step for pairs to be as fast, and for the gain that the
paper states.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from explorer.base.errors import ExplorerError
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
from explorer.strategies.degrees import Degrees
from explorer.strategy import Strategy
from explorer.workload import default_workload

PUBLISHED = {"inception-v3": 26.5, "gnmt-8": 8.0, "biglstm": 22.0}
"""Gains that the paper's abstract states, percent, at scale; it does not say which GNMT."""
SAMPLES = {"inception-v3": 64, "gnmt-8": 128, "biglstm": 128}
"""Samples of a worker."""
ROUNDS = (2, 4, 8)
"""Microbatches of a pipeline of two stages."""
Curve = tuple[tuple[int, float], ...]


class Step(NamedTuple):
    """The shortest step of some workers."""

    seconds: float
    how: str


def step_of(model: str, cluster: str, devices: int, members: int) -> Step | None:
    """Return the shortest step of so many devices in workers of some; None if the model does not fit."""
    graph = load_model(model)
    workers = devices // members
    batch = SAMPLES.get(model, 64) * workers
    problem = Problem(
        graph=graph, cluster=load_cluster(cluster), max_devices=devices,
        workload=default_workload(graph).with_job(global_batch=batch),
    )  # fmt: skip
    found = []
    for strategy, how in plans(problem, workers, members):
        report = simulate(graph, problem.needed_cluster, problem.workload, strategy)
        if report.feasible:
            found.append(Step(report.step_time_s, how))
    return min(found, default=None)


def plans(problem: Problem, workers: int, members: int) -> Iterator[tuple[Strategy, str]]:
    """Yield what workers may do, with a word for it."""
    batch = problem.job.global_batch
    placed = plan_of(problem, members, batch, nodes=200)
    if placed is not None:
        yield placed, "placed"
    for rounds in ROUNDS if members > 1 else ():
        samples = batch // workers // rounds
        with suppress(ExplorerError):  # fewer blocks than stages, or fewer samples than microbatches
            degrees = Degrees(stages=members, replicas=workers, microbatch_size=samples)
            order = tuple(problem.order[k::members] for k in range(members))
            yield (
                degrees.build(
                    problem.graph, problem.needed_cluster, problem.job, devices=sum(order, start=())
                ),
                f"pipeline of {rounds}",
            )  # fmt: skip


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default=",".join(PUBLISHED))
    parser.add_argument("--cluster", default="dgx-1-v100-32")
    parser.add_argument("--most", type=int, default=256)
    parser.add_argument("--epochs", default="", help="BATCH:EPOCHS,... instead of the models' own")
    given = parser.parse_args()
    for model in given.models.split(","):
        job = default_workload(load_model(model)).job
        curve = tuple((int(b), float(e)) for b, e in (p.split(":") for p in given.epochs.split(",") if p))
        table(model, given.cluster, given.most, curve or job.epochs, float(job.samples_per_epoch))


def table(model: str, cluster: str, most: int, curve: Curve, samples: float) -> None:
    """Print the rows of a model, and what they come to."""
    batch, points, devices = SAMPLES.get(model, 64), list[Convergence](), 2
    singles = {1: step_of(model, cluster, 1, 1)}
    known = len(curve) > 1 and samples > 0
    last = "needed | gain" if known else "epochs as fast | for the paper's gain"
    print(f"\n{model} on {cluster}, {batch} samples a worker, epochs {dict(curve) if known else 'unknown'}")
    print(f"| devices | single, s | pairs, s | pairs are | speed-up of a pair | {last} |")
    print("|---|---|---|---|---|---|---|")
    while devices <= most:
        singles[devices], pairs = (step_of(model, cluster, devices, members) for members in (1, 2))
        row = [str(devices), *(f"{step.seconds:.4g}" if step else "" for step in (singles[devices], pairs))]
        row += [pairs.how if pairs else "do not fit"]
        one, few = singles[devices], singles[devices // 2]
        if one is not None and few is not None and pairs is not None:
            speedup, ratio = few.seconds / pairs.seconds, few.seconds / one.seconds
            row.append(f"{speedup:.3g}")
            even = 2 * ratio / speedup  # by what epochs must grow with twice the batch
            if known:
                epochs = [epochs_at(curve, batch * n) for n in (devices // 2, devices)]
                point = Convergence(
                    devices,
                    convergence_s(one.seconds, samples, batch * devices, epochs[1]),
                    convergence_s(pairs.seconds, samples, batch * devices // 2, epochs[0]),
                )
                points.append(point)
                star = "" if curve[0][0] <= batch * devices // 2 and batch * devices <= curve[-1][0] else "*"
                row += [f"{needed_speedup(2, ratio, epochs[0] / epochs[1]):.3g}", f"{point.gain:+.1%}{star}"]
            else:
                gain = 1 + PUBLISHED.get(model, 0.0) / 100
                row += [f"x {even:.3g}", f"x {even * gain:.3g}"]
        print(f"| {' | '.join([*row, *[''] * (7 - len(row))])} |", flush=True)
        devices *= 2
    if points:
        print(f"pairs are faster from {overtakes_at(points) or 'no number of'} devices on")
        print(f"best pairs over best single devices: {best_gain(points):+.1%}", end="; ")
        print(f"the paper's projection: {PUBLISHED.get(model, float('nan'))} %")


if __name__ == "__main__":
    main()
