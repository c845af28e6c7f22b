"""Pickers: parameter counts beside models, device names beside clusters, and a field that finds a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import WidgetPage

from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.models import SOURCES, load_model
from widgets import Controls, Explorer
from widgets.fields import OTHER
from widgets.picker_words import PickerWords, cluster_words, model_words

Open = Callable[..., WidgetPage]


def fields(bench: Explorer) -> dict[str, dict[str, Any]]:
    return {field["key"]: field for field in bench.controls.view["fields"]}


def learnt() -> PickerWords:
    words = PickerWords()
    for _ in words.work():
        pass
    return words


def test_every_bundled_name_has_its_words() -> None:
    words = learnt()
    assert set(words.of("model")) == set(SOURCES.names())
    assert set(words.of("cluster")) == set(cluster_names())
    assert all(words.of("model").values())
    assert all(words.of("cluster").values())
    assert list(words.work()) == [], "learnt once"


@pytest.mark.parametrize("name", ["gpt2-xl", "llama3-405b", "resnet50"])
def test_parameters_are_those_of_the_graph(name: str) -> None:
    number, unit, _ = model_words(name).split()
    exact = load_model(name).parameter_count
    assert float(number) * {"M": 1e6, "B": 1e9}[unit] == pytest.approx(exact, rel=5e-3)


@pytest.mark.parametrize("name", cluster_names())
def test_devices_are_all_counted(name: str) -> None:
    cluster = load_cluster(name)
    parts = [part.split(" × ") for part in cluster_words(cluster).split(", ")]
    assert sum(int(number) for number, _ in parts) == cluster.device_count
    assert {kind for _, kind in parts} == {group.device_kind for group in cluster.nodes}


def test_the_pickers_say_them() -> None:
    bench = Explorer("gpt2-small", "dgx-a100", session=None)
    for _ in bench.showing.pickers.work():
        pass
    bench.showing.redraw()
    model, cluster = fields(bench)["model"], fields(bench)["cluster"]
    labels = {row["value"]: row["label"] for row in (*model["options"], *cluster["options"])}
    assert labels["llama3-8b"] == "llama3-8b: 8.03 B parameters"
    assert labels["hgx-h100-2048"] == "hgx-h100-2048: 16384 × h100-sxm-80gb"
    assert labels["gpt"] == "gpt: of any size"
    assert labels["gpt2-small"] == "gpt2-small", "the one chosen by its name alone"
    assert model["title"] == "124 M parameters"
    bench.controls.send_intent("set", key="model", value=OTHER)
    typed = fields(bench)["model"]
    assert typed["kind"] == "text"
    assert {row["value"] for row in typed["options"]} == set(SOURCES.names())
    bench.close()


@pytest.mark.browser
def test_a_name_is_found_by_typing(open_page: Open) -> None:
    page = open_page()
    options = [
        {"value": "llama3-8b", "label": "llama3-8b: 8.03 B parameters"},
        {"value": "opt-350m", "label": "x"},
    ]
    field = {"key": "model", "label": "Model: file", "kind": "text", "value": "", "options": options}
    page.show("controls", Controls(view={"fields": [field], "buttons": []}))
    box = page.page.locator("[data-field=model]")
    offered = page.page.evaluate(
        "[...document.querySelector('[data-field=model]').list.options].map((o) => o.value)"
    )
    assert offered == ["llama3-8b", "opt-350m"]
    box.focus()
    page.page.keyboard.type("llama3-8b")
    assert page.sent("controls") == [], "not before it is typed to its end"
    page.page.keyboard.press("Enter")
    assert page.sent("controls")[-1]["value"] == "llama3-8b"
    box.evaluate(
        "(e) => { e.value = 'opt-350m';"
        " e.dispatchEvent(new InputEvent('input', {inputType: 'insertReplacementText'})); }"
    )
    assert page.sent("controls")[-1]["value"] == "opt-350m", "picked from the list"
