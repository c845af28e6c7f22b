"""What targets make of plans: answers before anything is written, their price, the nearest plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.export import EXPORTERS, preview, refusals
from explorer.export._repairs import REPAIRS
from explorer.export.features import FEATURES, uses
from explorer.export.nearest import APPROXIMATE, EXACT, REFUSED, SAME, answers, nearest
from explorer.plan import Resolved
from tests.export.samples import UNIFORM, changed, resolved, uniform

NAMES = EXPORTERS.names()
ODD = {
    "pipedream": resolved(stages=4, microbatches=8, schedule="pipedream"),
    "mixed recomputation": changed(resolved(stages=2, microbatches=8), recompute={0: "full"}),
    "zero 3 of a pipeline": resolved(stages=2, replicas=2, microbatches=16, zero=3),
    "a block cut": resolved(stages=2, cuts=[5], microbatches=8),
    "gpipe": uniform("gpipe"),
    "groups of ZeRO on one stage": changed(
        resolved(stages=2, replicas=4, microbatches=16, zero=1), zero_replicas={0: 2}
    ),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_repair_that_is_named_is_known(name: str) -> None:
    named = {support.instead for support in EXPORTERS.get(name).capabilities.values()} - {"", SAME}
    assert named <= set(REPAIRS)


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_those_of_the_table(name: str) -> None:
    plan = uniform("3d with zero")
    rows = answers(plan, name)
    assert [(row.name, row.where) for row in rows] == [(use.name, use.where) for use in uses(plan)]
    refused = [row for row in rows if row.answer == REFUSED]
    told = refusals(plan, name)
    assert all(any(row.feature in text for text in told) for row in refused)
    assert {row.answer for row in rows} <= {EXACT, APPROXIMATE, REFUSED}


@pytest.mark.parametrize("what", ODD)
def test_the_nearest_plan_of_megatron_can_be_exported(what: str) -> None:
    plan = ODD[what]
    assert refusals(plan, "megatron")
    found = nearest(plan, "megatron")
    assert found is not None
    assert found.changes
    assert preview(found.resolved, "megatron")
    assert found.step_time_s > 0
    assert f"{found.before_s:.3g} s" in found.words


def test_what_can_be_run_is_its_own_nearest() -> None:
    plan = uniform("1f1b")
    found = nearest(plan, "megatron")
    assert found is not None
    assert found.resolved.plan == plan.plan
    assert found.changes == ()
    assert found.step_time_s == found.before_s


def test_repairs_of_what_a_plan_has_not_leave_it() -> None:
    plan: Resolved = uniform("1f1b")
    for name in ("uneven_shares", "offload", "sparse_states", "device_order", "update_rule", "compression"):
        assert REPAIRS[name](plan).plan == plan.plan
    assert {feature.name for feature in FEATURES} - set(REPAIRS) == {
        "several_jobs", "inference", "tied_over_stages", "mixed_devices", "uneven_nodes",
    }  # fmt: skip


def test_an_approximation_has_its_price() -> None:
    entry = EXPORTERS.get("torchrun")
    support = replace(entry.capabilities["zero_2"], exact=False, instead="zero_0")
    table = {**entry.capabilities, "zero_2": support}
    EXPORTERS._entries["torchrun"] = replace(entry, capabilities=table)
    try:
        row = next(row for row in answers(uniform("zero 2"), "torchrun") if row.name == "zero_2")
    finally:
        EXPORTERS._entries["torchrun"] = entry
    plain = nearest(uniform("replicas"), "torchrun")
    assert plain is not None
    assert row.step_time_s == pytest.approx(plain.before_s)


def test_samples_have_a_nearest_plan() -> None:
    for sample in UNIFORM:
        found = nearest(uniform(sample), "megatron")
        assert found is not None, sample
        assert refusals(found.resolved, "megatron") == []
