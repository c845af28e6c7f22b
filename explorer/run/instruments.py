"""Instruments: the short run and the dry-time run, each from a plan to a launch and from a result to a
comparison.

An `Experiment` is a launch that has not started yet, with the function that reads its result, so that the
command line can block on it and a notebook can poll it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from explorer.base.errors import InputError, PlanError
from explorer.base.plain_data import to_plain
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.plan import Resolved, load_plan
from explorer.reads import reading_of
from explorer.run import compare
from explorer.run.build import Prepared, prepare, unsupported_by_torch
from explorer.run.calibrate import Calibrated, calibrate, machine_times, uncalibrated
from explorer.run.compare import Comparison, Measurement, StageTime
from explorer.run.launch import RunResult
from explorer.run.likeness import Scaled, UnitSize, scale
from explorer.run.spec import Calibration, RunSpec
from explorer.simulation.check import check_job
from explorer.strategy import JobStrategy, Mesh, Stage
from explorer.updates import UpdateRule, chosen, rule_of

ENGINES = ("interpreter", "torch", "dry")
BASELINES = ("data_parallel", "single", "even")
DRY_RANKS = 32
DRY_ACTION_S = 0.03
"""Median seconds of a compute action of a dry run after stretching."""
DRY_STEPS = 8
"""Most steps of a dry run, for exchanges of update rules that are far apart."""
DRY_LIMIT_S = 15.0
"""Longest seconds of a dry run of one round."""
WARMUP_ROUNDS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A launch, and the function that reads its result."""

    spec: RunSpec
    """Specification for `explorer.run.start`."""
    finish: Callable[[RunResult], Comparison]
    """Function that turns the result into a comparison."""
    learn: Callable[[RunResult], Calibrated] | None = None
    """Function that returns what the launch measured of its own machine and model; None if compute was
    slept.
    """


def available_ranks() -> int:
    """Count the processes that can be timed here: one per GPU, else one per core (at least two)."""
    if Path("/proc/driver/nvidia/gpus").exists():
        import torch

        if torch.cuda.device_count() > 1:
            return torch.cuda.device_count()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, cores)


def make_experiment(
    resolved: Resolved,
    *,
    rounds: int = 7,
    engine: str = "interpreter",
    baseline: str | Resolved | None = None,
    ranks: int | None = None,
    size: UnitSize | None = None,
    warmup_rounds: int = WARMUP_ROUNDS,
) -> Experiment:
    """Make the launch that validates a plan.

    Args:
        resolved: the plan with its inputs.
        rounds: measured rounds, strategy and baseline in turn.
        engine: one of `ENGINES`.
        baseline: one of `BASELINES`, a plan or its file; None suits the plan.
        ranks: most processes; None for as many as can be timed here.
        size: size of the runnable model.
        warmup_rounds: rounds before them that are discarded (a dry run needs none).

    Raises:
        InputError: a plan or option that cannot be run.
    """
    if engine not in ENGINES:
        raise InputError(f"unknown engine {engine!r}", key="engine", found=engine, allowed=", ".join(ENGINES))
    if rounds < 1:
        raise InputError(f"{rounds} rounds", key="steps", found=rounds, allowed=">= 1")
    if engine == "dry":
        return dry_run(resolved, rounds=min(rounds, 3), ranks=ranks or DRY_RANKS)
    return short_run(
        resolved, rounds=rounds, engine=engine, baseline=baseline, ranks=ranks or available_ranks(),
        size=size or UnitSize(), warmup_rounds=warmup_rounds,
    )  # fmt: skip


def device_of(result: RunResult) -> str:
    """Return what the ranks of a run say they ran on: `cpu`, or the name of an accelerator."""
    names = [str(event["name"]) for event in result.events if event.get("event") == "ready"]
    return names[0] if names else "cpu"


# -- the short run ----------------------------------------------------------------------------------


