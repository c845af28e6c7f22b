"""Modules of the zoo: their capture has the layers, the parameters and the wiring of the zoo's graph."""

from __future__ import annotations

from math import prod

import pytest

from explorer.graph import LayerGraph
from explorer.models import SOURCES, load_model
from explorer.models.captured_program import capture_program
from explorer.models.module_source import open_module
from explorer.models.modules import MODULES

SMALL = {
    "gpt": [
        ("gpt", {"layers": "2", "embed": "32", "heads": "4", "vocab": "50"}, 8),
        ("gpt", {"layers": "2", "embed": "32", "heads": "4", "vocab": "50", "tied": "false"}, 8),
    ],
    "llama": [
        (
            "llama",
            {"layers": "2", "embed": "32", "heads": "4", "kv_heads": "2", "ffn": "48", "vocab": "50"},
            8,
        ),
        (
            "llama",
            {
                "layers": "2",
                "embed": "32",
                "heads": "4",
                "kv_heads": "0",
                "head": "16",
                "ffn": "48",
                "tied": "true",
            },
            8,
        ),
    ],
    "resnet": [("resnet50", {}, None)],
    "vgg": [("vgg16", {}, None), ("vgg19", {}, None)],
    "vit": [("vit-l16", {}, None)],
    "bert": [("bert-large", {}, 16), ("bert-48", {}, 16)],
    "opt": [("opt-350m", {}, 16)],
    "t5": [("t5-large", {}, 32)],
}
"""Small graphs of each family."""

CASES = [case for cases in SMALL.values() for case in cases]


def wiring(graph: LayerGraph, names: dict[str, str]) -> dict[str, tuple[set[str], int]]:
    """Return, per layer, the layers whose tensors it reads, and how many parameters it holds."""
    found = {}
    for layer in graph.layers:
        before = {names[graph.producer[use.name]] for use in layer.reads if use.name in graph.producer}
        size = sum(prod(graph.parameter[use.name].shape) for use in layer.parameters)
        found[names[layer.name]] = before, round(size)
    return found


def test_every_family_has_a_small_case() -> None:
    assert set(SMALL) == set(MODULES.names())
    assert set(MODULES.names()) <= {item.family for item in SOURCES}


@pytest.mark.parametrize(("name", "settings", "tokens"), CASES)
def test_capture_has_the_layers_of_the_graph(name: str, settings: dict[str, str], tokens: int | None) -> None:
    graph = load_model(name, settings=settings, sequence_length=tokens)
    family = MODULES.get(SOURCES.get(name).family)
    source = open_module(name, settings=settings, sequence_length=tokens)  # its parameters have no values
    program = capture_program(source, samples=2)
    names = {layer.name: family.layer(layer.name) for layer in program.graph.layers}
    assert list(names.values()) == [layer.name for layer in graph.layers]
    assert wiring(program.graph, names) == wiring(graph, {layer.name: layer.name for layer in graph.layers})
    assert program.graph.parameter_count == graph.parameter_count


def test_a_family_is_named_after_its_file() -> None:
    """Whether a model has code is asked before torch is imported."""
    assert MODULES.files() == MODULES.names()
