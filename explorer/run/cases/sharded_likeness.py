"""Sharded likeness: a plan brought down to lanes of a few ranks, laid out as the plan's lanes are.

Order, replicas, merged stages and microbatches are those of the plan's likeness (`run.cases.likeness`), whose
ranks are lanes here. Lanes are as wide as ranks allow, along the plan's own mesh axes. What runs are the
layers of the plan's graph: fewer blocks, and unless widths are to stay, smaller dimensions.
"""

from __future__ import annotations

from dataclasses import fields, replace

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.run.cases.left_out import left_out
from explorer.run.cases.likeness import Scaled, UnitSize, scale
from explorer.run.cases.small_graphs import with_sizes, without_blocks, without_internals
from explorer.run.cases.spread_experts import spread_experts
from explorer.run.lane_layout import LaneLayout
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import Elsewhere, on_lane, own_scaled
from explorer.run.own.shortened import Shortened
from explorer.run.own.shortening import kept_blocks, whole_blocks
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.sharded.requests import request_of
from explorer.sharding.stage import Request
from explorer.strategy import TILES, JobStrategy, Stage
from explorer.workload import Job

ELEMENTS = 5e7
"""Most scalars of the parameters that run."""
CARRIED = ("Mesh.axes", "Stage.axis_shares", "Stage.shardings", "Parameter.name", "Parameter.density")
"""Fields that lanes of several ranks take over or count, besides those of every likeness."""

BESIDE = "collectives of a lane beside its work"
"""Beginning of what a likeness says of collectives that overlap with work."""
COUNTED = ("devices: ", "pipeline devices: ")
"""Beginnings of what a likeness says of its lanes, which the table of what is less says of their ranks."""


def lane_axes(strategy: JobStrategy, ranks: int) -> tuple[tuple[str, int], ...]:
    """Return the mesh axes of a lane here, each no longer than the plan's; () if the plan has none.

    On four ranks and more a plan of several lanes keeps two of them.

    Raises:
        InputError: stages of unlike layouts.
    """
    wanted = request_of(strategy, apart=True).sizes
    lanes = len({row for stage in strategy.stages for mesh in stage.meshes for row in mesh.rows})
    room = ranks // 2 if lanes > 1 and ranks > 3 else ranks
    sizes = dict.fromkeys((name for name, _ in wanted), 1)
    grown = True
    while grown:
        grown = False
        for name, most in wanted:
            left = most // sizes[name]
            factor = next((f for f in range(2, left + 1) if left % f == 0), 0)
            if factor and factor <= room:
                sizes[name], room, grown = sizes[name] * factor, room // factor, True
    return tuple((name, size) for name, size in sizes.items() if size > 1)


def lane_of(strategy: JobStrategy, ranks: int) -> LaneLayout:
    """Return the layout of a plan's lanes, over as many ranks as there are; layers over several lanes are
    for others to lay out.

    Raises:
        InputError: stages of unlike layouts.
    """
    axes, request = dict(lane_axes(strategy, ranks)), request_of(strategy, apart=True)
    return LaneLayout(
        layout=tuple(pair for pair in request.layout if pair[1] in axes), axes=tuple(axes.items()),
        exceptions=tuple((item.layers, item.layout) for item in request.overrides),
        uneven=tuple((a, s) for a, s, _ in request.uneven if len(s) == axes.get(a)),
        tiles=tuple(a for a, how in _overlaps(strategy) if how == TILES and a in axes),
    )  # fmt: skip


def _overlaps(strategy: JobStrategy) -> tuple[tuple[str, str], ...]:
    """Return the overlaps of collectives that all stages have."""
    first, *others = strategy.stages
    return tuple(pair for pair in first.overlap if all(pair in stage.overlap for stage in others))


def _hides_all(strategy: JobStrategy, lane: LaneLayout) -> bool:
    """Tell whether every overlap of a plan's stages runs here: tiles of an axis that is here."""
    return all(
        how == TILES and axis in lane.tiles for stage in strategy.stages for axis, how in stage.overlap
    )  # fmt: skip


def _axes_here(request: Request, lane: LaneLayout) -> tuple[list[str], list[str]]:
    """Say which mesh axes of a lane have as many ranks as the plan's have devices, and which fewer."""
    here = dict(lane.axes)
    same = [f"{name} parallelism: {n}" for name, n in request.sizes if here.get(name, 1) == n]
    less = [
        f"{name} parallelism: {n} devices of a lane in the plan, {here.get(name, 1)} here"
        for name, n in request.sizes
        if here.get(name, 1) != n
    ]
    return same, less


