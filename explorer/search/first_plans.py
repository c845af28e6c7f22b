"""The plan that a search costs first: found by a rule of thumb, in a fraction of the time that a space takes.

Megatron's rule (Narayanan et al., SC'21, section 5): tensor parallelism within a node, then as many pipeline
positions as it takes to fit, the rest data-parallel; before that plain data parallelism, for models that fit
one device. What fits, and the chunks, microbatch, recomputation and ZeRO level that are fastest, is asked of
the tables (`explorer.tables.Estimator`), so that one simulation mostly does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from operator import itemgetter

import numpy as np

from explorer.base.errors import ExplorerError
from explorer.base.units import scalar_bytes
from explorer.schedules import SCHEDULES
from explorer.search._devices import on_devices
from explorer.search._groups import PREFER
from explorer.search._rates import Rates, room_of
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import tensor_sizes
from explorer.search.problem import Problem
from explorer.strategies.cuts import units
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.strategies.degrees_neighbours import most_replicas
from explorer.strategies.model_axes import TENSOR, splittable
from explorer.tables import DegreesColumns, Estimates, Estimator, StageTable

MOST_SIZES = 6
"""Microbatch sizes that are looked at: powers of two, evenly apart."""
CHUNKS = (1, 2, 4, 8)
"""Chunks of a pipeline position that are looked at."""
LEVELS = (0, 1, 3)
"""ZeRO levels that are looked at."""
MORE = 2
"""Numbers of pipeline positions that are looked at once something fits."""
TRIES = 3
"""Most simulations: estimates of memory are nearly always exact."""


def first_plans(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Cost plans of the rule until one fits; yield None while it looks for them.

    Raises:
        InputError: there is no cluster.
    """
    if problem.rules:
        return  # plans have to be cut anew to respect them
    order = problem.order
    table = StageTable(problem.graph, problem.needed_cluster, problem.job, devices=order)
    estimator = Estimator(problem.graph, problem.needed_cluster, problem.job, table=table)
    found: list[tuple[float, Degrees]] = []
    looked = 0
    for tensor, positions in _shapes(problem):
        yield None
        with suppress(ExplorerError):  # the model may not be laid out like this
            found += _fitting(problem, estimator, tensor, positions)
        looked += bool(found)
        if found and (positions == tensor == 1 or looked == MORE):
            break
    for _, degrees in sorted(found, key=itemgetter(0))[:TRIES]:
        yield None
        with suppress(ExplorerError):
            strategy = degrees.build(problem.graph, problem.needed_cluster, problem.job, devices=order)
            candidate = evaluator.evaluate(strategy, degrees.label + on_devices(order[: degrees.devices]))
            yield candidate
            if candidate is not None and candidate.outcome.feasible:
                return


def _shapes(problem: Problem) -> Iterator[tuple[int, int]]:
    """Yield tensor degrees and pipeline positions, in the order of the rule."""
    graph, order = problem.graph, problem.order
    kind = problem.needed_cluster.kind_of(order[0])
    width = scalar_bytes(problem.job.precision)
    if sum(item.elements for item in graph.parameters) * width <= room_of(problem, kind):
        yield 1, 1
    tensor = max(tensor_sizes(problem.needed_cluster, order)) if TENSOR in splittable(graph) else 1
    positions = 1 if tensor > 1 else 2
    while positions * tensor <= len(order) and positions <= len(units(graph)):
        yield tensor, positions
        positions *= 2


def _fitting(
    problem: Problem, estimator: Estimator, tensor: int, positions: int
) -> Iterator[tuple[float, Degrees]]:
    """Yield the plans of a shape that seem to fit, with guesses of their objective."""
    plans = list(_plans(problem, tensor, positions))
    if not plans:
        return
    found = estimator.of(DegreesColumns.of(plans))
    used = np.array([degrees.devices for degrees in plans])
    guess = Rates(problem, problem.order).least(found.step_s, found.memory_bytes, used)
    for row in np.flatnonzero(_fits(problem, found)).tolist():
        yield float(guess[row]) * (1 + PREFER * plans[row].zero), plans[row]


def _fits(problem: Problem, found: Estimates) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    limit = problem.memory_limit_bytes or np.inf
    return (found.over_bytes <= 0) & (found.memory_bytes <= limit)


def _plans(problem: Problem, tensor: int, positions: int) -> Iterator[Degrees]:
    """Yield the plans of a shape that their schedule can order."""
    batch, training = problem.job.global_batch, problem.job.training
    replicas = most_replicas(problem.device_count // (tensor * positions), batch)
    for chunks in CHUNKS if positions > 1 else (1,):
        if positions * chunks > len(units(problem.graph)):
            return
        plain = Degrees(
            tensor=tensor, stages=positions, replicas=replicas, sequence_parallel=tensor > 1,
            chunks=0 if problem.schedule else chunks, schedule=problem.schedule,
            options=problem.schedule_options,
        )  # fmt: skip
        schedule = SCHEDULES.get(plain.schedule).with_options(dict(plain.options))
        for size in _sizes(batch // replicas):
            if schedule.unmet_even(positions, batch // (replicas * size), plain.chunks):
                continue
            for recompute in RECOMPUTE if training else RECOMPUTE[:1]:
                for zero in LEVELS if training and replicas > 1 else LEVELS[:1]:
                    yield plain.changed(microbatch_size=size, recompute=recompute, zero=zero)
        if problem.schedule:
            return


def _sizes(share: int) -> list[int]:
    """Return powers of two that divide the samples of a replica, some of them if there are many.

    >>> _sizes(24), _sizes(2**14)
    ([1, 2, 4, 8], [1, 8, 64, 512, 4096, 16384])
    """
    most = (share & -share).bit_length()
    apart = -(-most // MOST_SIZES)
    return sorted({2**k for k in (*range(0, most, apart), most - 1)})
