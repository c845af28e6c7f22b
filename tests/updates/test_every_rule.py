"""What holds for every registered update rule, in simulation, arithmetic and on replayed workers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import ExplorerError, InputError, PlanError
from explorer.simulation.check import check
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.strategy import UpdateChoice
from explorer.updates import GRADIENTS, UPDATES, WEIGHTS, Update, UpdateRule, chosen, rule_of
from tests.updates.problems import COMPUTE_S, data_parallel, minimise, pipelined

PLANS = Path(__file__).parents[1] / "plans"

every = pytest.mark.parametrize("rule", list(UPDATES), ids=lambda rule: rule.name)


def choice_of(rule: Update, options: tuple[tuple[str, Any], ...] = ()) -> UpdateChoice:
    return UpdateChoice(rule=rule.name, options=options)


def made(rule: Update, options: tuple[tuple[str, Any], ...] = ()) -> UpdateRule:
    return rule_of(chosen(rule.name, options))


def volume(rule: UpdateRule, workers: int) -> float:
    """What a worker sends in an exchange over the bytes exchanged, on average: rings over who takes part."""
    rounds = rule.partners(workers) if rule.partners else ((tuple(range(workers)),),)
    sent = sum(2 * (len(members) - 1) for groups in rounds for members in groups)
    return sent / (workers * len(rounds))


def figures(report: Report) -> tuple[object, ...]:
    """Everything a rule could change."""
    return (
        round(report.step_time_s, 9),
        [[round(part, 6) for part in parts] for parts in report.memory_parts_bytes],
        {pair: round(size, 6) for pair, size in report.traffic_bytes.items()},
        (report.versions, report.delay, report.settled),
    )


@every
def test_says_what_it_is(rule: Update) -> None:
    assert rule.title
    assert rule.paper or rule.name == "plain"
    found = made(rule)
    assert found.exchanges in (GRADIENTS, WEIGHTS)
    assert found.period >= 1
    assert found.delay >= 0
    assert not found.delay or (found.exchanges == GRADIENTS and found.period == 1)
    assert found.most_zero in range(4)
    assert "period" in dict(chosen(rule.name).options) or found.period == 1
    if found.partners:
        assert found.exchanges == WEIGHTS
        for workers in range(2, 10):
            rounds = found.partners(workers)
            assert {i for groups in rounds for members in groups for i in members} == set(range(workers))
            for groups in rounds:
                met = [i for members in groups for i in members]
                assert len(set(met)) == len(met)


@every
def test_acts_in_simulation(rule: Update) -> None:
    """A rule that changes no number is not followed by anything."""
    plain, found = data_parallel(), data_parallel(choice_of(rule))
    assert (figures(found) == figures(plain)) == (rule.name == "plain")


@every
@pytest.mark.parametrize("parameter_bytes", [100.0, 1000.0])
def test_is_data_parallelism_at_its_trivial_options(rule: Update, parameter_bytes: float) -> None:
    choice = choice_of(rule, rule.trivial)
    assert figures(pipelined(choice, parameter_bytes=parameter_bytes)) == figures(
        pipelined(parameter_bytes=parameter_bytes)
    )
    workers = rule.trivial_workers or 4
    plain = data_parallel(replicas=workers, parameter_bytes=parameter_bytes)
    found = data_parallel(choice, replicas=workers, parameter_bytes=parameter_bytes)
    assert figures(found) == figures(plain)


@every
@settings(max_examples=15, deadline=None)
@given(workers=st.integers(2, 6), size=st.sampled_from([40.0, 400.0]), data=st.data())
def test_bytes_sent_and_kept(rule: Update, workers: int, size: float, data: st.DataObject) -> None:
    """Per worker and exchange as `volume` says, one exchange a period; copies of what it says, no more."""
    period = data.draw(st.integers(1, 5))
    options = (("period", period),) if "period" in dict(chosen(rule.name).options) else ()
    found = made(rule, options)
    report = data_parallel(choice_of(rule, options), replicas=workers, parameter_bytes=size)
    sent = sum(report.traffic_bytes.values()) / workers
    assert sent == pytest.approx(volume(found, workers) * size / found.period)
    assert found.period == (period if options else 1)
    plain = data_parallel(replicas=workers, parameter_bytes=size)
    kept = {GRADIENTS: 0.0, WEIGHTS: 0.0}
    for item in found.keeps:
        kept[item.what] += item.copies * size
    extra = {"gradients": kept[GRADIENTS], "optimizer": kept[WEIGHTS]}
    for part, before, after in zip(
        MEMORY_PARTS, plain.memory_parts_bytes[0], report.memory_parts_bytes[0], strict=True
    ):
        assert after - before == pytest.approx(extra.get(part, 0.0)), part


@every
@pytest.mark.parametrize("exchange_s", [1.5, 15.0])
def test_step_time(rule: Update, exchange_s: float) -> None:
    """Hidden: the longer of compute and exchange; waited for: both, the exchange once a period."""
    report = data_parallel(choice_of(rule), parameter_bytes=exchange_s * 200.0 / 3)
    found = made(rule)
    hidden = max(COMPUTE_S, exchange_s)
    waited = COMPUTE_S + exchange_s * volume(found, 4) / 1.5 / found.period
    assert report.step_time_s == pytest.approx(hidden if found.delay else waited, rel=1e-12)
    assert report.delay == (found.delay,)


@every
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_equals_gradient_descent_at_its_trivial_options(rule: Update, workers: int) -> None:
    """On numbers: the mean of quadratic losses."""
    workers = min(workers, rule.trivial_workers or workers)
    plain = minimise(made(UPDATES.get("plain")), workers, updates=12)
    assert minimise(made(rule, rule.trivial), workers, updates=12) == pytest.approx(plain)


@every
def test_trains(rule: Update) -> None:
    """Workers whose losses are least at 1, 2, 3 and 4 come near what all of them together want."""
    found = minimise(made(rule), 4, updates=400)
    assert abs(sum(found) / 4 - 2.5) < 0.05
    assert all(abs(weight - 2.5) < 1.5 for weight in found)


@every
def test_refuses_bad_options(rule: Update) -> None:
    with pytest.raises(InputError, match="has no option 'no_such'"):
        chosen(rule.name, (("no_such", 1),))
    for option in rule.options:
        bad: list[Any] = ["some text"]
        bad += [option.minimum - 1] if option.minimum is not None else []
        for value in bad:
            with pytest.raises(InputError) as caught:
                chosen(rule.name, ((option.name, value),))
            assert caught.value.key == option.name
            with pytest.raises(PlanError, match=option.name):
                data_parallel(choice_of(rule, ((option.name, value),)))


@every
def test_zero_levels(rule: Update) -> None:
    for level in range(4):
        if level <= made(rule).most_zero:
            assert data_parallel(choice_of(rule), zero=level).step_time_s > 0
        else:
            with pytest.raises(PlanError, match=f"{rule.name} does not go with ZeRO {level}"):
                data_parallel(choice_of(rule), zero=level)


def test_an_unknown_rule_names_the_known() -> None:
    with pytest.raises(ExplorerError, match="local_sgd"):
        data_parallel(UpdateChoice(rule="telepathy"))


def test_a_rule_of_no_parameter_is_refused() -> None:
    with pytest.raises(PlanError, match="matches no parameter"):
        data_parallel(UpdateChoice(rule="stale", parameters=("nothing.*",)))


def test_rules_by_parameter_group() -> None:
    """Of two equal layers one is averaged every fourth update, the other reduced beside the next step."""
    groups = (
        UpdateChoice(rule="local_sgd", parameters=("w0",)),
        UpdateChoice(rule="stale", parameters=("*",)),
    )
    report = data_parallel(*groups, layers=2, parameter_bytes=100.0)
    assert report.delay == (1,)
    # the reduction is hidden, but for the fourth step, in which 1.5 s of averaging come after it on one link
    assert report.step_time_s == pytest.approx(2 * COMPUTE_S + (1.5 + 1.5) / 4)
    assert sum(report.traffic_bytes.values()) == pytest.approx(600.0 / 4 + 600.0)
    part = dict(zip(MEMORY_PARTS, report.memory_parts_bytes[0], strict=True))
    assert (part["gradients"], part["weights"]) == (300.0, 200.0)


def test_a_pipeline_that_updates_every_microbatch_counts_updates_not_steps() -> None:
    """Four updates a step: a period of 8 is two steps; 1.5 s of averaging is hidden behind nothing."""
    for period, a_step in ((4, 1.0), (8, 0.5)):
        choice = UpdateChoice(rule="local_sgd", options=(("period", period),))
        report = pipelined(choice, schedule="pipedream", parameter_bytes=100.0)
        assert report.settled
        assert report.step_time_s == pytest.approx(12.0 + a_step)


def test_double_buffered_weights_hide_the_reduction() -> None:
    """Of r seconds: max(m (F + B), r + a (F + B)), one microbatch in flight behind the first stage's."""
    for exchange_s in (1.0, 8.9, 9.5, 10.0, 20.0):
        report = pipelined(schedule="pipedream_2bw", parameter_bytes=exchange_s * 100.0)
        assert report.step_time_s == pytest.approx(max(12.0, exchange_s + COMPUTE_S), rel=1e-9)
        assert (report.versions, report.delay) == ((2, 2), (1, 1))


def test_buckets_are_for_gradients_that_an_update_waits_for() -> None:
    for name in ("local_sgd", "stale"):
        with pytest.raises(PlanError, match="no use for buckets"):
            data_parallel(UpdateChoice(rule=name), bucket_bytes=10.0)


def test_replicas_that_take_turns_cannot_average() -> None:
    with pytest.raises(PlanError, match="needs replicas that update together"):
        pipelined(UpdateChoice(rule="local_sgd"), schedule="pipedream", turns=True)


def test_a_dispatched_schedule_updates_plainly() -> None:
    plan = explorer.load_plan(PLANS / "14-swarm.yaml")
    job = replace(plan.plan.strategy.job, updates=(UpdateChoice(rule="local_sgd"),))
    problems = check(plan.graph, plan.cluster, plan.plan.workload, plan.plan.strategy.with_job(job))
    assert any("updates by plain only" in problem for problem in problems)
