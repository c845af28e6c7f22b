"""Strategies in a few words, and told apart from each other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.explain.names import counted
from explorer.strategies.keeping import keeping_words
from explorer.strategy import JobStrategy

FEW = 8
"""Most stages that are listed one by one."""


def strategy_words(job: JobStrategy) -> str:
    """Describe a strategy in a few words: degrees, schedule, and what differs from plain training.

    >>> from explorer.strategy import Mesh, Stage
    >>> stages = tuple(Stage(layers=(f"l{i}",), meshes=(Mesh(devices=(i,)),), zero=0) for i in range(2))
    >>> strategy_words(JobStrategy(stages=stages))
    'pp 2, 1f1b, microbatch 1'
    """
    meshes = list(dict.fromkeys(stage.meshes for stage in job.stages))
    first = meshes[0][0]
    shapes = {tuple(mesh.axes) for several in meshes for mesh in several}
    sizes = [sum(len(mesh.devices) for mesh in several) for several in meshes]
    if len(shapes) == 1 and job.copies == 1:
        tensor = len(first.devices) // first.replicas
        degrees = [("pp", len(meshes)), ("dp", first.replicas), ("tp", tensor)]
        parts = [" × ".join(f"{name} {size}" for name, size in degrees if size > 1) or "1 device"]
    else:
        parts = [f"{counted(len(meshes), 'stage')} on {'·'.join(map(str, sizes))} devices"]
    if len(job.stages) > 1:
        parts.append(job.schedule)
    chunks, rest = divmod(len(job.stages), len(meshes))
    if chunks > 1 and not rest:
        parts.append(f"{chunks} chunks")
    microbatches = {stage.microbatch_samples // stage.meshes[0].replicas or 1 for stage in job.stages}
    if len(microbatches) == 1:
        parts.append(f"microbatch {microbatches.pop()}")
    parts += _some([s.recompute for s in job.stages], "none", "{} recomputation", "recomputation")
    parts += keeping_words(job.stages)
    parts += _some([s.zero for s in job.stages], 0, "ZeRO-{}", "ZeRO")
    if any(item.bucket_bytes for item in job.sync):
        parts.append("buckets")
    return ", ".join(parts)


def _some(values: Sequence[Any], plain: Any, words: str, noun: str) -> list[str]:
    """Describe a choice of all stages, or of the stages that made it."""
    if set(values) == {plain}:
        return []
    if len(set(values)) == 1:
        return [words.format(values[0])]
    if len(values) <= FEW:
        return [f"{noun} {'·'.join(map(str, values))}"]
    return [f"{noun} on {sum(value != plain for value in values)} of {len(values)} stages"]


def told_apart(points: list[dict[str, Any]], jobs: list[JobStrategy]) -> None:
    """Add how many layers each stage has to points that have the same words."""
    labels = [point["label"] for point in points]
    for point, job in zip(points, jobs, strict=True):
        if labels.count(point["label"]) > 1 and 1 < len(job.stages) <= FEW:
            point["label"] += f", {'·'.join(str(len(stage.all_layers)) for stage in job.stages)} layers"
