"""Names of layers, blocks and links in words: the same in sentences, on the board and in the layer graph."""

from __future__ import annotations

import re

from explorer.graph import LayerGraph

LINK_NAMES = {
    "nvlink": "NVLink", "nvswitch": "NVSwitch", "fabric": "chip fabric", "pcie": "PCIe",
    "infiniband": "InfiniBand", "ethernet": "Ethernet", "internet": "internet",
    "shared": "shared memory", "host": "host",
}  # fmt: skip
"""Kinds of link that the page draws, by name."""

NUMBERED = re.compile(r"^(?:node)?_?(\d+)$")
"""Last part of a name that only counts, as the operators of a profile have (`node7`)."""
_SHORT = {"other": "layer", "elementwise": "elem.", "embedding": "embed"}


def link_kind(kind: str) -> str:
    """Return a cluster's link kind as the page knows it."""
    return {"shared_memory": "shared", "local": "shared"}.get(kind, kind if kind in LINK_NAMES else "shared")


def link_words(kind: str) -> str:
    """Name a cluster's kind of link as its makers do; one of an own profile keeps its name.

    >>> link_words("nvswitch"), link_words("shared_memory"), link_words("torus")
    ('NVSwitch', 'shared memory', 'torus')
    """
    return LINK_NAMES.get("shared" if kind == "shared_memory" else kind, kind)


def numbered_layer(name: str, kind: str) -> str | None:
    """Name a layer that is only numbered by its kind; None if it has a name of its own.

    >>> numbered_layer("node15", "conv"), numbered_layer("head", "linear")
    ('conv 15', None)
    """
    number = NUMBERED.match(name)
    return f"{_SHORT.get(kind, kind)} {number[1]}" if number else None


def one_list(graph: LayerGraph) -> bool:
    """Tell whether all numbered blocks of a model count on in one list, so that a number alone says which."""

    def make() -> bool:
        split = [name.rpartition(".") for name in {layer.block for layer in graph.layers}]
        return len({parent for parent, _, last in split if last.isdigit()}) <= 1

    return graph.memo("names.one_list", make)


def block_words(graph: LayerGraph, name: str) -> str:
    """Name a block: `block 7`, or `down 3` where several lists have a block 3; others keep their name."""
    parent, _, last = name.rpartition(".")
    if not last.isdigit():
        return name
    return f"block {last}" if one_list(graph) or not parent else f"{parent.rpartition('.')[2]} {last}"


def block_name(graph: LayerGraph, layer: str) -> str:
    """Name the block of a layer, or the layer if it is in none: `block 7`, `head`, `conv 15`."""
    own = graph.layer[layer]
    if own.block:
        return block_words(graph, own.block)
    return numbered_layer(layer.rpartition(".")[2], own.kind) or layer


def counted(count: float, noun: str) -> str:
    """Write a number with its noun: `1 microbatch`, `32 microbatches`.

    >>> counted(1, "microbatch"), counted(32, "microbatch"), counted(2, "stage")
    ('1 microbatch', '32 microbatches', '2 stages')
    """
    if count == 1:
        return f"1 {noun}"
    return f"{count:,g} {noun}{'es' if noun.endswith('ch') else 's'}".replace(",", "\N{NO-BREAK SPACE}")
