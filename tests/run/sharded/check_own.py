"""Run on every rank: models' own layers whose weights are sharded over ranks, against one process."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch.distributed as dist

from explorer.run.cases.build import Prepared
from explorer.run.judging.wire_bytes import wire_bytes
from explorer.run.own.own_source import OwnSource
from tests.run.own.own_cases import (
    CONFIGS,
    FACTORIES,
    GPT,
    LLAMA,
    case,
    configured,
    cut,
    full_width,
    source,
)
from tests.run.sharded.check_backend import played


class Way(NamedTuple):
    """A model and how it runs."""

    model: str
    pipeline: int
    replicas: int
    zero: int
    together: int = 0
    """Replicas among which weights are sharded; 0 for all."""
    dtype: str = "fp64"
    optimizer: str = "momentum"

    @property
    def ranks(self) -> int:
        return self.pipeline * self.replicas


SMALL = (
    *(Way("gpt", 1, 2, zero) for zero in (1, 2, 3)),
    *(Way("gpt", 2, 2, zero) for zero in (1, 2, 3)),
    Way("gpt", 1, 4, 3, 2),
    Way("llama", 1, 2, 3),
    Way("llama", 2, 2, 2),
    Way("llama", 1, 2, 3, dtype="fp32"),
    Way("skip", 1, 2, 1),
    Way("skip", 2, 2, 3),
    Way("skip", 1, 4, 3, 2),
)
CONFIGURED = (
    *(Way("t5", 1, 2, zero) for zero in (1, 3)),
    Way("t5", 2, 2, 2),
    *(Way("mixtral", 1, 2, zero, dtype="fp32", optimizer="sgd") for zero in (2, 3)),
    Way("mixtral", 2, 2, 3, dtype="fp32", optimizer="sgd"),
)
FULL_WIDTH = tuple(
    Way(f"wide {name}", pipeline, 2, zero, dtype=dtype, optimizer="sgd")
    for name, dtype in (
        ("gpt2-small", "fp32"), ("llama", "fp64"), ("resnet50", "fp64"), ("skip", "fp64"), ("t5", "fp64"),
        ("mixtral", "fp32"),
    )
    for pipeline, zero in ((1, 3), (2, 2))
)  # fmt: skip


@lru_cache(maxsize=2)
def model(name: str, dtype: str) -> OwnSource:
    """The model of a way."""
    if name in ("gpt", "llama"):
        reference, settings, tokens = {"gpt": GPT, "llama": LLAMA}[name]
        return source(reference, settings, tokens, dtype)
    if name == "skip":
        return source(f"{FACTORIES}:skip", dtype=dtype)
    return configured(name, dtype) if name in CONFIGS else full_width(name.removeprefix("wide "), dtype)


def prepared(way: Way) -> Prepared:
    """The case of a way."""
    own = model(way.model, way.dtype)
    stages = cut(own, way.pipeline, way.replicas, size=way.replicas)
    stages = tuple(replace(stage, zero=way.zero, zero_replicas=way.together) for stage in stages)
    batch = 4 if "wide" in way.model else 8
    return case(own, stages, "1f1b", batch=batch, optimizer=way.optimizer)


def small() -> list[dict[str, Any]]:
    return [one(way) for way in SMALL if way.ranks == dist.get_world_size()]


def models_of_transformers() -> list[dict[str, Any]]:
    return [one(way) for way in CONFIGURED if way.ranks == dist.get_world_size()]


def full_width_models() -> list[dict[str, Any]]:
    return [one(way) for way in FULL_WIDTH if way.ranks == dist.get_world_size()]


def one(way: Way) -> dict[str, Any]:
    """What a rank makes of a way, with the bytes that it and that all ranks together should send."""
    run = prepared(way)
    found = played(run.case)
    rows = wire_bytes(run, [{"sent": found["rows"]}])
    return {
        "name": f"{way.model} {way.pipeline} x {way.replicas} zero {way.zero}", "dtype": way.dtype, **found,
        "bytes": {row.where: (row.predicted_bytes, row.sent_bytes) for row in rows},
    }  # fmt: skip
