"""What the page is told of when a workbench starts; tabs made later, a board that did not start."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from ipywidgets import HTML

import widgets
from widgets import Board, Explorer
from widgets.base import Widget

MOST_BYTES = 250_000
"""Of all modules and style sheets that a page may load, compressed."""


@pytest.fixture(scope="module")
def bench() -> Explorer:
    return Explorer("gpt2-small", "dgx-a100", session=None, global_batch=32)


def told(bench: Explorer) -> set[Widget]:
    """The widgets that the page was told of."""
    found = [*bench.parts.drawn, *(widget for panel in bench.panels for widget in panel.widgets())]
    return {widget for widget in found if widget.comm is not None}


def test_the_page_is_told_of_a_tab_when_it_is_opened(bench: Explorer) -> None:
    assert told(bench) == {*bench.parts.drawn, *bench.search_panel.widgets()}, "the rest is out of sight"
    assert isinstance(bench.run_panel.box.children[0], HTML), "which says that it is being made"
    bench.open_tab("Run")
    assert told(bench) == {*bench.parts.drawn, *bench.search_panel.widgets(), *bench.run_panel.widgets()}
    assert set(bench.run_panel.widgets()) <= set(bench.run_panel.box.children)
    content = bench.run_panel.box.children
    bench.open_tab("Search")
    bench.open_tab("Run")
    assert bench.run_panel.box.children is content, "made once"


def test_a_tab_out_of_sight_follows_the_plan(bench: Explorer) -> None:
    panel = bench.what_if_panel
    bench.set(microbatch_size=2)
    assert panel.sliders.comm is None
    view = panel.sliders.view
    assert view["sliders"]
    bench.open_tab("What if")
    assert panel.sliders.get_state("view") == {"view": view}, "it is sent as it is now"
    assert panel.sliders in panel.box.children
    assert panel.sliders.model_id == panel.sliders.own_id


def test_a_late_widget_shown_alone_opens_at_once() -> None:
    late = Board(late=True)
    assert late.comm is None
    late.view = {"lanes": []}
    bundle = late._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data is not None
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == late.own_id
    assert late.comm is not None
    late.close()
    assert late.comm is None


def test_a_board_that_did_not_start_is_started_again(bench: Explorer) -> None:
    board, (box, *_) = bench.board, bench.parts.rest
    former, view = board.model_id, board.view
    bench.tiles.send_intent("action", action="show_board")
    assert bench.error == ""
    assert board.model_id != former, "the page gets a model of its own"
    assert board.model_id == board.own_id
    assert box.children == (board,)
    assert board.view is view, "with the same plan"
    layer = bench.now().inputs.graph.layers[-1].name
    board.send_intent("pin", layers=[layer], on=True)
    assert layer in board.view["pinned"], "and answers"


def test_all_code_of_the_page_is_light() -> None:
    """The report's bundle is in files that are sent to someone, and no page loads it."""
    static = Path(widgets.__file__).parent / "static"
    files = [path for path in static.iterdir() if path.suffix in {".js", ".css"} and path.stem != "report"]
    assert len(files) > 20
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= MOST_BYTES
