"""OptPipe beside brute force over all orders, and beside every other schedule under the same cap."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order, Shape
from explorer.base.errors import InputError
from explorer.library._ideal import Ideal
from explorer.schedules import SCHEDULES, _milp, make_order, optpipe
from explorer.schedules._step_bounds import least_s
from explorer.schedules._step_clock import Chain, LaneWork, Work, chain_of, seconds_of
from tests.schedules.shapes import line
from tests.schedules.slots import peak_in_flight, simulate
from tests.schedules.uneven import Costs, step_seconds


def uneven(rng: random.Random, p: int, m: int) -> Shape:
    """A chain whose stages differ in seconds and bytes."""
    return replace(
        line(p, m),
        forward_s=tuple(rng.uniform(0.8, 1.2) for _ in range(p)),
        input_grad_s=tuple(rng.uniform(0.8, 1.5) for _ in range(p)),
        weight_grad_s=tuple(rng.uniform(0.5, 1.2) for _ in range(p)),
        transfer_s=tuple(rng.choice([0.0, 0.1, 0.6, 1.5]) for _ in range(p - 1)),
        activation_bytes=tuple(rng.uniform(0.7, 1.3) for _ in range(p)),
        waiting_bytes=tuple(rng.uniform(0.2, 0.6) for _ in range(p)),
    )


def lanes_of_stage(m: int, *, split: bool, numbered: bool = True) -> Iterator[tuple[Work, ...]]:
    """Every order of a stage; `numbered`: those that take microbatches by number."""
    ops = "FIW" if split else "FB"
    works = [(op, n) for n in range(m) for op in ops]

    def grow(done: tuple[Work, ...]) -> Iterator[tuple[Work, ...]]:
        if len(done) == len(works):
            yield done
        for op, n in works:
            if (op, n) in done or (op != "F" and (ops[ops.index(op) - 1], n) not in done):
                continue
            if numbered and n and (op, n - 1) not in done:
                continue
            yield from grow((*done, (op, n)))

    yield from grow(())


def brute_force(chain: Chain, *, split: bool, numbered: bool = True) -> float:
    """Seconds from step to step of the shortest order that fits."""
    of_stage = [
        [lane for lane in lanes_of_stage(chain.microbatches, split=split, numbered=numbered)
         if chain.peak(stage, lane) <= chain.room[stage] * (1 + 1e-9)]
        for stage in range(chain.stages)
    ]  # fmt: skip
    return min(seconds_of(chain, lanes).period_s for lanes in itertools.product(*of_stage))


def period(shape: Shape, options: dict[str, object]) -> float:
    order = make_order("optpipe", shape, options=options)
    chain = chain_of(shape, int(str(options["limit"])))
    lanes = tuple(optpipe._works(lane, split=bool(options["split"])) for lane in order.lanes)
    assert chain.fits(lanes)
    return seconds_of(chain, lanes).period_s


SIZES = [(1, 3, True), (2, 2, True), (2, 3, True), (3, 2, True), (2, 3, False), (3, 2, False), (3, 3, False)]


@pytest.mark.parametrize(("p", "m", "split"), SIZES)
@pytest.mark.parametrize("limit", [1, 2, 0])
def test_it_is_the_shortest_of_all_orders(p: int, m: int, split: bool, limit: int) -> None:
    shape = uneven(random.Random(f"{p} {m} {split}"), p, m)
    found = period(shape, {"limit": limit, "split": split, "nodes": 10_000})
    assert found == pytest.approx(brute_force(chain_of(shape, limit), split=split), rel=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_tight_cap_is_kept_and_used(seed: int) -> None:
    """Room of each stage for one to two microbatches, where the lists find little."""
    rng = random.Random(seed)
    shape = uneven(rng, 3, 3)
    shape = replace(shape, memory_cap_bytes=tuple(rng.uniform(1.3, 2.8) for _ in range(3)))
    found = period(shape, {"limit": 0, "split": False, "nodes": 10_000})
    assert found == pytest.approx(brute_force(chain_of(shape, 0), split=False), rel=1e-6)


@pytest.mark.parametrize(("p", "split"), [(2, False), (2, True), (3, False)])
def test_nothing_is_lost_by_taking_microbatches_by_number(p: int, split: bool) -> None:
    chain = chain_of(uneven(random.Random(p), p, 2), 1)
    every, by_number = (brute_force(chain, split=split, numbered=numbered) for numbered in (False, True))
    assert every == pytest.approx(by_number)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_its_clock_is_that_of_many_steps(seed: int) -> None:
    """Against a simulation of steps on end."""
    rng = random.Random(seed)
    p, m = rng.randint(1, 4), rng.randint(1, 5)
    shape = uneven(rng, p, m)
    name = rng.choice(["1f1b", "gpipe", "zb_h1", "zb_h2"])
    chain = chain_of(shape, 0)
    twelve = make_order(name, shape, steps=24)
    costs = Costs(
        forward=shape.forward_s, input_grad=shape.input_grad_s, weight_grad=shape.weight_grad_s,
        backward=[i + w for i, w in zip(shape.input_grad_s, shape.weight_grad_s, strict=True)],
        transfer=shape.transfer_s, after=[0.0] * p,
    )  # fmt: skip
    lanes = tuple(
        tuple((a.op, a.first_microbatch) for a in lane if a.op != "U")
        for lane in make_order(name, shape).lanes
    )
    found = seconds_of(chain, lanes)
    assert found.period_s <= step_seconds(twelve, shape, costs) * (1 + 1e-9)
    assert found.period_s == pytest.approx(mean_step(twelve, shape, costs), rel=2e-2)
    assert found.period_s >= least_s(chain, split=True) * (1 - 1e-9)


def mean_step(order: Order, shape: Shape, costs: Costs) -> float:
    """Mean seconds of a step, the first half left out."""
    whole = [step_seconds(replace_steps(order, shape, steps), shape, costs) for steps in range(13, 25)]
    return sum(whole) / len(whole)


def replace_steps(order: Order, shape: Shape, steps: int) -> Order:
    most = steps * shape.microbatches[0]
    lanes = tuple(tuple(a for a in lane if a.first_microbatch < most) for lane in order.lanes)
    return replace(order, lanes=lanes, steps=steps)


def test_lanes_that_wait_for_each_other_take_for_ever() -> None:
    chain = chain_of(line(2, 2), 0)
    lanes: LaneWork = (
        (("F", 0), ("B", 0), ("F", 1), ("B", 1)), (("F", 0), ("F", 1), ("B", 0), ("B", 1)),
    )  # fmt: skip
    assert math.isinf(seconds_of(chain, lanes).period_s)


CASES = [(2, 4, 2.0, 1.0), (3, 6, 2.0, 1.0), (3, 6, 3.0, 1.5), (3, 5, 2.2, 0.9), (4, 4, 2.0, 1.0)]


@pytest.mark.parametrize(("p", "m", "back", "weight"), CASES)
@pytest.mark.parametrize("limit", [1, 2])
def test_no_schedule_is_shorter_in_the_same_memory(
    p: int, m: int, back: float, weight: float, limit: int
) -> None:
    """As `simulate` says, of every schedule with stages as these."""

    def ideal(name: str, **options: object) -> Ideal:
        return Ideal(p=p, m=m, schedule=name, backward_s=back, weight_grad_s=weight, options=options)

    ours = ideal("optpipe", limit=limit).report()
    most = limit * min(p, m)
    assert max(ideal("optpipe", limit=limit).activations(s) for s in range(p)) <= most + 1e-9
    compared = 0
    for item in SCHEDULES:
        if not (item.tried and item.flush) or item.unmet(line(p, m)) or item.name == "layer_parallel":
            continue
        other = ideal(item.name)
        if other.report().device_span_s and max(other.activations(s) for s in range(p)) <= most + 1e-9:
            compared += 1
            assert ours.step_time_s <= other.report().step_time_s * (1 + 1e-9), item.name
    assert compared >= 3


def test_where_the_solver_is_not_asked_the_gap_is_said() -> None:
    shape = uneven(random.Random(1), 3, 4)
    asked = make_order("optpipe", shape, options={"limit": 1}).options
    known = make_order("optpipe", shape, options={"limit": 1, "choices": 0}).options
    assert asked["shortest"]
    assert asked["gap"] <= 1e-6
    assert not known["shortest"]
    assert known["gap"] > 1e-3


def test_the_same_answer_every_time() -> None:
    shape = uneven(random.Random(2), 3, 4)
    first = make_order("optpipe", shape, options={"limit": 1, "nodes": 5})
    optpipe._shortest.cache_clear()
    assert make_order("optpipe", shape, options={"limit": 1, "nodes": 5}) == first


def test_a_solver_that_does_not_answer_leaves_the_best_known_order(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = uneven(random.Random(3), 3, 4)
    known = make_order("optpipe", shape, options={"limit": 1, "choices": 0})
    monkeypatch.setattr(_milp, "GRACE_S", 0.0)
    late = make_order("optpipe", shape, options={"limit": 1, "seconds": 0.01})
    assert late.lanes == known.lanes
    assert late.options["gap"] == pytest.approx(known.options["gap"])
    assert late.options["gap"] > 0


def test_longer_steps_follow_from_the_first() -> None:
    shape = uneven(random.Random(4), 3, 3)
    order = make_order("optpipe", shape, steps=3, options={"limit": 1})
    assert simulate(order, shape).blocked == ()
    assert max(peak_in_flight(tuple(lane)) for lane in order.lanes) <= 4


def test_a_stage_without_room_is_refused() -> None:
    shape = replace(uneven(random.Random(5), 2, 3), memory_cap_bytes=(5.0, 0.4))
    with pytest.raises(InputError, match=r"stage 1: a microbatch holds .* room for 0.4") as caught:
        make_order("optpipe", shape)
    assert caught.value.key == "limit"
    assert make_order("optpipe", shape, options={"limit": 1}).options["gap"] >= 0


def test_what_waits_may_be_more_than_what_is_kept() -> None:
    """The gradients that W reads come on top of the activations."""
    shape = replace(uneven(random.Random(6), 2, 3), waiting_bytes=(1.6, 0.3))
    chain = chain_of(shape, 1)
    assert chain.held[0] == 1.6
    found = period(shape, {"limit": 1, "split": True, "nodes": 10_000})
    assert found == pytest.approx(brute_force(chain, split=True), rel=1e-6)


def test_a_stage_dag_is_refused() -> None:
    shape = replace(line(3, 4), edges=((0, 2), (1, 2)))
    with pytest.raises(InputError, match="chain of stages"):
        make_order("optpipe", shape)
