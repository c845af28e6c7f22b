"""Histories: lines that come back as they were written, broken ones told, and what is learned of them."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.calibrate.history import MAX_LINE, SCHEMA, Entry, append, learn, machine_of, read
from explorer.calibrate.records import add, run_record
from tests.calibrate.machines import GPU, machine

RUN = Entry(machine=GPU, predicted={"step_time_s": 1.0}, measured={"step_time_s": 1.2}, date="in May")


def runs(*ratios: float, **fields: str) -> list[Entry]:
    return [replace(RUN, measured={"step_time_s": ratio}, **fields) for ratio in ratios]


@settings(max_examples=30, deadline=None)
@given(
    values=st.dictionaries(st.text(max_size=8), st.floats(allow_nan=False, allow_infinity=False), max_size=4),
    words=st.text(max_size=20),
)
def test_a_line_comes_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, float], words: str
) -> None:
    path = tmp_path_factory.mktemp("history") / "runs.jsonl"
    entry = Entry(machine="cpu", predicted=values, measured=values, source=words, date=words)
    append(path, RUN)
    append(path, entry)
    assert read(path) == ((RUN, entry), ())


def test_broken_lines_are_told_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    append(path, RUN)
    good = path.read_bytes()
    lines = [
        b"{", b"[]", b'{"schema": "explorer.history/9"}', good.replace(b"1.2", b'"x"'),
        good.replace(b"1.2", b"NaN"), good.replace(GPU.encode(), b""), b"\xff", b"[" * 100_000,
    ]  # fmt: skip
    path.write_bytes(good + b"\n\n" + b"\n".join(line.strip() for line in lines) + b"\n" + good)
    found = read(path)
    assert found.entries == (RUN, RUN)
    assert [item.line for item in found.broken] == list(range(4, 4 + len(lines)))
    assert all(item.why for item in found.broken)


def test_a_line_that_was_cut_short_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    append(path, RUN)
    path.write_bytes(path.read_bytes()[:-20])
    append(path, RUN)
    found = read(path)
    assert found.entries == (RUN,)
    assert [item.line for item in found.broken] == [1]


def test_runs_that_are_added_at_once_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: append(path, replace(RUN, date=str(i))), range(200)))
    found = read(path)
    assert not found.broken
    assert {item.date for item in found.entries} == {str(i) for i in range(200)}


def test_files_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the history"):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(InputError, match="cannot write the history"):
        append(tmp_path / "no folder" / "runs.jsonl", RUN)
    with pytest.raises(InputError, match="not finite"):
        append(tmp_path / "runs.jsonl", replace(RUN, predicted={"x_s": math.inf}))
    with pytest.raises(InputError, match="too long"):
        append(tmp_path / "runs.jsonl", replace(RUN, source="x" * MAX_LINE))
    assert not (tmp_path / "runs.jsonl").exists()


def test_a_run_is_held_once_whatever_its_date(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert add(path, RUN)
    assert not add(path, replace(RUN, date="in June"))
    assert add(path, replace(RUN, measured={"step_time_s": 1.3}))
    assert len(read(path).entries) == 2


def test_runs_of_the_same_kind_of_machine_teach() -> None:
    cluster = machine()
    entries = [*runs(1.1, 1.2), *runs(9.0, machine="cpu"), *runs(1.3, machine="NVIDIA A100-SXM4-80GB")]
    found = learn(entries, cluster)["step_time_s"]
    assert found.log_ratios == pytest.approx([math.log(x) for x in (1.1, 1.2, 1.3)])
    assert found.whole
    assert machine_of(cluster) == GPU


def test_runs_that_were_too_noisy_teach_nothing() -> None:
    assert learn(runs(9.0, 9.0, verdict="too noisy"), machine()) == {}
    assert learn([*runs(9.0, verdict="too noisy"), *runs(1.1, verdict="off")], machine())[
        "step_time_s"
    ].log_ratios == pytest.approx([math.log(1.1)])


def test_runs_that_timed_themselves_count_only_until_there_are_enough_others() -> None:
    own = runs(2.0, 2.0, 2.0, 2.0, 2.0, predicted_from="calibration")
    few = learn([*own, *runs(1.1)], machine())["step_time_s"]
    assert (len(few.log_ratios), few.whole) == (5, False)
    many = learn([*own, *runs(1.1, 1.2, 1.3, 1.4)], machine())["step_time_s"]
    assert (len(many.log_ratios), many.whole) == (4, True)


def test_the_line_of_a_run_holds_its_figures_and_parts() -> None:
    data = {
        "predicted": {"step_time_s": 1.0, "speedup": None}, "measured": {"step_time_s": 1.1, "iqr_s": 0.1},
        "parts": {"predicted": {"compute": 0.8}, "measured": {"compute": 0.9}},
        "machine": {"device": "cpu"}, "engine": "interpreter", "verdict": "off",
    }  # fmt: skip
    entry = run_record(data, date="today")
    assert entry is not None
    assert entry.predicted == {"step_time_s": 1.0, "compute_s": 0.8}
    assert entry.measured == {"step_time_s": 1.1, "compute_s": 0.9}
    assert (entry.machine, entry.predicted_from, entry.date) == ("cpu", "calibration", "today")
    assert run_record(data | {"verdict": "too noisy"}) is None
    noisy = run_record(data | {"verdict": "too noisy"}, noisy=True)
    assert noisy is not None
    assert noisy.verdict == "too noisy"
    assert run_record(data | {"verdict": "wrong numbers"}, noisy=True) is None
    dry = run_record(data | {"engine": "dry"})
    assert dry is not None
    assert dry.machine == "dry run", "what slept teaches nothing of a processor"


def test_a_line_is_json_with_a_schema(tmp_path: Path) -> None:
    append(tmp_path / "runs.jsonl", RUN)
    assert json.loads((tmp_path / "runs.jsonl").read_text(encoding="utf-8"))["schema"] == SCHEMA
