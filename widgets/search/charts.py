"""Plotly charts, imported when first asked for: the first figure of a kernel takes seconds.

One figure: above, step time over memory of everything costed, with the frontier, the bests of the searchers
and yours; below, best so far over time. It is made once and then updated in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from explorer.base.units import GIB
from explorer.search import OBJECTIVES, Candidate

from .labels import place
from .points import (
    HEIGHT_PX,
    LEFT_PX,
    RIGHT_PX,
    SECONDS,
    WIDTH_PX,
    Pick,
    bests_of,
    clear,
    curve_of,
    curve_range,
    end_s,
    end_sides,
    frontier_of,
    name_of,
    ranges,
    spot_at,
    spot_pick,
    staircase,
)
from .task import Entrant, Spot

_INK = {"light": "#222222", "dark": "#e0e0e0"}
_INK_2 = {"light": "#5c6168", "dark": "#a9afb7"}
_PAPER = {"light": "#ffffff", "dark": "#212121"}
_BRAND = {"light": "#1976d2", "dark": "#64b5f6"}
_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#73829a")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot", "solid")
_GRID = "rgba(128,128,128,.25)"

UPLOADS = ("sendChartToCloud", "sendDataToCloud")
"""Plotly's own buttons that would send the chart to its maker; no chart of ours has them."""
BOUND_TEXT_PX = 62.0
"""Distance of the middle of the bound's name from the axis: all of it is to the right of that."""
CURVE_ROOM = 1.28
"""Length of the axis of seconds over the longest search, which leaves room for names."""


def warm_up() -> None:
    """Import what the first figure would; safe on a thread, as no widget is made."""
    import plotly.graph_objects
    import plotly.io
    import plotly.subplots

    plotly.graph_objects.FigureWidget, plotly.io.renderers, plotly.subplots.make_subplots  # noqa: B018 - lazy names


