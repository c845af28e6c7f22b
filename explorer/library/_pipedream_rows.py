"""Table 1 of PipeDream: the published configurations, what its planner finds here, and speeds of both.

Seconds of layers are those of our V100. A step has two minibatches for each device, so that as many stages as
there are devices stay busy without flushes. Speeds are samples per second in the simulator, with gradients in
buckets behind the backward; published pipelines run without flushes, replicas in turn. Cuts are unpublished:
the best into two stages counts, and into more the better one of the planner's and of that which balances
seconds.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from explorer.cluster import Cluster
from explorer.costs.compute import layer_times
from explorer.graph import LayerGraph
from explorer.library.system import Table
from explorer.models import load_model
from explorer.score.machines import nodes_of
from explorer.score.sets.pipedream import FRAMEWORK, best_case, configuration
from explorer.search import Problem, search
from explorer.search.evaluator import Candidate
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import Workload, default_workload

MINIBATCHES = 2
"""Minibatches of a step for each device."""
Case = tuple[LayerGraph, Cluster, Workload, Strategy]
"""Everything that `simulate` needs."""
Counts = tuple[int, ...]
"""Devices of each stage."""


class Row(NamedTuple):
    """A row of the table."""

    title: str
    """The model in the paper's words."""
    model: str
    """Name in the zoo."""
    minibatch: int
    """Samples of a minibatch, of which every device has one in data parallelism."""
    servers: int
    """Servers."""
    cluster: str
    """Name of the bundled profile: cluster A has 4 devices a server, B 8."""
    published: Counts
    """Devices of each stage."""
    speedup: float
    """Published speed over data parallelism."""

    @property
    def devices(self) -> int:
        """Devices of all stages."""
        return sum(self.published)

    @property
    def words(self) -> str:
        """The problem in words."""
        each = 8 if self.cluster == "pipedream-b" else 4
        on = f"{self.servers} servers of {each} V100 at {self.gbit_per_s} Gbit/s"
        place = on if self.servers > 1 else f"a server of {each} V100"
        return f"{self.title}, {self.minibatch} samples a device, on {place}"

    @property
    def gbit_per_s(self) -> int:
        """Rate of the network in Gbit/s."""
        return 25 if self.cluster == "pipedream-b" else 10


ROWS = (
    Row("VGG-16", "vgg16", 64, 4, "pipedream-a", (15, 1), 5.28),
    Row("ResNet-50", "resnet50", 128, 4, "pipedream-a", (16,), 1.0),
    Row("AlexNet", "alexnet", 256, 2, "pipedream-b", (15, 1), 2.04),
    Row("GNMT-16", "gnmt-16", 64, 1, "pipedream-a", (1,) * 4, 1.46),
    Row("GNMT-16", "gnmt-16", 64, 2, "pipedream-b", (1,) * 16, 3.14),
    Row("GNMT-8", "gnmt-8", 64, 3, "pipedream-a", (1,) * 12, 2.95),
)
"""Table 1 as far as it is known."""


def words_of(row: Row, counts: Counts) -> str:
    """Write a configuration as the paper does, with the number of devices if some are left idle."""
    words = "data parallelism" if len(counts) == 1 else configuration(counts)
    return words if sum(counts) == row.devices else f"{words} on {sum(counts)} devices"


def counts_of(candidate: Candidate) -> Counts:
    """Return the devices of each stage of a plan."""
    return tuple(stage.device_count for stage in candidate.strategy.job.stages)


def _cluster(row: Row) -> Cluster:
    return nodes_of(row.cluster, row.devices, FRAMEWORK)


def _problem(row: Row) -> Problem:
    workload = default_workload(load_model(row.model)).with_job(
        global_batch=MINIBATCHES * row.devices * row.minibatch, framework=FRAMEWORK
    )
    return Problem(
        graph=load_model(row.model), cluster=_cluster(row), workload=workload, weights="any",
        max_devices=row.devices,
    )  # fmt: skip


@cache
def _planned(row: Row) -> tuple[Candidate, ...]:
    """Return all plans that the planner has the simulator judge, the best first."""
    last = search(_problem(row), "pipedream", options={"microbatch_size": str(row.minibatch)})
    return tuple(sorted((item.new for item in last if item.new is not None), key=lambda new: new.rank))


def found(row: Row) -> Counts:
    """Return the configuration of the best plan that is found."""
    return counts_of(_planned(row)[0])


@cache
def of_its_own(row: Row) -> Counts:
    """Return what its program finds by its own costs with all devices on one level, at the network's rate."""
    options = {
        "microbatch_size": str(row.minibatch), "cost_model": "original", "devices": str(row.devices),
        "bandwidth_bytes_per_s": f"{row.gbit_per_s * 1e9 / 8:g}",
    }  # fmt: skip
    *_, last = search(_problem(row), "pipedream", options=options)
    return tuple(stage["machines"] for stage in last.details["stages"])


@cache
def _speed(row: Row, counts: Counts) -> float:
    """Return samples per second of a configuration, with the best cut that is known."""
    graph, cluster = load_model(row.model), _cluster(row)
    cases: list[Case] = [best_case(graph, cluster, counts, row.minibatch)]
    if set(counts) == {1}:
        cases.append(_balanced(row))
    speeds = [simulate(*case).throughput_samples_per_s for case in cases]
    if len(counts) > 1:
        speeds += [new.report.throughput_samples_per_s for new in _planned(row) if counts_of(new) == counts]
    return max(speeds)


def _balanced(row: Row) -> Case:
    """Return a stage on each device, cut so that the slowest stage is as fast as can be."""
    problem, cluster = _problem(row), _cluster(row)
    seconds = layer_times(
        problem.graph, cluster.kind_of(0), samples=float(row.minibatch), precision=problem.job.precision
    ).sum(axis=0)
    strategy = uniform(
        problem.graph, cluster, problem.job, stages=row.devices, microbatch_size=row.minibatch,
        schedule="pipedream", weights=seconds.tolist(),
    )  # fmt: skip
    return problem.graph, cluster, problem.workload, strategy


def speedup(row: Row, counts: Counts) -> float:
    """Return the speed of a configuration over that of data parallelism."""
    return _speed(row, counts) / _speed(row, (row.devices,))


def speeds() -> Table:
    """Return published and found configurations with their speeds over data parallelism."""
    rows = []
    for row in ROWS:
        best, alone = _planned(row)[0].report.throughput_samples_per_s, _speed(row, (row.devices,))
        theirs = _speed(row, row.published)
        names = [words_of(row, counts) for counts in (row.published, found(row), of_its_own(row))]
        rows.append(
            (
                row.words, *names, f"{row.speedup:.2f}", f"{theirs / alone:.2f}", f"{best / alone:.2f}",
                f"{100 * (best / theirs - 1):+.1f} %",
            )
        )  # fmt: skip
    return Table(
        title="Table 1: configurations, and speeds over data parallelism that steps after a minibatch on each"
        " device. What is found is the best of the plans that its program makes over the cluster's levels, in"
        " the simulator, in steps of two minibatches a device, with a flush where replicas cannot take"
        " equally many turns. By its own costs alone, with all devices on one level at the rate of the"
        " network, it finds what the fourth column says.",
        head=(
            "problem", "published", "found", "by its own costs", "speed, paper", "speed of the published",
            "speed of what is found", "found over published",
        ),
        rows=tuple(rows),
    )  # fmt: skip
