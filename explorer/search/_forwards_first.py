"""Seconds of a step whose first positions lack room for the forwards that they could run while they wait.

Until a first microbatch has passed all stages nothing comes back: from its own first forward on a position
runs nothing but forwards, for at least the seconds F_r in which that microbatch goes on to the end. What
forwards keep stays until their backwards, so that there are only as many as its room allows, f seconds of
work. All else of its work W_r in the step comes later, and no forward of the next step before its update:

    T  >=  F_r + W_r - f,    f  =  room / (bytes that stay per second of forward)

in any order, also one that is made up as memory allows. Of the last stage one forward can end by then,
whatever it keeps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import ROUNDING, Schedule
from explorer.search._frames import Frame
from explorer.search._layout_costs import LayoutCosts
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def one_way(problem: Problem, costs: LayoutCosts, schedule: Schedule) -> bool:
    """Tell whether room for what is in flight bounds steps.

    Of mixed devices it does not: where samples are dealt out by speed, the replica with most of them may have
    most room. Of several copies some lanes hold the last stage of one, and so soon run backwards.
    """
    alone = schedule.placement.copies == 1 and not schedule.hides
    return alone and problem.job.training and not problem.rules and len(costs.cluster.device_kinds) == 1


def bounds_forwards(problem: Problem, costs: LayoutCosts, schedule: Schedule) -> bool:
    """Tell whether `forwards_first_s` says anything: where every step ends with all gradients."""
    return schedule.flush and one_way(problem, costs, schedule)


def forwards_first_s(
    costs: LayoutCosts, frame: Frame, rows: IntArray, again: IntArray, samples: int, room: FloatArray
) -> FloatArray:
    """Return the (N,) seconds of a step at least, 0 where it says nothing.

    Args:
        costs: costs of the layout.
        frame: pipelines of a schedule for which `bounds_forwards`.
        rows: (N,) rows of the frame with one microbatch size.
        again: (N,) recomputation of each.
        samples: that size.
        room: (leading positions, N) bytes for what forwards keep, at most.
    """
    seconds, kept, grid = costs.least_s(samples), costs.per_sample[0] * samples, frame.grid[rows]
    slack, per_byte = _per_byte(costs, seconds.forward, kept)
    alone, count = (frame.chunks == 1)[grid], frame.count[rows]
    way, found = seconds.forward[costs.stages.whole][again], np.zeros(len(rows))
    sums = np.concatenate([kept, seconds.forward, seconds.once, *slack], axis=1)
    for here, most in zip(frame.leading, (room / ROUNDING).clip(0.0), strict=False):
        of = here.of(sums).reshape(len(frame.laid), -1, kept.shape[1])[grid, :, again].T
        longest = here.most(seconds.forward)[grid, again]
        # the last stage runs one forward at most before something comes back, whatever that keeps
        ran = longest + np.min(
            [u[again] * most + count * over for u, over in zip(per_byte, of[3:], strict=True)], axis=0
        )
        whole = np.floor(np.divide(most, of[0], out=np.full(len(rows), np.inf), where=alone & (of[0] > 0)))
        np.minimum(ran, np.maximum(whole, 1.0) * of[1], out=ran)
        np.maximum(found, way + count * of[2] - ran, out=found, where=frame.chains[grid])
        way = way - longest  # the next begins after the first stage of this
    return found


def _per_byte(costs: LayoutCosts, forward: FloatArray, kept: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return how many seconds of forwards the room for a byte may allow at most, and what that leaves out.

    Stage k with m forwards of F_k seconds, each of which keeps a_k bytes: by duality of linear programs
    max sum n_k F_k under sum n_k a_k <= room, n_k <= m is at most  u room + m sum max(0, F_k - u a_k)  for
    any u; tried are seconds per byte of the whole model and of its usual runs. Of the last stage no forward
    counts.

    Args:
        costs: costs of the layout.
        forward: (kinds of runs, recomputations) seconds of a forward.
        kept: the same of bytes that it keeps.

    Returns:
        (tried, kinds of runs, recomputations) seconds beyond u per byte, and (tried, recomputations) u.
    """
    ends, whole = costs.stages.stops == costs.stages.stops.max(), costs.stages.whole
    ratio = np.divide(forward, kept, out=np.zeros_like(kept), where=kept > 0)
    tried = np.stack([ratio[whole], np.median(ratio[~ends], axis=0) if not ends.all() else ratio[whole]])
    slack = np.maximum(0.0, forward - tried[:, None] * kept)
    slack[:, ends] = 0.0
    return slack, tried
