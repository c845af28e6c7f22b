"""`simulate(graph, cluster, workload, strategy) -> Report`: pure, and the only judge of a strategy."""

from __future__ import annotations

from collections.abc import Mapping

from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.simulation.check import graph_of
from explorer.simulation.one_job import simulate_job
from explorer.simulation.report import Report
from explorer.simulation.several_jobs import simulate_jobs
from explorer.strategy import Strategy
from explorer.workload import Workload


def simulate(
    graph: LayerGraph | Mapping[str, LayerGraph],
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    *,
    force_events: bool = False,
) -> Report:
    """Predict time, memory and traffic of a strategy.

    Args:
        graph: the model, or with several jobs the models by `Job.graph` key.
        cluster: the devices.
        workload: the jobs to run.
        strategy: everything that is chosen.
        force_events: skip the static pass (a check of the two against each other).

    Raises:
        PlanError: everything wrong with the strategy.
        DeadlockError: an order in which actions wait for each other in a circle.
    """
    if len(workload.jobs) > 1 or len(strategy.jobs) > 1:
        return simulate_jobs(graph, cluster, workload, strategy, force_events=force_events)
    return simulate_job(
        graph_of(graph, workload.job), cluster, workload.job, strategy.job, force_events=force_events
    )
