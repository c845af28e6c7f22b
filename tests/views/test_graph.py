"""The layer graph: whatever is open, every layer shows once, sums hold, and what is drawn is a DAG."""

from __future__ import annotations

import math
from functools import cache
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import explorer
from explorer.graph import Layer, LayerGraph, Measured, Tensor, Use
from explorer.models import SOURCES
from explorer.models.synthetic import chain
from explorer.strategy import Strategy
from explorer.views import Scene, blocks_view, graph_view, make_scene
from explorer.views.graph import first_opened, graph_index, one_step, still_open
from explorer.views.graph_folds import MOST_SIBLINGS
from explorer.views.graph_open import ALL, MOST_AT_FIRST, MOST_SHOWN, canonical, shown_parts
from explorer.views.graph_tree import layer_pairs, module_tree
from tests.support import view_shapes as shapes
from widgets.base import refuse_unsendable

DGX = explorer.load_cluster("dgx-a100")
View = dict[str, Any]


def scene_of(model: str | LayerGraph, **shape: Any) -> Scene:
    graph = explorer.load_model(model) if isinstance(model, str) else model
    workload = explorer.default_workload(graph).with_job(global_batch=64)
    strategy = explorer.uniform(graph, DGX, workload.job, **(shape or {"stages": 4, "replicas": 2}))
    return make_scene(graph, DGX, workload, strategy, explorer.simulate(graph, DGX, workload, strategy))


@pytest.fixture(scope="module")
def llama() -> Scene:
    return scene_of("llama3-8b")


def named(names: list[str], reads: dict[int, list[int]]) -> LayerGraph:
    """A graph of layers with these names; layer i reads what `reads[i]` write, else the one before."""
    return LayerGraph(
        name="made",
        layers=tuple(
            Layer(
                name=name,
                kind="conv",
                reads=tuple(Use(name=f"t{j}") for j in reads.get(i, [i - 1] if i else [])),
                writes=(Use(name=f"t{i}"),),
                measured=(Measured(forward_s=1e-3 + i * 1e-6, input_grad_s=1e-3, weight_grad_s=1e-3),),
            )
            for i, name in enumerate(names)
        ),
        tensors=tuple(Tensor(name=f"t{i}", shape=(8.0,), dtype="byte") for i in range(len(names))),
        defaults=chain([1.0]).defaults,
    )


def closed(view: View) -> list[View]:
    return [node for node in view["nodes"] if not node["open"]]


def covered(view: View) -> list[int]:
    """Positions of all layers of the closed nodes."""
    return sorted(
        i for node in closed(view) for first, count in node["ranges"] for i in range(first, first + count)
    )


def labels(view: View, parent: str | None = None) -> list[str]:
    return [node["label"] for node in view["nodes"] if node["parent"] == parent]


def check(scene: Scene, view: View) -> None:
    """What holds of every view."""
    TypeAdapter(shapes.GraphViewShape).validate_python(view)
    refuse_unsendable(view, "graph")
    count = len(scene.graph.layers)
    assert covered(view) == list(range(count)), "every layer once"
    nodes = {node["id"]: node for node in view["nodes"]}
    assert len(nodes) == len(view["nodes"]), "ids are unique"
    layers = [layer for block in blocks_view(scene) for layer in block["layers"]]
    for key in ("forward_s", "backward_s", "saved_bytes", "parameters"):
        assert math.isclose(
            sum(node[key] for node in closed(view)), sum(layer[key] for layer in layers), rel_tol=1e-9
        )
    states = ("weight_bytes", "gradient_bytes", "optimizer_bytes", "saved_bytes")
    assert math.isclose(
        sum(node["memory_bytes"] for node in closed(view)),
        sum(layer[key] for layer in layers for key in states),
        rel_tol=1e-9,
    )
    for node in view["nodes"]:
        own = sum(n for _, n in node["ranges"])
        assert sum(n for _, n in node["lanes"]) == own
        if node["parent"] is not None:
            assert nodes[node["parent"]]["open"]
        if node["open"]:
            inside = [other for other in view["nodes"] if other["parent"] == node["id"]]
            assert sum(n for other in inside for _, n in other["ranges"]) == own
            assert math.isclose(sum(o["forward_s"] for o in inside), node["forward_s"], rel_tol=1e-9)
    check_edges(scene, view, nodes)


