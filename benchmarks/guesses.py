"""How close the guesses of schedules come to their own orders, on random pipelines.

usage: python benchmarks/guesses.py [SHAPES]

A row for every schedule whose guess is no path of its order: how far that of a step is from the step of the
order, in per cent, on stages like those of a model (equal but for the loss, transfers up to a twentieth of a
forward) and on uneven ones (seconds 40 % up or down, transfers up to two forwards). Prints the table of
docs/guesses.md.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from explorer.schedules import SCHEDULES, Schedule
from tests.schedules.test_estimates import after, batch, drawn, ordered
from tests.schedules.uneven import step_seconds


def errors(schedule: Schedule, shapes: int, *, wild: bool) -> list[float]:
    """Return guess over step, less one, of some random shapes."""
    rng, found = random.Random(11), []
    for _ in range(shapes):
        shape, costs, p, chunks = drawn(schedule, rng, wild=wild)
        step = step_seconds(ordered(schedule, shape), shape, costs)
        (guess,) = schedule.estimate_s(batch(schedule, shape, costs, p, chunks), after(costs))
        found.append(float(guess) / step - 1)
    return found


def main() -> None:
    """Print the table."""
    shapes = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    print("| | like a model: mean | median size | 90 % | worst | uneven: mean | median size | 90 % | worst |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for schedule in SCHEDULES:
        if schedule.estimate is None or schedule.dispatch or schedule.literal or schedule.costly:
            continue
        cells = []
        for wild in (False, True):
            signed = np.array(errors(schedule, shapes, wild=wild))
            size = np.abs(signed)
            numbers = (signed.mean(), np.median(size), np.quantile(size, 0.9), signed[size.argmax()])
            cells += [f"{100 * value:.1f}" for value in numbers]
        print(f"| `{schedule.name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
