"""Zero-bubble schedules: bubbles and memory of the paper's tables 2 and 5."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Action, Order, Shape
from explorer.schedules import make_order
from explorer.schedules.placements import LOOP, VEE
from tests.schedules.every_order import shortest_span
from tests.schedules.shapes import line
from tests.schedules.slots import simulate
from tests.schedules.uneven import Costs, spans_of


def timed(p: int, m: int, seconds: tuple[float, ...], transfer_s: float = 0.0) -> Shape:
    """Equal stages with the seconds of F, I and W."""
    forward, first, second = ((value,) * p for value in seconds)
    return replace(
        line(p, m),
        forward_s=forward,
        input_grad_s=first,
        weight_grad_s=second,
        transfer_s=(transfer_s,) * (p - 1),
    )


def device_span(order: Order, shape: Shape, seconds: dict[str, float]) -> float:
    """Most seconds between the first start and the last end of a lane."""
    return max(lane[-1][1] - lane[0][0] for lane in simulate(order, shape, seconds).spans)


def most_held(lane: tuple[Action, ...]) -> int:
    """Most microbatches between F and W, or a whole B."""
    held = most = 0
    for action in lane:
        held += {"F": 1, "W": -1, "B": -1}.get(action.op, 0)
        most = max(most, held)
    return most


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize(("name", "times"), [("zb_h1", 1), ("zb_h2", 2)])
def test_bubbles_and_memory_of_the_handcrafted_orders(p: int, name: str, times: int) -> None:
    """Table 2: (p - 1)(F + I - W) and (p - 1)(F + I - 2 W) on a device; p and 2 p - 1 microbatches."""
    m, shape = 4 * p, line(p, 4 * p)
    order = make_order(name, shape)
    span = device_span(order, shape, {"F": 1, "I": 1, "W": 1, "B": 2})
    assert span == 3 * m + (p - 1) * (2 - times)
    assert [most_held(lane) for lane in order.lanes] == [times * p - (times - 1)] * p


@pytest.mark.parametrize("limit", [1, 2])
def test_automatic_orders_for_published_seconds(limit: int) -> None:
    """ZB-1p of 1.5B at m = 24 has a bubble rate of 0.1585 (table 5); twice the memory is faster."""
    seconds = (18.522, 18.086, 9.337)
    shape = timed(8, 24, seconds, 0.601)
    spans = [
        device_span(
            make_order("zb_auto", shape, options={"limit": number}),
            replace(shape, transfer_s=()),
            dict(zip("FIW", seconds, strict=True)),
        )
        for number in (1, 2)
    ]
    assert spans[1] < spans[0]


def halves(lane: Sequence[Action]) -> tuple[Action, ...]:
    """The actions with every whole B as the I and W that it does together."""
    return tuple(
        action._replace(op=op) for action in lane for op in ("IW" if action.op == "B" else action.op)
    )


several = st.lists(st.floats(0.1, 2.0), min_size=1, max_size=5)


@given(forward=several, data=st.data(), m=st.integers(1, 9), limit=st.sampled_from([1, 2]))
def test_automatic_orders_are_complete_and_within_memory(
    forward: list[float], data: st.DataObject, m: int, limit: int
) -> None:
    p = len(forward)
    equal = st.lists(st.floats(0.1, 2.0), min_size=p, max_size=p)
    shape = replace(
        line(p, m),
        forward_s=tuple(forward),
        input_grad_s=tuple(data.draw(equal)),
        weight_grad_s=tuple(data.draw(equal)),
        transfer_s=(data.draw(st.floats(0, 1)),) * (p - 1),
    )
    for stage, whole in enumerate(make_order("zb_auto", shape, options={"limit": limit}).lanes):
        lane = halves(whole)
        assert stage == 0 or lane == tuple(whole)
        at = {action: position for position, action in enumerate(lane) if action.op != "U"}
        assert len(at) == 3 * m
        for n in range(m):
            positions = [at[Action(op, stage, n)] for op in "FIW"]
            assert all(before < after for before, after in pairwise(positions))
        held = most = 0.0
        for action in lane:  # half a microbatch waits for W, where nothing else is known
            held += {"F": 1.0, "I": -0.5, "W": -0.5}.get(action.op, 0.0)
            most = max(most, held)
        assert most <= limit * p


@given(m=st.integers(1, 12), room=st.integers(1, 6))
def test_a_cap_of_the_devices_is_kept(m: int, room: int) -> None:
    shape = replace(
        timed(4, m, (1.0, 1.0, 1.0)),
        activation_bytes=(2.0,) * 4,
        waiting_bytes=(1.0,) * 4,
        memory_cap_bytes=(2.0 * room,) * 4,
    )
    for lane in make_order("zb_auto", shape, options={"limit": 0}).lanes:
        held = most = 0.0
        for action in halves(lane):
            held += {"F": 2.0, "I": -1.0, "W": -1.0}.get(action.op, 0.0)
            most = max(most, held)
        assert most <= 2.0 * room


@given(data=st.data(), p=st.integers(1, 6), m=st.integers(1, 12), name=st.sampled_from(["zb_h1", "zb_h2"]))
def test_handcrafted_orders_hold_no_more_than_the_fullest_stage_of_whole_backwards(
    data: st.DataObject, p: int, m: int, name: str
) -> None:
    """In bytes that differ between stages, halves larger than the whole included (gradients wait too).

    A stage behind the first that lets nothing wait still keeps one half from I to W.
    """
    sizes = st.lists(st.floats(0.1, 4.0), min_size=p, max_size=p)
    whole, half = data.draw(sizes), data.draw(sizes)
    shape = replace(line(p, m), activation_bytes=tuple(whole), waiting_bytes=tuple(half))
    under_way = [(p - s) if name == "zb_h1" else 2 * (p - s) - 1 for s in range(p)]
    fullest = max(n * w for n, w in zip(under_way, whole, strict=True))
    least = [(n - 1) * w + max(w, h) for n, w, h in zip(under_way, whole, half, strict=True)]
    for stage, lane in enumerate(make_order(name, shape).lanes):
        held = peak = 0.0
        for action in lane:
            first = {
                "F": whole[stage],
                "I": half[stage] - whole[stage],
                "W": -half[stage],
                "B": -whole[stage],
            }
            held += first.get(action.op, 0.0)
            peak = max(peak, held)
        assert peak <= max(fullest, least[stage] if stage else 0.0) * (1 + 1e-6)


def spans(order: Order, shape: Shape, seconds: Sequence[tuple[float, ...]], transfer_s: float) -> list[float]:
    """Per lane the time from its first start to its last end in one step."""
    stages = [dict(zip("FIW", of, strict=True)) for of in seconds]
    lanes = [halves(tuple(lane)) for lane in order.lanes]
    costs = Costs(
        forward=[of["F"] for of in stages],
        input_grad=[of["I"] for of in stages],
        weight_grad=[of["W"] for of in stages],
        backward=[of["I"] + of["W"] for of in stages],
        transfer=[transfer_s] * (len(stages) - 1),
        after=[0.0] * len(lanes),
    )
    return spans_of(replace(order, lanes=tuple(lanes)), shape, costs)


def uneven(seconds: Sequence[tuple[float, ...]], m: int, transfer_s: float) -> Shape:
    """A shape of stages with the given F, I and W."""
    forward, first, second = (tuple(values) for values in zip(*seconds, strict=True))
    shape = line(len(seconds), m)
    wires = (transfer_s,) * (len(seconds) - 1)
    return replace(
        shape, forward_s=forward, input_grad_s=first, weight_grad_s=second, transfer_s=wires
    )  # fmt: skip


SHORT = [(1, 3), (2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3)]
EQUAL = [(1.0, 1.0, 1.0), (1.0, 1.2, 0.6), (1.0, 0.8, 1.3)]


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize(("p", "m"), SHORT)
def test_orders_are_the_best_of_all(p: int, m: int, limit: int) -> None:
    """Of every order in the memory of p (or 2 p) microbatches from F to W: the shortest, on equal stages."""
    for seconds in EQUAL:
        for transfer_s in (0.0, 0.1):
            stages = [seconds] * p
            best = shortest_span(p, m, limit * p, stages, transfer_s)
            shape = uneven(stages, m, transfer_s)
            found = make_order("zb_auto", shape, options={"limit": limit, "kept": 1.0})
            assert max(spans(found, shape, stages, transfer_s)) == pytest.approx(best)
            if seconds[2] <= min(seconds[:2]) and not transfer_s:
                plain = make_order(("zb_h1", "zb_h2")[limit - 1], shape)
                assert max(spans(plain, shape, stages, transfer_s)) == pytest.approx(best)


three = st.tuples(*[st.sampled_from([0.5, 0.8, 1.0, 1.3])] * 3)


@settings(max_examples=25, deadline=None)
@given(stages=st.lists(three, min_size=2, max_size=3), m=st.integers(1, 2), limit=st.sampled_from([1, 2]))
def test_no_order_is_shorter_than_the_best_of_all(
    stages: list[tuple[float, float, float]], m: int, limit: int
) -> None:
    """On stages of any seconds; the search is within a tenth of the best, mostly there."""
    best = shortest_span(len(stages), m, limit * len(stages), stages)
    shape = uneven(stages, m, 0.0)
    found = max(
        spans(make_order("zb_auto", shape, options={"limit": limit, "kept": 1.0}), shape, stages, 0.0)
    )
    assert best * (1 - 1e-12) <= found <= best * 1.1


@settings(max_examples=40, deadline=None)
@given(
    stages=st.lists(st.tuples(*[st.floats(0.2, 2.0)] * 3), min_size=1, max_size=6),
    m=st.integers(1, 12),
    limit=st.sampled_from([1, 2]),
    transfer_s=st.sampled_from([0.0, 0.1]),
)
def test_automatic_orders_are_never_longer_than_the_handcrafted(
    stages: list[tuple[float, float, float]], m: int, limit: int, transfer_s: float
) -> None:
    shape = uneven(stages, m, transfer_s)
    options = {"limit": limit, "kept": 0.5}
    found, plain = (
        max(spans(make_order(name, shape, options=given_), shape, stages, transfer_s))
        for name, given_ in (("zb_auto", options), (("zb_h1", "zb_h2")[limit - 1], {}))
    )
    assert found <= plain * (1 + 1e-9)


def test_uniform_orders_are_those_of_the_median_stage() -> None:
    stages = [(1.0, 1.2, 0.6), (1.3, 1.0, 0.9), (0.7, 1.1, 0.8), (2.0, 1.5, 0.7)]
    median = (1.3, 1.2, 0.8)  # the upper of two, as the authors' program takes it
    shape, equal = uneven(stages, 8, 0.05), uneven([median] * 4, 8, 0.05)
    found = make_order("zb_auto", shape, options={"uniform": True})
    assert found.lanes == make_order("zb_auto", equal).lanes
    assert found.lanes != make_order("zb_auto", shape).lanes


TABLE_5 = [
    ("1.5B", 24, 0.1585, 0.0433),
    ("1.5B", 32, 0.1242, 0.0039),
    ("1.5B", 64, 0.0674, 0.0026),
    ("14.6B", 48, 0.1397, 0.0066),
]
STAGES = {"1.5B": (8, (18.522, 18.086, 9.337), 0.601), "14.6B": (16, (11.347, 11.248, 8.132), 0.377)}


@pytest.mark.parametrize(("model", "m", "one", "two"), TABLE_5)
def test_bubble_rates_of_table_5(model: str, m: int, one: float, two: float) -> None:
    """(cost - m (F + I + W)) / cost of the paper's seconds, with half of the activations waiting for W."""
    p, seconds, transfer_s = STAGES[model]
    stages = [seconds] * p
    for limit, published in ((1, one), (2, two)):
        shape = uneven(stages, m, transfer_s)
        order = make_order("zb_auto", shape, options={"limit": limit, "kept": 0.5})
        rate = 1 - m * sum(seconds) / max(spans(order, shape, stages, transfer_s))
        assert rate == pytest.approx(published, abs=2e-3)


