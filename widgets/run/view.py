"""The view of a real run: its ranks while it is under way, then predicted against measured by part."""

from __future__ import annotations

from widgets.base import STATIC, Widget


class RunView(Widget):
    """Progress by rank, comparison, what was validated, calibration. Intents: `action`."""

    _esm = STATIC / "run.js"
    _css = STATIC / "run.css"

    def summary(self) -> str:
        """Return the state and the verdict."""
        if not self.view:
            return "nothing yet"
        result = self.view.get("result")
        return f"{self.view['state']}{': ' + result['verdict']['text'] if result else ''}".replace("**", "")
