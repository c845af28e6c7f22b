"""What published sentences and scripts say of a run, and how near the predictions are."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.score.rows import SETS
from explorer.score.running import score

RUNS = """### torchtitan benchmarks: sequence 8192
8B, FSDP 8 GPUs, local batch 2, selective recomputation: 5000 tokens/s/GPU, 80 GiB; torch.compile 6000 and 75.
8B, FSDP 8 GPUs, local batch 2, fp8: 8000 tokens/s/GPU, 80 GiB.
8B, FSDP 2 x TP 4, local batch 2, full recomputation: 4000 tokens/s/GPU, 50 GiB; async TP 4500 and 50.

### Megatron PTD-P, SC'21 Table 1
| params B | heads | hidden | layers | TP | PP | GPUs | batch | TFLOP/s per GPU |
|---|---|---|---|---|---|---|---|---|
| 1.7 | 24 | 2304 | 24 | 1 | 1 | 32 | 512 | 100 |
| 145.6 | 96 | 12288 | 80 | 8 | 8 | 1536 | 2304 | 100 |
| 2.0 | 16 | 2048 | 24 | 2 | 2 | 32 | 512 | 100 |
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "published.md"
    found.write_text(f"# Title\n\n{RUNS}")
    return found


def test_techniques_of_torchtitan(path: Path) -> None:
    read = SETS.get("torchtitan").function(path)
    assert not read.problems
    eager, compiled, fp8, plain, tiled = [row.case for row in read.rows]
    norms = [case.graph.layer["layers.1.mlp.norm"].forward.moved_elements for case in (eager, compiled)]
    assert norms[0] == 9 * norms[1]
    assert [case.workload.job.precision for case in (eager, compiled, fp8)] == ["bf16", "bf16", "fp8"]
    assert fp8.cluster is eager.cluster
    assert not plain.strategy.job.stages[0].overlap
    assert tiled.strategy.job.stages[0].overlap == (("tensor", "tiles"),)
    assert eager.strategy.job.stages[0].recompute == plain.strategy.job.stages[0].recompute == "selective"
    policies = {case.graph.layer["layers.0.mlp.gate"].selective for case in (eager, plain)}
    assert policies == {"keep", "again"}


def test_microbatches_and_chunks_are_those_of_the_script(path: Path) -> None:
    first, large, other = [row.case for row in SETS.get("megatron_table1").function(path).rows]
    assert first.strategy.job.stages[0].microbatch_samples == 16 * 32
    assert not any(layer.gradient_passes for layer in first.graph.layers)  # one microbatch: nothing to add
    assert large.strategy.job.stages[0].microbatch_samples == 2 * 24
    assert len(large.strategy.job.stages) == 8 * 2
    assert large.graph.layer["layers.0.mlp.up"].gradient_passes == 3
    # Unknown to the script: two blocks a chunk are the first choice.
    assert len(other.strategy.job.stages) == 2 * 6


@pytest.mark.reference
@pytest.mark.parametrize("name", ["torchtitan", "llama3"])
def test_h100_runs_are_near(reference_dir: Path, name: str) -> None:
    (scored,) = score({name: reference_dir / "published.md"}, processes=1)
    assert scored.statistics is not None
    assert scored.statistics.mean_abs_error_pct < 6


@pytest.mark.reference
def test_pipedreams_configurations_are_the_best_predicted(reference_dir: Path) -> None:
    (scored,) = score({"pipedream_table1": reference_dir / "published.md"}, processes=1)
    for row in scored.outcomes:
        published = row.name.split("A ")[-1].split("B ")[-1].split(" (")[0]
        assert row.note == f"best predicted: {published}", row.name
