"""\"I measured ...\" in the workbench: a typed step or a dropped log corrects the profile; undo goes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.cluster_profiles import load_cluster
from tests.calibrate.trainer_logs import LOOKALIKES
from widgets import Explorer


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Explorer]:
    monkeypatch.chdir(tmp_path)
    found = Explorer("gpt2-xl", "hgx-h100", global_batch=32, session=False)
    assert not found.error
    yield found
    found.close()


def tell(bench: Explorer, time: str = "", memory: str = "", log: str = "") -> dict[str, object]:
    bench.tiles.send_intent("measured", time=time, memory=memory, log=log)
    own: dict[str, object] = bench.tiles.view["own"]
    return own


def test_a_typed_step_makes_the_profile_ones_own(bench: Explorer, tmp_path: Path) -> None:
    assert bench.tiles.view["own"] == {}
    before = bench.now()
    seconds = before.report.step_time_s
    own = tell(bench, time=f"{seconds * 1.2 * 1e3:.6g} ms", memory="60 GiB")
    after = bench.now().report.step_time_s
    assert seconds * 1.1 < after < seconds * 1.2
    assert "measured **" in str(own["text"])
    assert "→" in str(own["band"])
    assert any("Kernels on h100-sxm-80gb" in line for line in own["lines"])  # type: ignore[attr-defined]
    assert any("Memory: predicted" in line for line in own["lines"])  # type: ignore[attr-defined]
    assert "run" in str(own["next"])
    made = load_cluster(tmp_path / str(own["file"]))
    assert made == bench.now().inputs.cluster
    assert made.calibration.steps[0].step_time_s == pytest.approx(seconds * 1.2, rel=1e-4)
    bench.showing.explain(bench.history.now)
    tile = next(tile for tile in bench.tiles.view["tiles"] if tile["key"] == "step_time")
    assert "80 % band from 1 measured step of this machine" in tile["band_from"]
    bench.tiles.send_intent("action", action="undo")
    assert bench.now() is before
    assert bench.tiles.view["own"] == {}
    bench.redo()
    assert bench.tiles.view["own"] == own


def test_a_dropped_log_is_read(bench: Explorer) -> None:
    own = tell(bench, log=LOOKALIKES["megatron"]())
    assert "measured **500 ms**" in str(own["text"])
    assert any("measured 40.2 GiB" in line for line in own["lines"])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("time", "log", "said"),
    [
        ("", "", "no step time"), ("2", "", "of what unit?"), ("soon", "", "not a quantity"),
        ("1 us", "", "of the devices' peak"), ("", "nothing", "no step time in this log"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_the_field_and_nothing_changes(
    bench: Explorer, tmp_path: Path, time: str, log: str, said: str
) -> None:
    before = bench.now()
    own = tell(bench, time=time, log=log)
    assert said in str(own["error"])
    assert bench.now() is before
    assert not list(tmp_path.iterdir())
    bench.undo()
    tell(bench, time=f"{before.report.step_time_s:.6g} s")
    assert "error" not in bench.tiles.view["own"]
