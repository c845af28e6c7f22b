"""The published configurations of DAPPLE's VGG-19 and BERT-48, and what its planner finds here for the same.

Seconds of layers come from one of two sources: the profiles that its authors publish, which their planner
reads, or our zoo's model on our V100. Global batches are the paper's (2048 and 64). Microbatches are those
that it profiles, 32 images and 2 sequences a device; so a stage on eight devices shares 16 sequences. That
replicas share them so is assumed; fp32 follows from the profiles' bytes, SGD and AdamW are those of the
published scripts. Data parallelism takes its batch in as few rounds as fit. Gradients are reduced in
buckets of 64 MiB behind the backward.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.library._dapple_profiles import profile
from explorer.library.system import Table
from explorer.models import load_model
from explorer.planners._pieces.fleet import fleet_of
from explorer.planners._pieces.machines import Allocation, Machines, machines_of
from explorer.planners._pieces.pivot_latency import FloatArray, latency_s
from explorer.planners._pieces.plans import strategy_of
from explorer.planners.dapple import (
    MOST_GROUPS,
    Costs,
    Segment,
    costs_of,
    partitions,
)
from explorer.search import Problem, search
from explorer.simulation.simulate import simulate
from explorer.workload import default_workload

PROFILE, ZOO = "profile", "zoo"
SOURCES = {PROFILE: "its authors' profile", ZOO: "our V100"}
"""Where seconds of layers come from, in words."""
Counts = tuple[int, ...]


class Case(NamedTuple):
    """One published configuration."""

    model: str
    """Name in the zoo."""
    cluster: str
    """Name of a bundled profile."""
    microbatch: int
    """Samples of a microbatch over all replicas of a stage, in pipelines."""
    published: Counts
    """Devices of each stage."""

    @property
    def batch(self) -> int:
        """Samples of a step."""
        return 2048 if self.model == "vgg19" else 64

    @property
    def words(self) -> str:
        """The problem in words."""
        devices = "2x8" if self.cluster == "dapple-a" else "16x1"
        rate = "10" if self.cluster == "dapple-c" else "25"
        name = {"vgg19": "VGG-19", "bert-48": "BERT-48"}[self.model]
        return f"{name}, batch {self.batch}, on {devices} V100 at {rate} Gbit/s"


CASES = (
    Case("vgg19", "dapple-a", 512, (16,)),
    Case("vgg19", "dapple-b", 512, (16,)),
    Case("vgg19", "dapple-c", 512, (15, 1)),
    Case("bert-48", "dapple-a", 16, (8, 8)),
    Case("bert-48", "dapple-b", 2, (1,) * 16),
)
"""Configurations of the paper's planning results."""


class Priced(NamedTuple):
    """A plan: its stages, the latency T of the paper and the simulated step."""

    counts: Counts
    """Devices of each stage."""
    latency_s: float
    """T in seconds."""
    step_s: float
    """Simulated seconds of a step."""


def words_of(counts: Counts) -> str:
    """Write a configuration as the paper does."""
    if len(counts) == 1:
        return "data parallel"
    return "straight" if set(counts) == {1} else ":".join(map(str, counts))


@cache
def _problem(case: Case, source: str) -> Problem:
    graph: LayerGraph = profile(case.model) if source == PROFILE else load_model(case.model)
    optimizer = "sgd" if case.model == "vgg19" else "adamw"
    workload = default_workload(graph).with_job(
        global_batch=case.batch, precision="fp32", optimizer=optimizer, framework="dapple-2020"
    )
    return Problem(graph=graph, cluster=load_cluster(case.cluster), workload=workload)


@cache
def _costs(case: Case, source: str, size: int) -> tuple[Costs, Machines]:
    """Return what the planner knows of microbatches of so many samples, and the machines."""
    problem = _problem(case, source)
    fleet = fleet_of(problem)
    machines = machines_of(fleet.cluster, fleet.joined(MOST_GROUPS))
    return costs_of(problem, fleet, machines, size), machines


