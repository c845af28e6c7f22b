"""Flat groups of a case: weights that its ranks shard among them (ZeRO, HSDP), whose exchanges are timed."""

from __future__ import annotations

from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared
from explorer.run.ranks.group_parameters import group_parameters
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.shard_rows import rows_of, sharded_groups
from explorer.run.spec import FlatGroup


def flat_groups(prepared: Prepared, graph: LayerGraph) -> dict[int, FlatGroup]:
    """Return the flat weights of a case of whole layers by the number of their group.

    Args:
        prepared: the case; one whose layers are cut over ranks has none that are timed.
        graph: the model that it runs.
    """
    skeleton = prepared.program.skeleton
    groups = sharded_groups(skeleton)
    if not groups or prepared.case.model is None or prepared.case.over_ranks:
        return {}
    names, lanes = group_parameters(prepared.case, skeleton), RankLanes(prepared.program)
    found = {}
    for group in groups:
        rows = rows_of(group, lanes)
        found[group.number] = FlatGroup(
            elements=int(sum(graph.parameter[name].elements for name in names[group.number])),
            level=group.level,
            parts=len(rows[0]),
            copies=len(rows),
        )
    return found


__all__ = ["flat_groups"]