def check_edges(scene: Scene, view: View, nodes: dict[str, View]) -> None:
    """Edges join siblings, or a frame with what is in it; siblings are a DAG; every dependency is told."""
    levels: dict[str | None, TopologicalSorter[str]] = {}
    told = set()
    for source, target, count in view["edges"]:
        assert count > 0
        told.add((source, target))
        if nodes[target]["parent"] == source or nodes[source]["parent"] == target:
            continue
        assert nodes[source]["parent"] == nodes[target]["parent"]
        levels.setdefault(nodes[source]["parent"], TopologicalSorter()).add(target, source)
    for level in levels.values():
        level.prepare()  # raises on a cycle
    owner = {
        i: node["id"] for node in closed(view) for first, n in node["ranges"] for i in range(first, first + n)
    }
    above = {key: [key, *parents(nodes, key)] for key in nodes}
    for a, b in layer_pairs(scene.graph):
        source, target = above[owner[a]], above[owner[b]]
        common = next((key for key in source if key in target), None)
        one, other = ([key for key in side if key not in target_of] for side, target_of in (
            (source, set(target)), (target, set(source))
        ))  # fmt: skip
        if not one or not other:
            assert common is not None or owner[a] == owner[b]
            continue
        path = [*one, *reversed(other)]
        assert all(step in told for step in pairwise(path)), (source, target)


def parents(nodes: dict[str, View], key: str) -> list[str]:
    found = []
    up = nodes[key]["parent"]
    while up is not None:
        found.append(up)
        up = nodes[up]["parent"]
    return found


# ---- folding and opening -------------------------------------------------------------------------


def test_equal_neighbours_are_folded_and_an_open_member_parts_them(llama: Scene) -> None:
    assert labels(graph_view(llama)) == ["embed", "block × 32", "norm", "head", "loss"]
    view = graph_view(llama, opened="layers.17")
    assert labels(view) == ["embed", "block × 17", "block 17", "block × 14", "norm", "head", "loss"]
    assert labels(view, "layers.17") == ["attention", "mlp"]
    check(llama, view)


def test_a_repeat_can_be_unfolded(llama: Scene) -> None:
    (repeat,) = [node for node in graph_view(llama)["nodes"] if node["count"] > 1]
    view = graph_view(llama, opened=[repeat["repeat"]])
    assert labels(view)[1:33] == [f"block {i}" for i in range(32)]
    assert all(node["repeat"] == repeat["repeat"] and node["unfolded"] for node in view["nodes"][1:33])
    check(llama, view)


def test_the_id_of_a_layer_opens_the_way_to_it(llama: Scene) -> None:
    view = graph_view(llama, opened=["layers.5.mlp.up"])
    assert view["opened"] == ["layers.5", "layers.5.mlp"]
    assert "up" in labels(view, "layers.5.mlp")
    assert graph_view(llama, opened=view["opened"])["opened"] == view["opened"], "canonical"


def test_all_levels_open_at_once(llama: Scene) -> None:
    view = graph_view(llama, opened=[f"layers.3{ALL}"])
    assert view["opened"] == ["layers.3", "layers.3.attention", "layers.3.mlp"]


def test_what_one_gesture_leads_to(llama: Scene) -> None:
    view = graph_view(llama, opened=["layers.3/*"])
    steps = one_step(view)
    assert [] in steps, "closing block 3 closes what is in it"
    assert ["layers.3", "layers.3.mlp"] in steps
    assert [*view["opened"], "layers.4"] in steps, "a repeat opens at its first member"
    assert [*view["opened"], "layers.0×32"] in steps
    assert ["layers.3"] not in steps
    unfolded = graph_view(llama, opened=["layers.0×32"])
    assert [] in one_step(unfolded)


def test_what_is_open_stays_so_in_a_model_of_the_same_names(llama: Scene) -> None:
    assert still_open(llama.graph, ["layers.3", "stage1"]) == ["layers.3"]
    assert still_open(sampled("resnet50").graph, ["layers.3", "stage1"]) == ["stage1"]


def test_unknown_ids_are_ignored(llama: Scene) -> None:
    assert graph_view(llama, opened=["nothing", "layers.99"]) == graph_view(llama)


@pytest.mark.parametrize("model", SOURCES.names())
def test_first_look_of_every_model(model: str) -> None:
    scene = scene_of(model, stages=2, replicas=1)
    for opened in ([], first_opened(scene.graph)):
        view = graph_view(scene, opened=opened)
        assert len(closed(view)) <= MOST_AT_FIRST
        check(scene, view)


@pytest.mark.parametrize("model", ["gpt2-small", "resnet50", "vgg16"])
def test_with_everything_open_it_is_the_flat_graph(model: str) -> None:
    """Oracle: the graph of the layers themselves."""
    scene = scene_of(model)
    graph, tree = scene.graph, module_tree(scene.graph)
    everything = canonical(tree, list(tree.part))
    view = graph_view(scene, opened=everything)
    assert view["omitted"] is None
    assert sorted(node["id"] for node in closed(view)) == sorted(layer.name for layer in graph.layers)
    check(scene, view)
    shown = {node["id"]: node for node in view["nodes"]}
    direct = {(a, b) for a, b, _ in view["edges"] if not shown[a]["open"] and not shown[b]["open"]}
    flat = {(graph.layers[a].name, graph.layers[b].name) for a, b in layer_pairs(graph)}
    assert direct == {(a, b) for a, b in flat if shown[a]["parent"] == shown[b]["parent"]}


