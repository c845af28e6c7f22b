"""The short run: the likeness of a plan, its baseline and their calibration for real, in turn."""

from __future__ import annotations

import math
from dataclasses import replace

from explorer.base.errors import InputError, PlanError
from explorer.base.plain_data import to_plain
from explorer.cluster import Cluster
from explorer.plan import Resolved
from explorer.reads import reading_of
from explorer.run.cases.baselines import baseline_of, planned_speedup
from explorer.run.cases.build import unsupported_by_torch
from explorer.run.cases.exact_numbers import in_fp64
from explorer.run.cases.likeness import Scaled, UnitSize, scale
from explorer.run.cases.mixed_precision import PLANS, in_plan_precision
from explorer.run.cases.sharded_likeness import own_on_lanes, sharded_scale
from explorer.run.cases.short_cases import by_lane, calibration_of, likeness_case, short_case
from explorer.run.experiment import Experiment
from explorer.run.judging import compare
from explorer.run.judging.as_timed import as_timed
from explorer.run.judging.calibrate import Calibrated, calibrate, machine_times, uncalibrated
from explorer.run.judging.compare import Comparison
from explorer.run.judging.cost_check import unfit
from explorer.run.judging.machine_speed import speed_survey
from explorer.run.judging.short_results import compare_short, cost_check, rank_memory, sent_bytes
from explorer.run.judging.task_times import timed_by_itself
from explorer.run.judging.timelines import RunTimeline, run_timeline
from explorer.run.launching.launch import RunResult, device_of
from explorer.run.own.own_scale import Elsewhere, own_scaled
from explorer.run.own.shortened import Shortened
from explorer.run.spec import RunSpec
from explorer.simulation.check import check_job
from explorer.strategy import JobStrategy

WIDE, ACROSS = "lanes of several ranks", "layers over several lanes"
"""Over what the layers of a plan are cut."""
FEWEST_RANKS = 4
"""Fewest ranks on which a plan of several lanes keeps two of them, each of two ranks."""

BY_KIND = "its layers run by their kinds, with smaller dimensions"
"""What runs in place of own layers where layers are cut over ranks."""


