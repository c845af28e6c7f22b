"""The short run: the likeness of a plan, its baseline and their calibration for real, in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from explorer.base.errors import InputError, PlanError
from explorer.base.plain_data import to_plain
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.plan import Resolved
from explorer.reads import reading_of
from explorer.run.cases.baselines import baseline_of, planned_speedup
from explorer.run.cases.build import Prepared, prepare, unsupported_by_torch
from explorer.run.cases.likeness import Scaled, UnitSize, scale
from explorer.run.cases.operators import by_operator, operator_graph
from explorer.run.cases.sharded_likeness import sharded_scale
from explorer.run.experiment import Experiment, update_rules
from explorer.run.judging import compare
from explorer.run.judging.calibrate import Calibrated, calibrate, machine_times, uncalibrated
from explorer.run.judging.compare import Comparison, EngineRun, StageTime
from explorer.run.judging.cost_check import (
    COST_TOLERANCE_PCT,
    PROCESSOR,
    CostCheck,
    RankBytes,
    clock_of,
    layer_seconds,
    measured_compute,
    predicted_compute,
    priced_by,
    rank_bytes,
    unfit,
)
from explorer.run.judging.task_times import timed_by_itself
from explorer.run.judging.timelines import RunTimeline, run_timeline
from explorer.run.judging.wire_bytes import WireBytes, wire_bytes
from explorer.run.launching.launch import RunResult, device_of
from explorer.run.model import ModelSpec
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import own_scaled
from explorer.run.own.shortened import Shortened
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.spec import Calibration, RunCase, RunSpec
from explorer.simulation.check import check_job
from explorer.strategy import JobStrategy

FEWEST_RANKS = 4
"""Fewest ranks on which a plan of several lanes keeps two of them, each of two ranks."""

BY_KIND = "the plan's lanes have several ranks: its layers run by their kinds, with smaller dimensions"
"""Why stand-ins run where layers are cut over ranks."""
LEARNING_RATE = 1e-4
"""Of own layers: random weights at full width would grow beyond all bounds at that of stand-ins."""


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
    wide_lanes: bool = True,
) -> Experiment:
    """Run a plan, its baseline and their calibration for real, in turn.

    `size`: size of the stand-ins; None for the model's own layers.
    `profile`: what this machine's profile says of it, to compare with; None if there is none.
    `stand_ins`: why stand-ins run; empty for own layers.
    `most_s`: seconds of a step in one process above which own layers are refused.
    `wide_lanes`: whether lanes of several ranks run as such where ranks suffice.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    if problems := check_job(resolved.graph, resolved.cluster, job, strategy):
        raise PlanError(problems)
    shortened: tuple[Shortened, ...] = ()
    lanes, apart = _on_wide_lanes(resolved, engine, ranks, size) if wide_lanes else (None, [])
    if lanes is not None:
        (scaled, shortened), stand_ins, size = lanes, BY_KIND, size or UnitSize()
    elif size is None:
        scaled, shortened = own_scaled(resolved, ranks=ranks, most_s=most_s)
    else:
        scaled = scale(resolved.graph, resolved.cluster, job, strategy, ranks=ranks, size=size)
    size = size or UnitSize()
    name, other = baseline_of(baseline, scaled, size)
    rough = uncalibrated(scaled.ranks, flops_per_s=size.flops_per_s)
    main = _likeness_prepared(scaled, rough, ranks)
    against = _prepared("baseline", scaled, other, rough, everywhere=name == "single")
    # plain gradient descent: Adam would blow up rounding errors from the second step on
    plain = _prepared("numerics", scaled, scaled.strategy, rough, check=True, once=True, fewest=2)
    reading = reading_of(plain.case.order.read_rule)
    check = replace(plain.case, optimizer="momentum" if reading.make else "sgd", learning_rate=0.01)
    held = _prepared("bytes", scaled, scaled.strategy, rough, once=True, count_bytes=True, fewest=2)
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
    spec = RunSpec(
        ranks=scaled.ranks,
        cases=tuple(cases),
        rounds=rounds,
        warmup_rounds=warmup_rounds,
        calibration=_calibration(scaled, (main, against)),
        group_timeout_s=max(600.0, 10 + 5 * max(main.case.seconds)),
        pin=True,
        quiet_share=compare.QUIET,
    )

    def learn(result: RunResult, only: int | None = None) -> Calibrated:
        rows = [rank["calibration"] for rank in result.ranks]
        return calibrate(
            scaled.model, rows, ranks=scaled.ranks, optimizer=scaled.job.optimizer, only=only,
            graph=scaled.graph,
        )  # fmt: skip

    def finish(result: RunResult) -> Comparison:
        done = min(len(rank["calibration"]) for rank in result.ranks)
        known = [learn(result, only) for only in (None, *range(done))]
        device = device_of(result)
        found = _compare_short(result, scaled, known, other, name, engine)
        missing = unfit(profile, ranks=scaled.ranks, device=device)
        words = [f"{rounds} rounds: after {done} the machine was too crowded"] if done < rounds else []
        words += apart
        sent = _sent(result, scaled, check)
        return replace(
            found,
            not_validated=[*found.not_validated, *words],
            machine=to_plain(machine_times(known[0], device)),
            costs=None if missing or profile is None else _costs(result, scaled, other, name, found, profile),
            costs_missing=missing,
            memory=_memory(result, scaled),
            plan_speedup=planned_speedup(resolved, name, baseline),
            shortened=list(shortened),
            stand_ins=stand_ins,
            sent=sent,
            verdict=found.verdict if all(item.equal for item in sent) else compare.WRONG_BYTES,
        )

    def timeline(result: RunResult) -> RunTimeline:
        known = learn(result)
        shown = _prepared("strategy", scaled, scaled.strategy, known.cluster, graph=known.graph)
        rows = _by_lane(shown, [rank["cases"]["strategy"] for rank in result.ranks])
        return run_timeline(timed_by_itself(shown, rows), rows)

    return Experiment(
        spec=spec, finish=finish, learn=learn, timeline=timeline, engine=engine, stand_ins=stand_ins
    )


