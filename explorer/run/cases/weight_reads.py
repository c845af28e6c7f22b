"""Weight reads: the version every microbatch uses on every piece, and when each piece updates.

They follow from the order, its read rule and the update rules, by the same counting that predicts versions
and staleness. Only the ranks use them: the emulation that checks the ranks replays the rules by itself.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from explorer.actions import NAMED, Action
from explorer.base.errors import InputError
from explorer.reads import Reading, reading_of
from explorer.run.ranks.lane import LanePlan, RankLanes
from explorer.run.ranks.sweeps import Interval, Sweeps
from explorer.run.spec import RunCase
from explorer.tasks.placement import Piece
from explorer.tasks.program import Program
from explorer.tasks.versions import Counted, count_versions
from explorer.updates import PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Weight versions and updates of all pieces of a program."""

    version: dict[Piece, dict[int, int]]
    """Per piece and microbatch: the version that its forward reads (0 is the initial one)."""
    backward: dict[Piece, dict[tuple[str, int], int]]
    """Per piece and microbatch: the version that its B, I or W reads."""
    updates: dict[Piece, tuple[Interval, ...]]
    """Per piece: samples that each of its updates applies, in order."""
    reading: Reading
    """How weights of a version are read."""
    several: bool
    """Whether some piece keeps more than one version."""


def require_computable(program: Program) -> None:
    """Refuse a program whose numbers no rank can compute, before any is started.

    Raises:
        InputError: values of a sweep that several others read, a reduction that is not an all-reduce, weights
            that replicas share (ZeRO) under an order without flushes or another update rule than the plain
            one, or unevenly with another stage, or a backward on other weights than those of its forward that
            is split or recomputes.
    """
    order = program.order
    dry = "; a dry run (engine dry) plays its times"
    sources = [sweep - lag for sweep, lag in enumerate(Sweeps(program).lag) if lag <= sweep]
    if len(set(sources)) < len(sources):
        raise InputError(
            f"values of one sweep that several later ones read cannot be run{dry}",
            key="lag", found=", ".join(map(str, order.lag)), allowed="one reader for every sweep",
        )  # fmt: skip
    if any(group.method != "all_reduce" for group in program.skeleton.holders):
        raise InputError("only an all-reduce can be run yet", key="sync", allowed="all_reduce")
    _require_flat(program, dry)
    if not _moves(program):
        return
    if any(action.op in "IW" for lane in order.lanes for action in lane):
        raise InputError(
            f"a split backward on other weights than those of its forward cannot be run yet{dry}",
            key="read_rule", found=str(order.read_rule), allowed="stash",
        )  # fmt: skip
    if any(section.full_recompute for section in program.skeleton.sections):
        raise InputError(
            f"recomputation on other weights than those of the forward cannot be run yet{dry}",
            key="recompute", found="full", allowed="none, or a read rule that keeps versions",
        )  # fmt: skip


def _require_flat(program: Program, dry: str) -> None:
    """Refuse weights that replicas share where parts of them cannot be kept."""
    skeleton = program.skeleton
    if not any(section.zero and section.shards > 1 for section in skeleton.sections):
        return
    if not program.order.flush:
        raise InputError(
            f"weights that replicas share (ZeRO) cannot be run yet in an order without flushes{dry}",
            key="zero", found="updates without flushes", allowed="zero 0, or gpipe, 1f1b, zb_h1, ...",
        )  # fmt: skip
    rules = [group.update.rule for group in skeleton.holders if group.update != PLAIN]
    if rules:
        raise InputError(
            f"weights that replicas share (ZeRO) cannot be run yet under the update rule {rules[0]}{dry}",
            key="updates", found=rules[0], allowed=f"zero 0, or {PLAIN.rule}",
        )  # fmt: skip
    lanes = RankLanes(program).lane_of
    for group in skeleton.holders:
        first, count = skeleton.sections[group.pieces[0].section], len({lanes[p] for p in group.pieces})
        if first.zero and first.shards > 1 and count % min(first.shards, count):
            raise InputError(
                f"{count} ranks hold a weight of several stages, of which {first.shards} share parts (ZeRO):"
                f" they cannot be dealt out evenly yet{dry}",
                key="zero", found=count, allowed=f"zero 0, or a multiple of {first.shards} ranks",
            )  # fmt: skip


