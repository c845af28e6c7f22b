"""ZB-1p and ZB-2p: the zero-bubble order that a greedy clock finds for given seconds and memory."""

from __future__ import annotations

from explorer.actions import Order, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules._bounds import one_way_split
from explorer.schedules._clock import clock_of
from explorer.schedules._common import LaneOrders, each_step_at_once, roles, turns
from explorer.schedules._in_flight import level
from explorer.schedules._list_scheduler import Caps, costs_of, list_schedule
from explorer.schedules._paths import split_by_clock
from explorer.schedules.pipelines import FloatArray, Pipelines
from explorer.schedules.placements import LINE

PATIENCE = (0.25, 0.5, 0.75, 1.0)
"""Settings that are tried."""

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


def estimate(of: Pipelines, _lower: FloatArray) -> FloatArray:
    """Return the (P, N) spans of ZB-H1 or, with a limit of 2, of ZB-H2, which it is about as good as."""
    return split_by_clock(of, 2 if of.options.get("limit", 1) == 2 else 1)


@SCHEDULES.add(
    Schedule(
        name="zb_auto",
        title="Split backward in the order that a greedy clock finds for the stages' seconds (ZB-1p, ZB-2p)",
        paper="Zero Bubble Pipeline Parallelism (Qi et al., 2024), section 3.1",
        options=(LIMIT, KEPT),
        placement=LINE,
        reads=("seconds", "transfers", "memory"),
        lower=one_way_split,
        estimate=estimate,
        in_flight=level,
    )
)
def order(shape: Shape, *, steps: int, limit: int = 1, kept: float = 0.0) -> Order:
    """Order as the paper's automatic scheduler does, in short.

    - A stage may hold the activations of `limit` times what the first stage of 1F1B holds; a forward takes
      a microbatch's, I frees the part that W does not read, W the rest.
    - Before its first I, stage s of p runs at most p - s forwards (`limit` 1), or 2(p - s) - 1 (`limit` 2).
    - Then I goes first, then F, and W if the next I or F is `patience` times W's seconds away, or memory
      is full.

    The paper searches over such settings and keeps the shortest; so do we.
    """
    caps = _caps(shape, limit, kept)
    costs = costs_of(shape, split=True)

    def make(step: int) -> LaneOrders:
        tried = [list_schedule(shape, costs, caps=caps, patience=p, step=step) for p in PATIENCE]
        return min(tried, key=lambda made: made.span_s).lanes

    return Order(lanes=each_step_at_once(shape, steps, make), steps=steps)


def _caps(shape: Shape, limit: int, kept: float) -> Caps:
    """Return what holds forwards back: bytes if the devices' room counts, else samples of 1F1B."""
    clock = clock_of(shape)
    if not limit and shape.memory_cap_bytes:
        waiting = [
            size * kept if kept else left
            for size, left in zip(shape.activation_bytes, shape.waiting_bytes, strict=True)
        ]
        return Caps(held=shape.activation_bytes, waiting=waiting, room=shape.memory_cap_bytes)
    times, held = limit or 1, clock.samples
    under_way = [ahead // turns(shape, s) + 1 for s, ahead in enumerate(clock.ahead)]
    most = max(number * size for number, size in zip(under_way, held, strict=True))
    return Caps(
        ahead=[times * number - (times - 1) for number in under_way],
        held=held,
        waiting=[size * part for size, part in zip(held, _parts(shape, kept), strict=True)],
        room=[times * most * len(roles(shape, places)) for places in shape.lanes],
    )


def _parts(shape: Shape, kept: float) -> list[float]:
    """Return per stage the part of its activations that waits for W."""
    if kept or not shape.waiting_bytes:
        return [kept or 0.5] * shape.stages
    both = zip(shape.activation_bytes, shape.waiting_bytes, strict=True)
    return [waiting / held if held else 0.0 for held, waiting in both]
