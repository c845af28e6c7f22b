"""Logs of trainers: every registered parser reads its own lines and no other's."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.base.units import GIB, MIB
from explorer.calibrate import logs
from explorer.calibrate.logs import LOGS, LogFacts, log_of, plain, read_log, warm_steps
from explorer.calibrate.measured_runs import ALLOCATED, MEMORIES, RESERVED
from tests.calibrate.trainer_logs import FACTS, LOOKALIKES, STEP_S


@pytest.mark.parametrize("name", LOGS.names())
def test_every_trainer_is_read(name: str) -> None:
    found = log_of(LOOKALIKES[name](), FACTS)
    assert found.trainer == name
    assert found.step_time_s == pytest.approx(STEP_S, rel=0.01)
    assert 0 < found.spread < 0.05
    assert found.steps >= 3
    assert found.memory_of in MEMORIES


@pytest.mark.parametrize("name", LOGS.names())
@pytest.mark.parametrize("other", LOGS.names())
def test_no_parser_takes_anothers_lines(name: str, other: str) -> None:
    found = LOGS.get(name).find(plain(LOOKALIKES[other]()), FACTS)
    assert bool(found.steps) == (name == other)


@pytest.mark.parametrize(
    ("name", "memory", "whose"),
    [
        ("torchtitan", 40.2 * GIB, RESERVED), ("megatron", 41164.8 * MIB, RESERVED),
        ("deepspeed", 40.2 * GIB, ALLOCATED), ("hf_trainer", 0, ALLOCATED), ("profiler", 0, ALLOCATED),
    ],
)  # fmt: skip
def test_memory_is_read_in_the_trainers_own_units(name: str, memory: float, whose: str) -> None:
    found = log_of(LOOKALIKES[name](), FACTS)
    assert found.memory_bytes == pytest.approx(memory)
    assert found.memory_of == whose


def test_first_steps_do_not_count() -> None:
    found = log_of(LOOKALIKES["megatron"](), FACTS)
    assert (found.steps, found.left_out) == (8, 2)
    assert warm_steps(((1, 1.0),)) == [1.0]
    assert warm_steps(((1, 5.0), (2, 1.0))) == [1.0]
    assert warm_steps(((3, 1.0), (3, 2.0), (1, 9.0))) == [2.0]
    assert warm_steps(()) == []


@given(st.lists(st.tuples(st.integers(0, 20), st.floats(1e-3, 1e3)), max_size=30))
def test_warm_steps_are_a_tail(steps: list[tuple[int, float]]) -> None:
    warm = warm_steps(tuple(steps))
    numbers = {number for number, _ in steps}
    assert len(warm) == len(numbers) if len(numbers) < 2 else 1 <= len(warm) < len(numbers)


def test_a_megatron_run_under_deepspeed_is_timed_by_whole_iterations() -> None:
    mixed = "\n".join([LOOKALIKES["deepspeed"](), LOOKALIKES["megatron"]()])
    assert log_of(mixed, FACTS).trainer == "megatron"


def test_the_mean_of_a_run_is_taken_where_single_steps_are_not_printed() -> None:
    state = {
        "global_step": 300,
        "log_history": [{"loss": 1.0, "step": 300}, {"train_runtime": 150.0, "train_steps_per_second": 2.0}],
    }
    found = log_of(json.dumps(state), FACTS)
    assert found.trainer == "hf_trainer"
    assert found.step_time_s == pytest.approx(0.5)
    assert found.spread > 0.02
    only_rate = "{'loss': 1.0}\n{'train_runtime': 10.0, 'train_steps_per_second': 4.0}"
    assert log_of(only_rate, FACTS).step_time_s == pytest.approx(0.25)


def test_parts_of_deepspeed_steps_add_up() -> None:
    line = "[INFO] [Rank 0] time (ms) | forward: 100.0 | backward: 300.0 | backward_inner: 9.0 | step: 100.0"
    assert log_of("\n".join([line] * 5), FACTS).step_time_s == pytest.approx(0.5)
    old = "\n".join(
        f"[timer.py:198:stop] 0/{n}, SamplesPerSec=64.0, MemAllocated=1.0GB" for n in (10, 20, 30)
    )
    assert log_of(old, FACTS).step_time_s == pytest.approx(0.5)


def test_every_trainer_has_a_lookalike() -> None:
    assert set(LOOKALIKES) == set(LOGS.names())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing here", "no step time in this log"),
        ("", "no step time in this log"),
        ("{'loss': 2.0, 'epoch': 0.1}", "no step time in this log"),
        ('{"traceEvents": [', "no step time in this log"),
        ('{"traceEvents": "ProfilerStep#1"', "no step time in this log"),
        ('{"traceEvents": {"ProfilerStep#1": 1}}', "no step time in this log"),
    ],
)
def test_a_log_without_a_step_time_is_one_line(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        log_of(text, FACTS)
    assert "Megatron-LM" in str(error.value)


def test_a_log_of_another_run_is_refused() -> None:
    other = LogFacts(global_batch=64, sequence_length=1024, devices=8)
    with pytest.raises(InputError, match="the log's global batch is 32, the plan's 64"):
        log_of(LOOKALIKES["megatron"](), other)
    with pytest.raises(InputError, match="no sequences"):
        log_of(LOOKALIKES["torchtitan"](), LogFacts(global_batch=32, sequence_length=0, devices=8))


def test_files_are_bounded_and_may_be_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.log.gz"
    path.write_bytes(gzip.compress(LOOKALIKES["torchtitan"]().encode()))
    assert read_log(path, FACTS).step_time_s == pytest.approx(STEP_S, rel=0.01)
    monkeypatch.setattr(logs, "MOST_BYTES", 100)
    with pytest.raises(InputError, match=r"train\.log\.gz"):
        read_log(path, FACTS)
    with pytest.raises(InputError, match="cannot read the file"):
        read_log(tmp_path / "none.log", FACTS)


@given(st.text(max_size=300))
def test_no_text_makes_a_parser_fail(text: str) -> None:
    for log in LOGS:
        for line in (text, f"step: 1 {text} tps: 10", f"{{'loss' {text} 1/2 [00:01<00:02"):
            found = log.find(line, FACTS)
            assert all(seconds > 0 and math.isfinite(seconds) for _, seconds in found.steps)
