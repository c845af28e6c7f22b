"""MosaicML's rows: what the columns mean, and what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from explorer.score.rows import SETS, ReadRows
from explorer.score.running import predicted
from explorer.score.sets.mosaicml import COLUMNS, FRAMEWORK, read
from explorer.simulation.simulate import simulate

ROW = {
    "section": "A100", "model": "125m", "params": "125311488", "seq": "2048", "gpus": "16",
    "gpu": "a100_80gb", "micro": "4", "accum": "2", "batch": "128", "tokens_s_gpu": "100000",
    "precision": "amp_bf16", "mp_mode": "DEFAULT", "sharding": "FULL_SHARD", "ckpt": "True",
}  # fmt: skip


def rows(folder: Path, **changes: str) -> ReadRows:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(ROW))
    writer.writeheader()
    writer.writerow(ROW | changes)
    (folder / "fsdp.csv").write_text(text.getvalue())
    return read(folder)


def test_a_row_is_a_whole_problem(tmp_path: Path) -> None:
    found = rows(tmp_path)
    assert not found.problems
    (row,) = found.rows
    graph, cluster, workload, strategy = row.case
    (job,), (stage,) = workload.jobs, strategy.jobs[0].stages
    assert sum(item.elements for item in graph.parameters) == int(ROW["params"])
    assert (job.global_batch, job.sequence_length, job.precision) == (128, 2048, "bf16")
    assert (job.gradient_precision, job.framework) == ("fp32", FRAMEWORK)
    assert (cluster.device_count, stage.zero, stage.recompute) == (16, 3, "full")
    assert stage.microbatch_samples == 4 * 16
    assert row.amount == 128 * 2048 / 16
    assert predicted(row).predicted == pytest.approx(128 * 2048 / 16 / simulate(*row.case).step_time_s)


def test_words_of_the_columns(tmp_path: Path) -> None:
    (row,) = rows(tmp_path, mp_mode="PURE", sharding="SHARD_GRAD_OP", ckpt="False", gpu="h100_80gb").rows
    (stage,) = row.case.strategy.jobs[0].stages
    assert row.case.workload.jobs[0].gradient_precision == "bf16"
    assert (stage.zero, stage.recompute) == (2, "none")
    assert row.case.cluster.device_kinds[0].name == "h100-sxm-80gb"


@pytest.mark.parametrize(
    ("column", "word"),
    [("model", "2t"), ("gpu", "v100"), ("precision", "fp4"), ("mp_mode", "NONE"), ("sharding", "HALF"),
     ("ckpt", "maybe"), ("batch", "130"), ("tokens_s_gpu", "-1")],
)  # fmt: skip
def test_what_is_wrong_is_one_line(tmp_path: Path, column: str, word: str) -> None:
    found = rows(tmp_path, **{column: word})
    assert not found.rows
    (problem,) = found.problems
    assert problem.line == 2
    assert column in problem.message
    assert "\n" not in problem.message


def test_published_rows_are_read_with_their_own_parameters(reference_dir: Path) -> None:
    path = reference_dir / SETS.get("mosaicml").path
    found = read(path)
    assert not found.problems
    with path.open() as file:
        records = list(csv.DictReader(file))
    assert len(found.rows) == len(records) == 70
    assert set(COLUMNS) <= set(records[0])
    for row in found.rows:
        elements = sum(item.elements for item in row.case.graph.parameters)
        assert elements == int(records[row.line - 2]["params"])
