"""The array lowering makes the very programs of the plain one, which goes task by task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.actions import Action, Edge, Order, Shape
from explorer.base.errors import DeadlockError, InputError, PlanError
from explorer.schedules import SCHEDULES, make_order
from explorer.simulation import one_job
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.one_job import make_shape
from explorer.strategy import JobStrategy, UpdateChoice
from explorer.tasks.lower import lower
from explorer.tasks.placement import place
from explorer.tasks.program import Program
from explorer.tasks.skeleton import Skeleton
from tests.random_plans import Case, even_cases, uneven_cases
from tests.support.plain_lowering.lower import lower as lower_plainly
from tests.support.same_program import differences

PLANS = sorted((Path(__file__).parents[1] / "plans").glob("*.yaml"))
ORDERED = [schedule.name for schedule in SCHEDULES if not (schedule.dispatch or schedule.literal)]


def lowered(
    skeleton: Skeleton, shape: Shape, order: Order, replicas: tuple[int, ...] | None = None
) -> Program:
    """The program, which is that of the plain lowering; or the error of both."""
    plain, refused = attempt(lower_plainly, skeleton, shape, order, replicas)
    program, error = attempt(lower, skeleton, shape, order, replicas)
    assert type(error) is type(refused)
    if program is None or plain is None:
        assert isinstance(error, DeadlockError) or str(error) == str(refused)  # a cycle may be another one
        assert error is not None
        raise error
    assert differences(program, plain) == []
    return program


def attempt(
    function: Callable[..., Program], *arguments: object
) -> tuple[Program, None] | tuple[None, PlanError]:
    """The program, or why there is none."""
    try:
        return function(*arguments), None
    except PlanError as error:
        return None, error


def prepared(case: Case, steps: int) -> tuple[Skeleton, Shape, Order] | None:
    """What is lowered; None if the schedule cannot order the case."""
    skeleton = place(case.graph, case.strategy.job).skeleton
    shape = make_shape(place(case.graph, case.strategy.job), UNFOLDED, case.workload.job)
    try:
        return skeleton, shape, make_order(case.strategy.job.schedule, shape, steps=steps)
    except InputError:
        return None


def lowers(skeleton: Skeleton, shape: Shape, order: Order) -> bool:
    """Whether both lowerings make the same program; False if both refuse."""
    try:
        lowered(skeleton, shape, order)
    except PlanError:
        return False
    return True


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_of_the_plans(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Program] = []

    def both(*arguments: object) -> Program:
        found.append(lowered(*arguments))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(one_job, "lower", both)
    one_job.clear_programs()
    plan = explorer.load_plan(path)
    explorer.simulate(plan.graphs, plan.cluster, plan.plan.workload, plan.plan.strategy)
    one_job.clear_programs()
    dispatches = any(SCHEDULES.get(job.schedule).dispatch for job in plan.plan.strategy.jobs)
    assert found or dispatches


@pytest.mark.parametrize("name", ORDERED)
@settings(max_examples=25)
@given(data=st.data(), steps=st.integers(1, 3))
def test_of_every_schedule(name: str, data: st.DataObject, steps: int) -> None:
    """Replicas, ZeRO of all levels, recomputation, buckets, DAGs."""
    found = prepared(data.draw(even_cases(name)), steps)
    assert found is None or lowers(*found)


@settings(max_examples=60)
@given(case=uneven_cases(), steps=st.integers(1, 3))
def test_of_uneven_stages(case: Case, steps: int) -> None:
    """Microbatches, shares and turns that differ, and stages on shared devices."""
    found = prepared(case, steps)
    assert found is None or lowers(*found)


GRID = [
    ("1f1b", 3, 4, 2, 1, 2), ("1f1b", 4, 2, 1, 1, 0), ("zb_h1", 4, 6, 2, 1, 1), ("zb_h2", 3, 5, 1, 1, 0),
    ("gpipe", 2, 4, 1, 3, 0), ("gpipe", 3, 2, 2, 2, 2), ("interleaved_1f1b", 2, 4, 1, 2, 0),
    ("interleaved_1f1b", 3, 6, 2, 2, 1), ("interleaved_1f1b", 2, 2, 2, 3, 2),
    ("interleaved_1f1b", 4, 4, 1, 2, 0), ("interleaved_1f1b", 2, 4, 2, 2, 3), ("chimera", 4, 4, 1, 1, 0),
    ("hanayo", 2, 4, 1, 2, 0), ("1f1b_2bp", 3, 4, 2, 1, 1), ("layer_parallel", 3, 2, 1, 1, 0),
]  # fmt: skip


@pytest.mark.parametrize("steps", [2, 3, 4])
@pytest.mark.parametrize(("schedule", "stages", "microbatches", "replicas", "chunks", "zero"), GRID)
def test_of_steps_that_repeat(
    schedule: str, stages: int, microbatches: int, replicas: int, chunks: int, zero: int, steps: int
) -> None:
    """Steps that follow each other, and those that overlap in levels."""
    graph = explorer.load_model("gpt2-small")
    job = explorer.default_workload(graph).with_job(global_batch=2 * microbatches * replicas).job
    strategy = explorer.uniform(
        graph,
        explorer.load_cluster("dgx-a100"),
        job,
        schedule=schedule,
        stages=stages,
        microbatches=microbatches,
        replicas=replicas,
        chunks=chunks,
        zero=zero,
    )
    placement = place(graph, strategy.job)
    shape = make_shape(placement, UNFOLDED, job)
    order = make_order(schedule, shape, steps=steps)
    assert lowers(placement.skeleton, shape, order)


RULES = (
    UpdateChoice(rule="periodic", options=(("period", 2),)),
    UpdateChoice(rule="periodic", options=(("period", 3),)),
    UpdateChoice(rule="local_sgd", options=(("period", 2),)),
    UpdateChoice(rule="stale"),
    UpdateChoice(rule="gossip"),
)


@settings(max_examples=60)
@given(
    case=st.one_of(even_cases("1f1b"), even_cases("pipedream"), even_cases("gpipe")),
    rule=st.sampled_from(RULES),
    steps=st.integers(2, 4),
)
def test_of_update_rules(case: Case, rule: UpdateChoice, steps: int) -> None:
    job: JobStrategy = replace(case.strategy.job, updates=(rule,))
    found = prepared(case._replace(strategy=case.strategy.with_job(job)), steps)
    assert found is not None
    lowers(*found)


def shuffled(data: st.DataObject, lane: Sequence[Action]) -> tuple[Action, ...]:
    """The actions of a lane in any order, some of them lost."""
    order = data.draw(st.permutations(range(len(lane))))
    return tuple(lane[i] for i in order[: data.draw(st.integers(len(lane) - 2, len(lane)))])


@settings(max_examples=60)
@given(case=st.one_of(even_cases("gpipe"), uneven_cases()), data=st.data())
def test_of_orders_that_miss_or_block_something(case: Case, data: st.DataObject) -> None:
    found = prepared(case, 1)
    assert found is not None
    skeleton, shape, order = found
    lowers(skeleton, shape, replace(order, lanes=tuple(shuffled(data, lane) for lane in order.lanes)))


def with_named(data: st.DataObject, lane: Sequence[Action]) -> tuple[Action, ...]:
    """A lane that moves activations, recomputes, gathers and reduces by name at some places."""
    found: list[Action] = []
    moved: set[tuple[int, int, int]] = set()
    sent: list[Action] = []
    named = data.draw(st.booleans())
    for place_, action in enumerate(lane):
        key = (action.stage, action.copy, action.first_microbatch)
        if named and (not place_ or lane[place_ - 1].stage != action.stage) and action.op != "U":
            found.append(action._replace(op="UNSHARD", count=1))
        if sent and data.draw(st.booleans()):
            found.append(sent.pop(0)._replace(op="FREE"))
        if action.op in ("B", "I"):
            sent = [other for other in sent if other._replace(op="F") != action._replace(op="F")]
            if key in moved:
                found.append(action._replace(op="RELOAD"))
            if data.draw(st.booleans()):
                found.append(action._replace(op="RECOMPUTE"))
        if action.op == "U" and named:
            found += [action._replace(op=op, count=1) for op in ("RESHARD", "REDUCE_GRAD")]
        found.append(action)
        if action.op == "F" and data.draw(st.booleans()):
            moved.add(key)
            found.append(action._replace(op="OFFLOAD"))
            sent.append(action)
    return tuple(found)


@settings(max_examples=60)
@given(case=st.one_of(even_cases("1f1b"), even_cases("zb_h1")), data=st.data())
def test_of_actions_by_name(case: Case, data: st.DataObject) -> None:
    found = prepared(case, 2)
    assert found is not None
    skeleton, shape, order = found
    by_role = {id(lane): with_named(data, lane) for lane in order.lanes}
    lowers(skeleton, shape, replace(order, lanes=tuple(by_role[id(lane)] for lane in order.lanes)))


@settings(max_examples=30)
@given(case=st.one_of(even_cases("1f1b"), uneven_cases()), data=st.data())
def test_of_blocking_transfers_and_further_edges(case: Case, data: st.DataObject) -> None:
    found = prepared(case, 2)
    assert found is not None
    skeleton, shape, order = found
    actions = [action for lane in order.lanes for action in lane]
    one, other = (data.draw(st.sampled_from(actions)) for _ in range(2))
    lowers(skeleton, shape, replace(order, edges=(Edge(one, other),)))
    lowers(skeleton, shape, replace(order, blocking=True))


@settings(max_examples=30)
@given(case=st.one_of(even_cases("interleaved_1f1b"), even_cases("interleaved_zb")))
def test_of_one_exchange_for_a_forward_and_the_gradient_behind_it(case: Case) -> None:
    found = prepared(case, 2)
    assert found is not None
    skeleton, shape, order = found
    lowers(skeleton, shape, replace(order, blocking=True, paired=True))


@settings(max_examples=30)
@given(case=even_cases("1f1b"), lag=st.sampled_from([(1, 0), (1, 1, 0), (2, 1)]))
def test_of_sweeps_that_lag(case: Case, lag: tuple[int, ...]) -> None:
    found = prepared(case, 1)
    assert found is not None
    skeleton, shape, order = found
    lanes = tuple(
        tuple(action._replace(sweep=sweep) for sweep in range(len(lag)) for action in lane)
        for lane in order.lanes
    )
    lowers(skeleton, shape, replace(order, lanes=lanes, lag=lag))


def test_of_actions_on_several_microbatches() -> None:
    """Forwards and weight gradients of several at once, read one by one."""
    plan = explorer.load_plan(PLANS[2])
    job = plan.plan.strategy.job
    skeleton = place(plan.graph, job).skeleton
    shape = make_shape(place(plan.graph, job), UNFOLDED, plan.plan.workload.job)
    order = make_order("gpipe", shape, steps=2)
    lanes = []
    for lane in order.lanes:
        pairs = [a for a in lane if a.op == "U" or a.first_microbatch % 2 == 0]
        lanes.append(tuple(a if a.op == "U" else a._replace(count=2) for a in pairs))
    assert lowers(skeleton, shape, replace(order, lanes=tuple(lanes)))
