"""The chart of the What-if tab: throughput, and efficiency or memory, over the varied number.

One figure, made when the first curve is drawn and then updated in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from explorer.views.sweep_view import NAMES
from widgets.figures import one_message
from widgets.search.charts import UPLOADS

_INK = {"light": "#222222", "dark": "#e0e0e0"}
_INK_2 = {"light": "#5c6168", "dark": "#a9afb7"}
_PAPER = {"light": "#ffffff", "dark": "#212121"}
_LINE = {"light": "#1976d2", "dark": "#64b5f6"}
_BAD = {"light": "#b71c1c", "dark": "#ff8f85"}
_GRID = "rgba(128,128,128,.25)"
HEIGHT_PX = 280


def warm_up() -> None:
    """Import what the first figure would; safe on a thread, as no widget is made."""
    import plotly.graph_objects
    import plotly.io
    import plotly.subplots

    plotly.graph_objects.FigureWidget, plotly.io.renderers, plotly.subplots.make_subplots  # noqa: B018 - lazy names


class SweepChart:
    """Two panels side by side; traces are made once."""

    def __init__(self) -> None:
        self.widget = _figure()
        self.traces: dict[str, Any] = {}
        """Traces by what they show."""
        for name, column, options in _TRACES:
            self.widget.add_scatter(name=name, showlegend=False, row=1, col=column, **options)
            self.traces[name] = self.widget.data[-1]

    def draw(
        self, key: str, points: Sequence[dict[str, Any]], *, tokens: bool, ideal: bool, theme: str
    ) -> None:
        """Draw points of `explorer.views.sweep_view.curve_points` in place.

        Args:
            key: key of the varied number.
            points: points in ascending order.
            tokens: whether throughput is in tokens.
            ideal: whether throughput should grow with the value: a dashed line from the plan shown says so.
            theme: light or dark.
        """
        there = [point for point in points if point["step_time_s"] is not None]
        second = "efficiency" if any(point["efficiency"] is not None for point in there) else "memory"
        with one_message(self.widget):
            self._curve("throughput", there, "throughput", 1.0)
            self._curve("second", there, second, 100.0)
            self._ideal(there if ideal else [])
            self._capacity(there if second == "memory" else [])
            self._axes(key, there, second, tokens=tokens)
            self._theme(theme)

    def _curve(self, name: str, points: list[dict[str, Any]], field: str, scale: float) -> None:
        for suffix, chosen in (
            ("", points),
            (" fits", [p for p in points if p["feasible"]]),
            (" lacks", [p for p in points if not p["feasible"]]),
            (" now", [p for p in points if p["now"]]),
        ):
            trace = self.traces[name + suffix]
            trace.x = [p["value"] for p in chosen]
            trace.y = [(p[field] or 0.0) * scale for p in chosen]

    def _ideal(self, points: list[dict[str, Any]]) -> None:
        """Draw throughput in proportion to devices, from the plan shown, or from the first point."""
        start = next((p for p in points if p["now"]), points[0] if points else None)
        line = self.traces["ideal"]
        ideal = [start["throughput"] * p["devices"] / start["devices"] for p in points] if start else []
        line.x, line.y = [p["value"] for p in points], ideal
        line.text = [*[""] * (len(points) - 1), "in proportion"] if points else []
        # on two logarithmic axes proportion is a straight line
        ticks = _ticks([*(p["throughput"] for p in points), *ideal]) if points else []
        self.widget.update_yaxes(
            type="log" if points else "linear", tickmode="array" if ticks else "auto", tickvals=ticks or None,
            ticktext=[_short(tick) for tick in ticks] or None, row=1, col=1,
        )  # fmt: skip

    def _capacity(self, points: list[dict[str, Any]]) -> None:
        line, values = self.traces["capacity"], [p["value"] for p in points]
        line.x, line.y = values, [100.0] * len(values)
        line.text = ["capacity", *[""] * (len(values) - 1)] if values else []

    def _axes(self, key: str, points: list[dict[str, Any]], second: str, *, tokens: bool) -> None:
        values = [p["value"] for p in points]
        title = NAMES.get(key, "").partition(",")[0]
        for column in (1, 2):
            self.widget.update_xaxes(
                type="log", tickmode="array", tickvals=values, ticktext=[f"{value:g}" for value in values],
                title_text=title, row=1, col=column,
            )  # fmt: skip
        share = "Efficiency against now" if second == "efficiency" else "Worst memory"
        names = (f"Throughput, {'tokens' if tokens else 'samples'}/s", f"{share}, %")
        for annotation, name in zip(self.widget.layout.annotations, names, strict=False):
            annotation.text = name

    def _theme(self, theme: str) -> None:
        ink, soft = _INK.get(theme, _INK["light"]), _INK_2.get(theme, _INK_2["light"])
        line, bad = _LINE.get(theme, _LINE["light"]), _BAD.get(theme, _BAD["light"])
        paper = _PAPER.get(theme, _PAPER["light"])
        self.widget.update_layout(
            font={"color": ink}, hoverlabel={"bgcolor": paper, "font": {"color": ink}, "bordercolor": soft}
        )
        self.widget.update_annotations(font={"color": ink, "size": 13})
        for name in ("throughput", "second"):
            self.traces[name].line.color = line
            self.traces[f"{name} fits"].marker.color = line
            self.traces[f"{name} lacks"].update(marker={"color": bad}, textfont={"color": bad, "size": 11})
            self.traces[f"{name} now"].update(
                marker={"color": paper, "line": {"color": line, "width": 3}},
                textfont={"color": ink, "size": 11},
            )
        for name in ("ideal", "capacity"):
            self.traces[name].update(line={"color": soft}, textfont={"color": soft, "size": 11})


def _ticks(values: Sequence[float]) -> list[float]:
    """Return 1, 2 and 5 times powers of ten around the values; fewer if they span a wide range."""
    low, high = min(values), max(values)
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 1000 else (1,)
    return [m * 10.0**k for k in powers for m in steps if low / 1.5 <= m * 10.0**k <= high * 1.5]


def _short(value: float) -> str:
    """Write a tick's number: 20k, 5M.

    >>> _short(20000.0)
    '20k'
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def _panel(name: str, column: int) -> list[tuple[str, int, dict[str, Any]]]:
    hover = "%{x:g}: %{y:.4g}<extra></extra>"
    now = {"mode": "markers", "marker": {"size": 11}, "hovertemplate": f"now, {hover}"}
    return [
        (name, column, {"mode": "lines", "line": {"width": 1.5}, "hoverinfo": "skip"}),
        (f"{name} fits", column, {"mode": "markers", "marker": {"size": 8}, "hovertemplate": hover}),
        (f"{name} lacks", column, {"mode": "markers", "marker": {"size": 10, "symbol": "x"},
                                   "hovertemplate": "does not fit, " + hover}),
        (f"{name} now", column, now),
    ]  # fmt: skip


