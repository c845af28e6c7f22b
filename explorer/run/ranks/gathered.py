"""When gathered weights are given back: after the last task that reads them before they are gathered anew."""

from __future__ import annotations

from collections import defaultdict

from explorer.run.ranks.lane import LanePlan
from explorer.tasks.placement import Piece


def last_readers(plan: LanePlan) -> dict[int, list[Piece]]:
    """Return, per task of a lane, the pieces whose gathered weights nothing reads from then on."""
    moves = {item.task for items in plan.gathers for item in items if item.moved}
    found: dict[int, list[Piece]] = defaultdict(list)
    open_at: dict[Piece, int] = {}
    for task in plan.tasks:
        if task.op == "U":
            continue
        weights = [item for item in task.gathers if item not in moves]
        if weights and task.piece in open_at:
            found[open_at[task.piece]].append(task.piece)
        open_at[task.piece] = task.task
    for piece, last in open_at.items():
        found[last].append(piece)
    return found


__all__ = ["last_readers"]
