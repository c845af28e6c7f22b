"""Orders under a memory cap that send activations to the host and fetch them back, as in OptPipe (2025).

An order that holds too much becomes one that fits: where something has no room, a microbatch that is not
needed for long leaves. It goes right behind its forward (OFFLOAD); who needs the room waits until it is gone
(FREE); it comes back (RELOAD), in the sequence of microbatches, as early as there is room until its backward.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.actions import BACKWARD, FORWARD, FREE, INPUT_GRAD, OFFLOAD, RELOAD, WEIGHT_GRAD
from explorer.schedules._step_clock import ROUNDING, Chain, LaneWork, Work

NEWEST_LEFT = (0, 1, 2, 4)
"""How many of the microbatches whose backward comes last stay all the same: theirs would hardly have left."""


def with_moves(chain: Chain, lanes: LaneWork) -> Iterator[LaneWork]:
    """Yield orders of the same work that fit, by moves of activations; none if a stage cannot be made to."""
    for spared in NEWEST_LEFT:
        found = tuple(_fitted(chain, s, lane, spared) for s, lane in enumerate(lanes))
        if any(found) and None not in found:
            yield tuple(lane for lane in found if lane is not None)


def _fitted(chain: Chain, stage: int, lane: Sequence[Work], spared: int) -> tuple[Work, ...] | None:
    """Return the work of a stage with moves; None if it has no room for one microbatch, or no host."""
    if chain.peak(stage, lane) <= chain.room[stage] * (1 + ROUNDING):
        return tuple(lane)
    if chain.host_s[stage] == float("inf"):
        return None
    leaves = _leaving(chain, stage, lane, spared)
    return None if leaves is None else _returning(chain, stage, lane, leaves)


def _changes(chain: Chain, stage: int, lane: Sequence[Work]) -> list[float]:
    """Return what every action of a stage takes (above 0) or frees."""
    held, waiting = chain.held[stage], chain.waiting[stage]
    of = {FORWARD: held, BACKWARD: -held, INPUT_GRAD: waiting - held, WEIGHT_GRAD: -waiting}
    return [of[op] for op, _ in lane]


def _leaving(chain: Chain, stage: int, lane: Sequence[Work], spared: int) -> dict[int, int] | None:
    """Return who leaves, and the position of the forward by which it is gone."""
    back = {n: at for at, (op, n) in enumerate(lane) if op in (BACKWARD, INPUT_GRAD)}
    room, held = chain.room[stage] * (1 + ROUNDING), chain.held[stage]
    level, here, gone = 0.0, list[int](), dict[int, int]()
    for at, ((op, n), change) in enumerate(zip(lane, _changes(chain, stage, lane), strict=True)):
        comes = held if n in gone and op in (BACKWARD, INPUT_GRAD) else 0.0
        while level + max(change, comes) > room:
            far = sorted(set(here) - {n}, key=back.__getitem__)
            if not far:
                return None
            leaver = far[max(0, len(far) - 1 - spared)]
            here.remove(leaver)
            gone[leaver] = at
            level -= held
        if op == FORWARD:
            here.append(n)
        elif n in here and op != WEIGHT_GRAD:
            here.remove(n)
        level += comes + change
    return gone


def _returning(
    chain: Chain, stage: int, lane: Sequence[Work], gone: dict[int, int]
) -> tuple[Work, ...] | None:
    """Return the work with all moves; None if what left has no room to come back."""
    room, held = chain.room[stage] * (1 + ROUNDING), chain.held[stage]
    back = {n: at for at, (op, n) in enumerate(lane) if op in (BACKWARD, INPUT_GRAD)}
    levels, level = [], 0.0  # while each action runs, everybody away from FREE to his backward
    for change in _changes(chain, stage, lane):
        levels.append(level + max(change, 0.0))
        level += change
    for n, at in gone.items():
        for i in range(at, back[n]):
            levels[i] -= held
    returns: dict[int, int] = {}
    earliest = 0
    for n in sorted(gone):
        at = back[n]
        if levels[at] > room:
            return None
        while at > max(earliest, gone[n] + 1) and levels[at - 1] + held <= room:
            at -= 1
            levels[at] += held
        returns[n] = earliest = at
    return tuple(_placed(lane, gone, returns))


def _placed(lane: Sequence[Work], gone: dict[int, int], returns: dict[int, int]) -> Iterator[Work]:
    for at, work in enumerate(lane):
        yield from ((FREE, n) for n in gone if gone[n] == at)
        yield from ((RELOAD, n) for n in returns if returns[n] == at)
        yield work
        if work[0] == FORWARD and work[1] in gone:
            yield OFFLOAD, work[1]
