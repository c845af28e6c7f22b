"""What left-out sources teach: weights, distances, coverage, and the file that is written."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from explorer.calibrate.between_sources import MEMORY, TIME, band, bundled_errors, load_errors
from explorer.cluster import DeviceKind
from explorer.cluster_profiles import load_cluster
from explorer.framework import Framework
from explorer.framework_files import load_framework
from explorer.score.between import LeftOutRow, coverage_by_source, learn, same_hardware
from explorer.score.between_file import errors_text

A100, H100 = (load_cluster(name).device_kinds[0] for name in ("dgx-a100", "hgx-h100"))
MEGATRON = load_framework("megatron-2022")


def rows(
    source: str, errors: list[float], kind: DeviceKind = A100, framework: Framework = MEGATRON
) -> list[LeftOutRow]:
    return [
        LeftOutRow(source=source, kinds=(kind,), framework=framework, log_errors=((TIME, error),))
        for error in errors
    ]


def many(*groups: list[LeftOutRow]) -> list[LeftOutRow]:
    return [row for group in groups for row in group]


def test_near_sources_teach_their_plain_quantile() -> None:
    found = many(*(rows(f"s{i}", [0.01 * i, -0.01 * i]) for i in range(1, 10)))
    known = learn(found)
    assert dict(known.log_errors) == {TIME: 0.08}
    assert [item.rows for item in known.sources] == [2] * 9


def test_errors_of_a_source_far_from_the_others_count_less() -> None:
    near = many(*(rows(f"s{i}", [0.1]) for i in range(4)))
    far = rows("far", [0.2], kind=H100, framework=replace(MEGATRON, software="Unheard of"))
    alone = dict(learn(many(near, far)).log_errors)[TIME]
    beside = dict(learn(many(near, rows("near", [0.2]))).log_errors)[TIME]
    assert alone < beside == 0.2


def test_coverage_uses_no_error_of_the_source_itself() -> None:
    base = many(*(rows(f"s{i}", [0.1, 0.05]) for i in range(5)))
    known = learn(base)
    for size in (0.2, 20.0):
        other = many(base, rows("new", [0.01, size]))
        assert coverage_by_source(other, known)["new"] == 0.5


def test_pooled_coverage_of_exchangeable_sources_is_what_was_asked() -> None:
    random = np.random.default_rng(3)
    shares = []
    for _ in range(40):
        errors = 0.1 * random.normal(size=(9, 1)) + 0.03 * random.normal(size=(9, 8))
        drawn = many(*(rows(f"s{i}", own) for i, own in enumerate(errors.tolist())))
        shares += list(coverage_by_source(drawn, learn(drawn)).values())
    assert 0.78 < np.mean(shares) < 0.93


def test_memory_is_learned_of_rows_that_measured_it() -> None:
    found = many(rows("a", [0.1]), rows("b", [0.1]))
    held = [replace(row, log_errors=((TIME, 0.1), (MEMORY, -0.3))) for row in rows("c", [0.1])]
    assert dict(learn(found).log_errors) == {TIME: 0.1}
    assert dict(learn(many(found, held)).log_errors) == {TIME: 0.1, MEMORY: 0.3}


def test_hardware_has_several_names() -> None:
    gh200 = load_cluster("sailor-gh200").device_kinds[0]
    assert {"gh200-96gb", "sailor-gh200"} <= same_hardware(gh200)
    assert "h200-sxm-141gb" not in same_hardware(H100)


def test_the_file_is_read_back(tmp_path: Path) -> None:
    known = learn(many(*(rows(f"it's {i}", [0.1 * i]) for i in range(5))), ("a100-sxm-80gb",))
    path = tmp_path / "errors.yaml"
    path.write_text(errors_text(known), encoding="utf-8")
    assert load_errors(path) == known


def test_the_bundled_file_is_what_the_script_writes() -> None:
    known = bundled_errors()
    bundled = Path(__file__).parents[2] / "sample_profiles" / "errors" / "between_sources.yaml"
    assert errors_text(known) == bundled.read_text(encoding="utf-8")
    assert math.isfinite(band(MEMORY, load_cluster("b200")).log_error)
    assert len(known.sources) >= 4


@pytest.mark.parametrize("source", [item.source for item in bundled_errors().sources])
def test_no_source_is_named_twice(source: str) -> None:
    assert [item.source for item in bundled_errors().sources].count(source) == 1