def own_on_lanes(
    resolved: Resolved, *, ranks: int, most_s: float, elsewhere: Elsewhere | None = None
) -> tuple[Scaled, tuple[Shortened, ...]]:
    """Bring a plan down to lanes of a few ranks, with its model's own layers on their pieces.

    Args:
        resolved: the plan; its lanes have mesh axes.
        ranks: most processes.
        most_s: seconds of a step in one process above which it is refused.
        elsewhere: where it will run, if not here.

    Raises:
        InputError: what `own_scaled` refuses, a layer that cannot be cut so, or layers over several lanes
            that are no experts, or of which the lanes here cannot hold equal parts.
    """
    from explorer.run.sharded.own_check import require_pieces  # imports torch

    strategy = resolved.plan.strategy.job
    request, lane = request_of(strategy, apart=True), lane_of(strategy, ranks)
    scaled, rows = own_scaled(
        resolved, ranks=ranks // lane.lane_ranks, most_s=most_s, lane=lane, elsewhere=elsewhere
    )
    same, less = _axes_here(request, lane)
    if isinstance(scaled.model, OwnModel) and not scaled.model.spread:
        request_of(strategy)  # refuses layers over several lanes
        for samples in sorted({stage.microbatch_samples for stage in scaled.strategy.stages}):
            require_pieces(scaled.model, samples)
    said = ("unequal shares along", "layers laid out apart from their stage")
    lost = [
        text
        for text in scaled.not_validated
        if "parallelism: " not in text and not (lane.axes and text.startswith((*said, *COUNTED)))
    ]
    words = [f"layers cut over the {lane.lane_ranks} ranks of a lane", *_tiles_here(lane)]
    if _hides_all(strategy, lane):
        lost = [text for text in lost if not text.startswith(BESIDE)]
    return replace(scaled, validated=(*scaled.validated, *words, *same), not_validated=(*lost, *less)), rows


def _tiles_here(lane: LaneLayout) -> list[str]:
    """Say which collectives go in tiles here."""
    return [f"collectives along {axis} in tiles beside products" for axis in lane.tiles]


