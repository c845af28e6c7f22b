"""The card of a layer: answers what the page asks of it, and simulates its rows while it is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import RLock
from typing import Protocol

from explorer.base.errors import ExplorerError, InputError
from explorer.simulation.simulate import simulate
from explorer.views.kept_choices import SCOPES, STAGE
from explorer.views.layer_card import (
    MEMORY,
    Card,
    Choice,
    Outcome,
    changed,
    choices,
    devices_of,
    kept_words,
    layer_card_view,
    outcome_of,
    scopes_of,
)

from .ahead import MOST_TASKS
from .base import Intent
from .jobs import Idle
from .parts import Parts
from .session import History, Point, make_point

CARD_INTENTS = (INSPECT, CHOOSE) = ("inspect", "choose_for_layer")
"""Gestures in a card: open, change or close it; take one of its rows."""


class Carded(Protocol):
    """The workbench as a card sees it."""

    lock: RLock
    """Lock held by all code that touches the workbench."""
    history: History
    """States; the present one is what the card is about."""
    parts: Parts
    """Parts; the graph shows the card."""

    def show(self, point: Point) -> None:
        """Make a state the present one."""
        ...


def chosen(point: Point, card: Card, choice: Choice) -> Point:
    """Return the state after a row of a card was taken.

    Raises:
        ExplorerError: there is no such row, or the strategy it leads to cannot run.
    """
    job = changed(point.scene, card, choice)
    strategy = point.strategy.with_job(job)
    return make_point(point.inputs, strategy, point.groups, note=_note(point, card, choice))


def _note(point: Point, card: Card, choice: Choice) -> str:
    """Say what was done, for the list of states."""
    if choice.kind == MEMORY:
        return kept_words(point.scene, card, choice)
    count = len(card.layers(point.scene))
    more = f" and {count - 1} alike" if count > 1 else ""
    return f"{card.layer}{more}: {choice.key}"


class LayerCard:
    """The card that is open, if any."""

    def __init__(self, bench: Carded, failed: Callable[[Exception], None]) -> None:
        self._bench = bench
        self._idle = Idle(bench.lock, failed)
        self.card: Card | None = None
        """What it is about; None if no card is open."""

    def answer(self, intent: Intent) -> None:
        """Do what a gesture in the card asks.

        Raises:
            ExplorerError: an unknown layer, or a row that cannot be taken.
        """
        now = self._bench.history.now
        if now is None:
            return
        if intent["kind"] == INSPECT:
            self.inspect(now, intent)
        elif self.card is not None:
            choice = Choice(str(intent["of"]), str(intent["key"]))
            point = chosen(now, self.card, choice)
            if point.strategy != now.strategy:
                self._bench.show(point)
            self.draw()

    def inspect(self, now: Point, intent: Intent) -> None:
        """Open the card of a layer, change what it is for, or close it.

        Raises:
            InputError: the model has no such layer, or choices of memory are for something unknown.
        """
        layer = intent.get("layer")
        if layer is not None and layer not in now.inputs.graph.index:
            raise InputError(f"no layer {layer!r}", key="layer", found=layer, allowed="a layer of the model")
        scope = intent.get("kept_for", STAGE)
        if scope not in SCOPES:
            raise InputError(
                f"nothing is kept for {scope!r}", key="kept_for", found=scope, allowed=", ".join(SCOPES)
            )
        self.card = None if layer is None else Card(
            layer=str(layer), whole=bool(intent.get("whole")), alike=bool(intent.get("all_alike")),
            kept_for=str(scope),
        )  # fmt: skip
        if self.card is not None and scope not in dict(scopes_of(now.scene, self.card)):
            self.card = replace(self.card, kept_for=STAGE)  # the card before was of a layer in a block
        self._begin()

    def settled(self) -> None:
        """Show the card for another state; close it if that has no such layer."""
        now = self._bench.history.now
        if self.card is not None and (now is None or self.card.layer not in now.inputs.graph.index):
            self.card = None
        self._begin()

    def hold_off(self, seconds: float) -> None:
        """Pause the simulation of its rows."""
        self._idle.hold_off(seconds)

    def close(self) -> None:
        """Simulate no more."""
        self._idle.cancel()

    def _begin(self) -> None:
        self._idle.cancel()
        self.draw()
        if self.card is not None and self._bench.history.now is not None:
            self._idle.later(self.work)

    def work(self) -> Iterator[None]:
        """Simulate the rows that are not known yet, one a slice; of large plans none."""
        now, card = self._bench.history.now, self.card
        if now is None or card is None or now.report.timeline.program.size > MOST_TASKS:
            return
        known = _known(now, card)
        for choice in choices(now.scene, card):
            if choice in known:
                continue
            if now is not self._bench.history.now or card is not self.card:
                return
            known[choice] = _outcome(now, card, choice)
            self.draw()
            yield

    def draw(self) -> None:
        """Draw the card again; what is equal is not sent again."""
        now, graph = self._bench.history.now, self._bench.parts.graph
        view = {}
        if self.card is not None and now is not None:
            view = layer_card_view(now.scene, self.card, _known(now, self.card))
            view["waits"] = now.report.timeline.program.size <= MOST_TASKS
        if view != graph.card:
            graph.card = view


def _known(now: Point, card: Card) -> dict[Choice, Outcome | str]:
    """Return what rows of a card come to in a state, as far as they were simulated."""
    found: dict[Choice, Outcome | str] = now.outcome.kept.setdefault(f"card {card}", {})
    return found


def _outcome(now: Point, card: Card, choice: Choice) -> Outcome | str:
    own = now.inputs
    try:
        job = changed(now.scene, card, choice)
        report = simulate(own.graph, own.cluster, own.workload, now.strategy.with_job(job))
    except ExplorerError as error:
        return str(error)
    return outcome_of(report, devices_of(now.scene, card, choice.kind))
