"""Plans with exceptions of layers from what their stage keeps: there and back, and one line if wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer.base.errors import InputError
from explorer.plan import Plan, from_document, to_document
from explorer.plan_text import packed, unpacked
from explorer.strategy import Keeping, Strategy
from explorer.views.strategy_words import strategy_words
from explorer.workload import default_workload

ITEMS = (
    Keeping(layers=("layers.1.*",), recompute="full", on="host"),
    Keeping(layers=("layers.2.mlp.up", "layers.2.mlp.gelu"), recompute="output"),
    Keeping(layers=("layers.3.*",), on="host"),
)


def document() -> tuple[dict[str, Any], Plan]:
    """The plain data of a plan whose first stage has exceptions."""
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster("dgx-a100")
    workload = default_workload(graph)
    job = explorer.uniform(graph, cluster, workload.job, stages=2).job
    job = job.with_stages((replace(job.stages[0], keeping=ITEMS), job.stages[1]))
    plan = explorer.make_plan("gpt2-small", graph, "dgx-a100", cluster, workload, Strategy(jobs=(job,)))
    return to_document(plan, {"model": graph}), plan


@pytest.mark.parametrize("ending", ["yaml", "json"])
def test_exceptions_come_back(ending: str, tmp_path: Path) -> None:
    _, plan = document()
    explorer.save_plan(plan, {"model": explorer.load_model("gpt2-small")}, tmp_path / f"plan.{ending}")
    assert explorer.load_plan(tmp_path / f"plan.{ending}").plan == plan


def test_they_come_back_from_the_text_that_is_shared() -> None:
    data, plan = document()
    assert from_document(unpacked(packed(data))).plan.strategy == plan.strategy


def test_the_key_on_needs_no_quotes(tmp_path: Path) -> None:
    """Bare it is a truth value of YAML 1.1."""
    _, plan = document()
    explorer.save_plan(plan, {"model": explorer.load_model("gpt2-small")}, tmp_path / "plan.yaml")
    text = (tmp_path / "plan.yaml").read_text()
    assert "'on': host" in text
    (tmp_path / "plan.yaml").write_text(text.replace("'on': host", "on: host"))
    assert explorer.load_plan(tmp_path / "plan.yaml").plan == plan


def test_a_strategy_in_words_names_them() -> None:
    _, plan = document()
    words = strategy_words(plan.strategy.job)
    assert "10 layers recomputed, to the host" in words
    assert "2 layers dropped and remade" in words
    assert "10 layers to the host" in words


@pytest.mark.parametrize(
    ("item", "said"),
    [
        (
            {"layers": ["layers.1.*"], "recompute": "twice"},
            r"unknown recompute 'twice'.*none, selective, full",
        ),
        ({"layers": ["layers.1.*"], "on": "disk"}, r"unknown on 'disk'.*device, host"),
        ({"layers": ["layers.1.*"]}, "needs layers and a choice"),
        ({"layers": [], "on": "host"}, "needs layers and a choice"),
        ({"on": "host"}, "layers"),
        ({"layers": [3], "on": "host"}, "layers"),
        ({"layers": "layers.1.*", "on": "host"}, "layers"),
        ({"layers": ["layers.1.*"], "on": ["host"]}, "on"),
        ({"layers": ["layers.1.*"], "on": "host", "where": "x"}, "where"),
        (None, "keeping"),
        ("full", "keeping"),
        (7, "keeping"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_its_place(item: Any, said: str) -> None:
    data, _ = document()
    data["strategy"]["jobs"][0]["stages"][0]["keeping"] = [item]
    with pytest.raises(InputError, match=said) as caught:
        from_document(data, file="plan.yaml")
    assert caught.value.file == "plan.yaml"
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("wrong", [3, "full", {"layers": ["x"]}, None])
def test_exceptions_are_a_list(wrong: Any) -> None:
    data, _ = document()
    data["strategy"]["jobs"][0]["stages"][0]["keeping"] = wrong
    with pytest.raises(InputError, match="keeping"):
        from_document(data, file="plan.yaml")
