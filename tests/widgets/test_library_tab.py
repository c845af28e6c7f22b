"""The Library tab: every system's claims beside ours, and its example on the board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from html import unescape

import pytest

from explorer.library import SYSTEMS, Claim, reproduce
from widgets import Explorer
from widgets.library.panel import LOAD, SYSTEM
from widgets.library.words import system_html, with_unit


@pytest.fixture(scope="module")
def bench() -> Iterator[Explorer]:
    made = Explorer("gpt2-small", "dgx-a100", session=None)
    yield made
    made.close()


def choose(bench: Explorer, name: str) -> str:
    """Choose a system; what the tab says then."""
    bench.library_panel.controls.send_intent("set", key=SYSTEM, value=name)
    return unescape(bench.library_panel.text.value)


def test_every_system_can_be_chosen(bench: Explorer) -> None:
    rows = bench.library_panel.controls.view["fields"][0]["options"]
    assert {row["value"] for row in rows} == {"", *SYSTEMS.names()}
    assert len(rows) == len(SYSTEMS.names()) + 1


@pytest.mark.parametrize("name", SYSTEMS.names())
def test_claims_stand_beside_ours(bench: Explorer, name: str) -> None:
    system = SYSTEMS.get(name)
    text = choose(bench, name)
    assert system.paper in text
    assert system.missing in text
    for outcome in reproduce(system):
        row = next(row for row in text.split("<tr") if outcome.claim.text in row)
        assert unescape(with_unit(outcome.claim.published, outcome.claim.unit)) in row
        assert unescape(with_unit(outcome.ours, outcome.claim.unit)) in row
        assert ("holds" in row) == outcome.holds
        assert outcome.claim.why in text
    assert "…" not in text.split("<table", 1)[1], "all of them are computed"


@pytest.mark.parametrize("name", SYSTEMS.names())
def test_an_example_is_loaded_and_taken_back(bench: Explorer, name: str) -> None:
    before = bench.history.now
    choose(bench, name)
    bench.library_panel.controls.send_intent("action", action=LOAD)
    assert not bench.error
    assert bench.history.now.note == f"example of {name}"
    assert bench.strategy == SYSTEMS.get(name).function().resolved().plan.strategy
    assert bench.board.view["lanes"]
    assert bench.undo()
    assert bench.history.now is before


def test_nothing_is_loaded_before_one_is_chosen(bench: Explorer) -> None:
    before = bench.history.at
    choose(bench, "")
    assert not bench.library_panel.controls.view["buttons"][0]["enabled"]
    bench.library_panel.controls.send_intent("action", action=LOAD)
    assert "no system is chosen" in bench.error
    assert bench.history.at == before
    choose(bench, "nosuch")
    assert "nosuch" in bench.error


def test_a_claim_that_differs_says_so() -> None:
    claim = Claim(text="twice <as> fast", published=2.0, unit="x", measure=lambda: 1.5, why="ours is slower")
    system = replace(SYSTEMS.get("gpipe"), claims=(claim,))
    half = system_html(system, ())
    assert "…" in half
    text = system_html(system, tuple(reproduce(system)), "it broke")
    for said in ("twice &lt;as&gt; fast", "2 x", "1.5 x", "−25.0 %", "differs", "ours is slower", "it broke"):
        assert said in text