def latency_of(costs: Costs, stages: Sequence[Segment], rounds: int) -> float:
    """Return T of given stages, in seconds; infinite if one of them does not fit."""
    parts: list[tuple[FloatArray, ...]] = []
    for i, (start, stop, before, after) in enumerate(stages):
        load = costs.load(before, after)
        if not load.allowed[start, stop]:
            return math.inf
        if i:
            passed = costs.sent(stages[i - 1].before, before, after)[start]
            parts.append((passed, passed, np.zeros(())))
        parts.append(tuple(item[start, stop] for item in load[:3]))
    return float(latency_s(parts, rounds))


@cache
def found(case: Case, source: str) -> Priced:
    """Return the best plan that the planner finds."""
    options = {"microbatch_size": str(case.microbatch)}
    *_, last = search(_problem(case, source), "dapple", options=options)
    if last.best is None:
        return Priced((), math.inf, math.inf)
    stages = last.best.strategy.job.stages
    size = stages[0].microbatch_samples
    costs, machines = _costs(case, source, size)
    layers = [len(costs.layers(0, node)) for node in range(costs.nodes + 1)]
    cuts = [layers.index(done) for done in accumulate((len(stage.layers) for stage in stages), initial=0)]
    counts = tuple(stage.device_count for stage in stages)
    taken = [_first(machines, devices) for devices in accumulate(counts, initial=0)]
    segments = [Segment(*item) for item in zip(cuts, cuts[1:], taken, taken[1:], strict=False)]
    return Priced(counts, latency_of(costs, segments, case.batch // size), last.best.value)


@cache
def published(case: Case, source: str) -> Priced:
    """Return the published configuration; cuts that are not published have the least T."""
    size = case.batch if len(case.published) == 1 else case.microbatch
    costs, machines = _costs(case, source, size)
    rounds = case.batch // size
    stages = min(_cut(case, costs, machines), key=lambda item: latency_of(costs, item, rounds))
    problem = _problem(case, source)
    placed = [(costs.layers(s.start, s.stop), machines.between(s.before, s.after)) for s in stages]
    report = simulate(
        problem.graph, problem.needed_cluster, problem.workload, strategy_of(problem, placed, size)
    )
    return Priced(case.published, latency_of(costs, stages, rounds), report.step_time_s)


def _cut(case: Case, costs: Costs, machines: Machines) -> Iterator[tuple[Segment, ...]]:
    """Yield ways to cut a model for the published devices: all in two, or the planner's own in more."""
    nothing, count = _first(machines, 0), costs.nodes
    if len(case.published) == 1:
        yield (Segment(0, count, nothing, machines.sizes),)
    elif len(case.published) == 2:
        first = _first(machines, case.published[0])
        for cut in range(1, count):
            yield Segment(0, cut, nothing, first), Segment(cut, count, first, machines.sizes)
    else:
        rounds = case.batch // case.microbatch
        for plan in partitions(costs.load, costs.sent, machines.sizes, count, rounds):
            if plan is not None and len(plan.stages) == len(case.published):
                yield plan.stages


def _first(machines: Machines, devices: int) -> Allocation:
    """Return the allocation of the first devices, machine by machine."""
    ends = accumulate(machines.sizes, initial=0)
    return tuple(min(size, max(0, devices - end)) for size, end in zip(machines.sizes, ends, strict=False))


def _by(ours: float, theirs: float) -> str:
    return f"{100 * (ours / theirs - 1):+.1f} %"


def differences() -> Table:
    """Return published and found configurations with their latency T and their simulated step."""
    rows = []
    for case in CASES:
        for source, words in SOURCES.items():
            theirs, ours = published(case, source), found(case, source)
            seconds = [theirs.latency_s, ours.latency_s, theirs.step_s, ours.step_s]
            by = [_by(ours.latency_s, theirs.latency_s), _by(ours.step_s, theirs.step_s)]
            names = [words_of(item.counts) for item in (theirs, ours)]
            rows.append((case.words, words, *names, *(f"{item:.3f}" for item in seconds), *by))
    return Table(
        title="Published configurations beside those that are found: seconds of a step by the paper's formula"
        " T and simulated, and by how much ours differs. T has no reduction beside the backward; the"
        " simulator has, as its authors' planner has for data parallelism.",
        head=(
            "problem", "seconds of", "published", "found", "T published", "T found", "step published",
            "step found", "T", "step",
        ),
        rows=tuple(rows),
    )  # fmt: skip
