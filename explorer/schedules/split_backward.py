"""2BP as a modifier: the order of any synchronous schedule, with weight gradients that run later."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from explorer.actions import (
    FORWARD,
    INPUT_GRAD,
    OP_CODE,
    OVERLAP,
    WEIGHT_GRAD,
    Action,
    Actions,
    Order,
    Shape,
)
from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Schedule, make_order
from explorer.schedules._assumed_costs import costs_of
from explorer.schedules._bounds import gradients, one_way_split
from explorer.schedules._common import LaneOrders, each_step_at_once
from explorer.schedules._in_flight import clocked, then_waiting
from explorer.schedules._split_backward import at_the_end, each_distinct, split_order
from explorer.schedules._zero_bubble import filled
from explorer.schedules.groups import small_shape
from explorer.schedules.pipelines import FloatArray, InFlight, IntArray, Moments, Pipelines
from explorer.schedules.placements import LINE, Grid, Placement
from explorer.schedules.two_bp import PAPER, lower_1f1b, lower_gpipe, makespan

OF = Option(name="of", default="1f1b", help="schedule whose backwards are split")
INNER = Option(name="inner", default="", help="options of that schedule: name=value, separated by spaces")
FILL = Option(
    name="fill",
    default=False,
    help="whether weight gradients fill idle time; if not, they all run at the end of the step",
)
CONCATENATED = Option(
    name="concatenated",
    default=False,
    help="whether weight gradients of one stage that follow each other are computed as one",
)
EXACT = {"1f1b": lower_1f1b, "gpipe": lower_gpipe}
"""Spans of schedules with weight gradients at the end, as long as a path of their orders."""


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans; of several in one, no weight gradient is sure to take its seconds."""
    several = of.options.get("concatenated", False)
    if of.grid.copies > 1:
        return of.work_s(
            of.forward_s + np.minimum(of.backward_s, of.input_grad_s + of.weight_grad_s * (not several))
        )
    return gradients(of) if several else _one_by_one(of)


