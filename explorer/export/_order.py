"""The order of one step of a plan, made by its schedule."""

from __future__ import annotations

from explorer.actions import Order, Shape
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.pricing import Pricer
from explorer.schedules import SCHEDULES, make_order
from explorer.simulation.folding import fold_replicas
from explorer.simulation.one_job import make_shape
from explorer.strategy import JobStrategy
from explorer.tasks.placement import place
from explorer.workload import Job


def order_of(resolved: Resolved) -> tuple[Order, Shape]:
    """Return order and shape of the only job; equal replicas are folded.

    Raises:
        InputError: there are several jobs, or a shape that the schedule cannot order.
        PlanError: a literal order does not cover the shape.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    return order_of_job(resolved.graph, resolved.cluster, job, strategy)


def order_of_job(graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy) -> tuple[Order, Shape]:
    """Return order and shape of a job, as `order_of` does."""
    placement = place(graph, strategy, training=job.training)
    folding = fold_replicas(cluster, placement.skeleton, strategy)
    pricer = None
    if SCHEDULES.get(strategy.schedule).with_options(dict(strategy.options)).reads:
        pricer = Pricer(graph, cluster, job, strategy, placement)
    shape = make_shape(placement, folding, job, pricer)
    options = dict(strategy.options)
    steps = int(options.get("covers", 1))
    return make_order(strategy.schedule, shape, steps=steps, options=options), shape