def short_run(
    resolved: Resolved,
    *,
    rounds: int,
    engine: str,
    baseline: str | Resolved | None,
    ranks: int,
    size: UnitSize | None,
    warmup_rounds: int = 0,
    profile: Cluster | None = None,
    stand_ins: str = "",
    most_s: float = math.inf,
    elsewhere: Elsewhere | None = None,
    precision: str = PLANS,
) -> Experiment:
    """Run a plan, its baseline and their calibration for real, in turn.

    `size`: size of the stand-ins; None for the model's own layers.
    `profile`: what this machine's profile says of it, to compare with; None if there is none.
    `stand_ins`: why stand-ins run; empty for own layers.
    `most_s`: seconds of a step in one process above which own layers are refused.
    `elsewhere`: where it will run, if not here.
    `precision`: that asked for, of the plan's job or fp32.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    if problems := check_job(resolved.graph, resolved.cluster, job, strategy):
        raise PlanError(problems)
    shortened: tuple[Shortened, ...] = ()
    lanes, apart = _on_wide_lanes(resolved, engine, ranks, size, most_s, elsewhere)
    if lanes is not None:
        scaled, shortened = lanes
        stand_ins = (
            f"the plan has {_cut_over(strategy)}: {BY_KIND}; {stand_ins}" if size is not None else stand_ins
        )
    elif size is None:
        scaled, shortened = own_scaled(resolved, ranks=ranks, most_s=most_s, elsewhere=elsewhere)
    else:
        scaled = scale(resolved.graph, resolved.cluster, job, strategy, ranks=ranks, size=size)
    scaled = in_plan_precision(scaled, job, asked=precision, here=elsewhere is None)
    size = size or UnitSize()
    name, other = baseline_of(baseline, scaled, size)
    rough = uncalibrated(scaled.ranks, flops_per_s=size.flops_per_s)
    main = likeness_case(scaled, rough, ranks)
    against = short_case("baseline", scaled, other, rough, everywhere=name == "single")
    # plain gradient descent: Adam would blow up rounding errors from the second step on
    exact, coarse = in_fp64(scaled, elsewhere=elsewhere)
    plain = short_case("numerics", exact, exact.strategy, rough, check=True, once=True, fewest=2)
    reading = reading_of(plain.case.order.read_rule)
    check = replace(plain.case, optimizer="momentum" if reading.make else "sgd", learning_rate=0.01)
    held = short_case("bytes", scaled, scaled.strategy, rough, once=True, count_bytes=True, fewest=2)
    cases = [check, held.case, main.case, against.case]
    twin = None
    if engine == "torch":
        if problems := unsupported_by_torch(main.case):
            raise InputError(
                f"torch cannot run {'; '.join(problems)}",
                key="engine", found="torch", allowed="likeness",
            )  # fmt: skip
        twin = replace(main.case, name="torch", engine="torch", check=True)
        cases.append(twin)
    timed = calibration_of(scaled, (main, against))
    spec = RunSpec(
        ranks=scaled.ranks,
        cases=tuple(cases),
        rounds=rounds,
        warmup_rounds=warmup_rounds,
        calibration=timed,
        survey=speed_survey(profile, scaled.job.precision),
        group_timeout_s=max(600.0, 10 + 5 * max(main.case.seconds)),
        pin=True,
        quiet_share=compare.QUIET,
    )

    def learn(result: RunResult, only: int | None = None) -> Calibrated:
        return calibrate(
            timed, [rank["calibration"] for rank in result.ranks], ranks=scaled.ranks, only=only,
            graph=scaled.graph,
        )  # fmt: skip

    def finish(result: RunResult) -> Comparison:
        done = min(len(rank["cases"]["strategy"]) for rank in result.ranks)
        known = [learn(result, only) for only in (None, *range(done))]
        device = device_of(result)
        orders = {"strategy": main.case.order, "baseline": against.case.order}
        found = compare_short(result, scaled, known, other, name, engine, exact.model.dtype, orders)
        missing = unfit(profile, ranks=scaled.ranks, device=device, precision=scaled.job.precision)
        words = [f"{rounds} rounds: after {done} the machine was too crowded"] if done < rounds else []
        words += apart
        words += [f"numbers in fp64: {coarse}"] * bool(coarse)
        sent = sent_bytes(result, scaled, held.case)
        return replace(
            found,
            not_validated=[*found.not_validated, *words],
            machine=to_plain(machine_times(known[0], device)),
            costs=None
            if missing or profile is None
            else cost_check(result, scaled, other, name, found, profile, orders),
            costs_missing=missing,
            memory=rank_memory(result, scaled, held.case.order),
            plan_speedup=planned_speedup(resolved, name, baseline),
            shortened=list(shortened),
            stand_ins=stand_ins,
            precision=scaled.model.dtype,
            numerics_precision=exact.model.dtype,
            sent=sent,
            verdict=found.verdict if all(item.equal for item in sent) else compare.WRONG_BYTES,
        )

    def timeline(result: RunResult) -> RunTimeline:
        known = learn(result)
        shown = short_case(
            "strategy", scaled, scaled.strategy, known.cluster, graph=known.graph, order=main.case.order
        )
        shown = as_timed(shown, known, scaled.graph)
        rows = by_lane(shown, [rank["cases"]["strategy"] for rank in result.ranks])
        return run_timeline(timed_by_itself(shown, rows), rows)

    return Experiment(
        spec=spec, finish=finish, learn=learn, timeline=timeline, engine=engine, stand_ins=stand_ins
    )


def _on_wide_lanes(
    resolved: Resolved,
    engine: str,
    ranks: int,
    size: UnitSize | None,
    most_s: float,
    elsewhere: Elsewhere | None,
) -> tuple[tuple[Scaled, tuple[Shortened, ...]] | None, list[str]]:
    """Return the plan with layers cut over ranks, if its lanes have several, or its experts are over several
    lanes, and ranks suffice; else why not.

    Raises:
        InputError: own layers that cannot be cut so.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    why = _cut_over(strategy)
    if engine == "torch" or not why:
        return None, []
    wide = why == WIDE
    several = len({row for s in strategy.stages for m in s.meshes for row in m.rows}) > 1
    if wide and several and ranks < FEWEST_RANKS:
        return None, [f"{WIDE}: {FEWEST_RANKS} ranks run two of them, {ranks} here"]
    if size is None:
        # own layers take experts over lanes of one rank as they take all else
        return (own_on_lanes(resolved, ranks=ranks, most_s=most_s, elsewhere=elsewhere) if wide else None), []
    try:
        return sharded_scale(resolved.graph, resolved.cluster, job, strategy, ranks=ranks, size=size), []
    except InputError as error:
        return None, [f"{why}: {error.message}"]


def _cut_over(strategy: JobStrategy) -> str:
    """Return over what a plan's layers are cut; empty if every layer is whole on a lane of one device."""
    if any(len(row) > 1 for s in strategy.stages for m in s.meshes for row in m.rows):
        return WIDE
    return ACROSS if any(item.meshes for s in strategy.stages for item in s.shardings) else ""
