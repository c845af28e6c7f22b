"""Run on every rank: blocks under every layout, with outputs, gradients and bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.run.sharded.execution import ShardedExecution, mesh_axes
from explorer.run.sharded.mesh import RankMesh, open_mesh
from explorer.run.sharded.volume import otherwise, predicted_bytes, sent_bytes
from explorer.sharding.result import Override
from explorer.sharding.stage import GraphSharding, Request
from tests.run.sharded.blocks import BLOCKS, Block
from tests.sharding.checking import grid_request

SAMPLES = 2
PRECISIONS = {torch.float64: "fp64", torch.float32: "fp32"}
_MESHES: dict[tuple[tuple[str, int], ...], RankMesh] = {}


def layouts(graph: LayerGraph, ranks: int) -> Iterator[Request]:
    """Every dimension over one axis, every pair over it, and on four ranks every two over a 2 x 2 mesh."""
    dims = list(dict.fromkeys(dim.name for layer in graph.layers for dim in layer.dims))
    attention = any(layer.kind == "attention" for layer in graph.layers)
    for one, two in itertools.product(["", *dims], repeat=2):
        if one != two or not one:
            pairs = tuple((dim, "a") for dim in (one, two) if dim)
            yield grid_request(pairs, {"a": ranks})
    if attention:
        yield grid_request((("seq", "a"), ("ring", "a")), {"a": ranks})
    if ranks == 4:
        for one, two in itertools.product(["", *dims], repeat=2):
            pairs = (*(((one, "a"),) if one else ()), *(((two, "b"),) if two else ()))
            yield grid_request(pairs, {"a": 2, "b": 2})
        megatron = tuple((dim, "b") for dim in ("heads", "kv_heads", "ffn", "vocab"))
        yield grid_request((("seq", "a"), *megatron, ("seq", "b")), {"a": 2, "b": 2})
        if attention:
            yield grid_request((("seq", "a"), ("ring", "a"), *megatron), {"a": 2, "b": 2})


def special(name: str, ranks: int) -> Iterator[Request]:
    """Meshes carved out of the replicas (1.5D of Gholami et al.), and unequal shares."""
    wide = ("up", "gelu", "down")
    if name == "mlp":
        yield Request((), (), (Override(layers=wide, layout=(("ffn", "m"),), sizes=(("m", ranks),)),))
        if ranks == 4:  # two halves of the weights, each on two replicas, for four replicas elsewhere
            half = Override(layers=wide, layout=(("ffn", "m"),), sizes=(("m", 2),))
            yield Request((("seq", "a"),), (("a", 2),), (half,))
            yield Request((("ffn", "a"),), (("a", 2),), (Override(layers=("in",), sizes=(("b", 2),)),))
    shares = (3.0, 1.0) if ranks == 2 else (2.0, 1.0, 1.0, 2.0)
    megatron = tuple((dim, "a") for dim in ("heads", "kv_heads", "ffn", "vocab"))
    for layout in (
        megatron,
        (*megatron, ("seq", "a")),
        (("seq", "a"),),
        (("seq", "a"), ("ring", "a")),
        (("embed", "a"),),
        (("in_channels", "a"), ("out_channels", "a")),
        (("channels", "a"), ("vocab", "a")),
    ):
        yield Request(layout, (("a", ranks),), (), (("a", shares, 0),))


def values(
    block: Block, dtype: torch.dtype, samples: int = SAMPLES
) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor], torch.Tensor]:
    """Inputs, weights and the gradient of the output."""
    torch.manual_seed(3)
    graph = block.graph
    inputs = {}
    for tensor in graph.tensors:
        if tensor.name not in graph.producer:
            shape = (samples, *map(int, tensor.shape))
            integer = tensor.dtype == "int64"
            inputs[tensor.name] = (
                torch.randint(block.vocab, shape)
                if integer
                else torch.randn(shape, dtype=torch.float64).to(dtype)
            )
    weights = {
        p.name: torch.randn([int(n) for n in p.shape], dtype=torch.float64).to(dtype) / 2
        for p in graph.parameters
    }
    out = next(t for t in graph.tensors if t.name == block.output)
    gradient = torch.randn((samples, *map(int, out.shape)), dtype=torch.float64).to(dtype)
    return inputs, weights, gradient


def mesh_of(axes: tuple[tuple[str, int], ...]) -> RankMesh:
    if axes not in _MESHES:
        _MESHES[axes] = open_mesh(axes, range(math.prod(size for _, size in axes)))
    return _MESHES[axes]


def check() -> list[dict[str, Any]]:
    ranks = dist.get_world_size()
    found = []
    for name, make in BLOCKS.items():
        block = make()
        for dtype in (torch.float64, torch.float32):
            wanted = [
                item for item in layouts(block.graph, ranks) if dtype == torch.float64 or len(item.layout) < 2
            ]
            found += several(name, block, wanted, dtype)
        found += several(name, block, special(name, ranks), torch.float64)
    return found


def several(name: str, block: Block, requests: Iterable[Request], dtype: torch.dtype) -> list[dict[str, Any]]:
    known: dict[int, Any] = {}
    found = []
    for request in requests:
        carved = math.prod(axis.size for axis in GraphSharding(block.graph, request).axes if axis.carved)
        if carved not in known:
            given = values(block, dtype, SAMPLES * carved)
            leaves = {key: w.clone().requires_grad_() for key, w in given[1].items()}
            dense = block.dense(given[0], leaves)
            grads = torch.autograd.grad(dense, list(leaves.values()), given[2])
            known[carved] = given, (dense.detach(), dict(zip(leaves, grads, strict=True)))
        try:
            found.append(one(name, block, request, *known[carved], dtype))
        except Exception as error:
            raise RuntimeError(f"{name} {request}") from error
    return found


def one(
    name: str, block: Block, request: Request, given: Any, dense: Any, dtype: torch.dtype
) -> dict[str, Any]:
    inputs, weights, gradient = given
    mesh = mesh_of(mesh_axes(block.graph, request))
    said = {
        "block": name, "layout": request.layout, "sizes": request.sizes, "dtype": str(dtype),
        "overrides": len(request.overrides), "shares": len(request.uneven),
    }  # fmt: skip
    try:
        run = ShardedExecution(block.graph, request, mesh, samples=len(gradient))
        local = {key: run.cut_weight(key, w).clone().requires_grad_() for key, w in weights.items()}
        mesh.meter.clear()
        made = run.forward({key: run.cut_input(key, x) for key, x in inputs.items()}, local)[block.output]
        boxer = run.boxer(block.output)
        back = boxer.cut(gradient, made.gradient)
        grads = torch.autograd.grad(made.value, list(local.values()), back)
        whole = run.add_up(dict(zip(local, grads, strict=True)))
    except InputError as error:
        return {**said, "refused": str(error)}
    value = made.value.detach()
    steps = [a for a, state in enumerate(made.placement) if state == -2]
    for a in steps:
        dist.all_reduce(value, group=mesh.lines[a].group)
    states = tuple(-1 if s == -2 else s for s in made.placement)
    error = relative(value, boxer.cut(dense[0], states))
    wrong = {key: relative(whole[key], run.cut_weight(key, dense[1][key])) for key in whole}
    return {
        **said,
        "error": error,
        "gradients": max(wrong.values()),
        "worst": max(wrong, key=lambda key: wrong[key]),
        "sent": {" ".join(key): sent for key, sent in sent_bytes(run).items()},
        "predicted": {" ".join(key): sent for key, sent in predicted_bytes(run, PRECISIONS[dtype]).items()},
        "otherwise": [
            [" ".join(item.key), item.sent, item.why] for item in otherwise(run, PRECISIONS[dtype])
        ],
        "uneven": list(run.whole.cut(tuple(layer.name for layer in block.graph.layers)).notes),
    }


def relative(x: torch.Tensor, y: torch.Tensor) -> float:
    assert x.shape == y.shape, (x.shape, y.shape)
    return float((x - y).abs().max() / max(1.0, float(y.abs().max()))) if x.numel() else 0.0
