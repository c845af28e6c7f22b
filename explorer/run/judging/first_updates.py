"""First updates: those that make the optimizer's states, as the first of each weight in a run does."""

from __future__ import annotations

import numpy as np

from explorer.passes.timing import FloatArray
from explorer.run.cases.build import Prepared
from explorer.tasks.placement import Piece
from explorer.tasks.program import U


def first_updates(prepared: Prepared, ratio: float) -> FloatArray:
    """Return by task the seconds that it takes more than its price as the first update of a piece.

    Args:
        prepared: the case.
        ratio: seconds of a first update over those of another one.
    """
    program, found = prepared.program, np.zeros(prepared.program.size)
    seen = set[Piece]()
    for tasks in program.programs:
        for task in tasks.tolist():
            slot = program.slots[int(program.slot[task])]
            if slot.kind == U and slot.piece not in seen:
                seen.add(slot.piece)
                found[task] = (ratio - 1) * prepared.prices.seconds[program.slot[task]]
    return found


__all__ = ["first_updates"]
