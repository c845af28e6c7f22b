"""Task times: a prediction of a run's order from the seconds that its own tasks took.

Layers over several ranks are timed where they run: what they wait for inside is part of what they take. So
the prediction says what order and messages make of these seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from explorer.passes.static import run_static
from explorer.run.cases.build import Prepared


def timed_by_itself(
    prepared: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], only: int | None = None
) -> Prepared:
    """Return a case whose layers are over ranks predicted from the seconds of its tasks; others as they are.

    Args:
        prepared: the case.
        rows: per lane and round, its record.
        only: the round to look at; None for all.
    """
    if not prepared.case.over_ranks:
        return prepared
    taken: dict[int, list[float]] = defaultdict(list)
    for lane in rows:
        for number, record in enumerate(lane):
            if only is None or number == only:
                for task, _, start, end, *_ in record["stamps"]:
                    taken[int(prepared.program.slot[int(task)])].append(end - start)
    seconds = prepared.prices.seconds.copy()
    for slot, found in taken.items():
        seconds[slot] = median(found)
    return replace(prepared, timing=run_static(prepared.program, seconds))
