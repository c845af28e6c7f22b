"""Run on every rank: models' own layers whose weights are sharded over ranks, against one process."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple
from unittest.mock import patch

import torch.distributed as dist

from explorer.models import load_model
from explorer.run.cases.build import Prepared
from explorer.run.judging.wire_bytes import wire_bytes
from explorer.run.own.own_source import OwnSource
from explorer.run.own.planned_layers import as_planned, planned_layers
from explorer.run.sharded.overlapped import _Run
from explorer.sharding import expert_layout, megatron_layout
from explorer.strategies.model_axes import expert_shardings
from explorer.strategy import REPLICA, Mesh
from tests.run.own.own_cases import (
    CONFIGS,
    FACTORIES,
    GPT,
    LLAMA,
    RESNET,
    case,
    configured,
    cut,
    full_width,
    small_resnet,
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
    layout: tuple[tuple[str, str], ...] = ()
    axes: tuple[tuple[str, int], ...] = ()
    schedule: str = "1f1b"
    tiles: bool = False
    """Whether collectives of the lanes go in tiles beside products."""
    experts: int = 0
    """Ranks of the replicas over which experts are laid out; 0 for none."""
    several: bool = False
    """Whether every replica has two samples of a microbatch."""
    shares: tuple[float, ...] = ()
    """Of the ranks of a lane; equal if there are none."""

    @property
    def name(self) -> str:
        axes = "".join(f" {name} {size}" for name, size in self.axes)
        experts = f" experts {self.experts}" if self.experts else ""
        tiles = " in tiles" * self.tiles
        several = " several samples" * self.several
        several += f" shares {self.shares}" if self.shares else ""
        return (
            f"{self.model} {self.pipeline} x {self.replicas} zero {self.zero}{axes}{experts}{tiles}{several}"
        )

    @property
    def ranks(self) -> int:
        return self.pipeline * self.replicas * prod(size for _, size in self.axes)


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
    *(Way("mixtral", 1, 2, zero, optimizer="sgd") for zero in (2, 3)),
    Way("mixtral", 1, 2, 3, dtype="fp32", optimizer="sgd"),
    Way("mixtral", 2, 2, 3, optimizer="sgd"),
)
TENSOR, TWO = (("tensor", 2),), megatron_layout()
SEQUENCE = megatron_layout(sequence_parallel=True)
CONTEXT = (("seq", "tensor"), ("ring", "tensor"))
WIDTH = (("ffn", "tensor"),)
LANES = (
    Way("gpt", 1, 1, 0, layout=TWO, axes=TENSOR),
    Way("gpt", 1, 1, 0, layout=SEQUENCE, axes=TENSOR),
    Way("gpt", 1, 1, 0, layout=SEQUENCE, axes=TENSOR, dtype="fp32"),
    Way("llama", 1, 1, 0, layout=TWO, axes=TENSOR),
    Way("llama", 1, 1, 0, layout=SEQUENCE, axes=TENSOR, dtype="fp32"),
    Way("skip", 1, 1, 0, layout=WIDTH, axes=TENSOR),
    Way("placed", 1, 1, 0, layout=(("seq", "tensor"),), axes=TENSOR),
    Way("gpt", 1, 1, 0, layout=(("embed", "tensor"),), axes=TENSOR),
    Way("gpt", 1, 1, 0, layout=CONTEXT, axes=TENSOR),
    Way("gpt", 2, 1, 0, layout=TWO, axes=TENSOR),
    Way("gpt", 2, 1, 0, layout=SEQUENCE, axes=TENSOR, schedule="zb_h1"),
    Way("gpt", 2, 1, 0, layout=SEQUENCE, axes=TENSOR, schedule="layer_parallel"),
    Way("gpt", 1, 2, 3, layout=SEQUENCE, axes=TENSOR),
    *(Way("gpt", 1, 2, zero, layout=WIDTH, axes=TENSOR, shares=(1.0, 3.0)) for zero in (0, 1, 3)),
    Way("gpt", 1, 1, 0, layout=SEQUENCE, axes=(("tensor", 4),)),
    Way("llama", 2, 1, 0, layout=SEQUENCE, axes=TENSOR),
)
TILES = (
    Way("gpt", 1, 1, 0, layout=TWO, axes=TENSOR, tiles=True),
    Way("gpt", 1, 1, 0, layout=SEQUENCE, axes=TENSOR, tiles=True),
    Way("gpt", 1, 1, 0, layout=SEQUENCE, axes=TENSOR, tiles=True, dtype="fp32"),
    Way("gpt", 1, 1, 0, layout=TWO, axes=TENSOR, tiles=True, dtype="fp32"),
    Way("llama", 1, 1, 0, layout=SEQUENCE, axes=TENSOR, tiles=True),
    Way("skip", 1, 1, 0, layout=WIDTH, axes=TENSOR, tiles=True),
    Way("gpt", 2, 1, 0, layout=SEQUENCE, axes=TENSOR, tiles=True, schedule="zb_h1"),
    Way("llama", 2, 1, 0, layout=TWO, axes=TENSOR, tiles=True),
    Way("gpt", 1, 2, 3, layout=SEQUENCE, axes=TENSOR, tiles=True),
    Way("gpt", 1, 1, 0, layout=SEQUENCE, axes=(("tensor", 4),), tiles=True),
    Way("gpt", 1, 1, 0, layout=TWO, axes=(("tensor", 4),), tiles=True),
)
CHANNELS = (("out_channels", "tensor"), ("channels", "tensor"), ("vocab", "tensor"))
CONVOLUTIONS = (
    Way("resnet", 1, 1, 0, layout=CHANNELS, axes=TENSOR),
    Way("resnet", 1, 1, 0, layout=(("in_channels", "tensor"), ("channels", "tensor")), axes=TENSOR),
    Way("resnet", 1, 1, 0, layout=(("height", "tensor"),), axes=TENSOR),
    Way("resnet", 1, 1, 0, layout=(("width", "tensor"), ("vocab", "tensor")), axes=TENSOR),
    Way("resnet", 2, 1, 0, layout=CHANNELS, axes=TENSOR),
    Way("resnet", 1, 2, 3, layout=(("height", "tensor"),), axes=TENSOR),
    Way("resnet", 1, 1, 0, layout=(("height", "y"), ("width", "x")), axes=(("y", 2), ("x", 2))),
)
EXPERTS = (("experts", "tensor"), *SEQUENCE)
CONFIGURED_LANES = (
    Way("mixtral", 1, 1, 0, layout=EXPERTS, axes=TENSOR, dtype="fp32", optimizer="sgd"),
    Way("t5", 1, 1, 0, layout=TWO, axes=TENSOR, dtype="fp32"),
    Way("mixtral", 1, 1, 0, layout=EXPERTS, axes=TENSOR),
    Way("mixtral", 1, 1, 0, layout=TWO, axes=TENSOR),
    Way("t5", 2, 1, 0, layout=TWO, axes=TENSOR),
    Way("mixtral", 2, 1, 0, layout=TWO, axes=TENSOR, optimizer="sgd"),
    Way("mixtral", 1, 2, 0, dtype="fp32", optimizer="sgd", experts=2),
    Way("mixtral", 1, 2, 0, experts=2),
    Way("mixtral", 1, 2, 0, experts=2, several=True),
    Way("mixtral", 2, 2, 0, experts=2),
    Way("mixtral", 1, 2, 3, experts=2),
    Way("mixtral", 1, 4, 0, experts=4),
    Way("mixtral", 1, 4, 0, experts=2),
    Way("mixtral", 1, 4, 2, experts=2),
    *(Way("mixtral", 1, 2, 0, layout=layout, axes=TENSOR, experts=4) for layout in (SEQUENCE, TWO)),
    Way("mixtral", 1, 2, 0, layout=SEQUENCE, axes=TENSOR, experts=4, dtype="fp32", optimizer="sgd"),
    Way("mixtral", 1, 2, 0, layout=SEQUENCE, axes=TENSOR, experts=2),
    Way("mixtral", 1, 2, 3, layout=SEQUENCE, axes=TENSOR, experts=4),
    Way("mixtral", 2, 2, 0, layout=SEQUENCE, axes=TENSOR, experts=4),
    Way("mixtral", 1, 4, 0, layout=TWO, axes=TENSOR, experts=4),
)
FULL_WIDTH = tuple(
    Way(f"wide {name}", pipeline, 2, zero, dtype=dtype, optimizer="sgd")
    for name, dtype in (
        ("gpt2-small", "fp32"), ("llama", "fp64"), ("resnet50", "fp64"), ("skip", "fp64"), ("t5", "fp64"),
        ("mixtral", "fp32"),
    )
    for pipeline, zero in ((1, 3), (2, 2))
)  # fmt: skip
FULL_WIDTH_LANES = tuple(
    Way(f"wide {name}", pipeline, 1, 0, dtype=dtype, optimizer="sgd", layout=layout, axes=TENSOR)
    for name, dtype, layout in (
        ("gpt2-small", "fp32", SEQUENCE), ("llama", "fp64", SEQUENCE), ("llama", "fp32", TWO),
        ("skip", "fp64", WIDTH), ("t5", "fp64", TWO), ("mixtral", "fp32", TWO),
    )
    for pipeline in (1, 2)
)  # fmt: skip


@lru_cache(maxsize=2)
def model(name: str, dtype: str) -> OwnSource:
    """The model of a way."""
    if name in ("gpt", "llama"):
        reference, settings, tokens = {"gpt": GPT, "llama": LLAMA}[name]
        return source(reference, settings, tokens, dtype)
    if name in ("skip", "placed"):
        return source(f"{FACTORIES}:{name}", dtype=dtype)
    if name == "resnet":
        return small_resnet(dtype)
    return configured(name, dtype) if name in CONFIGS else full_width(name.removeprefix("wide "), dtype)


def laid_out(way: Way) -> OwnSource:
    """The model of a way, as its lanes lay it out: a ResNet by the names that the plan's graph has."""
    own, planned = model(way.model, way.dtype), ()
    if way.model == "resnet":
        plan = load_model(RESNET[0], settings=RESNET[1])
        named = {layer.name: layer.name for layer in own.graph.layers}
        planned = planned_layers(own.graph, named, plan, {dim for dim, _ in way.layout})
    tiles = tuple(name for name, _ in way.axes) if way.tiles else ()
    uneven = ((way.axes[0][0], way.shares),) if way.shares else ()
    made = replace(own.model, layout=way.layout, axes=way.axes, planned=planned, tiles=tiles, uneven=uneven)
    return own._replace(model=made, graph=as_planned(own.graph, planned))


