"""Memory verdicts on published runs: what ran is not refused, what would overfill devices is no fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.score import memory_check
from explorer.score.memory_check import MemoryChecked, check_memory, overfilled_fits
from explorer.score.rows import SETS
from explorer.score.sets.vtrain import COLUMNS
from explorer.simulation.simulate import simulate

SMALL = "8,16,2,1024,16,4,1024,2,2,2,200.5"
HUGE = "8,64,64,16384,128,8,2048,1,1,8,9000"


def checked(tmp_path: Path, *lines: str) -> MemoryChecked:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([",".join(COLUMNS), *lines]), encoding="utf-8")
    return check_memory("vtrain_single", path)


def test_verdicts_are_counted(tmp_path: Path) -> None:
    found = checked(tmp_path, SMALL, HUGE, "not,a,row")
    assert (found.rows, found.refused, found.replayed, found.called_fits) == (2, 1, 2, 0)
    assert found.verdicts == (1, 0, 1)


def test_a_fit_on_a_roomy_device_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([",".join(COLUMNS), SMALL]), encoding="utf-8")
    (row,) = SETS.get("vtrain_single").read(path).rows
    report = simulate(*row.case)
    assert not overfilled_fits(report, row.case.cluster)
    monkeypatch.setattr(memory_check, "ABOVE", 0.5)  # devices twice as large as the replay asks for
    assert overfilled_fits(report, row.case.cluster)


@pytest.mark.reference
@pytest.mark.parametrize("name", ["mosaicml", "sailor", "simumax", "vtrain_multi"])
def test_runs_that_ran_are_not_refused(reference_dir: Path, name: str) -> None:
    found = check_memory(name, reference_dir / SETS.get(name).path, every=8)
    assert found.rows >= 15
    assert found.refused <= 0.03 * found.rows
    assert found.replayed
    assert found.called_fits == 0
