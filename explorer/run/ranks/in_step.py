"""Whether replicas run in step: each rank may then wait for what the others begin at the same position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from explorer.run.ranks.lane import LanePlan


def in_step(plans: Sequence[LanePlan]) -> bool:
    """Tell whether all replicas of every stage do the same in one sequence, each with its own neighbours.

    A rank that waits at a position for a reduction waits for peers to come as far. They do if nothing that
    they wait for comes later in a program: all replicas' programs, laid on top of each other, are one. With
    microbatches in turns, or stages of unequal numbers of replicas, one that waits may hold up a message, or
    a gather, without which its peer does not come so far.
    """
    programs: dict[tuple[int, int], dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for plan in plans:
        for i, task in enumerate(plan.tasks):
            begun = len(plan.collectives[i + 1]), len(plan.gathers[i + 1])
            piece = task.piece
            programs[piece.section, piece.copy][piece.replica].append((task.op, task.numbers, begun))
    rows = list(programs.values())
    alike = all(row[replica] == row[min(row)] for row in rows for replica in row)
    return alike and len({frozenset(row) for row in rows}) == 1


__all__ = ["in_step"]
