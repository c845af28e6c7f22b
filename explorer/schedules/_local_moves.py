"""The kernel of a local search of orders: moves of single actions, and the clock that judges them."""

from __future__ import annotations

import math

from explorer.actions import IntArray
from explorer.base.compiling import kernel
from explorer.schedules.pipelines import FloatArray

MOVES_A_CALL = 200
"""Moves of one call, between which a search can be held."""
FARTHEST = 12
"""Most places by which one move goes."""
MODULUS, MULTIPLIER = 2**31 - 1, 16807
"""Of the random numbers (Park and Miller, 1988), so that the same search is made everywhere."""
SLACK = 0.02
"""Weight of the mean span of lanes beside the longest path, so that moves that shorten others count."""
TINY = 1e-12
"""Relative difference below which seconds are equal."""


def _rounds(begins: IntArray, stage: IntArray, *_: object) -> int:
    return 2 * MOVES_A_CALL * len(stage) * (len(begins) - 1)


@kernel(results=8, rounds=_rounds)
def try_moves(
    begins: IntArray,
    stage: IntArray,
    number: IntArray,
    op: IntArray,
    before: IntArray,
    across_s: FloatArray,
    wire: IntArray,
    seconds: FloatArray,
    change: FloatArray,
    room: FloatArray,
    coupled: IntArray,
    wires: int,
    moves: int,
    threshold_s: float,
    places: IntArray,
    done: IntArray,
    free_s: FloatArray,
    made_s: FloatArray,
    wire_s: FloatArray,
    order: IntArray,
    found: IntArray,
    state: FloatArray,
) -> None:
    """Try so many moves of `order`, and keep the best order in `found`; a first call judges `order` itself.

    Args:
        begins: per lane, and behind the last, where its actions begin in `order`.
        stage: per action: its stage.
        number: per action: its microbatch.
        op: per action: a number of its op.
        before: per action: the action of another stage that it reads; -1 for none.
        across_s: per action: seconds of what it reads on the way.
        wire: per action: number of that way.
        seconds: per action.
        change: per action: what it takes, or frees (below 0).
        room: per lane.
        coupled: a, b, a, b, ... of lanes: a begins its next step when b has ended this one.
        wires: whether tensors take turns on their way (1) or not (0).
        moves: how many.
        threshold_s: by how much a move may be worse.
        places: room to work in, per lane.
        done: the same, per action.
        free_s: ends of lanes, by the lane with whose first action time begins, as they were judged last.
        made_s: room to work in, per action and lane.
        wire_s: the same, per way and lane.
        order: the present order: actions, lane by lane.
        found: the best order.
        state: the last random number; what the present order takes, inf if not judged yet; the longest path
            of the best one, and its mean span.
    """
    count = len(stage)
    random = int(state[0])
    if state[1] == math.inf:
        longest, mean = _clock(
            begins, before, across_s, wire, seconds, coupled, wires, places, done, free_s, made_s, wire_s,
            order,
        )  # fmt: skip
        state[1], state[2], state[3] = longest + SLACK * mean, longest, mean
    for _ in range(moves):
        random = random * MULTIPLIER % MODULUS
        source = random % count
        random = random * MULTIPLIER % MODULUS
        far = 1 + random // 2 % FARTHEST
        step = 1 if random % 2 else -1
        lane = 0
        while begins[lane + 1] <= source:
            lane += 1
        target = _moved(begins[lane], begins[lane + 1], stage, number, op, source, step, far, order)
        if target == source:
            continue
        longest, mean = math.inf, math.inf
        if _fits(begins[lane], begins[lane + 1], change, room[lane], order):
            longest, mean = _clock(
                begins, before, across_s, wire, seconds, coupled, wires, places, done, free_s, made_s,
                wire_s, order,
            )  # fmt: skip
        if longest + SLACK * mean > state[1] + threshold_s:
            _back(source, target, step, order)
            continue
        state[1] = longest + SLACK * mean
        shorter = longest < state[2] * (1 - TINY)
        if shorter or (longest <= state[2] and mean < state[3] * (1 - TINY)):
            state[2], state[3] = longest, mean
            for at in range(count):
                found[at] = order[at]
    state[0] = random


