"""The sample's layer graph."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from sample_board import board_view
from sample_model import BYTES, EDGES, OPERATORS, blocks, starts


def graph_view(opened: str | None = "layers.17") -> dict[str, Any]:
    """GraphView.view with one block open."""
    model, view = blocks(), board_view()
    at = starts(model)
    owner = {
        block["id"]: next(
            item["id"]
            for item in view["lanes"]
            if any(run["first"] <= at[b] < run["first"] + run["count"] for run in item["runs"])
        )
        for b, block in enumerate(model)
    }
    groups: list[list[dict[str, Any]]] = []
    for block in model:
        last = groups[-1][-1] if groups else None
        if last and last["kind"] == block["kind"] == "block" and opened not in (block["id"], last["id"]):
            groups[-1].append(block)
        else:
            groups.append([block])
    nodes = []
    for group in groups:
        layers = [item for block in group for item in block["layers"]]
        counts: dict[str, int] = {}
        for block in group:
            counts[owner[block["id"]]] = counts.get(owner[block["id"]], 0) + 1
        nodes.append(
            {
                "id": group[0]["id"],
                "label": f"block × {len(group)}" if len(group) > 1 else group[0]["name"],
                "kind": group[0]["kind"],
                "name": f"blocks {group[0]['label']} to {group[-1]['label']}"
                if len(group) > 1
                else group[0]["name"],
                "blocks": [block["id"] for block in group],
                "lanes": [[key, n] for key, n in counts.items()],
                "forward_s": sum(item["forward_s"] for item in layers),
                "backward_s": sum(item["backward_s"] for item in layers),
                "memory_bytes": sum(item["weight_bytes"] * 9 + item["saved_bytes"] for item in layers),
                "traffic_bytes": float(BYTES),
                "parameters": sum(item["parameters"] for item in layers),
            }
        )
    edges = [[a["id"], b["id"]] for a, b in pairwise(nodes)]
    block = next((item for item in model if item["id"] == opened and len(item["layers"]) > 1), None)
    shown = None
    if block:
        ids = [item["id"] for item in block["layers"]]
        shown = {
            "block": block["id"],
            "edges": [[ids[a], ids[b]] for a, b in EDGES],
            "layers": [
                {
                    "id": item["id"],
                    "label": item["label"],
                    "part": item["part"],
                    "text": text,
                    "forward_s": item["forward_s"],
                    "backward_s": item["backward_s"],
                    "memory_bytes": item["weight_bytes"] * 9 + item["saved_bytes"],
                    "traffic_bytes": float(saved),
                    "parameters": item["parameters"],
                    "lane": owner[block["id"]],
                }
                for item, (*_, saved, text) in zip(block["layers"], OPERATORS, strict=True)
            ],
        }
    return {"nodes": nodes, "edges": edges, "open": shown}
