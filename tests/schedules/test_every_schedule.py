"""What holds for every registered schedule; a new file is covered without a new test."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order, Shape
from explorer.base.errors import ExplorerError, InputError, PlanError
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules.check import coverage
from explorer.schedules.custom import lanes_text
from tests.schedules.shapes import bidirectional, line, looped, placed, shapes_for, workers
from tests.schedules.slots import simulate

NAMES = [entry.name for entry in SCHEDULES if not entry.facts.get("dispatch")]
FACTS = {"flush": bool, "torch_name": str, "placement": str}

BAD: dict[str, list[tuple[Shape, dict[str, Any]]]] = {
    "gpipe": [(line(2, 4), {"recompute": True})],
    "1f1b": [(line(2, 4), {"depth": 3})],
    "interleaved_1f1b": [
        (looped(4, 11, 2), {}),
        (bidirectional(4, 4), {}),
        (Shape(stages=2, edges=((0, 1),), lanes=line(2, 1).lanes, microbatches=(2, 4)), {}),
        # V placement
        (Shape(stages=4, edges=(), lanes=(looped(2, 1, 2).lanes[0], ()), microbatches=(2,) * 4), {}),
    ],
    "chimera": [(line(4, 4), {}), (bidirectional(4, 3), {}), (bidirectional(3, 4), {})],
    "pipedream": [(bidirectional(4, 4), {}), (line(2, 2), {"together": "maybe"})],
    "pipedream_2bw": [(line(4, 3), {}), (bidirectional(4, 4), {})],
    "cyclic": [(workers(3, 4, 3), {}), (workers(3, 3, 3), {"rule": "v3"})],
    "layer_parallel": [(line(3, 3), {"sweeps": -1})],
    "custom": [
        (line(2, 1), {"lanes": "0F0 0B0"}),
        (line(2, 1), {"lanes": "0F0 0B0; 1F0 1X0"}),
        (line(2, 1), {"lanes": "0F0 0B0; 1F0"}),
        (line(2, 1), {"lanes": "0F0 0B0; 1F0 1B0", "read_rule": "newest"}),
        (line(2, 1), {"lanes": "0F0 0B0; 1F0 1B0", "covers": 2}),
        (line(2, 1), {"lanes": "0F0 0B0; 1F0 1B0", "lag": "one"}),
    ],
}


def ordered(name: str, shape: Shape, steps: int) -> Order | None:
    """The order under default options, or None where the schedule says that it needs another shape."""
    options = {}
    if name == "custom":
        options = {"lanes": lanes_text(make_order("1f1b", shape, steps=steps).lanes), "covers": steps}
    try:
        return make_order(name, shape, steps=steps, options=options)
    except InputError as error:
        if name == "pipedream_2bw" and error.key == "microbatches" and error.allowed:
            return None
        raise


@pytest.mark.parametrize("name", NAMES)
def test_registers_its_facts(name: str) -> None:
    entry = SCHEDULES.get(name)
    for fact, kind in FACTS.items():
        assert isinstance(entry.facts[fact], kind)
    assert entry.facts["placement"] in {"line", "looped", "bidirectional", "workers", "any"}
    assert entry.title
    assert entry.paper or name == "custom"


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.data(), steps=st.integers(1, 3))
def test_covers_its_shape_without_deadlock(name: str, data: st.DataObject, steps: int) -> None:
    entry = SCHEDULES.get(name)
    shape = data.draw(shapes_for(entry.facts["placement"]))
    order = ordered(name, shape, steps)
    if order is None:
        return
    assert coverage(order, shape) == []
    assert simulate(order, shape).blocked == ()
    assert order == ordered(name, shape, steps)
    assert (order.flush, order.steps) == (entry.facts["flush"], steps)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_steps_chain_on(name: str, data: st.DataObject) -> None:
    """More steps go on where fewer end: a flush repeats itself, all others keep each stage's forwards."""
    entry = SCHEDULES.get(name)
    shape = data.draw(shapes_for(entry.facts["placement"]))
    one, two = ordered(name, shape, 1), ordered(name, shape, 2)
    if one is None or two is None:
        return
    for places, before, after in zip(shape.lanes, one.lanes, two.lanes, strict=True):
        if entry.facts["flush"]:
            assert after[: len(before)] == before
        for stage in {place.stage for place in places}:
            short, long = (
                [a for a in lane if a.op == "F" and a.stage == stage and a.sweep == 0]
                for lane in (before, after)
            )
            assert long[: len(short)] == short
            assert all(a.first_microbatch >= shape.microbatches[stage] for a in long[len(short) :])


@pytest.mark.parametrize("name", NAMES)
def test_refuses_bad_samples(name: str) -> None:
    for shape, options in BAD[name]:
        with pytest.raises(ExplorerError) as caught:
            make_order(name, shape, steps=1, options=options)
        assert isinstance(caught.value, InputError)
        assert caught.value.allowed or isinstance(caught.value, PlanError)


@pytest.mark.parametrize("name", [n for n in NAMES if "closed_form" in SCHEDULES.get(n).facts])
@pytest.mark.parametrize("seconds", [(1, 1), (1, 2), (3, 5)])
def test_closed_form(name: str, seconds: tuple[float, float]) -> None:
    facts = SCHEDULES.get(name).facts
    kind, formula = facts["closed_form"]
    tried = 0
    for p in (1, 2, 4, 6):
        for m in (1, 2, 4, 6, 8, 12, 24):
            for chunks in (1, 2, 3):
                expected = formula(p, m, *seconds, chunks)
                shape = placed(facts["placement"], p, m, chunks)
                try:
                    order = make_order(name, shape, steps=1)
                except InputError:
                    continue
                if expected is None:
                    continue
                tried += 1
                found = simulate(order, shape, {"F": seconds[0], "B": seconds[1]}).makespan
                if kind == "exact":
                    assert found == pytest.approx(expected, rel=1e-12), (p, m, chunks)
                else:
                    assert found >= expected - 1e-9, (p, m, chunks)
    assert tried >= 8


@pytest.mark.parametrize("steps", [0, -1])
def test_needs_a_step(steps: int) -> None:
    with pytest.raises(InputError, match="1 or more"):
        make_order("gpipe", line(2, 2), steps=steps)


def test_unknown_schedule_names_the_known() -> None:
    with pytest.raises(InputError, match="interleaved_1f1b"):
        make_order("zero", line(2, 2))
