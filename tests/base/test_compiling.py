"""Kernels: equal results plain and compiled, and compiling only where counted work pays for it."""

from __future__ import annotations

import heapq
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base import compiling
from explorer.base.compiling import Kernel, kernel

ROOT = Path(__file__).parents[2]


def half_of(value: float) -> float:
    return value / 2.0 if value > 1.0 else value


def largest_first(values: list[float], found: list[float]) -> int:
    """A heap, a function of this file, and a number to return."""
    heap = [(0.0, 0)]
    heap.pop()
    for i, value in enumerate(values):
        heapq.heappush(heap, (-half_of(value), i))
    count = 0
    while heap:
        found[count] = -heapq.heappop(heap)[0]
        count += 1
    return count


@settings(max_examples=30, deadline=None)
@given(values=st.lists(st.floats(-1e6, 1e6), max_size=20))
def test_both_ways_are_equal_bit_by_bit(values: list[float]) -> None:
    found = []
    for run in (KERNEL.plain, KERNEL.compiled):
        result = np.zeros(len(values))
        assert run(np.array(values, dtype=float), result) == len(values)
        found.append(result.tobytes())
    assert KERNEL._machine is not None
    assert found[0] == found[1]
    assert values == [] or np.frombuffer(found[0])[0] == max(half_of(value) for value in values)


KERNEL: Kernel = kernel(results=1, lists=True)(largest_first)


def fresh(monkeypatch: pytest.MonkeyPatch, **limits: int) -> compiling._Work:
    """Begin counting anew, with other limits."""
    work = compiling._Work()
    monkeypatch.setattr(compiling, "_WORK", work)
    for name, value in {"IMPORT_ROUNDS": 30, "KERNEL_ROUNDS": 10, **limits}.items():
        monkeypatch.setattr(compiling, name, value)
    return work


def test_work_is_counted_before_anything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    work = fresh(monkeypatch)
    one, other = (kernel(results=1, rounds=lambda *_: 7, lists=True)(largest_first) for _ in range(2))
    given = np.ones(3), np.zeros(3)
    for _ in range(4):
        one(*given)
    assert (work.rounds, one._machine, work.numba) == (28, None, None)
    one(*given)  # 35 rounds of all, 35 of this one
    assert one._machine is not None
    other(*given)  # numba is there, but 7 rounds of this one do not pay yet
    assert other._machine is None
    other(*given)
    assert other._machine is not None


def test_work_to_come_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh(monkeypatch)
    compiling.expect(100)
    large = kernel(results=1, rounds=lambda *_: 10, lists=True)(largest_first)
    large(np.ones(3), np.zeros(3))
    assert large._machine is not None


def test_while_one_thread_compiles_others_go_on_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    work = fresh(monkeypatch, IMPORT_ROUNDS=0, KERNEL_ROUNDS=0)
    item, result = kernel(results=1, lists=True)(largest_first), np.zeros(2)
    with work.lock, ThreadPoolExecutor(1) as pool:
        assert pool.submit(item, np.array([3.0, 4.0]), result).result(timeout=60) == 2
    assert item._machine is None
    assert result.tolist() == [2.0, 1.5]


def test_in_the_background_kernels_go_on_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    work = fresh(monkeypatch, IMPORT_ROUNDS=0, KERNEL_ROUNDS=0)
    compiling.compile_in_background()
    item, result = kernel(results=1, lists=True)(largest_first), np.zeros(1)
    assert item(np.array([3.0]), result) == 1
    assert result.tolist() == [1.5]
    for thread in threading.enumerate():
        if thread.name == "compiling":
            thread.join()
    assert item._machine is not None
    assert not work.lock.locked()
    assert item(np.array([4.0]), result) == 1
    assert result.tolist() == [2.0]


def test_where_no_thread_can_begin_kernels_go_on_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    work = fresh(monkeypatch, IMPORT_ROUNDS=0, KERNEL_ROUNDS=0)
    compiling.compile_in_background()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    item, result = kernel(results=1, lists=True)(largest_first), np.zeros(1)
    assert item(np.array([3.0]), result) == 1
    assert result.tolist() == [1.5]
    assert not work.lock.locked(), "or nothing would ever be compiled"


