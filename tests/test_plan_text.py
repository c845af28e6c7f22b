"""Plans as short texts: they open as the same plan; damaged, foreign and later ones are refused in words."""

from __future__ import annotations

import base64
import hashlib
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.plan import SHARED, Plan, fingerprint, from_document, own_files
from explorer.plan_text import LINK, is_packed, packed, unpacked
from explorer.strategies.uniform import uniform

PLANS = sorted((Path(__file__).parent / "plans").glob("*.yaml"))
SMALL = packed({"schema": "explorer.plan/1", "models": {}})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def forged(data: bytes, version: int = 1) -> str:
    """A text with a right checksum around any data."""
    body = base64.urlsafe_b64encode(data).decode().rstrip("=")
    return f"explorer-plan:{version}:{hashlib.sha256(body.encode()).hexdigest()[:8]}:{body}"


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_opens_again_as_itself(path: Path) -> None:
    given_ = explorer.load_plan(path)
    text = explorer.share_text(given_.plan, given_.graphs)
    again = from_document(unpacked(text), folder=path.parent)
    assert again.plan == given_.plan
    assert again.mismatches == given_.mismatches


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5))
def test_any_plain_data_comes_back(data: dict[str, Any]) -> None:
    text = packed(data)
    assert is_packed(text)
    assert unpacked(text) == data
    assert all(letter.isascii() and (letter.isalnum() or letter in ":-_") for letter in text)


@pytest.mark.parametrize(
    "around", ["{}", "  {}\n", "<{}>", '"{}"', "https://example.org/plans?a=1#{}", "({})"]
)
def test_it_may_stand_in_a_mail_or_an_address(around: str) -> None:
    text = around.format(SMALL)
    assert is_packed(text)
    assert unpacked(text) == unpacked(SMALL)
    lines = "\n".join(text[i : i + 20] for i in range(0, len(text), 20))
    assert unpacked(lines) == unpacked(SMALL)


def test_llama_405b_on_16384_devices_fits_in_a_link() -> None:
    model, cluster = explorer.load_model("llama3-405b"), explorer.load_cluster("hgx-h100-2048")
    workload = explorer.default_workload(model)
    shape = {"stages": 16, "replicas": 128, "tensor": 8, "microbatches": 16}
    strategy = uniform(model, cluster, workload.job, **shape)  # type: ignore[arg-type]
    plan = explorer.make_plan("llama3-405b", model, "hgx-h100-2048", cluster, workload, strategy)
    text = explorer.share_text(plan, {"model": model})
    assert (
        len({device for stage in strategy.job.stages for m in stage.meshes for device in m.devices}) == 16384
    )
    assert len(text) < LINK
    assert fingerprint(explorer.load_plan(text).plan.strategy) == fingerprint(strategy)


@given(st.data())
def test_one_changed_or_lost_character_is_found(data: st.DataObject) -> None:
    at = data.draw(st.integers(SMALL.index(":1:") + 3, len(SMALL) - 1))
    other = data.draw(st.sampled_from(["", "A", "b", "7", "-", "%"]))
    changed = SMALL[:at] + other + SMALL[at + 1 :]
    if changed == SMALL:
        return
    with pytest.raises(InputError) as caught:
        unpacked(changed)
    assert "damaged" in str(caught.value)
    assert "the whole text" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SMALL.replace(":1:", ":2:", 1), "of version 2, this release reads version 1"),
        ("explorer-plan", "not the text of a plan"),
        ("plan.yaml", "not the text of a plan"),
        ("", "not the text of a plan"),
        ("explorer-plan:1:", "damaged"),
        (forged(b"no zlib at all"), "cannot be unpacked"),
        (forged(zlib.compress(b"{}" * 50)[:-6]), "cut short"),
        (forged(zlib.compress(b" " * (17 * 2**20))), "too long"),
        (forged(zlib.compress(b"[1, 2")), "not JSON"),
        (forged(zlib.compress(b"[" * 5000)), "nested"),
    ],
)
def test_what_is_no_plan_says_why(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        unpacked(text)
    assert said in str(caught.value)


def test_another_document_is_no_plan() -> None:
    with pytest.raises(InputError, match="not a plan") as caught:
        explorer.load_plan(packed({"schema": "explorer.session/1"}))
    assert caught.value.file == SHARED


def test_it_names_code_and_never_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap_of_a_text.py").write_text("raise SystemExit('this ran')")
    monkeypatch.syspath_prepend(tmp_path)
    document = {
        "schema": "explorer.plan/1",
        "models": {"model": {"reference": "trap_of_a_text:make"}},
        "cluster": {"reference": "dgx-a100"},
        "workload": {},
        "strategy": {"jobs": [{"stages": [{"layers": ["a"], "meshes": [{"devices": [0]}]}]}]},
    }
    with pytest.raises(InputError, match="runs code"):
        explorer.load_plan(packed(document))


def test_files_and_code_that_it_names_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan: Plan = explorer.load_plan(PLANS[0]).plan
    monkeypatch.chdir(tmp_path)
    assert own_files(plan) == []
    Path("mine.yaml").write_text("")
    cluster = replace(plan.cluster, reference="mine.yaml")
    model = replace(plan.models[0][1], reference="my_net:build")
    assert own_files(replace(plan, cluster=cluster, models=(("model", model),))) == [
        "my_net:build",
        "mine.yaml",
    ]
