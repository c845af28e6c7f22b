"""Heads exchanged for positions under tensor parallelism: degrees refuse just what the simulator refuses."""

from __future__ import annotations

import itertools

import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.simulation.check import check_job
from explorer.strategies.degrees import EXCHANGES, Degrees
from explorer.strategy import JobStrategy
from explorer.workload import Job


@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 1), (8, 2), (8, 4), (8, 8), (6, 3), (12, 3)])
@pytest.mark.parametrize("exchange", EXCHANGES)
def test_degrees_refuse_what_is_refused_later(heads: int, kv_heads: int, exchange: str) -> None:
    settings = {"layers": 2, "embed": 96, "heads": heads, "kv_heads": kv_heads, "ffn": 64, "vocab": 64}
    graph = load_model("llama", settings={k: str(v) for k, v in settings.items()}, sequence_length=16)
    cluster, job = load_cluster("dgx-a100"), Job(global_batch=8)
    for tensor, context in itertools.product((1, 2, 4), repeat=2):
        if tensor * context > 8:
            continue
        degrees = Degrees(tensor=tensor, context=context, context_exchange=exchange)
        stages = degrees.stages_of((tuple(layer.name for layer in graph.layers),))
        refused = bool(check_job(graph, cluster, job, JobStrategy(stages=stages)))
        if refused:
            with pytest.raises(InputError):
                degrees.check(graph, cluster, job)
        else:
            degrees.check(graph, cluster, job)
