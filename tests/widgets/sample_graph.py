"""The sample's layer graph: of the zoo's llama3-8b, so that opening and closing is the real thing."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import explorer
from explorer.graph import LayerGraph
from explorer.views import Scene, make_scene
from explorer.views import graph as views

OPEN = ("layers.17/*",)
"""What is open in the sample."""


@cache
def graph_scene(model: str | LayerGraph = "llama3-8b", stages: int = 4, replicas: int = 2) -> Scene:
    """An even cut of a model on one DGX A100."""
    graph = explorer.load_model(model) if isinstance(model, str) else model
    cluster = explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=64)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=stages, replicas=replicas)
    report = explorer.simulate(graph, cluster, workload, strategy)
    return make_scene(graph, cluster, workload, strategy, report)


def graph_view(opened: Iterable[str] = OPEN, **options: Any) -> dict[str, Any]:
    """GraphView.view."""
    return views.graph_view(graph_scene(), opened=opened, **options)


def graph_index() -> dict[str, Any]:
    """GraphView.index."""
    return views.graph_index(graph_scene().graph)


def graph_state(opened: Iterable[str] = OPEN, **options: Any) -> dict[str, Any]:
    """Traits of a GraphView."""
    view = graph_view(opened, **options)
    return {"view": view, "index": graph_index(), "opened": view["opened"]}
