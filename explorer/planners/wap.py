"""WAP: for every node only as many devices as pay off, and no more devices in all than do.

On g of the devices a node takes the seconds of its share of the batch and those of reducing its gradients;
between nodes on g and on h devices the samples move that lie elsewhere then:

    least sum over nodes v of  charge(g_v) seconds(v, g_v)  +  max(charge(g_u), charge(g_v)) moved(u, v)

by a program over (node, g), for every number of devices in all (Wang et al.). For time the charge is 1; for
energy it is the watts of all devices in use, of which those without the node idle. The sum has no overlap and
no memory: the plans are judged by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from explorer.cluster import Cluster
from explorer.costs.collectives import collective_lines, lowest_line
from explorer.planners._pieces.fleet import Fleet, fleet_of
from explorer.planners._pieces.layer_meshes import by_microbatch
from explorer.planners._pieces.line import line_of
from explorer.planners._pieces.work_graph import WorkGraph, work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategy import Mesh, Sharding, Stage, Strategy, single

FloatArray = npt.NDArray[np.float64]


class Costs(NamedTuple):
    """Seconds of c numbers of devices for each of n nodes in a row."""

    counts: tuple[int, ...]
    """Numbers of devices, ascending; the first ones of an order."""
    node_s: FloatArray
    """(n, c): work and reduction of each node."""
    move_s: FloatArray
    """(n, c, c): seconds before each node that is on other devices than the one before."""


@SEARCHERS.add(
    Searcher(
        name="wap",
        title="As many devices for every node, and in all, as pay off in time or energy",
        paper="Wang et al., Workload-aware Automatic Parallelization for Multi-GPU DNN Training, ICASSP 2019",
        space=Space(words="devices per node"),
        rigid=True,
        alone=True,
        objectives=("time", "energy"),
    )
)
def wap(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Choose the devices of every node for each number of devices in all, and have the plans judged.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    devices = tuple(device for group in fleet.order for device in group)

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        costs, work = costs_of(problem, fleet, devices, size)
        known = set()
        for width in range(1, len(costs.counts) + 1):
            yield None
            chosen = best_counts(costs, charges(problem, devices, costs.counts[:width]))
            if chosen in known:
                continue
            known.add(chosen)
            counts = [costs.counts[c] for c in chosen]
            idle = len(devices) - max(counts)
            label = f"{min(counts)} to {max(counts)} devices a layer, {idle} idle, microbatches of {size}"
            yield strategy_of_counts(problem, work, devices, counts, size), label

    yield from by_microbatch(problem, evaluator, plans)


def best_counts(costs: Costs, charge: Sequence[float]) -> tuple[int, ...]:
    """Return per node the place in `counts` of its number of devices, of the least sum.

    Args:
        costs: seconds of nodes and between them.
        charge: what a second costs with each of the first numbers of devices at work.
    """
    rate, width = np.array(charge), len(charge)
    node = costs.node_s[:, :width] * rate
    move = costs.move_s[:, :width, :width] * np.maximum.outer(rate, rate)
    value, origins = node[0], []
    for v in range(1, len(node)):
        ways = value[:, None] + move[v]
        origins.append(ways.argmin(axis=0))
        value = ways.min(axis=0) + node[v]
    found = [int(value.argmin())]
    for origin in reversed(origins):
        found.append(int(origin[found[-1]]))
    return tuple(reversed(found))


def charges(problem: Problem, devices: Sequence[int], counts: Sequence[int]) -> tuple[float, ...]:
    """Return what a second costs if so many of the devices work: 1, or the watts of all, idle ones too."""
    if problem.ranks.name != "energy":
        return (1.0,) * len(counts)
    kinds = [problem.needed_cluster.kind_of(device) for device in devices[: counts[-1]]]
    return tuple(
        sum(kind.busy_watts for kind in kinds[:count]) + sum(kind.idle_watts for kind in kinds[count:])
        for count in counts
    )


def costs_of(problem: Problem, fleet: Fleet, devices: tuple[int, ...], size: int) -> tuple[Costs, WorkGraph]:
    """Return the seconds of microbatches of a size on 1, 2, 4, ... and all devices, and the nodes."""
    most = min(len(devices), size)
    counts = tuple(sorted({most, *(1 << k for k in range(most.bit_length()))}))
    cluster, place = fleet.cluster, {kind.name: k for k, kind in enumerate(fleet.kinds)}
    rounds = problem.job.global_batch // size
    works, columns = [], []
    for count in counts:
        work = work_graph(
            problem.graph, fleet.kinds, problem.job, samples=math.ceil(size / count), bytes_per_s=1.0
        )
        used = sorted({place[cluster.kind_of(device).name] for device in devices[:count]})
        lines = collective_lines(cluster, "all_reduce", devices[:count])
        reduced = np.asarray(lowest_line(lines, cast(float, work.reduced_bytes)))
        # gradients are reduced once for all microbatches
        columns.append(work.seconds[used].max(axis=0) + np.where(work.reduced_bytes, reduced, 0.0) / rounds)
        works.append(work)
    sent = line_of(works[0]).sent_bytes[:-1]  # on one device: all samples of a microbatch
    return Costs(counts, np.array(columns).T, _moves(cluster, devices, counts, sent)), works[0]


def _moves(cluster: Cluster, devices: Sequence[int], counts: Sequence[int], sent: FloatArray) -> FloatArray:
    """Return the (n, c, c) seconds in which samples move between few and many devices, there and back.

    Each of the few sends or receives what lies on the others among the many: the share 1 / few - 1 / many.
    """
    found = np.zeros((len(sent), len(counts), len(counts)))
    for b, many in enumerate(counts[1:], start=1):
        paths = [cluster.path(devices[0], device) for device in devices[1:many]]
        latency = max(path.latency_s for path in paths)
        rate = min(path.bandwidth_bytes_per_s for path in paths)
        for a, few in enumerate(counts[:b]):
            seconds = np.where(sent, 2 * latency + sent * (1 / few - 1 / many) / rate, 0.0)
            found[:, a, b] = found[:, b, a] = seconds
    return found


def strategy_of_counts(
    problem: Problem, work: WorkGraph, devices: tuple[int, ...], counts: Sequence[int], size: int
) -> Strategy:
    """Return one stage on the most devices that a node has, and the other nodes on the first of them."""
    names, most = [layer.name for layer in problem.graph.layers], max(counts)
    fewer = {
        count: tuple(names[i] for i in work.layers([v for v, own in enumerate(counts) if own == count]))
        for count in sorted(set(counts) - {most})
    }
    stage = Stage(
        layers=tuple(names), meshes=(Mesh(devices=devices[:most]),), microbatch_samples=size,
        shardings=tuple(
            Sharding(layers=own, meshes=(Mesh(devices=devices[:count]),)) for count, own in fewer.items()
        ),
    )  # fmt: skip
    return single(stages=(stage,), schedule="gpipe", job=problem.job.name)
