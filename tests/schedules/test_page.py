"""docs/schedules.md: up to date, complete, and its drawings say what was simulated."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from explorer.schedules import SCHEDULES

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "schedules_page.py"))


def test_the_page_and_its_drawings_are_up_to_date(script: dict[str, Any]) -> None:
    made = script["files"]()
    for path, text in made.items():
        assert path.exists(), f"{path.name}: run python scripts/schedules_page.py"
        assert path.read_text("utf-8") == text, f"{path.name}: run python scripts/schedules_page.py"
    assert {path.name for path in script["FOLDER"].iterdir()} == {
        path.name for path in made if path.suffix == ".svg"
    }


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_a_drawing_has_every_action_of_its_step_once(script: dict[str, Any], name: str) -> None:
    drawn = script["drawn_of"](name)
    if drawn is None:
        assert SCHEDULES.get(name).literal
        return
    root = ET.fromstring(script["drawing"](drawn))
    bars = [item for item in root.iter(f"{SVG}rect") if item.get("class") != "idle"]
    shown = [item for item in bars if item.get("class") in ("F", "B", "W")]
    rows = [row for row in script["report_rows"](drawn.report).tolist() if row[3] <= 3 and row[1] > row[0]]
    assert len(shown) == len(rows) >= 2 * drawn.ideal.m * drawn.ideal.p
    assert f"### {name}\n" in script["PAGE"].read_text("utf-8")
    assert f"images/schedules/{name}.svg" in script["PAGE"].read_text("utf-8")


def test_the_colours_are_those_of_the_workbench(script: dict[str, Any]) -> None:
    tokens = script["TOKENS"].read_text("utf-8")
    for dark in (False, True):
        for op in ("F", "B", "W", "U"):
            assert f"--{op}: {script['colours'](dark=dark)[op]};" in tokens
    assert script["colours"](dark=False)["F"] != script["colours"](dark=True)["F"]