def sharded_scale(
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    strategy: JobStrategy,
    *,
    ranks: int,
    size: UnitSize,
) -> tuple[Scaled, tuple[Shortened, ...]]:
    """Make a plan's likeness on lanes of several ranks, with a table of what is smaller.

    Args:
        graph: the plan's model.
        cluster: the plan's devices.
        job: the plan's job.
        strategy: the plan's strategy; its lanes have mesh axes, or its experts are over several lanes.
        ranks: most processes.
        size: sizes that dimensions have at most.

    Raises:
        InputError: what cannot be laid out so on so few ranks, or layers that ranks cannot compute.
    """
    request, lane = request_of(strategy, apart=True), lane_of(strategy, ranks)
    model = LayoutModel(graph=graph, **{item.name: getattr(lane, item.name) for item in fields(lane)})
    each = model.lane_ranks
    like = scale(graph, cluster, job, strategy, ranks=ranks // each, size=size)
    small, kept = _small(graph, strategy, like, each, size)
    stages = _stages(small, strategy, like, model)
    same, less = _axes_here(request, model)
    named = {layer.name: layer.name for layer in small.layers}
    if (experts := spread_experts(model, small, named, stages, strategy.stages)) is None:
        request_of(strategy)  # refuses layers over several lanes
    else:
        model, stages = experts.model, list(experts.stages)
        same, less = [*same, *experts.words[0]], [*less, *experts.words[1]]
    carried = [f for f in CARRIED if f != "Stage.axis_shares" or len(model.uneven) == len(request.uneven)]
    carried += ["Stage.zero"] * any(stage.zero for stage in stages)
    carried += ["Stage.overlap"] * _hides_all(strategy, lane)
    lost = left_out(graph, cluster, job, strategy, carried=carried)
    counted = [
        text
        for text in like.not_validated
        if " in the plan, " in text and "parallelism" not in text and "devices: " not in text
    ]
    scaled = Scaled(
        model=replace(model, graph=small),
        graph=small,
        job=like.job,
        strategy=like.strategy.with_stages(stages),
        ranks=like.ranks * each,
        validated=(
            *(text for text in like.validated if text != "ratio of the stages' times"),
            *same,
            *_tiles_here(lane),
            f"the layers' own kinds, sharded: {len(small.layers)} of {len(graph.layers)}",
        ),
        not_validated=tuple(dict.fromkeys((*counted, *less, *lost))),
        groups=like.groups,
    )
    rows = [*kept, *_narrower(graph, small)]
    if len(strategy.devices) != scaled.ranks:
        rows.append(Shortened(what="ranks", plan=str(len(strategy.devices)), here=str(scaled.ranks)))
    require_runnable(scaled)
    return scaled, tuple(rows)


def _small(
    graph: LayerGraph, strategy: JobStrategy, like: Scaled, each: int, size: UnitSize
) -> tuple[LayerGraph, list[Shortened]]:
    """Return the graph that runs, and how many blocks of it do."""
    narrow = with_sizes(without_internals(graph), _most(graph, each, like.ranks * each, size))
    whole = whole_blocks(graph, strategy.stages)
    blocks = {g: [b for s in group for b in whole.get(s, ())] for g, group in enumerate(like.groups)}
    flops = size.step_s * size.flops_per_s / (3 * like.job.global_batch)
    keep = kept_blocks(narrow, blocks, fits=lambda own, scalars: own <= flops and scalars <= ELEMENTS)
    gone = {f"{path}.{n}" for path, count, kept in keep for n in set(range(count)) - set(kept)}
    small = without_blocks(narrow, gone)
    rows = []
    for path, count, _ in keep:
        left = sum(1 for block in small.blocks if block.rpartition(".")[0] == path)
        rows.append(Shortened(what=f"blocks of {path}", plan=str(count), here=str(left)))
    return small, rows


def _most(graph: LayerGraph, each: int, ranks: int, size: UnitSize) -> dict[str, int]:
    """Return the most that dimensions may have on lanes of `each` of all ranks; heads stay in the ratio of
    their key-value heads.
    """
    known = {dim.name: int(dim.size) for layer in graph.layers for dim in layer.dims}
    heads = max(size.heads, each)
    shared = max(1, known.get("heads", 1) // known.get("kv_heads", known.get("heads", 1)))
    return {
        "embed": size.d_model, "ffn": 4 * size.d_model, "seq": max(size.seq, 2 * each),
        "vocab": max(size.vocab, each), "heads": heads, "kv_heads": max(each, heads // shared),
        "head": max(4, size.d_model // heads), "experts": max(4, ranks),
    }  # fmt: skip


def _stages(graph: LayerGraph, strategy: JobStrategy, like: Scaled, model: LayoutModel) -> list[Stage]:
    """Return the stages of the likeness on lanes of several ranks, with their layers that are left."""
    made = []
    for stage, group in zip(like.strategy.stages, like.groups, strict=True):
        names = {name for s in group for name in strategy.stages[s].all_layers}
        layers = tuple(layer.name for layer in graph.layers if layer.name in names)
        offload = tuple(what for what in strategy.stages[group[0]].offload if what == "activations")
        made.append(on_lane(replace(stage, layers=layers, offload=offload), model))
    return made


def _narrower(graph: LayerGraph, small: LayerGraph) -> list[Shortened]:
    """Return the dimensions that are smaller."""
    before = {dim.name: dim.size for layer in graph.layers for dim in layer.dims}
    now = {dim.name: dim.size for layer in small.layers for dim in layer.dims}
    words = {"embed": "width", "seq": "tokens of a sample", "kv_seq": ""}
    return [
        Shortened(what=words.get(name, name), plan=f"{before[name]:g}", here=f"{size:g}")
        for name, size in now.items()
        if size != before[name] and words.get(name, name)
    ]


def require_runnable(scaled: Scaled) -> None:
    """Refuse layers that ranks cannot compute: they are computed here once, whole, for one sample.

    Raises:
        InputError: a kind of layer, or a use of one, that has no arithmetic of its own.
    """
    import torch

    from explorer.run.sharded.layout_units import LayoutUnits, alone

    model = scaled.model
    if not isinstance(model, LayoutModel):
        return
    cpu = torch.device("cpu")
    units, every = LayoutUnits(model.whole, alone(cpu)), range(len(model.units))
    try:
        with torch.no_grad():
            made = units.run(every, units.weights(every, cpu), {}, units.samples(0, 1, cpu))
    except InputError as error:
        raise InputError(
            f"layers of {model.graph.name!r} cannot be run sharded: {error}", key="model",
            allowed="--engine layers, which runs the model's own code on lanes of one rank",
        ) from None  # fmt: skip
    except (RuntimeError, ValueError, IndexError) as error:
        raise InputError(
            f"layers of {model.graph.name!r} cannot be computed by their kinds alone: {error}", key="model",
            allowed="--engine layers, which runs the model's own code on lanes of one rank",
        ) from None  # fmt: skip
    if units.loss not in made:
        raise InputError(f"{model.graph.name!r} has no loss", key="model", allowed="a model that can train")
