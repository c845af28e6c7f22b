"""Shard lines: between which ranks the weights of every holders group are sharded (ZeRO, HSDP)."""

from __future__ import annotations

from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.shard_rows import rows_of, sharded_groups
from explorer.run.sharded.communicators import ready_group
from explorer.run.sharded.flat_weights import ShardLines
from explorer.run.sharded.lanes import LanePlace


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
    for group in sharded_groups(lanes.program.skeleton):
        among = rows_of(group, lanes)
        holders, k = [lane for row in among for lane in row], len(among[0])
        for place in range(each):
            rows = [[lane * each + place for lane in row] for row in among]
            inner = [ready_group(row) for row in rows]
            columns = [list(column) for column in zip(*rows, strict=True)]
            outer = [ready_group(row) for row in columns]
            if where is not None and place == where.place and where.lane in holders:
                row, at = divmod(holders.index(where.lane), k)
                lines = ShardLines(inner=inner[row], place=at, size=k, outer=outer[at], copies=len(rows))
                found[group.number] = (group.level, lines)
    return found
