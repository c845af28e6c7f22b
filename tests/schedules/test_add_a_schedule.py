"""The page that adds a schedule: its code and commands are run, and what it adds passes the tests of all."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from explorer.base.errors import InputError
from explorer.cli.main import main
from explorer.schedules import SCHEDULES, Schedule
from tests.schedules import test_estimates as estimates
from tests.schedules import test_every_schedule as every

PAGE = Path(__file__).parents[2] / "docs" / "add_a_schedule.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [(match[1], match[2]) for match in BLOCK.finditer(PAGE.read_text(encoding="utf-8"))]
NAME = "groups"
TOO_NOISY = 5
"""Exit status of a comparison for which the machine was too busy."""


def run(code: str) -> str:
    """What a piece of the page prints, run in a module of its own."""
    module = ModuleType("page")
    module.__dict__["__name__"] = "page"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return out.getvalue()


@pytest.fixture
def added() -> Iterator[Schedule]:
    """The page's schedule, in the registry while a test runs."""
    assert NAME not in SCHEDULES.names()
    run(next(text for kind, text in BLOCKS if kind == "python"))
    yield SCHEDULES.get(NAME)
    del SCHEDULES._entries[NAME]
    with pytest.raises(InputError, match="unknown schedule"):
        SCHEDULES.get(NAME)


def test_its_code_runs_and_prints_what_the_page_says(added: Schedule) -> None:
    assert added.name == NAME
    pairs = zip(BLOCKS, [*BLOCKS[1:], ("", "")], strict=True)
    shown = 0
    prelude = ""
    for (kind, text), (after, expected) in pairs:
        if kind != "python" or "SCHEDULES.add" in text:
            continue
        printed = run(prelude + text)
        prelude = "".join(line + "\n" for line in text.splitlines() if line.startswith(("from ", "import ")))
        if after == "text":
            assert printed == expected
            shown += 1
    assert shown == 2


def test_it_passes_what_every_schedule_does(added: Schedule) -> None:
    assert not added.paper  # its own; all else of `test_says_what_it_is` holds
    every.test_says_what_it_is(replace(added, paper="none"))
    every.test_refuses_bad_options(added)
    every.test_closed_form(added)
    for drawn in (every.test_covers_its_shape_without_deadlock, every.test_steps_chain_on):
        drawn(added)
    every.test_orders_what_meets_its_needs_and_nothing_else(added)
    estimates.test_bound_is_never_above_the_step(added)
    estimates.test_what_is_surely_in_flight_is(added)


def commands() -> list[list[str]]:
    (text,) = [text for kind, text in BLOCKS if kind == "console"]
    return [shlex.split(line) for line in text.splitlines()]


def called(
    words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", words)
    status = main(words[1:])
    assert status in ((0, TOO_NOISY) if words[1] == "validate" else (0,)), capsys.readouterr().err
    return capsys.readouterr().out


def test_its_commands_run(
    added: Schedule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [called(words, tmp_path, monkeypatch, capsys) for words in commands() if words[1] != "validate"]
    assert added.title in said[0]
    assert "step time" in said[1]
    assert (tmp_path / "plan.html").stat().st_size > 10_000


@pytest.mark.slow
def test_it_runs_for_real(
    added: Schedule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On ranks of this machine, sleeping and computing."""
    kept = [words for words in commands() if words[1] in ("simulate", "validate")]
    assert [words[1] for words in kept] == ["simulate", "validate", "validate"]
    said = [called(words, tmp_path, monkeypatch, capsys) for words in kept]
    assert added.name in said[1]
    assert "gradients" in said[2]
