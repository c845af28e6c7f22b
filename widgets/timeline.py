"""The timeline: every action and transfer of a step, lane by lane, on a canvas."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Sequence
from sys import byteorder
from typing import Any

import traitlets

from explorer.explain.names import counted

from .base import STATIC, Widget, refuse_unsendable

COLUMNS = ("start_s", "end_s", "lane", "kind", "stage", "copy", "microbatch", "count", "peer", "bytes")
"""Meanings of the numbers of one bar, in order."""

KINDS = {
    "F": 0,
    "B": 1,
    "I": 2,
    "W": 3,
    "U": 4,
    "recompute": 5,
    "transfer": 6,
    "reduce": 7,
    "gather": 8,
    "all_to_all": 9,
    "offload": 10,
    "reload": 11,
}
"""Code of every kind of bar; up to 5 compute, from 6 on the wire."""


def pack(rows: Iterable[Sequence[float]]) -> bytes:
    """Pack rows of `COLUMNS` as little-endian float32.

    >>> len(pack([(0.0, 1.5, 0, KINDS["F"], 0, 0, 3, 1, -1, 0)])) == 4 * len(COLUMNS)
    True
    """
    numbers = array("f")
    for row in rows:
        if len(row) != len(COLUMNS):
            raise ValueError(
                f"a bar has {len(COLUMNS)} numbers ({', '.join(COLUMNS)}), this one has {len(row)}"
            )
        numbers.extend(row)
    if byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


class Timeline(Widget):
    """Zoom and pan by wheel or WASD; a click follows a microbatch; a second plan below on the same axis.

    `Chrome trace` in the page downloads what `trace_source()` answers, for Perfetto.
    """

    _esm = STATIC / "timeline.js"
    _css = STATIC / "timeline.css"

    bars = traitlets.Bytes(b"", help="Bars of the plan, float32, see COLUMNS.").tag(sync=True)
    bars_b = traitlets.Bytes(b"", help="Bars of the second plan, or empty.").tag(sync=True)
    view_b = traitlets.Dict(help="The second plan's name and lanes; {} for none.").tag(sync=True)
    microbatch = traitlets.Int(None, allow_none=True, help="The microbatch that is followed, or None.").tag(
        sync=True
    )
    selected_lanes = traitlets.List(
        traitlets.Unicode(), help="Ids of the lanes to mark; a click on a lane's name sets it."
    ).tag(sync=True)
    critical = traitlets.Bool(help="Whether the critical path is shown.").tag(sync=True)
    links = traitlets.Dict(help="Links for the `Links` button to show; {} for none.").tag(sync=True)
    link_cells = traitlets.Bytes(b"", help="Share of each link in use, rows x columns.").tag(sync=True)
    links_shown = traitlets.Bool(help="Whether the links are shown.").tag(sync=True)
    asks = traitlets.Bool(
        help="Whether the page may ask for the memory at its cursor and for sums of an area."
    ).tag(sync=True)
    moment = traitlets.Dict(help="Memory at the cursor, as asked for last; {} for none.").tag(sync=True)
    area = traitlets.Dict(help="Sums of the area asked for last; {} for none.").tag(sync=True)

    def __init__(self, **kwargs: Any) -> None:
        self.trace_source: Callable[[], dict[str, Any]] | None = None
        self.moment_source: Callable[[float, int, int], dict[str, Any]] | None = None
        """Function `moment(time_s, lane, plan)` that says what is in memory then; `plan`: 0, or 1 for B."""
        self.area_source: Callable[[float, float], list[dict[str, Any]]] | None = None
        """Function `area(from_s, to_s)` that adds up each plan between two times."""
        super().__init__(**kwargs)
        for handler in (self._trace, self._tell_moment, self._tell_area):
            self.on_intent(handler)

    def _trace(self, intent: dict[str, Any]) -> None:
        """Answer the intent `trace` with a file for the page to download."""
        if intent["kind"] != "trace":
            return
        if self.trace_source is None:
            raise ValueError("no trace: this timeline has no trace_source; give it a function that makes one")
        text = json.dumps(self.trace_source(), allow_nan=False, separators=(",", ":"))
        self.send({"kind": "file", "name": "trace.json", "type": "application/json"}, [text.encode()])

    def _tell_moment(self, intent: dict[str, Any]) -> None:
        """Answer the intent `moment` with the memory of a lane at a time."""
        if intent["kind"] == "moment" and self.moment_source is not None:
            asked = float(intent["time_s"]), int(intent["lane"]), int(intent.get("plan", 0))
            self.moment = {"plan": asked[2], **self.moment_source(*asked)}

    def _tell_area(self, intent: dict[str, Any]) -> None:
        """Answer the intent `area` with sums between two times."""
        if intent["kind"] == "area" and self.area_source is not None:
            from_s, to_s = float(intent["from_s"]), float(intent["to_s"])
            self.area = {"from_s": from_s, "to_s": to_s, "plans": self.area_source(from_s, to_s)}

    @traitlets.validate("links", "view_b", "moment", "area")
    def _sendable_more(self, proposal: dict[str, Any]) -> object:
        refuse_unsendable(proposal["value"], proposal["trait"].name)
        return proposal["value"]

    @traitlets.validate("bars", "bars_b")
    def _whole_bars(self, proposal: dict[str, object]) -> bytes:
        value = proposal["value"]
        assert isinstance(value, bytes)  # Bytes has checked it
        if len(value) % (4 * len(COLUMNS)):
            raise ValueError(f"{len(value)} bytes are not a whole number of bars of {4 * len(COLUMNS)} bytes")
        return value

    def summary(self) -> str:
        """Return the number of bars and lanes."""
        return (
            f"{counted(len(self.bars) // (4 * len(COLUMNS)), 'bar')} on"
            f" {counted(len(self.view.get('lanes', [])), 'lane')}"
        )