@settings(max_examples=60)
@given(st.data())
def test_any_part_can_be_open(data: st.DataObject) -> None:
    scene = sampled(data.draw(st.sampled_from(["resnet50", "gpt2-small", "tangled"])))
    tree = module_tree(scene.graph)
    opened = data.draw(st.lists(st.sampled_from(sorted(tree.part)), max_size=6))
    view = graph_view(scene, opened=opened)
    check(scene, view)
    assert graph_view(scene, opened=view["opened"]) == view


def tangled() -> LayerGraph:
    """Modules whose layers alternate and feed each other: no two can be contracted without a cycle."""
    names = [f"{'ab'[i % 2]}.part{i % 3}.op{i}" for i in range(24)]
    return named(names, {i: sorted({i - 1, max(0, i - 4)}) for i in range(1, 24)})


@cache
def sampled(name: str) -> Scene:
    return scene_of(tangled(), stages=2, replicas=1) if name == "tangled" else scene_of(name)


@settings(max_examples=60)
@given(st.data())
def test_any_names_and_any_wiring_give_a_dag(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 24))
    path = st.lists(st.sampled_from(["a", "b", "0", "1", "conv"]), min_size=0, max_size=3)
    names = [".".join([*data.draw(path), f"op{i}"]) for i in range(count)]
    reads = {
        i: data.draw(st.lists(st.integers(0, i - 1), min_size=1, max_size=3, unique=True))
        for i in range(1, count)
    }
    graph = named(names, reads)
    tree = module_tree(graph)
    for opened in ([], data.draw(st.lists(st.sampled_from(sorted(tree.part)), max_size=5)), list(tree.part)):
        shown, _ = shown_parts(tree, canonical(tree, opened))
        own = [i for item in shown if not item.open for i in item.part.layers]
        assert sorted(own) == list(range(count))
        owner = {i: item.part.id for item in shown if not item.open for i in item.part.layers}
        order: TopologicalSorter[str] = TopologicalSorter()
        for a, b in layer_pairs(graph):
            if owner[a] != owner[b]:
                order.add(owner[b], owner[a])
        order.prepare()


# ---- names ---------------------------------------------------------------------------------------


def test_a_module_may_have_the_name_of_a_layer() -> None:
    scene = scene_of(named(["embed", "embed.norm", "embed.drop", "head"], {}), stages=2, replicas=1)
    view = graph_view(scene)
    assert [node["id"] for node in view["nodes"]] == ["embed", "embed#2", "head"]
    check(scene, graph_view(scene, opened=["embed#2"]))


def test_names_without_a_path_fall_back_to_what_lies_between_waists() -> None:
    """Fifty residual blocks of five layers with flat names: each is one part, none has a path."""
    names = [f"node{i}" for i in range(251)]
    reads = {i: ([i - 1, i - 5] if i % 5 == 0 else [i - 1]) for i in range(1, 251)}
    scene = scene_of(named(names, reads))
    view = graph_view(scene)
    assert len(closed(view)) <= MOST_SIBLINGS
    check(scene, view)
    inner = graph_view(scene, opened=["node103"])
    check(scene, inner)
    assert "node103" in {node["id"] for node in inner["nodes"]}
    frames = [node for node in inner["nodes"] if node["open"]]
    assert frames[-1]["label"].startswith("nodes ")


def test_single_children_are_merged_and_keep_their_names() -> None:
    scene = scene_of(named(["a.b.c.x", "a.b.c.y", "d.e.f", "g"], {}), stages=2, replicas=1)
    view = graph_view(scene)
    assert labels(view) == ["a", "e.f", "g"]
    assert view["nodes"][0]["name"] == "a.b.c"
    assert graph_view(scene, opened=["a.b"])["opened"] == ["a"], "every path that was merged means it"


def test_blocks_of_the_board_mean_parts(llama: Scene) -> None:
    tree = module_tree(llama.graph)
    for block in blocks_view(llama):
        part = tree.find(block["id"])
        assert part is not None
        assert [llama.graph.layers[i].name for i in part.layers] == [x["id"] for x in block["layers"]]


