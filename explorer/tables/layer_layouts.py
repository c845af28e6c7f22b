"""Layouts that one layer may have where it is: each legal one once, and why others are not.

Over every mesh axis a layer is split along one of its dimensions, whole on every device, or on different
samples on each. Layouts under which it does the same are one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph
from explorer.sharding.derive import ALIGNED, RING, SUMS, Signature, by_sample, choose, derive, sizes_of
from explorer.sharding.states import Axis
from explorer.sharding.wiring import ELEMENTWISE, wiring
from explorer.strategies.exceptions import OwnLayout, mesh_over, named_layout, with_own_layout
from explorer.strategy import REPLICA, ROUND_ROBIN, JobStrategy, Mesh, Stage

MOST_LAYOUTS = 64
"""Most layouts of one layer that are listed, besides the present and the usual one."""
DIM_WORDS = {
    "seq": "sequence", "embed": "embedding", "heads": "heads", "kv_heads": "key-value heads",
    "head": "head size", "ffn": "feed-forward", "vocab": "vocabulary", "experts": "experts", RING: "ring",
}  # fmt: skip
"""Dimensions in words; others keep their name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerLayout:
    """One way to lay a layer out on the devices of a replica."""

    words: str
    """How it is split, in a few words."""
    own: OwnLayout
    """The exception that makes it so."""
    present: bool
    """Whether the layer is laid out so."""
    usual: bool
    """Whether the layer is laid out so without an exception that names it."""
    problem: str
    """The rule that forbids it, in words; empty if it is legal."""


class _Way(NamedTuple):
    """One way over one axis."""

    words: str
    dims: tuple[str, ...] | None
    """Dimensions that are split; () is whole on every device, None different samples."""
    signature: Signature | None
    """What the layer does; None if it is illegal."""
    problem: str = ""


def layer_layouts(graph: LayerGraph, stage: Stage, name: str) -> tuple[LayerLayout, ...]:
    """Return the layouts of a layer of a stage: legal ones first, then each dimension that cannot be split.

    () if every replica is one device, so nothing can be split.

    Raises:
        InputError: the stage lacks the layer, or has only a part of it.
    """
    if name not in stage.layers:
        raise InputError(
            f"layer {name!r} is not whole on this stage", key="layer", found=name,
            allowed="a layer that one stage holds whole",
        )  # fmt: skip
    layer, usual = graph.layer[name], with_own_layout(graph, stage, (name,), None)
    base = usual.sharding_of(name)
    meshes = base.meshes if base is not None and base.meshes else stage.meshes
    own_axes = dict(stage.meshes[0].axes)
    axes = tuple(
        Axis(name=axis, size=size, carved=axis not in own_axes)
        for axis, size in meshes[0].axes
        if axis != REPLICA and size > 1
    )
    ways = [_ways(layer, axis, _samples(stage, meshes[0])) for axis in axes]
    if not axes:
        return ()
    now = _does(layer, axes, named_layout(stage, name) or _base(stage, usual, name), meshes)
    plain = _does(layer, axes, _base(stage, usual, name), meshes)
    found: dict[tuple[Signature | None, ...], LayerLayout] = {}
    legal = [[way for way in each if not way.problem] for each in ways]
    for chosen in itertools.product(*legal):
        key = tuple(way.signature for way in chosen)
        if key not in found and (len(found) < MOST_LAYOUTS or key in (now, plain)):
            found[key] = LayerLayout(
                words=_words(axes, chosen), own=_own(stage, meshes, axes, chosen), present=key == now,
                usual=key == plain, problem="",
            )  # fmt: skip
    forbidden = [
        LayerLayout(words=_words((axis,), (way,), every=len(axes) > 1), own=OwnLayout(), present=False,
                    usual=False, problem=way.problem)
        for axis, each in zip(axes, ways, strict=True)
        for way in each
        if way.problem
    ]  # fmt: skip
    return (*found.values(), *forbidden)


def _samples(stage: Stage, mesh: Mesh) -> float:
    """Return the samples of one microbatch on one replica of a mesh."""
    return stage.microbatch_samples / (1 if stage.replicas == ROUND_ROBIN else mesh.replicas)


def _base(stage: Stage, usual: Stage, name: str) -> OwnLayout:
    """Return how a layer is laid out without an exception that names it."""
    item = usual.sharding_of(name)
    return OwnLayout(stage.layout) if item is None else OwnLayout(item.layout, item.meshes)


def _ways(layer: Layer, axis: Axis, samples: float) -> list[_Way]:
    """Return what a layer may do over one axis, and what it may not."""
    names = [dim.name for dim in layer.dims]
    groups: list[tuple[str, ...]] = [(name,) for name in names if name not in ALIGNED]
    if together := tuple(name for name in names if name in ALIGNED):
        groups.insert(0, together)
    if layer.kind == "attention" and "seq" in names:
        groups.append(("seq", RING))
    found = []
    for dims in groups:
        signature = derive(layer, dims, axis)
        problem = "" if signature else _rule(layer, dims, axis)
        if signature or RING not in dims:
            found.append(_Way(_way_words(layer, dims), dims, signature, problem))
    if axis.carved:  # its devices are replicas elsewhere, each with samples of its own
        return [*found, _Way("own samples on each device", None, by_sample(layer, axis))]
    few = f"a replica has {samples:g} sample{'s' * (samples != 1)} of a microbatch"
    problem = f"{few} for {axis.size} devices of {axis.name}" if samples < axis.size else ""
    whole = "as its inputs" if layer.kind in ELEMENTWISE else "whole on each device"
    return [
        _Way(whole, (), choose(layer, axis, ())), *found,
        _Way("own samples on each device", None, by_sample(layer, axis), problem),
    ]  # fmt: skip


