"""The layer graph: blocks with their repeats folded, one of them open."""

from __future__ import annotations

import traitlets

from .base import STATIC, Widget


class GraphView(Widget):
    """Observe `opened` and answer with a view in which that block is open. Selection is the board's."""

    _esm = STATIC / "graph.js"
    _css = STATIC / "graph.css"

    opened = traitlets.Unicode(None, allow_none=True, help="Id of the open block, or None.").tag(sync=True)
    colour = traitlets.Enum(("device", "time", "memory", "traffic"), "time", help="What colour says.").tag(
        sync=True
    )
    selection = traitlets.List(traitlets.Unicode(), help="Ids of the selected blocks and layers.").tag(
        sync=True
    )

    def summary(self) -> str:
        """Nodes shown, and the open block."""
        return f"{len(self.view.get('nodes', []))} nodes" + (f", {self.opened} open" if self.opened else "")
