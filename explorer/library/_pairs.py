"""Workers of one device beside workers of two: the shortest step of each, and what they gain in epochs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from explorer.base.errors import ExplorerError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.planners._pieces.hybrid_rule import Convergence, convergence_s
from explorer.planners.dlplacer import plan_of
from explorer.search import Problem
from explorer.search.objectives import epochs_at
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.strategy import Strategy
from explorer.workload import default_workload

SAMPLES = {"inception-v3": 64, "gnmt-8": 128, "biglstm": 128}
"""Samples of a worker."""
USUAL = 64
"""Samples of a worker of other models."""
ROUNDS = (2, 4, 8)
"""Microbatches of a pipeline of several stages."""
NODES = 200
"""Most nodes of the solver's branch and bound."""
Curve = tuple[tuple[int, float], ...]
"""Epochs by global batch."""


class Step(NamedTuple):
    """The shortest step of some workers."""

    seconds: float
    """Seconds of a step, all gradients exchanged."""
    how: str
    """What a worker does: its operators are placed, or it is a pipeline of so many microbatches."""


def shortest_step(model: str, cluster: str, devices: int, members: int) -> Step | None:
    """Return the shortest step of so many devices in workers of some; None if the model does not fit."""
    graph = load_model(model)
    workers = devices // members
    problem = Problem(
        graph=graph, cluster=load_cluster(cluster), max_devices=devices,
        workload=default_workload(graph).with_job(global_batch=SAMPLES.get(model, USUAL) * workers),
    )  # fmt: skip
    found = []
    for strategy, how in _plans(problem, workers, members):
        report = simulate(graph, problem.needed_cluster, problem.workload, strategy)
        if report.feasible:
            found.append(Step(report.step_time_s, how))
    return min(found, default=None)


def _plans(problem: Problem, workers: int, members: int) -> Iterator[tuple[Strategy, str]]:
    """Yield what workers may do, with a word for it."""
    batch = problem.job.global_batch
    placed = plan_of(problem, members, batch, nodes=NODES)
    if placed is not None:
        yield placed, "placed"
    order = [device for k in range(members) for device in problem.order[k::members]]
    for rounds in ROUNDS if members > 1 else ():
        degrees = Degrees(stages=members, replicas=workers, microbatch_size=batch // workers // rounds)
        with suppress(ExplorerError):  # fewer blocks than stages, or fewer samples than microbatches
            strategy = degrees.build(problem.graph, problem.needed_cluster, problem.job, devices=order)
            yield strategy, f"pipeline of {rounds}"


def convergence(model: str, devices: int, steps: Sequence[Step], curve: Curve) -> Convergence:
    """Return how long both kinds of workers take to converge.

    Args:
        model: name of the model.
        devices: number of devices.
        steps: the step of as many single workers, and that of half as many pairs.
        curve: epochs by global batch.
    """
    batch, samples = (
        SAMPLES.get(model, USUAL),
        float(default_workload(load_model(model)).job.samples_per_epoch),
    )
    seconds = [
        convergence_s(step.seconds, samples, batch * workers, epochs_at(curve, batch * workers))
        for step, workers in zip(steps, (devices, devices // 2), strict=True)
    ]
    return Convergence(devices, *seconds)