def prepared(way: Way) -> Prepared:
    """The case of a way."""
    own = laid_out(way)
    experts = tuple(layer.name for layer in own.graph.layers if layer.kind == "experts")
    if way.experts:
        spread = ((experts, expert_layout()),)
        own = own._replace(model=replace(own.model, spread=spread, spread_axis=("expert", way.experts)))
    each = way.ranks // way.pipeline
    size = 4 * way.replicas if way.model == "resnet" else max(2, way.replicas)
    size = 2 * way.replicas if way.several else size
    stages = tuple(
        replace(
            stage, zero=way.zero, zero_replicas=way.together, layout=way.layout,
            axis_shares=own.model.uneven,
            overlap=tuple((name, "tiles") for name, _ in way.axes) if way.tiles else (),
            meshes=(
                Mesh(
                    devices=tuple(range(i * each, (i + 1) * each)),
                    axes=((REPLICA, way.replicas), *way.axes),
                ),
            ),
        )
        for i, stage in enumerate(cut(own, way.pipeline, way.replicas, size=size))
    )  # fmt: skip
    if way.experts:
        stages = tuple(
            replace(stage, shardings=expert_shardings(stage.layers, stage.meshes, experts, way.experts))
            for stage in stages
        )
    batch = 4 if "wide" in way.model else 8
    return case(own, stages, way.schedule, batch=batch, optimizer=way.optimizer)


