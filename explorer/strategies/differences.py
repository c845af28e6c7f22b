"""Two plans in words: what was chosen differently."""

from __future__ import annotations

from explorer.plan import Resolved
from explorer.strategy import JobStrategy, Sharding, Stage

_STAGE_FIELDS = (
    "microbatch_samples", "replicas", "shares", "axis_shares", "layout", "overlap", "recompute", "zero",
    "zero_replicas", "reshard", "density", "offload",
)  # fmt: skip


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
    if len(a.stages) != len(b.stages):
        said.append(f"stages: {len(a.stages)} -> {len(b.stages)}")
        return said
    for s, (one, other) in enumerate(zip(a.stages, b.stages, strict=True)):
        said += [f"stage {s}: {text}" for text in _stage(one, other)]
    return said


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
    if a.meshes != b.meshes:
        devices = [[list(mesh.devices) for mesh in stage.meshes] for stage in (a, b)]
        said.append(f"devices {devices[0]} -> {devices[1]}")
    for key in _STAGE_FIELDS:
        one, other = getattr(a, key), getattr(b, key)
        if one != other:
            said.append(f"{key} {one} -> {other}")
    if a.shardings != b.shardings:
        said.append(f"layouts of single layers {_exceptions(a)} -> {_exceptions(b)}")
    return said


def _exceptions(stage: Stage) -> str:
    """Say which layers have a layout of their own."""
    return "; ".join(f"{_first(item.layers)}: {_layout(item)}" for item in stage.shardings) or "none"


def _first(names: tuple[str, ...]) -> str:
    return names[0] + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def _layout(item: Sharding) -> str:
    split = ", ".join(f"{dim} over {axis}" for dim, axis in item.layout) or "not split"
    return split + (f" on a mesh {dict(item.meshes[0].axes)}" if item.meshes else "")
