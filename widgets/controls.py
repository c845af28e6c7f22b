"""The control bar: the inputs of the exploration, and the actions on it."""

from __future__ import annotations

from .base import STATIC, Widget


class Controls(Widget):
    """Fields (`data-field`) and buttons (`data-action`). Intents: `set`, `action`."""

    _esm = STATIC / "controls.js"
    _css = STATIC / "controls.css"

    def summary(self) -> str:
        """Return every field and its value."""
        return (
            ", ".join(f"{field['label']} {field['value']}" for field in self.view.get("fields", []))
            or "empty"
        )
