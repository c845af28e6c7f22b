"""Spreads between sources, learned from rows whose truth is known."""

from __future__ import annotations

import random

import pytest

from explorer.score.calibrated import RowSlopes
from explorer.score.spreads import ASSUMED, learn_spreads


def source(draw: random.Random, sd: dict[str, float], rows: int = 40) -> list[RowSlopes]:
    machine, host = draw.gauss(0, sd["compute"]), draw.gauss(0, sd["host"])
    models = {name: draw.gauss(0, sd["model"]) for name in "abcd"}
    found = []
    for i in range(rows):
        name, bound = "abcd"[i % 4], 0.9 if i % 3 == 0 else 0.05
        off = (1 - bound) * (machine + models[name]) + bound * host + draw.gauss(0, sd["row"])
        slopes = {"k.compute": 1 - bound, "k.host": bound, f"model {name}": 1 - bound}
        found.append(RowSlopes(family=(name, "k", ""), log_ratio=off, slopes=slopes, sd={}))
    return found


def test_deviations_that_made_rows_are_found() -> None:
    draw, truth = random.Random(1), {"compute": 0.1, "model": 0.02, "host": 0.15, "row": 0.02}
    sets = {f"s{i}": (f"s{i}", source(draw, truth)) for i in range(30)}
    found = learn_spreads(sets)
    assert list(found) == list(ASSUMED)
    for name, sd in truth.items():
        assert found[name] == pytest.approx(sd, rel=0.35), name
    assert found["transfers"] == pytest.approx(ASSUMED["transfers"], rel=0.05)  # no row depends on it


def test_a_source_that_is_left_out_teaches_nothing() -> None:
    draw = random.Random(2)
    wild = source(draw, {"compute": 0.25, "model": 0.2, "host": 0.25, "row": 0.2})
    calm = {f"s{i}": (f"s{i}", source(draw, dict.fromkeys(ASSUMED, 0.02))) for i in range(4)}
    both = {**calm, "wild": ("wild", wild)}
    assert learn_spreads(both, without="wild") == learn_spreads(calm)
    assert learn_spreads(both)["row"] > learn_spreads(calm)["row"]
    assert learn_spreads({}) == pytest.approx(ASSUMED, rel=0.02)
