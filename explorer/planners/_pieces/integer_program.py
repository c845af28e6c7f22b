"""Integer programs solved by HiGHS in a process of its own, which ends with whoever waits for it.

The solver holds the interpreter while it works: in this process nothing could end it. A limit in nodes, not
in seconds, gives the same answer on every machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from functools import lru_cache
from typing import Any

from explorer.base.checkpoints import checkpoint
from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.schedules._milp_program import Program

CHILD = "explorer.schedules._milp_child"
PAUSE_S = 0.02
MOST_NODES = 100_000
"""Nodes of the branch and bound."""
MOST_KNOWN = 64
"""Answers that are remembered."""


def least(program: Program) -> tuple[float, ...]:
    """Return the values of all columns that make column 0 least; the last programs' answers are remembered.

    Raises:
        InputError: the program has no solution, or the solver ended without one.
    """
    asked = {
        "lower": program.lower, "upper": program.upper, "whole": program.whole,
        "least": [least for least, _ in program.rows],
        "columns": [list(terms) for _, terms in program.rows],
        "factors": [list(terms.values()) for _, terms in program.rows],
        "start": [], "target": 0.0, "nodes": MOST_NODES, "seconds": 0,
    }  # fmt: skip
    return _answer(json.dumps(asked))


@lru_cache(MOST_KNOWN)
def _answer(text: str) -> tuple[float, ...]:
    child = subprocess.Popen(
        [sys.executable, "-m", CHILD],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        output, errors = _outcome(child, text)
    finally:
        child.kill()
        child.wait()
    found: dict[str, Any] = {}
    if not child.returncode:
        found = parse_json(output, ours=False, number=False)
    if not found.get("values"):
        raise InputError(
            "the integer program has no solution", key="program", found=" ".join(errors.split()[-30:]),
            allowed="a program with one",
        )  # fmt: skip
    return tuple(found["values"])


def _outcome(child: subprocess.Popen[str], text: str) -> tuple[str, str]:
    """Return what a process writes, ready to be ended meanwhile."""
    given: str | None = text
    while True:
        checkpoint()
        try:
            return child.communicate(given, timeout=PAUSE_S)
        except subprocess.TimeoutExpired:
            given = None
