"""OptPipe: the shortest order of a step under a memory cap, by a mixed-integer program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import numpy as np

from explorer.actions import (
    BACKWARD,
    FORWARD,
    INPUT_GRAD,
    UPDATE,
    WEIGHT_GRAD,
    Action,
    Actions,
    Order,
    Shape,
)
from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, Needs, Schedule, make_order
from explorer.schedules._assumed_costs import Caps, costs_of
from explorer.schedules._bounds import gradients, one_way_split
from explorer.schedules._common import LaneOrders, each_step_at_once
from explorer.schedules._in_flight import level
from explorer.schedules._list_scheduler import list_schedule
from explorer.schedules._local_search import Stages, improved
from explorer.schedules._milp import size_of, solve
from explorer.schedules._moved_away import with_moves
from explorer.schedules._split_backward import rejoined
from explorer.schedules._step_bounds import least_s
from explorer.schedules._step_clock import ROUNDING, Chain, LaneWork, Work, best_of, chain_of, seconds_of
from explorer.schedules.pipelines import FloatArray, Pipelines
from explorer.schedules.placements import LINE

EXACT = 1e-6
"""Relative gap up to which an order counts as the shortest: the solver's own tolerance."""
WIDER = (1.0, 1.25, 1.5, 2.0, 3.0)
"""Multiples of the room for which lists are made where activations may leave."""
MOST_ROUNDS, STARTS = 5e8, 2
"""Of the local search: most rounds from one start, and orders from which it starts."""
PATIENCE = (0.25, 0.5, 0.75, 1.0)
"""Settings of the list scheduler that are tried."""

