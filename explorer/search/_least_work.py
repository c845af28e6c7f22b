"""A bound of the step of every strategy: all layers at the best efficiency that the devices reach."""

from __future__ import annotations

from collections import Counter

import numpy as np

from explorer.costs.least_seconds import least_seconds
from explorer.schedules.spec import ROUNDING
from explorer.search._rates import Rates
from explorer.search.problem import Problem


def least_of_work(problem: Problem) -> float:
    """Return what the objective of no strategy is below; 0 where that is not known.

    Device kind k takes at least r_k of the seconds of the first kind for any layer, so that the devices do
    what sum of 1 / r_k of the first kind could: a step takes no less than all its work takes on these.
    """
    if problem.ranks.per_device:
        return 0.0
    cluster, job, pool = problem.needed_cluster, problem.job, problem.pool
    names = Counter(cluster.kind_of(device).name for device in pool.devices)
    kinds = {kind.name: kind for kind in cluster.device_kinds}
    seconds = [least_seconds(problem.graph, kinds[name], job.precision) for name in names]
    ways = slice(0, 3 if job.training else 1)
    first = seconds[0]
    if first is None or not first[ways].any():
        return 0.0
    speeds: list[float] = []
    for found, count in zip(seconds, names.values(), strict=True):
        if found is None:
            return 0.0
        there = first[ways] > 0
        speeds += [1.0 / float((found[ways][there] / first[ways][there]).min())] * count
    together = sum(sorted(speeds, reverse=True)[: pool.count])
    step_s = float(first[ways].sum()) * job.global_batch / together * ROUNDING
    least = Rates(problem, pool.devices).least(np.array([step_s]), np.zeros(1), np.array([pool.count]))
    return float(least[0])
