"""Results of searches: a table of searchers with your strategy among them, and the frontier."""

from __future__ import annotations

import traitlets

from explorer.explain.names import counted
from widgets.base import STATIC, Widget


class Leaderboard(Widget):
    """Rows that load their strategy. Intents: `load`, `load_point`, `chart_again`, `action` (PROTOCOL.md)."""

    _esm = STATIC / "leaderboard.js"
    _css = STATIC / "leaderboard.css"

    selected = traitlets.Unicode(help="Id of the selected row: a searcher, or `yours`; empty for none.").tag(
        sync=True
    )
    chart_px = traitlets.Int(
        0, help="Width of the place for a chart beside it, written by the page; 0 if there is none."
    ).tag(sync=True)

    charts = traitlets.Int(
        0, help="Charts put beside it so far, of which the page sees whether it starts."
    ).tag(sync=True)

    def summary(self) -> str:
        """Return the best row in words."""
        rows = [row for row in self.view.get("rows", ()) if row["step_s"] is not None]
        if not rows:
            return "nothing yet"
        return f"{counted(len(rows), 'result')}, best of {rows[0]['searcher']}: {rows[0]['label']}"
