"""When workers of two devices converge sooner than workers of one: DLPlacer's rule on simulated steps.

`python benchmarks/hybrid.py [--models inception-v3,...] [--most 256] [--cluster C] [--epochs 64:4,4096:7]`

Every number of devices is planned twice for the same samples a worker: each device a worker, and pairs. A
pair has its operators placed by DLPlacer's integer program, or is a pipeline of two even stages, whichever
step is shorter. Steps are simulated with all gradients exchanged; epochs are those of the model's own curve,
or those of `--epochs`; a star marks batches outside of it, which do not count in the end. Without a curve,
columns say by how much epochs would have to grow from half as many samples a step for pairs to be as fast,
and for the gain that the paper states.
"""

from __future__ import annotations

import argparse

from explorer.library._pairs import SAMPLES, USUAL, Curve, convergence, shortest_step
from explorer.models import load_model
from explorer.planners._pieces.hybrid_rule import Convergence, best_gain, needed_speedup, overtakes_at
from explorer.search.objectives import epochs_at
from explorer.workload import default_workload

PUBLISHED = {"inception-v3": 26.5, "gnmt-8": 8.0, "biglstm": 22.0}
"""Gains that the paper's abstract states, percent, at scale; it does not say which GNMT."""


def main() -> None:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", default=",".join(PUBLISHED))
    parser.add_argument("--cluster", default="dgx-1-v100-32")
    parser.add_argument("--most", type=int, default=256)
    parser.add_argument("--epochs", default="", help="BATCH:EPOCHS,... instead of the models' own")
    given = parser.parse_args()
    for model in given.models.split(","):
        curve = tuple((int(b), float(e)) for b, e in (p.split(":") for p in given.epochs.split(",") if p))
        table(model, given.cluster, given.most, curve or default_workload(load_model(model)).job.epochs)


def table(model: str, cluster: str, most: int, curve: Curve) -> None:
    """Print the rows of a model, and what they come to."""
    batch, points, devices = SAMPLES.get(model, USUAL), list[Convergence](), 2
    singles = {1: shortest_step(model, cluster, 1, 1)}
    known = len(curve) > 1
    last = "needed | gain" if known else "epochs as fast | for the paper's gain"
    print(f"\n{model} on {cluster}, {batch} samples a worker, epochs {dict(curve) if known else 'unknown'}")
    print(f"| devices | single, s | pairs, s | pairs are | speed-up of a pair | {last} |")
    print("|---|---|---|---|---|---|---|")
    while devices <= most:
        singles[devices], pairs = (shortest_step(model, cluster, devices, members) for members in (1, 2))
        row = [str(devices), *(f"{step.seconds:.4g}" if step else "" for step in (singles[devices], pairs))]
        row += [pairs.how if pairs else "do not fit"]
        one, few = singles[devices], singles[devices // 2]
        if one is not None and few is not None and pairs is not None:
            speedup, ratio = few.seconds / pairs.seconds, few.seconds / one.seconds
            row.append(f"{speedup:.3g}")
            even = 2 * ratio / speedup  # by what epochs must grow with twice the batch
            if known:
                epochs = [epochs_at(curve, batch * n) for n in (devices // 2, devices)]
                point = convergence(model, devices, (one, pairs), curve)
                within = curve[0][0] <= batch * devices // 2 and batch * devices <= curve[-1][0]
                points += [point] * within
                gain = f"{point.gain:+.1%}{'' if within else '*'}"
                row += [f"{needed_speedup(2, ratio, epochs[0] / epochs[1]):.3g}", gain]
            else:
                row += [f"x {even:.3g}", f"x {even * (1 + PUBLISHED.get(model, 0.0) / 100):.3g}"]
        print(f"| {' | '.join([*row, *[''] * (7 - len(row))])} |", flush=True)
        devices *= 2
    if points:
        print(f"pairs are faster from {overtakes_at(points) or 'no number of'} devices on")
        print(f"best pairs over best single devices: {best_gain(points):+.1%}", end="; ")
        print(f"the paper's projection: {PUBLISHED.get(model, float('nan'))} %")


if __name__ == "__main__":
    main()