def refused_by_numba(values: list[float], found: list[float]) -> None:
    """Something that numba does not know: text made of numbers."""
    for i, value in enumerate(values):
        found[i] = float(repr(value).encode().decode("utf-7"))


def test_what_numba_refuses_runs_plainly_and_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fresh(monkeypatch, IMPORT_ROUNDS=0, KERNEL_ROUNDS=0)
    plain: Kernel = kernel(results=1)(refused_by_numba)
    for _ in range(3):
        found = np.zeros(2)
        plain(np.array([1.5, 2.5]), found)
        assert found.tolist() == [1.5, 2.5]
    assert sum("runs plainly" in record.message for record in caplog.records) == 1
    with compiling.forced(compiled=True), pytest.raises(Exception, match=r"(?i)numba|typing|unknown"):
        kernel(results=1)(refused_by_numba)(np.array([1.5, 2.5]), found)


def test_nothing_is_compiled_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    work = fresh(monkeypatch, IMPORT_ROUNDS=0, KERNEL_ROUNDS=0)
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    item, result = kernel(results=1, lists=True)(largest_first), np.zeros(1)
    item(np.array([3.0]), result)
    assert (work.absent, item._machine, result.tolist()) == (True, None, [1.5])
    assert item.compiled(np.array([4.0]), result) == 1  # asked for outright, still plain
    assert result.tolist() == [2.0]


def test_numba_that_cannot_be_imported_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = fresh(monkeypatch, IMPORT_ROUNDS=0, KERNEL_ROUNDS=0)
    monkeypatch.setitem(sys.modules, "numba", None)
    for _ in range(2):
        kernel(results=1, lists=True)(largest_first)(np.array([3.0]), np.zeros(1))
    assert work.absent
    assert [record.message.partition(":")[0] for record in caplog.records] == [
        "without numba large plans take longer"
    ]


PROGRAM = """
import json, logging, sys
import numpy as np
logging.basicConfig(level=logging.INFO, format="%(message)s")
from explorer.base import compiling
from explorer.passes.static import longest_path
light = "numba" not in sys.modules
compiling.IMPORT_ROUNDS = compiling.KERNEL_ROUNDS = 0
{limits}
end = np.zeros(3)
longest_path(np.array([0, 1]), np.array([0, 0]), np.array([2.0, 3.0]), end)
machine = longest_path._machine
hits = sum(machine.stats.cache_hits.values()) if machine else -1
print(json.dumps([light, end.tolist(), machine is not None, hits]))
"""


def run_alone(limits: str = "", **environment: str) -> tuple[list[object], str]:
    """Run the longest path in a process of its own; return what it prints, and what it logs."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(limits=limits)],
        capture_output=True, text=True, check=True, cwd=ROOT, env={**os.environ, **environment},
    )  # fmt: skip
    found: list[object] = json.loads(result.stdout)
    return found, result.stderr


def test_the_second_process_reads_what_the_first_compiled(tmp_path: Path) -> None:
    first, said = run_alone(NUMBA_CACHE_DIR=str(tmp_path))
    assert first == [True, [0.0, 2.0, 5.0], True, 0]
    assert "compiling longest_path, once (kept in " in said
    second, said = run_alone(NUMBA_CACHE_DIR=str(tmp_path))
    assert second == [True, [0.0, 2.0, 5.0], True, 1]
    assert not said


NOWHERE = "from numba.core.caching import CacheImpl; CacheImpl._locator_classes = []"


def test_where_nothing_can_be_kept_more_work_has_to_pay() -> None:
    """numba finds no folder: a read-only installation without a home."""
    found, said = run_alone(NOWHERE)
    assert found == [True, [0.0, 2.0, 5.0], False, -1]
    assert not said
    found, said = run_alone(NOWHERE + "; compiling.COMPILE_ROUNDS = 0")
    assert found[1:3] == [[0.0, 2.0, 5.0], True]
    assert "once in this process" in said
