"""Integer programs solved by HiGHS in a process of its own, which ends with whoever waits for it.

The solver holds the interpreter while it works: in this process nothing could end it. A limit in nodes, not
in seconds, gives the same answer on every machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from explorer.base.checkpoints import checkpoint
from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.schedules._milp_program import Program

CHILD = "explorer.base.solver_process"
PAUSE_S = 0.02
MOST_NODES = 100_000
"""Nodes of the branch and bound."""
MOST_KNOWN = 64
"""Answers that are remembered."""


class Answer(NamedTuple):
    """What the solver found."""

    values: tuple[float, ...]
    """Of all columns; empty if it found no solution."""
    bound: float
    """Column 0 is no less in any solution."""


class Asked(NamedTuple):
    """A program, and what the solver begins with."""

    program: Program
    start: Mapping[int, float] = {}
    """A solution, by column; columns that are left out are worked out."""


def least(program: Program) -> tuple[float, ...]:
    """Return the values of all columns that make column 0 least; the last programs' answers are remembered.

    Raises:
        InputError: the program has no solution, or the solver ended without one.
    """
    found = solved(program)
    if not found.values:
        raise _without("it has none, or none was found in time")
    return found.values


def solved(program: Program, *, start: Mapping[int, float] | None = None, nodes: int = MOST_NODES) -> Answer:
    """Return the best values that are found in so many nodes, and the bound of column 0.

    Args:
        program: the program.
        start: a solution to begin with, by column; columns that are left out are worked out.
        nodes: most nodes of the branch and bound.

    Raises:
        InputError: the solver ended without an answer.
    """
    return solved_each([Asked(program, start or {})], nodes=nodes)[0]


def solved_each(programs: Sequence[Asked], *, nodes: int = MOST_NODES) -> list[Answer]:
    """Return what is found for each of several programs in so many nodes, by one process.

    Raises:
        InputError: the solver ended without an answer.
    """
    text = json.dumps([_asked(one.program, one.start, nodes) for one in programs])
    found = parse_json(_written(text), ours=False, number=False)
    return [Answer(tuple(one["values"]), one["bound"]) for one in found]


def _asked(program: Program, start: Mapping[int, float], nodes: int) -> dict[str, Any]:
    return {
        "lower": program.lower, "upper": program.upper, "whole": program.whole,
        "least": [least for least, _ in program.rows],
        "columns": [list(terms) for _, terms in program.rows],
        "factors": [list(terms.values()) for _, terms in program.rows],
        "start": list(start.items()), "target": 0.0, "nodes": nodes, "seconds": 0,
    }  # fmt: skip


@lru_cache(MOST_KNOWN)
def _written(text: str) -> str:
    """Return what the other process answers."""
    # the program goes in as a file: `communicate` that is asked again after its time is up writes no more of
    # what it was given, and the child would wait for ever
    with TemporaryFile("w+", encoding="utf-8") as given:
        given.write(text)
        given.seek(0)
        with subprocess.Popen(
            [sys.executable, "-m", CHILD],
            stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as child:  # fmt: skip
            try:
                output, errors = _outcome(child)
            finally:  # a search that is stopped ends here, with the process under way
                child.kill()
    if child.returncode or not output:
        raise _without(" ".join(errors.split()[-30:]))
    return output


def _without(found: str) -> InputError:
    return InputError(
        "the integer program has no solution", key="program", found=found, allowed="a program with one"
    )


def _outcome(child: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a process writes, ready to be ended meanwhile."""
    while True:
        checkpoint()
        try:
            return child.communicate(timeout=PAUSE_S)
        except subprocess.TimeoutExpired:
            continue