def short_run(
    resolved: Resolved,
    *,
    rounds: int,
    engine: str,
    baseline: str | Resolved | None,
    ranks: int,
    size: UnitSize,
    warmup_rounds: int = WARMUP_ROUNDS,
) -> Experiment:
    """Run the plan's likeness, its baseline and their calibration for real, in turn."""
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    if problems := check_job(resolved.graph, resolved.cluster, job, strategy):
        raise PlanError(problems)
    scaled = scale(resolved.graph, resolved.cluster, job, strategy, ranks=ranks, size=size)
    name, other = _baseline(baseline, scaled, size)
    rough = uncalibrated(scaled.ranks, flops_per_s=size.flops_per_s)
    main = _likeness_prepared(scaled, rough, ranks)
    against = _prepared("baseline", scaled, other, rough, everywhere=name == "single")
    # plain gradient descent: Adam would blow up rounding errors from the second step on
    plain = _prepared("numerics", scaled, scaled.strategy, rough, check=True, once=True)
    reading = reading_of(plain.case.order.read_rule)
    check = replace(plain.case, optimizer="momentum" if reading.make else "sgd", learning_rate=0.01)
    cases = [check, main.case, against.case]
    twin = None
    if engine == "torch":
        if problems := unsupported_by_torch(main.case):
            raise InputError(
                f"torch cannot run {'; '.join(problems)}",
                key="engine", found="torch", allowed="interpreter",
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
    )

    def learn(result: RunResult, only: int | None = None) -> Calibrated:
        rows = [rank["calibration"] for rank in result.ranks]
        return calibrate(scaled.model, rows, ranks=scaled.ranks, optimizer=scaled.job.optimizer, only=only)

    def finish(result: RunResult) -> Comparison:
        known = [learn(result, only) for only in (None, *range(rounds))]
        machine = to_plain(machine_times(known[0], device_of(result)))
        return replace(_compare_short(result, scaled, known, other, name, engine), machine=machine)

    return Experiment(spec=spec, finish=finish, learn=learn)


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
    **fields: Any,
) -> Prepared:
    from explorer.schedules import SCHEDULES

    flush = SCHEDULES.get(strategy.schedule).flushes(dict(strategy.options))
    rules = _rules(strategy)
    rounds = 2 * math.lcm(*(rule.period for rule in rules))
    steps = max(3 if flush else 4, rounds) + max((rule.delay for rule in rules), default=0)
    return prepare(
        name, graph or scaled.graph, cluster, scaled.job, strategy, steps=steps, model=scaled.model, **fields,
    )  # fmt: skip


def _rules(strategy: JobStrategy) -> list[UpdateRule]:
    return [rule_of(chosen(choice.rule, choice.options)) for choice in strategy.updates]


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
        model=scaled.model,
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

    def priced(case: str, strategy: JobStrategy, item: Calibrated) -> Prepared:
        alone = case == "baseline" and name == "single"
        return _prepared(case, scaled, strategy, item.cluster, graph=item.graph, everywhere=alone)

    main = priced("strategy", scaled.strategy, known[0])
    against = priced("baseline", other, known[0])
    seen, base = compare.measure(main, rows("strategy")), compare.measure(against, rows("baseline"))
    ours = [compare.predicted_step(priced("strategy", scaled.strategy, item)) for item in known[1:]]
    theirs = [compare.predicted_step(priced("baseline", other, item)) for item in known[1:]]
    predicted = median(ours)
    speedup = median(b / a for a, b in zip(seen.rounds_s, base.rounds_s, strict=True))
    expected = median(b / a for a, b in zip(ours, theirs, strict=True))
    numerics = compare.numerics_of(rows("numerics"))
    ok = numerics.get("gradient", 1.0) <= compare.GRADIENT_TOLERANCE
    validated = [*scaled.validated, "gradients and weights against one process"]
    if engine == "torch":
        found = rows("torch")
        engine_s = min(_engine_times(found))
        difference = compare.relative_pct(engine_s, seen.makespan_s)
        ok = ok and compare.numerics_of(found).get("first", 1.0) <= compare.GRADIENT_TOLERANCE
        validated.append(f"the same order on torch's own runtime: equal gradients, {difference:+.1f} % time")
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
        error_spread_pct=compare.spread(errors),
    )  # fmt: skip


