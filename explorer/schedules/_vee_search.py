"""The shortest zero-bubble order of stages that lie there and back (ZB-V) for given seconds and memory.

Zero Bubble (Qi et al., 2024) spells ZB-V out for equal F, I and W, and orders by seconds only where every
lane has one stage. Here its rules (`_zero_bubble`) run on two chunks a lane; a forward of the way there
leaves room for one of the way back, without which lanes full of the way there would wait for each other. The
best of those orders and of ZB-V's own is improved move by move (`_local_search`).
"""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations

from explorer.actions import UPDATE, Action, Place, Shape
from explorer.schedules import zb_v
from explorer.schedules._assumed_costs import Caps, Costs
from explorer.schedules._common import LaneOrders, roles, turns
from explorer.schedules._local_search import Lanes, Stages, improved, period_s
from explorer.schedules._zero_bubble import shortest

MOST_ROUNDS = 3e8
"""Rounds of the local search."""
Roles = tuple[Place, ...]
"""What tells a lane from others."""


def shortest_vee(shape: Shape, costs: Costs, caps: Caps, *, step: int, from_start: bool) -> LaneOrders:
    """Return the order of one step in F, I and W that takes least from step to step among those tried.

    Where replicas take turns only lists are made, and the longest time of a lane counts.

    Args:
        shape: stages there and back.
        costs: seconds, with split backwards.
        caps: what lanes have room for.
        step: the step whose microbatches are ordered.
        from_start: whether the updates of all lanes wait for each other.
    """
    ahead = [shape.stages - s - (s < shape.stages // 2) for s in range(shape.stages)]
    tried = [replace(caps, through=True), replace(caps, through=True, ahead=ahead)]
    given = _spelt_out(shape, step)
    listed = shortest(shape, costs, tried, [given], step=step, from_start=from_start)
    if not shape.training or any(turns(shape, s) > 1 for s in range(shape.stages)):
        return listed
    homes = list(dict.fromkeys(roles(shape, places) for places in shape.lanes))
    stages = _stages(shape, costs, caps, homes, from_start=from_start)
    known = [_works(shape, homes, lanes) for lanes in (listed, given)]
    fitting = [lanes for lanes in known if stages.fits(lanes)] or known[:1]
    best = min(fitting, key=lambda lanes: period_s(stages, lanes))
    moved = improved(stages, best, rounds=MOST_ROUNDS)
    best = min(best, moved, key=lambda lanes: period_s(stages, lanes))
    made = {key: tuple(Action(*work) for work in lane) for key, lane in zip(homes, best, strict=True)}
    return tuple(made[roles(shape, places)] for places in shape.lanes)


def _spelt_out(shape: Shape, step: int) -> LaneOrders:
    """Return ZB-V's own order of one step, without updates."""
    made: dict[int, tuple[Action, ...]] = {}
    lanes = zb_v.order(shape, steps=step + 1).lanes
    for lane in lanes:
        if id(lane) not in made:
            made[id(lane)] = tuple(
                a for a in lane
                if a.op != UPDATE and a.first_microbatch // shape.microbatches[a.stage] == step
            )  # fmt: skip
    return tuple(made[id(lane)] for lane in lanes)


def _works(shape: Shape, homes: list[Roles], lanes: LaneOrders) -> Lanes:
    """Return the work of every distinct lane."""
    of = {roles(shape, places): lane for places, lane in zip(shape.lanes, lanes, strict=True)}
    return tuple(tuple((op, stage, number) for op, stage, number, *_ in of[key]) for key in homes)


def _stages(shape: Shape, costs: Costs, caps: Caps, homes: list[Roles], *, from_start: bool) -> Stages:
    """Return what the actions of distinct lanes take, and which lanes wait for each other's ends."""
    across = dict(zip(shape.edges, costs.transfer_s or (0.0,) * len(shape.edges), strict=True))
    tied = [range(shape.stages)] if from_start else shape.tied
    groups = [{at for at, key in enumerate(homes) if any(p.stage in stages for p in key)} for stages in tied]
    rooms = {roles(shape, places): room for places, room in zip(shape.lanes, caps.room, strict=True)}
    for places, room in zip(shape.lanes, caps.room, strict=True):
        rooms[roles(shape, places)] = min(rooms[roles(shape, places)], room)
    return Stages(
        forward_s=costs.forward_s,
        input_grad_s=costs.input_grad_s,
        weight_grad_s=costs.weight_grad_s,
        transfer_s=[across.get((s, s + 1), 0.0) for s in range(shape.stages - 1)],
        held=caps.held,
        waiting=caps.waiting,
        room=[rooms[key] for key in homes],
        coupled=sorted({pair for group in groups for pair in permutations(group, 2)}),
        wires=False,
    )
