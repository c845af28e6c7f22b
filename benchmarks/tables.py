"""Seconds to make the cost tables of a search, and nanoseconds of one look-up.

python benchmarks/tables.py [--models gpt3-175b llama3-405b] [--repeats N]

The choices are those of a search: tensor sizes 1, 2, 4 and 8 with and without sequence parallelism,
microbatches of 1, 2, 4 and 8 samples, three recomputations and four levels of ZeRO, over 1 to 16 pipeline
positions with all devices that are left as replicas. A table starts empty, in a process that has loaded the
model; "sharding" is the first question to each layout. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import explorer
from explorer.tables import StageChoice, StageTable, even_bounds

CLUSTERS = {"gpt3-175b": "dgx-a100-128", "llama3-405b": "hgx-h100-2048"}
TENSOR = ((1, False), (2, False), (2, True), (4, False), (4, True), (8, False), (8, True))
MICROBATCHES, RECOMPUTE, ZERO = (1, 2, 4, 8), ("none", "selective", "full"), (0, 1, 2, 3)
POSITIONS = (1, 2, 4, 8, 16)
LOOKED_UP = 100_000


def choices(devices: int) -> list[StageChoice]:
    """Every choice for a stage, on the first devices."""
    return [
        StageChoice(
            tensor=tensor, sequence_parallel=split, replicas=devices // (tensor * p), microbatch_size=size,
            recompute=again, zero=zero,
        )
        for tensor, split in TENSOR
        for p in POSITIONS
        for size in MICROBATCHES
        for again in RECOMPUTE
        for zero in ZERO
    ]  # fmt: skip


def took(work: Callable[[], object]) -> float:
    """Seconds of the processor that some work took."""
    start = time.process_time()
    work()
    return time.process_time() - start


def loop() -> float:
    """Milliseconds of a million rounds of an empty loop."""

    def rounds() -> None:
        for _ in range(1_000_000):
            pass

    return 1e3 * took(rounds)


def built(name: str) -> dict[str, float]:
    """Milliseconds of every part of a search's tables."""
    # copies remember nothing of what was made for the models that are loaded
    graph, cluster = replace(explorer.load_model(name)), replace(explorer.load_cluster(CLUSTERS[name]))
    job = explorer.default_workload(graph).job
    bounds = even_bounds(graph, POSITIONS)
    table = StageTable(graph, cluster, job)
    first, stop = np.array([0]), np.array([len(graph.layers)])
    every = choices(cluster.device_count)
    found: dict[str, float] = {}

    def of_all(work: Callable[[StageChoice, np.ndarray, np.ndarray], object]) -> Callable[[], None]:
        def run() -> None:
            for choice in every:
                cuts = bounds[cluster.device_count // choice.devices]
                work(choice, cuts[:-1], cuts[1:])

        return run

    found["sharding"] = took(
        lambda: [table.columns(StageChoice(tensor=t, sequence_parallel=s)) for t, s in TENSOR]
    )
    found["seconds"] = took(lambda: [table.columns(choice) for choice in every])
    found["bytes"] = took(lambda: [table.memory(StageChoice(tensor=t, sequence_parallel=s), first, stop)
                                   for t, s in TENSOR])  # fmt: skip
    found["exchanges"] = took(of_all(table.exchange))
    found["all again"] = took(of_all(table.runs))
    rng = np.random.default_rng(0)
    cuts = even_bounds(graph, [32])[32]
    run = rng.integers(0, 32, LOOKED_UP)
    starts, stops = cuts[run], cuts[run + 1]
    choice = StageChoice(tensor=8, sequence_parallel=True, recompute="selective", zero=1, replicas=16)
    table.runs(choice, starts, stops)
    for part in ("seconds", "memory", "exchange"):
        look_up = getattr(table, part)
        found[f"{part}, ns a run"] = 1e6 * took(lambda f=look_up: f(choice, starts, stops)) / LOOKED_UP
    return {key: 1e3 * value for key, value in found.items()}


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="*", default=list(CLUSTERS), choices=list(CLUSTERS))
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{len(choices(1024))} choices; loop {loop():.1f} ms")
    for name in options.models:
        runs = [built(name) for _ in range(options.repeats)]
        print(f"\n{name} on {CLUSTERS[name]}, ms where nothing else is said")
        for key in runs[0]:
            print(f"  {key:24}{np.median([run[key] for run in runs]):10.1f}")


if __name__ == "__main__":
    main()
