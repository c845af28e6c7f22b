"""The order of one step of a plan, as its schedule makes it."""

from __future__ import annotations

from explorer.actions import Order, Shape
from explorer.plan import Resolved
from explorer.pricing import Pricer
from explorer.schedules import SCHEDULES, make_order
from explorer.simulation.folding import fold_replicas
from explorer.simulation.one_job import make_shape
from explorer.tasks.placement import place


def order_of(resolved: Resolved) -> tuple[Order, Shape]:
    """Order and shape of the only job; equal replicas are folded.

    Raises:
        InputError: several jobs, or a shape that the schedule cannot order.
        PlanError: a literal order that does not cover the shape.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    placement = place(resolved.graph, strategy, training=job.training)
    folding = fold_replicas(resolved.cluster, placement.skeleton, strategy)
    pricer = None
    if SCHEDULES.get(strategy.schedule).reads:
        pricer = Pricer(resolved.graph, resolved.cluster, job, strategy, placement)
    shape = make_shape(placement, folding, job, pricer)
    options = dict(strategy.options)
    steps = int(options.get("covers", 1))
    return make_order(strategy.schedule, shape, steps=steps, options=options), shape
