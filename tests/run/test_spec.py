"""A launch as JSON: exact both ways, and wrong files are said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.run.model import Unit, transformer
from explorer.run.spec import Calibration, Fault, RunSpec, read_spec, to_data, write_spec
from tests.run.programs import SCHEDULES, dry, real


def test_round_trip(tmp_path: Path) -> None:
    cases = [real(name, 2, 1).case for name in SCHEDULES] + [
        real("gpipe", 2, 2, turns=True).case,
        dry("1f1b", 3).case,
        real("1f1b", 2, 1, options=(("blocking", True),), name="blocking").case,
    ]
    spec = RunSpec(
        ranks=4, cases=tuple(cases), rounds=3, faults=(Fault(rank=1, kind="hang"),),
        calibration=Calibration(model=transformer(2), samples=(1, 2), message_bytes=(4,)),
    )  # fmt: skip
    write_spec(spec, tmp_path / "spec.json")
    again = read_spec(tmp_path / "spec.json")
    assert again == spec
    for case, first in zip(again.cases, cases, strict=True):
        assert case.lowered().slots == first.lowered().slots
        assert case.lowered().first.tolist() == first.lowered().first.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": "other"}, "explorer.run/1"),
        ({"ranks": 0}, "needs a rank"),
        ({"ranks": 1}, "2 lanes for 1 ranks"),
        ({"cases": []}, "needs cases"),
        ({"faults": [{"rank": 0, "kind": "melt"}]}, "unknown fault"),
        ({"surprise": 1}, "is not a run specification"),
        ({"cases": [{"name": "x"}]}, "is not a run specification"),
    ],
)
def test_wrong_files(tmp_path: Path, change: dict[str, object], message: str) -> None:
    data = to_data(RunSpec(ranks=2, cases=(dry("gpipe", 2).case,)))
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(data | change))
    with pytest.raises(InputError, match=message) as caught:
        read_spec(path)
    assert caught.value.file == str(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the file"):
        read_spec(tmp_path / "spec.json")


def test_models_that_cannot_be() -> None:
    with pytest.raises(InputError, match="unknown unit"):
        Unit(name="x", kind="magic")
    with pytest.raises(InputError, match="d_model % heads"):
        transformer(1, d_model=7, heads=2)
