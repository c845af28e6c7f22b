"""Results of a short run beside predictions: seconds, numbers, bytes sent and held, and the cost model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from explorer.actions import Order
from explorer.cluster import Cluster
from explorer.framework import OURS
from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared
from explorer.run.cases.likeness import Scaled
from explorer.run.cases.operators import by_operator, operator_graph
from explorer.run.cases.short_cases import by_lane, short_case
from explorer.run.judging import compare
from explorer.run.judging.as_timed import as_timed
from explorer.run.judging.calibrate import Calibrated, uncalibrated
from explorer.run.judging.compare import Comparison, EngineRun, StageTime
from explorer.run.judging.cost_check import (
    COST_TOLERANCE_PCT,
    PROCESSOR,
    CostCheck,
    action_seconds,
    clock_of,
    layer_seconds,
    measured_collectives,
    measured_compute,
    predicted_collectives,
    predicted_compute,
    priced_by,
)
from explorer.run.judging.held_bytes import RankBytes, rank_bytes
from explorer.run.judging.machine_speed import at_present, slowdowns_since
from explorer.run.judging.task_times import timed_by_itself
from explorer.run.judging.wire_bytes import WireBytes, wire_bytes
from explorer.run.launching.launch import RunResult, device_of
from explorer.run.model import ModelSpec
from explorer.run.own.sliced_model import SlicedModel
from explorer.run.spec import RunCase
from explorer.strategy import JobStrategy


def compare_short(
    result: RunResult,
    scaled: Scaled,
    known: list[Calibrated],
    other: JobStrategy,
    name: str,
    engine: str,
    precision: str,
    orders: Mapping[str, Order],
) -> Comparison:
    """Compare a short run with its prediction. `known`: the calibration of all rounds, then of each;
    predictions and measurements pair by round. `precision`: that in which numbers were compared. `orders`:
    those that ran, of the strategy and the baseline.
    """

    def rows(case: str) -> list[list[dict[str, Any]]]:
        return [rank["cases"][case] for rank in result.ranks]

    def priced(case: str, strategy: JobStrategy, item: Calibrated, only: int | None = None) -> Prepared:
        alone = case == "baseline" and name == "single"
        run = short_case(
            case, scaled, strategy, item.cluster, graph=item.graph, everywhere=alone, order=orders[case]
        )
        run = as_timed(run, item, scaled.graph)
        return timed_by_itself(run, by_lane(run, rows(case)), only)

    main = priced("strategy", scaled.strategy, known[0])
    against = priced("baseline", other, known[0])
    seen = compare.measure(main, by_lane(main, rows("strategy")))
    base = compare.measure(against, by_lane(against, rows("baseline")))
    ours = [
        compare.predicted_step(priced("strategy", scaled.strategy, item, only))
        for only, item in enumerate(known[1:])
    ]
    theirs = [compare.predicted_step(priced("baseline", other, item)) for item in known[1:]]
    predicted = median(ours)
    speedup = median(b / a for a, b in zip(seen.rounds_s, base.rounds_s, strict=True))
    expected = median(b / a for a, b in zip(ours, theirs, strict=True))
    numerics = compare.numerics_of(rows("numerics"))
    ok = compare.gradients_equal(numerics)
    against_one = f"gradients and weights against one process, in {precision}"
    validated = [*scaled.validated, *([] if ok is None else [against_one])]
    unjudged = [f"{against_one}: {compare.unjudged_words(numerics)}"] if ok is None else []
    engines = _engine_runs(main, seen.makespan_s, rows) if engine == "torch" else []
    if engines:
        own, torchs = engines
        difference = compare.relative_pct(torchs.step_time_s, own.step_time_s)
        equal = torchs.gradient <= compare.GRADIENT_TOLERANCE
        ok = ok if equal else False
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
        not_validated=[*scaled.not_validated, *unjudged],
        verdict=compare.verdict_of(
            contention=contention, numerics_ok=ok, error_pct=error,
            tolerance_pct=compare.SPEEDUP_TOLERANCE_PCT,
        ),
        baseline=name,
        engine=engine,
        numerics=numerics,
        stages=_stage_times(scaled, compare.predicted_stages(main), seen.stages),
        actions=compare.actions_of(main, by_lane(main, rows("strategy"))),
        rounds=len(seen.rounds_s),
        engines=engines,
        error_spread_pct=compare.spread(errors),
    )  # fmt: skip


def sent_bytes(result: RunResult, scaled: Scaled, counted: RunCase) -> list[WireBytes]:
    """Compare the bytes that the ranks of a sharded or sliced plan sent with what the cost model says.

    `counted`: the case that is counted and not timed, in the precision of the run.
    """
    if not counted.is_sharded and not isinstance(counted.model, SlicedModel):
        return []
    rough = uncalibrated(scaled.ranks)
    plain = short_case("bytes", scaled, scaled.strategy, rough, once=True, fewest=2, order=counted.order)
    return wire_bytes(plain, [rank["cases"]["bytes"][0] for rank in result.ranks])


def cost_check(
    result: RunResult,
    scaled: Scaled,
    other: JobStrategy,
    name: str,
    found: Comparison,
    profile: Cluster,
    orders: Mapping[str, Order],
) -> CostCheck:
    """Compare what was measured with what the machine's profile says of the operators of the run, in the
    orders of the strategy and the baseline that ran.
    """
    slowdowns = slowdowns_since(
        profile, [row for rank in result.ranks for timed in rank.get("survey", ()) for row in timed]
    )
    now, graph, clock = at_present(profile, slowdowns), _operators(scaled), clock_of(device_of(result))
    rows = [rank["cases"]["strategy"] for rank in result.ranks]
    rough = uncalibrated(scaled.ranks)

    def priced(strategy: JobStrategy, **fields: Any) -> Prepared:
        run = short_case("profile", scaled, strategy, rough, **fields)
        return priced_by(run, graph, _by_operator(scaled, strategy, graph), now)

    main = priced(scaled.strategy, order=orders["strategy"])
    against = priced(other, everywhere=name == "single", order=orders["baseline"])
    step_s, compute_s = compare.predicted_step(main), predicted_compute(main)
    worked_s = measured_compute(main, by_lane(main, rows), clock)
    error = compare.relative_pct(compute_s, worked_s)
    taken_s = found.measured["step_time_s"] or 0.0
    return CostCheck(
        profile=f"{profile.name}: {profile.title}",
        slowdowns=slowdowns,
        clock=clock,
        predicted={
            "step_time_s": step_s, "speedup": compare.predicted_step(against) / step_s,
            "compute_s": compute_s, "collective_s": predicted_collectives(main),
            "communication_s": compare.predicted_parts(main)["communication"],
        },
        measured={
            "step_time_s": taken_s, "speedup": found.measured["speedup"], "compute_s": worked_s,
            "collective_s": measured_collectives(main, by_lane(main, rows)),
            "communication_s": found.parts["measured"]["communication"],
        },
        error_pct=error,
        step_error_pct=compare.relative_pct(step_s, taken_s),
        verdict=compare.verdict_of(
            contention=1.0 if clock == PROCESSOR else found.contention, numerics_ok=None, error_pct=error,
            tolerance_pct=COST_TOLERANCE_PCT,
        ),
        layers=layer_seconds(
            graph, now, [layer.name for layer in scaled.graph.layers],
            [row["worked"] for rank in result.ranks for row in rank["calibration"]],
            precision=scaled.job.precision,
        ),
        actions=action_seconds(main, by_lane(main, rows), clock),
    )  # fmt: skip


def _operators(scaled: Scaled) -> LayerGraph:
    """Return the graph of a run as the cost model prices it: by operators."""
    if isinstance(scaled.model, ModelSpec):
        return operator_graph(scaled.model)
    return scaled.eager or scaled.graph


def _by_operator(scaled: Scaled, strategy: JobStrategy, graph: LayerGraph) -> JobStrategy:
    return by_operator(strategy, graph) if isinstance(scaled.model, ModelSpec) else strategy


def rank_memory(result: RunResult, scaled: Scaled, order: Order) -> list[RankBytes]:
    """Compare the counted peak of every rank with the predicted one of the order that was counted."""
    graph, rough = _operators(scaled), uncalibrated(scaled.ranks)
    run = short_case("bytes", scaled, scaled.strategy, rough, fewest=2, order=order)
    if run.job.gradient_precision:  # a runtime that writes no placeholders where gradients are wider
        run = replace(run, job=replace(run.job, framework=OURS))
    priced = priced_by(run, graph, _by_operator(scaled, scaled.strategy, graph), rough)
    return rank_bytes(priced, [rank["cases"]["bytes"] for rank in result.ranks], graph)


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
