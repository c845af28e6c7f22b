"""Step times of even pipelines from the seconds of their stages: a best guess, and bounds that hold.

Positions r of p with first stages s(r); L the load of a position for one microbatch, F and B that of a stage,
w the forwards of a position before its first backward. Every flush schedule obeys

    T  >=  m L_r  +  sum over s < s(r) of (F_s + B_s)  +  what follows the last backward of the first stage

since the first forward of a position waits for the stages before it, and its last backward is followed by
theirs (Narayanan et al. 2021). If position r also waits for its first backward, as 1F1B with one stage a
position does after w = p - r < m forwards, so do its last w backwards for its last forward:

    T  >=  sum over all stages of (F + B)  +  (m - w) L_r  +  sum over j > r of L_j  +  what follows

In schedules that split the backward, only input gradients are waited for, and count in L. What is computed
again is not waited for: it may come before the gradient does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import Pipeline, Schedule
from explorer.search._layout_costs import StageSeconds

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


WHOLE_BACKWARDS = ("1f1b", "interleaved_1f1b", "gpipe")
"""Schedules whose stages send a gradient only after the whole backward."""
TIGHT = ("1f1b", "zb_h1", "chimera", "1f1b_2bp")
"""Schedules with so few microbatches in flight that a round trip of each waits for its transfers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evenly:
    """An even pipeline: every stage is run by so many copies, each on its own position."""

    homes: IntArray
    """(stages, copies): position of every copy of every stage."""
    positions: int
    """Pipeline positions p."""
    count: int
    """Microbatches m of one step, over all copies."""

    @property
    def stages(self) -> int:
        """Stages of one copy."""
        return len(self.homes)

    @property
    def copies(self) -> int:
        """Copies of every stage."""
        return int(self.homes.shape[1])

    def loads(self, each: FloatArray) -> FloatArray:
        """Return the seconds of one step by position, given those of every stage for one microbatch."""
        share = self.count / self.copies
        found = np.zeros(self.positions)
        for copy in range(self.copies):
            found += np.bincount(self.homes[:, copy], weights=each * share, minlength=self.positions)
        return found


def least_s(
    schedule: Schedule, even: Evenly, times: StageSeconds, *, training: bool, after_s: float
) -> float:
    """Return seconds that no step of a schedule takes less than.

    Args:
        schedule: the schedule.
        even: the pipeline.
        times: seconds of its stages.
        training: whether there are backwards.
        after_s: seconds from the last backward of the first stage to the end of the step.
    """
    if not training:
        return float(even.loads(times.forward).max())
    both = times.forward + times.backward
    loads = even.loads(both)
    if not schedule.flush:
        return float(loads.max())
    found = float(loads.max())
    if even.copies > 1:
        return found
    waited = both - times.again
    if schedule.name not in WHOLE_BACKWARDS:
        waited = times.forward + times.input_grad
        loads = even.loads(waited)
    before = np.concatenate([[0.0], np.cumsum(waited)[:-1]])
    homes = even.homes[:, 0]
    first = np.full(even.positions, np.inf)
    np.minimum.at(first, homes, before)
    found = max(found, float((loads + first).max()) + after_s)
    if schedule.name == "1f1b":
        m, p = even.count, even.positions
        ahead = p - np.arange(p)
        later = np.cumsum(waited[::-1])[::-1] - waited
        enough = ahead < m
        if enough.any():
            found = max(found, float((waited.sum() + (m - ahead) * both + later)[enough].max()) + after_s)
    return found


def guess_s(
    schedule: Schedule, even: Evenly, times: StageSeconds, *, training: bool, transfer_s: float
) -> float:
    """Return about how long the work of a step takes: the closed form of its heaviest position.

    Where the schedule has none for this pipeline, that of interleaved 1F1B.
    """
    both = times.forward + (times.backward if training else 0.0)
    loads = even.loads(both)
    heaviest, p = float(loads.max()), even.positions
    chunks = max(1, even.stages * even.copies // p)
    m = max(1, even.count)
    plain = heaviest + (float(both.sum()) - heaviest / m * even.copies) / chunks if p > 1 else heaviest
    if training and p > 1 and schedule.closed_form is not None:
        scale = heaviest / float(even.loads(np.ones(even.stages)).max()) / max(1e-300, float(both.mean()))
        found = schedule.closed_form.of(
            Pipeline(
                p=p, m=m, chunks=even.stages // p if even.stages >= p else 1,
                forward_s=float(times.forward.mean()) * scale,
                input_grad_s=float((times.input_grad + times.again).mean()) * scale,
                weight_grad_s=float((times.weight_grad - times.hidden).mean()) * scale,
            )
        )  # fmt: skip
        if found is not None and schedule.name not in ("1f1b", "interleaved_1f1b"):
            plain = found
    trips = max(1.0, m / p) if schedule.name in TIGHT else 1.0
    return plain + 2 * (even.stages - 1) * trips * transfer_s
