"""Heads over several mesh axes: what ranks could not compute, no prediction accepts."""

from __future__ import annotations

import itertools
from math import prod

import pytest
import torch

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.run.cases.small_graphs import without_internals
from explorer.run.sharded.execution import ShardedExecution
from explorer.run.sharded.mesh import Line, Meter, RankMesh
from explorer.sharding.stage import Request
from explorer.simulation.check import check_job
from explorer.strategy import REPLICA, JobStrategy, Mesh, Stage
from explorer.workload import Job

Layout = tuple[tuple[str, str], ...]
AXES = (("x", 2), ("y", 2))
OVER = ((), ("x",), ("y",), ("x", "y"))
LAYOUTS: list[Layout] = [
    (*(("heads", a) for a in queries), *(("kv_heads", a) for a in keys))
    for queries, keys in itertools.product(OVER, repeat=2)
]


def llama(heads: int, kv_heads: int) -> object:
    settings = {"layers": 1, "embed": 4 * heads, "heads": heads, "kv_heads": kv_heads, "ffn": 16, "vocab": 16}
    return load_model("llama", settings={k: str(v) for k, v in settings.items()}, sequence_length=4)


def refused_by_ranks(graph: object, layout: Layout, axes: tuple[tuple[str, int], ...] = AXES) -> bool:
    meter = Meter()
    lines = tuple(Line(name, tuple(range(size)), 0, None, meter) for name, size in axes)
    place = (0,) * len(axes)
    mesh = RankMesh(axes=axes, place=place, lines=lines, meter=meter, device=torch.device("cpu"))
    try:
        ShardedExecution(without_internals(graph), Request(layout, axes, ()), mesh, samples=2)  # type: ignore[arg-type]
    except InputError:
        return True
    return False


def problems(
    graph: object,
    layout: Layout,
    *,
    axes: tuple[tuple[str, int], ...] = AXES,
    shares: tuple[float, ...] = (),
) -> list[str]:
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers),  # type: ignore[attr-defined]
        meshes=(Mesh(devices=tuple(range(prod(n for _, n in axes))), axes=((REPLICA, 1), *axes)),),
        layout=layout,
        axis_shares=((axes[0][0], shares),) if shares else (),
    )
    job = Job(global_batch=4, optimizer="sgd")
    return check_job(graph, load_cluster("dgx-a100"), job, JobStrategy(stages=(stage,)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("heads", "kv_heads"),
    [(8, 8), (8, 4), (8, 2), (8, 1), (12, 6), (2, 2), (6, 6), (6, 3), (6, 2), (6, 1), (9, 3)],
)
def test_what_ranks_refuse_the_prediction_refuses(heads: int, kv_heads: int) -> None:
    graph = llama(heads, kv_heads)
    for layout in LAYOUTS:
        if refused_by_ranks(graph, layout):
            assert problems(graph, layout), layout


@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 8), (8, 4), (16, 4)])
def test_heads_that_divide_are_accepted_over_both_axes(heads: int, kv_heads: int) -> None:
    graph = llama(heads, kv_heads)
    for queries, keys in itertools.product((("x", "y"),), (("x",), ("x", "y"))):
        layout = (*(("heads", a) for a in queries), *(("kv_heads", a) for a in keys))
        assert problems(graph, layout) == []
        assert not refused_by_ranks(graph, layout)


def test_the_way_out_is_said() -> None:
    both = (("heads", "x"), ("heads", "y"), ("kv_heads", "x"), ("kv_heads", "y"))
    (said,) = problems(llama(8, 2), both)
    assert "2 'kv_heads' over mesh axes x and y of 4 devices together" in said
    (said,) = problems(llama(8, 4), (("heads", "x"), ("heads", "y"), ("kv_heads", "y")))
    assert "part query heads from their key-value heads; lay both over the slower axis first" in said


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("kv_heads", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("each", [1, 2, 3])
def test_over_one_axis_the_prediction_refuses_what_ranks_refuse(n: int, kv_heads: int, each: int) -> None:
    if each * kv_heads < n:
        return
    graph, layout = llama(each * kv_heads, kv_heads), (("heads", "x"), ("kv_heads", "x"))
    refused = refused_by_ranks(graph, layout, axes=(("x", n),))
    assert refused == bool(problems(graph, layout, axes=(("x", n),)))
    apart = each > 1 and kv_heads > 1 and (each * kv_heads % n or (kv_heads % n and n % kv_heads))
    assert refused == bool(apart)


def test_unequal_shares_part_no_heads() -> None:
    layout, axes = (("heads", "x"), ("kv_heads", "x")), (("x", 2),)
    assert problems(llama(8, 4), layout, axes=axes, shares=(3.0, 1.0)) == []
    (said,) = problems(llama(8, 2), layout, axes=axes, shares=(3.0, 1.0))
    assert said.endswith("take shares that divide both alike")
