"""The sliders of the What-if tab, with the figures of the plan shown next to those of the variation."""

from __future__ import annotations

from widgets.base import STATIC, Widget


class WhatIf(Widget):
    """Sliders over a plan. Intents: `set` (key, value) and `action`."""

    _esm = STATIC / "whatif.js"
    _css = STATIC / "whatif.css"

    def summary(self) -> str:
        """Return what the variation comes to, without markup."""
        verdict = self.view.get("verdict") or {}
        return str(verdict.get("text", "no plan yet")).replace("**", "")
