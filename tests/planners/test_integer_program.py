"""The process that solves integer programs ends with whoever waits for it, and leaves nothing open."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from explorer.base.checkpoints import Stopped, watched
from explorer.planners._pieces import integer_program
from explorer.planners._pieces.integer_program import CHILD, Asked, least, solved_each
from explorer.schedules._milp_program import Program


def test_a_program_that_is_stopped_leaves_no_process_and_no_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[subprocess.Popen[str]] = []

    class Kept(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            made.append(self)

    def stop() -> None:
        if made:
            raise Stopped

    monkeypatch.setattr(integer_program.subprocess, "Popen", Kept)
    program = Program()
    program.column(1.5, 9.0)
    with watched(stop), pytest.raises(Stopped):
        least(program)
    (child,) = made
    assert child.returncode is not None
    assert all(pipe is not None and pipe.closed for pipe in (child.stdout, child.stderr))


@pytest.mark.parametrize("columns", [2, 20_000])
def test_a_process_gets_all_of_a_program_however_short_a_wait_is(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first wait ends before anything is read; the longer program is more than a pipe holds."""
    monkeypatch.setattr(integer_program, "PAUSE_S", 0.001)
    left = [60_000]

    def count() -> None:
        left[0] -= 1
        if not left[0]:
            raise Stopped

    program = Program()
    for number in range(columns):
        program.column(1.5 + number % 2, 9.0)
    with watched(count):
        assert least(program)[:2] == (1.5, 2.5)


def test_several_programs_are_answered_in_their_order_with_bounds_of_relaxations_too() -> None:
    """Column 0 is at least twice a number from 0.75 on, which is whole in the second program."""
    programs = []
    for whole in (False, True):
        program = Program()
        program.column(0.0, 9.0)
        program.at_least(0.0, (0, 1.0), (program.column(0.75, 4.0, binary=whole), -2.0))
        programs.append(Asked(program))
    first, second = solved_each(programs)
    assert (first.values, first.bound) == ((1.5, 0.75), 1.5)
    assert (second.values, second.bound) == ((2.0, 1.0), 2.0)


def test_the_process_imports_no_more_of_this_project_than_the_reading_of_files() -> None:
    code = f"import sys, {CHILD}; print(*(name for name in sys.modules if name.startswith('explorer.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name.startswith("explorer.base") for name in found.stdout.split())
