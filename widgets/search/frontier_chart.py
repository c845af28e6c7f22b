"""The upper part of the search chart: everything costed, the frontier, the bests of the searchers and yours.

The first axis of the frontier goes up, the second across; a third is the colour of the points, with a scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.base.units import GIB, format_bytes, format_seconds
from explorer.search import Objective

from .found import Found
from .labels import LINE_PX, Box, box_of, name_within, place
from .points import (
    At,
    Frame,
    Pick,
    Values,
    bests_of,
    clear,
    ends_of,
    frontier_of,
    name_of,
    outside,
    room_ends,
    spot_pick,
    staircase,
)
from .scales import Scale, scale_of, with_unit
from .sizes import GAP, LEFT_PX, RIGHT_PX, SCALE_PX, UPPER, UPPER_PX, Inks

BOUND_TEXT_PX = 62.0
"""Distance of the middle of the bound's name from the axis: all of it is to the right of that."""
FEW_DEVICES = 12
"""Longest axis of a number of devices on which each has a tick."""
COLOURS = "Cividis"
"""Scale of colours of a third axis, which also those read who cannot tell red from green."""


class FrontierPart:
    """The traces of the upper part of a figure.

    Args:
        figure: a figure of two parts.
        load: called with what a clicked point stands for.
    """

    def __init__(self, figure: Any, load: Callable[[Pick], None]) -> None:
        self._figure, self._load = figure, load
        self._picks: dict[str, list[Pick]] = {}
        self.traces: dict[str, Any] = {}
        """Traces by what they show."""
        for name, options in _TRACES.items():
            figure.add_scatter(name=name, showlegend=False, row=1, col=1, **options)
            self.traces[name] = figure.data[-1]
        for name in ("costed", "over", "frontier points", "bests"):
            self.traces[name].on_click(self._clicker(name))

    def _clicker(self, name: str) -> Callable[..., None]:
        def clicked(_trace: Any, points: Any, _state: Any) -> None:
            picks = self._picks.get(name, [])
            if points.point_inds and points.point_inds[0] < len(picks):
                self._load(picks[points.point_inds[0]])

        return clicked

    def draw(self, found: Found, width_px: float, inks: Inks) -> None:
        """Draw everything again, in place."""
        groups = bests_of(found.entrants, found.values_of)
        bests, names = (
            [picks[0] for picks in groups],
            [name_of([p.searcher for p in picks]) for picks in groups],
        )
        frontier, own = frontier_of(found.runs), found.values_of(found.yours)
        named = [own, *(pick.values for pick in (*bests, *frontier))]
        scales = [scale_of(axis, (v[i] for v in named)) for i, axis in enumerate(found.axes)]
        view = _View(
            scales=scales, frame=_frame(named, scales, found),
            size_px=(width_px - LEFT_PX - right_px(found.axes), UPPER_PX),
        )  # fmt: skip
        at = [view.at(values) for values in named]
        shown = [spot for spot in found.spots if clear(view.at(spot.point), at, view.frame, view.size_px)]
        for name, fits in (("costed", True), ("over", False)):
            self._points(name, [spot_pick(spot) for spot in shown if spot.fits == fits], view)
        self._points("frontier points", frontier, view)
        self._points("bests", bests, view)
        self._lines("yours", [view.at(own)])
        mine = found.yours.outcome
        self.traces["yours"].customdata = [
            "yours<br>" + _words(own, mine.step_time_s, mine.peak_memory_bytes, scales)
        ]
        edge = sorted(view.at(pick.values) for pick in frontier)
        self._lines("frontier", staircase(edge, view.frame.right) if len(scales) == 2 else [])
        crowd = [view.at(values) for values in (*(p.values for p in frontier), *(s.point for s in shown))]
        taken = self._draw_room(found, view)
        self._draw_names(bests, names, own, crowd, taken, view)
        room = found.capacity_bytes / GIB if scales[1].name == "memory" else math.inf
        self._draw_bound(found.bound, min(room, view.frame.right), view)
        self._draw_axes(bests, view)
        self._draw_theme(inks)
        self._draw_colours(bests, frontier, view, inks)

    def _points(self, name: str, picks: list[Pick], view: _View) -> None:
        self._picks[name] = picks
        self._lines(name, [view.at(pick.values) for pick in picks])
        self.traces[name].customdata = [
            f"{pick.searcher}: {pick.label}<br>"
            + _words(pick.values, pick.step_s, pick.peak_bytes, view.scales)
            for pick in picks
        ]

    def _lines(self, name: str, points: Sequence[At]) -> None:
        self.traces[name].update(x=[x for x, _ in points], y=[y for _, y in points])

    def _draw_names(
        self,
        bests: list[Pick],
        names: list[str],
        own: Values,
        crowd: list[At],
        taken: list[Box],
        view: _View,
    ) -> None:
        at = [view.at(pick.values) for pick in bests]
        order = sorted(range(len(at)), key=lambda i: at[i][1])  # the best are named before room runs out
        sides = place(
            [view.at(own), *(at[i] for i in order)], ["yours", *(names[i] for i in order)], view.frame,
            view.size_px, crowd=crowd, taken=taken,
        )  # fmt: skip
        side_of = dict(zip(order, sides[1:], strict=True))
        self.traces["bests"].update(
            text=[name if side_of[i] else "" for i, name in enumerate(names)],
            textposition=[side_of[i] or "middle right" for i in range(len(names))],
        )
        self.traces["yours"].update(text=["yours"], textposition=sides[:1])

    def _draw_bound(self, bound: float, end: float, view: _View) -> None:
        """Draw the lower bound along the first axis, as far as there is room across."""
        frame, up = view.frame, view.scales[0]
        height, middle = up.of(bound), BOUND_TEXT_PX / view.size_px[0] * (frame.right - frame.left)
        self._lines("bound", [(frame.left, height), (end, height)])
        self._lines("bound text", [(frame.left + middle, height)])
        self.traces["bound text"].update(text=[f"lower bound {bound_words(up, bound)}"])

    def _draw_room(self, found: Found, view: _View) -> list[Box]:
        """Shade where devices have no room, and where they may have, if memory is across or up.

        Returns:
            The boxes of the names of these areas, in pixels.
        """
        taken = []
        fits, capacity = found.fits_bytes / GIB, found.capacity_bytes / GIB
        frame, names = view.frame, [scale.name for scale in view.scales[:2]]
        upright = names.index("memory") == 0 if "memory" in names else False
        ends = (frame.low, frame.high, frame.left, frame.right) if upright else (*frame[:2], *frame[2:])
        last, side, other = ends[1], ends[2], ends[3]

        def box(low: float, high: float) -> list[At]:
            edge = [(low, side), (low, other), (high, other), (high, side)]
            return [(y, x) if upright else (x, y) for x, y in edge]

        here = "memory" in names and capacity < last
        for area, low, high, words, lines in (
            ("no room", capacity, last, "does not fit", 1.2),
            ("perhaps", min(fits, capacity), capacity, "may fit", 2.4),
        ):
            drawn = here and low < high
            self._lines(area, box(low, high) if drawn else [])
            room_px = math.inf if upright else (high - low) / (last - ends[0]) * view.size_px[0]
            text, inside = name_within(words, room_px)
            # at the top: the bests of the searchers, which have names, are at the bottom
            middle, share = (low + high) / 2, 0.5 if upright else 1 - lines * LINE_PX / view.size_px[1]
            x, y = middle if inside else low, side + share * (other - side)
            at, position = (y, x) if upright else (x, y), "middle center" if inside else "middle left"
            self._lines(f"{area} text", [at] if drawn else [])
            self.traces[f"{area} text"].update(text=[text], textposition=position)
            taken += [box_of(text, frame.pixels(at, view.size_px), position)] if drawn else []
        return taken

    def _draw_axes(self, bests: list[Pick], view: _View) -> None:
        beyond = outside(view.frame, [view.at(pick.values) for pick in bests])
        up, across = view.scales[:2]
        above = f" ({beyond['above']} more above)" if beyond["above"] else ""
        right = f" ({beyond['right']} more beyond)" if beyond["right"] else ""
        frame = view.frame
        self._figure.update_yaxes(
            title_text=up.head + above, range=[frame.low, frame.high],
            dtick=_tick(up, frame.high - frame.low), row=1, col=1,
        )  # fmt: skip
        self._figure.update_xaxes(
            title_text=across.head + right, range=[frame.left, frame.right],
            dtick=_tick(across, frame.right - frame.left), row=1, col=1,
        )  # fmt: skip

    def _draw_theme(self, inks: Inks) -> None:
        # leaf properties only: one message must not set both a font and the colour of a font
        for name in ("costed", "over"):
            self.traces[name].marker.color = inks.second
        for name in ("frontier", "bests", "frontier points"):
            self.traces[name].update(line={"color": inks.ink}, marker={"line": {"color": inks.ink}})
        brand = inks.brand
        self.traces["yours"].update(
            marker={"color": brand, "line": {"color": brand}}, textfont={"color": brand}
        )
        self.traces["bound"].update(line={"color": inks.second})
        self.traces["bound text"].update(textfont={"color": inks.second, "size": 11})
        self.traces["no room"].update(line={"color": inks.ink}, fillpattern={"fgcolor": inks.second})
        self.traces["perhaps"].update(line={"color": inks.ink})
        for name in ("bests", "perhaps text", "no room text"):
            self.traces[name].update(textfont={"color": inks.ink, "size": 11})

    def _draw_colours(self, bests: list[Pick], frontier: list[Pick], view: _View, inks: Inks) -> None:
        """Colour points by the third axis, if there is one, and show its scale."""
        third = view.scales[2] if len(view.scales) > 2 else None
        for name, picks in (("bests", bests), ("frontier points", frontier)):
            self.traces[name].marker.color = [third.of(p.values[2]) for p in picks] if third else inks.paper
        self._figure.update_layout(coloraxis={"showscale": third is not None and bool(bests or frontier)})
        if third is not None:
            self._figure.update_layout(
                coloraxis={
                    "colorbar": {
                        "title": {"text": third.head, "font": {"color": inks.ink}},
                        "tickfont": {"color": inks.ink},
                    }
                }
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What the upper part shows: units, ends of the axes, size of the drawing."""

    scales: list[Scale]
    frame: Frame
    size_px: tuple[float, float]

    def at(self, values: Values) -> At:
        """Return where values stand."""
        return self.scales[1].of(values[1]), self.scales[0].of(values[0])


def right_px(axes: Sequence[Objective]) -> float:
    """Return the margin at the right: a third axis has its scale of colours there."""
    return SCALE_PX if len(axes) > 2 else RIGHT_PX


def bound_words(scale: Scale, bound: float) -> str:
    """Write a lower bound, with three digits."""
    return with_unit(f"{scale.of(bound):.3g}", scale.unit or scale.name)


def _words(values: Values, step_s: float, peak_bytes: float, scales: Sequence[Scale]) -> str:
    """Write all values of a point, and its step time and memory where these are no axes."""
    parts = [scale.words(value) for scale, value in zip(scales, values, strict=True)]
    names = {scale.name for scale in scales}
    parts += [] if "time" in names else [f"{format_seconds(step_s)} a step"]
    parts += [] if "memory" in names else [format_bytes(peak_bytes)]
    return ", ".join(parts)


def _frame(named: Sequence[Values], scales: Sequence[Scale], found: Found) -> Frame:
    """Return the ends of the axes: around all named points, yours first, and the bound of the first axis."""
    ends = []
    for i, scale in enumerate(scales[:2]):
        values = [scale.of(point[i]) for point in named]
        if scale.name == "memory":
            ends.append(room_ends(values, scale.of(found.capacity_bytes)))
        else:
            ends.append(ends_of(values, scale.of(found.bound) if i == 0 else math.inf))
    return Frame(*ends[1], *ends[0])


def _tick(scale: Scale, length: float) -> float | None:
    """Return the distance of two ticks: one device, where there are few; None to leave it to plotly."""
    return 1.0 if scale.name == "devices" and length <= FEW_DEVICES else None


_HOVER = "%{customdata}<extra></extra>"
_TRACES: dict[str, dict[str, Any]] = {
    "perhaps": {"mode": "lines", "fill": "toself", "line": {"width": 0}, "hoverinfo": "skip",
                "fillcolor": "rgba(128,128,128,.12)"},
    "perhaps text": {"mode": "text", "hoverinfo": "skip"},
    "no room": {"mode": "lines", "fill": "toself", "line": {"width": 1}, "hoverinfo": "skip",
                "fillcolor": "rgba(128,128,128,.05)",
                "fillpattern": {"shape": "/", "size": 7, "solidity": 0.12, "fillmode": "overlay"}},
    "no room text": {"mode": "text", "hoverinfo": "skip"},
    "bound": {"mode": "lines", "line": {"width": 1, "dash": "dash"}, "hoverinfo": "skip"},
    "bound text": {"mode": "text", "textposition": "top center", "hoverinfo": "skip"},
    "costed": {"mode": "markers", "marker": {"size": 4, "opacity": 0.55}, "hovertemplate": _HOVER},
    "over": {"mode": "markers", "marker": {"size": 5, "symbol": "x-thin-open", "opacity": 0.7},
             "hovertemplate": "does not fit: " + _HOVER},
    "frontier": {"mode": "lines", "line": {"width": 1.5, "shape": "linear"}, "hoverinfo": "skip"},
    "frontier points": {"mode": "markers", "hovertemplate": _HOVER,
                        "marker": {"size": 7, "line": {"width": 1}, "coloraxis": "coloraxis"}},
    "bests": {"mode": "markers+text", "hovertemplate": _HOVER,
              "marker": {"size": 10, "line": {"width": 2}, "coloraxis": "coloraxis"}},
    "yours": {"mode": "markers+text", "marker": {"size": 10}, "textfont": {"size": 12},
              "hovertemplate": _HOVER},
}  # fmt: skip
"""Traces, from the back to the front."""
COLOUR_AXIS: dict[str, Any] = {
    "colorscale": COLOURS, "showscale": False,
    "colorbar": {"thickness": 10, "len": UPPER * (1 - GAP), "y": 1, "yanchor": "top", "x": 1.02,
                 "title": {"side": "right"}, "tickfont": {"size": 10}},
}  # fmt: skip
"""Scale of colours of the third axis, beside the upper part."""
