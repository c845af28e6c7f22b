"""The predicted course of a run: when each rank should begin each of its actions, case by case.

A rank says which action it is in; how far that is, is told in the prediction's own seconds, so that ranks
with long and with short actions compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from explorer.passes.static import run_static

if TYPE_CHECKING:
    from explorer.run.spec import RunCase


class Course:
    """Predicted moments of one case."""

    def __init__(self, case: RunCase) -> None:
        self._case = case

    def at(self, rank: int, step: int, action: str) -> float | None:
        """Return when a rank should begin an action of a step, in predicted seconds; None if it has none."""
        lane = 0 if self._case.everywhere else rank
        return self._begins[lane].get((step, action)) if lane < len(self._begins) else None

    @cached_property
    def end_s(self) -> float:
        """Predicted seconds of the whole case."""
        return max((float(end) for end in self._ends), default=0.0)

    @property
    def _begins(self) -> tuple[Mapping[tuple[int, str], float], ...]:
        return self._times[0]

    @property
    def _ends(self) -> tuple[float, ...]:
        return self._times[1]

    @cached_property
    def _times(self) -> tuple[tuple[Mapping[tuple[int, str], float], ...], tuple[float, ...]]:
        """By lane: the begin of each action; the end of the last. Found once the run is under way: a large
        program takes a moment to be lowered again.
        """
        program = self._case.lowered()
        timing = run_static(program, np.array(self._case.seconds, dtype=np.float64))
        begins, ends = [], []
        for tasks in program.programs:
            own = tasks.tolist()
            begins.append(
                {
                    (int(program.step[task]), str(program.actions[int(program.action[task])])): float(
                        timing.start_s[task]
                    )
                    for task in own
                }
            )
            ends.append(float(timing.end_s[own[-1]]) if own else 0.0)
        return tuple(begins), tuple(ends)
