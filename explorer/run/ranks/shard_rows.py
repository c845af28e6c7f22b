"""Rows of lanes among which weights are sharded, and whether the lanes of a row run in step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from explorer.run.ranks.lane import LanePlan, RankLanes
from explorer.tasks.skeleton import Holders, Skeleton


class ShardedGroup(NamedTuple):
    """Pieces with the same weights, which are sharded among them."""

    number: int
    """Its number among all groups."""
    holders: Holders
    """The pieces."""
    level: int
    """ZeRO level."""
    parts: int
    """Most parts."""


def sharded_groups(skeleton: Skeleton) -> list[ShardedGroup]:
    """List the groups whose weights are sharded."""
    found = []
    for g, group in enumerate(skeleton.holders):
        section = skeleton.sections[group.pieces[0].section]
        if section.zero and section.shards > 1:
            found.append(ShardedGroup(g, group, section.zero, section.shards))
    return found


def rows_of(group: ShardedGroup, lanes: RankLanes) -> list[list[int]]:
    """Return the rows of lanes of a group: each has a part per lane, and all rows have the same parts."""
    holders = list(dict.fromkeys(lanes.lane_of[piece] for piece in group.holders.pieces))
    k = min(group.parts, len(holders))
    return [holders[low : low + k] for low in range(0, len(holders), k)]


def in_step(plans: Iterable[LanePlan]) -> bool:
    """Tell whether the lanes of a row do the same, microbatch by microbatch.

    Only then may one wait for a reduction that it has joined before it goes on: what the others do before
    they join, it has done. Where replicas take turns, a lane joins those of others' microbatches early, even
    before an update, or a gather, that the others need to go on.
    """
    return len({tuple(_steps(plan)) for plan in plans}) == 1


def _steps(plan: LanePlan) -> Iterator[tuple[object, ...]]:
    for i, task in enumerate(plan.tasks):
        begun = len(plan.collectives[i + 1]), len(plan.gathers[i + 1])
        yield task.op, task.piece.section, task.piece.copy, task.numbers, task.step, begun


__all__ = ["ShardedGroup", "in_step", "rows_of", "sharded_groups"]