class SearchChart:
    """The figure of the Search tab.

    Args:
        load: called with what a clicked point stands for.
    """

    def __init__(self, load: Callable[[Pick], None]) -> None:
        self._load = load
        self._picks: dict[str, list[Pick]] = {}
        self._curves: dict[str, Any] = {}
        self._width_px = WIDTH_PX
        self.widget = _figure()
        self.traces: dict[str, Any] = {}
        """Traces by what they show."""
        for name, options in _TRACES.items():
            self.widget.add_scatter(name=name, showlegend=False, row=1, col=1, **options)
            self.traces[name] = self.widget.data[-1]
        for name in ("costed", "over", "frontier points", "bests"):
            self.traces[name].on_click(self._clicker(name))

    def _clicker(self, name: str) -> Callable[..., None]:
        def clicked(_trace: Any, points: Any, _state: Any) -> None:
            picks = self._picks.get(name, [])
            if points.point_inds and points.point_inds[0] < len(picks):
                self._load(picks[points.point_inds[0]])

        return clicked

    def draw(
        self, entrants: Iterable[Entrant], spots: Sequence[Spot], yours: Candidate, *,
        fits_bytes: float, capacity_bytes: float, bound_s: float, objective: str, theme: str,
        width_px: int = 0, over: str = SECONDS,
    ) -> None:  # fmt: skip
        """Draw everything again, in place.

        Args:
            entrants: searchers with their results.
            spots: strategies costed on the way.
            yours: the strategy on the board.
            fits_bytes: peak of a device up to which a plan fits for sure.
            capacity_bytes: largest peak that is taken; from `fits_bytes` to there a plan may fit.
            bound_s: lower bound of every step time.
            objective: objective of the curves below.
            theme: `light` or `dark`.
            width_px: width of its place; 0 if unknown.
            over: what the curves are drawn over, `SECONDS` or `EVALUATIONS`.
        """
        several = list(entrants)
        self._width_px = max(260, width_px or WIDTH_PX)
        with self.widget.batch_update():
            self.widget.layout.width = self._width_px
            self._draw_points(several, spots, yours, (fits_bytes / GIB, capacity_bytes / GIB), bound_s)
            self._draw_curves(several, objective, over)
            self._draw_theme(theme)

    # -- above: step time over memory -------------------------------------------------------------

    def _draw_points(
        self,
        entrants: list[Entrant],
        spots: Sequence[Spot],
        yours: Candidate,
        room: tuple[float, float],
        bound_s: float,
    ) -> None:
        fits, capacity = room
        bests = bests_of(entrants)
        own = (yours.outcome.peak_memory_bytes / GIB, yours.outcome.step_time_s)
        frontier = frontier_of(entrants)
        x_end, y_ends = ranges([own, *bests, *frontier], capacity, bound_s)
        size = (self._width_px - LEFT_PX - RIGHT_PX, 0.45 * HEIGHT_PX)
        named = [own, *bests, *frontier]
        shown = [spot for spot in spots if clear(spot_at(spot), named, (x_end, *y_ends), size)]
        self._points("costed", [(spot_at(s), spot_pick(s)) for s in shown if s.fits])
        self._points("over", [(spot_at(s), spot_pick(s)) for s in shown if not s.fits])
        self._points("frontier points", list(frontier.items()))
        steps = staircase(list(frontier), x_end)
        self._set("frontier", [x for x, _ in steps], [y for _, y in steps])
        self._points("bests", [(at, picks[0]) for at, picks in bests.items()])
        names = {at: name_of([pick[0] for pick in picks]) for at, picks in bests.items()}
        order = sorted(bests, key=lambda at: at[1])  # the fastest are named before room runs out
        sides = place(
            [own, *order], ["yours", *(names[at] for at in order)], (x_end, *y_ends), size,
            crowd=[spot_at(s) for s in shown],
        )  # fmt: skip
        side_of = dict(zip(order, sides[1:], strict=True))
        self.traces["bests"].update(
            text=[names[at] if side_of[at] else "" for at in bests],
            textposition=[side_of[at] or "middle right" for at in bests],
        )
        self._set("yours", [own[0]], [own[1]])
        self.traces["yours"].update(text=["yours"], textposition=sides[:1])
        self._set("bound", [0.0, min(capacity, x_end)], [bound_s, bound_s])
        self._set("bound text", [BOUND_TEXT_PX / size[0] * x_end], [bound_s])
        self.traces["bound text"].update(text=[f"lower bound {bound_s:.3g} s"], textposition="top center")
        low, high = y_ends
        self._set("no room", [capacity, capacity, x_end, x_end], [low, high, high, low])
        band = [fits, fits, capacity, capacity] if capacity > fits else []
        self._set("perhaps", band, [low, high, high, low][: len(band)])
        self._set("perhaps text", [(fits + capacity) / 2] if band else [], [low + 0.12 * (high - low)])
        self._set("no room text", [(capacity + x_end) / 2], [low + 0.05 * (high - low)])
        self.widget.update_xaxes(range=[0, x_end], row=1, col=1)
        above = sum(at[1] > high for at in bests)
        more = f" ({above} more above)" if above else ""
        self.widget.update_yaxes(range=list(y_ends), title_text=f"step time, s{more}", row=1, col=1)

    def _points(self, name: str, points: Sequence[tuple[tuple[float, float], Pick]]) -> None:
        self._picks[name] = [pick for _, pick in points]
        self._set(name, [at[0] for at, _ in points], [at[1] for at, _ in points])
        self.traces[name].customdata = [f"{pick[0]}: {pick[2]}" for _, pick in points]

    def _set(self, name: str, x: list[float], y: list[float]) -> None:
        self.traces[name].update(x=x, y=y)

    # -- below: best so far -----------------------------------------------------------------------

    def _draw_curves(self, entrants: list[Entrant], objective: str, over: str) -> None:
        for entrant in entrants:
            if entrant.name not in self._curves:
                number = len(self._curves) % len(_COLOURS)
                self.widget.add_scatter(
                    name=entrant.name, mode="lines+markers+text",
                    line={"shape": "hv", "color": _COLOURS[number], "dash": _DASHES[number], "width": 2},
                    marker={"size": 4}, showlegend=False, row=2, col=1,
                )  # fmt: skip
                self._curves[entrant.name] = self.widget.data[-1]
        live = {entrant.name: entrant for entrant in entrants}
        longest = max((end_s(e, over) for e in entrants), default=1.0) or 1.0
        sides = end_sides(
            [entrant for entrant in entrants if entrant.curve], longest * CURVE_ROOM, self._width_px, over
        )
        unit = " s" if over == SECONDS else " evaluations"
        for name, trace in self._curves.items():
            curve = curve_of(live[name], over) if name in live else []
            last = name if sides.get(name) else ""
            text = [""] * (len(curve) - 1) + [last] * bool(curve)
            trace.update(
                x=[x for x, _ in curve], y=[y for _, y in curve], text=text,
                textposition=sides.get(name) or "middle right",
                hovertemplate=f"{name}<br>%{{x:.3g}}{unit}: %{{y:.4g}}<extra></extra>",
            )  # fmt: skip
        axis = "seconds of search" if over == SECONDS else "strategies costed"
        self.widget.update_xaxes(title_text=axis, row=2, col=1)
        found = OBJECTIVES[objective].unit if objective in OBJECTIVES else "s"
        unit = {"bytes": "B"}.get(found, found)
        low_high = list(curve_range([entrant for entrant in entrants if entrant.curve]))
        found_any = any(entrant.curve for entrant in entrants)  # an axis of nothing would count up to 1
        self.widget.update_yaxes(
            title_text=f"best, {unit}", range=low_high, showticklabels=found_any, row=2, col=1
        )
        self.widget.update_xaxes(range=[0, longest * CURVE_ROOM], row=2, col=1)

    def _draw_theme(self, theme: str) -> None:
        # leaf properties only: one message must not set both a font and the colour of a font
        ink, second = _INK.get(theme, _INK["light"]), _INK_2.get(theme, _INK_2["light"])
        paper, brand = _PAPER.get(theme, _PAPER["light"]), _BRAND.get(theme, _BRAND["light"])
        self.widget.update_layout(
            font={"color": ink}, hoverlabel={"bgcolor": paper, "font": {"color": ink}, "bordercolor": second}
        )
        self.widget.update_layout(modebar={"color": second, "activecolor": ink})
        self.widget.update_annotations(font={"color": ink, "size": 13})
        for name in ("costed", "over"):
            self.traces[name].marker.color = second
        for name in ("frontier", "bests", "frontier points"):
            self.traces[name].update(line={"color": ink}, marker={"line": {"color": ink}, "color": paper})
        self.traces["bests"].update(textfont={"color": ink, "size": 11})
        self.traces["yours"].update(
            marker={"color": brand, "line": {"color": brand}}, textfont={"color": brand}
        )
        self.traces["bound"].update(line={"color": second})
        self.traces["bound text"].update(textfont={"color": second, "size": 11})
        self.traces["no room"].update(line={"color": ink}, fillpattern={"fgcolor": second})
        self.traces["perhaps"].update(line={"color": ink})
        self.traces["perhaps text"].update(textfont={"color": ink, "size": 11})
        self.traces["no room text"].update(textfont={"color": ink, "size": 11})
        for trace in self._curves.values():
            trace.update(textfont={"color": ink, "size": 11})


