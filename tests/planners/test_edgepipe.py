"""EdgePipe's program over device subsets: every sequence of devices and every cut of small lines."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from explorer.planners._pieces.line import Line, line_of
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.edgepipe import least_bottleneck


def random_line(draw: random.Random, kinds: int, *, most: int = 6) -> WorkGraph:
    """A chain, with tensors that skip nodes."""
    n = draw.randint(1, most)
    pairs = [(u, v) for u in range(n) for v in range(u + 1, n) if v == u + 1 or draw.random() < 0.2]
    made = sorted({u for u, _ in pairs})
    return WorkGraph(
        members=tuple((v,) for v in range(n)),
        above=tuple((1 << v) - 1 for v in range(n)),
        seconds=np.array([[draw.uniform(0, 3) for _ in range(n)] for _ in range(kinds)]),
        held_bytes=np.array([float(draw.randint(0, 3)) for _ in range(n)]),
        reduced_bytes=np.array([float(draw.randint(0, 3)) for _ in range(n)]),
        producer=np.array(made, dtype=np.int64),
        readers=tuple(tuple(v for u, v in pairs if u == p) for p in made),
        transfer_s=np.array([draw.uniform(0, 2) for _ in made]),
    )


def crossing(work: WorkGraph, cut: int) -> float:
    """Bytes of tensors that are made before a cut and read behind it."""
    tensors = zip(work.producer.tolist(), work.readers, work.transfer_s.tolist(), strict=True)
    return sum(size for p, readers, size in tensors if p < cut <= max(readers))


def brute_force(work: WorkGraph, kinds: list[int], rooms: list[float], rate: np.ndarray) -> float:
    """Every sequence of devices (given by their kinds), every cut."""
    best, n = math.inf, work.count
    for length in range(1, len(kinds) + 1):
        for chosen in set(itertools.permutations(kinds, length)):
            for inner in itertools.combinations(range(1, n), length - 1):
                ends = (0, *inner, n)
                value = 0.0
                for place, (u, (a, b)) in enumerate(zip(chosen, itertools.pairwise(ends), strict=True)):
                    fits = sum(work.held_bytes[a:b]) <= rooms[u]
                    value = max(value, sum(work.seconds[u][a:b]) if fits else math.inf)
                    if place:
                        value = max(value, crossing(work, a) / rate[chosen[place - 1], u])
                best = min(best, value)
    return best


@pytest.mark.parametrize("seed", range(4))
def test_no_sequence_of_devices_is_better(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        counts = [draw.randint(1, 2) for _ in range(draw.choice([1, 2, 2]))]
        work = random_line(draw, len(counts))
        rate = np.array([[draw.uniform(0.5, 3) for _ in counts] for _ in counts])
        rooms = [draw.choice([math.inf, 6.0, 4.0]) for _ in counts]
        kinds = [kind for kind, count in enumerate(counts) for _ in range(count)]
        least = brute_force(work, kinds, rooms, rate)
        line: Line = line_of(work)
        found = least_bottleneck(line, counts, rooms, rate)
        assert (found.seconds if found else math.inf) == pytest.approx(least, rel=1e-12)
        if found is not None:
            ends = [0, *(stage.stop for stage in found.stages)]
            assert [stage.start for stage in found.stages] == ends[:-1]
            assert ends[-1] == work.count
            assert all(sum(s.kind == k for s in found.stages) <= count for k, count in enumerate(counts))
            slowest = max(line.seconds[s.kind, s.start, s.stop] for s in found.stages)
            assert slowest <= found.seconds


def test_a_slow_device_is_left_out() -> None:
    """Two equal nodes; a third device a hundred times as slow is not worth a stage."""
    work = random_line(random.Random(3), 1, most=1)
    fast = np.array([[1.0, 1.0], [100.0, 100.0]])
    pair = WorkGraph(
        members=((0,), (1,)), above=(0, 1), seconds=fast, held_bytes=np.zeros(2), reduced_bytes=np.zeros(2),
        producer=np.array([0]), readers=((1,),), transfer_s=np.array([0.5]),
    )  # fmt: skip
    found = least_bottleneck(line_of(pair), [2, 1], [math.inf, math.inf], np.ones((2, 2)))
    assert found is not None
    assert [stage.kind for stage in found.stages] == [0, 0]
    assert found.seconds == 1.0
    assert least_bottleneck(line_of(work), [1], [-1.0], np.ones((1, 1))) is None
