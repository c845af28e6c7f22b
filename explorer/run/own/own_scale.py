"""From a plan to what runs here of it with the model's own layers, and what was shortened for that.

Ranks, merged stages, microbatches and shares are those of the plan's likeness (`run.cases.likeness`); the
layers are the plan's own. Until a step is short and small enough, samples of a microbatch, tokens and then
blocks are taken away: blocks in proportion, at least one of every stage, and only whole ones that no stage
cuts. Widths stay.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from explorer.base.errors import InputError
from explorer.base.trust import runs_code
from explorer.graph import LayerGraph
from explorer.models import SOURCES, load_model
from explorer.models.module_source import has_module
from explorer.models.modules import MODULES
from explorer.models.torch_export import UNUSED
from explorer.plan import Reference, Resolved, located
from explorer.run.cases.left_out import CUT, OWN_BLOCKS
from explorer.run.cases.likeness import Scaled, UnitSize, scale
from explorer.run.cases.spread_experts import spread_experts
from explorer.run.gpus import gpu_bytes
from explorer.run.lane_layout import LaneLayout
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_source import OwnSource, own_source
from explorer.run.own.planned_layers import as_planned, planned_layers
from explorer.run.own.planned_slices import cut_dims, require_known, stage_members
from explorer.run.own.shortened import Shortened
from explorer.run.own.shortening import (
    Keep,
    kept_blocks,
    parameter_elements,
    sample_flops,
    whole_blocks,
)
from explorer.strategies.keeping import Kept, exceptions_of, full_blocks, with_kept
from explorer.strategy import REPLICA, TILES, JobStrategy, Mesh, Sharding, Stage

STEP_S, MOST_STEP_S = 1.2, 6.0
"""Wanted seconds of a step in one process, and those above which own layers run only if asked for by name."""
FLOPS_PER_S, ELEMENT_S = 5e10, 1.5e-8
"""FLOP/s that a core is assumed to reach, and seconds of a step for each scalar: its update and gradients."""
FEWEST_TOKENS = 16
"""Tokens of a sample below which none are taken away."""
COPIES = 14
"""Copies of all weights that ranks and the comparison with one process hold at a time, per rank."""
MOST_MEMORY = 0.6
"""Most of the free memory that own layers may take: others work on the machine too."""
_OWN = UnitSize(samples=1)
APART = "layers laid out apart from their stage"
"""Beginning of what a likeness says of layers with a layout of their own."""
ONE_RANK = LaneLayout()
"""Lanes of one rank."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What a rank has on other machines than this."""

    memory_bytes: float
    """Memory of its device."""
    flops_per_s: float
    """FLOP/s that it is assumed to reach."""


