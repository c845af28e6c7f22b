"""Random chains under GPipe, 1F1B and Megatron's interleaved order, against a second model of them.

python benchmarks/oracle.py [chains] [seed]

The model below shares nothing with the product: it writes the three orders down as their papers do, runs
every rank's list with one transfer at a time on each wire, and counts what a rank keeps between forward and
backward. Compared are makespan, seconds of work and peak of activations of every rank, and the bubble.
"""

from __future__ import annotations

import random
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass

from explorer.cluster import Cluster, DeviceKind, Link, NodeGroup
from explorer.models.synthetic import chain
from explorer.simulation.report import MEMORY_PARTS
from explorer.simulation.simulate import simulate
from explorer.strategy import JobStrategy, Mesh, Stage, Strategy
from explorer.workload import Job, Workload

TOLERANCE = 1e-9
SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b")


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Stages dealt round the ranks, with seconds and bytes of one microbatch of one sample."""

    schedule: str
    ranks: int
    microbatches: int
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    sent_bytes: tuple[float, ...]
    kept_bytes: tuple[float, ...]
    latency_s: float
    bytes_per_s: float


# ---- the model ------------------------------------------------------------------------------------------


def orders(case: Chain) -> list[list[tuple[str, int, int]]]:
    """What each rank does, in order: (F or B, stage, microbatch)."""
    p, m, chunks = case.ranks, case.microbatches, len(case.forward_s) // case.ranks
    found = []
    for rank in range(p):
        if case.schedule == "interleaved_1f1b":  # groups of p microbatches, chunk after chunk
            turns = [(n // (p * chunks) * p + n % p, n // p % chunks) for n in range(m * chunks)]
            forwards = [("F", c * p + rank, i) for i, c in turns]
            backwards = [("B", (chunks - 1 - c) * p + rank, i) for i, c in turns]
            ahead = min(m * chunks, 2 * (p - rank - 1) + (chunks - 1) * p)
        else:
            forwards, backwards = ([(op, rank, i) for i in range(m)] for op in "FB")
            ahead = m if case.schedule == "gpipe" else min(m, p - rank - 1)
        order = forwards[:ahead]
        for i, backward in enumerate(backwards):
            order += [*forwards[ahead + i : ahead + i + 1], backward]
        found.append(order)
    return found


def run(case: Chain) -> tuple[float, list[float], list[float]]:
    """Makespan, and per rank seconds of work and the most bytes kept at once."""
    lists, last = orders(case), len(case.forward_s) - 1
    free, busy = [0.0] * case.ranks, [0.0] * case.ranks
    kept, peak, at = [0.0] * case.ranks, [0.0] * case.ranks, [0] * case.ranks
    wire: dict[tuple[int, int], float] = defaultdict(float)
    arrived: dict[tuple[str, int, int], float] = {("F", 0, i): 0.0 for i in range(case.microbatches)}
    while any(at[r] < len(lists[r]) for r in range(case.ranks)):
        for rank in range(case.ranks):
            while at[rank] < len(lists[rank]) and lists[rank][at[rank]] in arrived:
                op, stage, i = action = lists[rank][at[rank]]
                seconds = (case.forward_s if op == "F" else case.backward_s)[stage]
                end = free[rank] = max(free[rank], arrived[action]) + seconds
                busy[rank] += seconds
                kept[rank] += case.kept_bytes[stage] if op == "F" else -case.kept_bytes[stage]
                peak[rank] = max(peak[rank], kept[rank])
                at[rank] += 1
                if op == "F" and stage == last:
                    arrived["B", stage, i] = end
                target = stage + 1 if op == "F" else stage - 1
                if 0 <= target <= last:
                    to = target % case.ranks
                    if to != rank:
                        seconds = case.latency_s + case.sent_bytes[min(stage, target)] / case.bytes_per_s
                        end = wire[rank, to] = max(wire[rank, to], end) + seconds
                    arrived[op, target, i] = end
    return max(free), busy, peak


# ---- the product ----------------------------------------------------------------------------------------


def predicted(case: Chain) -> tuple[float, list[float], list[float], float]:
    """What `simulate` says, and its bubble."""
    graph = chain(
        case.forward_s, backward_s=case.backward_s, activation_bytes=case.sent_bytes,
        saved_bytes=case.kept_bytes, parameter_bytes=4.0,
    )  # fmt: skip
    kind = DeviceKind(
        name="any", memory_bytes=1e15, memory_bandwidth_bytes_per_s=1e12, peak_flops_per_s=(("fp32", 1e12),)
    )
    pairs = [(a, b) for a in range(case.ranks) for b in range(case.ranks) if a != b]
    cluster = Cluster(
        name="pairs", device_kinds=(kind,),
        nodes=(NodeGroup(count=1, device_kind="any", devices_per_node=case.ranks),), levels=(),
        links=tuple(
            Link(source=a, target=b, kind="nvlink", latency_s=case.latency_s,
                 bandwidth_bytes_per_s=case.bytes_per_s)
            for a, b in pairs
        ),
    )  # fmt: skip
    stages = tuple(
        Stage(layers=(f"layers.{s}",), meshes=(Mesh(devices=(s % case.ranks,)),), microbatch_samples=1)
        for s in range(len(case.forward_s))
    )
    job = Job(global_batch=case.microbatches, precision="fp32", optimizer="none")
    strategy = Strategy(jobs=(JobStrategy(stages=stages, schedule=case.schedule),))
    report = simulate(graph, cluster, Workload(jobs=(job,)), strategy)
    activations = [row[MEMORY_PARTS.index("activations")] for row in report.memory_parts_bytes]
    return report.makespan_s, list(report.busy_s), activations, report.bubble_fraction


def drawn(rng: random.Random) -> Chain:
    """A chain of any size, with zero seconds and bytes among the rest."""
    schedule = rng.choice(SCHEDULES)
    p = rng.randint(1, 8)
    chunks = rng.choice((2, 3)) if schedule == "interleaved_1f1b" else 1
    m = p * rng.randint(1, 3) if chunks > 1 else rng.randint(1, 16)
    count = p * chunks
    # between two ranks activations and gradients share a wire, whose order is the product's choice
    silent = chunks > 1 and p == 2
    return Chain(
        schedule=schedule, ranks=p, microbatches=m,
        forward_s=tuple(rng.choice((0.0, 1.0, rng.uniform(0.1, 3))) for _ in range(count)),
        backward_s=tuple(rng.choice((0.0, 2.0, rng.uniform(0.1, 5))) for _ in range(count)),
        sent_bytes=tuple(0.0 if silent else rng.choice((0.0, rng.uniform(1, 100))) for _ in range(count)),
        kept_bytes=tuple(rng.choice((0.0, rng.uniform(1, 100))) for _ in range(count)),
        latency_s=0.0 if silent else rng.choice((0.0, rng.uniform(0, 0.5))), bytes_per_s=rng.uniform(20, 400),
    )  # fmt: skip


def close(a: float, b: float) -> bool:
    """Equal up to rounding."""
    return abs(a - b) <= TOLERANCE * max(1.0, abs(a), abs(b))


def differences(case: Chain) -> list[str]:
    """What the two disagree on."""
    span, busy, kept = run(case)
    found = predicted(case)
    wrong = [] if close(span, found[0]) else [f"makespan {found[0]} for {span}"]
    wrong += [f"busy {found[1]} for {busy}"] * (not all(map(close, busy, found[1])))
    if not any(case.sent_bytes):  # what was received is kept too, for as long as the product says
        wrong += [f"kept {found[2]} for {kept}"] * (not all(map(close, kept, found[2])))
    bubble = 1 - sum(busy) / (case.ranks * span) if span else found[3]
    wrong += [f"bubble {found[3]} for {bubble}"] * (not close(bubble, found[3]))
    return wrong


def main() -> int:
    """Compare so many chains; print a line per schedule and every difference."""
    chains = int(sys.argv[1]) if len(sys.argv) > 1 else 600
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    seen, wrong = Counter[str](), Counter[str]()
    for _ in range(chains):
        case = drawn(rng)
        seen[case.schedule] += 1
        if found := differences(case):
            wrong[case.schedule] += 1
            print(f"{case}: {'; '.join(found)}", file=sys.stderr)
    print("| schedule | random chains | differ by more than 1e-9 |\n|---|---|---|")
    for name in SCHEDULES:
        print(f"| {name} | {seen[name]} | {wrong[name]} |")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
