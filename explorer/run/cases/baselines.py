"""Baselines of a real run: what the likeness of a plan is timed against, on the same runnable model."""

from __future__ import annotations

from dataclasses import replace

from explorer.base.errors import InputError, PlanError
from explorer.plan import Resolved, load_plan
from explorer.run.cases.likeness import Scaled, UnitSize, scale
from explorer.strategy import JobStrategy, Mesh, Stage

BASELINES = ("data_parallel", "single", "even")
"""Baselines by name; a plan, or its file, is one as well."""


def baseline_of(asked: str | Resolved | None, scaled: Scaled, size: UnitSize) -> tuple[str, JobStrategy]:
    """Return the name and strategy of the baseline, on the same runnable model.

    If none is asked for: data parallelism for a pipeline of as many samples as ranks, else one process.
    """
    deals = len(scaled.strategy.stages) > 1 and scaled.job.global_batch >= scaled.ranks
    name = asked if asked is not None else ("data_parallel" if deals else "single")
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


def planned_speedup(resolved: Resolved, name: str, asked: str | Resolved | None) -> float | None:
    """Return the speedup that is predicted for the plan itself, on its own devices, over the same baseline.

    Args:
        resolved: the plan.
        name: name of the baseline, as `baseline_of` returns it.
        asked: the baseline's own plan if that is what it is.

    Returns:
        The baseline's step time over the plan's; None if the plan's devices cannot run the baseline.
    """
    from explorer.search.baselines import baseline_of as planned
    from explorer.search.baselines import predict

    try:
        if name == "plan":
            base = predict(load_plan(asked) if isinstance(asked, str) else asked or resolved)
        else:
            base = planned(resolved, {"data_parallel": "dp"}.get(name, name))[1]
        return base.step_time_s / predict(resolved).step_time_s
    except (InputError, PlanError):
        return None


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
