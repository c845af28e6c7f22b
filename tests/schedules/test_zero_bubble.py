"""Zero-bubble schedules: bubbles and memory of the paper's tables 2 and 5."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.actions import Action, Order, Shape
from explorer.schedules import make_order
from tests.schedules.shapes import line
from tests.schedules.slots import simulate


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
    for stage, lane in enumerate(make_order("zb_auto", shape, options={"limit": limit}).lanes):
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
        for action in lane:
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
