"""PipeDream-2BW's planner: equal stages of repeated blocks, by width, depth, microbatch and recomputation.

Of every combination that fits, by the tables of costs, the seconds of a microbatch at the slowest stage are

    max over stages i of  max( T_i + transfers to i and back,  reduction of i / m )

with m microbatches a step; a device holds two versions of its weights and as many microbatches as there are
stages (Narayanan et al., ICML 2021). The best few are judged as PipeDream-2BW and as PipeDream-Flush.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from explorer.base.registry import Option
from explorer.planners._pieces.fleet import room_bytes
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search._bounds import stage_table
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategies.cuts import units
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_neighbours import most_replicas
from explorer.tables import StageChoice, StageTable, even_bounds

JUDGED = 4
"""Best combinations that are simulated."""
BUFFERED, FLUSH = "pipedream_2bw", "1f1b"


@SEARCHERS.add(
    Searcher(
        name="pipedream_2bw",
        title="Equal stages by depth, width, microbatch and recomputation, with two versions of weights",
        paper="Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021",
        options=(Option(name="asynchronous", default=True, help="also plans that learn from older weights"),),
        space=Space(words="equal stages x replicas x microbatch x recomputation"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def pipedream_2bw(
    problem: Problem, evaluator: Evaluator, *, asynchronous: bool
) -> Iterator[Candidate | None]:
    """Rank every combination by the paper's formulas, and have the best few judged.

    Raises:
        InputError: there is no cluster.
    """
    table = stage_table(problem.graph, problem.needed_cluster, problem.job, problem.order)
    ranked: list[tuple[float, int, Degrees]] = []
    for number, degrees in enumerate(combinations(problem)):
        ranked.append((microbatch_s(problem, table, degrees) / degrees.microbatch_samples, number, degrees))
        yield None
    fitting = sorted(item for item in ranked if np.isfinite(item[0]))[:JUDGED]
    for (_, _, degrees), schedule in product(fitting, (BUFFERED, FLUSH) if asynchronous else (FLUSH,)):
        if schedule == FLUSH or problem.job.training:
            chosen = degrees.changed(schedule=schedule)
            strategy = chosen.build(problem.graph, table.cluster, problem.job, devices=problem.order)
            yield evaluator.evaluate(strategy, chosen.label)


def combinations(problem: Problem) -> list[Degrees]:
    """Return every depth with the most replicas, microbatches, and with and without recomputation."""
    batch, devices = problem.job.global_batch, problem.device_count
    found = []
    for depth in range(1, min(devices, len(units(problem.graph))) + 1):
        width = most_replicas(devices // depth, batch)
        for size, recompute in product(divisors(batch // width), ("none", "full")):
            if batch // (width * size) >= depth:  # the paper's m >= p
                found.append(Degrees(stages=depth, replicas=width, microbatch_size=size, recompute=recompute))
    return found


def microbatch_s(problem: Problem, table: StageTable, degrees: Degrees) -> float:
    """Return the seconds of a microbatch at the slowest stage; infinite if a stage does not fit."""
    bounds = even_bounds(problem.graph, (degrees.stages,))[degrees.stages]
    starts, stops = bounds[:-1], bounds[1:]
    choices = [StageChoice.of(degrees, position) for position in range(degrees.stages)]
    rounds = problem.job.global_batch / degrees.microbatch_samples
    longest = 0.0
    for i, choice in enumerate(choices):
        run = table.run(choice, int(starts[i]), int(stops[i]))
        held, samples = run.memory, degrees.microbatch_size
        peak = held.state_bytes + held.version_bytes + held.buffer_bytes_per_sample * samples
        peak += held.activation_bytes_per_sample * samples * min(degrees.stages, rounds)
        peak += held.recompute_peak_bytes_per_sample * samples
        kind = table.cluster.kind_of(table.devices[choice.first])
        if peak > room_bytes(problem, kind):
            return float("inf")
        seconds = run.seconds
        work = seconds.forward_s + seconds.input_grad_s + seconds.weight_grad_s + seconds.recompute_s
        if i:
            cut = starts[i : i + 1]
            for backward in (False, True):
                work += float(table.crossings.transfer(choices[i - 1], choice, cut, backward=backward)[0])
        reduced = float((run.exchange.reduce_s * run.exchange.reduce_parts).sum())
        longest = max(longest, work, reduced / rounds)
    return longest
