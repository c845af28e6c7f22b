"""Layers of the stages of a torchtitan config: by module names, split points or torchtitan's rule."""

from __future__ import annotations

import math

from explorer.base.errors import InputError, PlanError
from explorer.graph import LayerGraph
from explorer.importing._titan_models import EMBEDDINGS, HEAD, NORM, block_numbers, module_names
from explorer.importing._titan_settings import TitanSettings

_P = "parallelism."


def stage_layers(
    settings: TitanSettings, graph: LayerGraph, pipeline: int, stages: int
) -> list[tuple[str, ...]]:
    """Return the layers by stage, from module names, split points or torchtitan's own rule."""
    if pipeline == 1:
        return [tuple(layer.name for layer in graph.layers)]
    modules = module_names(graph)
    parts = settings.get(f"{_P}module_fqns_per_model_part", None)
    if not parts:
        parts = _split_points(settings, graph) or _even_parts(settings, graph, pipeline, stages)
    _check_parts(parts)
    home = {_renamed(name): s for s, part in enumerate(parts) for name in part}
    if unknown := sorted(set(home) - set(modules.values())):
        known = f"{EMBEDDINGS}, layers.0 to layers.{len(block_numbers(graph)) - 1}, {NORM}, {HEAD}"
        raise InputError(
            f"unknown module {unknown[0]!r}",
            key=f"{_P}module_fqns_per_model_part",
            found=unknown[0],
            allowed=known,
        )
    if missing := [module for module in dict.fromkeys(modules.values()) if module not in home]:
        raise PlanError([f"modules in no stage: {', '.join(missing[:4])}"])
    found: list[list[str]] = [[] for _ in parts]
    for layer in graph.layers:
        found[home[modules[layer.name]]].append(layer.name)
    return [tuple(names) for names in found]


def _check_parts(parts: object) -> None:
    """Refuse modules by stage that are not lists of names, or that only running the config would tell."""
    if not isinstance(parts, list) or not all(
        isinstance(part, list) and all(isinstance(name, str) for name in part) for part in parts
    ):
        raise InputError(
            "no lists of module names",
            key=f"{_P}module_fqns_per_model_part",
            found=parts,
            allowed="a list of names for every stage",
        )


def _renamed(name: str) -> str:
    return HEAD if name == "output" else name  # its name in releases before 0.3


def _split_points(settings: TitanSettings, graph: LayerGraph) -> list[list[str]]:
    """Return parts that begin at the modules of `pipeline_parallel_split_points` (older releases)."""
    points = settings.get(f"{_P}pipeline_parallel_split_points", [])
    parts: list[list[str]] = [[]]
    for module in dict.fromkeys(module_names(graph).values()):
        if module in points:
            parts.append([])
        parts[-1].append(module)
    return parts if len(parts) > 1 else []


def _even_parts(settings: TitanSettings, graph: LayerGraph, pipeline: int, stages: int) -> list[list[str]]:
    """Cut by torchtitan's rule: blocks spread evenly, first parts one longer, ends with extra layers."""
    blocks = len(block_numbers(graph))
    first = int(settings.get(f"{_P}pipeline_parallel_first_stage_less_layers", 1))
    last = int(settings.get(f"{_P}pipeline_parallel_last_stage_less_layers", 1))
    per_stage = settings.get(f"{_P}pipeline_parallel_layers_per_stage", None)
    name = str(settings.get(f"{_P}pipeline_parallel_schedule", "1F1B"))
    looped = name.lower() not in ("1f1b", "gpipe")
    count = stages or pipeline * (2 if looped else 1)
    if per_stage and not stages:
        count = math.ceil((blocks + first + last) / int(per_stage))
    base, more = divmod(blocks + first + last, count)
    sizes = [base + (i < more) for i in range(count)]
    sizes[0] -= first
    sizes[-1] -= last
    if min(sizes) < 0 or count % pipeline:
        raise InputError(
            f"{blocks} blocks cannot be spread over {count} stages on {pipeline} ranks",
            key=f"{_P}pipeline_parallel_degree",
            found=count,
            allowed="module_fqns_per_model_part, or another degree",
        )
    parts, start = [], 0
    for size in sizes:
        parts.append([f"layers.{i}" for i in range(start, start + size)])
        start += size
    parts[0].insert(0, EMBEDDINGS)
    parts[-1] += [NORM, HEAD]
    return parts