def _on_wide_lanes(
    resolved: Resolved, engine: str, ranks: int, size: UnitSize | None
) -> tuple[tuple[Scaled, tuple[Shortened, ...]] | None, list[str]]:
    """Return the plan on lanes of several ranks, if it has such lanes and ranks suffice; else why not."""
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    if engine == "torch" or all(len(row) == 1 for s in strategy.stages for m in s.meshes for row in m.rows):
        return None, []
    several = len({row for s in strategy.stages for m in s.meshes for row in m.rows}) > 1
    if several and ranks < FEWEST_RANKS:
        return None, [f"lanes of several ranks: {FEWEST_RANKS} ranks run two of them, {ranks} here"]
    try:
        return sharded_scale(
            resolved.graph, resolved.cluster, job, strategy, ranks=ranks, size=size or UnitSize()
        ), []
    except InputError as error:
        return None, [f"lanes of several ranks: {error.message}"]


def _by_lane(prepared: Prepared, rows: list[Any]) -> list[Any]:
    """Return what the first rank of every lane of a case recorded."""
    return rows[:: prepared.case.lane_ranks]


def _sent(result: RunResult, scaled: Scaled, check: RunCase) -> list[WireBytes]:
    """Compare the bytes that the ranks of a sharded plan sent with what the cost model says."""
    if not check.is_sharded:
        return []
    rough = uncalibrated(scaled.ranks)
    plain = _prepared("numerics", scaled, scaled.strategy, rough, check=True, once=True, fewest=2)
    return wire_bytes(plain, [rank["cases"]["numerics"][0] for rank in result.ranks])


def _likeness_prepared(scaled: Scaled, cluster: Cluster, ranks: int) -> Prepared:
    """Prepare the plan's likeness as a case.

    Raises:
        InputError: so few ranks leave a shape that its schedule cannot order.
    """
    try:
        return _prepared("strategy", scaled, scaled.strategy, cluster)
    except PlanError as error:
        raise InputError(
            f"the plan's likeness on {ranks} ranks cannot be run: {'; '.join(error.problems)}",
            key="ranks",
            found=ranks,
            allowed="a machine with a core or GPU for each pipeline device of the plan, or engine dry",
        ) from None


def _prepared(
    name: str,
    scaled: Scaled,
    strategy: JobStrategy,
    cluster: Cluster,
    *,
    graph: LayerGraph | None = None,
    fewest: int = 0,
    **fields: Any,
) -> Prepared:
    """Prepare a strategy as a case.

    `fewest`: steps of one that flushes, at least; 0 for two of own layers, whose steps are long, else three.
    """
    if isinstance(scaled.model, OwnModel):
        fewest = fewest or 2
        fields = {"learning_rate": LEARNING_RATE} | fields
    fewest = fewest or 3
    from explorer.schedules import SCHEDULES

    flush = SCHEDULES.get(strategy.schedule).flushes(dict(strategy.options))
    rules = update_rules(strategy)
    rounds = 2 * math.lcm(*(rule.period for rule in rules))
    steps = max(fewest if flush else 4, rounds) + max((rule.delay for rule in rules), default=0)
    return prepare(
        name, graph or scaled.graph, cluster, scaled.job, strategy, steps=steps,
        model=_model_of(scaled, strategy), **fields,
    )  # fmt: skip


