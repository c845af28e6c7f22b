"""Accuracy of the tiles: the error bands from the profile or a history of runs, and what a run measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from explorer.base.errors import ExplorerError
from explorer.calibrate import history
from explorer.calibrate.history import Learned
from explorer.cluster import Cluster
from explorer.costs.model_key import model_key
from explorer.explain.names import counted
from explorer.simulation.simulate import simulate
from explorer.sweep.bands import Band, Shift, all_bands, combined, shifting
from explorer.views.tiles import ADDITIVE, RUN_FIGURE, figures, with_bands, with_measured

from .quiet import small_slices
from .session import Outcome, Point

MOST_KEPT = 8
"""Plans whose bands are remembered."""


class Accuracy:
    """Error bands of the plan shown, computed in quiet moments."""

    def __init__(self, runs: Path | None = None) -> None:
        self._runs = runs
        self._kept: list[tuple[Outcome, float, dict[str, Band]]] = []
        self._read: tuple[float, history.History] | None = None

    def work(self, now: Point) -> Iterator[None]:
        """Simulate the plan with every uncertain number at the ends of its band, one at a time."""
        stamp = self._stamp()
        if any(known is now.outcome and then == stamp for known, then, _ in self._kept):
            return
        length = now.inputs.job.sequence_length

        def evaluate(cluster: Cluster) -> dict[str, float]:
            report = simulate(now.inputs.graph, cluster, now.inputs.workload, now.strategy)
            return figures(report, length)

        shifts: list[Shift] = []
        try:
            with small_slices():
                for shift in shifting(now.scene.cluster, evaluate, model_key(now.inputs.graph)):
                    if shift is not None:
                        shifts.append(shift)
                    yield
        except ExplorerError:
            shifts = []  # a plan that runs on the profile's own numbers only: no band can be given
        own = figures(now.report, length)
        by_profile, taught = combined(own, shifts, additive=ADDITIVE), self._taught(now.inputs.cluster)
        runs = {key: known for key, figure in RUN_FIGURE.items() if (known := taught.get(figure)) is not None}
        found = all_bands(own, now.scene.cluster, now.inputs.job.framework, by_profile, runs)
        self._kept = [*self._kept, (now.outcome, stamp, found)][-MOST_KEPT:]

    def _stamp(self) -> float:
        """Return a stamp that changes with the history of runs, and the bands with it."""
        return self._runs.stat().st_mtime if self._runs is not None and self._runs.exists() else 0.0

    def _taught(self, cluster: Cluster) -> Mapping[str, Learned]:
        """Return what the runs in the file teach about this kind of machine; read it again only when it has
        changed.
        """
        changed = self._stamp()
        if self._runs is None or not changed:
            return {}
        if self._read is None or self._read[0] != changed:
            self._read = (changed, history.read(self._runs))
        return history.learn(self._read[1].entries, cluster)

    def _known(self, now: Point) -> dict[str, Band] | None:
        return next((bands for known, _, bands in reversed(self._kept) if known is now.outcome), None)

    def on(
        self,
        tiles: Sequence[Mapping[str, Any]],
        now: Point,
        measured: Mapping[str, float] | None,
        *,
        old: bool,
    ) -> list[dict[str, Any]]:
        """Return the tiles with what is known about their accuracy."""
        broken = len(self._read[1].broken) if self._read else 0
        remark = f"; {counted(broken, 'line')} of the history cannot be read" if broken else ""
        found = with_bands(tiles, self._known(now) or {}, remark=remark)
        return with_measured(found, measured or {}, old=old)
