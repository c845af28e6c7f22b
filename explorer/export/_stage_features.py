"""Where a plan uses features of stages: how they hang together, how layers are laid out, what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations

from explorer.export._plan_parts import PlanPart, blocks_of, first_meshes, listed, stage_edges, where_true
from explorer.sharding.derive import RING
from explorer.strategies.model_axes import CONTEXT, EXPERT, TENSOR
from explorer.strategy import REPLICA, SPLIT, Mesh, Stage

MEGATRON_DIMS = frozenset({"heads", "kv_heads", "ffn", "vocab"})
"""Dimensions that Megatron-LM's tensor parallelism splits."""

CONTEXT_EXCHANGES = {
    frozenset({"seq"}): "gather",
    frozenset({"seq", RING}): "ring",
    frozenset({"seq", "heads", "kv_heads"}): "all_to_all",
}
"""How attention sees the whole sequence, by the dimensions that context parallelism splits."""


def context_exchange(part: PlanPart) -> list[str]:
    """Return the ways, other than gathering, in which attention sees the whole sequence."""
    found = [
        CONTEXT_EXCHANGES.get(frozenset(dim for dim, axis in stage.layout if axis == CONTEXT), "")
        for stage in part.strategy.stages
        if stage.meshes[0].size(CONTEXT) > 1
    ]
    return [name for name in dict.fromkeys(found) if name not in ("", "gather")]


def stage_dag(part: PlanPart) -> Iterator[str]:
    """Yield the edges of stages that are not a chain."""
    wrong = sorted(edge for edge in stage_edges(part) if edge[1] != edge[0] + 1)
    if wrong:
        yield "stages " + ", ".join(f"{a} -> {b}" for a, b in wrong[:4])


def uneven_stages(part: PlanPart) -> Iterator[str]:
    """Yield how many blocks the stages have, if they differ."""
    counts = [len(blocks_of(part.graph, stage)) for stage in part.strategy.stages]
    if len(set(counts)) > 1:
        yield f"{listed(counts)} blocks"


def virtual_stages(part: PlanPart) -> Iterator[str]:
    """Yield stages and device groups, if there are more stages."""
    stages = part.strategy.stages
    if len(stages) > len({stage.meshes for stage in stages}):
        yield f"{len(stages)} stages on {len({stage.meshes for stage in stages})} device groups"


def overlapping(part: PlanPart) -> Iterator[str]:
    """Yield a device that is in two different groups."""
    groups = [set(mesh.devices) for mesh in dict.fromkeys(first_meshes(part))]
    shared = [(a, b) for a, b in combinations(groups, 2) if a & b]
    if shared:
        yield f"device {min(shared[0][0] & shared[0][1])} is in two different groups"


def mesh_shapes(part: PlanPart) -> Iterator[str]:
    """Yield the shapes of the stages' meshes, if they differ."""
    shapes = list(dict.fromkeys(mesh.axes for mesh in first_meshes(part)))
    if len(shapes) > 1:
        yield " and ".join(" x ".join(f"{size} {name}" for name, size in shape) for shape in shapes[:3])


def copies(part: PlanPart) -> Iterator[str]:
    """Yield the copies of every stage, if there are several."""
    if part.strategy.copies > 1:
        yield f"{part.strategy.copies} copies of every stage"


def uneven_share(stage: Stage) -> bool:
    """Tell whether replicas of a stage have different shares of a microbatch."""
    if stage.replicas != SPLIT:
        return False
    return len(set(stage.shares)) > 1 or stage.microbatch_samples % stage.meshes[0].replicas > 0


def microbatch_sizes(part: PlanPart) -> Iterator[str]:
    """Yield the sizes of microbatches, if they differ."""
    sizes = sorted({stage.microbatch_samples for stage in part.strategy.stages})
    if len(sizes) > 1:
        yield f"{listed(sizes)} samples"


def split_blocks(part: PlanPart) -> Iterator[str]:
    """Yield a block of which two stages have layers."""
    seen: dict[str, int] = {}
    for i, stage in enumerate(part.strategy.stages):
        for block in blocks_of(part.graph, stage):
            if seen.setdefault(block, i) != i:
                yield f"block {block} on stages {seen[block]} and {i}"
                return


def tied(part: PlanPart) -> Iterator[str]:
    """Yield a parameter that two stages share."""
    home = {name: s for s, stage in enumerate(part.strategy.stages) for name in stage.all_layers}
    owners: dict[str, set[int]] = {}
    for layer in part.graph.layers:
        for use in layer.parameters:
            owners.setdefault(use.name, set()).add(home[layer.name])
    cut = {layer for stage in part.strategy.stages for layer in (item.layer for item in stage.slices)}
    shared = [name for name, stages in owners.items() if len(stages) > 1]
    if shared and not cut:
        yield f"{shared[0]} on stages {listed(sorted(owners[shared[0]]))}"


def kinds_of_layout(layout: Iterable[tuple[str, str]], mesh: Mesh) -> set[str]:
    """Return ways of sharding that a layout combines over axes longer than one; `other` if unknown."""
    dims: dict[str, set[str]] = {}
    for dim, axis in layout:
        if mesh.size(axis) > 1:
            dims.setdefault(axis, set()).add(dim)
    kinds = set()
    for axis, found in dims.items():
        if axis == TENSOR and found in (MEGATRON_DIMS, MEGATRON_DIMS | {"seq"}):
            kinds |= {TENSOR, *(("sequence",) if "seq" in found else ())}
        elif axis == CONTEXT and frozenset(found) in CONTEXT_EXCHANGES:
            kinds.add(CONTEXT)
        elif axis != REPLICA and found == {"experts"}:
            kinds.add(EXPERT)
        else:
            kinds.add("other")
    unused = [name for name, size in mesh.axes if size > 1 and name != REPLICA and name not in dims]
    return kinds | ({"other"} if unused else set())


def of_layout(kind: str) -> Callable[[PlanPart], list[str]]:
    """Make a finder of the stages with this way of sharding."""

    def test(stage: Stage) -> bool:
        own = kind in kinds_of_layout(stage.layout, stage.meshes[0])
        special = any(
            kind in kinds_of_layout(item.layout, (item.meshes or stage.meshes)[0]) - {"other"}
            for item in stage.shardings
        )
        return own or special

    return lambda part: where_true(part, test)


def of_zero(level: int) -> Callable[[PlanPart], list[str]]:
    """Make a finder of the stages with this ZeRO level."""
    return lambda part: where_true(part, lambda stage: stage.zero == level and stage.meshes[0].replicas > 1)


def mixed(field: str) -> Callable[[PlanPart], list[str]]:
    """Make a finder of the values of a field of stages, if they differ."""

    def find(part: PlanPart) -> list[str]:
        values = list(dict.fromkeys(getattr(stage, field) for stage in part.strategy.stages))
        return [listed(values)] if len(values) > 1 else []

    return find
