"""The control bar: the inputs of the exploration, and the actions on it."""

from __future__ import annotations

import traitlets

from .base import STATIC, Widget


class Controls(Widget):
    """Fields (`data-field`) and buttons (`data-action`). Intents: `set`, `action`."""

    _esm = STATIC / "controls.js"
    _css = STATIC / "controls.css"

    fresh = traitlets.Bool(
        help="Whether the page brings the workbench into sight; it sets this back once it has."
    ).tag(sync=True)

    doing = traitlets.Dict(
        None, allow_none=True, help="What is done for a field, phase by phase, see `phases.py`; else None."
    ).tag(sync=True)

    def summary(self) -> str:
        """Return every field and its value."""
        return (
            ", ".join(f"{field['label']} {field['value']}" for field in self.view.get("fields", []))
            or "empty"
        )
