"""Rows of any kind: what the columns mean, units of what was measured, and what is refused."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.score.rows import ReadRows, published
from explorer.score.running import paths_of, score
from explorer.score.sets.general import MEASURED, REQUIRED, read
from explorer.simulation.simulate import simulate

TINY = {"layers": 4, "embed": 256, "heads": 8, "vocab": 1024}
ROW = {
    "source": "us", "name": "first", "hardware": "dgx-a100", "software": "megatron-2022", "model": "gpt",
    "settings": json.dumps(TINY), "devices": "8", "global_batch": "16", "microbatch": "2",
    "sequence_length": "128", "tp": "2", "pp": "2", "zero": "1", "recompute": "full", "precision": "fp16",
    "gradient_precision": "fp32", "step_time_s": "0.5", "peak_memory_gib": "1.5",
}  # fmt: skip


def rows(tmp_path: Path, *changes: dict[str, str]) -> ReadRows:
    made = [ROW | change for change in changes or ({},)]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in made for key in row)), restval="")
    writer.writeheader()
    writer.writerows(made)
    path = tmp_path / "rows.csv"
    path.write_text(text.getvalue())
    return read(path)


def message(tmp_path: Path, **changes: str) -> str:
    found = rows(tmp_path, changes)
    assert not found.rows
    (problem,) = found.problems
    assert problem.line == 2
    assert "\n" not in problem.message
    return problem.message


def test_a_row_is_a_whole_problem(tmp_path: Path) -> None:
    found = rows(tmp_path)
    assert not found.problems
    (row,) = found.rows
    graph, cluster, workload, strategy = row.case
    job = workload.job
    assert (job.global_batch, job.sequence_length, job.precision, job.framework) == (
        16,
        128,
        "fp16",
        "megatron-2022",
    )
    assert len({layer.block for layer in graph.layers if layer.block}) == TINY["layers"]
    assert cluster.device_count == 8
    stages = strategy.job.stages
    assert len(stages) == 2
    assert [dict(mesh.axes) for stage in stages for mesh in stage.meshes] == [{"replica": 2, "tensor": 2}] * 2
    assert row.measured == 0.5
    assert row.measured_memory_bytes == 1.5 * 2**30
    assert simulate(*row.case).step_time_s > 0


def test_empty_cells_are_defaults(tmp_path: Path) -> None:
    least = {key: "" for key in ROW if key not in (*REQUIRED, "step_time_s")}
    (row,) = rows(tmp_path, least | {"model": "gpt2-small", "devices": "1"}).rows
    job = row.case.workload.job
    assert (job.precision, job.gradient_precision, job.framework) == ("bf16", "", "")
    assert job.sequence_length == row.case.graph.defaults.sequence_length
    assert row.measured_memory_bytes is None
    text = ",".join([*REQUIRED, "step_time_s"]) + "\nus,a,dgx-a100,gpt2-small,1,16,0.5\n"
    path = tmp_path / "few.csv"
    path.write_text(text)
    assert simulate(*read(path).rows[0].case).step_time_s == simulate(*row.case).step_time_s


def test_units_of_one_measurement_agree(tmp_path: Path) -> None:
    """0.5 s of 16 samples of 128 tokens on 8 devices are 512 tokens/s a device."""
    (seconds,) = rows(tmp_path).rows
    flops = 3 * seconds.case.graph.flops_per_sample * 16 / (0.5 * 8)
    for column, value in (("tokens_per_s_per_device", "512"), ("tflops_per_device", repr(flops / 1e12))):
        (row,) = rows(tmp_path, {"step_time_s": "", column: value}).rows
        assert row.measured == pytest.approx(0.5, rel=1e-12)


def test_profiles_are_cut_or_repeated(tmp_path: Path) -> None:
    (few,) = rows(tmp_path, {"devices": "4"}).rows
    (many,) = rows(tmp_path, {"devices": "32", "global_batch": "64"}).rows
    assert len({d for stage in few.case.strategy.job.stages for m in stage.meshes for d in m.devices}) == 4
    assert many.case.cluster.device_count == 32


def test_devices_on_links_are_taken_whole(tmp_path: Path) -> None:
    torus = {"hardware": "tpu-v5e", "software": "", "tp": "1", "pp": "1", "precision": "bf16"}
    (row,) = rows(tmp_path, torus | {"devices": "16", "global_batch": "32"}).rows
    assert row.case.cluster.device_count == 16
    assert "8 devices of 'tpu-v5e', whose links join 16" in message(tmp_path, **torus)


def test_software_without_its_year_is_the_newest_of_that_name(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, {"software": "megatron-core"}).rows
    assert row.case.workload.job.framework == "megatron-core-2025"


def test_groups_hold_what_a_user_chooses_between(tmp_path: Path) -> None:
    one, other, larger = rows(tmp_path, {}, {"tp": "4", "pp": "1"}, {"global_batch": "32"}).rows
    assert one.group == other.group != larger.group


def test_layout_and_model_share_the_settings(tmp_path: Path) -> None:
    split = TINY | {"sequence_parallel": False}
    (row,) = rows(tmp_path, {"settings": json.dumps(split)}).rows
    (usual,) = rows(tmp_path).rows
    assert simulate(*row.case).peak_memory_bytes > simulate(*usual.case).peak_memory_bytes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hardware": "dgx-a10"}, "the nearest known is dgx-a100"),
        ({"software": "megatron-22"}, "the nearest known is megatron-2022"),
        ({"software": "/etc/passwd"}, "unknown software"),
        ({"software": "transformer-engine"}, "the nearest known is megatron-core-2025"),
        ({"model": "os:system"}, "code"),
        ({"tp": "3"}, "a multiple of 6"),
        ({"zero": "4"}, "zero is '4'"),
        ({"settings": "[1]"}, "an object"),
        ({"settings": "{"}, "no JSON"),
        ({"settings": '{"layers": [4]}'}, "text or a number"),
        ({"settings": '{"depth": 4}'}, "depth"),
        ({"recompute": "some"}, "recompute"),
        ({"global_batch": "15"}, "15"),
        ({"step_time_s": ""}, ", ".join(MEASURED)),
        ({"tflops_per_device": "100"}, "2 measured values"),
        ({"step_time_s": "-1"}, "above 0"),
        ({"peak_memory_gib": "much"}, "peak_memory_gib"),
    ],
)
def test_wrong_rows_are_one_line_each(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    assert words in message(tmp_path, **changes)


def test_a_file_without_a_needed_column(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("source,name\nus,first\n")
    with pytest.raises(InputError, match="hardware"):
        read(path)


def test_rows_are_only_ever_given(tmp_path: Path) -> None:
    assert "general" not in published()
    with pytest.raises(InputError, match="--rows general=PATH"):
        paths_of(["general"], {})
    rows(tmp_path, {}, {"name": "second", "pp": "4"}, {"pp": "5"})
    (scored,) = score(paths_of(["general"], {"general": tmp_path / "rows.csv"}), processes=1)
    assert len(scored.outcomes) == 2
    assert len(scored.problems) == 1
