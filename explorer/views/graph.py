"""The layer graph: blocks with equal neighbours folded, one block open. Only what is shown is listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from explorer.views.blocks import block_ranges, blocks_view
from explorer.views.scene import Scene

MOST_NODES = 120
"""Nodes shown; a model with more unequal blocks is folded by neighbourhood."""


def graph_view(scene: Scene, *, opened: str | None = None) -> dict[str, Any]:
    """`GraphView.view` with the block `opened` unfolded (None, or an unknown id: nothing open)."""
    blocks = blocks_view(scene)
    shown = next((i for i, block in enumerate(blocks) if block["id"] == opened), None)
    if shown is not None and len(blocks[shown]["layers"]) < 2:
        shown = None
    folds = _folds(blocks, shown)
    lanes = scene.lane_of_layer
    owner = {block["id"]: lanes.get(block["layers"][0]["id"], "") for block in blocks}
    return {
        "nodes": [_node([blocks[i] for i in fold], owner) for fold in folds],
        "edges": _edges(scene, blocks, folds),
        "open": None if shown is None else _open(scene, blocks[shown], lanes),
    }


def _signature(block: dict[str, Any]) -> tuple[Any, ...]:
    """What makes two blocks look the same: their layers and costs, to nine digits."""
    return (
        block["kind"] == "block",
        tuple(
            (item["label"], item["kind"], f"{item['forward_s']:.9g}", item["parameters"])
            for item in block["layers"]
        ),
    )


def _folds(blocks: Sequence[dict[str, Any]], shown: int | None) -> list[list[int]]:
    folds: list[list[int]] = []
    last: tuple[Any, ...] | None = None
    for i, block in enumerate(blocks):
        own = _signature(block) if block["kind"] == "block" and i != shown else None
        if own is not None and own == last:
            folds[-1].append(i)
        else:
            folds.append([i])
        last = own
    if len(folds) <= MOST_NODES:
        return folds
    size = -(-len(folds) // MOST_NODES)
    return [[i for fold in folds[start : start + size] for i in fold] for start in range(0, len(folds), size)]


def _node(members: list[dict[str, Any]], owner: dict[str, str]) -> dict[str, Any]:
    first, last = members[0], members[-1]
    layers = [item for block in members for item in block["layers"]]
    counts = Counter(owner[block["id"]] for block in members)
    many = len(members) > 1
    noun = "block" if all(block["kind"] == "block" for block in members) else "part"
    return {
        "id": first["id"],
        "label": f"{noun} × {len(members)}" if many else first["name"],
        "name": f"{noun}s {first['label']} to {last['label']}" if many else first["name"],
        "kind": first["kind"],
        "blocks": [block["id"] for block in members],
        "lanes": [[lane, count] for lane, count in counts.items()],
        "forward_s": sum(item["forward_s"] for item in layers),
        "backward_s": sum(item["backward_s"] for item in layers),
        "memory_bytes": sum(map(_memory, layers)),
        "traffic_bytes": last["layers"][-1]["output_bytes"],
        "parameters": sum(item["parameters"] for item in layers),
    }


def _memory(layer: dict[str, Any]) -> float:
    """Bytes a layer needs with one microbatch in flight."""
    return float(
        layer["weight_bytes"] + layer["gradient_bytes"] + layer["optimizer_bytes"] + layer["saved_bytes"]
    )


def _edges(scene: Scene, blocks: list[dict[str, Any]], folds: list[list[int]]) -> list[list[str]]:
    """Edges between nodes, each once; those inside a fold are left out."""
    node_of: dict[str, str] = {}
    ranges = block_ranges(scene.graph)
    for fold in folds:
        for i in fold:
            _, first, end = ranges[i]
            for layer in scene.graph.layers[first:end]:
                node_of[layer.name] = blocks[fold[0]]["id"]
    pairs = dict.fromkeys(
        (node_of[source], node_of[target])
        for source, target in _layer_pairs(scene)
        if node_of[source] != node_of[target]
    )
    return [[source, target] for source, target in pairs]


def _layer_pairs(scene: Scene) -> list[tuple[str, str]]:
    graph = scene.graph
    return graph.memo(
        "views.layer_pairs",
        lambda: [
            (source, target)
            for name, source in graph.producer.items()
            for target in graph.consumers.get(name, ())
        ],
    )


def _open(scene: Scene, block: dict[str, Any], lanes: dict[str, str]) -> dict[str, Any]:
    inside = {item["id"] for item in block["layers"]}
    return {
        "block": block["id"],
        "layers": [
            {
                "id": item["id"],
                "label": item["label"],
                "part": item["part"],
                "text": _text(scene, item["id"]),
                "forward_s": item["forward_s"],
                "backward_s": item["backward_s"],
                "memory_bytes": _memory(item),
                "traffic_bytes": item["output_bytes"],
                "parameters": item["parameters"],
                "lane": lanes.get(item["id"]),
            }
            for item in block["layers"]
        ],
        "edges": [
            list(pair)
            for pair in dict.fromkeys(_layer_pairs(scene))
            if pair[0] in inside and pair[1] in inside
        ],
    }


def _text(scene: Scene, name: str) -> str | None:
    """Shape of the first parameter, else of the output without its sequence."""
    layer = scene.graph.layer[name]
    if layer.parameters:
        shape = scene.graph.parameter[layer.parameters[0].name].shape
    elif layer.writes:
        shape = scene.graph.tensor[layer.writes[0].name].shape
    else:
        return None
    return " × ".join(f"{size:g}" for size in shape) or None
