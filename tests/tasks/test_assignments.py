"""Orders that say which replica works on what: the stages' rules said explicitly, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.actions import Action, Assignment, Order
from explorer.base.errors import PlanError
from explorer.library._ideal import free_cluster
from explorer.models.synthetic import chain
from explorer.passes.static import run_static
from explorer.pricing import Pricer, price
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.one_job import make_shape
from explorer.strategy import ROUND_ROBIN, Mesh, Stage, single
from explorer.tasks.lower import lower
from explorer.tasks.placement import PlacedStrategy, place
from explorer.tasks.program import JOIN, TRANSFER, Program
from explorer.workload import Job

JOB = Job(global_batch=12, precision="fp32", optimizer="none")
GRAPH = chain([1.0, 2.0], activation_bytes=1.0, saved_bytes=1.0)
CLUSTER = free_cluster(5, latency_s=0.25)


def placed(replicas: tuple[int, int]) -> tuple[PlacedStrategy, Pricer]:
    first, second = replicas
    stages = tuple(
        Stage(layers=(f"layers.{s}",), meshes=(Mesh(devices=tuple(devices)),), replicas=ROUND_ROBIN)
        for s, devices in enumerate((range(first), range(first, first + second)))
    )
    strategy = single(stages=stages, schedule="pipedream").job
    placement = place(GRAPH, strategy)
    return placement, Pricer(GRAPH, CLUSTER, JOB, strategy, placement)


def by_turns(replicas: tuple[int, int]) -> Order:
    """All forwards of a lane, then all backwards, of every replicas-th microbatch."""
    lanes = [
        tuple(Action(op, s, n) for op in "FB" for n in range(r, JOB.global_batch, replicas[s]))
        for s in range(2)
        for r in range(replicas[s])
    ]
    return Order(lanes=tuple(lanes), steps=1)


def explicit(replicas: tuple[int, int]) -> tuple[Assignment, ...]:
    return tuple(
        Assignment(Action(op, s, n), n % replicas[s])
        for op, stages in (("F", (0, 1)), ("B", (1, 0)))
        for n in range(JOB.global_batch)
        for s in stages
    )


def lowered(replicas: tuple[int, int], order: Order) -> tuple[Program, Pricer]:
    placement, pricer = placed(replicas)
    return lower(placement.skeleton, make_shape(placement, UNFOLDED, JOB), order), pricer


@pytest.mark.parametrize("replicas", [(1, 1), (2, 3), (3, 2), (1, 4), (4, 1)])
def test_turns_said_explicitly_are_the_turns_of_the_rule(replicas: tuple[int, int]) -> None:
    order = by_turns(replicas)
    found = []
    for item in (order, replace(order, assignments=explicit(replicas))):
        program, pricer = lowered(replicas, item)
        timing = run_static(program, price(program, pricer).seconds)
        wires = program.kind == TRANSFER
        sent = sorted(zip(program.lane[wires], program.peer[wires], timing.start_s[wires], strict=True))
        lanes = [timing.end_s[tasks].tolist() for tasks in program.programs]
        memory = program.memory
        found.append((lanes, sent, memory.samples.tolist(), memory.lane.tolist()))
    assert found[0] == found[1]


def test_a_replica_may_take_more_than_its_turn() -> None:
    """Three of four microbatches on one replica: the other has one forward and one backward."""
    most = {0: 0, 1: 0, 2: 0, 3: 1}
    calls = [
        Assignment(Action(op, s, n), most[n] if s == 0 else 0)
        for op, stages in (("F", (0, 1)), ("B", (1, 0)))
        for n in most
        for s in stages
    ]
    lanes = [[(op, 0, n) for op in "FB" for n in most if most[n] == r] for r in range(2)]
    lanes.append([(op, 1, n) for op in "FB" for n in most])
    order = Order(
        lanes=tuple(tuple(Action(*item) for item in lane) for lane in lanes),
        steps=1,
        assignments=tuple(calls),
    )
    program, pricer = lowered((2, 1), order)
    timing = run_static(program, price(program, pricer).seconds)
    assert [len(own) for own in program.programs] == [6, 2, 8]
    second = program.programs[2]
    # 1 s and 0.25 s on the wire to the second stage, which then does 4 forwards and 4 backwards in a row
    assert timing.start_s[second[0]] == 1.25
    assert timing.end_s[second[-1]] == pytest.approx(1.25 + 4 * 2 + 4 * 4)


def test_events_and_causes_are_waited_for() -> None:
    """The second microbatch may start only after the first is through, the third at an event, 100 s in."""
    calls = (
        Assignment(Action("F", 0, 0), 0),
        Assignment(Action("F", 0, 1), 1, after=0),
        Assignment(Action("F", 0, 2), 2, event=0),
    )
    order = Order(lanes=(*((Action("F", 0, n),) for n in range(3)), (), ()), steps=1, assignments=calls)
    program, _ = lowered((3, 2), order)
    seconds = np.array([100.0 if slot.kind == JOIN else 1.0 for slot in program.slots])
    seconds[0] = 0.0
    ends = run_static(program, seconds).end_s
    assert [ends[own].tolist() for own in program.programs] == [[1.0], [2.0], [101.0], [], []]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda calls: calls[1:], "reads its microbatch from stage 0, which was not assigned before"),
        (lambda calls: calls[:-1], "stands on lane 0, which was not assigned it"),
        (
            lambda calls: (*calls, Assignment(Action("F", 0, 5), 0)),
            "was assigned to lane 0, which does not run",
        ),
        (lambda calls: (calls[0]._replace(after=3), *calls[1:]), "which never ran before it"),
    ],
)
def test_what_does_not_fit_together_is_refused(changed: object, said: str) -> None:
    lanes = ((Action("F", 0, 0), Action("B", 0, 0)), (Action("F", 1, 0), Action("B", 1, 0)))
    calls = tuple(Assignment(Action(op, s, 0), 0) for op, s in (("F", 0), ("F", 1), ("B", 1), ("B", 0)))
    order = Order(lanes=lanes, steps=1, assignments=changed(calls))  # type: ignore[operator]
    with pytest.raises(PlanError, match=said):
        lowered((1, 1), order)
