"""Divisions with little traffic: refinement ends at a local optimum; every division of small graphs."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from explorer.planners._pieces.earliest_finish import Workers, earliest_finish
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.min_cut import (
    Caps,
    Level,
    coarser,
    divided,
    greedy,
    level_of,
    matched,
    migrated,
    refined,
)
from tests.planners.random_work import random_work
from tests.planners.test_tensorflow_greedy import random_workers


def random_level(draw: random.Random, *, most: int = 8) -> Level:
    n = draw.randint(2, most)
    sent = np.zeros((n, n))
    for u, v in itertools.combinations(range(n), 2):
        if draw.random() < 0.5:
            sent[u, v] = sent[v, u] = draw.uniform(0.1, 3)
    held = [draw.choice([0.0, 1.0, 2.0]) for _ in range(n)]
    return Level(np.array([draw.uniform(0.2, 2) for _ in range(n)]), np.array(held), sent)


def caps_of(draw: random.Random, level: Level, parts: int) -> Caps:
    room = draw.choice([math.inf, 1.5 * level.held_bytes.sum() / parts + 2])
    return Caps(np.full(parts, 1.3 * level.seconds.sum() / parts + level.seconds.max()), np.full(parts, room))


def cut_of(level: Level, device: np.ndarray) -> float:
    return float(level.sent_bytes[np.not_equal.outer(device, device)].sum() / 2)


def fits(level: Level, caps: Caps, device: np.ndarray) -> bool:
    return all(
        level.seconds[device == d].sum() <= caps.seconds[d] + 1e-12
        and level.held_bytes[device == d].sum() <= caps.bytes[d]
        for d in range(len(caps.seconds))
    )


@pytest.mark.parametrize("parts", [2, 3])
def test_refinement_ends_where_no_single_move_sends_less_and_mostly_at_the_least(parts: int) -> None:
    draw, least_found, compared = random.Random(parts), 0, 0
    for _ in range(60):
        level = random_level(draw, most=8 if parts == 2 else 6)
        caps = caps_of(draw, level, parts)
        start = greedy(level, caps)
        if start is None or not fits(level, caps, start):
            continue
        found = refined(level, caps, start)
        assert fits(level, caps, found)
        assert cut_of(level, found) <= cut_of(level, start) + 1e-12
        for v, d in itertools.product(range(len(found)), range(parts)):
            moved = found.copy()
            moved[v] = d
            assert not fits(level, caps, moved) or cut_of(level, moved) >= cut_of(level, found) - 1e-9
        every = (np.array(item) for item in itertools.product(range(parts), repeat=len(found)))
        least = min(cut_of(level, item) for item in every if fits(level, caps, item))
        assert cut_of(level, found) >= least - 1e-9
        compared += 1
        least_found += cut_of(level, found) <= least + 1e-9
    assert compared > 40
    assert least_found > 0.7 * compared


def test_joining_keeps_work_and_traffic_between_what_stays_apart() -> None:
    draw = random.Random(3)
    for _ in range(40):
        level = random_level(draw, most=10)
        joined = matched(level, 3.0)
        made = coarser(level, joined)
        assert made.seconds.sum() == pytest.approx(level.seconds.sum())
        assert np.bincount(joined).max() <= 2
        device = np.array([draw.randrange(3) for _ in made.seconds])
        assert cut_of(made, device) == pytest.approx(cut_of(level, device[joined]))
        for pair in (np.flatnonzero(joined == k) for k in range(len(made.seconds))):
            assert len(pair) == 1 or (level.sent_bytes[tuple(pair)] > 0 and made.seconds.max() <= 3.0 + 1e-9)


def test_two_groups_that_exchange_little_are_divided_between_them() -> None:
    """Two rings of twelve nodes each, joined by one small tensor, with nodes in turn from either."""
    edges = [(2 * k + g, 2 * k + g + 2, 10.0) for g in (0, 1) for k in range(11)] + [(0, 1, 0.1)]
    above = [0] * 24
    for u, v, _ in sorted(edges, key=lambda edge: edge[1]):
        above[v] |= above[u] | 1 << u
    work = WorkGraph(
        members=tuple((v,) for v in range(24)), above=tuple(above), seconds=np.ones((1, 24)),
        held_bytes=np.zeros(24), reduced_bytes=np.zeros(24), producer=np.array([u for u, _, _ in edges]),
        readers=tuple((v,) for _, v, _ in edges), transfer_s=np.array([size for *_, size in edges]),
    )  # fmt: skip
    workers = Workers((0, 0), (math.inf, math.inf), np.zeros((2, 2)), np.ones((2, 2)))
    device = divided(work, workers, 0.1)
    assert device is not None
    assert {device[v] for v in range(0, 24, 2)} != {device[v] for v in range(1, 24, 2)}
    assert len(set(device[::2])) == len(set(device[1::2])) == 1


def test_divisions_fit_and_migration_only_ever_helps() -> None:
    draw, divisions, helped = random.Random(9), 0, 0
    for _ in range(120):
        work, workers = random_work(draw, most=9), random_workers(draw, 1)
        device = divided(work, workers, 0.3)
        if device is None:
            continue
        divisions += 1
        held = np.bincount(device, work.held_bytes, minlength=len(workers.kind))
        assert (held <= np.array(workers.room_bytes)).all()
        moved = migrated(work, workers, device)
        if moved is not None:
            before, after = (
                earliest_finish(work, workers, may=lambda v, on=on: (on[v],))  # type: ignore[misc]
                for on in (device, moved)
            )
            assert after is not None
            assert before is None or after.makespan_s < before.makespan_s
            helped += 1
    assert divisions > 60
    assert 0 < helped < divisions
    assert level_of(work).sent_bytes.sum() == pytest.approx(
        2 * sum(len(r) * s for r, s in zip(work.readers, work.transfer_s, strict=True))
    )
