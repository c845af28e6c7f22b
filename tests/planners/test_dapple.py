"""DAPPLE's planner: the latency in words of its own, all plans of small lines, policies, published plans."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from explorer.library._ideal import free_cluster
from explorer.models.synthetic import chain
from explorer.planners._pieces.line import line_of
from explorer.planners._pieces.machines import Allocation, next_allocations
from explorer.planners._pieces.pivot_latency import latency_s
from explorer.planners._pieces.stage_costs import Load
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.dapple import partitions
from explorer.search import Problem, search
from explorer.search.evaluator import Candidate
from explorer.workload import default_workload
from tests.planners.test_edgepipe import crossing, random_line

Part = tuple[float, float, float]


def latency_in_words(parts: list[Part], m: int) -> float:
    """The pivot is sought from behind; each part ends B after the parts between it and the pivot."""
    last = len(parts) - 1
    q = last
    for s in range(last - 1, -1, -1):
        between = sum(f + b for f, b, _ in parts[s + 1 : q])
        if (m - 1) * sum(parts[s][:2]) > (m - 1) * sum(parts[q][:2]) + between:
            q = s
    ends = []
    for s, (_, _, reduced) in enumerate(parts):
        if s <= q:
            ends.append(reduced + sum(b for _, b, _ in parts[s : q + 1]))
        else:
            ends.append(reduced - sum(b for _, b, _ in parts[q + 1 : s]))
    return sum(f for f, _, _ in parts[: q + 1]) + (m - 1) * sum(parts[q][:2]) + max(ends)


def test_the_latency_is_that_of_the_paper() -> None:
    draw = random.Random(0)
    pivots_inside = 0
    for _ in range(300):
        m = draw.randint(1, 12)
        parts = [
            tuple(draw.choice([0.0, 0.1, draw.uniform(0, 3)]) for _ in range(3))
            for _ in range(draw.randint(1, 7))
        ]
        ours = float(latency_s([[np.array(x) for x in part] for part in parts], m))
        assert ours == pytest.approx(latency_in_words(parts, m), rel=1e-12)  # type: ignore[arg-type]
        pivots_inside += (m - 1) * sum(parts[-1][:2]) < (m - 1) * max(sum(p[:2]) for p in parts)
    assert pivots_inside > 100


def test_equal_stages_take_the_seconds_of_a_pipeline_with_a_flush() -> None:
    """(m + p - 1)(F + B), and the reduction of the first stage behind it."""
    stage = [np.array(1.0), np.array(2.0), np.array(0.5)]
    assert float(latency_s([stage] * 4, 8)) == (8 + 3) * 3 + 0.5


def test_policies_take_whole_machines_begun_ones_or_all_alike() -> None:
    assert next_allocations((8, 8), (0, 0), 8) == ((8, 0), (8, 0), (4, 4))
    assert next_allocations((8, 8), (3, 0), 6) == ((3, 6), (8, 1), (8, 1))
    assert next_allocations((4, 4, 4), (1, 2, 0), 3) == ((1, 2, 3), (4, 2, 0), (3, 3, 0))
    for sizes in ((2, 3), (1, 1, 1), (4,)):
        for used in itertools.product(*(range(size + 1) for size in sizes)):
            for count in range(1, sum(sizes) - sum(used) + 1):
                for found in next_allocations(sizes, used, count):
                    assert sum(found) - sum(used) == count
                    assert all(u <= f <= s for u, f, s in zip(used, found, sizes, strict=True))


class Case:
    """A small line on machines, its links slower between machines than inside."""

    def __init__(self, draw: random.Random) -> None:
        self.work: WorkGraph = random_line(draw, 1, most=5)
        self.line = line_of(self.work)
        self.sizes: Allocation = draw.choice([(2, 2), (3,), (1, 1, 1), (2, 1), (1, 1, 1, 1)])
        self.m = draw.randint(1, 8)
        self.inside, self.across = draw.uniform(1, 5), draw.uniform(0.2, 1)
        self.room = draw.choice([math.inf, math.inf, 6.0])

    def rate(self, *ends: Allocation) -> float:
        machines = {k for a, b in itertools.pairwise(ends) for k in range(len(a)) if b[k] > a[k]}
        return self.across if len(machines) > 1 else self.inside

    def load(self, before: Allocation, after: Allocation) -> Load:
        r = sum(after) - sum(before)
        runs = np.isfinite(self.line.seconds[0])
        own = np.where(runs, self.line.seconds[0] / r, 0.0)
        reduced = 2 * (r - 1) / r * self.line.reduced_bytes / self.rate(before, after)
        return Load(own / 3, 2 * own / 3, reduced, runs & (self.line.held_bytes <= self.room))

    def sent(self, before: Allocation, at: Allocation, after: Allocation) -> np.ndarray:
        return self.line.sent_bytes / self.rate(before, at, after)

    def seconds(self, cuts: tuple[int, ...], ends: tuple[Allocation, ...]) -> float:
        """T of a plan, from sums of its own."""
        parts: list[Part] = []
        for k, (a, b) in enumerate(itertools.pairwise(cuts)):
            if k:
                x = crossing(self.work, a) / self.rate(*ends[k - 1 : k + 2])
                parts.append((x, x, 0.0))
            if sum(self.work.held_bytes[a:b]) > self.room:
                return math.inf
            r = sum(ends[k + 1]) - sum(ends[k])
            work = sum(self.work.seconds[0][a:b]) / r
            reduced = 2 * (r - 1) / r * sum(self.work.reduced_bytes[a:b]) / self.rate(*ends[k : k + 2])
            parts.append((work / 3, 2 * work / 3, reduced))
        return latency_in_words(parts, self.m)

    def ends(self, used: Allocation, stages: int) -> list[tuple[Allocation, ...]]:
        """Every sequence of allocations that policies make of so many more stages, the last on the rest."""
        if stages == 1:
            return [(self.sizes,)] if used != self.sizes else []
        return [
            (more, *rest)
            for count in range(1, sum(self.sizes) - sum(used))
            for more in dict.fromkeys(next_allocations(self.sizes, used, count))
            for rest in self.ends(more, stages - 1)
        ]

    def brute_force(self) -> float:
        n, nothing = self.work.count, (0,) * len(self.sizes)
        return min(
            self.seconds((0, *cuts, n), (nothing, *ends))
            for stages in range(1, min(n, sum(self.sizes)) + 1)
            for cuts in itertools.combinations(range(1, n), stages - 1)
            for ends in self.ends(nothing, stages)
        )


def test_plans_cost_what_they_say_and_none_is_better() -> None:
    """One plan of each beginning is kept, which might miss the best; of these cases it does in none."""
    draw, over = random.Random(1), []
    for _ in range(150):
        case = Case(draw)
        found = [
            plan
            for plan in partitions(case.load, case.sent, case.sizes, case.work.count, case.m)
            if plan is not None
        ]
        for plan in found:
            cuts = (0, *(stage.stop for stage in plan.stages))
            ends = ((0,) * len(case.sizes), *(stage.after for stage in plan.stages))
            assert [s.start for s in plan.stages] == list(cuts[:-1])
            assert (cuts[-1], ends[-1]) == (case.work.count, case.sizes)
            assert plan.seconds == pytest.approx(case.seconds(cuts, ends), rel=1e-9)
        least = case.brute_force()
        best = min((plan.seconds for plan in found), default=math.inf)
        assert best >= least * (1 - 1e-9)
        over.append(best / least - 1 if least < math.inf else float(best < math.inf))
    assert max(over) < 1e-9


def tried(layers: int, *, batch: int, size: int, bytes_per_s: float) -> dict[tuple[int, ...], Candidate]:
    """Candidates by the devices of their stages: layers of 1 + 2 s, 1000 bytes of weights, 8 devices."""
    graph = chain([1.0] * layers, parameter_bytes=1000.0)
    workload = default_workload(graph).with_job(global_batch=batch)
    problem = Problem(graph=graph, cluster=free_cluster(8, bytes_per_s), workload=workload)
    found = search(problem, "dapple", options={"microbatch_size": str(size)})
    return {
        tuple(stage.device_count for stage in item.new.strategy.job.stages): item.new
        for item in found
        if item.new is not None
    }


def test_microbatches_of_one_sample_make_an_even_straight_pipeline() -> None:
    """(m + p - 1)(F + B) of two layers on each: devices that are left take their part of one sample's work.

    If they took as long as one of them, the first stages would be cut far too small.
    """
    straight = tried(16, batch=16, size=1, bytes_per_s=1e30)[(1,) * 8]
    assert {len(stage.layers) for stage in straight.strategy.job.stages} == {2}
    assert straight.value == (16 + 8 - 1) * 2 * 3.0


def test_data_parallelism_is_judged_whatever_its_latency() -> None:
    """In one round, where T, in which 8000 bytes at 100 bytes/s follow the last backward, has it last."""
    found = tried(8, batch=64, size=8, bytes_per_s=100.0)
    assert found[(8,)].strategy.job.stages[0].microbatch_samples == 64
    assert found[(8,)].value == max(item.value for item in found.values())
    assert len(found) > 3
