"""The lower part of the search chart: the best so far of every searcher, the leaders by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.search import Objective

from .curves import (
    LEAD_PX,
    Leader,
    curve_of,
    curve_range,
    end_of,
    leaders_of,
    margin_px,
    slots_of,
    spread,
)
from .labels import LINE_PX
from .points import SECONDS
from .scales import Scale, scale_of
from .sizes import LEFT_PX, LOWER_PX, Inks
from .task import Entrant

_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#73829a")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
_REST = {"width": 1.0, "dash": "solid"}
"""Line of a searcher that does not lead."""
TITLE = "Best so far"


class CurvesPart:
    """The traces of the lower part of a figure."""

    def __init__(self, figure: Any) -> None:
        self._figure = figure
        self._curves: dict[str, Any] = {}
        self._slots: dict[str, int] = {}
        self._leads = self._add("leads", mode="lines", hoverinfo="skip", line={"width": 1, "dash": "dot"})
        self._names = self._add(
            "names", mode="markers+text", hoverinfo="skip", textposition="middle right", marker={"size": 6},
            cliponaxis=False,
        )  # fmt: skip

    def _add(self, name: str, **options: Any) -> Any:
        self._figure.add_scatter(name=name, showlegend=False, row=2, col=1, **options)
        return self._figure.data[-1]

    def draw(
        self, entrants: Sequence[Entrant], objective: Objective, over: str, width_px: float, inks: Inks
    ) -> None:
        """Draw everything again, in place.

        Args:
            entrants: searchers with their results.
            objective: objective whose best so far is drawn.
            over: what the curves are drawn over, `SECONDS` or `EVALUATIONS`.
            width_px: width of the figure.
            inks: colours of the theme.
        """
        drawn = [entrant for entrant in entrants if entrant.curve]
        scale = scale_of(objective, (mark.value for entrant in drawn for mark in entrant.curve))
        leaders = leaders_of(drawn)
        self._slots = slots_of(self._slots, [leader.names[0] for leader in leaders], len(_COLOURS))
        slot_of = {name: self._slots[leader.names[0]] for leader in leaders for name in leader.names}
        for entrant in entrants:
            self._draw_curve(entrant, over, scale, slot_of.get(entrant.name), inks)
        for name in self._curves.keys() - {entrant.name for entrant in entrants}:
            self._curves[name].update(x=[], y=[])
        self._draw_names(drawn, leaders, over, scale, width_px, inks)
        rest = len(drawn) - len(slot_of)
        self._figure.layout.annotations[1].text = TITLE + (
            f"; grey: {rest} more, named on hover" if rest else ""
        )

    def _draw_curve(self, entrant: Entrant, over: str, scale: Scale, slot: int | None, inks: Inks) -> None:
        if entrant.name not in self._curves:
            self._curves[entrant.name] = self._add(entrant.name, mode="lines+markers", line={"shape": "hv"})
        curve = curve_of(entrant, over)
        unit = "s" if over == SECONDS else "evaluations"
        line = _REST | {"color": inks.second}
        if slot is not None:
            line = {"width": 2.0, "dash": _DASHES[slot], "color": _COLOURS[slot]}
        self._curves[entrant.name].update(
            x=[x for x, _ in curve], y=[scale.of(y) for _, y in curve], line=line,
            opacity=0.5 if slot is None else 1.0,
            marker={"size": 3 if slot is None else 4, "color": line["color"]},
            hovertemplate=f"{entrant.name}<br>%{{x:.3g}} {unit}: %{{y:.4g}} {scale.unit}<extra></extra>",
        )  # fmt: skip

    def _draw_names(
        self, drawn: Sequence[Entrant], leaders: Sequence[Leader], over: str, scale: Scale, width_px: float,
        inks: Inks,
    ) -> None:  # fmt: skip
        low, high = (scale.of(y) for y in curve_range(drawn))
        longest = max((end_of(entrant, over) for entrant in drawn), default=1.0) or 1.0
        room_px = width_px - LEFT_PX - self._figure.layout.margin.r
        margin = margin_px([leader.text for leader in leaders], room_px)
        right = longest * room_px / (room_px - margin)
        ends = {entrant.name: curve_of(entrant, over)[-1][0] for entrant in drawn}
        per_px = (high - low) / LOWER_PX
        # the best stands lowest: heights count from there
        wanted = [(scale.of(leader.value) - low) / per_px for leader in leaders]
        heights = [low + at * per_px for at in spread(wanted, LINE_PX, LOWER_PX)]
        text_at = longest + LEAD_PX / room_px * right
        texts = [leader.text for leader in leaders]
        self._names.update(x=[text_at] * len(texts), y=heights, text=texts)
        # text in the colours of the curves could not be read: a dot before it has the colour
        dots = [_COLOURS[self._slots[leader.names[0]]] for leader in leaders]
        self._names.update(marker={"color": dots}, textfont={"color": inks.ink, "size": 11})
        lines: list[tuple[float | None, float | None]] = []
        for leader, height in zip(leaders, heights, strict=True):
            end, value = max(ends[name] for name in leader.names), scale.of(leader.value)
            lines += [(end, value), (longest, value), (text_at, height), (None, None)]
        self._leads.update(x=[x for x, _ in lines], y=[y for _, y in lines], line={"color": inks.second})
        axis = "seconds of search" if over == SECONDS else "strategies costed"
        self._figure.update_xaxes(title_text=axis, range=[0, right], row=2, col=1)
        above = sum(scale.of(entrant.curve[-1].value) > high for entrant in drawn)
        self._figure.update_yaxes(
            title_text=f"best {scale.head}" + (f" ({above} above)" if above else ""), range=[low, high],
            showticklabels=bool(drawn),  # an axis of nothing would count up to 1
            row=2, col=1,
        )  # fmt: skip
