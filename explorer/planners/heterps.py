"""HeterPS: layers scheduled to kinds of devices by a learned policy, stages provisioned from a pool.

A policy decides the kind of each unit; neighbours on one kind are a stage. Provisioning gives stage i, which
takes t_i seconds a sample on one device, the fewest devices that keep up with X samples a second,

    k_i = ceil(X t_i)

X being the floor that is asked for, or else as much as the pool can do. Where the simulated step is slower
than the floor, X is raised by as much. What the plan costs teaches the policy, by REINFORCE (Liu et al.,
2021; their policy is an LSTM, here it is a table of what follows what). On one kind of devices only the
microbatch and recomputation are left to decide.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, groupby

import numpy as np

from explorer.base.registry import Option
from explorer.costs.compute import layer_times
from explorer.planners._pieces.moves import UNFIT, Meter
from explorer.planners._pieces.policy import FloatArray, Policy
from explorer.planners._pieces.stage_plans import Part, Plan, PlanSpace, plan_space
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import ROUNDING, Problem, floor_error
from explorer.strategies.degrees import RECOMPUTE

ROUNDS = (1, 2, 4, 8)
"""Microbatches a stage, among which the policy decides."""
STAGES = 3
"""Stages that a schedule has about, before anything is learned."""
RAISES = 4
"""Times that provisioning aims higher because the simulated step is too slow."""
FLOOR = Option(
    name="samples_per_s", default=0.0, help="least throughput, as the problem's own (--min-throughput)",
    minimum=0.0,
)  # fmt: skip


@SEARCHERS.add(
    Searcher(
        name="heterps",
        title="Layers to kinds of devices by policy gradient, devices provisioned for a throughput",
        paper="Liu et al., HeterPS: Distributed Deep Learning With Reinforcement Learning Based Scheduling"
        " in Heterogeneous Environments, 2021",
        options=(
            FLOOR,
            Option(name="rate", default=0.5, help="step of the gradient", minimum=0.0),
            Option(name="patience", default=40, help="plans without a better one", minimum=1),
        ),
        space=Space(words="kinds of devices, unit by unit"),
        stochastic=True,
        loses="it neither shares layers nor has several stages of neighbours on one kind",
        rigid=True,
        alone=True,
    )
)
def heterps(
    problem: Problem, evaluator: Evaluator, *, samples_per_s: float, rate: float, patience: int
) -> Iterator[Candidate | None]:
    """Let the policy schedule, provision and have judged, until some plans have brought nothing better.

    Raises:
        InputError: there is no cluster, or no plan reaches the floor.
    """
    space, luck = plan_space(problem), np.random.default_rng(problem.seed)
    batch, floor = problem.job.global_batch, max(samples_per_s, problem.min_samples_per_s)
    if floor:
        replace(problem, min_samples_per_s=floor).check_floor()
        evaluator.demand(lambda found: batch / found.outcome.step_time_s >= floor * (1 - ROUNDING))
    meter = Meter(space=space, evaluator=evaluator)
    seconds = unit_seconds(space)
    count, kinds = len(space.units), len(space.counts)
    stay = 1.0 - min((STAGES - 1) / count, 0.5)
    policy = Policy([kinds] * count + [len(RECOMPUTE), len(ROUNDS)], stay=stay, staying=count)
    best, worst, idle = math.inf, 0.0, 0
    while idle < patience:
        actions = policy.drawn(luck)
        cost = yield from judged(meter, seconds, actions, floor)
        worst = max(worst, cost) if cost < UNFIT / 2 else worst
        policy.learn(actions, min(cost, worst + 1.0), rate)  # what does not fit is worse than all that does
        best, idle = (cost, 0) if cost < best else (best, idle + 1)
    if floor and evaluator.best is None:
        fastest = batch / min(meter.step_s.values(), default=math.inf)
        raise floor_error(floor, f"the fastest of {len(meter.known)} plans does {fastest:.4g}")


def judged(
    meter: Meter, seconds: FloatArray, actions: Sequence[int], floor: float
) -> Generator[Candidate | None, None, float]:
    """Provision a schedule, have it judged, and aim higher while it is too slow; return its cost.

    Args:
        meter: judges.
        seconds: (kinds, units) seconds of a sample on one device.
        actions: kind of each unit, then numbers of recomputation and rounds.
        floor: samples a second that are asked for; 0 for as many as possible.
    """
    space, batch = meter.space, meter.space.problem.job.global_batch
    wanted, cost = floor or math.inf, math.inf
    for _ in range(RAISES + 1):
        plan = provisioned(space, seconds, actions, wanted)
        if plan is None and math.isinf(cost):
            plan = provisioned(space, seconds, actions, math.inf)  # as fast as it can: how far it is off
        if plan is None:
            yield None
            return cost
        cost = yield from meter.cost(plan)
        reached = batch / meter.step_s[plan]
        if not floor or reached >= floor * (1 - ROUNDING) or not reached:
            return cost
        cost = max(cost, UNFIT / 2 + math.log(floor / reached))
        wanted *= 1.02 * floor / reached
    return cost


def provisioned(space: PlanSpace, seconds: FloatArray, actions: Sequence[int], rate: float) -> Plan | None:
    """Return the plan with the fewest devices that keep up with a rate; None if the pool has too few.

    Args:
        space: the plans.
        seconds: (kinds, units) seconds of a sample on one device.
        actions: kind of each unit, then numbers of recomputation and rounds.
        rate: samples a second; infinite for as many as the pool can do.
    """
    kinds, count = actions[: len(space.units)], len(space.units)
    runs = [(k, len(list(own))) for k, own in groupby(kinds)]
    stops = list(accumulate(n for _, n in runs))
    starts = [0, *stops[:-1]]
    takes = [
        float(seconds[k, a:b].sum()) / space.fleet.size
        for (k, _), a, b in zip(runs, starts, stops, strict=True)
    ]
    kind_of = [k for k, _ in runs]
    if any(kind_of.count(k) > most for k, most in enumerate(space.counts)):
        return None
    if math.isinf(rate):
        rate = most_of(takes, kind_of, space.counts)
    groups = needed(takes, rate)
    recompute, rounds = RECOMPUTE[actions[count]], ROUNDS[actions[count + 1]]
    parts = [Part(stop, k, n, 1, recompute) for stop, k, n in zip(stops, kind_of, groups, strict=True)]
    return space.sized(parts, space.problem.job.global_batch / (rounds * len(parts)))


def needed(takes: Sequence[float], rate: float) -> list[int]:
    """Return the fewest devices of each stage that do so many samples a second.

    >>> needed([0.5, 2.0], 2.0)
    [1, 4]
    """
    return [max(1, math.ceil(rate * t * (1 - 1e-9))) for t in takes]


def most_of(takes: Sequence[float], kinds: Sequence[int], counts: Sequence[int]) -> float:
    """Return the most samples a second that stages do with all devices of their kinds.

    >>> most_of([1.0, 2.0, 1.0], [0, 0, 1], [4, 1])
    1.0
    """
    groups = [1] * len(takes)
    for k, count in enumerate(counts):
        mine = [i for i, kind in enumerate(kinds) if kind == k]
        for _ in range(count - len(mine) if mine else 0):
            groups[max(mine, key=lambda i: takes[i] / groups[i])] += 1
    return min((n / t for n, t in zip(groups, takes, strict=True) if t), default=0.0)


def unit_seconds(space: PlanSpace) -> FloatArray:
    """Return (kinds, units) seconds of a sample of a microbatch on one device, there and back."""
    job, graph = space.problem.job, space.problem.graph
    samples = max(size for size in space.sizes if size <= 8)
    found = []
    for kind in space.fleet.kinds:
        times = layer_times(graph, kind, samples=samples, precision=job.precision)
        layers = (times if job.training else times[:1]).sum(axis=0) / samples
        found.append([float(layers[a:b].sum()) for a, b in space.units])
    return np.array(found)
