"""Schedules of stage DAGs, wires and ways to send: GraphPipe, SPP, BaPipe, and what is like another."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Shape
from explorer.base.errors import InputError
from explorer.library._ideal import Ideal
from explorer.schedules import SCHEDULES, Pipeline, Schedule, make_order
from explorer.schedules._assumed_costs import costs_of
from explorer.schedules._list_scheduler import list_schedule
from explorer.schedules.check import coverage
from tests.schedules.shapes import dags, line, placed, replicated
from tests.schedules.slots import peak_in_flight, simulate
from tests.schedules.uneven import Costs, step_seconds

COSTS = {"F": 1.0, "B": 2.0}
BRANCHES = [(0, 1), (1, 2), (0, 3), (3, 4), (2, 5), (4, 5)]
"""Two branches of two stages between a first and a last one: four stages on the longest path."""


def branched(m: int) -> Shape:
    return replicated(BRANCHES, [m] * 6, [1] * 6, [False] * 6)


# -- like another -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schedule", [item for item in SCHEDULES if item.variant_of], ids=lambda schedule: schedule.name
)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), steps=st.integers(1, 2))
def test_a_variant_orders_as_what_it_is_like(schedule: Schedule, data: st.DataObject, steps: int) -> None:
    like = SCHEDULES.get(schedule.variant_of)
    assert like.tried
    shape = data.draw((placed(schedule) | dags()).filter(lambda shape: not schedule.unmet(shape)))
    one, other = (make_order(item.name, shape, steps=steps) for item in (schedule, like))
    assert (one.lanes, one.blocking) == (other.lanes, other.blocking)


# -- GraphPipe --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "k"), [(4, 1), (8, 1), (8, 2), (8, 4), (12, 3), (12, 6), (8, 8)])
def test_depth_counts_on_the_longest_path(m: int, k: int) -> None:
    shape = branched(m)
    order = make_order("graphpipe", shape, options={"k": str(k)})
    assert simulate(order, shape, COSTS).makespan == (m + 4 - 1) * 3
    for stage, actions in enumerate(order.lanes):
        assert peak_in_flight(tuple(actions)) == min(m, k * (shape.depth_to_end[stage] + 1))


@pytest.mark.parametrize(("p", "k", "groups"), [*product((1, 2, 4, 6), (1, 2, 3), (1, 2, 5))])
def test_forwards_and_backwards_come_in_groups_of_k(p: int, k: int, groups: int) -> None:
    m = k * groups
    shape = line(p, m)
    order = make_order("graphpipe", shape, options={"k": str(k)})
    assert simulate(order, shape, COSTS).makespan == (m + p - 1) * 3
    for actions in order.lanes:
        ops = [action.op for action in actions if action.op != "U"]
        assert all(len(set(ops[at : at + k])) == 1 for at in range(0, len(ops), k))


@settings(max_examples=80, deadline=None)
@given(shape=dags(), data=st.data(), steps=st.integers(1, 2))
def test_each_stage_has_a_k_of_its_own(shape: Shape, data: st.DataObject, steps: int) -> None:
    shape = replace(shape, round_robin=(False,) * shape.stages)
    sizes = [
        data.draw(st.sampled_from([k for k in (1, 2, 3, 4) if count % k == 0]))
        for count in shape.microbatches
    ]
    order = make_order("graphpipe", shape, steps=steps, options={"k": " ".join(map(str, sizes))})
    assert coverage(order, shape) == []
    assert simulate(order, shape).blocked == ()


@pytest.mark.parametrize(
    ("k", "allowed"),
    [("3", "2 or 4"), ("5", "4 or 8"), ("0", "whole number"), ("1 2", "3 of them"), ("x", "whole number")],
)
def test_k_divides_the_microbatches(k: str, allowed: str) -> None:
    with pytest.raises(InputError) as caught:
        make_order("graphpipe", line(3, 8), options={"k": k})
    assert caught.value.key == "k"
    assert allowed in str(caught.value)


def test_k_needs_replicas_that_split() -> None:
    shape = replicated([], [4], [2], [True])
    with pytest.raises(InputError, match="take turns"):
        make_order("graphpipe", shape, options={"k": "2"})
    assert make_order("graphpipe", shape).lanes == make_order("1f1b", shape).lanes


# -- SPP --------------------------------------------------------------------------------------------------


def uneven_line(seed: int) -> tuple[Shape, Costs]:
    rng = random.Random(seed)
    p, m = rng.randint(1, 6), rng.randint(1, 12)
    forward = [rng.uniform(0.5, 1.5) for _ in range(p)]
    backward = [rng.uniform(0.5, 3.0) for _ in range(p)]
    transfer = [rng.choice([0.0, 0.2, 1.0, 4.0]) * rng.uniform(0.5, 1.0) for _ in range(p - 1)]
    shape = replace(
        line(p, m),
        forward_s=tuple(forward),
        input_grad_s=tuple(backward),
        weight_grad_s=(0.0,) * p,
        transfer_s=tuple(transfer),
    )
    costs = Costs(
        forward=forward, input_grad=backward, weight_grad=[0.0] * p, backward=backward, transfer=transfer,
        after=[0.0] * p,
    )  # fmt: skip
    return shape, costs


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_wires_take_turns_in_its_clock(seed: int) -> None:
    """Its clock is that of a simulation in which transfers wait for their wire."""
    shape, costs = uneven_line(seed)
    made = list_schedule(shape, replace(costs_of(shape, split=False), wires=True))
    assert made.lanes == tuple(lane[:-1] for lane in make_order("spp", shape).lanes)
    twice = make_order("spp", shape, steps=2)
    assert step_seconds(twice, shape, costs) <= made.span_s * (1 + 1e-9) + sum(costs.transfer)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_list_schedule_keeps_its_bound(seed: int) -> None:
    """(1 + (4 p - 4)/m) m C, with C the work of the busiest stage or wire on one microbatch."""
    shape, costs = uneven_line(seed)
    p, m = shape.stages, shape.microbatches[0]
    busiest = max(
        [f + b for f, b in zip(costs.forward, costs.backward, strict=True)] + [2 * x for x in costs.transfer]
    )
    order = make_order("spp", shape)
    slowest = Makespan(order.lanes, shape, costs).seconds()
    assert slowest <= (m + 4 * p - 4) * busiest * (1 + 1e-9)


class Makespan:
    """Seconds of one step from idle, transfers taking turns on their wires."""

    def __init__(self, lanes: object, shape: Shape, costs: Costs) -> None:
        self.lanes, self.shape, self.costs = lanes, shape, costs

    def seconds(self) -> float:
        p, done = self.shape.stages, {}
        free, wire = [0.0] * p, {}
        lanes = [[a for a in lane if a.op != "U"] for lane in self.lanes]  # type: ignore[attr-defined]
        at = [0] * p
        while any(at[s] < len(lanes[s]) for s in range(p)):
            for s in range(p):
                while at[s] < len(lanes[s]):
                    action = lanes[s][at[s]]
                    n, start = action.first_microbatch, free[s]
                    other = s - 1 if action.op == "F" else s + 1
                    if 0 <= other < p:
                        if (action.op, other, n) not in done:
                            break
                        x = self.costs.transfer[min(s, other)]
                        begun = max(done[action.op, other, n], wire.get((other, s), 0.0))
                        wire[other, s] = begun + x
                        start = max(start, begun + x)
                    free[s] = start + self.costs.of(action)
                    done[action.op, s, n] = free[s]
                    at[s] += 1
        return max(free)


def test_memory_holds_the_list_schedule_back() -> None:
    shape, _ = uneven_line(5)
    p, m = 4, 12
    shape = replace(
        line(p, m),
        forward_s=(1.0,) * p,
        input_grad_s=(2.0,) * p,
        weight_grad_s=(0.0,) * p,
        transfer_s=(1.0,) * (p - 1),
        activation_bytes=(1.0,) * p,
    )
    free = make_order("spp", shape)
    capped = make_order("spp", replace(shape, memory_cap_bytes=(5.0,) * p))
    assert max(peak_in_flight(tuple(lane)) for lane in free.lanes) > 5
    assert max(peak_in_flight(tuple(lane)) for lane in capped.lanes) == 5


# -- BaPipe -----------------------------------------------------------------------------------------------

PIPELINES = [
    (p, m, back, x)
    for p, m, back, x in product((2, 3, 4, 6), (4, 8, 12), (1.0, 2.0), (0.1, 0.5, 1.0))
    if m >= p
]


def bapipe(variant: str, p: int, m: int, back: float, x: float) -> Ideal:
    return Ideal(p=p, m=m, schedule="bapipe", backward_s=back, transfer_s=x, options={"variant": variant})


@pytest.mark.parametrize(("p", "m", "back", "x"), PIPELINES)
def test_transfers_cost_what_the_variant_says(p: int, m: int, back: float, x: float) -> None:
    """SO as the paper; SNO less by one transfer, and by m - 1 of them between two stages alone."""
    plain = (m + p - 1) * (1 + back)
    waiting = 2 * (m + p - 2) - 1 if p > 2 else m + 1
    found = {name: bapipe(name, p, m, back, x).report().makespan_s for name in ("1F1B-SO", "1F1B-SNO")}
    assert found == {
        "1F1B-SO": pytest.approx(plain + 2 * (p - 1) * x),
        "1F1B-SNO": pytest.approx(plain + waiting * x),
    }
    assert Ideal(
        p=p, m=m, schedule="1f1b", backward_s=back, transfer_s=x
    ).report().makespan_s == pytest.approx(bapipe("1F1B-AS", p, m, back, x).report().makespan_s)


@pytest.mark.parametrize(("p", "m", "back", "x"), [(*sizes, x) for *sizes, x in PIPELINES if x < 1])
def test_a_forward_and_a_backward_at_once(p: int, m: int, back: float, x: float) -> None:
    """FBP-AS: the closed form, and its microbatches at every stage."""
    spec = SCHEDULES.get("bapipe").with_options({"variant": "FBP-AS"})
    assert spec.closed_form
    even = Pipeline(p=p, m=m, input_grad_s=back, transfer_s=x)
    ideal = bapipe("FBP-AS", p, m, back, x)
    assert ideal.report().makespan_s == pytest.approx(spec.closed_form.of(even))
    assert [ideal.activations(s) for s in range(p)] == [min(m, 2 * (p - s)) for s in range(p)]
    order = make_order("bapipe", line(p, m), options={"variant": "FBP-AS"})
    pairs = [sum(action.op == "OVERLAP" for action in lane) for lane in order.lanes]
    assert pairs == [max(0, m - 2 * (p - s) + 1) for s in range(p)]


def test_a_forward_and_a_backward_at_once_take_a_chain() -> None:
    shape = replace(line(3, 4), edges=((0, 2), (1, 2)))
    with pytest.raises(InputError, match="chain of stages"):
        make_order("bapipe", shape, options={"variant": "FBP-AS"})
    assert make_order("bapipe", shape).lanes == make_order("1f1b", shape).lanes


@pytest.mark.parametrize("variant", ["1F1B-AS", "1F1B-SNO", "1F1B-SO"])
def test_a_variant_keeps_what_it_says(variant: str) -> None:
    p, m = 4, 12
    order = make_order("bapipe", line(p, m), options={"variant": variant})
    ahead = 2 if variant == "1F1B-SO" else 1
    assert [peak_in_flight(tuple(lane)) for lane in order.lanes] == [
        ahead * (p - s - 1) + 1 for s in range(p)
    ]
    assert order.blocking is (variant == "1F1B-SNO")
    assert math.isclose(simulate(order, line(p, m), COSTS).makespan, (m + p - 1) * 3)
