"""Two plans in a trainer's own words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer.base.errors import InputError, PlanError
from explorer.cli.main import main
from explorer.export.features import FEATURES
from explorer.export.words import Change, changes, speaking
from explorer.plan import save_plan
from tests.export.samples import resolved

SCRIPT = Path(__file__).parent / "trainers" / "megatron" / "defaults_llama.sh"


def test_a_change_is_said_by_the_settings_that_change() -> None:
    before = resolved(tensor=8, microbatches=64, recompute="selective")
    after = resolved(tensor=4, replicas=2, microbatches=64)
    said = [str(change) for change in changes(before, after, "megatron")]
    assert "--tensor-model-parallel-size 8 -> 4" in said
    assert "--recompute-granularity selective -> not set" in said
    assert changes(before, before, "megatron") == []


def test_flags_are_on_or_off() -> None:
    assert str(Change(key="--sequence-parallel", before=True, after=None)) == "--sequence-parallel off"
    assert str(Change(key="--sequence-parallel", before=None, after=True)) == "--sequence-parallel on"
    assert str(Change(key="--x", before=None, after=3)) == "--x 3 (was not set)"


@pytest.mark.parametrize("name", speaking())
def test_every_target_with_words_says_another_batch(name: str) -> None:
    one, other = (resolved(replicas=4, microbatches=count, zero=3) for count in (4, 8))
    assert changes(one, one, name) == []
    assert changes(one, other, name)


def test_what_has_no_words_or_cannot_be_said() -> None:
    plan = resolved(replicas=4, microbatches=4)
    with pytest.raises(InputError, match="no settings of its own"):
        changes(plan, plan, "plan")
    with pytest.raises(PlanError, match="gpipe"):
        changes(plan, resolved(stages=4, microbatches=8, schedule="gpipe"), "megatron")


def test_a_script_is_imported_and_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = tmp_path / "a.yaml", tmp_path / "b.yaml"
    assert main(["import", str(SCRIPT), "-o", str(a), "--json"]) == 0
    out, err = capsys.readouterr()
    told = json.loads(out)
    assert "--my-own-flag 7: as if it were not there" in err
    assert "no effect on the split: " in err
    assert "assumed: model llama3-8b" in err
    assert {"--my-own-flag"} <= {item["key"] for item in told["unknown"]}
    plan = resolved(cluster="dgx-a100-4", stages=2, tensor=2, replicas=4, microbatches=64, cuts=[1 + 14 * 16])
    save_plan(plan.plan, plan.graphs, b)
    assert main(["diff", str(a), str(b), "--in", "megatron"]) == 0
    assert "--tensor-model-parallel-size 4 -> 2" in capsys.readouterr().out


def test_the_page_of_exports_has_every_feature() -> None:
    page = (Path(__file__).parents[2] / "docs" / "exports.md").read_text("utf-8")
    assert not [feature.name for feature in FEATURES if f"| {feature.title} |" not in page]
