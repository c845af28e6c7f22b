"""The card of a layer: its rows are what can be done, and what they come to is what the strategy takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

import explorer
from explorer.base.errors import ExplorerError, InputError
from explorer.export import EXPORTERS, export
from explorer.export.features import uses
from explorer.plan import load_plan, make_plan, resolve, save_plan
from explorer.strategies.differences import compare_strategies
from explorer.strategies.memory_choices import MEMORY_CHOICES, with_memory_choice
from explorer.views.graph import graph_view
from explorer.views.layer_card import (
    LAYOUT,
    MEMORY,
    Card,
    Choice,
    changed,
    choices,
    devices_of,
    layer_card_view,
    outcome_of,
)
from explorer.views.scene import Scene, make_scene
from explorer.workload import default_workload
from tests.support import view_shapes as shapes

GRAPH = explorer.load_model("gpt2-small")
CLUSTER = explorer.load_cluster("dgx-a100")
WORKLOAD = default_workload(GRAPH).with_job(global_batch=16)
START = explorer.uniform(GRAPH, CLUSTER, WORKLOAD.job, stages=2, tensor=2, replicas=2, microbatches=4)
UP, CORE = "layers.3.mlp.up", "layers.3.attention.attention"


def scene_of(strategy: explorer.Strategy) -> Scene:
    report = explorer.simulate(GRAPH, CLUSTER, WORKLOAD, strategy)
    return make_scene(GRAPH, CLUSTER, WORKLOAD, strategy, report)


SCENE = scene_of(START)


@pytest.mark.parametrize("card", [
    Card(layer=UP), Card(layer=UP, alike=True, kept_for="stages"), Card(layer="embed"),
    Card(layer=UP, whole=True), Card(layer=UP, kept_for="layer"), Card(layer=CORE, kept_for="alike"),
    Card(layer=UP, whole=True, kept_for="block"),
])  # fmt: skip
def test_every_row_that_is_offered_can_be_taken(card: Card) -> None:
    known = {}
    for choice in choices(SCENE, card):
        strategy = START.with_job(changed(SCENE, card, choice))
        report = explorer.simulate(GRAPH, CLUSTER, WORKLOAD, strategy)
        known[choice] = outcome_of(report, devices_of(SCENE, card, choice.kind))
    view = layer_card_view(SCENE, card, known)
    TypeAdapter(shapes.LayerCardView).validate_python(view)
    rows = [*view["layouts"], *view["memory"]]
    assert all((row["outcome"] is None) == (row["problem"] is not None) for row in rows)
    assert card.kept_for in dict(view["scopes"])
    assert bool(view["layouts"]) != card.whole
    for row in rows:
        if row["present"] and row["kind"] == LAYOUT and not card.alike:
            assert row["outcome"] == view["now"][LAYOUT]
    assert view["now"][LAYOUT]["step_s"] == SCENE.report.step_time_s


def test_what_is_not_known_yet_is_none_and_a_text_is_a_problem() -> None:
    card = Card(layer=UP)
    view = layer_card_view(SCENE, card, {Choice(LAYOUT, "by sequence"): "no room"})
    rows = {row["words"]: row for row in view["layouts"]}
    assert rows["whole on each device"]["outcome"] is None
    assert (rows["by sequence"]["problem"], rows["by sequence"]["outcome"]) == ("no room", None)
    assert view["title"] == "mlp.up of block 3"
    assert view["where"] == "stage 0: 2 replicas, each tensor 2"
    assert view["alike"] == 12


def test_a_stage_of_single_devices_says_why_nothing_can_be_split() -> None:
    scene = scene_of(explorer.uniform(GRAPH, CLUSTER, WORKLOAD.job, stages=2, replicas=2))
    view = layer_card_view(scene, Card(layer=UP))
    assert view["layouts"] == []
    assert "Each replica is one device" in view["no_layouts"]


def rows_of(scene: Scene, card: Card) -> dict[str, bool]:
    return {row["key"]: row["present"] for row in layer_card_view(scene, card)["memory"]}


def test_what_is_offered_of_layers_differs_from_what_their_stage_does() -> None:
    assert rows_of(SCENE, Card(layer=UP, kept_for="layer")) == {
        "as_stage": True, "full": False, "output": False, "to_host": False,
    }  # fmt: skip
    assert "selective" in rows_of(SCENE, Card(layer=CORE, kept_for="layer"))
    assert "selective" in rows_of(SCENE, Card(layer=UP, kept_for="block"))
    assert "output" not in rows_of(SCENE, Card(layer=UP, kept_for="block"))
    full = START.job.with_stages(replace(stage, recompute="full") for stage in START.job.stages)
    kept = rows_of(scene_of(START.with_job(full)), Card(layer=UP, kept_for="block"))
    assert "keep" in kept
    assert "full" not in kept


@pytest.mark.parametrize(("scope", "layers"), [("layer", 1), ("alike", 12), ("block", 10)])
def test_a_choice_is_for_what_the_card_says_and_is_undone_by_its_first_row(scope: str, layers: int) -> None:
    card = Card(layer=UP, kept_for=scope)
    made = changed(SCENE, card, Choice(MEMORY, "full"))
    named = [name for stage in made.stages for item in stage.keeping for name in item.layers]
    assert len(named) == layers
    assert {item.recompute for stage in made.stages for item in stage.keeping} == {"full"}
    scene = scene_of(START.with_job(made))
    assert rows_of(scene, card) | {"to_host": False} == rows_of(scene, card)
    assert [key for key, present in rows_of(scene, card).items() if present] == ["full"]
    assert changed(scene, card, Choice(MEMORY, "as_stage")) == START.job
    on_host = changed(scene, card, Choice(MEMORY, "to_host"))
    assert {(item.recompute, item.on) for stage in on_host.stages for item in stage.keeping} == {
        ("full", "host")
    }
    assert changed(scene_of(START.with_job(on_host)), card, Choice(MEMORY, "to_host")) == made


def test_a_layer_of_which_others_are_an_exception_is_mixed() -> None:
    made = changed(SCENE, Card(layer=UP, kept_for="layer"), Choice(MEMORY, "full"))
    view = layer_card_view(scene_of(START.with_job(made)), Card(layer=UP, kept_for="block"))
    assert {row["key"]: row["some"] for row in view["memory"]} == {
        "as_stage": True, "selective": False, "full": True, "to_host": False,
    }  # fmt: skip


def test_the_graph_says_what_is_kept_otherwise() -> None:
    block = changed(SCENE, Card(layer=UP, kept_for="block"), Choice(MEMORY, "full"))
    made = scene_of(START.with_job(block))
    view = graph_view(made, opened=["layers.3/*"])
    told = {node["id"]: node["own_keeping"] for node in view["nodes"] if "own_keeping" in node}
    assert told[UP] == told["layers.3"] == "recomputed"
    layer = changed(made, Card(layer=UP, kept_for="layer"), Choice(MEMORY, "to_host"))
    view = graph_view(scene_of(START.with_job(layer)), opened=["layers.3/*"])
    told = {node["id"]: node["own_keeping"] for node in view["nodes"] if "own_keeping" in node}
    assert told[UP] == "recomputed, to the host"
    assert told["layers.3"] == "9 layers recomputed; 1 layer recomputed, to the host"
    assert not any("own_keeping" in node for node in graph_view(SCENE)["nodes"])


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"no layout 'by magic' \(allowed: whole on each device, "):
        changed(SCENE, Card(layer=UP), Choice(LAYOUT, "by magic"))
    with pytest.raises(InputError, match="unknown choice 'less'"):
        changed(SCENE, Card(layer=UP), Choice(MEMORY, "less"))


def test_a_choice_of_the_hosts_memory_is_taken_back_by_choosing_it_again() -> None:
    job = START.job
    for choice in MEMORY_CHOICES:
        once = with_memory_choice(job, (0, 1), choice.key)
        assert all(choice.held_by(stage) for stage in once.stages)
        if choice.kind == "host":
            some = with_memory_choice(once, (1,), choice.key)
            assert [choice.held_by(stage) for stage in some.stages] == [True, False]
            assert with_memory_choice(once, (0, 1), choice.key) == job
    with pytest.raises(InputError, match="no stage 2"):
        with_memory_choice(job, (2,), "full")


@pytest.mark.parametrize("words", ["whole on each device", "by sequence", "own samples on each device"])
def test_layouts_of_single_layers_are_kept_by_plans_and_exported_or_refused(
    tmp_path: Path, words: str
) -> None:
    job = changed(SCENE, Card(layer=UP, alike=True), Choice(LAYOUT, words))
    plan = make_plan("gpt2-small", GRAPH, "dgx-a100", CLUSTER, WORKLOAD, START.with_job(job))
    save_plan(plan, {"model": GRAPH}, tmp_path / "plan.yaml")
    assert load_plan(tmp_path / "plan.yaml").plan.strategy == plan.strategy
    resolved = resolve(plan)
    used = {item.name for item in uses(resolved)}
    assert used & {"layer_layouts", "layer_meshes"}
    for name in EXPORTERS.names():
        if name in ("plan", "schedule_csv", "torchrun"):  # no other target can say it
            assert export(resolved, name, tmp_path / name)
            continue
        with pytest.raises(ExplorerError, match=r"layout|mesh"):
            export(resolved, name, tmp_path / name)


def test_a_comparison_names_the_layers_with_a_layout_of_their_own() -> None:
    job = changed(SCENE, Card(layer=UP), Choice(LAYOUT, "by sequence"))
    assert compare_strategies(START.job, job) == [
        f"stage 0: layouts of single layers none -> {UP}: seq over tensor"
    ]


def test_the_graph_says_which_layers_have_a_layout_of_their_own() -> None:
    job = changed(SCENE, Card(layer=UP, alike=True), Choice(LAYOUT, "by sequence"))
    view = graph_view(scene_of(START.with_job(job)), opened=["layers.3/*"])
    counts = {node["id"]: node["own_layouts"] for node in view["nodes"] if "own_layouts" in node}
    assert counts[UP] == counts["layers.3"] == counts["layers.3.mlp"] == 1
    assert sum(n for key, n in counts.items() if "×" in key) == 11
    plain = graph_view(SCENE, opened=["layers.3/*"])
    assert not any("own_layouts" in node for node in plain["nodes"])