def _model_of(scaled: Scaled, strategy: JobStrategy) -> ModelSpec | OwnModel | LayoutModel:
    """Return what ranks compute under a strategy: whole layers unless its lanes have several ranks."""
    wide = any(len(row) > 1 for stage in strategy.stages for mesh in stage.meshes for row in mesh.rows)
    return scaled.model if wide or not isinstance(scaled.model, LayoutModel) else scaled.model.whole


def _calibration(scaled: Scaled, prepared: tuple[Prepared, ...]) -> Calibration:
    """Return the calibration that the predictions of some cases need."""
    samples, messages, reduces = set(), {4}, {4}
    for item in prepared:
        for slot, size in zip(item.program.slots, item.prices.bytes.tolist(), strict=True):
            if 0 <= slot.kind < 4:
                samples.add(slot.samples)
            elif slot.kind == 5:
                messages.add(int(size))
            elif slot.kind == 6:
                reduces.add(int(size))
    whole = sum(p.elements for p in scaled.graph.parameters) * scaled.model.element_bytes
    return Calibration(
        model=scaled.model.whole if isinstance(scaled.model, LayoutModel) else scaled.model,
        samples=tuple(sorted(samples)),
        message_bytes=tuple(sorted(messages)),
        reduce_bytes=tuple(sorted(reduces | {int(whole)})),
        optimizer=scaled.job.optimizer,
    )


def _compare_short(
    result: RunResult, scaled: Scaled, known: list[Calibrated], other: JobStrategy, name: str, engine: str
) -> Comparison:
    """Compare a short run with its prediction. `known`: the calibration of all rounds, then of each;
    predictions and measurements pair by round.
    """

    def rows(case: str) -> list[list[dict[str, Any]]]:
        return [rank["cases"][case] for rank in result.ranks]

    def priced(case: str, strategy: JobStrategy, item: Calibrated, only: int | None = None) -> Prepared:
        alone = case == "baseline" and name == "single"
        run = _prepared(case, scaled, strategy, item.cluster, graph=item.graph, everywhere=alone)
        return timed_by_itself(run, _by_lane(run, rows(case)), only)

    main = priced("strategy", scaled.strategy, known[0])
    against = priced("baseline", other, known[0])
    seen = compare.measure(main, _by_lane(main, rows("strategy")))
    base = compare.measure(against, _by_lane(against, rows("baseline")))
    ours = [
        compare.predicted_step(priced("strategy", scaled.strategy, item, only))
        for only, item in enumerate(known[1:])
    ]
    theirs = [compare.predicted_step(priced("baseline", other, item)) for item in known[1:]]
    predicted = median(ours)
    speedup = median(b / a for a, b in zip(seen.rounds_s, base.rounds_s, strict=True))
    expected = median(b / a for a, b in zip(ours, theirs, strict=True))
    numerics = compare.numerics_of(rows("numerics"))
    ok = numerics.get("gradient", 1.0) <= compare.GRADIENT_TOLERANCE
    validated = [*scaled.validated, "gradients and weights against one process"]
    engines = _engine_runs(main, seen.makespan_s, rows) if engine == "torch" else []
    if engines:
        own, torchs = engines
        difference = compare.relative_pct(torchs.step_time_s, own.step_time_s)
        equal = torchs.gradient <= compare.GRADIENT_TOLERANCE
        ok = ok and equal
        words = f"{'equal' if equal else 'DIFFERENT'} gradients, {difference:+.1f} % time"
        validated.append(f"the same order on torch's own runtime: {words}")
    contention = min(known[0].cpu_share, seen.cpu_share, base.cpu_share)
    error = compare.relative_pct(expected, speedup)
    errors = [compare.relative_pct(a, b) for a, b in zip(ours, seen.rounds_s, strict=True)]
    return Comparison(
        predicted={"step_time_s": predicted, "speedup": expected},
        measured={"step_time_s": seen.step_time_s, "speedup": speedup, "iqr_s": seen.iqr_s},
        error_pct=median(errors),
        speedup_error_pct=error,
        parts={"predicted": compare.predicted_parts(main), "measured": dict(seen.parts)},
        numerics_ok=ok,
        contention=contention,
        validated=validated,
        not_validated=list(scaled.not_validated),
        verdict=compare.verdict_of(
            contention=contention, numerics_ok=ok, error_pct=error,
            tolerance_pct=compare.SPEEDUP_TOLERANCE_PCT,
        ),
        baseline=name,
        engine=engine,
        numerics=numerics,
        stages=_stage_times(scaled, compare.predicted_stages(main), seen.stages),
        rounds=len(seen.rounds_s),
        engines=engines,
        error_spread_pct=compare.spread(errors),
    )  # fmt: skip


