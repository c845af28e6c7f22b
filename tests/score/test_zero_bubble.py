from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.actions import Action
from explorer.models.synthetic import chain
from explorer.schedules.custom import lanes_text
from explorer.score.rows import ScoredCase
from explorer.score.sets.zero_bubble import _transfers_of, with_order
from explorer.score.zero_bubble import Seconds, handmade, zero_bubble
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import Job, Workload

Lanes = tuple[tuple[Action, ...], ...]


def step_s(lanes: Lanes, microbatches: int, f: float, i: float, w: float) -> float:
    stages = len(lanes)
    graph = chain([f] * stages, input_grad_s=i, weight_grad_s=w)
    cluster = _transfers_of(stages, 0.0)
    job = Job(global_batch=microbatches, precision="fp32", optimizer="none")
    strategy = uniform(graph, cluster, job, stages=stages, microbatch_size=1, cuts=list(range(1, stages)))
    return simulate(
        *with_order(ScoredCase(graph, cluster, Workload(jobs=(job,)), strategy), lanes_text(lanes))
    ).step_time_s


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("limit", [1, 2])
def test_bubbles_of_the_handcrafted_orders(stages: int, limit: int) -> None:
    # Table 2 of the paper: (p - 1)(F + I - W) and (p - 1)(F + I - 2 W), for equal F, I and W.
    microbatches = 4 * stages
    bubble = (stages - 1) * (2 - limit)
    assert step_s(handmade(stages, microbatches, limit=limit), microbatches, 1, 1, 1) == pytest.approx(
        3 * microbatches + bubble
    )


@pytest.mark.parametrize("limit", [1, 2])
def test_the_clock_says_what_the_simulator_says(limit: int) -> None:
    seconds = Seconds([1.0] * 4, [1.25] * 4, [0.5] * 4)
    made = zero_bubble(seconds, 12, limit=limit)
    assert step_s(made.lanes, 12, 1.0, 1.25, 0.5) <= made.span_s * (1 + 1e-12)


several = st.lists(st.floats(0.1, 2.0), min_size=2, max_size=5)


@given(several, st.data(), st.integers(1, 9), st.sampled_from([1, 2]))
def test_orders_are_complete_and_within_memory(
    forward: list[float], data: st.DataObject, microbatches: int, limit: int
) -> None:
    size = len(forward)
    equal = st.lists(st.floats(0.1, 2.0), min_size=size, max_size=size)
    seconds = Seconds(forward, data.draw(equal), data.draw(equal), data.draw(st.floats(0, 1)))
    for lanes in (
        zero_bubble(seconds, microbatches, limit=limit).lanes,
        handmade(size, microbatches, limit=limit),
    ):
        for stage, lane in enumerate(lanes):
            place = {action: position for position, action in enumerate(lane)}
            assert len(lane) == len(place) == 3 * microbatches
            for n in range(microbatches):
                times = [place[Action(op, stage, n)] for op in "FIW"]
                assert all(before < after for before, after in pairwise(times))
            held = most = 0
            for action in lane:
                held += {"F": 1, "I": 0, "W": -1}[action.op]
                most = max(most, held)
            # What I frees may be used again: at most half of each microbatch that waits for its W.
            assert most <= 2 * limit * size


def test_more_memory_is_never_slower_here() -> None:
    seconds = Seconds([18.522] * 8, [18.086] * 8, [9.337] * 8, 0.601)
    spans = [zero_bubble(seconds, 24, limit=limit).span_s for limit in (1, 2)]
    assert spans[1] < spans[0]
    assert spans[0] == pytest.approx(24 * (18.522 + 18.086 + 9.337) / (1 - 0.1585), rel=1e-4)