_HOVER = "%{customdata}<br>%{y:.4g} s, %{x:.1f} GiB<extra></extra>"
_TRACES: dict[str, dict[str, Any]] = {
    "perhaps": {"mode": "lines", "fill": "toself", "line": {"width": 0}, "hoverinfo": "skip",
                "fillcolor": "rgba(128,128,128,.12)"},
    "perhaps text": {"mode": "text", "text": ["may fit"], "hoverinfo": "skip"},
    "no room": {"mode": "lines", "fill": "toself", "line": {"width": 1}, "hoverinfo": "skip",
                "fillcolor": "rgba(128,128,128,.05)",
                "fillpattern": {"shape": "/", "size": 7, "solidity": 0.12, "fillmode": "overlay"}},
    "no room text": {"mode": "text", "text": ["does not fit"], "hoverinfo": "skip"},
    "bound": {"mode": "lines", "line": {"width": 1, "dash": "dash"}, "hoverinfo": "skip"},
    "bound text": {"mode": "text", "hoverinfo": "skip"},
    "costed": {"mode": "markers", "marker": {"size": 4, "opacity": 0.55}, "hovertemplate": _HOVER},
    "over": {"mode": "markers", "marker": {"size": 5, "symbol": "x-thin-open", "opacity": 0.7},
             "hovertemplate": "does not fit: " + _HOVER},
    "frontier": {"mode": "lines", "line": {"width": 1.5, "shape": "linear"}, "hoverinfo": "skip"},
    "frontier points": {"mode": "markers", "marker": {"size": 6, "line": {"width": 1}},
                        "hovertemplate": _HOVER},
    "bests": {"mode": "markers+text", "marker": {"size": 10, "line": {"width": 2}}, "hovertemplate": _HOVER},
    "yours": {"mode": "markers+text", "marker": {"size": 10}, "textfont": {"size": 12},
              "hovertemplate": "yours<br>%{y:.4g} s, %{x:.1f} GiB<extra></extra>"},
}  # fmt: skip
"""Traces of the upper part, from the back to the front."""


def _figure() -> Any:
    """Make an empty figure of two parts, one above the other."""
    from plotly.graph_objects import FigureWidget
    from plotly.subplots import make_subplots

    titles = ("Frontier: a click on a point loads its strategy", "Best so far")
    figure = FigureWidget(
        make_subplots(rows=2, cols=1, row_heights=[0.66, 0.34], vertical_spacing=0.2, subplot_titles=titles)
    )
    figure.update_layout(
        height=HEIGHT_PX, width=WIDTH_PX, margin={"l": LEFT_PX, "r": RIGHT_PX, "t": 28, "b": 40},
        showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"size": 11}, hovermode="closest",
        modebar={"remove": ["select2d", "lasso2d", "autoScale2d", *UPLOADS],
                 "bgcolor": "rgba(0,0,0,0)"},
        dragmode="pan",
    )  # fmt: skip
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_xaxes(gridcolor=_GRID, zeroline=False)
    figure.update_yaxes(gridcolor=_GRID, zeroline=False)
    figure.update_xaxes(title_text="worst device memory, GiB", title_standoff=4, row=1, col=1)
    figure.update_yaxes(title_text="step time, s", row=1, col=1)
    figure.update_xaxes(title_text="seconds of search", title_standoff=4, row=2, col=1)
    return figure
