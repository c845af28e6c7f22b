"""Calibration by measured steps: what is known is found again, and other plans are predicted better."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.calibrate.next_run import next_run
from explorer.calibrate.posterior import Z, band_of
from explorer.calibrate.step_numbers import MODEL_SD, step_numbers
from explorer.calibrate.step_posterior import ROW_SD
from explorer.calibrate.step_words import MOST_TOLD, change_sentences, next_sentence
from explorer.calibrate.steps import (
    calibrate_steps,
    calibrated_covariance,
    prior_covariances,
    spread_of_step,
)
from explorer.cluster import Cluster
from explorer.cluster.calibration import Calibration, MeasuredStep
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.costs.least_seconds import least_seconds
from explorer.sweep.bands import report_bands
from tests.calibrate.steps_cases import JOB, PLANS, gpt, profile, run, slower

KIND, NEW, XL = "h100-sxm-80gb", "new", "gpt2-xl (1.56B)"


def errors(cluster, truth, skip=()) -> list[float]:  # type: ignore[no-untyped-def]
    found = []
    for plan in PLANS:
        if plan not in skip:
            true = run(plan, truth=truth)
            found.append(abs(math.log(true.report(cluster).step_time_s / true.step_time_s)))
    return found


def test_a_step_that_is_as_predicted_changes_nothing_and_narrows_its_band() -> None:
    """Of one step with variance p before and r of its own, p r / (p + r) is left besides r.

    How wide p is before is known up to a factor: each variance weighs as its evidence, 1 / sqrt(p + r).
    """
    found = calibrate_steps(profile(), [run("tp2")])
    (outcome,) = found.runs
    assert outcome.after_s == pytest.approx(outcome.before_s, rel=1e-9)
    numbers, (step,) = step_numbers(profile(), (XL,)), found.cluster.calibration.steps
    row = [dict(step.slopes).get(item.key, 0.0) for item in numbers]
    before, own = [float(row @ prior @ row) for prior in prior_covariances(profile(), numbers)], ROW_SD**2
    weights = [(p + own) ** -0.5 for p in before]
    wide, narrow = (
        band_of(math.sqrt(fmean(variances, weights) + own))
        for variances in (before, [p * own / (p + own) for p in before])
    )
    assert outcome.band_before == pytest.approx(wide, rel=1e-4)
    assert outcome.band == pytest.approx(narrow, rel=1e-4)
    assert narrow < wide
    assert change_sentences(found) == ["The profile was right: no number changes."]


@pytest.mark.parametrize(
    ("number", "log", "most"),
    [
        (f"{KIND}.compute", -0.1, 0.5),
        (f"{KIND}.compute", 0.25, 0.5),
        ("nvswitch.transfers", 0.25, 1.0),  # 3 % of these steps, less than what rows scatter by
    ],
)
def test_other_plans_are_predicted_better(number: str, log: float, most: float) -> None:
    """The plans of a model whose numbers are off by a known factor, after one and after three of them."""
    truth = slower(profile(), {number: log})
    before = errors(profile(), truth)
    one = calibrate_steps(profile(), [run("tp2", truth=truth)]).cluster
    three = calibrate_steps(profile(), [run(plan, truth=truth) for plan in ("tp2", "tp8", "dp8")]).cluster
    assert fmean(errors(one, truth)) < fmean(before)
    assert fmean(errors(three, truth)) < most * fmean(before)


def unlike_any() -> Cluster:
    """The profile on devices of a maker none of whose others were measured, nor its kernels."""
    (kind,) = profile().device_kinds
    sources = tuple(replace(item, how="datasheet") for item in kind.sources)
    new = replace(kind, name=NEW, maker="another", like=(KIND, *kind.like), sources=sources)
    nodes = tuple(replace(group, device_kind=NEW) for group in profile().nodes)
    return replace(profile(), device_kinds=(new,), nodes=nodes)


def test_a_slow_machine_is_found_again() -> None:
    """On hardware unlike any that was measured: of a familiar one the model is believed to have its part."""
    truth = slower(unlike_any(), {f"{NEW}.compute": 0.3})
    found = calibrate_steps(unlike_any(), [run(plan, truth=truth) for plan in ("tp2", "pp2", "dp8")])
    change = {item.number.key: item for item in found.changes}[f"{NEW}.compute"]
    assert change.factor == pytest.approx(math.exp(0.3), rel=0.05)
    assert change.band < change.band_before
    assert f"kernels on {NEW}" in change_sentences(found)[0].lower()
    assert len(change_sentences(found)) <= MOST_TOLD


def test_what_is_only_one_models_stays_with_it() -> None:
    """A single small error is shared out between the machine and the model; another model gets the first."""
    found = calibrate_steps(profile(), [run("dp8", by=1.06)]).cluster
    (kind,) = (item for item in found.device_kinds if item.name == KIND)
    own = dict(kind.model_seconds)[XL]
    assert 1 < own < 1.06
    assert kind.running(XL).busy_slowdown > kind.running("another").busy_slowdown
    moved = run("dp8", truth=found).step_time_s / run("dp8").step_time_s
    other = run("dp8", truth=found, model="gpt2-small").step_time_s
    assert 1 < other / run("dp8", model="gpt2-small").step_time_s < moved < 1.06


@given(
    st.floats(-0.2, 0.4), st.floats(-0.2, 0.2), st.floats(-0.04, 0.04),
    st.lists(st.sampled_from(sorted(PLANS)), min_size=1, max_size=3, unique=True),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_every_calibration_moves_towards_what_was_measured(
    compute: float, links: float, rest: float, plans: list[str]
) -> None:
    truth = slower(profile(), {f"{KIND}.compute": compute, "nvswitch.transfers": links})
    found = calibrate_steps(profile(), [run(plan, truth=truth, by=math.exp(rest)) for plan in plans])

    def left(seconds: list[float]) -> float:
        pairs = zip(seconds, (item.run.step_time_s for item in found.runs), strict=True)
        return fmean(math.log(guess / true) ** 2 for guess, true in pairs)

    before = left([item.before_s for item in found.runs])
    assert left([item.after_s for item in found.runs]) <= before + 1e-9
    assert all(item.band < item.band_before for item in found.runs)


def test_a_profile_keeps_its_calibration(tmp_path: Path) -> None:
    found = calibrate_steps(profile(), [run("tp2", by=1.2)]).cluster
    save_cluster(found, tmp_path / "mine.yaml")
    assert load_cluster(tmp_path / "mine.yaml") == found
    assert found.calibration.knows(XL)
    assert not found.calibration.knows("gpt2-small")
    again = calibrate_steps(load_cluster(tmp_path / "mine.yaml"), [run("dp8", by=1.2)]).cluster
    assert [step.name for step in again.calibration.steps] == ["tp2", "dp8"]
    assert again.name == found.name


def test_two_runs_one_after_the_other_are_as_two_at_once() -> None:
    truth = slower(profile(), {f"{KIND}.compute": 0.2})
    runs = [run("tp2", truth=truth), run("dp8", truth=truth)]
    once = calibrate_steps(profile(), runs).cluster
    first = calibrate_steps(profile(), runs[:1]).cluster
    second = calibrate_steps(first, runs[1:]).cluster
    for plan in PLANS:
        assert run(plan, truth=second).step_time_s == pytest.approx(
            run(plan, truth=once).step_time_s, rel=0.02
        )


def test_the_band_of_a_report_follows_from_the_joint_errors() -> None:
    """Of a compute-bound plan by hand: compute, model and row add up as independent errors do."""
    found = calibrate_steps(profile(), [run("dp8", by=1.1)])
    cluster, strategy = found.cluster, run("dp8").strategy
    band = report_bands(gpt(), cluster, run("dp8").workload, strategy)["step_time_s"]
    keys, left = calibrated_covariance(cluster.calibration)
    assert dict(zip(keys, left.diagonal(), strict=True))[f"{KIND}.compute"] < 0.1**2
    step = cluster.calibration.steps[0]
    sd = spread_of_step(cluster, dict(step.slopes), XL)
    half = (band.high / band.low) ** 0.5 - 1
    assert half == pytest.approx(band_of(sd), rel=0.15)
    assert half >= math.expm1(Z * ROW_SD)
    other = spread_of_step(cluster, {**dict(step.slopes), "model other": 1.0}, "other")
    assert other > MODEL_SD > 0


def test_bounds_hold_where_one_model_is_faster_than_others() -> None:
    cluster = slower(profile(), {f"model {XL}": -0.2}, XL)
    least = least_seconds(gpt(), cluster.device_kinds[0], "bf16")
    usual = least_seconds(gpt(), profile().device_kinds[0], "bf16")
    assert least is not None
    assert usual is not None
    assert least.sum() == pytest.approx(usual.sum() * math.exp(-0.2))


def test_memory_is_told_apart() -> None:
    base = run("dp8")
    peak = max(base.report(profile()).peak_memory_bytes)
    for what in ("process", "reserved"):
        seen = replace(base, memory_bytes=peak * 1.05, memory_of=what)
        (change,) = calibrate_steps(profile(), [seen]).memory
        gap = abs(change.after_bytes - seen.memory_bytes)
        assert gap < abs(change.before_bytes - seen.memory_bytes)
    tensors = replace(base, memory_bytes=peak, memory_of="allocated")
    (change,) = calibrate_steps(profile(), [tensors]).memory
    assert change.after_bytes == change.before_bytes


def test_the_next_run_narrows_most_of_its_rivals() -> None:
    runs = [run("dp8", by=1.1)]
    cluster = calibrate_steps(profile(), runs).cluster
    further = next_run(cluster, runs)
    assert further is not None
    assert further.band_after < further.band
    assert further.run.name in next_sentence(further)
    measured = calibrate_steps(cluster, [further.run])
    after = next_run(measured.cluster, [*runs, further.run])
    assert after is not None
    assert after.band < further.band


def test_every_number_makes_a_step_slower() -> None:
    cluster = profile()
    for number in step_numbers(cluster, (XL,)):
        slow = number.move(cluster, 1.5)
        for plan in ("tp2", "zero3"):
            assert run(plan, truth=slow).step_time_s >= run(plan, truth=cluster).step_time_s * (1 - 1e-9)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"step_time_s": 1e-4}, "of the devices' peak"),
        ({"memory_bytes": 1e12}, "another cluster"),
        ({"step_time_s": 0.0}, "a step of 0 s"),
        ({"memory_bytes": -1.0}, "a peak of -1 bytes"),
        ({"memory_of": "video"}, "memory of 'video'"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        calibrate_steps(profile(), [replace(run("dp8"), **change)])  # type: ignore[arg-type]


def test_runs_are_one_to_three_and_different() -> None:
    with pytest.raises(InputError, match="0 measured runs"):
        calibrate_steps(profile(), [])
    with pytest.raises(InputError, match="4 measured runs"):
        calibrate_steps(profile(), [run(plan) for plan in ("tp2", "tp8", "dp8", "pp2")])
    with pytest.raises(InputError, match="are the same plan"):
        calibrate_steps(profile(), [run("tp2"), replace(run("tp2"), name="again")])


def test_a_calibration_is_of_its_own_numbers() -> None:
    step = MeasuredStep(name="a", step_time_s=1.0, sd=0.1, slopes=(("x", 1.0),))
    with pytest.raises(InputError, match="depends on 'x'"):
        Calibration(steps=(step,))
    with pytest.raises(InputError, match="exact"):
        Calibration(priors=(("x", 1.0),), steps=(replace(step, sd=0.0),))
    with pytest.raises(InputError, match="nothing is left"):
        Calibration(priors=(("x", 0.0),))
    assert JOB.global_batch == 32
