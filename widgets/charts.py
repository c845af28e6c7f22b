"""Plotly charts, imported when first asked for: the first figure of a kernel takes seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.units import GIB

_INK = {"light": "#222222", "dark": "#e0e0e0"}
_COLOURS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#73829a")


def warm_up() -> None:
    """Import what the first figure would; safe on a thread, as no widget is made."""
    import plotly.graph_objects
    import plotly.io
    import plotly.subplots

    plotly.graph_objects.FigureWidget, plotly.io.renderers, plotly.subplots.make_subplots  # noqa: B018 - lazy names


def search_figure() -> Any:
    """An empty figure of two parts: best so far over time, and step time over memory."""
    from plotly.graph_objects import FigureWidget
    from plotly.subplots import make_subplots

    figure = FigureWidget(
        make_subplots(
            rows=1, cols=2, horizontal_spacing=0.12,
            subplot_titles=("Best so far", "Frontier: step time over worst memory"),
        )
    )  # fmt: skip
    figure.update_layout(
        height=280, autosize=True, margin={"l": 56, "r": 16, "t": 32, "b": 44}, paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)", legend={"orientation": "h", "y": -0.22}, font={"size": 12},
    )  # fmt: skip
    figure.update_xaxes(title_text="seconds of search", row=1, col=1, rangemode="tozero")
    figure.update_yaxes(title_text="step time, s", row=1, col=1)
    figure.update_xaxes(title_text="worst memory, GiB", row=1, col=2)
    figure.update_yaxes(title_text="step time, s", row=1, col=2)
    figure.layout.width = None
    return figure


def update_figure(
    figure: Any,
    curves: Mapping[str, Sequence[tuple[float, float]]],
    points: Sequence[Mapping[str, Any]],
    *,
    yours: tuple[float, float] | None,
    theme: str,
) -> None:
    """Draw anew in place. `points` are rows of `frontier_points`; `yours` is (step time, peak bytes)."""
    ink = _INK.get(theme, _INK["light"])
    with figure.batch_update():
        figure.data = ()
        for i, (name, curve) in enumerate(curves.items()):
            colour = _COLOURS[i % len(_COLOURS)]
            if curve:
                figure.add_scatter(
                    x=[x for x, _ in curve], y=[y for _, y in curve], name=name, mode="lines+markers",
                    line={"shape": "hv", "color": colour}, row=1, col=1,
                )  # fmt: skip
            own = [row for row in points if row["searcher"] == name]
            if own:
                figure.add_scatter(
                    x=[row["peak_bytes"] / GIB for row in own], y=[row["step_time_s"] for row in own],
                    text=[row["label"] for row in own], mode="markers", name=name, showlegend=False,
                    marker={"color": colour, "symbol": "circle-open", "size": 8},
                    hovertemplate="%{text}<br>%{y:.4g} s, %{x:.1f} GiB<extra></extra>", row=1, col=2,
                )  # fmt: skip
        if yours is not None:
            figure.add_scatter(
                x=[yours[1] / GIB], y=[yours[0]], name="yours", mode="markers",
                marker={"color": "#1976d2", "size": 11}, row=1, col=2,
            )  # fmt: skip
        figure.update_layout(font={"color": ink})
        figure.update_xaxes(gridcolor="rgba(128,128,128,.25)", zeroline=False)
        figure.update_yaxes(gridcolor="rgba(128,128,128,.25)", zeroline=False)
