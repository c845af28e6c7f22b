"""Every notebook runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))


def executed(name: str, folder: Path) -> list[dict[str, Any]]:
    """Run a notebook in a folder, and return its cells."""
    notebook = nbformat.read(FOLDER / name, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=600,
        startup_timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": folder}},
    )
    client.execute()
    return list(notebook.cells)


def printed(cells: list[dict[str, Any]]) -> str:
    """Return what all cells print, and the text of what they show."""
    outputs = [item for cell in cells for item in cell.get("outputs", [])]
    return "\n".join(item["text"] if "text" in item else item["data"]["text/plain"] for item in outputs)


def milliseconds(text: str, pattern: str) -> list[float]:
    """Return the figures of a text that a pattern has as its group."""
    return [float(item) for item in re.findall(pattern, text)]


def schedules_are_compared(text: str) -> bool:
    """Tell whether a line each is there, the fastest first, and only 2BW has late gradients."""
    rows = re.findall(r"^(\w+) +([0-9.]+) ms .* (\d)$", text, flags=re.MULTILINE)
    steps = [float(step) for _, step, _ in rows]
    return len(rows) == 7 and steps == sorted(steps) and [n for n, _, late in rows if late != "0"] == [
        "pipedream_2bw"
    ]  # fmt: skip


def a_script_is_improved(text: str) -> bool:
    """Tell whether the search's step is shorter, in the script's words, and what has no word is listed."""
    before, after, *_ = milliseconds(text, r"([0-9.]+) ms a step")
    return after < before and "line 5: --lr 1.5e-4" in text and "--tensor-model-parallel-size 2 -> " in text


def a_run_corrects(text: str) -> bool:
    """Tell whether the prediction moved towards what was measured."""
    ((before, measured, after),) = re.findall(
        r"predicted (\d+) ms, measured (\d+) ms, now (\d+) ms", text
    )  # fmt: skip
    return int(before) < int(after) < int(measured) and "Next, a run with " in text


CHECKS: dict[str, Callable[[str], bool]] = {
    "explore.ipynb": lambda text: "<Explorer: llama3-8b on dgx-a100, " in text,
    "compare_schedules.ipynb": schedules_are_compared,
    "from_a_trainers_config.ipynb": a_script_is_improved,
    "a_model_of_your_own.ipynb": lambda text: "41 layers in 9 blocks, 16,811,018 parameters" in text,
    "calibrate_with_your_run.ipynb": a_run_corrects,
}


def test_every_notebook_is_checked() -> None:
    assert set(NOTEBOOKS) == set(CHECKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_executes(name: str, tmp_path: Path) -> None:
    cells = executed(name, tmp_path)
    text = printed(cells)
    assert CHECKS[name](text), text
    shown = cells[-1]["outputs"][-1]["data"]
    assert re.match(r"<Explorer: .* on .*, fits>", shown["text/plain"])
    assert "application/vnd.jupyter.widget-view+json" in shown
