"""Fits on rows of several sources: who takes part and weighs what; a fit finds what made its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from explorer.score.fit_rows import MOST_DEVICES, FitRow, groups, refit, rows_of_sets, scatters
from explorer.score.heldout import held_out
from explorer.score.knob_fit import SCATTER
from explorer.score.knobs import Knob, knobs_of
from explorer.score.machines import knobs_at
from explorer.score.rows import SETS
from explorer.score.running import predicted
from explorer.score.sets.vtrain import COLUMNS
from explorer.score.trials import TrialPart

HEAD = ",".join(COLUMNS)
SHAPES = [(2, 1024, 16, 1), (4, 1024, 16, 2), (8, 2048, 16, 4), (8, 1024, 32, 8), (2, 2048, 16, 2)]
"""(devices, width, heads, tensor-parallel size)."""


def row_of(source: str, keys: str, number: int = 0) -> FitRow:
    return FitRow(TrialPart(source, "path", (number,)), source, frozenset(keys))


def knob(key: str) -> Knob:
    return Knob(key=key, value=1.0, prior=1.0, fitted_on="x")


def test_rows_tie_knobs_together() -> None:
    rows = [row_of("x", "ab"), row_of("y", "bc"), row_of("y", "d"), row_of("z", "q")]
    found = groups([knob(key) for key in "abcde"], rows)
    assert [[item.key for item in own] for own, _ in found] == [["a", "b", "c"], ["d"], ["e"]]
    assert [[row.source for row in own] for _, own in found] == [["x", "y"], ["y"], []]


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 1, 0, 2), (2, 3, 1, 0)])
def test_groups_do_not_depend_on_the_order_of_rows(order: Sequence[int]) -> None:
    rows = [row_of("x", "ab"), row_of("y", "cd"), row_of("y", "bc"), row_of("z", "d")]
    found = groups([knob(key) for key in "abcd"], [rows[i] for i in order])
    assert [[item.key for item in own] for own, _ in found] == [["a", "b", "c", "d"]]


def test_a_source_weighs_as_the_root_of_its_rows() -> None:
    rows = [row_of("many", "a", i) for i in range(16)] + [row_of("one", "a")]
    weights = (SCATTER / scatters(rows, [True] * 17)) ** 2
    assert weights[:16].sum() == pytest.approx(4)
    assert weights[16] == pytest.approx(1)


# ---- with rows that a known machine made -------------------------------------------------------------------


def made(folder: Path, values: dict[str, float], factor: float = 1.0) -> Path:
    """A file of runs that last as long as the simulator says with knobs at some values."""
    lines = [f"{g},8,1,{e},{h},4,1024,{t},{g // t},1,1.0" for g, e, h, t in SHAPES]
    path = folder / "rows.csv"
    path.write_text("\n".join([HEAD, *lines]), encoding="utf-8")
    with knobs_at(values):
        read = SETS.get("vtrain_single").read(path)
        assert not read.problems
        seconds = [predicted(row).predicted for row in read.rows]
    ends = [f",{1e3 * value * factor:.9g}" for value in seconds]
    again = [line[: line.rindex(",")] + end for line, end in zip(lines, ends, strict=True)]
    path.write_text("\n".join([HEAD, *again]), encoding="utf-8")
    return path


def own_rows(path: Path) -> list[FitRow]:
    rows = SETS.get("vtrain_single").read(path).rows
    return rows_of_sets(lambda _: rows, {"vtrain_single": path})


def host(path: Path) -> Knob:
    rows = SETS.get("vtrain_single").read(path).rows
    known = {item.key: item for row in rows for item in knobs_of(row.case.cluster)}
    return next(item for key, item in known.items() if key.endswith(".host_issue_s"))


def test_a_fit_finds_the_number_that_made_the_rows(tmp_path: Path) -> None:
    item = host(made(tmp_path, {}))
    truth = 1.6 * item.prior
    path = made(tmp_path, {item.key: truth})
    found = refit([item], own_rows(path), fixed={}, processes=1, rounds=8)
    assert found is not None
    assert found.values[item.key] == pytest.approx(truth, rel=0.05)
    assert np.abs(found.after).max() < 0.02 < np.abs(found.before).max()


def test_rows_that_no_knob_turns_leave_everything(tmp_path: Path) -> None:
    rows = own_rows(made(tmp_path, {}))
    assert refit([knob("unheard-of.tiles")], rows, fixed={}, processes=1, rounds=2) is None


def test_rows_on_many_devices_and_ratios_take_no_part(reference_dir: Path) -> None:
    names = ("korthikanti", "zero_bubble", "megatron_table1")
    places = {name: reference_dir / SETS.get(name).path for name in names}
    read = {name: SETS.get(name).read(path).rows for name, path in places.items()}
    found = rows_of_sets(lambda name: read[name], places)
    assert {row.source for row in found} == {"korthikanti", "megatron"}
    for row in found:
        (number,) = row.part.rows
        assert read[row.part.name][number].case.cluster.device_count <= MOST_DEVICES


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_a_source_left_out_says_nothing_of_its_own_numbers(tmp_path: Path, factor: float) -> None:
    """Whatever its rows measured, what they are predicted with stays the same."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = held_out({"vtrain_single": made(tmp_path / "a", {})}, None)["vtrain_single"]
    other = held_out({"vtrain_single": made(tmp_path / "b", {}, factor)}, None)["vtrain_single"]
    assert plain == other
    assert plain.values
    assert not any(math.isnan(value) for value in plain.values.values())
