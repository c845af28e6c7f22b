"""Folding of equal replicas: data-parallel replicas that see equal devices and links run equal timelines.

If every stage splits its microbatches evenly over the same number of replicas and replica r talks
only to replica r, replicas whose devices and routes are alike behave alike; one of each class is
lowered and stands for the others. Collectives still span all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from explorer.base.caching import Hashed, Same, remembered
from explorer.base.checkpoints import checkpoint
from explorer.cluster import Cluster
from explorer.pricing.mesh_lines import lines_of
from explorer.simulation.replica_arrays import LineArrays, UsedArrays
from explorer.simulation.replica_routes import InnerLines, Used
from explorer.strategy import JobStrategy, Mesh, Sharding
from explorer.tasks.skeleton import SectionShape, Skeleton


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """Which replicas are lowered, and which replicas each stands for."""

    kept: tuple[int, ...] | None
    """Replicas lowered; None for all."""
    classes: dict[int, tuple[int, ...]]
    """Kept replica -> replicas it stands for, itself included; empty without folding."""
    rows: dict[tuple[int, ...], tuple[int, ...]]
    """Devices of a kept row -> devices it stands for."""
    key: tuple[object, ...] = ()
    """What tells foldings of one skeleton apart, hashed once."""

    def stands_for(self, lanes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
        """Return, per lane, all devices it stands for."""
        return _stand_for(self, lanes)


@remembered(256)
def _stand_for(folding: Folding, lanes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    by_device: dict[int, set[int]] = {}
    for row, devices in folding.rows.items():
        for i, device in enumerate(row):
            by_device.setdefault(device, set()).update(devices[i :: len(row)])
    return Hashed(
        tuple(sorted({d for device in lane for d in by_device.get(device, {device})})) for lane in lanes
    )


UNFOLDED = Folding(kept=None, classes={}, rows={})


def fold_replicas(cluster: Cluster, skeleton: Skeleton, strategy: JobStrategy) -> Folding:
    """Group the replicas of a strategy into classes of equal ones.

    They are told apart by structure and meshes alone, so a strategy with a layer moved has the same folding.
    """
    if any(sync.servers for sync in strategy.sync):
        return UNFOLDED
    stages = strategy.stages
    meshes, shardings = Same([stage.meshes for stage in stages]), Same([stage.shardings for stage in stages])
    return _fold_same(cluster, skeleton, meshes, shardings)


@remembered(1024)
def _fold_same(
    cluster: Cluster,
    skeleton: Skeleton,
    meshes: Same[tuple[Mesh, ...]],
    shardings: Same[tuple[Sharding, ...]],
) -> Folding:
    others = tuple(tuple(item.meshes for item in found if item.meshes) for found in shardings)
    return _fold(cluster, skeleton, tuple(meshes), others)


@remembered(1024)
def _fold(
    cluster: Cluster,
    skeleton: Skeleton,
    meshes: tuple[tuple[Mesh, ...], ...],
    others: tuple[tuple[tuple[Mesh, ...], ...], ...],
) -> Folding:
    sections = skeleton.sections
    if not _regular(skeleton):
        return UNFOLDED
    along = [
        (meshes[section.stage][0], *(found[0] for found in others[section.stage])) for section in sections
    ]
    used = used_by(cluster, skeleton, along)
    classes = used.classes()
    kept = tuple(members[0] for members in classes)
    if len(kept) == sections[0].replicas or any(used.crossed(members) for members in classes):
        return UNFOLDED
    by_replica = {members[0]: tuple(members) for members in classes}
    different = tuple(dict.fromkeys(section.rows[0] for section in sections))  # chunks share devices
    rows = {
        own[replica]: tuple(device for member in members for device in own[member])
        for replica, members in by_replica.items()
        for own in different
    }
    return Folding(kept=kept, classes=by_replica, rows=rows, key=Hashed((kept, *by_replica.items())))


def _regular(skeleton: Skeleton) -> bool:
    """Tell whether all stages split evenly over equally many replicas, and no group exchanges in turn."""
    replicas = skeleton.sections[0].replicas
    in_turn = any(group.turn[1] > 1 for group in skeleton.holders)
    return (
        replicas > 1
        and not in_turn
        and all(
            section.replicas == replicas
            and not section.round_robin
            and len(section.rows) == 1
            and len({b - a for a, b in pairwise(section.offsets)}) == 1
            for section in skeleton.sections
        )
    )


def used_by(cluster: Cluster, skeleton: Skeleton, along: list[tuple[Mesh, ...]]) -> Used | UsedArrays:
    """Return what the replicas of regular sections use, as arrays where levels alone describe the cluster.

    Args:
        cluster: the devices and their links.
        skeleton: regular sections.
        along: per section its own mesh, and those of its exceptions.
    """
    pairs = list(zip(along, skeleton.sections, strict=True))
    keys = [(*map(id, meshes), id(section.rows[0])) for meshes, section in pairs]
    if cluster.links:
        arrays: list[LineArrays | None] = [None]
    else:
        different = dict(zip(keys, pairs, strict=True))  # chunks share devices
        known = {key: line_arrays(*pair) for key, pair in different.items()}
        arrays = [known[key] for key in keys]
    found = tuple(lines for lines in arrays if lines is not None)
    if len(found) == len(arrays):
        return UsedArrays(cluster, skeleton.sections, skeleton.flows, found)
    inner = tuple(_inner_lines(meshes, section) for meshes, section in pairs)
    return Used(cluster, skeleton.sections, skeleton.flows, inner)


def _inner_lines(along: tuple[Mesh, ...], section: SectionShape) -> InnerLines:
    """Return the inner lines of a section; () if a row is one device, on axes of its own."""
    if len(section.rows[0][0]) == 1 and len(along) == 1:
        return ()
    return tuple(
        tuple(line for _, _, lines in lines_of(along, row) for line in lines) for row in section.rows[0]
    )


def line_arrays(along: tuple[Mesh, ...], section: SectionShape) -> LineArrays | None:
    """Return the same by size, of shape (replicas, lines, devices); None if replicas have different ones."""
    checkpoint()
    rows = section.rows[0]
    if along == (along[0],) and rows == along[0].rows:
        place = {device: number for number, device in enumerate(rows[0])}
        inner = [
            np.array([[place[device] for device in line] for line in lines])
            for _, _, lines in lines_of(along, rows[0])
        ]
        table = np.array(rows, dtype=np.int64)
        return tuple(table[:, lines] for lines in inner)
    lines = _inner_lines(along, section)
    sizes = {tuple(map(len, own)) for own in lines}
    if len(sizes) > 1:
        return None
    by_size: dict[int, list[int]] = {}
    for number, size in enumerate(next(iter(sizes), ())):
        by_size.setdefault(size, []).append(number)
    return tuple(
        np.array([[own[number] for number in numbers] for own in lines], dtype=np.int64)
        for numbers in by_size.values()
    )
