"""Codes of layers: layers with one code cost the same under every choice, and so do their tensors.

They have the same names but for the numbers of blocks, the same dimensions, FLOPs and parameters, equally
shared, and their tensors are made and read as far away.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from explorer.graph import LayerGraph, Use

_NUMBER = re.compile(r"\d+")


def layer_codes(graph: LayerGraph) -> list[int]:
    """Return a number for every layer of a model, made once."""
    return graph.memo("layer codes", lambda: _codes(graph))


def _codes(graph: LayerGraph) -> list[int]:
    known: dict[object, int] = {}
    at, producer = graph.index, graph.producer
    users = Counter(use.name for layer in graph.layers for use in layer.parameters)
    found, before = [], ""
    for i, layer in enumerate(graph.layers):
        uses = tuple(
            _tensor(graph, use, [at[producer[use.name]] - i] if use.name in producer else [])
            for use in layer.reads
        )
        uses += tuple(
            _tensor(graph, use, [at[name] - i for name in graph.consumers.get(use.name, ())])
            for use in layer.writes
        )
        held = tuple(
            replace(graph.parameter[use.name], name=use.name if users[use.name] > 1 else _plain(use.name))
            for use in layer.parameters
        )
        alike = replace(
            layer, name="", block=_in_block(layer.block, before), reads=(), writes=(),
            parameters=tuple(replace(use, name="") for use in layer.parameters),
            saves=tuple(_plain(name) for name in layer.saves), backward_of=_plain(layer.backward_of),
        )  # fmt: skip
        found.append(known.setdefault((_plain(layer.name), alike, uses, held), len(known)))
        before = layer.block
    return found


def _in_block(block: str, before: str) -> str:
    """Return where a layer is in its block, so that runs with equal codes have as many blocks."""
    return "" if not block else "goes on" if block == before else "begins"


def _tensor(graph: LayerGraph, use: Use, others: list[int]) -> object:
    """Return all that matters of a tensor: what it is, and how far away it is made or read."""
    tensor = replace(graph.tensor[use.name], name="")
    return tensor, use.dims, use.name in graph.needs_gradient, tuple(others)


def _plain(name: str) -> str:
    """Return a name without its numbers."""
    return _NUMBER.sub("#", name)
