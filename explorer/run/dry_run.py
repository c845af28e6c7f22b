"""The dry run: a plan's own program on real ranks with real messages, its compute slept."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from statistics import median

from explorer.base.errors import InputError, PlanError
from explorer.plan import Resolved
from explorer.run.cases.build import Prepared, prepare
from explorer.run.experiment import Experiment, update_rules
from explorer.run.judging import compare
from explorer.run.judging.compare import Comparison, Measurement
from explorer.run.judging.timelines import RunTimeline, run_timeline
from explorer.run.launching.launch import RunResult
from explorer.run.spec import RunSpec
from explorer.strategy import JobStrategy, Mesh, Stage

DRY_RANKS = 32
DRY_ACTION_S = 0.05
"""Median seconds of a compute action of a dry run after stretching: two hundred times what a rank adds to
each.
"""
DRY_STEPS = 8
"""Most steps of a dry run, for exchanges of update rules that are far apart."""
DRY_LIMIT_S = 15.0
"""Longest seconds of a dry run of one round."""


def dry_run(resolved: Resolved, *, rounds: int, ranks: int = DRY_RANKS, steps: int = 2) -> Experiment:
    """Run the plan's own program on real ranks with real messages; compute sleeps for its predicted
    seconds.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    strategy, words = _within(strategy, ranks)
    rules = update_rules(strategy)
    wanted = steps + max((rule.period - 1 for rule in rules), default=0)
    wanted += max((rule.delay for rule in rules), default=0)
    steps = min(wanted, max(steps, DRY_STEPS))
    if steps < wanted:
        words.append(f"exchanges of update rules after more than {steps} steps")
    plain = prepare("dry", resolved.graph, resolved.cluster, job, strategy, steps=steps)
    whole = min(plain.program.shape.microbatches)
    plain = _shortened(plain, resolved, steps)
    if min(plain.program.shape.microbatches) < whole:
        words.append(
            f"microbatches of a step: {whole} in the plan, {min(plain.program.shape.microbatches)} here"
        )
    job, stretch = plain.job, _stretch(plain)
    main = prepare("dry", resolved.graph, resolved.cluster, job, strategy, steps=steps, scale=stretch)
    longest = max(main.case.seconds)
    spec = RunSpec(
        ranks=len(main.program.programs), cases=(main.case,), rounds=rounds,
        group_timeout_s=max(600.0, 10 + 5 * longest, float(main.timing.end_s.max())), device="cpu",
    )  # fmt: skip

    def finish(result: RunResult) -> Comparison:
        rows = [rank["cases"]["dry"] for rank in result.ranks]
        seen = compare.measure(main, rows, scale=1 / stretch)
        found = _compare_dry(plain, seen, stretch, words)
        return replace(found, actions=compare.actions_of(plain, rows, scale=1 / stretch))

    def timeline(result: RunResult) -> RunTimeline:
        return run_timeline(plain, [rank["cases"]["dry"] for rank in result.ranks], scale=1 / stretch)

    return Experiment(spec=spec, finish=finish, timeline=timeline)


def _within(strategy: JobStrategy, ranks: int) -> tuple[JobStrategy, list[str]]:
    """Drop replicas from the end until there are no more lanes than ranks."""
    most = max(stage.meshes[0].replicas for stage in strategy.stages)
    for keep in range(most, 0, -1):
        stages = tuple(_first_replicas(stage, keep) for stage in strategy.stages)
        lanes = {row for stage in stages for mesh in stage.meshes for row in mesh.rows}
        if len(lanes) <= ranks:
            words = [] if keep == most else [f"replicas: {most} in the plan, {keep} here"]
            period_s = strategy.checkpoint_period_s
            words += [f"checkpoints every {period_s:g} s"] if period_s else []
            return strategy.with_stages(stages), words
    raise InputError(
        f"a plan of {len(lanes)} pipeline devices is too large for a dry run",
        key="strategy.stages", found=len(lanes), allowed=f"<= {ranks}",
    )  # fmt: skip


def _first_replicas(stage: Stage, keep: int) -> Stage:
    """Keep the first replicas of a stage only, each with the samples it had."""
    before = stage.meshes[0].replicas
    if before <= keep:
        return stage
    meshes = []
    for mesh in stage.meshes:
        axes = tuple((name, keep if name == "replica" else size) for name, size in mesh.axes)
        meshes.append(Mesh(devices=tuple(d for row in mesh.rows[:keep] for d in row), axes=axes))
    together = math.gcd(stage.zero_replicas, keep * len(meshes))  # stays 0, which means all
    return replace(
        stage, meshes=tuple(meshes), shares=stage.shares[:keep],
        zero_replicas=together if stage.zero_replicas else 0,
    )  # fmt: skip


def _shortened(plain: Prepared, resolved: Resolved, steps: int) -> Prepared:
    """Return the plan with as many of its microbatches as fit into the time of a dry run at the wanted
    seconds of an action: as many as it has, or the largest even part of them that the plan allows.
    """
    best = plain
    for parts in range(2, min(plain.program.shape.microbatches) + 1):
        if _action_s(best) * _stretch(best) >= DRY_ACTION_S * (1 - 1e-9):
            break
        if any(count % parts for count in plain.program.shape.microbatches):
            continue
        job = replace(plain.job, global_batch=plain.job.global_batch // parts)
        with contextlib.suppress(PlanError):
            best = prepare("dry", resolved.graph, resolved.cluster, job, plain.strategy, steps=steps)
    return best


def _action_s(plain: Prepared) -> float:
    """Return the median predicted seconds of the compute actions that count: a thousandth of the longest.

    Raises:
        InputError: none does.
    """
    slots = plain.program.slot[[t for tasks in plain.program.programs for t in tasks.tolist()]]
    given = plain.prices.seconds[slots].tolist()
    seconds = [s for s in given if s > 1e-3 * max(given)]
    if not seconds:
        raise InputError("every action of the plan takes no time", key="model", allowed="a model with costs")
    return float(median(seconds))


def _stretch(plain: Prepared) -> float:
    """Return the factor that makes actions long against the cost of waking up, and the run not too long."""
    total = float(plain.timing.end_s.max())
    return float(max(min(DRY_ACTION_S / _action_s(plain), DRY_LIMIT_S / total), 1.5 / total))


def _compare_dry(plain: Prepared, seen: Measurement, stretch: float, words: list[str]) -> Comparison:
    predicted = float(plain.timing.end_s.max())
    error = compare.relative_pct(predicted, seen.makespan_s)
    lanes = len(plain.program.programs)
    contention = min(1.0, predicted / seen.makespan_s)
    return Comparison(
        predicted={"step_time_s": compare.predicted_step(plain), "speedup": None},
        measured={"step_time_s": seen.step_time_s, "speedup": None, "iqr_s": seen.iqr_s},
        error_pct=error,
        speedup_error_pct=None,
        parts={"predicted": compare.predicted_parts(plain), "measured": dict(seen.parts)},
        numerics_ok=None,
        contention=contention,
        validated=[
            f"order and dependencies of {plain.strategy.schedule} on {lanes} ranks with real messages",
            f"makespan of {plain.program.order.steps} steps (time stretched {stretch:.3g} times)",
        ],
        not_validated=["seconds of compute and transfers", "links shared by several transfers", *words],
        verdict=compare.verdict_of(
            contention=max(contention, compare.QUIET if error > -50 else 0.0), numerics_ok=None,
            error_pct=error, tolerance_pct=compare.DRY_TOLERANCE_PCT,
        ),
        baseline="",
        engine="dry",
        numerics={},
        rounds=len(seen.rounds_s),
    )  # fmt: skip
