"""Samples dealt out by speed: for which groups that makes another strategy, and its bound."""

from __future__ import annotations

import numpy as np

from explorer.costs.compute import layer_times
from explorer.schedules.spec import ROUNDING
from explorer.search._blocks import Block
from explorer.search._layout_costs import LayoutCosts
from explorer.search._rates import Rates
from explorer.search._slow_places import replicas_differ
from explorer.search.problem import Problem
from explorer.strategies.shares import least_makespan


def speed_up(problem: Problem, block: Block, group: int) -> float:
    """Return about the share of the step time that is left if samples are dealt out by speed; 0 if they
    cannot be, or all replicas of every stage lie on the same kinds of devices.
    """
    p, d, _, size, _ = block.grids[group].tolist()
    row, pool = block.costs.row, problem.pool
    if size == 1 or d == 1 or problem.rules or len(pool.cluster.device_kinds) == 1:
        return 0.0
    p, d, v, _, _ = block.grids[group].tolist()
    if not replicas_differ(block.costs, block.schedule, p, d, v):
        return 0.0
    speeds = [pool.speed(device) for device in block.order[: p * d * row : row]]
    if not min(speeds) or max(speeds) == min(speeds):
        return 0.0
    return min(speeds) / (sum(speeds) / len(speeds))


def least_by_speed(problem: Problem, block: Block, group: int) -> float:
    """Return what the objective of a group is at least if samples are dealt out by speed.

    Some replica takes no fewer samples than if all took as many, so the group's own bound holds. Of one
    position the shares are known, and with them what the slowest replica works.
    """
    p, d, _, size, _ = block.grids[group].tolist()
    if p > 1:
        return float(block.lower[group])
    return _least_alone(problem, block, group, _most_shares(problem, block.costs, d, size))


def least_if_even(problem: Problem, block: Block, group: int) -> float:
    """Return what the objective of a group is at least if all replicas take as many samples: of one position
    the slowest replica is known.
    """
    p, d, _, size, _ = block.grids[group].tolist()
    if p > 1 or problem.rules or len(block.costs.places) == 1:
        return float(block.lower[group])
    places = np.unique(block.costs.row_places[:d]).tolist()
    return _least_alone(problem, block, group, [(place, size) for place in places])


def _least_alone(problem: Problem, block: Block, group: int, work: list[tuple[int, int]]) -> float:
    """Return the bound of a group of one position, given places and samples of a microbatch on them."""
    _, d, _, size, _ = block.grids[group].tolist()
    work_s = max(block.costs.alone_s(place, samples) for place, samples in work)
    step_s = work_s * (problem.job.global_batch // (size * d)) * ROUNDING
    used = np.array([d * block.costs.row])
    least = Rates(problem, block.order).least(np.array([step_s]), np.zeros(1), used)
    return max(float(block.lower[group]), float(least[0]))


def _most_shares(problem: Problem, costs: LayoutCosts, replicas: int, size: int) -> list[tuple[int, int]]:
    """Return the most samples that a replica at each place takes of a microbatch of a single stage."""
    graph, cluster = problem.graph, problem.needed_cluster
    known: dict[str, float] = {}
    every = list(range(len(graph.layers)))
    seconds, places = [], []
    for replica in range(replicas):
        row = costs.table.devices[replica * costs.row : (replica + 1) * costs.row]
        for kind in (cluster.kind_of(device) for device in row):
            if kind.name not in known:
                times = layer_times(graph, kind, samples=float(size), precision=problem.job.precision)
                known[kind.name] = float(times.sum(axis=0)[every].sum()) / size  # as `shared_by_speed` has it
        seconds.append(max(known[cluster.kind_of(device).name] for device in row))
        places.append(costs.place_of(replica * costs.row))
    most: dict[int, int] = {}
    for place, share in zip(places, least_makespan(seconds, size * replicas), strict=True):
        most[place] = max(most.get(place, 0), share)
    return [(place, share) for place, share in most.items() if share]
