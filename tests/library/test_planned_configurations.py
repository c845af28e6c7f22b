"""Published configurations that planners are asked for: claims mean whole ones, figures are coherent."""

from __future__ import annotations

import math

import pytest

from explorer.library import SYSTEMS, Outcome
from explorer.library import _dapple_plans as dapple
from explorer.library import _pipedream_rows as pipedream
from explorer.library._dapple_profiles import profile
from explorer.models import load_model
from explorer.planners.dapple import partitions

CASES = [(case, source) for source in dapple.SOURCES for case in dapple.CASES]


def outcome(system: str, text: str) -> Outcome:
    claim = next(claim for claim in SYSTEMS.get(system).claims if claim.text.startswith(text))
    return Outcome(claim=claim, ours=float(claim.measure()))


@pytest.mark.parametrize("row", pipedream.ROWS, ids=lambda row: f"{row.title} on {row.devices}")
def test_pipedreams_claims_hold_where_the_whole_configuration_is_found(row: pipedream.Row) -> None:
    assert outcome("pipedream", f"{row.words} (table 1)").holds == (pipedream.found(row) == row.published)
    assert pipedream.speedup(row, (row.devices,)) == 1
    assert row.devices == row.servers * (8 if row.cluster == "pipedream-b" else 4) or row.servers == 1


@pytest.mark.parametrize(("case", "source"), CASES)
def test_dapples_claims_hold_where_the_whole_configuration_is_found(case: dapple.Case, source: str) -> None:
    ours, theirs = dapple.found(case, source), dapple.published(case, source)
    text = f"{case.words}, seconds of {dapple.SOURCES[source]}"
    assert outcome("dapple", text).holds == (ours.counts == case.published)
    assert sum(ours.counts) == sum(case.published) == 16
    if ours.counts == case.published:
        assert ours.latency_s == pytest.approx(theirs.latency_s, rel=1e-9)
        assert ours.step_s == pytest.approx(theirs.step_s, rel=1e-9)


def test_the_latency_of_stages_is_what_the_planner_counted() -> None:
    case = dapple.CASES[3]
    costs, machines = dapple._costs(case, dapple.PROFILE, case.microbatch)
    rounds = case.batch // case.microbatch
    plans = partitions(costs.load, costs.sent, machines.sizes, costs.nodes, rounds)
    found = [plan for plan in plans if plan is not None]
    assert len(found) > 5
    for plan in found:
        assert dapple.latency_of(costs, plan.stages, rounds) == pytest.approx(plan.seconds, rel=1e-12)
    # the best of all cuts into 8:8 is what the program found for two stages
    two = next(plan for plan in found if len(plan.stages) == 2)
    assert dapple.published(case, dapple.PROFILE).latency_s == pytest.approx(two.seconds, rel=1e-12)


def test_devices_are_taken_machine_by_machine() -> None:
    _, machines = dapple._costs(dapple.CASES[3], dapple.PROFILE, 16)
    assert [dapple._first(machines, n) for n in (0, 3, 8, 15, 16)] == [(0, 0), (3, 0), (8, 0), (8, 7), (8, 8)]


def test_profiles_are_of_the_zoos_models() -> None:
    """BERT-48's bytes are those of its parameters in fp32; VGG-19's are MiB times a million."""
    bert, vgg = profile("bert-48"), profile("vgg19")
    assert bert.parameter_count == load_model("bert-48").parameter_count
    assert vgg.parameter_count * 1.048576 == pytest.approx(load_model("vgg19").parameter_count, rel=1e-4)
    kinds = [layer.kind for layer in vgg.layers]
    for kind in ("conv", "linear", "pool"):
        assert kinds.count(kind) == [layer.kind for layer in load_model("vgg19").layers].count(kind)
    forward = sum(layer.measured[0].forward_s for layer in bert.layers)
    assert math.isclose(forward, 48 * 2.69e-3 + 0.056e-3)
