"""What a drop under way would lead to, once it is simulated: figures in place of the page's estimate."""

from __future__ import annotations

from typing import Any

from explorer.views.board import lane_figures
from explorer.views.scene import Scene
from explorer.views.tiles import figures


def considered_view(scene: Scene) -> dict[str, Any]:
    """Return the figures of lanes, by id, and of tiles, by key, that a preview shows of a strategy."""
    own = figures(scene.report, scene.job.sequence_length)
    return {
        "lanes": {str(number): lane_figures(scene, number) for number in range(len(scene.groups))},
        "values": {key: own.get(key) for key in (*own, "mfu")},
    }
