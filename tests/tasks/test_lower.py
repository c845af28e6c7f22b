"""Lowering: random orders finish or are refused with the cycle named; what is sent is what is missing."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Action, Edge, Order, Shape, parse_action
from explorer.base.errors import DeadlockError, PlanError
from explorer.passes import run_static
from explorer.schedules import make_order
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.one_job import make_shape
from explorer.strategy import UpdateChoice
from explorer.tasks.lower import lower
from explorer.tasks.placement import PlacedStrategy, place, split_offsets
from explorer.tasks.program import REDUCE, TRANSFER, Program
from tests.random_plans import Case, even_cases, pipeline, uneven_cases


def prepared(case: Case) -> tuple[PlacedStrategy, Shape, Order]:
    placement = place(case.graph, case.strategy.job)
    shape = make_shape(placement, UNFOLDED, case.workload.job)
    return placement, shape, make_order(case.strategy.job.schedule, shape, steps=1)


def shuffled(data: st.DataObject, lane: tuple[Action, ...]) -> tuple[Action, ...]:
    """The lane in a random order in which each microbatch's B still follows its F, and U comes last."""
    work = [action for action in lane if action.op != "U"]
    order = data.draw(st.permutations(range(len(work))))
    mixed = [work[i] for i in order]
    found: list[Action] = []
    for action in mixed:
        if action in found:
            continue
        if action.op == "B" and (forward := action._replace(op="F")) not in found:
            found.append(forward)
        found.append(action)
    return (*found, *(action for action in lane if action.op == "U"))


@settings(max_examples=60)
@given(case=st.one_of(even_cases("gpipe"), uneven_cases()), data=st.data())
def test_a_random_order_finishes_or_its_cycle_is_named(case: Case, data: st.DataObject) -> None:
    placement, shape, order = prepared(case)
    turns = any(shape.round_robin)
    one = {} if turns else {places: shuffled(data, order.lanes[i]) for i, places in enumerate(shape.lanes)}
    lanes = tuple(one.get(places) or shuffled(data, order.lanes[i]) for i, places in enumerate(shape.lanes))
    try:
        program = lower(placement.skeleton, shape, replace(order, lanes=lanes))
    except DeadlockError as error:
        assert_cycle(error, lanes)
        return
    before = np.stack([program.first, program.second])
    assert np.all(before <= np.arange(program.size))  # topological: every predecessor comes first
    assert run_static(program, np.ones(len(program.slots))).end_s.max(initial=0) > 0


def assert_cycle(error: DeadlockError, lanes: tuple[tuple[Action, ...], ...]) -> None:
    """Every name on the cycle is of an action of the order, and neighbours on a lane wait in its order."""
    known = {str(action) for lane in lanes for action in lane}
    assert len(error.cycle) >= 2
    words = [next(word for word in name.split() if word in known) for name in error.cycle]
    assert len(words) == len(error.cycle)
    assert str(error).count(" -> ") >= len(error.cycle)


def test_a_deadlock_names_both_sides() -> None:
    """Each stage waits for what the other does later."""
    case = pipeline([1.0, 1.0], [1.0, 1.0], microbatches=2)
    placement, shape, order = prepared(case)
    lanes = (
        tuple(map(parse_action, ("0F0", "0B0", "0F1", "0B1", "0U0-1"))),
        tuple(map(parse_action, ("1F1", "1B1", "1F0", "1B0", "1U0-1"))),
    )
    with pytest.raises(DeadlockError) as caught:
        lower(placement.skeleton, shape, replace(order, lanes=lanes))
    text = " ".join(caught.value.cycle)
    for part in ("0B0 on device 0", "0F1 on device 0", "1F1 on device 1", "1F0 on device 1"):
        assert part in text


def test_an_extra_edge_is_kept_and_an_unknown_one_refused() -> None:
    case = pipeline([1.0, 1.0], [1.0, 1.0], microbatches=2)
    placement, shape, order = prepared(case)
    held = Edge(parse_action("1B0"), parse_action("0F1"))
    program = lower(placement.skeleton, shape, replace(order, edges=(held,)))
    timing = run_static(program, np.where(np.arange(len(program.slots)) > 0, 1.0, 0.0))
    at = {str(program.actions[a]): i for i, a in enumerate(program.action.tolist()) if a >= 0}
    assert timing.start_s[at["0F1"]] >= timing.end_s[at["1B0"]]
    with pytest.raises(PlanError, match="names an action that no lane runs"):
        lower(placement.skeleton, shape, replace(order, edges=(Edge(parse_action("1B7"), held.after),)))


