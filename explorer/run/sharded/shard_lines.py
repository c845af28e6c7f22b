"""Shard lines: between which ranks the weights of every holders group are sharded (ZeRO, HSDP)."""

from __future__ import annotations

from explorer.run.ranks.lane import RankLanes
from explorer.run.sharded.communicators import ready_group
from explorer.run.sharded.flat_weights import ShardLines
from explorer.run.sharded.lanes import LanePlace
from explorer.tasks.placement import Holders, Skeleton


def sharded_groups(skeleton: Skeleton) -> list[tuple[int, Holders, int, int]]:
    """List the groups whose weights are sharded: number, holders, ZeRO level and most parts."""
    found = []
    for g, group in enumerate(skeleton.holders):
        section = skeleton.sections[group.pieces[0].section]
        if section.zero and section.shards > 1:
            found.append((g, group, section.zero, section.shards))
    return found


def open_shards(
    lanes: RankLanes, where: LanePlace | None, *, ranks: int = 1
) -> dict[int, tuple[int, ShardLines]]:
    """Make the process groups of all that is sharded; every rank calls it, in one order.

    Args:
        lanes: plans of the lanes.
        where: this rank's place; None for a rank without a lane.
        ranks: ranks of a lane, where there is no place that says so.

    Returns:
        Per group that this rank holds: ZeRO level, and the ranks of its parts.
    """
    found = {}
    each = where.ranks if where else ranks
    for g, group, level, parts in sharded_groups(lanes.program.skeleton):
        holders = list(dict.fromkeys(lanes.lane_of[piece] for piece in group.pieces))
        k = min(parts, len(holders))
        for place in range(each):
            rows = [
                [lane * each + place for lane in holders[low : low + k]] for low in range(0, len(holders), k)
            ]
            inner = [ready_group(row) for row in rows]
            columns = [list(column) for column in zip(*rows, strict=True)]
            outer = [ready_group(row) for row in columns]
            if where is not None and place == where.place and where.lane in holders:
                row, at = divmod(holders.index(where.lane), k)
                lines = ShardLines(inner=inner[row], place=at, size=k, outer=outer[at], copies=len(rows))
                found[g] = (level, lines)
    return found
