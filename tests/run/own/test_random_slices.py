"""Layers drawn by lot, cut where stages meet: whatever is not refused is equal to one process."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from functools import cache

import pytest

from explorer.base.errors import ExplorerError
from explorer.run.judging.wire_bytes import wire_bytes
from explorer.run.own.own_source import OwnSource
from explorer.run.own.slices_check import require_slices
from explorer.strategy import JobStrategy, Mesh, Slice, Stage
from tests.run.own.own_cases import FACTORIES, GPT, LLAMA, case, source
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
DRAWN, FEWEST = 24, 8
"""Strategies that are drawn, and those of them that have to run."""


@cache
def models() -> tuple[OwnSource, ...]:
    return source(*GPT), source(*LLAMA), source(f"{FACTORIES}:skip"), source(f"{FACTORIES}:pictures")


def drawn(own: OwnSource, luck: random.Random) -> tuple[Stage, ...]:
    """Two or three stages that share the first few layers behind each of their bounds."""
    layers, count = own.graph.layers, luck.choice((2, 2, 3))
    bounds = [0, *sorted(luck.sample(range(1, len(layers)), count - 1)), len(layers)]
    parts: dict[int, list[Slice]] = defaultdict(list)
    for stage, bound in enumerate(bounds[1:-1], start=1):
        dim = ""
        for layer in layers[bound : min(bound + luck.choice((1, 1, 2, 3)), bounds[stage + 1])]:
            known = [item.name for item in layer.dims if item.splittable and item.size >= 4]
            if not known:
                break
            dim, at = dim if dim in known else luck.choice(known), luck.choice((0.25, 0.5, 0.75))
            parts[stage - 1].append(Slice(layer=layer.name, dim=dim, start=0.0, stop=at))
            parts[stage].append(Slice(layer=layer.name, dim=dim, start=at, stop=1.0))
    cut = {part.layer for found in parts.values() for part in found}
    return tuple(
        Stage(
            layers=tuple(x.name for x in layers[bounds[s] : bounds[s + 1]] if x.name not in cut),
            slices=tuple(parts[s]), meshes=(Mesh(devices=(s,)),), recompute=luck.choice(("none", "full")),
        )
        for s in range(count)
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_random_slices(seed: int) -> None:
    luck, found = random.Random(seed), Counter[str]()
    for _ in range(DRAWN):
        own, schedule = luck.choice(models()), luck.choice(("gpipe", "1f1b"))
        stages = drawn(own, luck)
        if not any(stage.slices for stage in stages):
            continue
        try:
            require_slices(own.model, own.graph, JobStrategy(stages=stages, schedule=schedule))
            prepared = case(own, stages, schedule, batch=2)
        except ExplorerError as error:
            found[type(error).__name__] += 1
            continue
        records = on_threads(prepared)
        assert worst(records) <= 1e-10, stages
        assert all(item.equal for item in wire_bytes(prepared, records)), stages
        found["ran"] += 1
    assert found["ran"] >= FEWEST, found