def own_scaled(
    resolved: Resolved,
    *,
    ranks: int,
    step_s: float = STEP_S,
    most_s: float = math.inf,
    lane: LaneLayout = ONE_RANK,
    elsewhere: Elsewhere | None = None,
) -> tuple[Scaled, tuple[Shortened, ...]]:
    """Bring a plan down to at most so many ranks, with its model's own layers.

    Args:
        resolved: the plan.
        ranks: most lanes.
        lane: how layers are laid out over the ranks of a lane; exceptions name layers of the plan.
        step_s: wanted seconds of a step in one process.
        most_s: seconds of a step in one process above which it is refused.
        elsewhere: where it will run, if not here.

    Raises:
        InputError: no code behind the plan's model, layers of the plan that the module does not have,
            a layout or slices by dimensions that the module does not have, slices that give something else
            than whole layers, or a step that is too long, or needs too much memory, however short it is made.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    item = _with_code(resolved)
    cut = cut_dims(strategy)
    if cut and lane.axes:
        raise InputError(
            "layers cut into slices over stages do not run yet on lanes of several ranks", key="slices",
            found=", ".join(sorted(cut)), allowed="lanes of one rank, whole layers, or --engine likeness",
        )  # fmt: skip
    like = scale(resolved.graph, resolved.cluster, job, strategy, ranks=ranks, size=_OWN)
    tokens, keep = _short_enough(resolved, item, like, step_s, most_s, lane.lane_ranks, elsewhere)
    own = own_source(
        located(item.reference, resolved.folder), settings=dict(item.settings), sequence_length=tokens,
        keep=keep,
    )  # fmt: skip
    named = _plan_names(item.reference, own, resolved.graph)
    made = _stages(own.graph, named, resolved, like)
    model = _laid_out(own, lane, named, resolved.graph, cut)
    if lane.axes:
        made = [on_lane(stage, model) for stage in made]
        like = replace(like, ranks=like.ranks * lane.lane_ranks)
    shortened = _rows(resolved, like, tokens, own.model.keep)
    own_words = {"ratio of the stages' times"}
    lost = [text for text in like.not_validated if not _carried(text)]
    experts = spread_experts(model, own.graph, named, made, strategy.stages)
    said: list[str] = []
    if experts is not None:
        model, made = experts.model, list(experts.stages)
        _require_pieces(model, made)
        lost = [text for text in lost if not text.startswith((APART, f"{experts.axis} parallelism: "))]
        said, less = experts.words
        lost += less
    sliced = _cut_over_stages(model, as_planned(own.graph, model.planned), like.strategy.with_stages(made))
    scaled = replace(
        like,
        model=model,
        graph=as_planned(own.graph, model.planned),
        eager=as_planned(own.eager, model.planned),
        strategy=like.strategy.with_stages(made),
        validated=(
            *(text for text in like.validated if text not in own_words),
            *said,
            *sliced,
            f"the model's own layers: {len(own.graph.layers)} of {len(resolved.graph.layers)}",
        ),
        not_validated=tuple(lost),
    )
    return scaled, shortened


def _require_pieces(model: OwnModel, stages: Sequence[Stage]) -> None:
    """Refuse own layers that cannot run on the pieces that ranks of several replicas hold.

    Raises:
        InputError: a layer that has no arithmetic for its pieces.
    """
    from explorer.run.sharded.own_check import require_pieces  # imports torch

    for samples in sorted({s.microbatch_samples // len(s.meshes[0].rows) for s in stages}):
        require_pieces(model, max(1, samples))


def _cut_over_stages(model: OwnModel, graph: LayerGraph, strategy: JobStrategy) -> tuple[str, ...]:
    """Say which layers run in slices over stages, each of which has been tried in its parts.

    Raises:
        InputError: a layer that cannot run so.
    """
    slices = [part for stage in strategy.stages for part in stage.slices]
    if not slices:
        return ()
    from explorer.run.own.slices_check import require_slices  # imports torch

    require_known(graph, slices)
    require_slices(model, graph, strategy)
    names = dict.fromkeys(part.layer for part in slices)
    return (f"layers cut over stages: {', '.join(names)}",)


def _laid_out(
    own: OwnSource, lane: LaneLayout, named: Mapping[str, str], plan: LayerGraph, cut: Collection[str]
) -> OwnModel:
    """Return a model with the layout of its lanes, by the names that its layers have.

    Raises:
        InputError: a dimension of the layout that the plan's graph has and the module's does not.
    """
    layouts = (lane.layout, *(layout for _, layout in lane.exceptions))
    dims = {dim for layout in layouts for dim, _ in layout}
    planned = planned_layers(own.graph, named, plan, dims.union(cut))
    made = as_planned(own.graph, planned)
    here, there = ({dim.name for layer in graph.layers for dim in layer.dims} for graph in (made, plan))
    exceptions = tuple(
        (tuple(n for n, of in named.items() if any(fnmatchcase(of, p) for p in patterns)), layout)
        for patterns, layout in lane.exceptions
    )
    pairs = [*lane.layout, *(pair for _, layout in exceptions for pair in layout)]
    if missing := [dim for dim, _ in pairs if dim in there - here]:
        raise InputError(
            f"the module has no dimension {missing[0]!r} that its lanes could cut", key="layout",
            found=missing[0], allowed=", ".join(sorted(here & there)),
        )  # fmt: skip
    return replace(
        own.model, layout=lane.layout, axes=lane.axes, exceptions=exceptions, uneven=lane.uneven,
        tiles=lane.tiles,
        planned=planned,
    )  # fmt: skip


def on_lane(stage: Stage, model: LaneLayout) -> Stage:
    """Return a stage whose devices are lanes as a stage on the ranks of these lanes."""
    each = model.lane_ranks
    meshes = tuple(
        Mesh(
            devices=tuple(lane * each + place for lane in mesh.devices for place in range(each)),
            axes=((REPLICA, len(mesh.devices)), *model.axes),
        )
        for mesh in stage.meshes
    )
    return replace(
        stage, meshes=meshes, layout=model.layout, axis_shares=model.uneven,
        overlap=tuple((axis, TILES) for axis in model.tiles),
        shardings=tuple(Sharding(layers=item, layout=layout) for item, layout in model.exceptions),
    )  # fmt: skip


def _with_code(resolved: Resolved) -> Reference:
    """Return the plan's only model, behind which there is code."""
    if reason := codeless(resolved):
        raise InputError(
            reason, key="engine", found="layers",
            allowed="--engine likeness, which runs stand-ins; or a plan for a zoo model with a module,"
            " hf:PATH or module:factory",
        )  # fmt: skip
    return resolved.plan.models[0][1]


