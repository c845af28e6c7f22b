"""How far the tiles may be off: the error bands of the profile, re-simulated, and what a run measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from explorer.errors import ExplorerError
from explorer.simulate import simulate
from explorer.sweep.bands import best_and_worst
from explorer.views.scene import Scene
from explorer.views.tiles import figures, with_band, with_measured

from .session import Point

MOST_KEPT = 8
"""Plans whose bands are remembered."""


class Accuracy:
    """Error bands of the plan shown, worked out in quiet moments."""

    def __init__(self) -> None:
        self._kept: list[tuple[Scene, list[dict[str, float]]]] = []

    def work(self, now: Point) -> Iterator[None]:
        """Simulate the plan on the best and the worst devices that its profile allows, one at a time."""
        both = best_and_worst(now.inputs.cluster)
        if both is None or self._known(now) is not None:
            return
        found = []
        for cluster in both:
            try:
                report = simulate(now.inputs.graph, cluster, now.inputs.workload, now.strategy)
            except ExplorerError:
                return  # a plan that runs on the profile's own numbers only: no band is told
            found.append(figures(report, now.inputs.job.sequence_length))
            yield
        self._kept = [*self._kept, (now.scene, found)][-MOST_KEPT:]

    def _known(self, now: Point) -> list[dict[str, float]] | None:
        return next((pair for scene, pair in self._kept if scene is now.scene), None)

    def on(
        self,
        tiles: Sequence[Mapping[str, Any]],
        now: Point,
        measured: Mapping[str, float] | None,
        *,
        old: bool,
    ) -> list[dict[str, Any]]:
        """Tiles with what is known of their accuracy."""
        band = self._known(now)
        found = with_band(tiles, *band) if band else [dict(tile) for tile in tiles]
        return with_measured(found, measured or {}, old=old)