def _way_words(layer: Layer, dims: tuple[str, ...]) -> str:
    """Name what is split; a dimension that the output lacks gives partial sums."""
    written = {dim for use in layer.writes for dim in use.dims}
    summed = layer.kind in SUMS and written and not written.intersection(dims)
    return f"by {dim_words(dims)}" + (" with partial sums" if summed else "")


def _rule(layer: Layer, dims: tuple[str, ...], axis: Axis) -> str:
    """Say why a layer cannot be split along some dimensions over an axis."""
    sizes, words = sizes_of(layer), dim_words(dims)
    size = max(sizes[dim] for dim in dims)
    if size < axis.size:
        return f"{size:g} along {words} are fewer than the {axis.size} devices of {axis.name}"
    fixed = {dim.name for dim in layer.dims if not dim.splittable}
    if fixed.intersection(dims):
        return f"{_kind(layer)} needs all of its {words} on one device"
    written = {dim for use in layer.writes for dim in use.dims}
    if layer.kind not in SUMS and not written.intersection(dims):
        return f"{_kind(layer)} does not add up partial results along its {words}"
    return f"no rule splits {_kind(layer)} along its {words}"


def _kind(layer: Layer) -> str:
    article = "an" if layer.kind[0] in "aeiou" else "a"
    return f"{article} {layer.kind} layer"


def dim_words(dims: Iterable[str]) -> str:
    """Name dimensions in words.

    >>> dim_words(("heads", "kv_heads")), dim_words(("seq", "ring")), dim_words(("channels",))
    ('heads', 'sequence around a ring', 'channels')
    """
    own = tuple(dims)
    if RING in own:
        return f"{DIM_WORDS['seq']} around a ring"
    first = "heads" if set(own) == ALIGNED else own[0]
    return DIM_WORDS.get(first, first)


def _does(
    layer: Layer, axes: tuple[Axis, ...], own: OwnLayout, meshes: tuple[Mesh, ...]
) -> tuple[Signature, ...]:
    """Return what a layer does over each axis under a layout."""
    has = dict((own.meshes or meshes)[0].axes)
    return tuple(
        choose(layer, axis, own.layout) if axis.name in has else by_sample(layer, axis) for axis in axes
    )


def _words(axes: tuple[Axis, ...], chosen: tuple[_Way, ...], *, every: bool = False) -> str:
    """Say a layout: `by heads`, or with several axes `by heads over tensor; by sequence over context`."""
    if len(axes) == 1 and not every:
        return chosen[0].words
    return "; ".join(f"{way.words} over {axis.name}" for axis, way in zip(axes, chosen, strict=True))


def _own(
    stage: Stage, meshes: tuple[Mesh, ...], axes: tuple[Axis, ...], chosen: tuple[_Way, ...]
) -> OwnLayout:
    layout = tuple((dim, axis.name) for axis, way in zip(axes, chosen, strict=True) for dim in way.dims or ())
    kept = [axis.name for axis, way in zip(axes, chosen, strict=True) if way.dims is not None]
    if len(kept) == len(axes):
        return OwnLayout(layout, () if meshes == stage.meshes else meshes)
    return OwnLayout(layout, tuple(mesh_over(mesh, kept) for mesh in meshes))


# ---- layers that are alike ------------------------------------------------------------------------


def alike_layers(graph: LayerGraph, job: JobStrategy, name: str) -> tuple[str, ...]:
    """Return the layers of all blocks that are the same as one layer, itself included, in model order.

    They have the same name within their block and the same dimensions, and are whole on a stage.
    """
    wires, whole = wiring(graph), {item for stage in job.stages for item in stage.layers}
    template, own = wires.template_of[graph.index[name]], _inner_name(graph.layer[name])
    if own is None:
        return (name,)
    return tuple(
        layer.name
        for layer, number in zip(graph.layers, wires.template_of, strict=True)
        if number == template and layer.name in whole and _inner_name(layer) == own
    )


def _inner_name(layer: Layer) -> str | None:
    """Return the name of a layer within its block; None outside of blocks."""
    return layer.name.removeprefix(f"{layer.block}.") if layer.block else None


def with_layout(
    graph: LayerGraph, job: JobStrategy, layers: Iterable[str], chosen: LayerLayout
) -> JobStrategy:
    """Return a strategy in which some layers have a layout, each on the devices of its own stage.

    Args:
        graph: the model.
        job: the strategy.
        layers: layers that are alike (`alike_layers`).
        chosen: what one of them may have (`layer_layouts`).

    Raises:
        InputError: the layout is not legal, or a layer may not have it where it is.
    """
    if chosen.problem:
        raise InputError(chosen.problem, key="layout", found=chosen.words, allowed="another layout")
    names, stages = frozenset(layers), []
    for number, stage in enumerate(job.stages):
        members: dict[OwnLayout | None, list[str]] = {}
        for name in stage.layers:
            if name in names:
                there = next(
                    (
                        x
                        for x in layer_layouts(graph, stage, name)
                        if x.words == chosen.words and not x.problem
                    ),
                    None,
                )
                if there is None:
                    raise InputError(
                        f"{name} cannot be laid out as {chosen.words!r} on stage {number}", key="layout",
                        found=chosen.words, allowed="the layer alone, or stages with equal mesh axes",
                    )  # fmt: skip
                members.setdefault(None if there.usual else there.own, []).append(name)
        for own, some in members.items():
            stage = with_own_layout(graph, stage, some, own)  # noqa: PLW2901 - each adds to it
        stages.append(stage)
    return job.with_stages(stages)
