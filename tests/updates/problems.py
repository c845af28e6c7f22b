"""Problems on which update rules are tried: data parallelism, pipelines, and workers that are numbers."""

from __future__ import annotations

from typing import Any

import explorer
from explorer.cluster import Level
from explorer.models.synthetic import chain
from explorer.simulation.report import Report
from explorer.strategy import Mesh, Stage, Sync, UpdateChoice, single
from explorer.updates import GRADIENTS, UpdateRule
from explorer.workload import Job, Workload
from tests.random_plans import cluster_of

COMPUTE_S = 3.0
"""Forward and backward of one sample of one layer."""
_NETWORK = Level(name="net", kind="ethernet", scope="all", latency_s=0.0, bandwidth_bytes_per_s=100.0)


def data_parallel(
    *updates: UpdateChoice,
    replicas: int = 4,
    parameter_bytes: float = 100.0,
    layers: int = 1,
    zero: int = 0,
    bucket_bytes: float = 0.0,
) -> Report:
    """One microbatch of one sample a replica, on devices joined at 100 bytes/s."""
    stage = Stage(
        layers=tuple(f"layers.{i}" for i in range(layers)),
        meshes=(Mesh(devices=tuple(range(replicas))),),
        microbatch_samples=replicas,
        zero=zero,
    )
    sync = (Sync(parameters=("*",), bucket_bytes=bucket_bytes),) if bucket_bytes else ()
    return _report((stage,), "gpipe", replicas, parameter_bytes, updates, sync)


def pipelined(
    *updates: UpdateChoice, schedule: str = "1f1b", parameter_bytes: float = 100.0, turns: bool = False
) -> Report:
    """Two stages of two replicas, four microbatches of a sample a replica (of one sample in turn)."""
    stages = tuple(
        Stage(
            layers=(f"layers.{s}",),
            meshes=(Mesh(devices=(2 * s, 2 * s + 1)),),
            microbatch_samples=1 if turns else 2,
            replicas="round_robin" if turns else "split",
        )
        for s in range(2)
    )
    return _report(stages, schedule, 8, parameter_bytes, updates, ())


def _report(
    stages: tuple[Stage, ...],
    schedule: str,
    batch: int,
    parameter_bytes: float,
    updates: tuple[UpdateChoice, ...],
    sync: tuple[Sync, ...],
) -> Report:
    count = sum(len(stage.layers) for stage in stages)
    graph = chain([1.0] * count, backward_s=2.0, activation_bytes=0.0, parameter_bytes=parameter_bytes)
    workload = Workload(jobs=(Job(global_batch=batch, precision="fp32", optimizer="none"),))
    strategy = single(stages=stages, schedule=schedule, updates=updates, sync=sync)
    return explorer.simulate(graph, cluster_of((_NETWORK,), per_node=1), workload, strategy)


def minimise(rule: UpdateRule, workers: int, *, updates: int, learning_rate: float = 0.05) -> list[float]:
    """Weights of workers that follow a rule with plain gradient descent; worker i wants i + 1.

    A few lines of their own, with only the rule's arithmetic taken from it.
    """
    weights = [0.0] * workers
    states: list[Any] = [None] * workers
    sent: list[float] = []
    for count in range(1, updates + 1):
        own = [2 * (weights[i] - (i + 1)) for i in range(workers)]
        sent.append(sum(own) / workers)
        exchange = count % rule.period == 0
        for i in range(workers):
            mean = None
            if rule.exchanges == GRADIENTS and exchange and count > rule.delay:
                mean = sent[count - 1 - rule.delay]
            kept = None if rule.exchanges == GRADIENTS and exchange else own[i]
            gradient, states[i] = rule.gradient(weights[i], kept, mean, states[i])
            if gradient is not None:
                weights[i] -= learning_rate * gradient
        if rule.exchanges != GRADIENTS and exchange:
            rounds = rule.partners(workers) if rule.partners else ((tuple(range(workers)),),)
            for members in rounds[(count // rule.period - 1) % len(rounds)] if rounds else ():
                mean = sum(weights[i] for i in members) / len(members)
                for i in members:
                    weights[i] = rule.average(weights[i], None, mean, None)[0]
    return weights