def small() -> list[dict[str, Any]]:
    return [one(way) for way in SMALL if way.ranks == dist.get_world_size()]


def lanes() -> list[dict[str, Any]]:
    return [one(way) for way in LANES if way.ranks == dist.get_world_size()]


def tiles() -> list[dict[str, Any]]:
    """The ways in tiles, with how many messages of tiles each sent, by operation."""
    found = []
    for way in (way for way in TILES if way.ranks == dist.get_world_size()):
        swapped: Counter[str] = Counter()
        before = _Run.swap

        def counted(run: _Run, op: str, *given: Any, count: Any = swapped, swap: Any = before) -> None:
            count[op] += 1
            swap(run, op, *given)

        with patch.object(_Run, "swap", counted):
            found.append({**one(way), "swapped": swapped, "sequence": way.layout == SEQUENCE})
    return found


def convolutions() -> list[dict[str, Any]]:
    return [one(way) for way in CONVOLUTIONS if way.ranks == dist.get_world_size()]


def lanes_of_transformers() -> list[dict[str, Any]]:
    return [one(way) for way in CONFIGURED_LANES if way.ranks == dist.get_world_size()]


def full_width_lanes() -> list[dict[str, Any]]:
    return [one(way) for way in FULL_WIDTH_LANES if way.ranks == dist.get_world_size()]


def models_of_transformers() -> list[dict[str, Any]]:
    return [one(way) for way in CONFIGURED if way.ranks == dist.get_world_size()]


def full_width_models() -> list[dict[str, Any]]:
    return [one(way) for way in FULL_WIDTH if way.ranks == dist.get_world_size()]


def one(way: Way) -> dict[str, Any]:
    """What a rank makes of a way, with the bytes that it and that all ranks together should send."""
    run = prepared(way)
    found = played(run.case)
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, found["rows"])
    rows = wire_bytes(run, [{"sent": item} for item in every])
    return {
        "name": way.name, "dtype": way.dtype, **found,
        "bytes": {
            row.where: (row.predicted_bytes + sum(count for _, count in row.known), row.sent_bytes)
            for row in rows
        },
    }  # fmt: skip
