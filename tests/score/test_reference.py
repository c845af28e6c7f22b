"""The sets as they stand beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.score.running import paths_of, score
from explorer.score.sets.zero_bubble import read_bubbles
from explorer.simulation.simulate import simulate

pytestmark = pytest.mark.reference


def test_published_bubbles(reference_dir: Path) -> None:
    """Given the published seconds, bubbles are those of the paper: to a tenth of a per cent of the step."""
    (scored,) = score({"zero_bubble_bubbles": reference_dir / "published.md"}, processes=1)
    found = scored.statistics
    assert not scored.problems
    assert found is not None
    assert found.mean_abs_error_pct < 0.2
    assert found.worst_abs_error_pct < 0.7
    exact = {"1.5B m24 1F1B", "1.5B m24 ZB-H1", "1.5B m24 ZB-H2", "14.6B m48 ZB-H1", "14.6B m48 ZB-1p"}
    for row in scored.outcomes:
        if row.name in exact:
            assert row.predicted == pytest.approx(row.measured, rel=1e-4), row.name


def test_bubbles_are_of_whole_orders(reference_dir: Path) -> None:
    for row in read_bubbles(reference_dir / "published.md").rows[:6]:
        assert simulate(*row.case).bubble_fraction < 0.3


def test_gpipe_is_its_closed_form(reference_dir: Path) -> None:
    (scored,) = score({"gpipe": reference_dir / "published.md"}, processes=1)
    for row in scored.outcomes:
        devices, microbatches = (int(part[2:]) for part in row.name.split())
        ideal = devices * microbatches / (microbatches + devices - 1)
        assert row.predicted == pytest.approx(ideal), row.name


def test_processes_change_nothing(reference_dir: Path, tmp_path: Path) -> None:
    lines = (reference_dir / "measured/vtrain/single_node.csv").read_text().splitlines()
    path = tmp_path / "few.csv"
    path.write_text("\n".join([lines[0], *lines[1:60:6]]))
    one, two = (score({"vtrain_single": path}, processes=count)[0] for count in (1, 2))
    assert one.outcomes == two.outcomes
    assert [row.line for row in one.outcomes] == list(range(2, 12))


def test_every_set_has_a_place(reference_dir: Path) -> None:
    from explorer.score.rows import published

    assert all(path.exists() for path in paths_of(published(), {}).values())
