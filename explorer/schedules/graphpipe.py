"""GraphPipe: 1F1B and kFkB on a DAG of stages, each with microbatches of its own size."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial

import numpy as np

from explorer.actions import Actions, Order, Shape
from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Schedule
from explorer.schedules._bounds import one_way
from explorer.schedules._clock import clock_of, one_step
from explorer.schedules._common import each_step, turns, updates
from explorer.schedules._in_flight import clocked
from explorer.schedules._paths import one_forward_one_backward
from explorer.schedules.needs import nearest
from explorer.schedules.one_f_one_b import makespan
from explorer.schedules.pipelines import FloatArray, Pipelines
from explorer.schedules.placements import LINE

K = Option(
    name="k",
    default="1",
    help="forwards in a row, then as many backwards: one number, or one for every stage; 1 is 1F1B",
)


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: those of 1F1B; with k > 1, where more is under way, of any order."""
    every_one = set(re.findall(r"\d+", of.options.get("k", K.default))) <= {"1"}
    return one_forward_one_backward(of) if every_one else one_way(of)


@SCHEDULES.add(
    Schedule(
        name="graphpipe",
        title="1F1B or kFkB on a stage DAG: depth is the longest path, not the number of stages",
        paper="GraphPipe (Jeon et al., 2025)",
        options=(K,),
        variant_of="1f1b",
        for_dags=True,
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan),
        lower=lower,
        in_flight=clocked(),
    )
)
def order(shape: Shape, *, steps: int, k: str = "1") -> Order:
    """Keep k (d - depth(s)) microbatches in flight on stage s of a DAG whose longest path has d stages.

    k forwards run in a row, then k backwards, as one microbatch of 1F1B would: its clock (see `_clock`)
    counts groups. The stages of two branches that meet again run side by side, so that equal stages take
    (m + d - 1)(F + B), whatever k: single microbatches are handed on as they are done. Each stage has
    microbatches of its own size, and a k of its own; a larger k hides transfers.

    Raises:
        InputError: numbers that do not divide the microbatches of a stage, or replicas that take turns.
    """
    sizes = _sizes(shape, k)
    groups = tuple(count // size for count, size in zip(shape.microbatches, sizes, strict=True))
    grouped = replace(shape, microbatches=groups)
    clock = clock_of(grouped)
    each = np.array(sizes)
    lanes = each_step(
        shape,
        steps,
        lambda places, step: Actions.joined(
            [_spelt_out(one_step(grouped, clock, places, step), each), updates(shape, places, step)]
        ),
    )
    return Order(lanes=lanes, steps=steps)


def _spelt_out(actions: Actions, sizes: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Actions:
    """Return the actions on single microbatches that those on groups stand for, group by group."""
    if not len(actions) or (sizes == 1).all():
        return actions
    times = sizes[actions.columns[1]]
    columns = np.repeat(actions.columns, times, axis=1)
    ends = np.cumsum(times)
    within = np.arange(ends[-1]) - np.repeat(ends - times, times)
    columns[2] = columns[2] * np.repeat(times, times) + within
    return Actions(columns)


def _sizes(shape: Shape, text: str) -> list[int]:
    """Return k of every stage."""
    words = re.split(r"[\s,]+", text.strip(" ,"))
    if not all(re.fullmatch(r"[1-9]\d{0,8}", word) for word in words) or len(words) not in (1, shape.stages):
        allowed = f"a whole number from 1, or {shape.stages} of them, one for every stage"
        raise InputError(f"k is {text!r}", key="k", found=text, allowed=allowed)
    sizes = [int(word) for word in words] * (shape.stages if len(words) == 1 else 1)
    for stage, (size, count) in enumerate(zip(sizes, shape.microbatches, strict=True)):
        share = count // math.gcd(count, shape.copies)
        if size > 1 and turns(shape, stage) > 1:
            raise InputError(
                f"graphpipe with k = {size} on stage {stage}, whose replicas take turns",
                key="k", found=size, allowed="1, or replicas: split",
            )  # fmt: skip
        if share % size:
            raise InputError(
                f"graphpipe with k = {size}, which does not divide the {share} microbatches of stage {stage}",
                key="k", found=size, allowed=nearest(partial(_divides, share), size),
            )  # fmt: skip
    return sizes


def _divides(whole: int, number: int) -> bool:
    return whole % number == 0
