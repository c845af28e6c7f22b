"""The dry run: a plan's own program on real ranks with real messages, its compute slept."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import median

from explorer.base.errors import InputError
from explorer.plan import Resolved
from explorer.run import compare
from explorer.run.build import Prepared, prepare
from explorer.run.compare import Comparison, Measurement
from explorer.run.experiment import Experiment, update_rules
from explorer.run.launch import RunResult
from explorer.run.spec import RunSpec
from explorer.run.timelines import RunTimeline, run_timeline
from explorer.strategy import JobStrategy, Mesh, Stage

DRY_RANKS = 32
DRY_ACTION_S = 0.03
"""Median seconds of a compute action of a dry run after stretching."""
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
    stretch = _stretch(plain)
    main = prepare("dry", resolved.graph, resolved.cluster, job, strategy, steps=steps, scale=stretch)
    longest = max(main.case.seconds)
    spec = RunSpec(
        ranks=len(main.program.programs), cases=(main.case,), rounds=rounds,
        group_timeout_s=max(600.0, 10 + 5 * longest, float(main.timing.end_s.max())), device="cpu",
    )  # fmt: skip

    def finish(result: RunResult) -> Comparison:
        seen = compare.measure(main, [rank["cases"]["dry"] for rank in result.ranks], scale=1 / stretch)
        return _compare_dry(plain, seen, stretch, words)

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


def _stretch(plain: Prepared) -> float:
    """Return the factor that makes actions long against the cost of waking up, and the run not too long."""
    slots = plain.program.slot[[t for tasks in plain.program.programs for t in tasks.tolist()]]
    seconds = sorted(s for s in plain.prices.seconds[slots].tolist() if s > 0)
    if not seconds:
        raise InputError("every action of the plan takes no time", key="model", allowed="a model with costs")
    total = float(plain.timing.end_s.max())
    return float(max(min(DRY_ACTION_S / median(seconds), DRY_LIMIT_S / total), 1.5 / total))


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
