"""Caches stay small over a long session: by count, and by the size of what they keep alive."""

from __future__ import annotations

import itertools
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import explorer
from explorer.base.caching import (
    BOUNDS,
    MEBIBYTE,
    Hashed,
    IdentityCache,
    Same,
    interned,
    remembered,
    remembered_each,
)
from explorer.simulation import one_job
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.tables import DegreesColumns, Estimator, estimates
from explorer.tables.stage_lanes import COLUMNS


def test_identity_cache_forgets_all_when_full() -> None:
    cache, made = IdentityCache(3), []

    def make(value: str) -> str:
        made.append(value)
        return value

    objects = [object() for _ in range(4)]
    for _ in range(2):
        for i in range(3):
            assert cache.get((objects[i],), "key", lambda i=i: make(str(i))) == str(i)
    assert made == ["0", "1", "2"]
    cache.get((objects[3],), "key", lambda: make("3"))
    cache.get((objects[0],), "key", lambda: make("again"))
    assert made == ["0", "1", "2", "3", "again"]


def test_what_is_remembered_is_limited_by_sizes() -> None:
    made: list[int] = []

    @remembered(100, total=10, size_of=len)
    def length(items: tuple[int, ...]) -> int:
        made.append(len(items))
        return len(items)

    small, large = (1, 2, 3), tuple(range(50))
    for _ in range(3):
        length(small)
    assert made == [3]
    for _ in range(2):  # larger than all there may be: kept alone, until the next
        length(large)
    assert length(small) == 3
    assert made == [3, 50, 3]


def test_arrays_that_are_remembered_are_bounded_by_bytes() -> None:
    made: list[int] = []

    @remembered(100, most_bytes=1000)
    def zeros(bytes_: int) -> dict[str, np.ndarray]:
        made.append(bytes_)
        return {"all": np.zeros(bytes_ // 8), "half": np.zeros(2)[:1]}

    held = BOUNDS[-1].held_bytes
    for size in (400, 480, 400, 480):
        zeros(size)
    assert made == [400, 480]
    assert held() == 880 + 32
    zeros(400)
    zeros(80)  # one too many: what was asked for longest ago is forgotten
    assert held() == 480 + 32
    zeros(400)
    zeros(8000)  # larger than all there may be: kept alone
    assert held() == 8016
    assert made == [400, 480, 80, 8000]


def test_caches_bounded_by_bytes_hold_a_quarter_of_a_gibibyte_at_most() -> None:
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100-128")
    estimator = Estimator(graph, cluster, explorer.default_workload(graph).job)
    for tensor, samples, recompute in itertools.product((1, 2, 4), (1, 2, 4), RECOMPUTE):
        estimator.one(
            Degrees(stages=4, tensor=tensor, replicas=8, microbatch_size=samples, recompute=recompute)
        )
    bounds = [item for item in BOUNDS if item.function.startswith("explorer.")]
    assert sum(item.most_bytes for item in bounds) <= 256 * MEBIBYTE
    held = {item.function.rpartition(".")[2]: item.held_bytes() for item in bounds}
    assert all(held[item.function.rpartition(".")[2]] <= item.most_bytes for item in bounds)
    filled = ("count_grids", "layer_columns", "layer_costs", "_sharded", "COLUMNS")
    assert min(held[name] for name in filled) > 0


def test_an_estimator_begins_anew_when_its_costs_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100-128")
    job = explorer.default_workload(graph).job
    plans = [
        DegreesColumns.of([Degrees(stages=stages, tensor=tensor, replicas=4) for tensor in (1, 2, 4)])
        for stages in (8, 6, 4, 3, 2)
    ]
    whole = Estimator(graph, cluster, job)
    expected = [whole.of(item) for item in plans]
    monkeypatch.setattr(estimates, "MOST_BYTES", whole.held_bytes // 2)
    small = Estimator(graph, cluster, job)
    held = []
    for item, right in zip(plans * 2, expected * 2, strict=True):
        COLUMNS.forget()
        assert np.array_equal(small.of(item), right)
        held.append(small.held_bytes)
    assert any(b < a for a, b in itertools.pairwise(held)), "it did begin anew"
    assert max(held) <= whole.held_bytes


def test_items_of_same_are_told_apart_by_identity() -> None:
    made: list[int] = []

    @remembered(10)
    def count(items: Same[list[int]]) -> int:
        made.append(1)
        return len(items)

    one, other = [1], [1]
    for items in ([one, other], [one, other], [one, one]):
        assert count(Same(items)) == 2
    assert len(made) == 2


def test_equal_results_are_one_object_among_the_last_few() -> None:
    @interned(2, key_of=tuple)
    def made(text: str) -> list[str]:
        return list(text)

    first = made("a")
    assert made("a") is first
    other = made("b")
    assert made("a") is first  # asked for again, so that b is the older one
    made("c")
    assert made("a") is first
    assert made("b") is not other


def test_a_hashed_tuple_is_one_with_a_plain_one() -> None:
    given = (1, ("a", 2))
    assert {Hashed(given): 1}[given] == 1  # type: ignore[index]
    assert pickle.loads(pickle.dumps(Hashed(given))) == given


def test_many_are_remembered_by_object_and_place() -> None:
    made: list[tuple[int, int]] = []

    @remembered_each(4)
    def weight(item: list[int], place: int, factor: int) -> int:
        made.append((item[0], place))
        return item[0] * factor + place

    items = [[1], [2], [3]]
    for _ in range(2):
        assert weight(items, range(3), 10) == [10, 21, 32]
    assert weight(items[:1], [5], 10) == [15]
    assert made == [(1, 0), (2, 1), (3, 2), (1, 5)]
    assert weight(items, range(3), factor=10) == [10, 21, 32], "full: it forgets and makes all anew"
    assert len(made) == 7


def test_programs_are_kept_by_their_tasks() -> None:
    one_job.clear_programs()
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=2048)
    sizes = []
    for schedule in ("1f1b", "gpipe"):
        for stages in (2, 4, 8):
            strategy = explorer.uniform(
                graph, cluster, workload.job, stages=stages, microbatch_size=1, schedule=schedule
            )
            sizes.append(explorer.simulate(graph, cluster, workload, strategy).timeline.program.size)
            kept = list(one_job._PROGRAMS.values())
            assert kept[-1].size == sizes[-1], "the last one is always there"
            assert (
                len(kept) <= one_job._FEWEST or sum(program.size for program in kept) <= one_job._TASK_LIMIT
            )
    assert sum(sizes) > one_job._TASK_LIMIT, "the limit was reached"
    one_job.clear_programs()


def test_two_threads_simulate_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_job, "_FEWEST", 1)
    monkeypatch.setattr(one_job, "_TASK_LIMIT", 1)  # every program drops another
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=8)
    strategies = [explorer.uniform(graph, cluster, workload.job, stages=stages) for stages in (1, 2, 4)]
    expected = [explorer.simulate(graph, cluster, workload, item).step_time_s for item in strategies]

    def work(turn: int) -> list[float]:
        order = [strategies[(i + turn) % 3] for i in range(60)]
        return [explorer.simulate(graph, cluster, workload, item).step_time_s for item in order]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(work, range(3)))
    finally:
        sys.setswitchinterval(interval)
    assert found == [[expected[(i + turn) % 3] for i in range(60)] for turn in range(3)]
    one_job.clear_programs()