@pytest.mark.parametrize(("post_validation", "idle"), [(True, 0.0), (False, 3.0)])
def test_updates_that_wait_for_each_other_cost_the_start_skew_in_every_step(
    post_validation: bool, idle: float
) -> None:
    """Without post-validation (p - 1) F a step, which vanishes with it: p = 4, F = I = W."""
    p, m, steps = 4, 12, 3
    shape = uneven([(1.0, 1.0, 1.0)] * p, m, 0.0)
    order = make_order(
        "zb_auto", shape, steps=steps, options={"limit": 2, "post_validation": post_validation}
    )
    timeline = simulate(order, shape, {"B": 2})
    ends = [max(end for _, end, a in lane if a.first_microbatch < m * (steps - 1)) for lane in timeline.spans]
    periods = [lane[-1][1] - end for lane, end in zip(timeline.spans, ends, strict=True)]
    assert max(periods) == 3 * m + idle


@pytest.mark.parametrize("p", [1, 2, 4, 6])
def test_zb_v_has_no_bubble_in_the_memory_of_1f1b(p: int) -> None:
    """At F = I = W, from 2 p - 1 microbatches on; 2 p chunks of half a stage on every lane."""
    for m in (2 * p - 1, 2 * p, 4 * p):
        shape = VEE.shape(VEE.grid(p), m)
        order = make_order("zb_v", shape)
        assert device_span(order, shape, {"F": 1, "I": 1, "W": 1}) == 6 * m
        assert [most_held(lane) for lane in order.lanes] == [2 * p] * p


@pytest.mark.parametrize(("p", "v"), [(2, 2), (4, 2), (4, 3)])
def test_interleaved_zb_holds_as_much_on_every_lane(p: int, v: int) -> None:
    """(v - 1) q + p chunks, of q = p microbatches a round, and a wait of (p - 1) F at F = I = W."""
    shape = LOOP.shape(LOOP.grid(p, v), 4 * p)
    order = make_order("interleaved_zb", shape)
    assert [most_held(lane) for lane in order.lanes] == [v * p] * p
    assert device_span(order, shape, {"F": 1, "I": 1, "W": 1}) == 3 * v * 4 * p + p - 1