@settings(max_examples=60)
@given(case=st.one_of(even_cases("1f1b"), even_cases("layer_parallel"), uneven_cases()))
def test_every_reader_gets_every_sample_once(case: Case) -> None:
    """Over a step, what crosses an edge between different devices is the samples that are not there."""
    placement, shape, order = prepared(case)
    program = lower(placement.skeleton, shape, order)
    sweeps = max(1, len(order.lag)) - sum(1 for i, lag in enumerate(order.lag) if i < lag)
    sections = placement.skeleton.sections
    sent: dict[tuple[int, bool], int] = defaultdict(int)
    for number in program.slot[program.kind == TRANSFER].tolist():
        slot = program.slots[number]
        sent[slot.where, slot.backward] += slot.samples
    batch = case.workload.job.global_batch
    for f, flow in enumerate(placement.skeleton.flows):
        apart = set(sections[flow.source].rows[0]).isdisjoint(sections[flow.targets[0]].rows[0])
        if apart:
            assert sent[f, False] == batch * sweeps
            assert sent[f, True] == (batch * sweeps if flow.gradient else 0)
        else:
            assert sent[f, False] <= batch * sweeps


@settings(max_examples=40)
@given(case=st.one_of(even_cases("1f1b"), uneven_cases()))
def test_every_update_waits_for_all_gradients_it_applies(case: Case) -> None:
    placement, shape, order = prepared(case)
    program = lower(placement.skeleton, shape, order)
    seconds = np.ones(len(program.slots))
    seconds[0] = 0.0
    timing = run_static(program, seconds)
    ops: dict[tuple[str, int], list[int]] = defaultdict(list)
    for i, a in enumerate(program.action.tolist()):
        if a >= 0:
            ops[program.actions[a].op, program.actions[a].stage].append(i)
    for group in placement.skeleton.holders:
        for stage in {placement.skeleton.sections[p.section].stage for p in group.pieces}:
            last = max(timing.end_s[i] for i in ops["B", stage])
            if any(program.skeleton.updates):
                assert all(timing.start_s[i] >= last + 1 for i in ops["U", stage])  # and the reduction


def test_reductions_every_so_many_updates() -> None:
    case = pipeline([1.0], [1.0], microbatches=4, replicas=2, schedule="pipedream")
    counts = {}
    for every in (1, 2, 4):
        updates = (UpdateChoice(rule="periodic", options=(("period", every),)),)
        job = replace(case.strategy.job, updates=updates)
        placement, shape, order = prepared(case._replace(strategy=case.strategy.with_job(job)))
        program = lower(placement.skeleton, shape, order)
        counts[every] = int(np.sum(program.kind == REDUCE))
    assert counts == {1: 4, 2: 2, 4: 1}


@settings(max_examples=60)
@given(
    samples=st.integers(1, 40),
    shares=st.lists(st.floats(0.0, 5.0), min_size=1, max_size=6).filter(lambda found: sum(found) > 0.01),
)
def test_shares_by_largest_remainder(samples: int, shares: list[float]) -> None:
    offsets = split_offsets(samples, len(shares), tuple(shares))
    counts = np.diff(offsets)
    ideal = samples * np.array(shares) / sum(shares)
    assert offsets[0] == 0
    assert offsets[-1] == samples
    assert np.all(np.abs(counts - ideal) < 1 + 1e-6)


def test_equal_skeletons_lower_to_equal_programs() -> None:
    """Another cost, the same structure: what makes re-evaluation cheap."""
    one, other = (pipeline([f, 1.0], [1.0, f], microbatches=3) for f in (1.0, 2.0))
    first, second = prepared(one), prepared(other)
    assert first[0].skeleton == second[0].skeleton
    a, b = (lower(p.skeleton, shape, order) for p, shape, order in (first, second))
    assert isinstance(a, Program)
    assert np.array_equal(a.first, b.first)
    assert np.array_equal(a.second, b.second)
    assert a.slots == b.slots
