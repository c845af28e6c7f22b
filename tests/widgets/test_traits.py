"""The Python side without a browser: traits, intents, refusals, texts."""

from __future__ import annotations

import importlib
import json
import math
from typing import Any

import pytest
import sample
from pydantic import TypeAdapter, ValidationError

import widgets
from tests.support import view_shapes as shapes
from widgets import Board, Controls, GraphView, Heatmap, Leaderboard, Tiles, Timeline
from widgets.base import STATIC, Widget, refuse_unsendable
from widgets.heatmap import pack as pack_cells
from widgets.timeline import COLUMNS, KINDS, pack

PARTS = [Board, Controls, GraphView, Heatmap, Leaderboard, Tiles, Timeline]

VIEWS = {
    "board": (shapes.BoardView, sample.board_view),
    "overfull": (shapes.BoardView, sample.overfull_view),
    "tiles": (shapes.TilesView, sample.tiles_view),
    "what if": (shapes.WhatIfView, sample.what_if_view),
    "controls": (shapes.ControlsView, sample.controls_view),
    "timeline": (shapes.TimelineView, lambda: sample.timeline()[1]),
    "memory": (shapes.MemoryView, lambda: sample.memory()[1]),
    "traffic": (shapes.TrafficView, sample.traffic),
    "graph": (shapes.GraphViewShape, sample.graph_view),
}


@pytest.mark.parametrize("name", VIEWS)
def test_samples_have_the_shapes_of_the_protocol(name: str) -> None:
    shape, make = VIEWS[name]
    TypeAdapter(shape).validate_python(make())


def test_shapes_refuse_unknown_keys() -> None:
    view: dict[str, Any] = {**sample.board_view(), "step_time_ms": 5}
    with pytest.raises(ValidationError, match="step_time_ms"):
        TypeAdapter(shapes.BoardView).validate_python(view)


def test_blocks_have_the_shape() -> None:
    TypeAdapter(list[shapes.Block]).validate_python(sample.blocks())


@pytest.mark.parametrize("kind", PARTS)
def test_every_own_trait_is_documented(kind: type[Widget]) -> None:
    own = {name for name in kind.class_trait_names(sync=True) if not name.startswith("_")} - {
        "layout",
        "tabbable",
        "tooltip",
    }
    assert own >= {"view", "seq", "notice"}
    assert not [name for name in own if not kind.class_traits()[name].help]


@pytest.mark.parametrize("kind", PARTS)
def test_protocol_names_every_trait(kind: type[Widget]) -> None:
    text = (STATIC.parent / "PROTOCOL.md").read_text()
    own = {name for name in kind.class_trait_names(sync=True) if not name.startswith("_")} - {
        "layout",
        "tabbable",
        "tooltip",
    }
    assert not [name for name in own if f"`{name}" not in text and f"{name}`" not in text]


@pytest.mark.parametrize("kind", PARTS)
def test_display_is_short_and_full_width(kind: type[Widget]) -> None:
    widget = kind()
    assert len(repr(widget)) < 120
    assert widget.layout.width == "100%"
    bundle = widget._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == repr(widget)


def test_repr_says_what_is_shown() -> None:
    assert (
        repr(Board(blocks=sample.blocks(), view=sample.overfull_view()))
        == "<Board: 34 blocks on 4 lanes, 1 over capacity>"
    )
    assert "Stage 2 binds" in repr(Tiles(view=sample.tiles_view()))
    assert "**" not in repr(Tiles(view=sample.tiles_view()))


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"lanes": [{"forward_s": math.nan}]}, r"view\.lanes\[0\]\.forward_s is nan: send None"),
        ({"ideal_s": math.inf}, r"view\.ideal_s is inf"),
        ({"cells": {1: 2}}, "keys are strings"),
        ({"lanes": {"a"}}, r"view\.lanes is a builtins\.set"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_path(value: dict[str, Any], path: str) -> None:
    board = Board()
    with pytest.raises(ValueError, match=path):
        board.view = value
    assert board.view == {}, "the view stays as it was"


def test_foreign_numbers_are_refused() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(ValueError, match=r"view\[0\] is a numpy"):
        refuse_unsendable([numpy.int64(3)], "view")


def test_samples_are_plain_json() -> None:
    for name, (_, make) in VIEWS.items():
        json.dumps(make(), allow_nan=False)
        refuse_unsendable(make(), name)


def test_an_intent_is_handled_then_acknowledged() -> None:
    board = Board(blocks=sample.blocks(), view=sample.board_view())
    seen: list[tuple[str, int]] = []

    def handle(intent: dict[str, Any]) -> None:
        seen.append((intent["kind"], board.seq))
        board.view = sample.overfull_view()

    board.on_intent(handle)
    board.send_intent("move", layers=["layers.17.mlp.up"], to_lane="0")
    assert seen == [("move", 0)], "the handler runs before the acknowledgement"
    assert board.seq == 1
    assert board.view["lanes"][0]["peak_bytes"] > board.view["lanes"][0]["capacity_bytes"]
    board.off_intent(handle)
    board.send_intent("undo")
    assert len(seen) == 1
    assert board.seq == 2


def test_the_answer_and_its_acknowledgement_leave_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board()
    messages: list[set[str]] = []
    monkeypatch.setattr(board, "send_state", lambda key=None: messages.append(set(key or ())))
    monkeypatch.setattr(
        type(board),
        "comm",
        property(lambda _: type("Comm", (), {"kernel": True, "close": lambda *_: None, "comm_id": "x"})()),
        raising=False,
    )
    board.on_intent(lambda _: setattr(board, "view", sample.board_view()))
    board.send_intent("undo")
    assert [message for message in messages if "view" in message or "seq" in message] == [{"view", "seq"}]


def test_a_handler_that_raises_is_shown_not_lost() -> None:
    board = Board(view=sample.board_view())

    def fail(_: dict[str, Any]) -> None:
        raise ValueError("stage 3 would be empty")

    board.on_intent(fail)
    board.send_intent("move", layers=[], to_lane="9")
    assert board.notice == {"level": "error", "text": "ValueError: stage 3 would be empty"}
    assert board.seq == 1, "the page must not wait for ever"


def test_messages_that_are_no_intents_are_left_alone() -> None:
    board = Board()
    board.on_intent(lambda _: pytest.fail("no intent"))
    for content in ("text", {"kind": "move"}, {"seq": "7"}, None):
        board._receive(board, content, [])
    assert board.seq == 0


def test_pack_checks_its_rows() -> None:
    assert len(COLUMNS) == 10
    assert sorted(KINDS.values()) == list(range(12))
    with pytest.raises(ValueError, match="a bar has 10 numbers"):
        pack([(0.0, 1.0)])
    with pytest.raises(ValueError, match="not a whole number of bars"):
        Timeline(bars=b"1234")
    assert pack_cells([[None, 2.0]]) == pack_cells([[-1.0, 2.0]])


def test_one_part_does_not_import_another() -> None:
    assert set(widgets.__all__) >= {"Board", "Explorer", "Tiles"}
    with pytest.raises(AttributeError, match="no attribute 'Bord'; it has"):
        _ = widgets.Bord
    assert importlib.import_module("widgets.board").Board is Board
