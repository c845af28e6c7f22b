"""Overlaps: every sample asked for is found once, whatever the sizes, splits and turns of both sides."""

from __future__ import annotations

import gc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.tasks.lower import uncollected
from explorer.tasks.placement import SectionShape, split_offsets
from explorer.tasks.sample_overlaps import Overlap, Overlaps
from explorer.tasks.work import MadeTasks


def section(samples: int, replicas: int, *, round_robin: bool = False) -> SectionShape:
    return SectionShape(
        stage=0,
        rows=(tuple((device,) for device in range(replicas)),),
        microbatch_samples=samples,
        round_robin=round_robin,
        offsets=split_offsets(samples, replicas, ()),
        zero=0,
        full_recompute=False,
    )


@st.composite
def sections(draw: st.DrawFn) -> SectionShape:
    replicas = draw(st.integers(1, 4))
    return section(draw(st.integers(1, 7)), replicas, round_robin=draw(st.booleans()))


def owner(have: SectionShape, sample: int) -> tuple[int, int]:
    """(replica, microbatch) that works on a sample, found without intervals."""
    number, within = divmod(sample, have.microbatch_samples)
    if have.round_robin:
        return number % have.replicas, number
    return next(r for r in range(have.replicas) if within < have.offsets[r + 1]), number


@settings(max_examples=150)
@given(want=sections(), have=sections(), number=st.integers(0, 60), data=st.data())
def test_every_sample_comes_from_its_owner(
    want: SectionShape, have: SectionShape, number: int, data: st.DataObject
) -> None:
    turn = number % want.replicas
    replica = turn if want.round_robin else data.draw(st.integers(0, want.replicas - 1))
    overlaps = Overlaps(want, replica, have, tuple(range(have.replicas)))
    found = {
        sample: (part.replica, part.microbatch)
        for part in overlaps.of(number)
        for sample in range(part.low, part.low + part.samples)
    }
    samples = range(number * want.microbatch_samples, (number + 1) * want.microbatch_samples)
    asked = [s for s in samples if want.round_robin or owner(want, s)[0] == replica]
    assert found == {sample: owner(have, sample) for sample in asked}
    assert sum(part.samples for part in overlaps.of(number)) == len(asked)


def test_four_samples_from_threes() -> None:
    """Twelve samples are one period: microbatch 4 is microbatch 1 moved on by four of the other side."""
    overlaps = Overlaps(section(4, 1), 0, section(3, 1), (0,))
    assert overlaps.of(1) == [Overlap(0, 1, 4, 2), Overlap(0, 2, 6, 2)]
    assert overlaps.of(4) == [Overlap(0, 5, 16, 2), Overlap(0, 6, 18, 2)]


def test_made_keeps_the_first_place_and_the_last_task() -> None:
    made = MadeTasks(np.array([2, 3]), sweeps=2)
    piece, sweep, number, task = np.array([(1, 0, 2, 5), (0, 1, 1, 6), (1, 0, 2, 7)]).T
    made.record(piece, sweep, number, task)
    assert list(zip(made.piece.tolist(), made.sweep.tolist(), made.microbatch.tolist(), strict=True)) == [
        (1, 0, 2),
        (0, 1, 1),
    ]
    assert made.task.tolist() == [7, 6]
    asked = np.array([(1, 0, 2), (0, 1, 1), (0, 0, 1), (0, 0, 9), (-1, 0, 0)]).T
    assert made.of(*asked).tolist() == [7, 6, -1, -1, -1]


def stop_inside() -> None:
    with uncollected():
        assert not gc.isenabled()
        raise ValueError("stop")


@pytest.mark.parametrize("switch", [gc.enable, gc.disable])
def test_the_collector_is_as_it_was_even_after_an_error(switch: Callable[[], None]) -> None:
    before = gc.isenabled()
    try:
        switch()
        with pytest.raises(ValueError, match="stop"):
            stop_inside()
        assert gc.isenabled() is (switch is gc.enable)
    finally:
        (gc.enable if before else gc.disable)()