_TRACES = [
    ("ideal", 1, {"mode": "lines+text", "line": {"width": 1, "dash": "dash"}, "hoverinfo": "skip",
                  "textposition": "top left"}),
    ("capacity", 2, {"mode": "lines+text", "line": {"width": 1, "dash": "dash"}, "hoverinfo": "skip",
                     "textposition": "top right"}),
    *_panel("throughput", 1),
    *_panel("second", 2),
]  # fmt: skip
"""Name, column and options of every trace, from the back to the front."""


def _figure() -> Any:
    """Make an empty figure of two parts, side by side."""
    from plotly.graph_objects import FigureWidget
    from plotly.subplots import make_subplots

    figure = FigureWidget(make_subplots(rows=1, cols=2, horizontal_spacing=0.12, subplot_titles=(" ", " ")))
    figure.update_layout(
        height=HEIGHT_PX, autosize=True, margin={"l": 56, "r": 12, "t": 28, "b": 44}, showlegend=False,
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"size": 11}, hovermode="closest",
        modebar={"remove": ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d", *UPLOADS],
                 "bgcolor": "rgba(0,0,0,0)"}, dragmode="pan",
    )  # fmt: skip
    for i, annotation in enumerate(figure.layout.annotations):
        annotation.update(x=figure.layout[f"xaxis{i + 1 if i else ''}"].domain[0], xanchor="left")
    figure.update_xaxes(gridcolor=_GRID, zeroline=False, title_standoff=4)
    figure.update_yaxes(gridcolor=_GRID, zeroline=False, rangemode="tozero")
    figure.layout.width = None
    return figure
