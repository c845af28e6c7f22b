"""ZB-1p and ZB-2p: the shortest zero-bubble order that a search finds for given seconds and memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.actions import OP_CODE, UPDATE, Actions, Edge, Order, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules._assumed_costs import Caps, Costs, costs_of
from explorer.schedules._bounds import one_way_split
from explorer.schedules._clock import Clock, clock_of
from explorer.schedules._common import LaneOrders, each_step_at_once, roles, turns
from explorer.schedules._in_flight import level
from explorer.schedules._paths import split_by_clock
from explorer.schedules._split_backward import levelled_step, rejoined
from explorer.schedules._vee_search import shortest_vee
from explorer.schedules._zero_bubble import shortest
from explorer.schedules.pipelines import FloatArray, Pipelines, with_path
from explorer.schedules.placements import LINE, VEE
from explorer.schedules.zb_v import NEEDS as VEE_NEEDS
from explorer.schedules.zb_v import estimate as vee_estimate

LIMIT = Option(
    name="limit",
    default=1,
    help="activations in multiples of what 1F1B's first stage holds: 1 is ZB-1p, 2 is ZB-2p;"
    " 0 is what the devices have room for",
    minimum=0,
)
KEPT = Option(
    name="kept",
    default=0.0,
    help="part of a microbatch's activations that waits for W; 0 is the layers' own, or half if unknown",
    minimum=0,
)
UNIFORM = Option(
    name="uniform",
    default=False,
    help="whether the order is made for the median seconds of all stages, as the authors' program does",
)
POST_VALIDATION = Option(
    name="post_validation",
    default=True,
    help="whether a stage updates as soon as its own gradients are there, and takes the update back if a"
    " check of all gradients fails later; without, all wait for each other",
)

THERE_AND_BACK = Option(
    name="vee",
    default=False,
    help="whether every lane has two chunks, there and back, as ZB-V; its memory is that of 1F1B as well",
)


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans that are sure."""
    return _together(of, one_way_split(of))


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) spans of ZB-H1, or with a limit of 2 of ZB-H2, which it is about as good as; there
    and back those of ZB-V.
    """
    if of.options.get("vee", False):
        return _together(of, vee_estimate(of, lower))
    return _together(of, split_by_clock(of, 2 if of.options.get("limit", 1) == 2 else 1))


def _together(of: Pipelines, spans: FloatArray) -> FloatArray:
    """Return spans of which the first is that of all positions, if their updates wait for each other.

    Position r begins when the first microbatch has come through the stages before its first.
    """
    if of.options.get("post_validation", True):
        return spans
    begins = np.zeros((len(of.forward_s), of.size))
    np.cumsum(of.forward_s[:-1] + of.transfer_s, axis=0, out=begins[1:])
    first = [held[0][0] for held in of.held]
    return with_path(spans, (spans + begins[first]).max(axis=0), first.index(0))


def fields(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what depends on whether the stages lie there and back."""
    return {"placement": VEE, "needs": VEE_NEEDS} if options["vee"] else {}