def codeless(resolved: Resolved, *, travels: bool = False) -> str:
    """Return why a plan has no layers of its own to run; empty if there is code behind its model.

    `travels`: whether that code has to run elsewhere, where this package is, but no file of the user's.
    """
    if len(resolved.plan.models) > 1:
        return "own layers of several models do not run yet"
    reference = resolved.plan.models[0][1].reference
    if travels and runs_code(reference):
        return f"the code of {reference!r} is not carried along"
    if has_module(located(reference, resolved.folder)):
        return ""
    return f"{reference!r} is a graph without code, so it has no layers of its own to run"


def _carried(text: str) -> bool:
    """Tell whether own layers carry what a likeness says that it leaves out."""
    return text.startswith((
        OWN_BLOCKS, CUT, "the layers themselves", "weights that stages share", "samples of a microbatch",
        "tokens of a sample",
    ))  # fmt: skip


def _short_enough(
    resolved: Resolved,
    item: Reference,
    like: Scaled,
    step_s: float,
    most_s: float,
    each: int,
    elsewhere: Elsewhere | None,
) -> tuple[int | None, Keep]:
    """Return the tokens of a sample and the blocks that stay; lanes have `each` ranks.

    Raises:
        InputError: a step that is too long, or needs too much memory, with as few as may stay.
    """
    graph, batch = resolved.graph, like.job.global_batch
    flops_per_s = elsewhere.flops_per_s if elsewhere else FLOPS_PER_S
    most = step_s * flops_per_s / (3 * batch)
    ranks = like.ranks * each
    free = _room(ranks, elsewhere)
    memory = 0.5 * free / (4 * COPIES * ranks)

    def seconds(flops: float, elements: float) -> float:
        return 3 * batch * flops / flops_per_s + ELEMENT_S * elements

    tokens: int | None = item.sequence_length or None
    length = graph.defaults.sequence_length
    if length and sample_flops(graph) > most:
        fewer = max(FEWEST_TOKENS, min(length, int(length * most / sample_flops(graph))))
        tokens = 2 ** (fewer.bit_length() - 1) if fewer < length else tokens
        shorter = _reloaded(resolved, item, tokens)
        graph = shorter if shorter is not None else graph
        tokens = tokens if shorter is not None else (item.sequence_length or None)
    blocks = whole_blocks(resolved.graph, resolved.plan.strategy.job.stages)
    keep = kept_blocks(
        graph, blocks, fits=lambda flops, elements: seconds(flops, elements) <= step_s and elements <= memory
    )
    stay = {f"{path}.{n}": n in kept for path, count, kept in keep for n in range(count)}
    elements = parameter_elements(graph, stay)
    if (needed := 4 * COPIES * ranks * elements) > MOST_MEMORY * free:
        raise InputError(
            f"its own layers need {needed / 2**30:.1f} GiB on {ranks} ranks, however few blocks run",
            key="ranks", found=f"{ranks} ranks, {free / 2**30:.1f} GiB free",
            allowed="fewer ranks, more memory, or --engine likeness",
        )  # fmt: skip
    if (taken := seconds(sample_flops(graph, stay), elements)) > most_s:
        raise InputError(
            f"a step of its own layers takes some {taken:.0f} s, however few blocks run", key="engine",
            found="layers", allowed="--engine layers, which runs it all the same, or --engine likeness",
        )  # fmt: skip
    return tokens, keep


def room_bytes(ranks: int, elsewhere: Elsewhere | None) -> float:
    """Return the bytes that own layers may take on all ranks together."""
    return MOST_MEMORY * _room(ranks, elsewhere)


