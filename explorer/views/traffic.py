"""Traffic, device by device: bytes that one step sends."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from explorer.views.scene import Scene, device_rows


def traffic_view(scene: Scene) -> dict[str, Any]:
    """`Heatmap.view` of kind `traffic`; above 64 devices from node to node, without what stays inside one."""
    rows = device_rows(scene)
    place = {device: i for i, row in enumerate(rows) for device in row.devices}
    sent: dict[tuple[int, int], float] = defaultdict(float)
    for (source, target), size in scene.report.traffic_bytes.items():
        pair = (place[source], place[target])
        if size > 0 and (pair[0] != pair[1]):
            sent[pair] += size
    return {
        "kind": "traffic",
        "title": "Sent in one step, from row to column",
        "rows": [row.as_dict() for row in rows],
        "pairs": [[source, target, float(size)] for (source, target), size in sorted(sent.items())],
    }
