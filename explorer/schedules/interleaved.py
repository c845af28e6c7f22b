"""Interleaved 1F1B: every lane holds several chunks, so a microbatch comes round more than once."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.actions import BACKWARD, FORWARD, Action, Order, Place, Shape
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES
from explorer.schedules._common import (
    each_step,
    need_copies,
    need_equal_microbatches,
    new_action,
    own,
    roles,
    turns,
    updates,
)

NAME = "interleaved_1f1b"


def makespan(p: int, m: int, forward_s: float, backward_s: float, chunks: int = 1) -> float | None:
    """(m v + p - 1)(F + B) for m a multiple of p: bubble (p - 1)/(v m) of the ideal."""
    return (m * chunks + p - 1) * (forward_s + backward_s) if m % p == 0 else None


@SCHEDULES.add(
    NAME,
    title="1F1B over several chunks per lane",
    paper="Megatron-LM (Narayanan et al., 2021)",
    flush=True,
    torch_name="Interleaved1F1B",
    placement="looped",
    closed_form=("exact", makespan),
)
def order(shape: Shape, *, steps: int) -> Order:
    """Rank r of p holds stages r, r + p, ...; microbatches pass in rounds, chunk after chunk.

    With v chunks and rounds of q microbatches the k-th forward is of chunk (k mod q v) div q and of
    microbatch (k div q v) q + k mod q; backwards take the chunks from the last. Rank r runs
    2 (p - r - 1) + (v - 1) q forwards ahead. Megatron's q is p, with m a multiple of p; as in torch, m
    may also be any multiple of m div p (or less than p): then q = m / max(1, m div p).

    A stage DAG runs as the chain of its stage numbers, which keeps every dependency.

    Raises:
        InputError: stages not looped over the lanes, several copies, microbatch sizes or numbers of
            replicas that take turns, or a number of microbatches that makes no equal rounds.
    """
    need_copies(shape, NAME, 1)
    microbatches = need_equal_microbatches(shape, NAME)
    ranks = _ranks(shape)
    in_turn = _equal_turns(shape)
    per_round = _round(microbatches // in_turn, ranks)

    def lane(places: tuple[Place, ...], step: int) -> list[Action]:
        if not places:
            return []
        stages = [place.stage for place in places]
        rank, chunks = stages[0], len(stages)
        ahead = 2 * (ranks - rank - 1) + (chunks - 1) * per_round
        numbers = own(shape, places[0], step)
        actions = _passes(FORWARD, stages, numbers, per_round)
        if shape.training:
            backwards = _passes(BACKWARD, stages[::-1], numbers, per_round)
            actions = _alternate(actions, backwards, ahead)
        return [*actions, *updates(shape, places, step)]

    chunks = shape.stages // ranks
    return Order(lanes=each_step(shape, steps, lane), steps=steps, options={"chunks": chunks})


def _passes(op: str, stages: Sequence[int], numbers: Sequence[int], per_round: int) -> list[Action]:
    """Rounds of microbatches through the chunks in the given order."""
    return [
        new_action((op, stage, n, 1, 0, 0))
        for first in range(0, len(numbers), per_round)
        for stage in stages
        for n in numbers[first : first + per_round]
    ]


def _alternate(forwards: list[Action], backwards: list[Action], ahead: int) -> list[Action]:
    """Warm-up, then one forward and one backward in turn, then the backwards that are left."""
    steady = max(len(forwards) - ahead, 0)
    pairs = zip(forwards[ahead:], backwards, strict=False)
    return [*forwards[:ahead], *(action for pair in pairs for action in pair), *backwards[steady:]]


def _ranks(shape: Shape) -> int:
    """Number p of different lanes, which must hold stages r, r + p, r + 2 p, ..."""
    held = {roles(shape, places) for places in shape.lanes if places}
    found = {tuple(place.stage for place in places) for places in held}
    ranks = len(found)
    looped = {tuple(range(rank, shape.stages, ranks)) for rank in range(ranks)}
    if found != looped or shape.stages % ranks:
        raise InputError(
            f"{NAME} needs stage i on lane i mod p, lanes hold stages "
            + ", ".join("+".join(map(str, stages)) for stages in sorted(found)),
            key="stages",
            found=sorted(found),
            allowed="stages dealt out over the lanes in turn, equally many each; or the schedule 1f1b",
        )
    return ranks


def _equal_turns(shape: Shape) -> int:
    """Replicas that take turns, the same number for every stage and a divisor of the microbatches."""
    found = sorted({turns(shape, stage) for stage in range(shape.stages)})
    if len(found) > 1 or shape.microbatches[0] % found[0]:
        raise InputError(
            f"{NAME} with {found} replicas taking turns at {shape.microbatches[0]} microbatches",
            key="replicas",
            found=found,
            allowed="the same number for all stages, which divides the microbatches",
        )
    return found[0]


def _round(microbatches: int, ranks: int) -> int:
    """Microbatches of one round."""
    rounds = max(1, microbatches // ranks)
    if microbatches % rounds:
        raise InputError(
            f"{NAME} cannot pass {microbatches} microbatches over {ranks} lanes in {rounds} equal rounds",
            key="microbatches",
            found=microbatches,
            allowed=f"a multiple of {ranks} (or of {rounds})",
        )
    return microbatches // rounds
