from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.cli.scoring import ROW_SETS
from explorer.score.published import section_of, sections
from explorer.score.reading import ENVIRONMENT
from explorer.score.rows import SETS, ReadRows
from explorer.score.sets.pipedream import stage_counts

TEXT = """# Title

### Megatron PTD-P, SC'21 Table 1 (T)
| params B | heads | hidden | layers | TP | PP | GPUs | batch | TFLOP/s per GPU |
|---|---|---|---|---|---|---|---|---|
| 1.7 | 24 | 2304 | 24 | 1 | 1 | 32 | 512 | 137 |
| 1.7 | 24 | 2304 | 24 | 3 | 1 | 32 | 512 | 137 |
| 1.7 | 24 | 2304 | 24 | 1 | 99 | 99 | 512 | 137 |
| 1.7 | 24 | wide | 24 | 1 | 1 | 32 | 512 | 137 |
| 1.7 | 24 | 2304 | 24 | 1 | 1 | 32 |

### Korthikanti Table 5
| model | GPUs t/p/d, interleave | batch / micro | full | selective |
|---|---|---|---|---|
| 22B (48 layers, h 6144, 64 heads) | 8: 8/1/1, 1 | 4/4 | 1.42 | 1.10 |
| 22B (48 layers, h 6144, 64 heads) | 9: 8/1/1, 1 | 4/4 | 1.42 | 1.10 |
| 22B | 8: 8/1/1, 1 | 4/4 | 1.42 | 1.10 |

### Zero Bubble: layers/heads/hidden/seq/stages/microbatch: 1.5B 22/24/2304/1024/8/6
| Table 4, samples/GPU/s | 1.5B m=24/32 | memory GB |
|---|---|---|
| ZB-2p | 14.5/14.8 | 59 |
| ZB-V | 14.5/14.8 | 59 |
| ZB-1p | 12.9 | 32 |
| 1F1B | 11.8/12.5 | 30 |

### torchtitan benchmarks: sequence 8192
8B, FSDP 8 GPUs, local batch 2, selective recomputation: 5762 tokens/s/GPU, 82.4 GiB.
9B, FSDP 8 GPUs: 1 tokens/s/GPU, 2 GiB.
8B, FSDP 8 x TP 2, 8 GPUs: 1 tokens/s/GPU, 2 GiB. 8B, FSDP 8 GPUs, local batch 2: many.
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "published.md"
    found.write_bytes(b"\xef\xbb\xbf" + TEXT.replace("\n", "\r\n").encode())
    return found


def read(name: str, path: Path) -> ReadRows:
    return SETS.get(name).function(path)


@pytest.mark.parametrize(
    ("name", "rows", "wrong"),
    [
        ("megatron_table1", [6], [7, 8, 9, 10]),
        ("korthikanti", [15, 15], [16, 17]),
        ("zero_bubble", [22, 22], [23, 24]),
        ("torchtitan", [28], [29, 30, 30]),
    ],
)
def test_rows_and_wrong_rows_have_their_lines(
    path: Path, name: str, rows: list[int], wrong: list[int]
) -> None:
    found = read(name, path)
    assert [row.line for row in found.rows] == rows
    assert sorted(problem.line for problem in found.problems) == wrong
    assert all(problem.file == "published.md" and problem.message for problem in found.problems)


def test_a_ratio_is_of_the_same_model_and_microbatches(path: Path) -> None:
    assert [row.measured for row in read("zero_bubble", path).rows] == pytest.approx(
        [14.5 / 11.8, 14.8 / 12.5]
    )


def test_a_missing_section_is_an_error(path: Path) -> None:
    with pytest.raises(InputError, match="no heading with Llama 3"):
        section_of(path, "Llama 3")
    with pytest.raises(InputError, match="no table with speedup"):
        sections(TEXT)[1].table("speedup")


@pytest.mark.parametrize("text", ["15-2", "0-16", "a-b", "", "17"])
def test_wrong_configurations(text: str) -> None:
    with pytest.raises(InputError, match="configuration"):
        stage_counts(text, 16)


@pytest.mark.parametrize("name", SETS.names())
def test_facts_of_every_set(name: str) -> None:
    entry = SETS.get(name)
    assert entry.title
    assert entry.paper
    assert entry.path or name in ROW_SETS
    assert entry.source
    assert entry.unit in {"s", "ratio", "flops_per_s", "samples_per_s", "tokens_per_s"}
    assert isinstance(entry.device, tuple)


def test_the_table_of_the_readme_has_every_published_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    table = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "accuracy.py"))
    paths = table["published_paths"]()
    assert set(paths) == {name for name in SETS.names() if SETS.get(name).path}
    assert "vtrain_single" in paths
    assert all(path.is_relative_to(tmp_path) for path in paths.values())
