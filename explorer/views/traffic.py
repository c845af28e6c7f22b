"""Traffic by device: bytes that one step sends, and how busy every link is over time."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from explorer.views.link_map import links_view
from explorer.views.scene import Scene, device_rows


def traffic_view(scene: Scene, *, name: str = "") -> dict[str, Any]:
    """Return `Heatmap.view` of kind `traffic`, for device pairs alone.

    Above 64 devices it is from node to node: bytes are added up, and traffic inside a row is left out.
    """
    rows = device_rows(scene)
    place = {device: i for i, row in enumerate(rows) for device in row.devices}
    sent: dict[tuple[int, int], float] = defaultdict(float)
    inside = 0.0
    for (source, target), size in scene.report.traffic_bytes.items():
        pair = (place[source], place[target])
        if pair[0] == pair[1]:
            inside += size
        elif size > 0:
            sent[pair] += size
    folded = any(len(row.devices) > 1 for row in rows)
    return {
        "kind": "traffic",
        "title": "Communication, row to column, one step",
        "name": name,
        "rows": [row.as_dict() for row in rows],
        "pairs": [[source, target, float(size)] for (source, target), size in sorted(sent.items())],
        "folded": "bytes added up; what stays inside a row is not shown" if folded else None,
        "inside_bytes": float(inside) if folded else None,
    }


def communication_view(scene: Scene, *, name: str = "") -> tuple[dict[str, Any], bytes]:
    """Return `Heatmap.view` of kind `traffic` with a second picture, links over time, and its cells."""
    links, cells = links_view(scene)
    return {**traffic_view(scene, name=name), "links": links}, cells
