"""A literal order, written per lane in action notation, for imports, tests and people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from explorer.actions import UPDATE, Action, Actions, Order, Place, ReadRule, Shape, few_enough, parse_action
from explorer.base.errors import InputError, PlanError
from explorer.base.registry import Option
from explorer.reads import READS, reading_of
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules._common import LaneOrders, repeated, roles, updates
from explorer.schedules.waits import check_order

IDLE = "-"

OPTIONS = (
    Option(
        name="lanes", default="", help="actions of each lane, lanes apart by ; or new line: 0F0 0B0; 1F0 1B0"
    ),
    Option(name="covers", default=1, help="steps that the text covers; repeated, moved on, for more steps"),
    Option(name="flush", default=True, help="whether each step's updates come before the next step"),
    Option(name="read_rule", default="latest", help="weights read: latest, stash, buffered(1), ..."),
    Option(name="lag", default="", help="per sweep how many sweeps back neighbours' values lie: 1 1 0"),
)


@SCHEDULES.add(
    Schedule(
        name="custom",
        title="A literal order per lane",
        options=OPTIONS,
        literal=True,
    )
)
def order(
    shape: Shape,
    *,
    steps: int,
    lanes: str = "",
    covers: int = 1,
    flush: bool = True,
    read_rule: str = "latest",
    lag: str = "",
) -> Order:
    """Return the order in the text, checked.

    One line for every lane of the shape, or one for every different lane (those whose replicas split
    each microbatch run the same), in order of first appearance. If no U is written, each lane
    applies each step's gradients at the end of what the text covers.

    Raises:
        InputError: text that is not an order, or a number of lanes or steps other than it covers.
        PlanError: the order does not cover the shape, or its actions wait for each other; all is listed.
    """
    if covers < 1 or steps % covers:
        raise InputError(
            f"the order covers {covers} steps, not a divisor of {steps}",
            key="covers",
            found=covers,
            allowed="a divisor of the number of steps, 1 or more",
        )
    written = _written(shape, parse_lanes(lanes))
    blocks = [
        Actions.of(_block(shape, places, list(line), covers)) for places, line in _with_lanes(shape, written)
    ]
    made = Order(
        lanes=tuple(repeated(shape, block, steps // covers, covers) for block in blocks),
        steps=steps,
        read_rule=_read_rule(read_rule),
        flush=flush,
        lag=_lag(lag),
    )
    if problems := check_order(made, shape):
        raise PlanError(problems)
    return made


def parse_lanes(text: str) -> LaneOrders:
    """Read the actions per lane from text; a lane without any is written ``-``.

    >>> [[str(action) for action in lane] for lane in parse_lanes("0F0 0B0; 1F0, 1B0")]
    [['0F0', '0B0'], ['1F0', '1B0']]

    Raises:
        InputError: something that is not an action.
    """
    lines = [line for line in re.split(r"[;\n]", text) if line.strip()]
    words = [re.split(r"[\s,]+", line.strip(" ,")) for line in lines]
    return tuple(few_enough(map(parse_action, line)) if line != [IDLE] else () for line in words)


def lanes_text(lanes: Iterable[Iterable[Action]]) -> str:
    """Write lanes as the text that `parse_lanes` reads back, one line per lane.

    >>> lanes_text(parse_lanes("0F0, 0B0")), lanes_text([[]])
    ('0F0 0B0', '-')
    """
    return "\n".join(" ".join(map(str, lane)) or IDLE for lane in lanes)


def _written(shape: Shape, lines: LaneOrders) -> Callable[[int], Sequence[Action]]:
    """Return a function that finds the line of each lane: its own, or that of its distinct kind."""
    kinds = list(dict.fromkeys(roles(shape, places) for places in shape.lanes))
    if len(lines) == len(shape.lanes):
        return lambda lane: lines[lane]
    if len(lines) == len(kinds):
        return lambda lane: lines[kinds.index(roles(shape, shape.lanes[lane]))]
    raise InputError(
        f"the order has {len(lines)} lanes",
        key="lanes",
        found=len(lines),
        allowed=" or ".join(map(str, sorted({len(shape.lanes), len(kinds)}))),
    )


def _with_lanes(
    shape: Shape, written: Callable[[int], Sequence[Action]]
) -> list[tuple[tuple[Place, ...], Sequence[Action]]]:
    return [(places, written(lane)) for lane, places in enumerate(shape.lanes)]


def _block(shape: Shape, places: tuple[Place, ...], actions: list[Action], covers: int) -> list[Action]:
    """Return the written actions, followed by the updates if the text names no U."""
    if all(action.op != UPDATE for action in actions):
        for step in range(covers):
            actions += updates(shape, places, step)
    return actions


def _read_rule(text: str) -> ReadRule:
    match = re.fullmatch(r"(\w+?)(?:\((\d+)\))?", text.strip())
    if match is None:
        raise InputError(
            f"{text!r} is no read rule", key="read_rule", found=text, allowed=", ".join(READS.names())
        )
    rule = ReadRule(name=match[1], parameter=int(match[2] or 0))
    reading_of(rule)
    return rule


def _lag(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in re.split(r"[\s,]+", text.strip()) if word)
    except ValueError:
        raise InputError(
            f"lag is {text!r}", key="lag", found=text, allowed="whole numbers, one per sweep"
        ) from None
