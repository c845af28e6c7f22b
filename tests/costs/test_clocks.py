"""Clocks of products under a power limit, by the share of a step that products take."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cluster import Software
from explorer.cluster_profiles import load_cluster
from explorer.costs.clocks import MEMORY_POWER, clock, clocked, products_share
from explorer.costs.compute import layer_times
from explorer.models import load_model

FRACTIONS = st.floats(0.05, 1.0)


def test_alone_products_keep_what_is_settled() -> None:
    assert clock(0.7, 1.0) == pytest.approx(0.7)


@given(settled=FRACTIONS, share=FRACTIONS)
def test_the_mean_power_is_the_limit_or_the_clock_is_full(settled: float, share: float) -> None:
    found = clock(settled, share)
    power = share * (found / settled) ** 2 + (1 - share) * MEMORY_POWER
    assert found == 1.0 or power == pytest.approx(1.0)
    assert power <= 1 + 1e-9
    assert settled * (1 - 1e-12) <= found <= 1.0


@given(settled=FRACTIONS, shares=st.tuples(FRACTIONS, FRACTIONS))
def test_more_products_never_run_faster(settled: float, shares: tuple[float, float]) -> None:
    fewer, more = sorted(shares)
    assert clock(settled, more) <= clock(settled, fewer) * (1 + 1e-12)


def test_a_wide_model_is_held_back_more_than_a_narrow_one() -> None:
    (kind,) = load_cluster("dgx-a100").device_kinds
    wide, narrow = load_model("gpt3-175b"), load_model("gpt2-small")
    assert products_share(narrow, kind, "fp16") < products_share(wide, kind, "fp16") < 1
    held = [clocked(graph, kind, "fp16").settled_fraction for graph in (wide, narrow)]
    assert kind.settled_fraction < held[0] < held[1] <= 1


def test_what_nothing_holds_stays_as_it_is() -> None:
    (kind,) = load_cluster("dgx-a100").device_kinds
    kind = replace(kind, software=Software())  # no host that waits on nothing
    free, graph = replace(kind, settled_fraction=1.0), load_model("gpt2-small")
    assert clocked(graph, free, "fp16") is free
    held = layer_times(graph, kind, samples=1, precision="fp16")
    assert (layer_times(graph, free, samples=1, precision="fp16") <= held * (1 + 1e-12)).all()
