"""Reads: which weight version every microbatch uses on every piece, and when each piece updates.

Read off the order and its read rule alone, by the same counting that predicts versions and staleness; the
interpreter and the emulation that checks it both take it from here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.run.lane import Interval, LanePlan, RankLanes
from explorer.tasks.placement import Piece
from explorer.tasks.program import Program
from explorer.tasks.versions import count_versions


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """Of all pieces of a program."""

    version: dict[Piece, dict[int, int]]
    """Per piece and microbatch: the version its forward reads (0 is the initial one)."""
    updates: dict[Piece, tuple[Interval, ...]]
    """Per piece: samples that each of its updates applies, in order."""
    sequences: dict[int, tuple[Interval, ...]]
    """Per holders group: samples of its reductions, in sequence."""
    lagging: bool
    """Whether some microbatch reads a version that is not the newest when its gradient is made."""


def require_computable(program: Program) -> None:
    """Refuse a program whose numbers no rank can compute, before any is started.

    Raises:
        InputError: a read rule that cannot be run, gradients that newer weights would have to make, sweeps,
            or a reduction that is not an all-reduce at every update.
    """
    order, rule = program.order, program.order.read_rule
    dry = "; a dry run (engine dry) plays its times"
    if rule.name not in ("latest", "stash", "vertical", "buffered"):
        raise InputError(
            f"weights read by the rule {rule} cannot be run yet{dry}",
            key="read_rule", found=str(rule), allowed="latest, stash, vertical, buffered",
        )  # fmt: skip
    if any(action.sweep for lane in order.lanes for action in lane):
        raise InputError(
            f"sweeps over the same samples cannot be run: only the last is plain training{dry}",
            key="schedule", found=f"{1 + max(a.sweep for lane in order.lanes for a in lane)} sweeps",
            allowed="one sweep",
        )  # fmt: skip
    if any(group.every != 1 or group.method != "all_reduce" for group in program.skeleton.holders):
        raise InputError("only all-reduce at every update can be run yet", key="sync", allowed="all_reduce")
    if rule.name == "latest" and _lagging(program):
        raise InputError(
            f"backward on newer weights than its forward cannot be run{dry}",
            key="read_rule", found="latest", allowed="stash or buffered where steps are not flushed",
        )  # fmt: skip


def _lagging(program: Program) -> bool:
    return max(program.versions) > 1 or max(program.delay) > 0


def find_reads(lanes: RankLanes, plans: list[LanePlan]) -> Reads:
    """Count the versions of every piece.

    Raises:
        InputError: as `require_computable`.
    """
    program = lanes.program
    require_computable(program)
    updates: dict[Piece, list[Interval]] = defaultdict(list)
    version: dict[Piece, dict[int, int]] = {}
    first: dict[int, int] = {}
    for plan in plans:
        for task in plan.tasks:
            if task.op == "U":
                updates[task.piece].append(task.span)
    for plan in plans:
        for piece in dict.fromkeys(task.piece for task in plan.tasks):
            version[piece] = _versions(program, plan.lane, piece, first)
            if lanes.sections[piece.section].stage == 0:
                first.update(version[piece])
    spans = {number: item.span for number, item in lanes.reductions.items()}
    sequences: dict[int, list[Interval]] = defaultdict(list)
    for number in sorted(spans):
        sequences[lanes.reductions[number].group].append(spans[number])
    return Reads(
        version=version,
        updates={piece: tuple(found) for piece, found in updates.items()},
        sequences={group: tuple(found) for group, found in sequences.items()},
        lagging=_lagging(program),
    )


def _versions(program: Program, lane: int, piece: Piece, first: dict[int, int]) -> dict[int, int]:
    section = program.skeleton.sections[piece.section]
    actions = [a for a in program.order.lanes[lane] if a.stage == section.stage and a.copy == piece.copy]
    if not program.shape.training:
        return defaultdict(int)
    _, _, reads = count_versions(
        actions,
        program.order.read_rule,
        microbatches=program.shape.microbatches[section.stage],
        first_stage_reads=first if section.stage else None,
    )
    return reads
