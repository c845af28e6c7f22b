"""Index tables of a program that evaluations need again and again, computed once from its structure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.tasks.lanes import find_lanes
from explorer.tasks.program import Program
from explorer.tasks.skeleton import Piece

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """Index tables of one program. Lanes without a task in a step point to the task count (a time of 0)."""

    step_last: IntArray
    """(steps, lanes): last task of each lane in each step; a lane runs in order, so it ends last."""
    first: IntArray
    """(lanes,): first task of each lane in the first step."""
    work: FloatArray
    """(lanes, slots): how often a lane computes each slot, per step."""
    first_step: IntArray
    """Tasks of the first step."""
    sections: tuple[tuple[tuple[int, int], ...], ...]
    """Per lane: sections it holds, each with the samples of one microbatch that the lane works on."""


def derived(program: Program) -> Derived:
    """Return the tables of a program, made once."""
    return program.memo("derived", lambda: _derive(program))


def _derive(program: Program) -> Derived:
    steps, lanes, size = program.order.steps, len(program.programs), program.size
    step_last = np.full((steps, lanes), size, dtype=np.int64)
    first = np.full(lanes, size, dtype=np.int64)
    work = np.zeros((lanes, len(program.slots)))
    for lane, tasks in enumerate(program.programs):
        in_step = program.step[tasks]
        step_last[in_step, lane] = tasks  # later assignments win: the last task of each step
        opening = tasks[in_step == 0]
        if len(opening):
            first[lane] = opening[0]
        work[lane] = np.bincount(program.slot[tasks], minlength=len(program.slots)) / steps
    found = find_lanes(program.skeleton.sections, program.kept_replicas)
    return Derived(
        step_last=step_last,
        first=first,
        work=work,
        first_step=np.flatnonzero(program.step == 0),
        sections=tuple(_held(program, pieces) for pieces in found.pieces),
    )


def _held(program: Program, pieces: tuple[Piece, ...]) -> tuple[tuple[int, int], ...]:
    """Return the sections of some pieces, each once, with the most samples of a microbatch."""
    sections = program.skeleton.sections
    held: dict[int, int] = {}
    for piece in pieces:
        held[piece.section] = max(held.get(piece.section, 0), sections[piece.section].samples(piece.replica))
    return tuple(sorted(held.items()))
