"""Strategies of planned stages, with the sizes of microbatches worth trying, thriftier until one fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from explorer.base.errors import InputError
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategies.degrees import RECOMPUTE
from explorer.strategies.shares import shared_by_speed
from explorer.strategy import Mesh, Stage, Strategy, single

Placed = tuple[tuple[int, ...], tuple[int, ...]]
"""(layers by position, devices) of a stage."""


def sizes_worth_trying(problem: Problem, devices: int, *, replicas: int = 1) -> list[int]:
    """Return divisors of the batch that make about 1, 2, 4 and 8 microbatches a device, the largest first.

    A stage on all devices then has a sample on each where that is possible.

    Args:
        problem: the search problem.
        devices: devices, or groups of replicas that always share a microbatch.
        replicas: of a group, among which every size divides evenly.

    Raises:
        InputError: the batch has no such divisor.
    """
    batch = problem.job.global_batch
    sizes = [size for size in divisors(batch) if size % replicas == 0]
    if not sizes:
        raise InputError(
            f"groups of {replicas} devices cannot share a batch of {batch} evenly", key="global_batch",
            found=batch, allowed=f"a multiple of {replicas}, or fewer devices (--max-devices)",
        )  # fmt: skip
    wanted = [batch / (devices * many) for many in (1, 2, 4, 8)]
    return list(dict.fromkeys(min(sizes, key=lambda size: abs(size - ideal)) for ideal in wanted))


def strategy_of(
    problem: Problem,
    stages: Sequence[Placed],
    microbatch: int,
    *,
    schedule: str = "1f1b",
    recompute: str = "none",
) -> Strategy:
    """Return the strategy of stages that split every microbatch over their devices, by speed if they differ.

    Args:
        problem: the search problem.
        stages: layers and devices, in order.
        microbatch: samples of a microbatch.
        schedule: name of the schedule.
        recompute: what stages recompute.
    """
    made = tuple(
        Stage(
            layers=tuple(problem.graph.layers[layer].name for layer in layers),
            meshes=(Mesh(devices=devices),),
            microbatch_samples=microbatch,
            recompute=recompute,
        )
        for layers, devices in stages
    )
    found = single(stages=made, schedule=schedule, job=problem.job.name)
    shared = shared_by_speed(problem.graph, problem.needed_cluster, problem.job.precision, found.job)
    return found.with_job(shared)


def judged(
    problem: Problem, evaluator: Evaluator, strategy: Strategy, label: str
) -> Iterator[Candidate | None]:
    """Cost a strategy, and with ever more recomputed until it fits."""
    choices = RECOMPUTE if problem.job.training else RECOMPUTE[:1]
    for recompute in choices[choices.index(strategy.job.stages[0].recompute) :]:
        job = strategy.job.with_stages(replace(stage, recompute=recompute) for stage in strategy.job.stages)
        words = f", {recompute} recomputation" if recompute != "none" else ""
        found = evaluator.evaluate(strategy.with_job(job), label + words)
        yield found
        if found is None or found.outcome.feasible:
            return
