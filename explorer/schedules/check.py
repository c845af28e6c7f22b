"""Coverage check: whether an order does all the work of its shape, each piece once and in its place."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from explorer.actions import (
    BACKWARD,
    FORWARD,
    FREE,
    INPUT_GRAD,
    NAMED,
    OFFLOAD,
    OVERLAP,
    RECOMPUTE,
    REDUCE_GRAD,
    RELOAD,
    RESHARD,
    UNSHARD,
    UPDATE,
    WEIGHT_GRAD,
    Action,
    Order,
    Place,
    Shape,
)
from explorer.schedules._common import roles, turns

WORDS = {
    FORWARD: "forward",
    BACKWARD: "backward",
    INPUT_GRAD: "input gradient",
    WEIGHT_GRAD: "weight gradient",
    UPDATE: "update",
}

PRECEDES = (
    (FORWARD, BACKWARD),
    (FORWARD, INPUT_GRAD),
    (INPUT_GRAD, WEIGHT_GRAD),
    (BACKWARD, UPDATE),
    (WEIGHT_GRAD, UPDATE),
)
"""Ops of one microbatch that a lane must run in this order."""

Ops = dict[str, dict[int, list[int]]]
"""op -> microbatch -> positions in the lane at which it runs."""

Owners = dict[tuple[int, int], dict[int, int]]
"""(stage, sweep) -> microbatch -> the copy that runs it forward first."""


def coverage(order: Order, shape: Shape) -> list[str]:
    """List everything wrong with an order, in words; empty if nothing is.

    Checked per lane: its actions are of places it holds; each microbatch of a place runs forward
    exactly once, then backward exactly once (or one input and then one weight gradient), and the place's
    updates cover each of those samples exactly once, later than their backward. Checked over lanes: every
    (stage, microbatch, sweep) runs in exactly one copy, on the replica whose turn it is, and its samples
    stay in that copy through all stages. The sequence between lanes (deadlock) is checked elsewhere.
    """
    problems: list[str] = []
    if len(order.lanes) != len(shape.lanes):
        return [f"the order has {len(order.lanes)} lanes, the shape {len(shape.lanes)}"]
    owners = _owners(order, shape)
    problems += _copy_problems(owners, order, shape)
    problems += _lockstep_problems(order, shape)
    seen: dict[tuple[tuple[Place, ...], Sequence[Action]], None] = {}
    for lane, (places, actions) in enumerate(zip(shape.lanes, order.lanes, strict=True)):
        key = (roles(shape, places), actions)
        if key in seen:
            continue
        seen[key] = None
        problems += [f"lane {lane}: {text}" for text in _lane_problems(key[0], actions, owners, order, shape)]
    return problems


def numbers_text(numbers: Iterable[int]) -> str:
    """Write numbers as text, consecutive ones joined to runs.

    >>> numbers_text([0, 1, 2, 5])
    '0-2, 5'
    """
    ordered = sorted(set(numbers))
    starts = [n for i, n in enumerate(ordered) if i == 0 or n != ordered[i - 1] + 1]
    ends = [n for n, after in pairwise([*ordered, -2]) if after != n + 1]
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True))


def _sweeps(order: Order) -> int:
    return max(len(order.lag), 1)


def _samples(action: Action) -> range:
    return range(action.first_microbatch, action.first_microbatch + action.count)


def _owners(order: Order, shape: Shape) -> Owners:
    owners: Owners = {(s, w): {} for s in range(shape.stages) for w in range(_sweeps(order))}
    for actions in set(order.lanes):
        for action in actions:
            if action.op == FORWARD and (action.stage, action.sweep) in owners:
                for n in _samples(action):
                    owners[action.stage, action.sweep].setdefault(n, action.copy)
    return owners


def _copy_problems(owners: Owners, order: Order, shape: Shape) -> Iterator[str]:
    """Yield microbatches that no copy runs, or whose samples change copy between two stages."""
    for (stage, sweep), found in owners.items():
        total = order.steps * shape.microbatches[stage]
        if missing := [n for n in range(total) if n not in found]:
            suffix = f" in sweep {sweep}" if _sweeps(order) > 1 else ""
            yield f"stage {stage}: microbatches {numbers_text(missing)} never run forward{suffix}"
    if shape.copies == 1:
        return
    for source, target in shape.edges:
        above_count, below_count = shape.microbatches[source], shape.microbatches[target]
        for sweep in range(_sweeps(order)):
            above, below = owners[source, sweep], owners[target, sweep]
            changed = [
                n
                for n, copy in below.items()
                for i in range(n * above_count // below_count, -(-(n + 1) * above_count // below_count))
                if above.get(i, copy) != copy
            ]
            if changed:
                yield (
                    f"stage {target}: microbatches {numbers_text(changed)} run in another copy than "
                    f"the same samples on stage {source}"
                )


def _lockstep_problems(order: Order, shape: Shape) -> Iterator[str]:
    """Yield places that several lanes run together, but not alike."""
    lanes: dict[Place, list[int]] = defaultdict(list)
    for lane, places in enumerate(shape.lanes):
        for place in places:
            lanes[place].append(lane)
    for place, (first, *others) in lanes.items():
        if others:
            alike = _of(order.lanes[first], place)
            for lane in others:
                if _of(order.lanes[lane], place) != alike:
                    yield f"lanes {first} and {lane} run stage {place.stage} together, but not in one order"


def _of(actions: Sequence[Action], place: Place) -> list[Action]:
    return [action for action in actions if (action.stage, action.copy) == (place.stage, place.copy)]


def _lane_problems(
    places: tuple[Place, ...], actions: Sequence[Action], owners: Owners, order: Order, shape: Shape
) -> Iterator[str]:
    """Yield what one lane does wrong: actions of places it does not hold, then place by place."""
    held: dict[tuple[int, int], set[int]] = defaultdict(set)
    for place in places:
        held[place.stage, place.copy].add(place.replica)
    done: dict[tuple[int, int, int], Ops] = {
        (stage, copy, sweep): {op: defaultdict(list) for op in WORDS}
        for stage, copy in held
        for sweep in range(_sweeps(order))
    }
    for position, action in enumerate(actions):
        if (action.stage, action.copy) not in held:
            yield f"{action} is of a place that the lane does not hold"
        elif (key := (action.stage, action.copy, action.sweep)) not in done:
            yield f"{action} is in a sweep beyond the {_sweeps(order)} of the order"
        elif not shape.training and action.op != FORWARD:
            yield f"{action} where nothing is trained"
        elif action.op not in NAMED:
            for n in _samples(action):
                done[key][action.op][n].append(position)
    yield from _named_problems(actions)
    for (stage, copy, sweep), ops in done.items():
        name = f"stage {stage}" + (f" copy {copy}" if shape.copies > 1 else "")
        name += f" sweep {sweep}" if _sweeps(order) > 1 else ""
        in_turn, total = turns(shape, stage), order.steps * shape.microbatches[stage]
        mine = [
            n
            for n, owner in owners[stage, sweep].items()
            if owner == copy and n < total and n % in_turn in held[stage, copy]
        ]
        problems = _work_problems(ops, mine, total, training=shape.training)
        yield from (f"{name}: {text}" for text in problems)


def _named_problems(actions: Sequence[Action]) -> Iterator[str]:
    """Yield what is wrong with the named actions of a lane."""
    if not any(action.op in NAMED for action in actions):
        return
    yield from _overlapping(actions)
    by_place: dict[tuple[int, int], list[Action]] = defaultdict(list)
    for action in actions:
        by_place[action.stage, action.copy].append(action)
    for found in by_place.values():
        named = {action.op for action in found}
        if named & {UNSHARD, RESHARD}:
            yield from _gathering(found)
        if REDUCE_GRAD in named:
            yield from _reducing(found)
        if named & {RECOMPUTE, OFFLOAD, RELOAD, FREE}:
            yield from _between(found)


def _overlapping(actions: Sequence[Action]) -> Iterator[str]:
    """Check that OVERLAP stands between the forward that it names and a backward of the same step."""
    for before, action, after in zip((None, *actions), actions, (*actions[1:], None), strict=False):
        if action.op == OVERLAP:
            if before is None or before._replace(op=OVERLAP) != action or before.op != FORWARD:
                yield f"{action} not after that forward"
            elif after is None or after.op != BACKWARD:
                yield f"{action} not before a backward"


def _gathering(actions: list[Action]) -> Iterator[str]:
    """Check that weights are gathered between UNSHARD and RESHARD, and given back before an update changes
    them.
    """
    there = False
    for action in actions:
        if action.op in (UNSHARD, RESHARD):
            if there == (action.op == UNSHARD):
                yield f"{action} where the weights are {'there' if there else 'not there'}"
            there = action.op == UNSHARD
        elif action.op in (FORWARD, BACKWARD, INPUT_GRAD) and not there:
            yield f"{action} outside of UNSHARD and RESHARD"
        elif action.op == UPDATE and there:
            yield f"{action} before RESHARD"


def _reducing(actions: list[Action]) -> Iterator[str]:
    """Check that every gradient is reduced before its update."""
    made: Action | None = None
    for action in actions:
        if action.op in (BACKWARD, WEIGHT_GRAD):
            made = action
        elif action.op == REDUCE_GRAD:
            if made is None:
                yield f"{action} without a gradient before it"
            made = None
        elif action.op == UPDATE and made is not None:
            yield f"{action} before REDUCE_GRAD of {made}"


_AFTER = {
    RECOMPUTE: (FORWARD, RELOAD), OFFLOAD: (FORWARD, RELOAD), FREE: (OFFLOAD,), RELOAD: (OFFLOAD, FREE),
}  # fmt: skip
"""Ops that may precede each op of a microbatch, so that activations are not used while they are away."""


def _between(actions: list[Action]) -> Iterator[str]:
    """Check that recomputation and moves lie between the forward and the backward, in a possible order."""
    state: dict[tuple[int, int], str] = {}
    sent = {action._replace(op=FREE) for action in actions if action.op == OFFLOAD}
    for action in actions:
        if action.op == FREE and action not in sent:
            yield f"{action} of other microbatches than any OFFLOAD"
        for n in (
            _samples(action) if action.op not in (RESHARD, UNSHARD, REDUCE_GRAD, UPDATE, OVERLAP) else ()
        ):
            before = state.get((n, action.sweep), "")
            if before not in _AFTER.get(action.op, (before,)):
                yield f"{action} not between the forward and the backward of microbatch {n}, or twice"
            elif before in (OFFLOAD, FREE) and action.op not in (RELOAD, FREE):
                yield f"{action} while the activations of microbatch {n} are with the host"
            state[n, action.sweep] = action.op


def _work_problems(ops: Ops, mine: list[int], total: int, *, training: bool) -> Iterator[str]:
    """Yield what one place does wrong with the microbatches it owns, and with others."""
    own = set(mine)
    for op, word in WORDS.items():
        found = ops[op]
        yield from _said(f"microbatches {{}} {word} more than once", (n for n in found if len(found[n]) > 1))
        yield from _said(f"{word} of microbatches {{}} that no step has", (n for n in found if n >= total))
        if op != UPDATE:
            others = (n for n in found if n < total and n not in own)
            yield from _said(f"{word} of microbatches {{}} that are another place's", others)
    yield from _said("microbatches {} not run forward", (n for n in mine if n not in ops[FORWARD]))
    if not training:
        return
    full, halves = ops[BACKWARD], (ops[INPUT_GRAD], ops[WEIGHT_GRAD])
    ends = (n for n in mine if n not in full and not all(n in half for half in halves))
    yield from _said("microbatches {} not run backward", ends)
    both = (n for n in mine if n in full and any(n in half for half in halves))
    yield from _said("microbatches {} with a backward and also a split gradient", both)
    yield from _said("microbatches {} not applied by an update", (n for n in mine if n not in ops[UPDATE]))
    for before, after in PRECEDES:
        first, second = ops[before], ops[after]
        early = (n for n in mine if n in first and n in second and second[n][0] < first[n][0])
        yield from _said(f"microbatches {{}} {WORDS[after]} before {WORDS[before]}", early)


def _said(text: str, numbers: Iterable[int]) -> Iterator[str]:
    """Yield the text with the numbers in it, if there are any."""
    if found := numbers_text(numbers):
        yield text.format(found)
