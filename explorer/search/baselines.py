"""Baselines that a plan is compared with: one device, data parallelism, an even pipeline, or another plan."""

from __future__ import annotations

from dataclasses import replace

from explorer.base.errors import InputError
from explorer.base.trust import Trust
from explorer.plan import Resolved
from explorer.search.microbatches import with_best_microbatch
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.cuts import units
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_neighbours import most_replicas
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy


def predict(resolved: Resolved, strategy: Strategy | None = None) -> Report:
    """Return the report of a resolved plan (or of another strategy for the same inputs)."""
    graphs = resolved.graphs if len(resolved.graphs) > 1 else resolved.graph
    return simulate(graphs, resolved.cluster, resolved.plan.workload, strategy or resolved.plan.strategy)


def baseline_of(resolved: Resolved, name: str, *, trust: Trust = False) -> tuple[str, Report]:
    """Return the description and report of a named baseline.

    `single` is one device with the batch as one replica's microbatches, `dp` plain data parallelism over
    the plan's devices, `even` an even pipeline over them (of stages no smaller than a block, replicated),
    each on devices that neither fail, leave nor join; anything else is a plan file.

    Raises:
        InputError: the name is unknown, or the batch does not divide into the baseline.
    """
    if name not in ("single", "dp", "even"):
        from explorer.plan import load_plan

        return name, predict(load_plan(name, trust=trust))
    resolved = replace(resolved, cluster=resolved.cluster.steady)
    job, devices = resolved.plan.workload.job, len(resolved.plan.strategy.job.devices)
    size = max(stage.microbatch_samples for stage in resolved.plan.strategy.job.stages)
    if name == "single":
        strategy = uniform(resolved.graph, resolved.cluster, job, microbatches=job.global_batch // size)
    elif name == "dp":
        strategy = _data_parallel(resolved, devices)
    else:
        strategy = _even(resolved, devices, size)
    return name, predict(resolved, strategy)


def _data_parallel(resolved: Resolved, devices: int) -> Strategy:
    """Return plain data parallelism with the fastest microbatch size that fits."""
    batch = resolved.plan.workload.job.global_batch
    if batch % devices:
        raise InputError(
            f"a global batch of {batch} cannot be split over {devices} replicas",
            key="--baseline",
            found="dp",
            allowed="single, even, or a plan file",
        )
    return _fastest(resolved, Degrees(replicas=devices))


def _even(resolved: Resolved, devices: int, samples: int) -> Strategy:
    """Return a pipeline of a stage per device, or of a stage per block with replicas if blocks are fewer."""
    job, blocks = resolved.plan.workload.job, len(units(resolved.graph))
    if devices <= blocks:
        count = job.global_batch // samples
        return uniform(resolved.graph, resolved.cluster, job, stages=devices, microbatches=count)
    replicas = most_replicas(devices // blocks, job.global_batch)
    return _fastest(resolved, Degrees(stages=blocks, replicas=replicas))


def _fastest(resolved: Resolved, degrees: Degrees) -> Strategy:
    """Return the strategy of the degrees with their best microbatch size."""
    workload = resolved.plan.workload
    found = with_best_microbatch(resolved.graph, resolved.cluster, workload, degrees)
    return found.build(resolved.graph, resolved.cluster, workload.job)