def _stage_times(
    scaled: Scaled, predicted: Mapping[int, float], measured: Mapping[int, float]
) -> list[StageTime]:
    return [
        StageTime(stages=group, predicted_s=predicted[i], measured_s=measured[i])
        for i, group in enumerate(scaled.groups)
    ]


def _engine_times(rows: list[list[dict[str, Any]]]) -> list[float]:
    """Return, per round, the slowest rank's seconds of a case without stamps."""
    return [max(rank[number]["seconds"] for rank in rows) for number in range(len(rows[0]))]


def _baseline(asked: str | Resolved | None, scaled: Scaled, size: UnitSize) -> tuple[str, JobStrategy]:
    """Return the name and strategy of the baseline, on the same runnable model."""
    name = asked if asked is not None else ("data_parallel" if len(scaled.strategy.stages) > 1 else "single")
    if name == "even":
        return name, _even(scaled)
    if name == "data_parallel":
        return name, _one_stage(scaled, tuple(range(scaled.ranks)))
    if name == "single":
        return name, _one_stage(scaled, (0,))
    resolved = load_plan(name) if isinstance(name, str) else name
    likeness = scale(
        resolved.graph, resolved.cluster, resolved.plan.workload.job, resolved.plan.strategy.job,
        ranks=scaled.ranks, size=size,
    )  # fmt: skip
    return "plan", _onto(scaled, likeness.strategy)


def _one_stage(scaled: Scaled, devices: tuple[int, ...]) -> JobStrategy:
    """Put the whole model in one stage, in microbatches of at most eight samples per replica."""
    batch, most = scaled.job.global_batch, 8 * len(devices)
    fits = [n for n in range(1, batch + 1) if batch % n == 0 and len(devices) <= n <= most]
    stage = Stage(
        layers=tuple(layer.name for layer in scaled.graph.layers),
        meshes=(Mesh(devices=devices),),
        microbatch_samples=max(fits, default=batch),
    )
    return JobStrategy(stages=(stage,), schedule="gpipe", job=scaled.strategy.job)


def _even(scaled: Scaled) -> JobStrategy:
    """Give every stage of a strategy equally many layers."""
    return _onto(scaled, scaled.strategy)


def _onto(scaled: Scaled, strategy: JobStrategy) -> JobStrategy:
    """Deal the layers of the runnable model out evenly over the stages of a strategy."""
    names = [layer.name for layer in scaled.graph.layers]
    count = len(strategy.stages)
    if count > len(names):
        raise InputError("more stages than layers", key="baseline", found=count, allowed=f"<= {len(names)}")
    cuts = [round(i * len(names) / count) for i in range(count + 1)]
    batch = scaled.job.global_batch
    stages = []
    for i, stage in enumerate(strategy.stages):
        size = stage.microbatch_samples if batch % stage.microbatch_samples == 0 else batch
        stages.append(
            replace(stage, layers=tuple(names[cuts[i] : cuts[i + 1]]), slices=(), microbatch_samples=size)
        )
    return strategy.with_stages(stages)


# -- the dry-time run -------------------------------------------------------------------------------


def dry_run(resolved: Resolved, *, rounds: int, ranks: int = DRY_RANKS, steps: int = 2) -> Experiment:
    """Run the plan's own program on real ranks with real messages; compute sleeps for its predicted
    seconds.
    """
    job, strategy = resolved.plan.workload.job, resolved.plan.strategy.job
    strategy, words = _within(strategy, ranks)
    rules = _rules(strategy)
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

    return Experiment(spec=spec, finish=finish)


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


__all__ = ["Experiment", "available_ranks", "dry_run", "make_experiment", "short_run"]
