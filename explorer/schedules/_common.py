"""Rules that schedules share: which place takes which microbatch, one order per distinct lane, chaining of
steps.

Which microbatches a *place* (stage, copy, replica) runs is one rule everywhere. Copies take equal
consecutive parts of a step; replicas that split each microbatch all run all of their copy's, replicas
that take turns run every R-th, by number modulo R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from explorer.actions import UPDATE, Action, Actions, IntArray, Place, Repeated, Shape
from explorer.base.errors import InputError

LaneOrders = tuple[Sequence[Action], ...]


def turns(shape: Shape, stage: int) -> int:
    """Return how many replicas of a stage take whole microbatches in turn; 1 if they split each one."""
    return shape.replicas[stage] if shape.round_robin and shape.round_robin[stage] else 1


def role(shape: Shape, place: Place) -> Place:
    """Return the place whose actions `place` runs: replica 0 if replicas split each microbatch."""
    return place if turns(shape, place.stage) > 1 else Place(place.stage, place.copy, 0)


def roles(shape: Shape, places: Iterable[Place]) -> tuple[Place, ...]:
    """Return the different roles among the places of a lane, by stage, copy, replica."""
    return tuple(sorted({role(shape, place) for place in places}))


def per_copy(shape: Shape, stage: int) -> int:
    """Return how many microbatches of one step each copy of a stage runs.

    Raises:
        InputError: they cannot be shared equally.
    """
    count, rest = divmod(shape.microbatches[stage], shape.copies)
    if rest:
        raise InputError(
            f"{shape.microbatches[stage]} microbatches of stage {stage} over {shape.copies} copies",
            key="microbatches",
            found=shape.microbatches[stage],
            allowed=f"a multiple of {shape.copies}",
        )
    return count


def own(shape: Shape, place: Place, step: int) -> range:
    """Return the numbers of the microbatches that a place runs in one step."""
    count, in_turn = per_copy(shape, place.stage), turns(shape, place.stage)
    first = step * shape.microbatches[place.stage] + place.copy * count
    start = first + (place.replica - first) % in_turn if in_turn > 1 else first
    return range(start, first + count, in_turn)


def numbers_of(shape: Shape, place: Place, step: int) -> IntArray:
    """Return the same numbers as an array."""
    found = own(shape, place, step)
    return np.arange(found.start, found.stop, found.step)


def updates(shape: Shape, places: Iterable[Place], step: int, sweep: int = 0) -> list[Action]:
    """Make one U per stage and copy of a lane for all samples of a step, deepest stage first.

    They come together after the last backward of the lane: a U waits for the other holders of its
    parameters, and a lane that waited earlier would hold up its other stages. Deepest first is the
    order in which backwards end.
    """
    held = {(-place.stage, place.copy) for place in places} if shape.training else set()
    return [
        Action(UPDATE, -stage, step * shape.microbatches[-stage], shape.microbatches[-stage], copy, sweep)
        for stage, copy in sorted(held)
    ]


def each_lane(shape: Shape, make: Callable[[tuple[Place, ...]], Iterable[Action]]) -> LaneOrders:
    """Make the actions of every lane from the roles it holds; lanes of equal roles share one object."""
    made: dict[tuple[Place, ...], Actions] = {}
    lanes = []
    for places in shape.lanes:
        key = roles(shape, places)
        if key not in made:
            made[key] = Actions.of(make(key))
        lanes.append(made[key])
    return tuple(lanes)


def each_step(
    shape: Shape, steps: int, make: Callable[[tuple[Place, ...], int], Iterable[Action]]
) -> LaneOrders:
    """Make the lanes of a flush schedule: the actions of step 0, 1, ... one after the other."""
    alike = steps_alike(shape)
    return each_lane(shape, lambda places: _over_steps(shape, steps, partial(make, places), alike=alike))


def steps_alike(shape: Shape) -> bool:
    """Tell whether all steps are copies of the first: replicas that take turns divide the microbatches of a
    step, so that the turns are the same in every step.
    """
    return not any(count % turns(shape, stage) for stage, count in enumerate(shape.microbatches))


def each_step_at_once(shape: Shape, steps: int, make: Callable[[int], LaneOrders]) -> LaneOrders:
    """Make the lanes of a flush schedule that orders all lanes of a step together; updates follow at each
    end.
    """
    first = {roles(shape, places): lane for lane, places in reversed(list(enumerate(shape.lanes)))}
    made: dict[int, LaneOrders] = {}

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        if step not in made:
            made[step] = make(step)
        return Actions.joined([made[step][first[places]], updates(shape, places, step)])

    return each_step(shape, steps, lane)


def _over_steps(shape: Shape, steps: int, make: Callable[[int], Iterable[Action]], *, alike: bool) -> Actions:
    """Return the actions of all steps of one lane.

    Steps are copies of the first with the numbers moved on, unless replicas that take turns do not divide the
    microbatches of a step: then the turns differ from step to step, and they are not `alike`.
    """
    if not alike:
        return Actions.joined([make(step) for step in range(steps)])
    return repeated(shape, Actions.of(make(0)), steps)


def repeated(shape: Shape, first: Actions, times: int, covers: int = 1) -> Actions:
    """Return some actions so many times, each time moved on by the steps that they cover."""
    counts = np.array(shape.microbatches, dtype=np.int64)
    stage = first.columns[1]
    known = stage < len(counts)  # what is of no stage does not move
    return Repeated(first, times, covers * np.where(known, counts[np.where(known, stage, 0)], 0))
