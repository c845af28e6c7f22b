"""What the comparison with one process holds: no weights, sums or gradients that nothing reads any more."""

from __future__ import annotations

import pytest
import torch

from explorer.models.module_source import open_module
from explorer.run.cases.build import Prepared
from explorer.run.ranks.allocated import counted, prepare_counting
from explorer.run.referee.emulate import Emulation
from tests.run.own.own_cases import case, cut, source
from tests.run.programs import real

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("one_thread")
WIDE = ("gpt", {"layers": "1", "embed": "32", "heads": "2", "vocab": "4000"}, 4)
"""Nearly all of it is one table."""


def watched(prepared: Prepared) -> tuple[Emulation, int]:
    """Run an emulation; return it and the most versions that it had of a piece before any work."""
    found, most = Emulation(prepared.case, CPU), 0
    work = found._work

    def counting(low: int, high: int) -> None:
        nonlocal most
        most = max(most, *(sum(map(bool, held)) for held in found.weights.values()))
        work(low, high)

    found._work = counting  # type: ignore[method-assign]
    found.finish()
    return found, most


@pytest.mark.parametrize(
    ("schedule", "versions"), [("1f1b", 1), ("gpipe", 1), ("pipedream_2bw", 2), ("pipedream", 2)]
)
def test_versions_that_no_later_sample_reads_are_forgotten(schedule: str, versions: int) -> None:
    found, most = watched(real(schedule, 2, 1, steps=4))
    assert most == versions
    assert all(sum(map(bool, held)) <= versions and held[-1] for held in found.weights.values())
    assert not found.own, "all sums have been applied"


def test_gradients_are_kept_of_the_pieces_that_are_compared() -> None:
    prepared = real("1f1b", 2, 1)
    every = Emulation(prepared.case, CPU)
    piece = every.pieces[0]
    some = Emulation(prepared.case, CPU, wanted=[piece])
    every.finish()
    some.finish()
    assert set(some.gradients) == {key for key in every.gradients if key[0] == piece}
    assert len(some.gradients) < len(every.gradients)
    assert some.largest == every.largest == max(float(g.abs().max()) for g in every.gradients.values())
    assert all(torch.equal(g, every.gradients[key]) for key, g in some.gradients.items())


def test_copies_of_all_weights_that_an_emulation_holds() -> None:
    """Of two replicas: weights around an update, sums and gradients of each, and those under way."""
    own = source(*WIDE, "fp64")
    prepared = case(own, cut(own, 1, 2, size=2), "1f1b")
    prepare_counting()
    first = Emulation(prepared.case, CPU)
    first.finish()  # programs are captured and weights drawn
    piece = first.pieces[0]
    del first
    with counted(CPU, []) as found:
        Emulation(prepared.case, CPU, wanted=[piece]).finish()
    copies = found.peak / (8 * own.graph.parameter_count)
    assert copies < 10, "15.5 while all was kept"


def test_a_module_is_opened_in_its_precision_at_once() -> None:
    """Its parameters have memory that nobody has written, and none in another precision before."""
    prepare_counting()
    with counted(CPU, []) as found:
        opened = open_module(WIDE[0], sequence_length=WIDE[2], settings=WIDE[1], dtype=torch.float64)
    elements = sum(item.numel() for item in opened.module.parameters())
    assert {item.dtype for item in opened.module.parameters()} == {torch.float64}
    assert found.peak < 1.2 * 8 * elements
