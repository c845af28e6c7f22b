"""The widgets of the workbench and their arrangement on the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ipywidgets import HTML, Box, DOMWidget, Layout, Tab, VBox

from explorer.views import quick_verdict

from .base import Widget as BaseWidget
from .board import Board
from .controls import Controls
from .graph_view import GraphView
from .heatmap import Heatmap
from .panels import STYLE
from .reasons import Reasons
from .session import Point
from .tab_box import TabBox
from .tiles import Tiles
from .timeline import Timeline


class Parts:
    """All drawn parts. They know nothing about each other; the workbench assigns their views."""

    def __init__(self, bench: str = "") -> None:
        self.bench = bench
        """Id by which the widgets of one workbench know each other on the page."""
        self.controls = Controls(fresh=True)
        self.tiles = Tiles()
        self.board = Board()
        self.timeline = Timeline()
        self.graph = GraphView()
        self.memory = Heatmap()
        self.traffic = Heatmap()
        self.tabs = Tab(layout=Layout(width="100%"))
        self.figures: dict[str, Any] = {"tiles": [], "pending": False}
        """What the tiles show, without the verdict."""
        self.marking = False
        """Whether lanes are being marked by this side, not by the page."""
        self.blocks: list[dict[str, Any]] | None = None
        """The blocks that the board was given."""
        self.tour: Callable[[Point | None], dict[str, Any] | None] = lambda _: None
        """Function that says what of the tour is shown with a state."""
        self.rest: tuple[DOMWidget, ...] = ()
        """What is hidden while nothing is loaded. None of it is a widget of ours: anywidget drops what the
        page knows about a widget's classes when it draws it, so the surrounding box is shown and hidden
        instead.
        """

    @property
    def drawn(self) -> tuple[BaseWidget, ...]:
        """The widgets that send intents, in the order they stand on the page."""
        return (
            self.controls, self.tiles, self.board, self.timeline, self.graph, self.memory, self.traffic
        )  # fmt: skip

    def say(
        self,
        point: Point | None,
        said: Mapping[str, Any] | None,
        reasons: Reasons,
        tiles: list[dict[str, Any]],
        own: dict[str, Any] | None,
    ) -> None:
        """Put sentence and reasons under the tiles: those of a search or run, else of the state shown."""
        for widget in self.rest:
            (widget.remove_class if point else widget.add_class)("xp-absent")
        if point is None:
            verdict: Mapping[str, Any] = {
                "level": "none",
                "text": "Choose a model and a cluster, for example **llama3-8b** on **dgx-a100**.",
            }
        elif said is not None:
            verdict = said
        elif reasons.verdict is not None:
            verdict = reasons.verdict
        else:
            verdict = quick_verdict(point.scene)
        view = {
            **self.figures, "tiles": tiles, "verdict": dict(verdict),
            "reasons": reasons.rows if point else [], "reasoning": point is not None and reasons.under_way,
            "own": own, "tour": self.tour(point),
        }  # fmt: skip
        if view != self.tiles.view:
            self.tiles.view = view

    def fill_tab(self) -> None:
        """Give the tab in front its content, if it has none yet."""
        box = self.tabs.children[self.tabs.selected_index or 0]
        assert isinstance(box, TabBox)
        box.fill()

    def show_board(self) -> None:
        """Have the page draw the board anew, from a model of its own: the first one did not start there."""
        box = self.rest[0]
        assert isinstance(box, Box)
        box.children = ()
        self.board.begin_again()
        box.children = (self.board,)

    def mark(self, point: Point, selection: Iterable[str]) -> None:
        """Mark the lanes that hold the selection in the other views."""
        lanes = point.scene.lane_of_layer
        chosen = set(selection)
        layers = {layer.name for layer in point.inputs.graph.layers if layer.block in chosen} | chosen
        marked = sorted({lanes[name] for name in layers if name in lanes})
        self.marking = True
        try:
            for widget in (self.timeline, self.memory, self.traffic):
                widget.selected_lanes = marked
        finally:
            self.marking = False


def _boxed(widget: BaseWidget) -> Box:
    return Box([widget], layout=Layout(width="100%", overflow="visible", display="block"))


def arrange(parts: Parts, tabs: Sequence[tuple[str, TabBox]]) -> dict[str, Any]:
    """Return the arguments of the outer box: bar, tiles, board and timeline in full width, two columns,
    tabs. A tab is filled when it is opened; the one in front by `Parts.fill_tab`, once the rest is drawn.
    """
    half = Layout(flex="1 1 440px", min_width="0", width="auto")
    parts.graph.layout = half
    heat = VBox([parts.memory, parts.traffic], layout=Layout(flex="1 1 440px", min_width="0", width="auto"))
    columns = Box(
        [parts.graph, heat],
        layout=Layout(display="flex", flex_flow="row wrap", align_items="stretch", width="100%"),
    )
    parts.tabs.children = [box for _, box in tabs]
    for i, (title, _) in enumerate(tabs):
        parts.tabs.set_title(i, title)
    parts.tabs.observe(lambda _: parts.fill_tab(), "selected_index")
    parts.rest = (_boxed(parts.board), _boxed(parts.timeline), columns, parts.tabs)
    outer = [
        HTML(STYLE, layout=Layout(display="none")),
        parts.controls,
        parts.tiles,
        *parts.rest,
    ]
    frame = {"children": outer, "layout": Layout(width="100%", overflow="visible")}
    return frame | {"_dom_classes": ("xp-frame",)}
