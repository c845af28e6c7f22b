"""Provisioning beside every allocation; the policy's gradient and what it learns; floors out of reach."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.models.synthetic import chain
from explorer.planners._pieces.policy import Policy
from explorer.planners._pieces.stage_plans import Part, Plan, plan_space
from explorer.planners.heterps import most_of, needed
from explorer.search import Problem, search
from explorer.simulation.simulate import simulate
from explorer.workload import default_workload

FLOOR = 0.2


def unlike() -> Problem:
    """Six layers that take 18 s a sample on any device, on eight V100 and eight A100."""
    graph = chain([1.0] * 6, parameter_bytes=2.0**20)
    workload = default_workload(graph).with_job(global_batch=16)
    return Problem(
        graph=graph, cluster=load_cluster("mixed-v100-a100"), workload=workload, objective="cost"
    )  # fmt: skip


def test_provisioning_does_as_much_as_the_best_of_all_allocations_with_as_few_devices() -> None:
    draw = random.Random(3)
    for _ in range(60):
        takes = [draw.uniform(0.2, 3.0) for _ in range(draw.randint(1, 4))]
        counts = [draw.randint(2, 5), draw.randint(2, 5)]
        kinds = [draw.randrange(2) for _ in takes]
        if any(kinds.count(k) > counts[k] for k in (0, 1)):
            continue
        every = [
            groups
            for groups in itertools.product(range(1, 6), repeat=len(takes))
            if all(sum(np.array(groups)[np.array(kinds) == kind]) <= counts[kind] for kind in (0, 1))
        ]
        rates = {groups: min(n / t for n, t in zip(groups, takes, strict=True)) for groups in every}
        most = most_of(takes, kinds, counts)
        assert most == pytest.approx(max(rates.values()), rel=1e-12)
        least = min(sum(groups) for groups, rate in rates.items() if rate >= most * (1 - 1e-9))
        assert sum(needed(takes, most)) == least


def test_a_policy_is_drawn_with_its_probabilities_and_begins_with_few_changes() -> None:
    policy, luck = Policy([3] * 5, stay=0.8, staying=5), np.random.default_rng(0)
    assert policy.probabilities(0, -1) == pytest.approx([1 / 3] * 3)
    assert policy.probabilities(1, 2) == pytest.approx([0.1, 0.1, 0.8])
    drawn = [policy.drawn(luck) for _ in range(2000)]
    stayed = np.mean([one[i] == one[i + 1] for one in drawn for i in range(4)])
    assert stayed == pytest.approx(0.8, abs=0.02)


def test_learning_follows_the_gradient_of_the_logarithm() -> None:
    """Against differences of log P of the decisions in every entry of the table."""
    policy, actions = Policy([2, 3], stay=0.7, staying=1), (1, 2)

    def log_p() -> float:
        chances = (policy.probabilities(0, -1)[1], policy.probabilities(1, 1)[2])
        return sum(math.log(p) for p in chances)

    before, step = policy.theta.copy(), 1e-6
    wanted = np.zeros_like(before)
    for place in np.argwhere(np.isfinite(before)):
        policy.theta[tuple(place)] += step
        up = log_p()
        policy.theta[tuple(place)] -= 2 * step
        wanted[tuple(place)] = (up - log_p()) / (2 * step)
        policy.theta[tuple(place)] = before[tuple(place)]
    policy.mean = 5.0
    policy.learn(actions, 4.0, 0.5)
    moved = np.where(np.isfinite(before), policy.theta - np.where(np.isfinite(before), before, 0.0), 0.0)
    assert moved == pytest.approx(0.5 * 1.0 * wanted, abs=1e-6)
    assert policy.mean == pytest.approx(4.8)


def test_a_policy_learns_what_costs_least() -> None:
    policy, luck = Policy([2, 4]), np.random.default_rng(1)
    for _ in range(300):
        actions = policy.drawn(luck)
        policy.learn(actions, float(actions != (1, 3)) + float(actions[1] != 3), 0.3)
    assert policy.probabilities(0, -1)[1] > 0.8
    assert policy.probabilities(1, 1)[3] > 0.8


def test_what_costs_least_still_reaches_the_floor() -> None:
    given = unlike()
    options = {"samples_per_s": FLOOR, "patience": 15}
    steps = [item for item in search(given, "heterps", options=options) if not item.waiting]
    best = steps[-1].best
    assert best is not None
    assert all(16 / item.best.outcome.step_time_s >= FLOOR for item in steps if item.best is not None)
    assert all(16 / item.outcome.step_time_s >= FLOOR for item in steps[-1].frontier)
    assert 4 <= len(best.strategy.job.devices) <= 8  # 18 s a sample x 0.2 samples a second = 3.6 devices


def lines(problem: Problem) -> list[tuple[float, float]]:
    """Samples a second and dollars of every line of stages on the pool, with plain samples of each size."""
    space = plan_space(problem)
    count, found = len(space.units), dict[Plan, None]()
    for size, stages in itertools.product(space.sizes, range(1, count + 1)):
        for cut in itertools.combinations(range(1, count), stages - 1):
            for shape in itertools.product(itertools.product((0, 1), (1, 2)), repeat=stages):
                parts = (Part(stop, *own) for stop, own in zip((*cut, count), shape, strict=True))
                if (plan := space.legal(Plan(tuple(parts), size))) is not None:
                    found[plan] = None
    reports = [
        simulate(problem.graph, problem.needed_cluster, problem.workload, space.strategy(plan))
        for plan in found
    ]
    return [(8 / report.step_time_s, problem.value(report)) for report in reports]


@pytest.mark.parametrize("seconds", [(1.0, 1.0, 1.0), (1.0, 3.0, 2.0)])
def test_no_cheaper_line_of_a_small_pool_reaches_the_floor(seconds: tuple[float, ...]) -> None:
    """Two V100 and two A100: all of some 120 lines, by a floor of the problem and by the option."""
    graph = chain(seconds, parameter_bytes=2.0**20)
    given = Problem(
        graph=graph, cluster=load_cluster("mixed-v100-a100"), devices=(0, 1, 8, 9), objective="cost",
        workload=default_workload(graph).with_job(global_batch=8),
    )  # fmt: skip
    known = lines(given)
    assert len(known) > 100
    most = max(rate for rate, _ in known)
    for share in (0.2, 0.5, 0.8):
        floor = share * most
        cheapest = min(cost for rate, cost in known if rate >= floor)
        for problem, options in (
            (replace(given, min_samples_per_s=floor), {}),
            (given, {"samples_per_s": floor}),
        ):
            *_, last = search(problem, "heterps", options={"patience": 30, **options})
            assert last.best is not None
            assert 8 / last.best.outcome.step_time_s >= floor * (1 - 1e-9)
            assert last.best.value == pytest.approx(cheapest, rel=1e-5)
    with pytest.raises(InputError, match="does not reach"):
        list(search(replace(given, min_samples_per_s=1.01 * most), "heterps", options={"patience": 5}))


def test_a_pool_that_cannot_reach_the_floor_is_said_in_one_line() -> None:
    graph = load_model("gpt2-small")
    given = Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=default_workload(graph))
    for problem, floor, words in ((given, 1e9, "at their peak"), (unlike(), 2.0, "the fastest of")):
        with pytest.raises(InputError, match=words) as caught:
            list(search(problem, "heterps", options={"samples_per_s": floor, "patience": 3}))
        assert (caught.value.key, caught.value.found) == ("min_samples_per_s", floor)
        assert "\n" not in str(caught.value)
