"""What rows are made of: sums of equal pieces are told from clocks, and blocks come out by hand."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

CELLS: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "score_cells.py"))


def run(measured: float, *, layers: int = 12, rounds: int = 4, micro: int = 2, off: float = 1.0) -> Any:
    """A row on one device of microbatches of `micro`, predicted `off` times as long."""
    return CELLS["Run"](
        layers=layers, width=1024, batch=rounds * micro, tensor=1, replicas=1, stages=1, micro=micro,
        group=f"{layers}", predicted=measured * off, measured=measured,
    )  # fmt: skip


def test_a_sum_of_pieces_is_on_its_line_and_a_clock_is_not() -> None:
    pieces = [run(0.25 + 0.125 * n, rounds=n) for n in (2, 4, 16)]
    assert CELLS["straightness"](pieces) == [0.0]
    clock = [*pieces[:1], run(pieces[1].measured * 1.001, rounds=4), *pieces[2:]]
    assert CELLS["straightness"](clock) == [pytest.approx(1e-3)]
    assert CELLS["straightness"](pieces[:2]) == []


def test_blocks_come_from_rows_that_differ_in_depth() -> None:
    # a head of 3 s a microbatch, an update of 7 s, blocks of .5 s
    rows = [run(7 + 4 * (3 + 0.5 * layers), layers=layers) for layers in (12, 16, 24)]
    assert CELLS["block_seconds"](rows) == {(1024, 1, 2): pytest.approx(0.5)}


def test_more_work_in_less_time_is_named() -> None:
    blocks = {(1024, 2, 1): 1.0, (1024, 2, 2): 0.9, (2048, 2, 2): 1.5, (2048, 4, 4): 0.1}
    assert CELLS["backwards"](blocks) == [((1024, 2, 1), (1024, 2, 2), pytest.approx(0.1))]


def test_a_cells_own_error_is_taken_off() -> None:
    rows = [run(1.0, micro=1, off=1.2), run(2.0, micro=1, off=1.2), run(1.0, micro=2, off=0.7)]
    for predicted, measured in CELLS["without_cells"](rows):
        assert predicted == pytest.approx(measured)
