"""Split backward of every schedule that can be split: its order, 2BP's figures, bounds, and refusals."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Action, Order, Shape
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES, Schedule, make_order
from explorer.schedules.check import coverage
from explorer.schedules.split_backward import _unsplittable
from tests.schedules.shapes import dags, line, shapes_for
from tests.schedules.slots import peak_in_flight, simulate
from tests.schedules.test_estimates import after, batch, bytes_at, drawn, held_bytes, moments_of
from tests.schedules.uneven import step_seconds

SPLIT = SCHEDULES.get("split_backward")
INNER = [item for item in SCHEDULES if not item.costly and not _unsplittable(item.name)]
every = pytest.mark.parametrize("inner", INNER, ids=lambda schedule: schedule.name)


def under(inner: Schedule, *, fill: bool = False, concatenated: bool = False) -> Schedule:
    """The modifier as it is over one schedule."""
    return SPLIT.with_options({"of": inner.name, "fill": fill, "concatenated": concatenated})


def split(
    inner: str, shape: Shape, steps: int = 1, *, fill: bool = False, concatenated: bool = False
) -> Order:
    options = {"of": inner, "fill": fill, "concatenated": concatenated}
    return make_order("split_backward", shape, steps=steps, options=options)


@every
@settings(max_examples=20, deadline=None)
@given(data=st.data(), steps=st.integers(1, 2), fill=st.booleans(), concatenated=st.booleans())
def test_forwards_and_input_gradients_keep_their_order(
    inner: Schedule, data: st.DataObject, steps: int, fill: bool, concatenated: bool
) -> None:
    shape = data.draw(shapes_for(inner))
    order = split(inner.name, shape, steps, fill=fill, concatenated=concatenated)
    assert coverage(order, shape) == []
    assert simulate(order, shape).blocked == ()
    plain = make_order(inner.name, shape, steps=steps)
    for lane, before in zip(order.lanes, plain.lanes, strict=True):
        kept = [a._replace(op="B") if a.op == "I" else a for a in lane if a.op != "W"]
        assert kept == list(before)
        if not fill:
            assert "WI" not in "".join(a.op for a in lane if a.op in "IWU")


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@settings(max_examples=30, deadline=None)
@given(shape=dags(), steps=st.integers(1, 3))
def test_is_what_has_a_name_of_its_own(name: str, shape: Shape, steps: int) -> None:
    assert split(name, shape, steps).lanes == make_order(f"{name}_2bp", shape, steps=steps).lanes


@pytest.mark.parametrize(("p", "m"), [(2, 1), (4, 1), (4, 4), (4, 8), (6, 12)])
def test_figures_of_2bp(p: int, m: int) -> None:
    """F = I = W = 1: naive and GPipe idle 2 (p - 1), 1F1B with gaps filled p - 1 from m = p on."""
    shape = line(p, m)
    for name, fill in product(("gpipe", "1f1b"), (False, True)):
        idle = simulate(split(name, shape, fill=fill), shape).makespan - 3 * m
        assert idle == ((p - 1) if (name, fill) == ("1f1b", True) and m >= p else 2 * (p - 1))
    naive = simulate(split("gpipe", line(p, 1)), line(p, 1)).makespan
    assert (naive - 3) / naive == 2 * (p - 1) / (2 * p + 1)


def test_filling_never_takes_longer_than_the_end() -> None:
    for inner in INNER:
        shape = inner.placement.shape(inner.placement.grid(4), 8)
        if not inner.unmet(shape):
            late, soon = (simulate(split(inner.name, shape, fill=f), shape).makespan for f in (False, True))
            assert soon <= late, inner.name


def test_weight_gradients_in_a_row_are_one() -> None:
    lanes = split("1f1b", line(2, 3), concatenated=True).lanes
    assert " ".join(map(str, lanes[0])) == "0F0 0F1 0I0 0F2 0I1 0I2 0W0-2 0U0-2"
    lanes = split("breadth_first", line(2, 3), concatenated=True).lanes
    assert " ".join(map(str, lanes[1])) == "1F0 1F1 1F2 1I2 1I1 1I0 1W0-2 1U0-2"


def test_what_waits_for_its_weight_gradient_is_kept() -> None:
    """At the end a stage has waited for all m; filled, for no more."""
    for fill in (False, True):
        lanes = split("1f1b", line(4, 8), fill=fill).lanes
        held = [peak_in_flight(tuple(a for a in lane if a.op != "I")) for lane in lanes]
        assert max(held) <= 8
        assert fill or held == [8] * 4


@every
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), fill=st.booleans(), concatenated=st.booleans())
def test_bounds_hold(inner: Schedule, seed: int, fill: bool, concatenated: bool) -> None:
    rng = random.Random(seed)
    schedule = under(inner, fill=fill, concatenated=concatenated)
    shape, costs, p, chunks = drawn(schedule, rng, wild=True)
    order = split(inner.name, shape, 2, fill=fill, concatenated=concatenated)
    step = step_seconds(order, shape, costs)
    options = {"of": inner.name, "fill": fill, "concatenated": concatenated}
    of = replace(batch(schedule, shape, costs, p, chunks), options=options)
    (lower,) = schedule.lower_s(of, after(costs))
    (estimate,) = schedule.estimate_s(of, after(costs))
    assert 0 < lower <= step * (1 + 1e-12)
    assert lower <= estimate * (1 + 1e-9)
    grid = schedule.placement.grid(p, chunks)
    sizes = {(s, c): rng.uniform(0.5, 2.0) for s in range(shape.stages) for c in range(grid.copies)}
    moments = moments_of(schedule, shape, grid)
    for position, held in enumerate(schedule.placement.held(grid)):
        most = max(held_bytes(order, position, sizes))
        for moment in moments:
            if moment.sure:
                assert bytes_at(moment, position, [sizes[pair] for pair in held]) <= most * (1 + 1e-9)


def test_takes_the_placement_and_needs_of_what_it_splits() -> None:
    waves = SPLIT.with_options({"of": "hanayo"})
    assert waves.placement is SCHEDULES.get("hanayo").placement
    with pytest.raises(InputError, match="split_backward with 1 chunk") as caught:
        split("hanayo", line(4, 4))
    assert caught.value.key in ("stages", "chunks")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("zb_h1", "splits its backwards itself"),
        ("split_backward", "no schedule of its own"),
        ("pipedream", "no synchronous schedule"),
        ("custom", "no synchronous schedule"),
        ("layer_parallel", "several sweeps"),
        ("no_such", "no_such"),
    ],
)
def test_refuses_what_cannot_be_split(name: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as caught:
        split(name, line(2, 4))
    assert "1f1b" in str(caught.value)


OPTIONS = [
    ("graphpipe", "k=2", {"k": "2"}),
    ("bapipe", "variant=1F1B-SO", {"variant": "1F1B-SO"}),
    ("bapipe", "variant=1F1B-SNO", {"variant": "1F1B-SNO"}),
    ("1f1b", "blocking=true", {"blocking": True}),
    ("spp", "", {}),
]


@pytest.mark.parametrize(("name", "text", "options"), OPTIONS)
@pytest.mark.parametrize("fill", [False, True])
def test_options_go_to_what_is_split(name: str, text: str, options: dict[str, object], fill: bool) -> None:
    shape = line(3, 6)
    order = make_order("split_backward", shape, options={"of": name, "inner": text, "fill": fill})
    plain = make_order(name, shape, options=options)
    assert order.blocking == plain.blocking
    for lane, before in zip(order.lanes, plain.lanes, strict=True):
        assert [a._replace(op="B") if a.op == "I" else a for a in lane if a.op != "W"] == list(before)
    assert coverage(order, shape) == []


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("1f1b", "blocking", "'blocking' has no value"),
        ("1f1b", "k=2", "1f1b has no option 'k'"),
        ("bapipe", "variant=no", "option variant is 'no'"),
        ("bapipe", "variant=FBP-AS", "runs whole backwards beside forwards"),
    ],
)
def test_options_that_cannot_be_are_refused(name: str, text: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        make_order("split_backward", line(3, 6), options={"of": name, "inner": text})


def test_actions_of_a_forward_pass_alone_stay() -> None:
    shape = line(3, 4, training=False)
    assert split("gpipe", shape, fill=True).lanes == make_order("gpipe", shape).lanes
    assert Action("F", 0, 0) in split("gpipe", shape).lanes[0]
    assert np.isfinite(simulate(split("gpipe", shape), shape).makespan)
