"""Saved graphs: exact both ways, and clear about what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.graph import Defaults, Dim, Layer, LayerGraph, Measured, Parameter, Tensor, Use, Work
from explorer.models import SOURCES, load_model, saved
from explorer.models.synthetic import branches, chain

NUMBERS = st.floats(0, 1e30) | st.integers(0, 2**60).map(float)
NAMES = st.text(min_size=1, max_size=6)
WORKS = st.builds(Work, flops=NUMBERS, moved_elements=NUMBERS)
MEASURED = st.builds(
    Measured, forward_s=NUMBERS, input_grad_s=NUMBERS, weight_grad_s=NUMBERS, device_kind=NAMES,
    batch=NUMBERS, tensor_degree=st.integers(1, 8), halves=st.booleans(),
)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> LayerGraph:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    layers = tuple(
        Layer(
            name=name,
            kind=draw(NAMES),
            block=draw(st.sampled_from(["", "layers.0"])),
            dims=tuple(
                draw(st.lists(st.builds(Dim, name=NAMES, size=NUMBERS, splittable=st.booleans()), max_size=2))
            ),
            reads=(Use(name=names[i - 1], dims=("a", "")),) if i else (),
            writes=(Use(name=name),),
            parameters=(Use(name="w", dims=tuple(draw(st.lists(NAMES, max_size=2)))),),
            forward=draw(WORKS),
            weight_grad=draw(WORKS),
            saves=(name,),
            measured=tuple(draw(st.lists(MEASURED, max_size=2))),
            colocation=draw(st.sampled_from(["", "c"])),
            trips=draw(st.integers(1, 5)),
        )
        for i, name in enumerate(names)
    )
    epochs = tuple(sorted(draw(st.dictionaries(st.integers(1, 9), NUMBERS, max_size=2)).items()))
    return LayerGraph(
        name=draw(NAMES),
        layers=layers,
        tensors=tuple(Tensor(name=name, shape=(draw(NUMBERS),), dtype="byte") for name in names),
        parameters=(Parameter(name="w", shape=(draw(NUMBERS), 2.0), trainable=draw(st.booleans())),),
        defaults=Defaults(global_batch=draw(st.integers(1, 9)), epochs=epochs),
        source=draw(st.text(max_size=5)),
    )


@given(graphs())
def test_round_trip_is_exact(graph: LayerGraph) -> None:
    assert saved.read(json.loads(saved.to_json(graph))) == graph


@pytest.mark.parametrize("name", SOURCES.names())
def test_zoo_round_trip(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    saved.save(load_model(name), path)
    assert load_model(str(path)) == load_model(name)


def test_golden_text() -> None:
    assert saved.to_json(chain([1.0], backward_s=3.0, activation_bytes=2.0)) == (
        '{\n"schema": "explorer.layer_graph/1",\n"name": "chain",\n"layers": [\n'
        ' {"name": "layers.0", "block": "layers.0", "reads": [{"name": "x"}], "writes": [{"name": "t0"}], '
        '"parameters": [{"name": "w0"}], '
        '"measured": [{"forward_s": 1.0, "input_grad_s": 1.5, "weight_grad_s": 1.5, "halves": true}]}\n],\n'
        '"tensors": [\n {"name": "x", "shape": [0.0], "dtype": "byte", "backward": false},\n'
        ' {"name": "t0", "shape": [2.0], "dtype": "byte"}\n],\n'
        '"parameters": [\n {"name": "w0", "shape": [0.0], "dtype": "fp32"}\n],\n'
        '"defaults": {"precision": "fp32", "optimizer": "none"}\n}\n'
    )


def test_hand_written_units_are_understood() -> None:
    data = json.loads(saved.to_json(chain([1.0])))
    data["layers"][0]["measured"][0]["forward_s"] = "1000 ms"
    assert saved.read(data) == chain([1.0])


def wrong(change: Callable[[dict[str, Any]], object]) -> InputError:
    data = json.loads(saved.to_json(branches()))
    change(data)
    with pytest.raises(InputError) as caught:
        saved.read(data, file="model.json")
    assert caught.value.file == "model.json"
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda d: d.update(schema="explorer.layer_graph/2"), "schema"),
        (lambda d: d.pop("schema"), "schema"),
        (lambda d: d.pop("layers"), "layers"),
        (lambda d: d.update(layers=[]), "layers"),
        (lambda d: d.update(colour="red"), "colour"),
        (lambda d: d["layers"][1].update(colour="red"), "layers[1].colour"),
        (lambda d: d["layers"][1].update(name=3), "layers[1].name"),
        (lambda d: d["layers"][1].update(trips=1.5), "layers[1].trips"),
        (lambda d: d["layers"][1]["measured"][0].update(forward_s=-1), "layers[1].measured[0].forward_s"),
        (lambda d: d["layers"][1]["measured"][0].update(forward_s=True), "layers[1].measured[0].forward_s"),
        (lambda d: d["tensors"][0].update(shape=[float("inf")]), "tensors[0].shape[0]"),
        (lambda d: d["tensors"][0].update(shape=[float("nan")]), "tensors[0].shape[0]"),
        (lambda d: d["tensors"].append(d["tensors"][0]), "tensors"),
        (lambda d: d["layers"][0]["reads"][0].update(name="?"), "layers.first"),
        (lambda d: d["layers"].reverse(), "layers.join"),
        (lambda d: d.update(_memo={}), "_memo"),
    ],
)
def test_wrong_values_are_named(change: Callable[[dict[str, Any]], object], key: str) -> None:
    assert wrong(change).key == key


def test_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot write"):
        saved.save(chain([1.0]), tmp_path / "nowhere" / "a.json")
