"""Estimates of even plans: how many a core-second, and how far from `simulate`.

python benchmarks/estimates.py [--plans 100] [--seed 1]

The rate is of all even plans of GPT-3 175B on 1,024 A100 (time and memory, guess and bound), with the tables
empty, and with them filled once everything is compiled that will be; CPU time, with the loop of a million
empty rounds beside. The errors are of random plans of five models, by the pass that decides, with Kendall's
tau of all plans of a model.
"""

from __future__ import annotations

import argparse
import itertools
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from evaluate import empty_loop

import explorer
from explorer.base import compiling
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.strategies.degrees import EXCHANGES, RECOMPUTE, USUAL_BUCKET_BYTES, Degrees
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.estimates import Estimator
from explorer.workload import Job

PAIRS = (
    ("gpt3-175b", "dgx-a100-128"),
    ("llama3-8b", "dgx-a100-4"),
    ("bert-large", "rtx4090-pcie-4"),
    ("gpt2-xl", "ethernet-10g-4x4"),
    ("mixtral-8x7b", "hgx-h100-16"),
)
CHUNKED = ("interleaved_1f1b", "hanayo")
SCHEDULES = (
    *["1f1b"] * 5, *["interleaved_1f1b"] * 4, "gpipe", "zb_h1", "zb_h2", "zb_auto", "chimera", "hanayo",
    "1f1b_2bp", "gpipe_2bp",
)  # fmt: skip
MOST_TASKS = 6000
"""Stages times microbatches of a random plan, so that simulating it takes a fraction of a second."""


class Row(NamedTuple):
    """A random plan: ratios of the estimates to what `simulate` says."""

    model: str
    deciding: str
    step: float
    step_lower: float
    memory: float
    memory_lower: float
    guessed_s: float
    step_s: float


def powers(most: int) -> Iterator[int]:
    """1, 2, 4, ... up to a number."""
    return itertools.takewhile(lambda value: value <= most, (2**k for k in range(40)))


