"""The layer graph: modules by path with repeats folded; open ones are expanded in place."""

from __future__ import annotations

from typing import Any

import traitlets

from explorer.explain.names import counted

from .base import STATIC, Widget


class OpenIds(traitlets.List[str]):
    """A list of ids; a single one may be given bare, and None means none."""

    def validate(self, obj: Any, value: Any) -> Any:
        """Return ids as a list."""
        given = [] if value is None else [value] if isinstance(value, str) else value
        return super().validate(obj, given)


class GraphView(Widget):
    """View of the layer graph: observe `opened` and answer with a view in which those parts are open. The
    board owns the selection.
    """

    _esm = STATIC / "graph.js"
    _css = STATIC / "graph.css"

    opened = OpenIds(
        traitlets.Unicode(),
        help="Ids of open modules and unfolded repeats; the id of a layer or block opens the way to it.",
    ).tag(sync=True)
    colour = traitlets.Enum(
        ("time", "memory", "traffic", "device", "error"), "time", help="What colour says."
    ).tag(sync=True)
    selection = traitlets.List(traitlets.Unicode(), help="Ids of the selected blocks and layers.").tag(
        sync=True
    )
    index = traitlets.Dict(
        help="Names of all layers and the blocks' places among them; assigned when the model changes."
    ).tag(sync=True)

    card = traitlets.Dict(
        help="What may be chosen for one layer and its stage, see PROTOCOL.md; {} if no card is open."
    ).tag(sync=True)
    edits = traitlets.Bool(
        default_value=False, help="Whether somebody answers what the page asks of a layer; a workbench does."
    ).tag(sync=True)

    def summary(self) -> str:
        """Return the number of nodes shown, and how many of them are open."""
        nodes = self.view.get("nodes", [])
        frames = sum(node["open"] for node in nodes)
        return counted(len(nodes) - frames, "node") + (f", {frames} open" if frames else "")
