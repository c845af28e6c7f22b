"""Bands on the tiles: from the profile's sources, from a history of runs, and runs that are added to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from explorer.calibrate.history import Entry, append, read
from explorer.run.judging.compare import TOO_NOISY
from tests.support import view_shapes as shapes
from tests.widgets.sample_run import comparison
from widgets import Explorer
from widgets.run.task import Done

RUN = Entry(machine="a100-sxm-80gb", predicted={"step_time_s": 1.0}, measured={"step_time_s": 1.25})


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32, session=False, runs=tmp_path / "runs.jsonl")
    assert not found.error
    yield found
    found.close()


def tiles(bench: Explorer) -> dict[str, dict[str, Any]]:
    bench.showing.explain(bench.history.now)
    TypeAdapter(shapes.TilesView).validate_python(bench.tiles.view)
    return {tile["key"]: tile for tile in bench.tiles.view["tiles"]}


def test_every_figure_has_its_band_and_says_where_it_comes_from(bench: Explorer) -> None:
    for key, tile in tiles(bench).items():
        assert 0 <= tile["low"] <= tile["value"] <= tile["high"], key
        own = key in ("bubble", "exposed_communication")
        said = (
            "80 % band from the profile's sources" if own else "until calibrated: 80 % band by published runs"
        )
        assert said in tile["band_from"], key
    said = tiles(bench)["step_time"]["band_from"]
    assert "steps on such devices were measured" in said
    assert " on a100-sxm-80gb ±" in said
    assert "(fitted)" in said or "(derived)" in said, "how each is known"


def test_enough_runs_on_the_same_kind_of_machine_take_over(bench: Explorer) -> None:
    runs = bench.runs
    assert runs is not None
    for _ in range(3):
        append(runs, RUN)
    append(runs, replace(RUN, machine="cpu"))
    assert "profile" in tiles(bench)["step_time"]["band_from"], (
        "three are too few, and the fourth is another's"
    )
    append(runs, RUN)
    found = tiles(bench)
    for key in ("step_time", "throughput", "mfu"):
        assert found[key]["high"] == pytest.approx(1.25 * found[key]["value"])
        assert "4 runs of the history" in found[key]["band_from"]
    assert "profile" in found["bubble"]["band_from"], "of which runs say nothing here"


def test_broken_lines_are_said(bench: Explorer) -> None:
    assert bench.runs is not None
    bench.runs.write_text("nonsense\n", encoding="utf-8")
    assert "1 line of the history cannot be read" in tiles(bench)["step_time"]["band_from"]


@pytest.mark.parametrize(("verdict", "lines"), [("confirmed", 1), (TOO_NOISY, 0)])
def test_a_run_that_ends_is_added(bench: Explorer, verdict: str, lines: int) -> None:
    now, task, runs = bench.now(), bench.run_panel.task, bench.runs
    found = comparison(verdict=verdict, machine={"device": "cpu"})
    task.last = Done(inputs=now.inputs, strategy=now.strategy, comparison=found, known=None, device="cpu",
                     ranks=2, wall_s=1.0, at="14:02")  # fmt: skip
    task.state = "done"
    bench.run_panel._changed()
    assert runs is not None
    entries = read(runs).entries if runs.exists() else ()
    assert len(entries) == lines
    assert all(entry.strategy and entry.machine == "cpu" for entry in entries)
