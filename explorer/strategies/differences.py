"""Two plans in words: what was chosen differently."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.plan import Resolved
from explorer.strategies.keeping import Kept, kept_words
from explorer.strategy import JobStrategy, Mesh, Sharding, Stage

_STAGE_FIELDS = (
    "microbatch_samples", "replicas", "shares", "axis_shares", "layout", "overlap", "recompute", "zero",
    "zero_replicas", "reshard", "density", "offload",
)  # fmt: skip
_LONG_FIELDS = ("shardings", "keeping", "slices")


def compare_plans(a: Resolved, b: Resolved) -> list[str]:
    """Differences of inputs and choices, most general first; [] if there are none."""
    said = []
    for key, one, other in (
        ("model", a.plan.models, b.plan.models),
        ("cluster", (("", a.plan.cluster),), (("", b.plan.cluster),)),
    ):
        names = [", ".join(item.reference for _, item in side) for side in (one, other)]
        if names[0] != names[1]:
            said.append(f"{key}: {names[0]} -> {names[1]}")
    if a.plan.workload != b.plan.workload:
        said.append(f"workload: {a.plan.workload.jobs} -> {b.plan.workload.jobs}")
    parts = {part.job: part for part in b.plan.strategy.jobs}
    for part in a.plan.strategy.jobs:
        if part.job in parts:
            said += compare_strategies(part, parts[part.job])
    return said


def compare_strategies(a: JobStrategy, b: JobStrategy) -> list[str]:
    """Differences of two strategies for one job."""
    said = []
    if (a.schedule, a.options) != (b.schedule, b.options):
        said.append(f"schedule: {a.schedule} {dict(a.options) or ''} -> {b.schedule} {dict(b.options) or ''}")
    if a.updates != b.updates:
        said.append(f"updates: {_rules(a)} -> {_rules(b)}")
    if a.transfers != b.transfers:
        said.append(f"transfers: {a.transfers or 'usual'} -> {b.transfers or 'usual'}")
    if a.sync != b.sync:
        said.append(f"reductions: {_syncs(a)} -> {_syncs(b)}")
    if a.boundaries != b.boundaries:
        codecs = [[f"{x.source} to {x.target} {x.codec}" for x in job.boundaries] for job in (a, b)]
        said.append(f"boundaries: {codecs[0] or 'plain'} -> {codecs[1] or 'plain'}")
    if a.checkpoint_period_s != b.checkpoint_period_s:
        said.append(f"checkpoint period: {a.checkpoint_period_s:g} s -> {b.checkpoint_period_s:g} s")
    if len(a.stages) != len(b.stages):
        said.append(f"stages: {len(a.stages)} -> {len(b.stages)}")
        return [*said, *_overall(a, b)]
    for s, (one, other) in enumerate(zip(a.stages, b.stages, strict=True)):
        said += [f"stage {s}: {text}" for text in _stage(one, other)]
    return said


def _overall(a: JobStrategy, b: JobStrategy) -> Iterator[str]:
    """Yield what differs over all stages, where they cannot be set side by side."""
    if len(a.devices) != len(b.devices):
        yield f"devices: {len(a.devices)} -> {len(b.devices)}"
    for key in (*_STAGE_FIELDS, *_LONG_FIELDS):
        one, other = (list(dict.fromkeys(getattr(stage, key) for stage in job.stages)) for job in (a, b))
        if one != other and key in _LONG_FIELDS:
            yield f"{key}: of {sum(map(bool, one))} kinds of stages -> of {sum(map(bool, other))}"
        elif one != other:
            yield f"{key}: {_listed(one)} -> {_listed(other)}"


def _listed(values: list[object]) -> str:
    """Write values as alternatives."""
    return " or ".join(map(str, values))


def _syncs(job: JobStrategy) -> str:
    """Write the methods of reduction in words."""
    texts = [
        f"{item.method}{f' in buckets of {item.bucket_bytes:g} bytes' if item.bucket_bytes else ''}"
        for item in job.sync
    ]
    return "; ".join(dict.fromkeys(texts)) or "plain"


def _rules(job: JobStrategy) -> str:
    """Update rules in words."""
    texts = [
        f"{item.rule} {dict(item.options) or ''} of {', '.join(item.parameters)}" for item in job.updates
    ]
    return "; ".join(texts) or "plain"


def _stage(a: Stage, b: Stage) -> list[str]:
    said = []
    gone = [name for name in a.all_layers if name not in set(b.all_layers)]
    come = [name for name in b.all_layers if name not in set(a.all_layers)]
    if gone or come:
        said.append(f"gives {len(gone)} layers, takes {len(come)}")
    devices = [[list(mesh.devices) for mesh in stage.meshes] for stage in (a, b)]
    if devices[0] != devices[1]:
        said.append(f"devices {devices[0]} -> {devices[1]}")
    if not all(_plain(mesh) for mesh in (*a.meshes, *b.meshes)) and _axes(a.meshes) != _axes(b.meshes):
        said.append(f"mesh {_axes(a.meshes)} -> {_axes(b.meshes)}")
    if a.slices != b.slices:
        said.append(f"slices of layers {len(a.slices)} -> {len(b.slices)}")
    for key in _STAGE_FIELDS:
        one, other = getattr(a, key), getattr(b, key)
        if one != other:
            said.append(f"{key} {one} -> {other}")
    if a.shardings != b.shardings:
        said.append(f"layouts of single layers {_exceptions(a)} -> {_exceptions(b)}")
    if a.keeping != b.keeping:
        said.append(f"single layers kept otherwise {_kept(a)} -> {_kept(b)}")
    return said


def _kept(stage: Stage) -> str:
    """Say which layers are kept otherwise than their stage says."""
    return (
        "; ".join(
            f"{_first(item.layers)}: {kept_words(Kept(item.recompute, item.on))}" for item in stage.keeping
        )
        or "none"
    )


def _exceptions(stage: Stage) -> str:
    """Say which layers have a layout of their own."""
    return "; ".join(f"{_first(item.layers)}: {_layout(item)}" for item in stage.shardings) or "none"


def _first(names: tuple[str, ...]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _layout(item: Sharding) -> str:
    split = ", ".join(f"{dim} over {axis}" for dim, axis in item.layout) or "not split"
    return split + (f" on a mesh {dict(item.meshes[0].axes)}" if item.meshes else "")


def _plain(mesh: Mesh) -> bool:
    """Tell whether a mesh has no axis but that of replicas, so that its devices say all."""
    return mesh.replicas == len(mesh.devices)


def _axes(meshes: tuple[Mesh, ...]) -> str:
    """Write the axes of meshes in words."""
    texts = [" x ".join(f"{name} {size}" for name, size in mesh.axes) or "one axis" for mesh in meshes]
    return "; ".join(dict.fromkeys(texts))