def _one_by_one(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans of one copy of the stages."""
    path = (
        one_way_split
        if of.options.get("fill")
        else EXACT.get(of.options.get("of", OF.default), one_way_split)
    )
    return path(of)


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: as if several weight gradients took as long as one by one."""
    return _one_by_one(of) if of.options.get("concatenated") and of.grid.copies == 1 else lower


def fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what depends on the schedule that is split."""
    inner = _inner(options["of"], options["inner"])
    return {
        "placement": inner.placement,
        "needs": inner.needs,
        "reads": tuple({*inner.reads, *(("seconds", "transfers") if options["fill"] else ())}),
        "in_flight": inner.in_flight if options["fill"] else _all_waiting(inner),
        "apart": "weight",
    }


def _all_waiting(inner: Schedule) -> Moments:
    """Return the moments of a schedule, and that at which all weight gradients of the step wait."""
    if inner.name in EXACT:
        return then_waiting(inner.in_flight)

    def moments(
        placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
    ) -> tuple[InFlight, ...]:
        first = inner.in_flight(placement, grid, microbatches, at)
        every = np.broadcast_to(microbatches / grid.copies, first[0].saved.shape)
        return (*first, InFlight(np.zeros_like(every), every))

    return moments


@SCHEDULES.add(
    Schedule(
        name="split_backward",
        title="Any synchronous schedule with weight gradients at the end, or where a device would wait",
        paper=PAPER,
        options=(OF, INNER, FILL, CONCATENATED),
        placement=LINE,
        variant_of="1f1b_2bp",
        closed_form=ClosedForm(makespan=makespan),
        lower=lower,
        estimate=estimate,
        apart="weight",
        in_flight=then_waiting(clocked()),
        under=fields,
    )
)
def order(
    shape: Shape,
    *,
    steps: int,
    of: str = "1f1b",
    inner: str = "",
    fill: bool = False,
    concatenated: bool = False,
) -> Order:
    """Run the order of the schedule `of` under its options `inner` with every B made an I, and W later.

    W runs when the last I of the stage has, for all m microbatches in a row; or, with `fill`, as soon as a
    lane would wait for about as long, at the latest at the end. What W reads is kept until then, beyond what
    the schedule itself keeps. `concatenated` makes one action of what follows in a row: one product over all
    the microbatches.
    """
    whole = make_order(of, shape, steps=steps, options=dict(_options(inner)))
    if not shape.training:
        return whole
    split = split_order(whole, at_the_end)
    if fill:
        split = replace(split, lanes=_filled(shape, split, steps))
    return replace(split, lanes=each_distinct(split.lanes, _concatenated)) if concatenated else split


def _filled(shape: Shape, order: Order, steps: int) -> LaneOrders:
    """Return the lanes of an order, whose weight gradients run where a lane would wait."""
    costs = costs_of(shape, split=True)

    def make(step: int) -> LaneOrders:
        return filled(shape, costs, each_distinct(order.lanes, partial(_passes, shape, step)), step)

    return each_step_at_once(shape, steps, make)


def _passes(shape: Shape, step: int, lane: Sequence[Action]) -> tuple[Action, ...]:
    """Return the forwards and input gradients of a lane in one step."""
    counts = shape.microbatches
    return tuple(
        a for a in lane if a.op in (FORWARD, INPUT_GRAD) and a.first_microbatch // counts[a.stage] == step
    )


def _concatenated(lane: Sequence[Action]) -> Actions:
    """Return the actions with weight gradients in a row, of consecutive microbatches of a stage, made one.

    >>> " ".join(map(str, _concatenated([Action("W", 0, n) for n in (2, 1, 0)] + [Action("W", 1, 3)])))
    '0W0-2 1W3'
    """
    columns = Actions.of(lane).columns
    row = np.zeros(columns.shape[1], dtype=bool)
    row[1:] = columns[0, 1:] == OP_CODE[WEIGHT_GRAD]
    for same in columns[[0, 1, 4, 5]]:  # op, stage, copy and sweep
        row[1:] &= same[1:] == same[:-1]
    number = np.cumsum(~row)
    columns = columns[:, np.lexsort((columns[2], number))]
    row[1:] &= columns[2, 1:] == columns[2, :-1] + columns[3, :-1]
    begins = np.flatnonzero(~row)
    joined = columns[:, begins]
    if len(begins):
        joined[3] = np.add.reduceat(columns[3], begins)
    return Actions(joined)


def _options(text: str) -> tuple[tuple[str, str], ...]:
    """Return the names and values of options.

    >>> _options("k=2 q=1")
    (('k', '2'), ('q', '1'))

    Raises:
        InputError: a part of the text is no name and value.
    """
    found = [part.partition("=") for part in text.split()]
    if wrong := [name for name, sign, value in found if not (name and sign and value)]:
        raise InputError(
            f"option inner is {text!r}, where {wrong[0]!r} has no value", key="inner", found=text,
            allowed="name=value, separated by spaces",
        )  # fmt: skip
    return tuple((name, value) for name, _, value in found)


def _inner(name: str, text: str) -> Schedule:
    """Return the schedule whose backwards are to be split, under its options.

    Raises:
        InputError: there is none of that name, it cannot be split, or does not know the options.
    """
    options = _options(text)
    schedule = SCHEDULES.get(name).with_options(dict(options))
    schedule.read_options(dict(options))
    if problem := _unsplittable(name, options):
        able = [item.name for item in SCHEDULES if not item.costly and not _unsplittable(item.name)]
        raise InputError(f"{name} {problem}", key="of", found=name, allowed=", ".join(able))
    return schedule


@cache
def _unsplittable(name: str, options: tuple[tuple[str, str], ...] = ()) -> str:
    """Say why the backwards of a schedule cannot be split; "" if they can."""
    if name == "split_backward":
        return "is no schedule of its own"
    schedule = SCHEDULES.get(name).with_options(dict(options))
    if schedule.dispatch or schedule.literal or not schedule.flushes(dict(options)):
        return "is no synchronous schedule with an order of its own"
    order = make_order(name, small_shape(schedule), options=dict(options))
    if any(action.op == OVERLAP for lane in order.lanes for action in lane):
        return "runs whole backwards beside forwards"
    if any(action.op == INPUT_GRAD for lane in order.lanes for action in lane):
        return "splits its backwards itself"
    return "runs several sweeps, or adds dependencies" if len(order.lag) > 1 or order.edges else ""