def _moved(
    begin: int,
    end: int,
    stage: IntArray,
    number: IntArray,
    op: IntArray,
    source: int,
    step: int,
    far: int,
    order: IntArray,
) -> int:
    """Move an action by up to so many places to one side, past none that it must not; return its place."""
    moving, target = order[source], source
    while far > 0 and begin <= target + step < end:
        other = order[target + step]
        if stage[other] == stage[moving] and (op[other] == op[moving] or number[other] == number[moving]):
            break
        order[target] = other
        target += step
        far -= 1
    order[target] = moving
    return target


def _back(source: int, target: int, step: int, order: IntArray) -> None:
    """Take a move back."""
    moving = order[target]
    while target != source:
        order[target] = order[target - step]
        target -= step
    order[source] = moving


def _fits(begin: int, end: int, change: FloatArray, room: float, order: IntArray) -> bool:
    """Tell whether a lane never holds more than its room."""
    level, fits = 0.0, True
    for at in range(begin, end):
        level += change[order[at]]
        if level > room:
            fits = False
    return fits


def _clock(
    begins: IntArray,
    before: IntArray,
    across_s: FloatArray,
    wire: IntArray,
    seconds: FloatArray,
    coupled: IntArray,
    wires: int,
    places: IntArray,
    done: IntArray,
    free_s: FloatArray,
    made_s: FloatArray,
    wire_s: FloatArray,
    order: IntArray,
) -> tuple[float, float]:
    """Return the longest path of a step and the mean span of lanes; infinite if they wait for each other."""
    width, left = len(begins) - 1, len(seconds)
    _reset(begins, places, done, free_s, wire_s)
    moving = True
    while moving:
        moving = False
        for lane in range(width):
            while places[lane] < begins[lane + 1]:
                action = order[places[lane]]
                if before[action] >= 0 and not done[before[action]]:
                    break
                _act(
                    lane, width, action, before[action], wire[action] * width, wires, across_s[action],
                    seconds[action], free_s, made_s, wire_s,
                )  # fmt: skip
                done[action] = 1
                places[lane] += 1
                left -= 1
                moving = True
    if left:
        return math.inf, math.inf
    return _longest(width, coupled, free_s)


def _reset(
    begins: IntArray, places: IntArray, done: IntArray, free_s: FloatArray, wire_s: FloatArray
) -> None:
    """Begin with every lane alone."""
    width = len(begins) - 1
    for at in range(len(done)):
        done[at] = 0
    for at in range(len(wire_s)):
        wire_s[at] = -math.inf
    for at in range(width * width):
        free_s[at] = -math.inf
    for lane in range(width):
        free_s[lane * width + lane] = 0.0
        places[lane] = begins[lane]


def _act(
    lane: int,
    width: int,
    action: int,
    source: int,
    used: int,
    wires: int,
    across_s: float,
    seconds: float,
    free_s: FloatArray,
    made_s: FloatArray,
    wire_s: FloatArray,
) -> None:
    """Run an action on its lane, by the lane with which time begins."""
    for first in range(width):
        start = free_s[lane * width + first]
        if source >= 0:
            here = made_s[source * width + first]
            if wires:
                here = max(here, wire_s[used + first])
                wire_s[used + first] = here + across_s
            start = max(start, here + across_s)
        free_s[lane * width + first] = start + seconds
        made_s[action * width + first] = start + seconds


def _longest(width: int, coupled: IntArray, free_s: FloatArray) -> tuple[float, float]:
    """Return the longest path, round two lanes at most, and the mean span."""
    longest, total = 0.0, 0.0
    for a in range(width):
        total += free_s[a * width + a]
        for b in range(a + 1):
            longest = max(longest, 0.5 * (free_s[a * width + b] + free_s[b * width + a]))
    for at in range(0, len(coupled), 2):
        longest = max(longest, free_s[coupled[at + 1] * width + coupled[at]])
    return longest, total / width
