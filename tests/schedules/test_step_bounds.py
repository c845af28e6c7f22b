"""What no order of a chain is below, beside brute force; and what a local search makes of orders."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest

from explorer.base.compiling import forced
from explorer.schedules import make_order, optpipe
from explorer.schedules._local_search import Lanes, Stages, improved, period_s
from explorer.schedules._step_bounds import least_s
from explorer.schedules._step_clock import Chain, chain_of, seconds_of
from tests.schedules.shapes import line
from tests.schedules.test_optpipe import brute_force, uneven

SIZES = ((1, 3, True), (2, 2, True), (1, 2, True), (2, 2, False), (2, 3, False), (3, 2, False), (1, 4, False))


def drawn(seed: int) -> tuple[Chain, bool]:
    """A short uneven chain with little room, a third of them tied, and whether backwards are split."""
    rng = random.Random(seed)
    p, m, split = rng.choice(SIZES)
    chain = chain_of(uneven(rng, p, m), 1)
    return replace(
        chain,
        room=tuple(rng.uniform(1.02, 3) * held for held in chain.held),
        waiting=tuple(rng.uniform(0, 1) * held for held in chain.held),
        coupled=((0, p - 1), (p - 1, 0)) if rng.random() < 0.3 and p > 1 else (),
    ), split


def test_no_order_is_below_the_bound() -> None:
    """And of 60 such chains the shortest order meets it in 50 at least."""
    met = 0
    for seed in range(60):
        chain, split = drawn(seed)
        shortest, bound = brute_force(chain, split=split), least_s(chain, split=split)
        assert bound <= shortest * (1 + 1e-9), seed
        met += bound >= shortest * (1 - 1e-9)
    assert met >= 50


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("limit", [1, 2])
def test_the_bound_proves_zb_h1_and_zb_h2(p: int, limit: int) -> None:
    """F = I = W: (p - 1)(F + I - W) of idle time in the memory of 1F1B, none in twice that."""
    m = 3 * p
    assert least_s(chain_of(line(p, m), limit), split=True) == pytest.approx(3 * m + (p - 1) * (limit == 1))


def test_what_may_leave_counts_as_if_there_were_room() -> None:
    chain = replace(chain_of(line(4, 8), 1), host_s=(0.1,) * 4)
    assert least_s(chain, split=True) == least_s(chain_of(line(4, 8), 8), split=True)


def test_any_room_is_as_good_as_room_for_all() -> None:
    """And counted as fast: bytes of a device may hold 10^18 microbatches."""
    chain = chain_of(line(4, 8), 8)
    wide = replace(chain, room=(1e18,) * 4)
    assert least_s(wide, split=True) == least_s(chain, split=True) == 8 * 3.0


def test_a_frozen_stage_takes_no_seconds_back() -> None:
    chain = replace(chain_of(line(2, 4), 1), input_grad_s=(0.0, 1.0), weight_grad_s=(0.0, 1.0))
    assert least_s(chain, split=True) == pytest.approx(12.0)


def stages_of(chain: Chain) -> Stages:
    return Stages(
        forward_s=chain.forward_s, input_grad_s=chain.input_grad_s, weight_grad_s=chain.weight_grad_s,
        transfer_s=chain.transfer_s, held=chain.held, waiting=chain.waiting, room=chain.room,
        coupled=chain.coupled,
    )  # fmt: skip


def lanes_of(chain: Chain, name: str, p: int, m: int) -> Lanes:
    works = [optpipe._works(lane, split=True) for lane in make_order(name, line(p, m)).lanes]
    return tuple(tuple((op, s, n) for op, n in lane) for s, lane in enumerate(works))


@pytest.mark.parametrize("seed", range(6))
def test_what_is_improved_is_whole_fits_and_is_no_longer(seed: int) -> None:
    rng = random.Random(seed)
    p, m = rng.choice([(2, 5), (3, 6), (4, 8)])
    shape = uneven(rng, p, m)
    shape = replace(shape, tied=((0, p - 1),)) if seed % 2 else shape
    chain = chain_of(shape, 1)
    lanes = lanes_of(chain, "1f1b", p, m)
    found = improved(stages_of(chain), lanes, rounds=3e5)
    assert [sorted(lane) for lane in found] == [sorted(lane) for lane in lanes]
    plain = tuple(tuple((op, n) for op, _, n in lane) for lane in found)
    assert chain.fits(plain)
    assert period_s(stages_of(chain), found) == pytest.approx(seconds_of(chain, plain).period_s, rel=1e-12)
    assert period_s(stages_of(chain), found) <= period_s(stages_of(chain), lanes)
    for lane in found:
        for op, s in {(op, s) for op, s, _ in lane}:
            assert [n for other, of, n in lane if (other, of) == (op, s)] == list(range(m))


def test_plain_and_compiled_searches_are_the_same() -> None:
    shape = uneven(random.Random(7), 3, 5)
    chain = chain_of(shape, 1)
    lanes = lanes_of(chain, "zb_h1", 3, 5)
    found = []
    for compiled in (False, True):
        with forced(compiled=compiled):
            found.append(improved(stages_of(chain), lanes, rounds=2e5))
    assert found[0] == found[1]
    assert found[0] != lanes


def test_lanes_that_wait_for_each_other_take_for_ever() -> None:
    chain = chain_of(line(2, 2), 0)
    lanes: Lanes = (
        (("F", 0, 0), ("B", 0, 0), ("F", 0, 1), ("B", 0, 1)),
        (("F", 1, 0), ("F", 1, 1), ("B", 1, 0), ("B", 1, 1)),
    )
    assert math.isinf(period_s(stages_of(chain), lanes))
