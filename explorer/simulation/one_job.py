"""One job: from strategy to report, with the structure of known shapes cached.

Tasks and dependencies depend on the skeleton of a strategy alone; a strategy of known structure costs one
pricing of a few hundred slots and one pass over arrays.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from explorer.actions import Order, Shape
from explorer.base.collector import uncollected
from explorer.base.errors import PlanError
from explorer.cluster import Cluster
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.passes.events import run_events
from explorer.passes.overfull import is_overfull
from explorer.passes.static import run_static
from explorer.passes.timing import FloatArray, Timing
from explorer.pricing import Pricer, Prices, ScheduleCosts, price, schedule_costs
from explorer.pricing.input_pipeline import with_inputs_s
from explorer.reads import optimizer_problem
from explorer.schedules import SCHEDULES, make_order
from explorer.simulation.check import check_job
from explorer.simulation.checkpoints import checkpoint_share
from explorer.simulation.dispatch_job import simulate_dispatch
from explorer.simulation.folding import UNFOLDED, Folding, fold_replicas
from explorer.simulation.report import Report, Timeline, build_report, times_at
from explorer.strategies.framework_choices import strategy_under
from explorer.strategy import JobStrategy
from explorer.tasks.lanes import find_lanes
from explorer.tasks.lower import lower
from explorer.tasks.placement import PlacedStrategy, Skeleton, place
from explorer.tasks.program import Program
from explorer.tasks.program_tables import derived
from explorer.tasks.rounds import latest_update, period_of_updates, round_steps
from explorer.workload import Job

MAX_STEPS, MAX_TASKS = 48, 100_000
"""Steps, or tasks, after which an asynchronous schedule counts as not settling."""

_PROGRAMS: OrderedDict[Any, Program] = OrderedDict()
_ALIVE: WeakValueDictionary[Any, Program] = WeakValueDictionary()
"""Programs alive, also those held only by a report: what is shown is never lowered again, whatever was tried
since.
"""
_LOCK = Lock()
"""Lock around changes of the order: a search may be at work on another thread."""
_PROGRAM_LIMIT, _TASK_LIMIT, _FEWEST = 512, 100_000, 2
"""Programs kept, tasks of all of them together (280 bytes each), and programs kept whatever their size."""


def clear_programs() -> None:
    """Forget all lowered programs, so that the next evaluation is cold."""
    with _LOCK:
        _PROGRAMS.clear()
    _ALIVE.clear()


def simulate_job(
    graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy, *, force_events: bool = False
) -> Report:
    """Predict time, memory and traffic of one job's strategy (see `explorer.simulation.simulate`)."""
    framework = load_framework(job.framework)
    cluster, strategy = cluster_under(cluster, framework), strategy_under(strategy, framework, graph, job)
    problems = check_job(graph, cluster, job, strategy)
    if problems:
        raise PlanError(problems)
    placement = place(graph, strategy, training=job.training)
    folding = fold_replicas(cluster, placement.skeleton, strategy)
    pricer = Pricer(graph, cluster, job, strategy, placement)
    entry = SCHEDULES.get(strategy.schedule)
    if entry.dispatch:
        shape = make_shape(placement, UNFOLDED, job)
        inputs_s = input_seconds(job, placement.skeleton)
        return simulate_dispatch(cluster, job, strategy, placement, pricer, shape, inputs_s=inputs_s)
    flush = entry.flushes(dict(strategy.options)) and job.training
    late = latest_update(placement.skeleton)
    drain = _drain_steps(placement.skeleton, job)
    every = period_of_updates(placement.skeleton)
    steps = (2 if not late else 3 + late) * every if flush else every * (_first_steps(drain) + late)
    while True:
        program = get_program(placement, folding, job, strategy, pricer, steps)
        if problem := optimizer_problem(program.order.read_rule, job.optimizer):
            raise PlanError([problem])
        flush = program.order.flush and job.training
        prices = price(program, pricer)
        timing = _run(program, prices, force_events=force_events)
        period, settled = period_of(
            program,
            timing,
            flush=flush and not late,
            drain=0 if flush else drain,
            every=round_steps(program),
        )
        if settled or steps >= MAX_STEPS or program.size > MAX_TASKS:
            break
        steps = min(MAX_STEPS, steps + max(2, steps // 2))
    period = with_inputs_s(job, period, input_seconds(job, placement.skeleton))
    period *= 1 + checkpoint_share(cluster, strategy, program, prices)
    timeline = Timeline(program=program, prices=prices, timing=timing, placement=placement)
    return build_report(
        cluster, job, strategy, timeline,
        folded=program.memo("folded", lambda: folding.stands_for(program.lane_devices)),
        periods=(period, settled),
    )  # fmt: skip


def input_seconds(job: Job, skeleton: Skeleton) -> float:
    """Return the seconds in which one worker of each input pipeline, one for each replica of the first stage,
    makes a step's samples: `with_inputs_s` says what they add.
    """
    first = skeleton.sections[0]
    return job.input_seconds_per_sample * job.global_batch / (first.replicas * len(first.rows))


def _run(program: Program, prices: Prices, *, force_events: bool) -> Timing:
    if force_events:
        return run_events(program, prices.seconds, prices.shares)
    timing = run_static(program, prices.seconds)
    if is_overfull(program, timing, prices.shares):
        return run_events(program, prices.seconds, prices.shares)
    return timing


def _drain_steps(skeleton: Skeleton, job: Job) -> int:
    """Return the steps at the end of an asynchronous run whose gaps are drain, not period."""
    stages = 1 + max(section.stage for section in skeleton.sections)
    fewest = min(job.global_batch // s.microbatch_samples for s in skeleton.sections)
    return 1 + -(-stages // max(1, fewest))


def _first_steps(drain: int) -> int:
    """Return the steps after which an asynchronous run settles if only filling and draining disturb it.

    The pipeline fills for `drain - 1` steps; then come two periods to compare, between three ends of
    steps; then it drains.
    """
    return (drain - 1) + 3 + drain


def make_shape(
    placement: PlacedStrategy,
    folding: Folding,
    job: Job,
    pricer: Pricer | None = None,
    *,
    costs: ScheduleCosts | None = None,
) -> Shape:
    """Return everything the schedule may know; seconds and bytes come from `costs`, or from `pricer`, if
    given.
    """
    sections = placement.skeleton.sections
    lanes = find_lanes(sections, folding.kept)
    stages = 1 + max(section.stage for section in sections)
    by_stage = {section.stage: section for section in reversed(sections)}
    if costs is None and pricer is not None:
        costs = schedule_costs(pricer, lanes, stage_edges(placement.skeleton))
    return Shape(
        stages=stages,
        edges=stage_edges(placement.skeleton),
        lanes=lanes.places,
        microbatches=tuple(job.global_batch // by_stage[s].microbatch_samples for s in range(stages)),
        copies=max(len(section.rows) for section in sections),
        replicas=tuple(by_stage[s].replicas for s in range(stages)),
        round_robin=tuple(by_stage[s].round_robin for s in range(stages)),
        training=job.training,
        **(costs._asdict() | {"tied": tied_stages(placement.skeleton)} if costs else {}),
    )


def tied_stages(skeleton: Skeleton) -> tuple[tuple[int, ...], ...]:
    """Return the groups of stages that exchange gradients of parameters that all of them hold, ascending."""
    sections = skeleton.sections
    groups = ({sections[piece.section].stage for piece in group.pieces} for group in skeleton.holders)
    return tuple(sorted({tuple(sorted(stages)) for stages in groups if len(stages) > 1}))


def stage_edges(skeleton: Skeleton) -> tuple[tuple[int, int], ...]:
    """Return the (from, to) of stages between which something flows, ascending."""
    sections = skeleton.sections
    edges = {
        (sections[flow.source].stage, sections[target].stage)
        for flow in skeleton.flows
        for target in flow.targets
    }
    return tuple(sorted(edge for edge in edges if edge[0] != edge[1]))


def get_program(
    placement: PlacedStrategy,
    folding: Folding,
    job: Job,
    strategy: JobStrategy,
    pricer: Pricer,
    steps: int,
) -> Program:
    """Return the lowered program of a placement, from the cache if its structure is known."""
    options = dict(strategy.options)
    entry = SCHEDULES.get(strategy.schedule).with_options(options)
    costs = None
    if entry.reads:
        lanes = find_lanes(placement.skeleton.sections, folding.kept)
        costs = schedule_costs(pricer, lanes, stage_edges(placement.skeleton))
    key = (
        placement.skeleton, folding.key, strategy.schedule, repr(strategy.options), job.training,
        job.global_batch, steps, costs,
    )  # fmt: skip
    program = _ALIVE.get(key)
    if program is None:
        shape = make_shape(placement, folding, job, costs=costs)
        with uncollected():
            order: Order = make_order(strategy.schedule, shape, steps=steps, options=options)
            program = lower(placement.skeleton, shape, order, folding.kept)
        program = replace(program, kept_replicas=folding.kept, replica_classes=folding.classes)
        _ALIVE[key] = program
    with _LOCK:
        if key in _PROGRAMS:
            _PROGRAMS.move_to_end(key)
        else:
            _PROGRAMS[key] = program
            _keep_few()
    return program


def _keep_few() -> None:
    """Drop the programs unused for longest, but never the last few."""
    tasks = sum(program.size for program in _PROGRAMS.values())
    while len(_PROGRAMS) > _FEWEST and (len(_PROGRAMS) > _PROGRAM_LIMIT or tasks > _TASK_LIMIT):
        tasks -= _PROGRAMS.popitem(last=False)[1].size


def period_of(
    program: Program, timing: Timing, *, flush: bool, drain: int, every: int = 1
) -> tuple[FloatArray, bool]:
    """Return the seconds of a step by lane, between equal points of rounds of steps, and whether they
    settled.

    Args:
        program: the tasks.
        timing: when each runs.
        flush: whether nothing overlaps from step to step, so that every round lasts as long as the second.
        drain: steps at the end that do not count.
        every: steps of a round, after which exchanges repeat.
    """
    ends = times_at(timing.end_s, derived(program).step_last[every - 1 :: every])
    gaps = np.diff(ends, axis=0) / every
    if flush:
        return gaps[0], True
    usable = gaps[: max(1, len(gaps) - -(-drain // every))]
    if len(usable) < 2:
        return usable[-1], False
    scale = max(float(usable[-1].max()), 1e-30)
    settled = bool(np.all(np.abs(usable[-1] - usable[-2]) <= 1e-9 * scale))
    return usable[-1], settled
