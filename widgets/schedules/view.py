"""The table of schedules, drawn by `js/src/schedules`."""

from __future__ import annotations

import traitlets

from widgets.base import STATIC, Widget


class Schedules(Widget):
    """Rows by group. Intents: `use`, `beside`, `count`, each names a `schedule`; see PROTOCOL.md."""

    _esm = STATIC / "schedules.js"
    _css = STATIC / "schedules.css"

    visible = traitlets.Bool(
        help="Whether it is in sight, written by the page: only then it is counted."
    ).tag(sync=True)

    def summary(self) -> str:
        """Return how many schedules there are, and how many were counted."""
        rows = self.view.get("rows", ())
        counted = sum(row["state"] == "counted" for row in rows)
        return f"{len(rows)} schedules, {counted} counted"
