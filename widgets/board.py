"""The board: which lane holds which blocks and what each lane costs; blocks are moved by hand."""

from __future__ import annotations

from typing import Any

import traitlets

from explorer.explain.names import counted

from .base import STATIC, Intent, Widget, refuse_unsendable


class Board(Widget):
    """Lanes of chips on one time scale, each with its memory.

    Intents: `move move_boundary pin lock undo redo`.
    """

    _esm = STATIC / "board.js"
    _css = STATIC / "board.css"

    blocks: traitlets.List[Any] = traitlets.List(
        help="Blocks with their layers and additive costs, in model order (PROTOCOL.md, section 4)."
    ).tag(sync=True)
    selection = traitlets.List(traitlets.Unicode(), help="Ids of the selected blocks and layers.").tag(
        sync=True
    )
    expanded = traitlets.List(traitlets.Unicode(), help="Ids of the blocks shown as layers.").tag(sync=True)
    collapsed = traitlets.List(traitlets.Unicode(), help="Names of the lane groups folded to one row.").tag(
        sync=True
    )
    colour = traitlets.Enum(
        ("kind", "memory", "time", "traffic"), "kind", help="What the colour of a chip says."
    ).tag(sync=True)
    theme = traitlets.Enum(("light", "dark"), "light", help="Theme of the page, told by the page.").tag(
        sync=True
    )

    @traitlets.validate("blocks")
    def _blocks_sendable(self, proposal: dict[str, object]) -> object:
        refuse_unsendable(proposal["value"], "blocks")
        return proposal["value"]

    def tell_considered(self, intent: Intent, view: dict[str, Any]) -> None:
        """Tell the page what a gesture under way would lead to: `explorer.views.considered_view`."""
        refuse_unsendable(view, "considered")
        self.send({"considered": intent, **view})

    def summary(self) -> str:
        """Return the number of blocks and lanes, and whether anything overflows."""
        lanes = self.view.get("lanes", [])
        over = sum(lane["peak_bytes"] > lane["most_bytes"] for lane in lanes)
        return f"{counted(len(self.blocks), 'block')} on {counted(len(lanes), 'lane')}" + (
            f", {over} over capacity" if over else ""
        )
