"""Bounds and estimates of steps, for every schedule: beside its own order, on pipelines of uneven stages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby, pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, Schedule, make_order
from explorer.schedules.pipelines import FloatArray, InFlight, Pipelines, never_stays, stages_by_turn
from explorer.schedules.placements import Grid
from tests.schedules.uneven import Costs, step_seconds

every = pytest.mark.parametrize(
    "schedule",
    [item for item in SCHEDULES if not item.dispatch and not item.literal],
    ids=lambda schedule: schedule.name,
)
ARRAYS = (
    "microbatches", "forward_s", "backward_s", "input_grad_s", "weight_grad_s", "transfer_s",
)  # fmt: skip
MEDIAN_ERROR = {
    "hanayo": 0.06,
    "chimera": 0.03,
    "chimera_4": 0.01,
    "dualpipe": 0.01,
    "dualpipe_v": 0.03,
    "bitpipe": 0.01,
    "zb_auto": 0.03,
    "layer_parallel": 0.03,
    "zb_v": 0.03,
    "interleaved_zb": 0.03,
}
"""Where the estimate is no path of the order; else 0.5 %."""


def drawn(schedule: Schedule, rng: random.Random, *, wild: bool) -> tuple[Shape, Costs, int, int]:
    """A shape that meets the needs of a schedule, its costs, and its positions and chunks."""
    while True:
        p, m = rng.randint(1, 3 if schedule.costly else 6), rng.randint(1, 4 if schedule.costly else 16)
        chunks = rng.choice([None, None, 2, 3, 4]) if schedule.placement.several else None
        grid = schedule.placement.grid(p, chunks)
        shape = schedule.placement.shape(grid, m)
        if not schedule.unmet(shape):
            break
    spread = 0.4 if wild else 0.0
    forward = [1 + spread * rng.uniform(-1, 1) for _ in range(shape.stages)]
    forward[-1] *= rng.uniform(1, 1.4)  # the loss
    weight = [f * (0.9 - spread * rng.random()) for f in forward]
    both = [f * (1.1 + spread * rng.random()) for f in forward]
    hidden = rng.choice([0.0, 0.1])  # of a whole backward
    seconds = rng.choice([0.0, 0.01, 0.05, 0.3, 2.0] if wild else [0.0, 0.01, 0.05])
    home = [schedule.placement.position(stage, 0, grid) for stage in range(shape.stages)]
    transfer = [seconds * (a != b) for a, b in pairwise(home)]
    costs = Costs(
        forward=forward,
        input_grad=both,
        weight_grad=weight,
        backward=[i + w - hidden * f for i, w, f in zip(both, weight, forward, strict=True)],
        transfer=transfer,
        after=[rng.choice([0.0, 1.0, 2.0])] * p if schedule.flush else [0.0] * p,
    )
    return priced(schedule, shape, costs), costs, p, grid.chunks


def priced(schedule: Schedule, shape: Shape, costs: Costs) -> Shape:
    """The shape with what its schedule reads of it."""
    given_: dict[str, tuple[float, ...]] = {}
    if "seconds" in schedule.reads:
        given_ = {
            "forward_s": tuple(costs.forward),
            "input_grad_s": tuple(costs.input_grad),
            "weight_grad_s": tuple(costs.weight_grad),
            "transfer_s": tuple(costs.transfer),
        }
    if "memory" in schedule.reads:
        given_["activation_bytes"] = tuple(costs.forward)
        given_["waiting_bytes"] = tuple(0.5 * size for size in costs.forward)
    return replace(shape, **given_)


def batch(schedule: Schedule, shape: Shape, costs: Costs, p: int, chunks: int, times: int = 1) -> Pipelines:
    """The same pipeline so many times, as arrays."""

    def rows(values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        return np.repeat(np.array(values, dtype=np.float64)[:, None], times, axis=1)

    return Pipelines(
        placement=schedule.placement,
        grid=schedule.placement.grid(p, chunks),
        microbatches=np.full(times, float(shape.microbatches[0])),
        forward_s=rows(costs.forward),
        backward_s=rows(costs.backward),
        input_grad_s=rows(costs.input_grad),
        weight_grad_s=rows(costs.weight_grad),
        transfer_s=rows(costs.transfer).reshape(-1, times),
    )


def after(costs: Costs, times: int = 1) -> FloatArray:
    return np.repeat(np.array(costs.after, dtype=np.float64)[:, None], times, axis=1)


def ordered(schedule: Schedule, shape: Shape) -> Order:
    """Two steps, or so many that one in the middle is neither filling nor draining."""
    filling = -(-shape.stages // shape.microbatches[0])
    return make_order(schedule.name, shape, steps=2 if schedule.flush else 6 + 6 * filling)


@every
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bound_is_never_above_the_step(schedule: Schedule, seed: int) -> None:
    shape, costs, p, chunks = drawn(schedule, random.Random(seed), wild=True)
    step = step_seconds(ordered(schedule, shape), shape, costs)
    (lower,) = schedule.lower_s(batch(schedule, shape, costs, p, chunks), after(costs))
    assert 0 < lower <= step * (1 + 1e-12)


@every
def test_estimate_is_close(schedule: Schedule) -> None:
    """On stages like those of a model, and transfers that are a small part of them."""
    rng, errors = random.Random(7), []
    for _ in range(60):
        shape, costs, p, chunks = drawn(schedule, rng, wild=False)
        step = step_seconds(ordered(schedule, shape), shape, costs)
        (estimate,) = schedule.estimate_s(batch(schedule, shape, costs, p, chunks), after(costs))
        errors.append(abs(estimate / step - 1))
    assert np.median(errors) <= MEDIAN_ERROR.get(schedule.name, 0.005)
    assert np.quantile(errors, 0.9) <= 0.2


@every
def test_pipelines_of_a_batch_are_apart(schedule: Schedule) -> None:
    shape, costs, p, chunks = drawn(schedule, random.Random(3), wild=True)
    other = replace(costs, forward=[2 * seconds for seconds in costs.forward])
    one, two = (batch(schedule, shape, item, p, chunks) for item in (costs, other))
    both = replace(
        one,
        **{name: np.concatenate([getattr(one, name), getattr(two, name)], axis=-1) for name in ARRAYS},
    )
    for answer in (schedule.lower_s, schedule.estimate_s):
        alone = [*answer(one, after(costs)), *answer(two, after(costs))]
        assert answer(both, after(costs, 2)).tolist() == alone
        assert alone[1] > alone[0]


def moments_of(schedule: Schedule, shape: Shape, grid: Grid) -> tuple[InFlight, ...]:
    m = np.array([float(shape.microbatches[0])])
    return schedule.in_flight(schedule.placement, grid, m, np.arange(grid.positions))


# -- memory ---------------------------------------------------------------------------------------------


def held_bytes(order: Order, lane: int, saved: dict[tuple[int, int], float]) -> Iterator[float]:
    """Bytes on a lane after every action; half of them wait for W if a backward is split."""
    level = 0.0
    for action in order.lanes[lane]:
        size = saved.get((action.stage, action.copy), 0.0)
        level += {"F": 1.0, "B": -1.0, "I": -0.5, "W": -0.5}.get(action.op, 0.0) * size * action.count
        yield level


@every
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_surely_in_flight_is(schedule: Schedule, seed: int) -> None:
    rng = random.Random(seed)
    shape, _, p, chunks = drawn(schedule, rng, wild=True)
    order, grid = ordered(schedule, shape), schedule.placement.grid(p, chunks)
    sizes = {
        (stage, copy): rng.uniform(0.5, 2.0) for stage in range(shape.stages) for copy in range(grid.copies)
    }
    moments = moments_of(schedule, shape, grid)
    for position, held in enumerate(schedule.placement.held(grid)):
        most = max(held_bytes(order, position, sizes))
        for moment in moments:
            if moment.sure:
                assert bytes_at(moment, position, [sizes[pair] for pair in held]) <= most * (1 + 1e-9)


def bytes_at(moment: InFlight, position: int, sizes: list[float]) -> float:
    found = float(moment.saved[position, :, 0] @ sizes)
    return found + (0.5 * float(moment.waiting[position, :, 0] @ sizes) if moment.waiting is not None else 0)


@pytest.mark.parametrize(
    "name", ["1f1b", "gpipe", "interleaved_1f1b", "gpipe_2bp", "1f1b_2bp", "zb_v", "bitpipe"]
)
def test_in_flight_is_exact_for_equal_stages(name: str) -> None:
    schedule, rng = SCHEDULES.get(name), random.Random(5)
    for _ in range(40):
        shape, _, p, chunks = drawn(schedule, rng, wild=False)
        order, grid = ordered(schedule, shape), schedule.placement.grid(p, chunks)
        moments = moments_of(schedule, shape, grid)
        sizes = {(stage, copy): 1.0 for stage in range(shape.stages) for copy in range(grid.copies)}
        for position, held in enumerate(schedule.placement.held(grid)):
            found = max(bytes_at(moment, position, [1.0] * len(held)) for moment in moments)
            assert found == pytest.approx(max(held_bytes(order, position, sizes)))


@every
def test_schedules_say_where_lanes_stay_with_a_stage(schedule: Schedule) -> None:
    """As lowering finds it in the order: several stages on every lane, several actions of each in a row."""
    made_for_several = schedule.placement.several or schedule.stays is not never_stays
    most = 3 if made_for_several else 1
    for p, chunks, m in product((1, 2, 4), range(1, most + 1), (1, 2, 3, 4, 6, 8, 12, 16)):
        grid = schedule.placement.grid(p, chunks)
        shape = schedule.placement.shape(grid, m)
        if schedule.unmet(shape):
            continue
        shortest, several = m + 1, True
        for lane in make_order(schedule.name, shape, steps=1).lanes:
            places = [(action.stage, action.copy) for action in lane if action.op != "U"]
            shortest = min([shortest, *(len(list(turn)) for _, turn in groupby(places))])
            several &= len({stage for stage, _ in places}) > 1
        found = schedule.stays(grid, np.array([float(m)]))
        assert found.tolist() == [several and shortest > 1], (p, chunks, m)


@pytest.mark.parametrize("schedule", list(SCHEDULES), ids=lambda schedule: schedule.name)
def test_work_of_positions_is_that_of_all_they_hold(schedule: Schedule) -> None:
    placement = schedule.placement
    for positions, chunks in ((2, 2), (4, 2), (4, 4), (8, 4)):
        grid = placement.grid(positions, placement.chunks if not placement.several else chunks)
        held = placement.held(grid)
        values = np.random.default_rng(positions).random((placement.stages(grid), 3))
        found = np.zeros((positions, 3))
        for stages in stages_by_turn(held):
            found += values[stages]
        assert found == pytest.approx(np.array([sum(values[stage] for stage, _ in pairs) for pairs in held]))