def _room(ranks: int, elsewhere: Elsewhere | None) -> float:
    """Return the memory of all ranks together: free here, or of their GPUs if that is less."""
    if elsewhere is not None:
        return elsewhere.memory_bytes * ranks
    return min(_free_bytes(), ranks * gpu_bytes(ranks) or math.inf)


def _free_bytes() -> float:
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return 4e9


def _reloaded(resolved: Resolved, item: Reference, tokens: int | None) -> LayerGraph | None:
    """Return the plan's graph for samples of so many tokens; None if its source has none."""
    try:
        return load_model(
            located(item.reference, resolved.folder), sequence_length=tokens, settings=dict(item.settings)
        )
    except InputError:
        return None


def _plan_names(reference: str, own: OwnSource, graph: LayerGraph) -> dict[str, str]:
    """Map every layer that runs to the plan's layer that it is.

    Raises:
        InputError: the plan has no such layer, or has layers that do not run.
    """
    known = reference in SOURCES.names()
    family = MODULES.get(SOURCES.get(reference).family) if known else None
    named = {item.name: family.layer(item.name) if family else item.name for item in own.graph.layers}
    strange = [name for name, plan in named.items() if plan not in graph.layer]
    blocks = {graph.layer[plan].block for plan in named.values() if plan in graph.layer}
    gone = {f"{path}.{n}" for path, count, kept in own.model.keep for n in set(range(count)) - set(kept)}
    missing = [
        item.name
        for item in graph.layers
        if item.name not in named.values() and item.block not in gone and item.name != UNUSED
    ]
    if strange or missing:
        raise InputError(
            f"{(strange or missing)[0]!r} is a layer of {'the module' if strange else 'the plan'} only",
            key="layers", found=(strange or missing)[0],
            allowed=f"the same layers in both ({len(blocks)} blocks agree), or --engine likeness",
        )  # fmt: skip
    return named


def _stages(graph: LayerGraph, named: Mapping[str, str], resolved: Resolved, like: Scaled) -> list[Stage]:
    """Return the stages of the run with the layers of the plan's stages for which they stand."""
    plan = resolved.plan.strategy.job.stages
    made = []
    for stage, group in zip(like.strategy.stages, like.groups, strict=True):
        layers, slices = stage_members(graph, named, [plan[s] for s in group])
        if not layers and not slices:
            raise InputError(
                f"nothing of stage {group[0]} can run", key="stages", found=group[0],
                allowed="stages with a layer that is not the loss alone",
            )  # fmt: skip
        made.append(_with_blocks(graph, named, resolved, group, replace(stage, layers=layers, slices=slices)))
    return made


def _with_blocks(
    graph: LayerGraph, named: Mapping[str, str], resolved: Resolved, group: Sequence[int], stage: Stage
) -> Stage:
    """Return a stage that makes the blocks again which its stages of the plan make again, and no others."""
    plan = [resolved.plan.strategy.job.stages[s] for s in group]
    if not any(own.recompute for item in plan for own in exceptions_of(item).values()):
        return stage
    again = {name for item in plan for names in full_blocks(resolved.graph, item) for name in names}
    own = {item.name: Kept("full") for item in graph.layers if item.block and named[item.name] in again}
    return with_kept(replace(stage, recompute="none"), own)


def _rows(
    resolved: Resolved,
    like: Scaled,
    tokens: int | None,
    keep: Keep,
) -> tuple[Shortened, ...]:
    """Return the table of what was shortened."""
    plan, here = resolved.plan.strategy.job, like.strategy
    rows = [
        Shortened(what=f"blocks of {path}", plan=str(count), here=str(len(kept)))
        for path, count, kept in keep
    ]
    length = resolved.graph.defaults.sequence_length
    job = resolved.plan.workload.job
    sizes = [Counter(stage.microbatch_samples for stage in item.stages) for item in (plan, here)]
    for what, before, after in (
        ("tokens of a sample", length, tokens or length),
        ("samples of a microbatch", max(sizes[0]), max(sizes[1])),
        ("samples of a batch", job.global_batch, like.job.global_batch),
        ("ranks", len(plan.devices), like.ranks),
    ):
        if before != after:
            rows.append(Shortened(what=what, plan=str(before), here=str(after)))
    if any(item.kind == "dropout" or "dropout" in item.name for item in resolved.graph.layers):
        rows.append(Shortened(what="dropout", plan="on", here="off"))
    return tuple(rows)
