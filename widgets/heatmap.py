"""Heatmaps: memory by device and time, traffic from device to device."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from sys import byteorder

import traitlets

from .base import STATIC, Widget


def pack(rows: Iterable[Sequence[float | None]]) -> bytes:
    """Rows of cells as little-endian float32, -1 for an empty cell (None).

    >>> pack([[1.0, None]]) == pack([[1.0, -1.0]])
    True
    """
    cells = array("f", (-1.0 if cell is None else cell for row in rows for cell in row))
    if byteorder == "big":
        cells.byteswap()
    return cells.tobytes()


class Heatmap(Widget):
    """One picture, by `view["kind"]`: `memory` (with `cells`) or `traffic`."""

    _esm = STATIC / "heatmap.js"
    _css = STATIC / "heatmap.css"

    cells = traitlets.Bytes(
        b"", help="Memory picture: bytes in use, rows x columns, float32, -1 for empty."
    ).tag(sync=True)
    selected_lanes = traitlets.List(traitlets.Unicode(), help="Ids of the lanes whose rows are marked.").tag(
        sync=True
    )

    def summary(self) -> str:
        """Kind and size."""
        if not self.view:
            return "nothing yet"
        return f"{self.view.get('kind')} of {len(self.view.get('rows', []))} rows"
