"""The figures of a strategy and the sentence that judges it."""

from __future__ import annotations

from .base import STATIC, Widget


class Tiles(Widget):
    """KPI tiles (`data-kpi`) and the verdict. Intents: `action`, `measured`."""

    _esm = STATIC / "tiles.js"
    _css = STATIC / "tiles.css"

    def summary(self) -> str:
        """Return the verdict without its markup."""
        verdict = self.view.get("verdict") or {}
        return str(verdict.get("text", "no verdict yet")).replace("**", "")
