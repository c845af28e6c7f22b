"""The passes alone: nanoseconds a task, run plainly and compiled. `python benchmarks/passes.py`

Medians of CPU time over an already lowered and priced program; first compilations are counted apart. The
events pass is run on every case, whether it would decide there or not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator

from evaluate import empty_loop

import explorer
from explorer.base.compiling import forced
from explorer.passes import is_overfull, run_events, run_static
from explorer.simulation.report import Timeline

ROUNDS = 15
CASES = (
    ("gpt3-175b", "dgx-a100-128", {"stages": 8, "tensor": 8, "microbatches": 64}),
    ("gpt3-175b", "dgx-a100-128", {"stages": 64, "microbatches": 64}),
    ("gpt3-175b", "dgx-a100-128", {"stages": 64, "tensor": 8, "replicas": 2, "microbatches": 64}),
    ("llama3-405b", "hgx-h100-2048", {"stages": 16, "tensor": 8, "replicas": 128, "microbatches": 16}),
)


def cpu_ns(work: Callable[[], object]) -> float:
    """Median nanoseconds of CPU time of one call."""
    found = []
    for _ in range(ROUNDS):
        begun = time.process_time_ns()
        work()
        found.append(time.process_time_ns() - begun)
    return statistics.median(found)


def timeline_of(model: str, name: str, degrees: dict[str, int]) -> Timeline:
    """The priced program of a uniform plan."""
    graph, cluster = explorer.load_model(model), explorer.load_cluster(name)
    batch = degrees["microbatches"] * degrees.get("replicas", 1)
    workload = explorer.default_workload(graph).with_job(global_batch=batch)
    strategy = explorer.uniform(graph, cluster, workload.job, **degrees)
    return explorer.simulate(graph, cluster, workload, strategy).timeline


def passes(timeline: Timeline) -> Iterator[tuple[str, Callable[[], object]]]:
    """The parts of timing a program, by name."""
    program, prices = timeline.program, timeline.prices
    static = run_static(program, prices.seconds)
    yield "static", lambda: run_static(program, prices.seconds)
    yield "check", lambda: is_overfull(program, static, prices.shares)
    yield "events", lambda: run_events(program, prices.seconds, prices.shares)


def first_s(timeline: Timeline) -> float:
    """CPU seconds of the first compiled run: importing the compiler, and compiling or reading the code."""
    begun = time.process_time()
    for _, run in passes(timeline):
        run()
    return time.process_time() - begun


def main() -> None:
    """Print a table."""
    loop_ms = cpu_ns(empty_loop) / 1e6
    timelines = [timeline_of(*case) for case in CASES]
    with forced(compiled=False):
        plain = [{name: cpu_ns(run) for name, run in passes(item)} for item in timelines]
    with forced(compiled=True):
        begun_s = first_s(timelines[0])
        compiled = [{name: cpu_ns(run) for name, run in passes(item)} for item in timelines]
    print(f"loop {loop_ms:.1f} ms; first compiled run {begun_s:.2f} s\n")
    print("| case | tasks | part | plain, ns a task | compiled, ns a task | compiled, ms | in loops |")
    print("|---|---|---|---|---|---|---|")
    for case, item, slow, fast in zip(CASES, timelines, plain, compiled, strict=True):
        size = item.program.size
        title = f"{case[0]} " + " ".join(f"{key[0]}={value}" for key, value in case[2].items())
        for name in slow:
            ms = fast[name] / 1e6
            print(
                f"| {title} | {size} | {name} | {slow[name] / size:.1f} | {fast[name] / size:.1f} |"
                f" {ms:.3f} | {ms / loop_ms:.4f} |"
            )


if __name__ == "__main__":
    main()