def test_index_names_every_layer_once(llama: Scene) -> None:
    index = graph_index(llama.graph)
    TypeAdapter(shapes.GraphIndex).validate_python(index)
    refuse_unsendable(index, "index")
    assert index["layers"] == [layer.name for layer in llama.graph.layers]
    assert [i for _, first, count in index["blocks"] for i in range(first, first + count)] == list(
        range(len(index["layers"]))
    )


# ---- size ----------------------------------------------------------------------------------------


def big(count: int = 5000) -> LayerGraph:
    """A chain with a residual around every ten operators, flat names, no two alike."""
    return named([f"op{i}" for i in range(count)], {i: [i - 1, i - 10] for i in range(10, count, 10)})


def test_five_thousand_operators_are_few_nodes_and_the_way_to_each_is_short() -> None:
    graph = big()
    tree = module_tree(graph)
    assert len(tree.roots) <= MOST_SIBLINGS
    assert all(len(part.children) <= MOST_SIBLINGS for part in tree.part.values())
    for name in ("op0", "op2503", "op4999"):
        opened = canonical(tree, [name])
        shown, refused = shown_parts(tree, opened)
        assert not refused
        assert name in {item.part.id for item in shown}
        assert len(shown) <= 4 * MOST_SIBLINGS


def test_more_than_can_be_drawn_stays_closed_and_is_said() -> None:
    scene = scene_of(big(1500))
    tree = module_tree(scene.graph)
    view = graph_view(scene, opened=list(tree.part))
    assert len(view["nodes"]) <= MOST_SHOWN
    assert "stay closed" in view["omitted"]
    assert covered(view) == list(range(1500))


def test_a_long_row_of_equal_layers_is_one_node() -> None:
    scene = scene_of(chain([1.0] * 300, parameter_bytes=4.0))
    view = graph_view(scene)
    assert labels(view) == ["layer × 300"]
    inner = graph_view(scene, opened=["layers.7"])
    assert labels(inner) == ["layer × 7", "layer 7", "layer × 292"]


# ---- errors and a second plan --------------------------------------------------------------------


def test_errors_are_weighted_with_time_and_unknown_stays_unknown(llama: Scene) -> None:
    names = [layer.name for layer in llama.graph.layers]
    view = graph_view(
        llama, opened=["layers.3"], errors={n: 0.25 for n in names if n.startswith("layers.3.")}
    )
    error = {node["id"]: node["error"] for node in view["nodes"]}
    assert error["layers.3"] == pytest.approx(0.25)
    assert error["embed"] is None
    assert view["no_errors"] is None
    one, two = "layers.3.mlp.up", "layers.3.mlp.norm"
    layers = {x["id"]: x for block in blocks_view(llama) for x in block["layers"]}
    time = {key: layers[key]["forward_s"] + layers[key]["backward_s"] for key in (one, two)}
    mixed = graph_view(llama, opened=["layers.3"], errors={one: 0.1, two: -0.3})
    expected = (0.1 * time[one] - 0.3 * time[two]) / sum(time.values())
    (mlp,) = [node for node in mixed["nodes"] if node["id"] == "layers.3.mlp"]
    assert mlp["error"] == pytest.approx(expected)


def test_without_a_run_the_reason_is_said(llama: Scene) -> None:
    assert graph_view(llama)["no_errors"] == "no run yet"
    assert graph_view(llama, no_errors="the run failed")["no_errors"] == "the run failed"


def test_a_second_plan_says_where_each_layer_is_in_it(llama: Scene) -> None:
    from explorer.strategies.moves import place_layers

    graph = llama.graph
    moves = {layer.name: 2 for layer in graph.layers if layer.block == "layers.16"}
    workload = explorer.default_workload(graph).with_job(global_batch=64)
    strategy = Strategy(jobs=(place_layers(graph, llama.strategy, moves, llama.groups),))
    report = explorer.simulate(graph, DGX, workload, strategy)
    other = make_scene(graph, DGX, workload, strategy, report, llama.groups)
    view = graph_view(llama, opened=["layers.16"], other=other, other_name="B")
    TypeAdapter(shapes.GraphViewShape).validate_python(view)
    nodes = {node["id"]: node for node in view["nodes"]}
    here, there = llama.lane_of_layer, other.lane_of_layer
    for node in closed(view):
        own = [graph.layers[i].name for first, n in node["ranges"] for i in range(first, first + n)]
        assert node["moved"] == sum(here[name] != there[name] for name in own)
    assert nodes["layers.16"]["moved"] == 14
    assert (nodes["layers.16"]["stages"], nodes["layers.16"]["other_stages"]) == ([1], [2])
    same = graph_view(llama, other=llama, other_name="B")
    assert not any(node["moved"] for node in same["nodes"])
    assert "moved" not in graph_view(llama)["nodes"][0]