def _costs(
    result: RunResult, scaled: Scaled, other: JobStrategy, name: str, found: Comparison, profile: Cluster
) -> CostCheck:
    """Compare what was measured with what the machine's profile says of the operators of the run."""
    graph, clock = _operators(scaled), clock_of(device_of(result))
    rows = [rank["cases"]["strategy"] for rank in result.ranks]
    rough = uncalibrated(scaled.ranks)

    def priced(strategy: JobStrategy, **fields: Any) -> Prepared:
        run = _prepared("profile", scaled, strategy, rough, **fields)
        return priced_by(run, graph, _by_operator(scaled, strategy, graph), profile)

    main, against = priced(scaled.strategy), priced(other, everywhere=name == "single")
    step_s, compute_s = compare.predicted_step(main), predicted_compute(main)
    worked_s = measured_compute(main, _by_lane(main, rows), clock)
    error = compare.relative_pct(compute_s, worked_s)
    taken_s = found.measured["step_time_s"] or 0.0
    return CostCheck(
        profile=f"{profile.name}: {profile.title}",
        clock=clock,
        predicted={
            "step_time_s": step_s, "speedup": compare.predicted_step(against) / step_s,
            "compute_s": compute_s,
        },
        measured={
            "step_time_s": taken_s, "speedup": found.measured["speedup"], "compute_s": worked_s,
        },
        error_pct=error,
        step_error_pct=compare.relative_pct(step_s, taken_s),
        verdict=compare.verdict_of(
            contention=1.0 if clock == PROCESSOR else found.contention, numerics_ok=None, error_pct=error,
            tolerance_pct=COST_TOLERANCE_PCT,
        ),
        layers=layer_seconds(
            graph, profile, [layer.name for layer in scaled.graph.layers],
            [row["worked"] for rank in result.ranks for row in rank["calibration"]],
            precision=scaled.job.precision,
        ),
    )  # fmt: skip


def _operators(scaled: Scaled) -> LayerGraph:
    """Return the graph of a run as the cost model prices it: by operators."""
    if isinstance(scaled.model, ModelSpec):
        return operator_graph(scaled.model)
    return scaled.eager or scaled.graph


def _by_operator(scaled: Scaled, strategy: JobStrategy, graph: LayerGraph) -> JobStrategy:
    return by_operator(strategy, graph) if isinstance(scaled.model, ModelSpec) else strategy


def _memory(result: RunResult, scaled: Scaled) -> list[RankBytes]:
    """Compare the counted peak of every rank with the predicted one."""
    graph, rough = _operators(scaled), uncalibrated(scaled.ranks)
    run = _prepared("bytes", scaled, scaled.strategy, rough, fewest=2)
    priced = priced_by(run, graph, _by_operator(scaled, scaled.strategy, graph), rough)
    rows = _by_lane(run, [rank["cases"]["bytes"] for rank in result.ranks])
    found = rank_bytes(priced, rows, graph)
    return [replace(item, rank=item.rank * run.case.lane_ranks) for item in found]


def _stage_times(
    scaled: Scaled, predicted: Mapping[int, float], measured: Mapping[int, float]
) -> list[StageTime]:
    return [
        StageTime(stages=group, predicted_s=predicted[i], measured_s=measured[i])
        for i, group in enumerate(scaled.groups)
    ]


def _engine_runs(
    main: Prepared, makespan_s: float, rows: Callable[[str], list[list[dict[str, Any]]]]
) -> list[EngineRun]:
    """Return what our engine and torch's took for the plan's likeness, and how true their gradients are."""
    found, steps = rows("torch"), main.case.order.steps
    return [
        EngineRun(
            engine=name,
            step_time_s=seconds / steps,
            gradient=compare.numerics_of(checked).get("first", math.inf),
        )
        for name, seconds, checked in (
            ("interpreter", makespan_s, rows("numerics")),
            ("torch", compare.unstamped_makespan(found), found),
        )
    ]