@SCHEDULES.add(
    Schedule(
        name="zb_auto",
        title="Split backward in the shortest order found for the stages' seconds (ZB-1p, ZB-2p)",
        paper="Zero Bubble Pipeline Parallelism (Qi et al., 2024), section 3.1",
        options=(LIMIT, KEPT, UNIFORM, POST_VALIDATION, THERE_AND_BACK),
        placement=LINE,
        reads=("seconds", "transfers", "memory"),
        lower=lower,
        estimate=estimate,
        in_flight=level,
        under=fields,
    )
)
def order(
    shape: Shape,
    *,
    steps: int,
    limit: int = 1,
    kept: float = 0.0,
    uniform: bool = False,
    post_validation: bool = True,
    vee: bool = False,
) -> Order:
    """Order as the paper's automatic scheduler does: by its rules in several settings, and keep the best.

    A stage may hold the activations of `limit` times what the first stage of 1F1B holds; a forward takes a
    microbatch's, I frees the part that W does not read, W the rest. Settings are tried with any number of
    forwards ahead in that memory, and with at most p - s before the first I of stage s of p (`limit` 1), or
    2 (p - s) - 1 (`limit` 2). The orders of `zb_h1` and `zb_h2` are tried too where they fit, so that no
    order is longer than theirs in their memory.

    With post-validation the longest time of a stage counts: its steps follow each other, and that others
    begin later costs once, not in every step. That an update is taken back is rare and not modelled. Without,
    the time of all stages together counts, and every update waits for all gradients of the step. Lanes with
    tied stages (`Shape.tied`) wait for each other in either case: their time together counts.

    With `vee` the stages lie there and back, and the order of `zb_v` is what no order is longer than, in the
    memory of the fullest lane of 1F1B over the same positions (see `_vee_search`).
    """
    clock = clock_of(shape)
    costs = costs_of(shape, split=True)
    costs = _of_the_median(costs) if uniform else costs
    caps = _caps(shape, limit, kept, vee=vee)
    tried = [caps] if not caps.ahead else [replace(caps, ahead=()), caps]

    def make(step: int) -> LaneOrders:
        if vee:
            return shortest_vee(shape, costs, caps, step=step, from_start=not post_validation)
        given = (
            [levelled_step(shape, item, step) for item in (clock, _twice(clock))] if shape.training else []
        )
        made = shortest(shape, costs, tried, given, step=step, from_start=not post_validation)
        return tuple(rejoined(lane, shape) for lane in made)

    lanes = each_step_at_once(shape, steps, make)
    edges = () if post_validation else tuple(_all_before_updates(lanes))
    return Order(lanes=lanes, steps=steps, edges=edges)


def _of_the_median(costs: Costs) -> Costs:
    """Return the same median seconds for all stages; the upper one of two."""
    forward, inputs, weights = (
        (sorted(seconds)[len(seconds) // 2],) * len(seconds)
        for seconds in (costs.forward_s, costs.input_grad_s, costs.weight_grad_s)
    )
    return replace(costs, forward_s=forward, input_grad_s=inputs, weight_grad_s=weights)


def _twice(clock: Clock) -> Clock:
    """Return the clock of ZB-H2."""
    return replace(clock, ahead=tuple(2 * ahead for ahead in clock.ahead))


def _caps(shape: Shape, limit: int, kept: float, *, vee: bool) -> Caps:
    """Return what holds forwards back: bytes if the devices' room counts, else samples of 1F1B."""
    clock = clock_of(shape)
    if not limit and shape.memory_cap_bytes:
        waiting = [
            size * kept if kept else left
            for size, left in zip(shape.activation_bytes, shape.waiting_bytes, strict=True)
        ]
        return Caps(held=shape.activation_bytes, waiting=waiting, room=shape.memory_cap_bytes)
    times, held = limit or 1, clock.samples
    waiting = [size * part for size, part in zip(held, _parts(shape, kept), strict=True)]
    if vee:  # p microbatches of both chunks; all microbatches have one size
        return Caps(held=held, waiting=waiting, room=[times * shape.stages * held[0]] * len(shape.lanes))
    under_way = [ahead // turns(shape, s) + 1 for s, ahead in enumerate(clock.ahead)]
    most = max(number * size for number, size in zip(under_way, held, strict=True))
    return Caps(
        ahead=[times * number - (times - 1) for number in under_way],
        held=held,
        waiting=waiting,
        room=[times * most * len(roles(shape, places)) for places in shape.lanes],
    )


def _parts(shape: Shape, kept: float) -> list[float]:
    """Return per stage the part of its activations that waits for W."""
    if kept or not shape.waiting_bytes:
        return [kept or 0.5] * shape.stages
    both = zip(shape.activation_bytes, shape.waiting_bytes, strict=True)
    return [waiting / held if held else 0.0 for held, waiting in both]


def _all_before_updates(lanes: LaneOrders) -> Iterator[Edge]:
    """Yield edges that let every lane begin its updates of a step when all lanes have its gradients."""
    ends = []
    for lane in {id(lane): lane for lane in lanes}.values():
        columns = Actions.of(lane).columns
        update = columns[0] == OP_CODE[UPDATE]
        first = np.flatnonzero(update[1:] & ~update[:-1]) + 1
        ends.append([(lane[at - 1], lane[at]) for at in first.tolist()])
    for step in zip(*filter(None, ends), strict=True):
        yield from (Edge(last, update) for last, _ in step for _, update in step)