def require_blocks(case: RunCase, program: Program) -> None:
    """Refuse a case that makes single blocks again where its ranks cannot.

    Raises:
        InputError: split backwards, weights that are divided, or other weights than those of the forward.
    """
    split = any(action.op in "IW" for lane in program.order.lanes for action in lane)
    reasons = (
        (split, "beside split backwards"),
        (case.is_sharded, "on weights that ranks divide, or beside activations on the host"),
        (_moves(program), "on other weights than those of the forward"),
    )
    for is_so, why in reasons:
        if is_so:
            raise InputError(
                f"recomputation that single blocks choose cannot be run yet {why}", key="keeping",
                found=f"{sum(map(len, case.again))} blocks", allowed="whole stages: recompute full or none",
            )  # fmt: skip


def _moves(program: Program) -> bool:
    """Tell whether some backward reads other weights than its forward."""
    reading = reading_of(program.order.read_rule)
    if reading.make is not None or not program.shape.training:
        return reading.make is not None
    for places, lane in zip(program.shape.lanes, program.order.lanes, strict=True):
        for stage, copy in {(place.stage, place.copy) for place in places}:
            actions = list(Sweeps(program).numbered([a for a in lane if a.stage == stage and a.copy == copy]))
            found = _counted(program, actions, stage, None)
            if any(read != found.forward[n] for (_, n), read in found.backward.items()):
                return True
    return False


def find_reads(lanes: RankLanes, plans: list[LanePlan]) -> Reads:
    """Count the weight versions of every piece.

    Raises:
        InputError: as `require_computable`.
    """
    program = lanes.program
    require_computable(program)
    updates: dict[Piece, list[Interval]] = defaultdict(list)
    version: dict[Piece, dict[int, int]] = {}
    backward: dict[Piece, dict[tuple[str, int], int]] = {}
    first: dict[int, int] = {}
    for plan in plans:
        for task in plan.tasks:
            if task.op == "U":
                updates[task.piece].append(task.span)
    for plan in plans:
        for piece in dict.fromkeys(task.piece for task in plan.tasks):
            found = _versions(program, plan.lane, piece, first)
            if lanes.sections[piece.section].stage == 0:
                first.update(found.forward)
            if not program.skeleton.updates[piece.section]:
                found = _never_updated(found)
            version[piece], backward[piece] = found.forward, found.backward
    return Reads(
        version=version,
        backward=backward,
        updates={piece: tuple(found) for piece, found in updates.items()},
        reading=reading_of(program.order.read_rule),
        several=max(program.versions) > 1,
    )


def _versions(program: Program, lane: int, piece: Piece, first: dict[int, int]) -> Counted:
    section = program.skeleton.sections[piece.section]
    actions = [
        a
        for a in program.order.lanes[lane]
        if a.op not in NAMED and a.stage == section.stage and a.copy == piece.copy
    ]
    if not program.shape.training:
        return Counted(1, 0, defaultdict(int), defaultdict(int))
    numbered = list(Sweeps(program).numbered(actions))
    return _counted(program, numbered, section.stage, first if section.stage else None)


def _never_updated(found: Counted) -> Counted:
    """Return what a piece reads without trainable weights: an order has its updates, a program does not."""
    return Counted(1, 0, dict.fromkeys(found.forward, 0), dict.fromkeys(found.backward, 0))


def _counted(program: Program, actions: list[Action], stage: int, first: dict[int, int] | None) -> Counted:
    count = program.shape.microbatches[stage]
    return count_versions(actions, program.order.read_rule, microbatches=count, first_stage_reads=first)
