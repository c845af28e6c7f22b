"""Moves of learners: legal plans only, whatever is drawn; stages that stay are the same; one budget."""

from __future__ import annotations

import math
import random

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.models.synthetic import chain
from explorer.planners._pieces.moves import MOVES, UNFIT, Meter, cost_of, crossed, moved
from explorer.planners._pieces.stage_plans import Part, Plan, PlanSpace, plan_space
from explorer.search import Problem
from explorer.search.evaluator import Evaluator
from explorer.simulation.simulate import simulate
from explorer.workload import default_workload


def small(*, saved_bytes: float = 2.0**20, devices: int = 4) -> Problem:
    graph = chain([1.0, 1.0, 1.0, 3.0, 2.0, 2.0], saved_bytes=saved_bytes, parameter_bytes=2.0**28)
    workload = default_workload(graph).with_job(global_batch=8)
    return Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=workload, max_devices=devices)


def mixed() -> PlanSpace:
    graph = load_model("gpt2-small")
    workload = default_workload(graph).with_job(global_batch=32)
    return plan_space(Problem(graph=graph, cluster=load_cluster("mixed-v100-a100"), workload=workload))


def costed(meter: Meter, plan: Plan) -> float:
    """Cost of a plan, whatever is yielded meanwhile."""
    steps = meter.cost(plan)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return float(stop.value)


def check(space: PlanSpace, plan: Plan) -> None:
    """All layers once and in order, no device twice, as many replicas as there are samples."""
    stages = space.strategy(plan).job.stages
    names = [layer.name for layer in space.problem.graph.layers]
    assert [name for stage in stages for name in stage.layers] == names
    used = [device for stage in stages for device in stage.meshes[0].devices]
    assert len(used) == len(set(used))
    assert set(used) <= set(space.problem.order)
    for stage, part in zip(stages, plan.parts, strict=True):
        assert stage.meshes[0].replicas * part.tensor == len(stage.meshes[0].devices)
        assert stage.meshes[0].replicas <= plan.microbatch == stage.microbatch_samples
        assert {space.fleet.cluster.kind_of(d).name for d in stage.meshes[0].devices} == {
            space.fleet.kinds[part.kind].name
        }
        assert part.tensor > 1 or not part.apart
    assert space.legal(plan) == plan


def test_draws_moves_and_crossings_are_legal_plans() -> None:
    space, luck, seen = mixed(), random.Random(4), set()
    plans = [*space.first_plans(), *(space.drawn(luck) for _ in range(20))]
    for plan in plans:
        check(space, plan)
        for _ in range(5):
            plan = moved(space, plan, luck)  # noqa: PLW2901 - a walk
            check(space, plan)
            seen.add(plan)
        child = crossed(space, plan, luck.choice(plans), luck)
        if child is not None:
            check(space, child)
    assert len(seen) > 80
    assert {part.kind for plan in seen for part in plan.parts} == {0, 1}
    assert any(part.apart for plan in seen for part in plan.parts)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.__name__.strip("_"))
def test_every_move_leads_somewhere(move) -> None:  # type: ignore[no-untyped-def]
    space, luck, others = mixed(), random.Random(1), 0
    for _ in range(60):
        plan = space.drawn(luck)
        found = move(space, plan, luck)
        legal = space.legal(found) if found is not None else None
        others += legal is not None and legal != plan
    assert others > 2


def test_a_move_keeps_the_stages_that_it_does_not_change() -> None:
    """So what they cost is looked up: they are the same objects."""
    space = mixed()
    parts = (*(Part(stop, 0, 1) for stop in (4, 8, 12)), Part(17, 1, 4, 2))
    plan = space.legal(Plan(parts, 8))
    assert plan is not None
    other = space.legal(plan._replace(parts=(parts[0]._replace(stop=5), *parts[1:])))
    assert other is not None
    one, two = (space.strategy(item).job.stages for item in (plan, other))
    assert [a is b for a, b in zip(one, two, strict=True)] == [False, False, True, True]


def test_stages_are_cut_in_proportion_to_what_they_can_do() -> None:
    space = plan_space(small())
    assert space.cut([1.0, 1.0]) == [4, 6]  # 6 of 10, or 3: the fourth layer takes 3
    assert space.cut([1.0]) == [6]
    assert space.cut([1.0] * 6) == [1, 2, 3, 4, 5, 6]
    assert space.cut([9.0, 1.0]) == [5, 6]


def test_one_budget_counts_new_plans_only() -> None:
    problem, luck = small(), random.Random(0)
    space, evaluator = plan_space(problem), Evaluator(problem=problem)
    meter = Meter(space=space, evaluator=evaluator)
    plans = [space.drawn(luck) for _ in range(6)]
    first = [costed(meter, plan) for plan in plans]
    assert evaluator.evaluations == len(set(plans))
    assert [costed(meter, plan) for plan in plans] == first
    assert evaluator.evaluations == len(set(plans))
    assert meter.asked == 12
    assert evaluator.best is not None
    assert min(first) == pytest.approx(math.log(evaluator.best.value), rel=1e-12)


def test_what_a_change_costs_is_what_a_full_simulation_of_another_copy_gives() -> None:
    """Stages that stayed were priced before; nothing of a fresh model and cluster was."""
    problem, luck = small(), random.Random(2)
    space = plan_space(problem)
    meter = Meter(space=space, evaluator=Evaluator(problem=problem))
    plan = space.first_plans()[0]
    for _ in range(12):
        plan = moved(space, plan, luck)
        cost, fresh = costed(meter, plan), small()
        report = simulate(fresh.graph, fresh.cluster, fresh.workload, plan_space(fresh).strategy(plan))
        if cost < UNFIT:
            assert math.exp(cost) == pytest.approx(report.step_time_s, rel=1e-12)
        else:
            assert not report.feasible


def test_what_does_not_fit_costs_more_the_more_is_missing() -> None:
    problem = small(saved_bytes=2.0**34)
    space, evaluator = plan_space(problem), Evaluator(problem=problem)
    meter = Meter(space=space, evaluator=evaluator)
    whole, half = (Plan((Part(6, 0, 1),), size) for size in (8, 4))
    assert costed(meter, whole) > costed(meter, half) > UNFIT
    assert cost_of(None) == math.inf
