"""Exchange groups: who reduces and gathers with whom, among the replicas of a stage.

Replicas of a stage are rows of consecutive ranks, all alike: the first row tells the groups of all of them.
Only with experts, which have a mesh of their own, a stage that has the whole model is placed and asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import chain
from typing import NamedTuple

from explorer.base.caching import Hashed
from explorer.base.units import scalar_bytes
from explorer.cluster import Cluster
from explorer.costs.memory_arrays import FloatArray, graph_arrays
from explorer.costs.memory_counts import carved_of, spread_axes
from explorer.graph import LayerGraph
from explorer.pricing.gradient_sync import (
    Sums,
    devices_of,
    gather_lines,
    reduction_steps,
    summing_groups,
    with_partial_sums,
)
from explorer.pricing.mesh_lines import Line, axis_lines, cut_row
from explorer.pricing.pricer import Pricer
from explorer.sharding import ShardedLayers
from explorer.strategy import JobStrategy, Stage
from explorer.tables.exchanges import BlockCount, ParameterBytes, Part, Reduction, StageExchanges
from explorer.tables.positions import Positions
from explorer.tasks.placement import Piece, place
from explorer.workload import Job

FIRST = Piece(0, 0, 0)
"""The replica that is looked at."""


class Rows(NamedTuple):
    """Replicas of a stage on consecutive ranks."""

    stage: Stage
    """The stage on its first row alone."""
    shards: ShardedLayers
    order: tuple[int, ...]
    """Device of every rank."""
    first: int
    """Rank of the first device."""
    replicas: int
    zero_replicas: int
    """Replicas over which ZeRO shards; 0 for all."""


def alike_exchanges(
    graph: LayerGraph, cluster: Cluster, job: Job, rows: Rows, positions: Positions
) -> StageExchanges:
    """Return the exchanges of replicas without expert parallelism.

    Args:
        graph: the model.
        cluster: the devices.
        job: the workload.
        rows: the replicas.
        positions: where runs start and stop.
    """
    row = rows.stage.meshes[0].rows[0]
    shards = rows.zero_replicas or rows.replicas
    lines = (axis_lines(rows.stage, 0, row),)
    chunks = tuple(r // shards for r in range(rows.replicas))
    parts = []
    for sums, size in _trained_bytes(graph, job, rows.shards, positions):
        (local,) = summing_groups((row,), lines, sums)
        if rows.replicas > 1 or sums:
            groups = _repeated(rows, row, (local,), rows.replicas)
            parts.append(_part(cluster, len(row), groups, chunks, size))
    reduces = rows.replicas > 1 and bool(parts)
    gathers = {}
    for carved in {1.0, *carved_of(rows.shards).tolist()}:
        cut = (row,) if carved == 1.0 else cut_row(rows.stage.meshes[0], row, spread_axes(rows.shards))
        together = devices_of(_repeated(rows, row, [part[:1] for part in cut], shards))
        if len(together) > 1:
            everyone = rows.replicas if shards > 1 else len(together)
            gathers[carved] = gather_lines(cluster, together, len(cut[0]), everyone)
    return StageExchanges(
        job=job,
        kinds=tuple(dict.fromkeys(cluster.kind_of(device) for device in row)),
        shards=shards,
        reductions=(Reduction(everyone=True, parts=tuple(parts)),) if reduces else (),
        unreduced=() if reduces or not job.training else tuple(parts),
        gathers=gathers,
        block_count=BlockCount(graph, positions),
    )


def _repeated(rows: Rows, row: Line, parts: Iterable[Line], replicas: int) -> Hashed[Line]:
    """Return the places of parts of the first row in so many rows."""
    place_of = {device: place for place, device in enumerate(row)}
    width, stop = len(row), rows.first + replicas * len(row)
    of_parts = [
        zip(*(rows.order[rows.first + place_of[device] : stop : width] for device in part), strict=True)
        for part in parts
    ]
    return Hashed(chain.from_iterable(zip(*of_parts, strict=True)))


def _part(
    cluster: Cluster, width: int, groups: tuple[Line, ...], chunks: tuple[int, ...], size: ParameterBytes
) -> Part:
    return Part(
        size, reduction_steps(cluster, 0, width, groups), reduction_steps(cluster, 1, width, groups, chunks)
    )  # fmt: skip


def placed_exchanges(
    graph: LayerGraph, cluster: Cluster, job: Job, stage: Stage, positions: Positions
) -> StageExchanges:
    """Return the exchanges of any stage.

    Args:
        graph: the model.
        cluster: the devices.
        job: the workload.
        stage: a stage that has the whole model, under some level of ZeRO.
        positions: where runs start and stop.
    """
    strategy = JobStrategy(stages=(stage,))
    placement = place(graph, strategy, training=job.training)
    pricer = Pricer(graph, cluster, job, strategy, placement)
    row, section = pricer.row(FIRST), pricer.sections[0]
    everyone = tuple(row for copy in section.rows for row in copy)
    shards, held = pricer.sharded[0].shards, pricer.held(0)

    def parts(rows: tuple[Line, ...], chunks: tuple[int, ...], parameters: Iterable[int]) -> tuple[Part, ...]:
        by_sums = _by_sums(graph, job, shards, held.held, positions, parameters)
        lines = tuple(pricer.lines(0, 0, row) for row in rows) if any(sums for sums, _ in by_sums) else ()
        groups = [(summing_groups(rows, lines, sums), size) for sums, size in by_sums]
        return tuple(_part(pricer.cluster, len(row), group, chunks, size) for group, size in groups)

    reductions = []
    for number, group in enumerate(placement.skeleton.holders):
        if FIRST in group.pieces:
            found = parts(pricer.reduced(number)[0], pricer.chunks(number), placement.held[number])
            reductions.append(Reduction(everyone=len(group.pieces) == len(everyone), parts=found))
    reduced = {p for found in placement.held for p in found}
    lonely = [p for p in with_partial_sums(shards, held) if p not in reduced]
    gathers = {}
    for item, (rows, _) in zip(held.weights, pricer.gathered(FIRST)[1:], strict=True):
        if len(rows) > 1:
            count = len(everyone) if section.shards > 1 else len(rows)
            devices = tuple(row[0] for row in rows)
            gathers[item.carved] = gather_lines(pricer.cluster, devices, len(rows[0]), count)
    return StageExchanges(
        job=job,
        kinds=tuple(dict.fromkeys(cluster.kind_of(device) for device in row)),
        shards=section.shards,
        reductions=tuple(reductions),
        unreduced=parts((row,), (), lonely) if job.training else (),
        gathers=gathers,
        block_count=BlockCount(graph, positions),
    )


def _trained_bytes(
    graph: LayerGraph, job: Job, shards: ShardedLayers, positions: Positions
) -> tuple[tuple[Sums, ParameterBytes], ...]:
    """Return the gradients of all that is trained, by the axes that they are partial over."""
    if not job.training:
        return ()
    trained = [p for p, item in enumerate(graph.parameters) if item.trainable]
    width = job.gradient_precision or job.precision
    make = partial(_by_sums, graph, job, shards, shards.holdings.fraction, positions, trained)
    if not positions.ordered:
        return make()
    found: tuple[tuple[Sums, ParameterBytes], ...] = shards.memo(("trained bytes", width), make)
    return found


def _by_sums(
    graph: LayerGraph,
    job: Job,
    shards: ShardedLayers,
    share: FloatArray,
    positions: Positions,
    parameters: Iterable[int],
) -> tuple[tuple[Sums, ParameterBytes], ...]:
    """Return the gradients of some parameters by the axes to add them over.

    Args:
        graph: the model.
        job: for the precision of gradients.
        shards: how the model is sharded.
        share: per parameter the share that a device holds.
        positions: where runs start and stop.
        parameters: their positions.
    """
    table, own = graph_arrays(graph).weight, shards.holdings
    width = scalar_bytes(job.gradient_precision or job.precision)
    sizes = ((table["compute"] * width + table["fixed"]) * table["density"] * share).tolist()
    found: dict[Sums, dict[int, float]] = {}
    for p in parameters:
        sums = own.table[own.number[p]].sums if own.summed[p] else ()
        found.setdefault(sums, {})[p] = sizes[p]
    return tuple((sums, ParameterBytes(graph, sizes, positions)) for sums, sizes in sorted(found.items()))
