"""A rank's session without ranks: which rounds it runs."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from explorer.run.own.own_layers import own_layers
from explorer.run.own.sliced_layers import sliced_layers
from explorer.run.own.sliced_model import SlicedModel
from explorer.run.ranks import session
from explorer.run.spec import Calibration, RunCase, RunSpec, Survey
from tests.run.own.own_cases import GPT, cut, source
from tests.run.own.own_cases import case as prepared
from tests.run.own.slice_cases import parts, sliced_stages
from tests.run.programs import MODEL, real


class Timed:
    """A calibrator that finds given shares of a core, one after the other."""

    def __init__(self, shares: list[float]) -> None:
        self.left: Iterator[float] = iter(shares)
        self.calls = 0

    def measure(self) -> dict[str, Any]:
        """Return the next share."""
        self.calls += 1
        return {"cpu_share": next(self.left, 1.0)}


def rounds_of(
    shares: list[float], quiet_share: float, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[int], int, list[str]]:
    """Return the numbers of the rounds that a session runs, its calibrations and its events."""
    spec = RunSpec(
        ranks=1, survey=Survey(precisions=()), rounds=5, warmup_rounds=2,
        calibration=Calibration(model=MODEL, samples=(1,)), quiet_share=quiet_share,
    )  # fmt: skip
    timed, numbers, told = Timed(shares), list[int](), list[str]()
    transport = SimpleNamespace(
        device=torch.device("cpu"), rank=0, barrier=lambda: None, largest=lambda value: value
    )
    monkeypatch.setattr(session, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(session, "connect", lambda *_: transport)
    monkeypatch.setattr(session, "_round", lambda number, *_: numbers.append(number))
    monkeypatch.setattr("explorer.run.ranks.calibration_timing.Stopwatch", lambda *_: timed)
    monkeypatch.setattr(
        "explorer.run.survey.surveyor.Surveyor", lambda *_: SimpleNamespace(machine=dict[str, Any])
    )
    events = SimpleNamespace(send=lambda event, /, **_: told.append(event))
    desk: Any = SimpleNamespace(rank=0, events=events, at="", status=lambda *_: None)
    session.run_session(spec, desk)
    return numbers, timed.calls, told


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(
    ("shares", "quiet_share", "rounds", "calibrations"),
    [
        ([0.95], 0.8, [-2, -1, 0, 1, 2, 3, 4], 2),
        ([0.4, 0.3, 0.81], 0.8, [-2, -1, 0, 1, 2, 3, 4], 4),
        ([0.4, 0.3, 0.79], 0.8, [0], 4),
        ([0.1], 0.0, [-2, -1, 0, 1, 2, 3, 4], 2),
    ],
)
def test_a_crowded_machine_is_found_before_anything_is_timed(
    shares: list[float],
    quiet_share: float,
    rounds: list[int],
    calibrations: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three calibrations in a row are too slow, then one round runs; one of them suffices to be quiet. One
    more comes after the last round.
    """
    numbers, calls, told = rounds_of(shares, quiet_share, monkeypatch)
    assert (numbers, calls) == (rounds, calibrations)
    assert ("crowded" in told) == (rounds == [0])


def test_what_ran_once_is_gone_before_anything_else_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison holds many copies of the weights: none of them beside the next case."""
    plain = real("1f1b", 1, 1).case
    cases = tuple(replace(plain, name=name, once=name != "timed") for name in ("timed", "numbers", "bytes"))
    alive: list[weakref.ref[Any]] = []
    made: list[tuple[str, int, int]] = []

    class Holder:
        """What a case computes with, in a circle as graphs may be."""

        def __init__(self) -> None:
            self.itself = self

    def player(case: RunCase, index: int, *_: Any) -> Any:
        made.append((case.name, index, sum(ref() is not None for ref in alive)))
        holder = Holder()
        alive.append(weakref.ref(holder))
        return lambda: {"of": type(holder).__name__}

    monkeypatch.setattr(session, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(session, "_prepare", lambda _: None)
    monkeypatch.setattr(session, "_player", player)
    transport = SimpleNamespace(device=torch.device("cpu"), rank=0, barrier=lambda: None)
    monkeypatch.setattr(session, "connect", lambda *_: transport)
    events = SimpleNamespace(send=lambda _, /, **__: None)
    desk: Any = SimpleNamespace(rank=0, events=events, at="", status=lambda *_: None)
    found = session.run_session(RunSpec(ranks=1, cases=cases, rounds=2), desk)
    assert made == [("numbers", 1, 0), ("bytes", 2, 0), ("timed", 0, 0)]
    assert {name: len(rows) for name, rows in found["cases"].items()} == {
        "timed": 2,
        "numbers": 1,
        "bytes": 1,
    }


def test_weights_that_were_drawn_for_one_case_alone_are_given_back() -> None:
    own = source(*GPT, "fp32")
    case = replace(prepared(own, cut(own, 1, size=8), "1f1b").case, once=True)
    layers = own_layers(own.model)
    layers.weights([0], torch.device("cpu"))
    session._give_back(case, RunSpec(ranks=1, cases=(case, replace(case, name="timed", once=False))))
    assert layers._drawn
    session._give_back(case, RunSpec(ranks=1, cases=(case,)))
    assert not layers._drawn
    assert layers.weights([0], torch.device("cpu"))


def test_weights_of_slices_are_given_back_to_whom_they_were_drawn_for() -> None:
    """No rank captures the module again for that, and slices of a later case keep the weights."""
    own = source(*GPT, "fp32")
    last = ("layers.1.mlp.norm",)
    stages = sliced_stages(own.graph, last, ("layers.1.mlp.up", "ffn", parts(0.25)))
    case = replace(prepared(own, stages, "1f1b").case, once=True)
    assert isinstance(case.model, SlicedModel)
    ranks, known = sliced_layers(case.model), own_layers.cache_info()
    ranks.weights(case.sections[0], torch.device("cpu"))
    uncut = replace(prepared(own, cut(own, 2), "1f1b").case, name="timed")
    session._give_back(case, RunSpec(ranks=2, cases=(case, uncut)))
    assert ranks.own._drawn
    session._give_back(case, RunSpec(ranks=2, cases=(case,)))
    assert not ranks.own._drawn
    assert own_layers.cache_info().misses == known.misses
