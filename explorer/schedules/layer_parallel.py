"""Layer-parallel training: stages sweep at once on old boundary values, then one serial correction."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from explorer.actions import BACKWARD, FORWARD, OP_CODE, Action, Actions, Order, Place, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._bounds import one_way
from explorer.schedules._clock import clock_of, one_step
from explorer.schedules._common import each_step, numbers_of, updates
from explorer.schedules._paths import one_forward_one_backward
from explorer.schedules.pipelines import FloatArray, Pipelines, busy
from explorer.schedules.placements import LINE

DEFAULT_SWEEPS = 2
SWEEPS = Option(
    name="sweeps",
    default=DEFAULT_SWEEPS,
    help="parallel sweeps before the serial correction",
    minimum=0,
)


def makespan(of: Pipeline) -> float | None:
    """Return r m (F + B) for the parallel sweeps, then 1F1B: at m = 1 the paper's r T/p + T."""
    return (DEFAULT_SWEEPS * of.m + of.m + of.p - 1) * of.round_s if of.chunks == 1 else None


def estimate(of: Pipelines, _lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: r parallel sweeps with an update each, then 1F1B."""
    sweeps, work = of.options.get("sweeps", DEFAULT_SWEEPS), busy(of)
    spans = np.maximum(one_forward_one_backward(of), work)
    return np.asarray(spans + sweeps * work)


def every_sweep(of: Pipelines) -> float:
    """Return the number of sweeps, each of which ends with an update."""
    return float(of.options.get("sweeps", DEFAULT_SWEEPS)) + 1.0


@SCHEDULES.add(
    Schedule(
        name="layer_parallel",
        title="Parallel sweeps over all stages, then a serial correction",
        paper="Layer-Parallel Training of Residual Networks (Sun et al., 2021)",
        options=(SWEEPS,),
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan),
        lower=one_way,
        estimate=estimate,
        updates=every_sweep,
    )
)
def order(shape: Shape, *, steps: int, sweeps: int = DEFAULT_SWEEPS) -> Order:
    """Run sweeps 0 to r - 1 with lag 1 and sweep r with lag 0; every sweep ends with its own update.

    In a parallel sweep each stage runs F and B of every microbatch with what its neighbours made one
    sweep before (in the first: what the boundary variables held, which nothing has to make). The
    correction is one 1F1B pass in which values travel through all stages.
    """
    clock = clock_of(shape)

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        parts: list[Iterable[Action]] = []
        for sweep in range(sweeps):
            parts += [_local(shape, place, step, sweep) for place in places]
            parts.append(updates(shape, places, step, sweep))
        parts.append(one_step(shape, clock, places, step, sweeps))
        return Actions.joined([*parts, updates(shape, places, step, sweeps)])

    return Order(
        lanes=each_step(shape, steps, lane),
        steps=steps,
        lag=(*(1,) * sweeps, 0),
        options={"sweeps": sweeps},
    )


def _local(shape: Shape, place: Place, step: int, sweep: int) -> Actions:
    """Make one stage's parallel sweep: each microbatch forward and back."""
    numbers = numbers_of(shape, place, step)
    ops = [OP_CODE[op] for op in ((FORWARD, BACKWARD) if shape.training else (FORWARD,))]
    return Actions.spread(
        np.tile(ops, len(numbers)), place.stage, np.repeat(numbers, len(ops)), copy=place.copy, sweep=sweep
    )
