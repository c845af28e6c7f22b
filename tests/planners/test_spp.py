"""SPP's partition along an order of devices: every cut and every number of replicas of small lines."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from explorer.planners._pieces.line import line_of
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.spp import device_order, partitions
from tests.planners.test_edgepipe import crossing, random_line


def brute_force(work: WorkGraph, rate: np.ndarray, m: int, room: float, count: int) -> float:
    """The longest of work, reductions and transfers of every plan of so many stages on all devices."""
    best, n, devices = math.inf, work.count, len(rate)
    for cuts in itertools.combinations(range(1, n), count - 1):
        for places in itertools.combinations(range(1, devices), count - 1):
            value, before = 0.0, 0
            ends = list(itertools.pairwise((0, *cuts, n)))
            for k, ((a, b), (i, j)) in enumerate(
                zip(ends, itertools.pairwise((0, *places, devices)), strict=True)
            ):
                r = j - i
                slowest = max(sum(work.seconds[d][a:b]) for d in range(i, j))
                link = min((rate[d, e] for d in range(i, j) for e in range(i, j) if d != e), default=math.inf)
                reduced = 2 * (r - 1) / r * sum(work.reduced_bytes[a:b]) / link
                value = max(value, m * slowest / r, reduced)
                if sum(work.held_bytes[a:b]) > room:
                    value = math.inf
                if k:
                    near = min(rate[d, e] for d in range(i - before, i) for e in range(i, j))
                    value = max(value, m * crossing(work, a) / (min(before, r) * near))
                before = r
            best = min(best, value)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_no_plan_along_the_order_is_better(seed: int) -> None:
    draw = random.Random(seed)
    compared = 0
    for _ in range(30):
        devices = draw.randint(1, 5)
        work = random_line(draw, devices, most=5)
        rate = np.array([[draw.uniform(0.5, 3) for _ in range(devices)] for _ in range(devices)])
        rate = (rate + rate.T) / 2
        np.fill_diagonal(rate, np.inf)
        m, room = draw.randint(1, 8), draw.choice([math.inf, 6.0])
        found = {
            len(plan.stages): plan
            for plan in partitions(line_of(work), rate, m, room_bytes=room, most_stages=4)
        }
        for count in range(1, min(4, devices, work.count) + 1):
            least = brute_force(work, rate, m, room, count)
            assert (found[count].seconds if count in found else math.inf) == pytest.approx(least, rel=1e-9)
            compared += count in found
        for plan in found.values():
            assert [s.start for s in plan.stages] == [0, *(s.stop for s in plan.stages[:-1])]
            assert [s.first for s in plan.stages] == [
                0,
                *itertools.accumulate(s.replicas for s in plan.stages),
            ][:-1]
    assert compared > 40


def test_devices_that_are_far_from_each_other_are_far_apart() -> None:
    """Two nodes whose devices are numbered in turn: each node's stay together."""
    rate = np.full((6, 6), 1.0)
    for a, b in itertools.product(range(6), repeat=2):
        if a % 2 == b % 2:
            rate[a, b] = 10.0
    assert device_order(rate) == [0, 2, 4, 1, 3, 5]
    assert device_order(np.ones((4, 4))) == [0, 1, 2, 3]
