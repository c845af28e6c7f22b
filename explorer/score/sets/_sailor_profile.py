"""Seconds per layer that Sailor publishes of a model: read, smoothed, and put on the graph.

A profile is ``batch -> tensor degree -> layer -> [forward s, backward s, update s]``; layer 0 is everything
before the blocks, then come the blocks, and the last is everything behind them. The all-reduces of tensor
parallelism are in the seconds (on eight RTX 3090 of one server a block takes four times as long as on one),
so they are not priced once more (`Measured.collectives`). Updates are left to physics: a step of 32 single
samples takes 31 times as long as a step of one, with no room for the 0.01 s of updates that the profile of
GH200 states.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.graph import Layer, LayerGraph, Measured
from explorer.models import load_model
from explorer.score.reading import read_text
from explorer.score.sets._sailor_models import PlannedModel

SEQUENCE = 2048
"""Tokens of a sample."""
PREFIX = "profile_"
"""Beginning of the names of profiles: `profile_MODEL_GPU.json`."""

Seconds = tuple[float, float]
"""Seconds of forward and backward."""
Profile = dict[int, dict[int, list[Seconds]]]
"""Tensor degree -> batch, ascending -> seconds by layer."""


def profile_file(folder: Path, model: str, gpu: str) -> Path:
    """Return the file in a folder that would hold the seconds of a model on a GPU."""
    return folder / f"{PREFIX}{model}_{gpu}.json"


@cache
def read_profile(path: Path, count: int) -> Profile:
    """Read the seconds of one GPU for a model of `count` layers.

    More samples never take less time, so a measurement at a batch is capped by those at larger batches:
    single samples on fast GPUs are bound by the host, whose time varies.

    Raises:
        InputError: the profile does not exist.
    """
    allowed = f"batch -> tensor degree -> layer 0 to {count - 1} -> [forward s, backward s, update s]"
    try:
        table = parse_json(read_text(path), ours=False, number=False)
        found: Profile = {}
        for batch in sorted(table, key=int, reverse=True):
            for degree, layers in table[batch].items():
                rows = [_seconds(layers[str(i)]) for i in range(count)]
                known = found.setdefault(int(degree), {})
                above = known[min(known)] if known else rows
                known[int(batch)] = [
                    (min(one[0], other[0]), min(one[1], other[1]))
                    for one, other in zip(rows, above, strict=True)
                ]
    except InputError as error:
        raise InputError(f"no profile of layers: {error.message}", file=path.name, allowed=allowed) from None
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise InputError(
            f"no profile of layers: {type(error).__name__} {error}", file=path.name, allowed=allowed
        ) from None
    if not found:
        raise InputError("no seconds", file=path.name, allowed="one batch or more")
    return {degree: dict(sorted(batches.items())) for degree, batches in found.items()}


def _seconds(values: Any) -> Seconds:
    forward, backward = float(values[0]), float(values[1])
    if not (math.isfinite(forward + backward) and forward >= 0 and backward >= 0):
        raise ValueError(f"{values} are no seconds")
    return forward, backward


def group_of(graph: LayerGraph) -> dict[str, int]:
    """Return the number in a profile of each layer of the graph."""
    blocks = [layer.block for layer in graph.layers]
    first = next(i for i, block in enumerate(blocks) if block)
    number = {block: i + 1 for i, block in enumerate(dict.fromkeys(block for block in blocks if block))}
    return {
        layer.name: number[layer.block] if layer.block else 0 if i < first else len(number) + 1
        for i, layer in enumerate(graph.layers)
    }


@cache
def measured_graph(model: PlannedModel, profiles: tuple[tuple[str, Path], ...]) -> LayerGraph:
    """Return a model with measured seconds, its attention unfused: kernels that keep no scores know no fp32
    (Dao-AILab/flash-attention, README, 2024: fp16 and bf16).

    Args:
        model: the model.
        profiles: (name of the device kind, file of its seconds); the others follow from physics.

    Raises:
        InputError: a file is not a profile.
    """
    settings = {**dict(model.settings), "attention": "unfused"}
    graph = load_model(model.model, sequence_length=SEQUENCE, settings=settings)
    if not profiles:
        return graph
    known = [(kind, read_profile(path, model.layers)) for kind, path in profiles]
    group, carries = group_of(graph), set[int]()
    layers = []
    for layer in graph.layers:
        number = group[layer.name]
        layers.append(_with_seconds(layer, known, None if number in carries else number))
        carries.add(number)
    return replace(graph, layers=tuple(layers))


def _with_seconds(layer: Layer, known: list[tuple[str, Profile]], number: int | None) -> Layer:
    """Put all seconds of a group on its first layer; others (no number) take none, as groups stay whole."""
    rows = (row for kind, profile in known for row in _rows(kind, profile, number))
    return replace(layer, measured=tuple(rows))


def _rows(kind: str, profile: Profile, number: int | None) -> Iterator[Measured]:
    for degree, batches in profile.items():
        for batch, layers in batches.items():
            forward, backward = (0.0, 0.0) if number is None else layers[number]
            yield Measured(
                forward_s=forward, input_grad_s=backward / 2, weight_grad_s=backward / 2, device_kind=kind,
                batch=batch, tensor_degree=degree, halves=True, collectives=degree > 1,
            )  # fmt: skip
