"""Scenes of a few plans of one model, for tests of views over time."""

from __future__ import annotations

from functools import cache
from typing import Any

import explorer
from explorer.views.scene import Scene, make_scene

SHAPES: dict[str, dict[str, Any]] = {
    "replicas": {"stages": 4, "replicas": 2},
    "tensor": {"stages": 4, "tensor": 2, "recompute": "full"},
    "chunks": {"stages": 4, "chunks": 2, "schedule": "interleaved_1f1b", "recompute": "selective"},
    "asynchronous": {"stages": 4, "schedule": "pipedream"},
}
MORE: dict[str, dict[str, Any]] = SHAPES | {
    "zero": {"stages": 2, "replicas": 4, "zero": 3},
    "split": {"stages": 4, "schedule": "zb_h1"},
    "folded": {
        "model": "gpt3-175b", "cluster": "dgx-a100-128", "batch": 1536,
        "stages": 8, "tensor": 8, "replicas": 16,
    },
}  # fmt: skip
"""`SHAPES`, and plans with sharded states, split backwards and folded replicas."""


def scene_of(model: str = "llama3-8b", cluster: str = "dgx-a100", batch: int = 32, **shape: Any) -> Scene:
    """A uniform plan, simulated."""
    graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
    workload = explorer.default_workload(graph).with_job(global_batch=batch)
    strategy = explorer.uniform(graph, devices, workload.job, **shape)
    report = explorer.simulate(graph, devices, workload, strategy)
    return make_scene(graph, devices, workload, strategy, report)


@cache
def kept_scene(name: str) -> Scene:
    """A scene of `MORE`, made once."""
    return scene_of(**MORE[name])
