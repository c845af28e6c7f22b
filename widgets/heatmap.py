"""Heatmaps: memory by device and time or by part, traffic from device to device or by link over time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from sys import byteorder
from typing import Any

import traitlets

from .base import STATIC, Widget, refuse_unsendable


def pack(rows: Iterable[Sequence[float | None]]) -> bytes:
    """Pack rows of cells as little-endian float32, -1 for an empty cell (None).

    >>> pack([[1.0, None]]) == pack([[1.0, -1.0]])
    True
    """
    cells = array("f", (-1.0 if cell is None else cell for row in rows for cell in row))
    if byteorder == "big":
        cells.byteswap()
    return cells.tobytes()


class Heatmap(Widget):
    """Two pictures of one quantity: `memory` over time and by part, or `traffic` by pair and by link over
    time.

    `view["kind"]` names the quantity, `shown` the picture; a second plan (`view_b`) stands next to it on the
    same scale.
    """

    _esm = STATIC / "heatmap.js"
    _css = STATIC / "heatmap.css"

    cells = traitlets.Bytes(
        b"", help="Over time: bytes in use, or share of a link; rows x columns, float32, -1 for empty."
    ).tag(sync=True)
    view_b = traitlets.Dict(help="The second plan's view; {} for none.").tag(sync=True)
    cells_b = traitlets.Bytes(b"", help="The second plan's cells.").tag(sync=True)
    shown = traitlets.Unicode(help="`time` or `parts`; `pairs` or `links`; '' for the first.").tag(sync=True)
    selected_lanes = traitlets.List(
        traitlets.Unicode(), help="Ids of the lanes whose rows are marked; a row's name sets it."
    ).tag(sync=True)

    @traitlets.validate("view_b")
    def _sendable_b(self, proposal: dict[str, Any]) -> object:
        refuse_unsendable(proposal["value"], "view_b")
        return proposal["value"]

    def summary(self) -> str:
        """Return the kind and size."""
        if not self.view:
            return "nothing yet"
        return f"{self.view.get('kind')} of {len(self.view.get('rows', []))} rows"