def space(cluster: Cluster, job: Job) -> DegreesColumns:
    """Every even plan with powers of two of devices, and 1F1B, interleaved 1F1B, GPipe or ZB-H1."""
    names = ("1f1b", "interleaved_1f1b", "gpipe", "zb_h1")
    shapes = []
    for t, p, d in itertools.product(powers(8), powers(64), powers(cluster.device_count)):
        for b in powers(8):
            if t * p * d > cluster.device_count or job.global_batch % (b * d):
                continue
            m = job.global_batch // (b * d)
            shapes += [(t, p, d, b, 1, kind) for kind in (0, 2, 3)]
            chunks = [v for v in (2, 3, 4, 6, 8, 12) if p * v <= 96]
            shapes += [(t, p, d, b, v, 1) for v in chunks if p > 1 and m % max(1, m // p) == 0]
    rest = list(itertools.product(range(len(RECOMPUTE)), range(4), (0, 1), (0, 1)))
    rows = [
        (*shape, *more)
        for shape in shapes
        for more in rest
        if (shape[0] > 1 or not more[2]) and (shape[2] > 1 or not more[3])
    ]
    t, p, d, b, v, kind, recompute, zero, sequence, buckets = np.array(rows, dtype=np.int64).T
    one = np.ones(len(rows), dtype=np.int64)
    return DegreesColumns(
        tensor=t, stages=p, replicas=d, context=one, expert=one, chunks=v, microbatch_size=b,
        recompute=recompute, zero=zero, sequence_parallel=sequence.astype(bool), context_exchange=0 * one,
        bucket_bytes=buckets * USUAL_BUCKET_BYTES, schedule=kind,
        schedules=tuple((name, ()) for name in names),
    )  # fmt: skip


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU seconds of some work, once."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def rate() -> None:
    """Print the plans a core-second."""
    graph, cluster = explorer.load_model("gpt3-175b"), explorer.load_cluster("dgx-a100-128")
    job = explorer.default_workload(graph).job
    columns = space(cluster, job)
    estimator = Estimator(graph, cluster, job)
    first = cpu_seconds(lambda: estimator.of(columns))
    compiling.expect(compiling.IMPORT_ROUNDS)
    for _ in range(3):
        estimator.of(columns)
    again = statistics.median(cpu_seconds(lambda: estimator.of(columns)) for _ in range(5))
    loop = statistics.median(cpu_seconds(empty_loop) for _ in range(5))
    count = len(columns)
    print(f"{count:,} plans of gpt3-175b on 1,024 devices; loop {1e3 * loop:.1f} ms")
    print(f"  tables empty   {first:7.2f} s   {count / first:12,.0f} plans a core-second")
    print(f"  tables filled  {again:7.2f} s   {count / again:12,.0f} plans a core-second")


def drawn(rng: random.Random, graph: LayerGraph, cluster: Cluster, job: Job) -> Degrees:
    """A random plan that the model, the cluster and its schedule allow."""
    while True:
        schedule = rng.choice(SCHEDULES)
        asked: dict[str, Any] = {
            "tensor": 2 ** rng.randint(0, 3), "stages": 2 ** rng.randint(0, 4),
            "replicas": 2 ** rng.randint(0, 5), "context": rng.choice([1, 1, 1, 1, 2]),
            "expert": rng.choice([1, 1, 2, 4, 8]), "microbatch_size": 2 ** rng.randint(0, 3),
            "chunks": rng.choice([2, 4] if schedule == "hanayo" else [2, 3, 4, 6]) * (schedule in CHUNKED),
            "recompute": rng.choice(RECOMPUTE), "zero": rng.choice([0, 0, 1, 1, 2, 3]),
            "sequence_parallel": rng.random() < 0.5, "context_exchange": rng.choice(list(EXCHANGES)),
            "bucket_bytes": rng.choice([0.0, 0.0, USUAL_BUCKET_BYTES]), "schedule": schedule,
        }  # fmt: skip
        try:
            degrees = Degrees(**asked)
            degrees.check(graph, cluster, job)
        except InputError:
            continue
        if job.global_batch // degrees.microbatch_samples * degrees.stage_count <= MOST_TASKS:
            return degrees


def compared(model: str, cluster_name: str, plans: int, seed: int) -> list[Row]:
    """Estimates of random plans of a model beside their simulation."""
    graph, cluster = explorer.load_model(model), explorer.load_cluster(cluster_name)
    workload = explorer.default_workload(graph)
    rng = random.Random(f"{model} {seed}")
    chosen = [drawn(rng, graph, cluster, workload.job) for _ in range(plans)]
    found = Estimator(graph, cluster, workload.job).of(DegreesColumns.of(chosen))
    rows = []
    for n, degrees in enumerate(chosen):
        report = explorer.simulate(graph, cluster, workload, degrees.build(graph, cluster, workload.job))
        step, peak = report.step_time_s, max(report.peak_memory_bytes)
        row = Row(
            model, report.pass_name, found.step_s[n] / step, found.step_lower_s[n] / step,
            found.memory_bytes[n] / peak, found.memory_lower_bytes[n] / peak, found.step_s[n], step,
        )  # fmt: skip
        rows.append(row)
    return rows


def kendall(rows: list[Row]) -> float:
    """Kendall's tau of guesses and simulation."""
    one, other = (np.array([getattr(row, key) for row in rows]) for key in ("guessed_s", "step_s"))
    i, j = np.triu_indices(len(rows), 1)
    return float(np.mean(np.sign(one[i] - one[j]) * np.sign(other[i] - other[j])))


def line(name: str, rows: list[Row]) -> str:
    """One line of errors."""
    step = np.abs(np.array([row.step for row in rows]) - 1)
    memory = np.abs(np.array([row.memory for row in rows]) - 1)
    bound = np.array([row.step_lower for row in rows])
    above = max(*bound, *(row.memory_lower for row in rows)) > 1 + 1e-12
    return (
        f"{name:24} {len(rows):4}   step {np.median(step):7.3%} {np.quantile(step, 0.9):7.2%}"
        f" {step.max():7.1%}   memory {np.median(memory):7.3%} {np.quantile(memory, 0.9):7.2%}"
        f"   bound {np.median(bound):7.2%}{'   ABOVE' if above else ''}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--plans", type=int, default=100, help="random plans of each of five models")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rate()
    rows = [row for pair in PAIRS for row in compared(*pair, asked.plans, asked.seed)]
    print(f"\n{'':24} plans   error: median, p90, most         median, p90        median of the bound")
    by_pass: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_pass[row.deciding].append(row)
        by_pass[f"{row.deciding} {row.model}"].append(row)
    for name in sorted(by_pass):
        print(line(name, by_pass[name]))
    taus = {model: kendall([row for row in rows if row.model == model]) for model, _ in PAIRS}
    print("tau   " + "   ".join(f"{model} {tau:.3f}" for model, tau in taus.items()))


if __name__ == "__main__":
    main()
