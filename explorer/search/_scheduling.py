"""Candidates under the schedule that a problem asks for, laid out anew if its placement is another one."""

from __future__ import annotations

from dataclasses import replace

from explorer.schedules import SCHEDULES, Schedule
from explorer.search.problem import Problem
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_reading import ranks_of, read_degrees
from explorer.strategy import Strategy


def scheduled(problem: Problem, strategy: Strategy) -> Strategy:
    """Return a strategy under the problem's schedule; the strategy itself if none is asked for.

    A uniform strategy whose stages would lie elsewhere is cut and placed anew, on the same devices in the
    same order; any other keeps its stages.

    Raises:
        InputError: the schedule needs another shape, or the model has too few units for its stages.
    """
    job = strategy.job
    if not problem.schedule or (job.schedule, job.options) == (problem.schedule, problem.schedule_options):
        return strategy
    degrees = read_degrees(strategy)
    if degrees is not None:
        wanted = _under(degrees, problem)
        microbatches = problem.job.global_batch // max(1, wanted.microbatch_samples)
        unmet = _schedule(problem).unmet_even(wanted.stages, microbatches, wanted.chunks)
        if unmet:
            raise unmet[0].error()
        if wanted.homes != degrees.homes:
            return wanted.build(problem.graph, problem.needed_cluster, problem.job, devices=ranks_of(job))
    return strategy.with_job(replace(job, schedule=problem.schedule, options=problem.schedule_options))


def _schedule(problem: Problem) -> Schedule:
    """Return the schedule that a problem asks for, under its options."""
    return SCHEDULES.get(problem.schedule).with_options(dict(problem.schedule_options))


def _under(degrees: Degrees, problem: Problem) -> Degrees:
    """Return the degrees under the problem's schedule; chunks stay if its placement is made for several."""
    several = degrees.chunks > 1 and _schedule(problem).placement.several
    return replace(
        degrees,
        schedule=problem.schedule,
        options=problem.schedule_options,
        chunks=degrees.chunks if several else 0,
    )
