"""Plotly charts, imported when first asked for: the first figure of a kernel takes seconds.

One figure: above, everything costed along the axes of the frontier, with the frontier, the bests of the
searchers and yours; below, best so far over time. It is made once and then updated in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.search.objectives import axes_of
from widgets.figures import one_message

from .curves_chart import TITLE, CurvesPart
from .found import Found
from .frontier_chart import COLOUR_AXIS, FrontierPart, right_px
from .points import SECONDS, Pick
from .sizes import (
    BOTTOM_PX,
    GAP,
    HEIGHT_PX,
    LEFT_PX,
    RIGHT_PX,
    TOP_PX,
    UPPER,
    WIDTH_PX,
    Inks,
    inks_of,
)

_GRID = "rgba(128,128,128,.25)"
LEAST_PX = 260
"""Least width in pixels."""
UPLOADS = ("sendChartToCloud", "sendDataToCloud")
"""Plotly's own buttons that would send the chart to its maker; no chart of ours has them."""


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
        self.widget = _figure()
        self._upper = FrontierPart(self.widget, load)
        self._lower = CurvesPart(self.widget)

    @property
    def traces(self) -> dict[str, Any]:
        """Traces of the upper part by what they show."""
        return self._upper.traces

    def draw(
        self, found: Found, *, objective: str, theme: str, width_px: int = 0, over: str = SECONDS
    ) -> None:
        """Draw everything again, in place.

        Args:
            found: what searches found, and what it is seen along.
            objective: objective of the curves below, of a frontier its first axis.
            theme: `light` or `dark`.
            width_px: width of its place; 0 if unknown.
            over: what the curves are drawn over, `SECONDS` or `EVALUATIONS`.
        """
        width, inks, ranks = max(LEAST_PX, width_px or WIDTH_PX), inks_of(theme), axes_of(objective)[0]
        ranked = [item for item in found.entrants if item.run and axes_of(item.run.objective)[0] == ranks]
        with one_message(self.widget):
            self.widget.layout.width = width
            self.widget.layout.margin.r = right_px(found.axes)
            self._upper.draw(found, width, inks)
            self._lower.draw(ranked, ranks, over, width, inks)
            self._draw_theme(inks)

    def _draw_theme(self, inks: Inks) -> None:
        # leaf properties only: one message must not set both a font and the colour of a font
        hover = {"bgcolor": inks.paper, "font": {"color": inks.ink}, "bordercolor": inks.second}
        self.widget.update_layout(font={"color": inks.ink}, hoverlabel=hover)
        self.widget.update_layout(modebar={"color": inks.second, "activecolor": inks.ink})
        self.widget.update_annotations(font={"color": inks.ink, "size": 13})


def _figure() -> Any:
    """Make an empty figure of two parts, one above the other."""
    from plotly.graph_objects import FigureWidget
    from plotly.subplots import make_subplots

    titles = ("Frontier: a click on a point loads its strategy", TITLE)
    figure = FigureWidget(
        make_subplots(
            rows=2, cols=1, row_heights=[UPPER, 1 - UPPER], vertical_spacing=GAP, subplot_titles=titles
        )
    )
    figure.update_layout(
        height=HEIGHT_PX, width=WIDTH_PX, margin={"l": LEFT_PX, "r": RIGHT_PX, "t": TOP_PX, "b": BOTTOM_PX},
        showlegend=False, coloraxis=COLOUR_AXIS,
        paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", font={"size": 11}, hovermode="closest",
        modebar={"remove": ["select2d", "lasso2d", "autoScale2d", *UPLOADS],
                 "bgcolor": "rgba(0,0,0,0)"},
        dragmode="pan",
    )  # fmt: skip
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_xaxes(gridcolor=_GRID, zeroline=False, title_standoff=4)
    figure.update_yaxes(gridcolor=_GRID, zeroline=False)
    return figure