OPTIONS = (
    Option(
        name="limit",
        default=0,
        help="activations in multiples of what 1F1B's fullest stage holds; 0 is what the devices have room"
        " for",
        minimum=0,
    ),
    Option(name="split", default=True, help="whether weight gradients may come later than input gradients"),
    Option(name="nodes", default=1000, help="most nodes of the branch and bound", minimum=0),
    Option(
        name="choices",
        default=20_000,
        help="most pairs whose order is left to the solver; above, the best known order is taken",
        minimum=0,
    ),
    Option(
        name="seconds",
        default=10.0,
        help="most seconds of the solver; 0 is any. What it has not decided by then depends on the machine",
        minimum=0,
    ),
    Option(
        name="offload",
        default=False,
        help="whether activations may go to the host and come back, over the devices' links to it",
    ),
)


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: work of positions, or the way of gradients and the last W or rest of B."""
    rest = np.minimum(of.weight_grad_s, np.maximum(of.backward_s - of.input_grad_s, 0.0))
    spans = one_way_split(of)
    return np.maximum(spans, gradients(of) + rest) if of.grid.chunks == 1 else spans


class Found(NamedTuple):
    """The order of one step, and what is known of it."""

    lanes: LaneWork
    period_s: float
    bound_s: float


@SCHEDULES.add(
    Schedule(
        name="optpipe",
        title="The shortest order under a memory cap, by a mixed-integer program",
        paper="OptPipe: Memory- and Scheduling-Optimized Pipeline Parallelism for LLM Training (2025)",
        options=OPTIONS,
        costly=True,
        placement=LINE,
        needs=Needs(
            chain=True,
            copies=(1,),
            placed=True,
            equal_microbatches=True,
            split_microbatches=True,
            most_chunks=1,
        ),
        reads=("seconds", "transfers", "memory"),
        lower=lower,
        in_flight=level,
    )
)
def order(
    shape: Shape,
    *,
    steps: int,
    limit: int = 0,
    split: bool = True,
    nodes: int = 1000,
    choices: int = 20_000,
    seconds: float = 10.0,
    offload: bool = False,
) -> Order:
    """Order a step so that steps follow each other as fast as they can.

    The solver (see `_milp`) begins with the best order of all other schedules that keeps the cap, improved
    move by move (`_local_search`), and is not asked if that one is as short as any can be (`_step_bounds`).
    With `offload` microbatches may leave for the host (OFFLOAD, FREE, RELOAD), each as the solver decides.
    The order says by how much it exceeds what none is below (`gap`), and whether it is the shortest.

    Raises:
        InputError: a stage has no room for one microbatch.
    """
    found = _shortest(
        shape, limit, split=split, nodes=nodes, choices=choices, seconds=seconds, offload=offload
    )
    gap = max(0.0, found.period_s / found.bound_s - 1) if found.bound_s else 0.0

    def make(step: int) -> LaneOrders:
        first = step * shape.microbatches[0]
        of_stage = [_actions(s, works, first, shape) for s, works in enumerate(found.lanes)]
        return tuple(of_stage[places[0].stage] for places in shape.lanes)

    return Order(
        lanes=each_step_at_once(shape, steps, make),
        steps=steps,
        options={"gap": gap, "shortest": gap <= EXACT},
    )


@lru_cache(maxsize=64)
def _shortest(
    shape: Shape, limit: int, *, split: bool, nodes: int, choices: int, seconds: float, offload: bool
) -> Found:
    """Return the shortest order that is found."""
    chain = chain_of(shape, limit)
    if not offload:
        chain = replace(chain, host_s=(math.inf,) * chain.stages)
    if not shape.training:
        forwards = tuple((FORWARD, n) for n in range(chain.microbatches))
        return Found((forwards,) * chain.stages, 0.0, 0.0)
    _require_room(chain)
    listed = [*_in_turn(chain, split=split), *_lists(shape, chain, split=split)]
    known = best_of(chain, [*listed, *(moved for lanes in listed for moved in with_moves(chain, lanes))])
    bound_s = least_s(chain, split=split)
    if known.period_s > bound_s * (1 + EXACT):
        known = best_of(chain, [known.lanes, *_improved(chain, listed, split=split)])
    if known.period_s <= bound_s * (1 + EXACT) or size_of(chain, split=split) > choices:
        return Found(known.lanes, known.period_s, bound_s)
    solved = solve(chain, known.lanes, known.period_s, split=split, nodes=nodes, seconds=seconds)
    best = best_of(chain, [known.lanes, *([solved.lanes] if solved.lanes else [])])
    return Found(best.lanes, best.period_s, min(solved.bound_s, best.period_s))


def _improved(chain: Chain, listed: Sequence[LaneWork], *, split: bool) -> Iterator[LaneWork]:
    """Yield what a local search makes of the best two orders without moves."""
    stages = Stages(
        forward_s=chain.forward_s,
        input_grad_s=chain.input_grad_s,
        weight_grad_s=chain.weight_grad_s,
        transfer_s=chain.transfer_s,
        held=chain.held,
        waiting=chain.waiting if split else (0.0,) * chain.stages,
        room=chain.room,
        coupled=chain.coupled,
    )
    least = least_s(chain, split=split)
    fitting = [lanes for lanes in dict.fromkeys(listed) if chain.fits(lanes)]
    for lanes in sorted(fitting, key=lambda lanes: seconds_of(chain, lanes))[:STARTS]:
        works = tuple(tuple((op, s, n) for op, n in lane) for s, lane in enumerate(lanes))
        moved = improved(stages, works, rounds=MOST_ROUNDS, least_s=least)
        yield tuple(tuple((op, n) for op, _, n in lane) for lane in moved)


def _require_room(chain: Chain) -> None:
    for stage, (held, room) in enumerate(zip(chain.held, chain.room, strict=True)):
        if held > room * (1 + ROUNDING):
            raise InputError(
                f"optpipe on stage {stage}: a microbatch holds {held:.4g} bytes and its devices have room for"
                f" {max(room, 0.0):.4g}",
                key="limit", found=0, allowed="limit 1 or more, smaller microbatches, or more recomputation",
            )  # fmt: skip


def _in_turn(chain: Chain, *, split: bool) -> Iterator[LaneWork]:
    """Yield the orders that hold least: one microbatch after the other."""
    ops = (FORWARD, INPUT_GRAD, WEIGHT_GRAD) if split else (FORWARD, BACKWARD)
    yield (tuple((op, n) for n in range(chain.microbatches) for op in ops),) * chain.stages


def _lists(shape: Shape, chain: Chain, *, split: bool) -> Iterator[LaneWork]:
    """Yield the orders of list schedules under the cap, and those of all other schedules.

    Where activations may leave, lists are made under wider caps as well.
    """
    costs = replace(costs_of(shape, split=split), wires=True)
    wider = WIDER if any(seconds < math.inf for seconds in chain.host_s) else WIDER[:1]
    made = []
    for part, times in product(PATIENCE[-1 if not split else 0 :], wider):
        capped = [times * chain.room[places[0].stage] for places in shape.lanes]
        caps = Caps(
            held=chain.held,
            waiting=chain.waiting if split else (),
            room=() if math.inf in capped else capped,
        )
        made.append(list_schedule(shape, costs, caps=caps, patience=part).lanes)
    made += [
        make_order(item.name, shape).lanes
        for item in SCHEDULES
        if item.tried and item.flush and not item.unmet(shape)
    ]
    for lanes in made:
        found = tuple(_works(lanes[at], split=split) for at in _lane_of_stage(shape))
        if all(_in_sequence(lane, chain.microbatches, split=split) for lane in found):
            yield found


def _lane_of_stage(shape: Shape) -> list[int]:
    """Return a lane of every stage."""
    homes = {places[0].stage: at for at, places in reversed(list(enumerate(shape.lanes)))}
    return [homes[stage] for stage in range(shape.stages)]


def _works(actions: Iterable[Action], *, split: bool) -> tuple[Work, ...]:
    """Return the work of a lane without its updates; whole backwards in two if asked."""
    found: list[Work] = []
    for action in actions:
        both = split and action.op == BACKWARD
        ops = (INPUT_GRAD, WEIGHT_GRAD) if both else (action.op,) if action.op != UPDATE else ()
        found += [(op, action.first_microbatch) for op in ops]
    return tuple(found)


def _in_sequence(works: tuple[Work, ...], microbatches: int, *, split: bool) -> bool:
    """Tell whether each op runs once on every microbatch, by number, and nothing else does."""
    ops = (FORWARD, INPUT_GRAD, WEIGHT_GRAD) if split else (FORWARD, BACKWARD)
    each = all([n for other, n in works if other == op] == list(range(microbatches)) for op in ops)
    return each and len(works) == len(ops) * microbatches


def _actions(stage: int, works: Iterable[Work], first: int, shape: Shape) -> Actions:
    """Return the actions of a stage in a step."""
    return rejoined((Action(op, stage, first + n) for op, n in works), shape)
