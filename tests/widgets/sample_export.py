"""Views of the Export tab: every target of a real plan."""

from __future__ import annotations

from functools import cache
from typing import Any

import explorer
from explorer.plan import Resolved, make_plan, resolve
from explorer.views.export_preview import export_view


@cache
def plan(model: str = "llama3-8b", cluster: str = "dgx-a100", batch: int = 64) -> Resolved:
    """Four stages of two replicas."""
    graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
    workload = explorer.default_workload(graph).with_job(global_batch=batch)
    strategy = explorer.uniform(graph, devices, workload.job, stages=4, replicas=2)
    return resolve(make_plan(model, graph, cluster, devices, workload, strategy))


def view(target: str = "plan", **more: Any) -> dict[str, Any]:
    """`ExportView.view`."""
    return export_view(plan(), target) | more


def refused_view() -> dict[str, Any]:
    """torchtitan has no gpt2 with tied embeddings over several stages."""
    return export_view(plan("gpt2-small"), "torchtitan")


def changed_view() -> dict[str, Any]:
    """Megatron's view of twice the batch of an imported script."""
    return export_view(plan(batch=128), "megatron", before=(plan(), "run.sh, a Megatron-LM config"))
