"""An evaluation after a change costs what changed and the stages, never the devices."""

from __future__ import annotations

import explorer
from explorer.strategies.moves import move_boundary
from explorer.tasks.placement import place


def test_a_moved_layer_keeps_the_skeleton() -> None:
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    job = explorer.default_workload(graph).with_job(global_batch=16).job
    strategy = explorer.uniform(graph, cluster, job, stages=4, replicas=2).job
    moved = move_boundary(graph, strategy, 1, 2, 1)
    again = explorer.uniform(graph, cluster, job, stages=4, replicas=2).job
    assert again.stages[0] is not strategy.stages[0]
    one, other, third = (place(graph, item).skeleton for item in (strategy, moved, again))
    assert one is other
    assert one is third
    assert place(graph, moved).layers[1] is not place(graph, strategy).layers[1]
