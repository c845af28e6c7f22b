"""Instruments: the short run and the dry-time run, each from a plan to a launch and from a result to a
comparison.
"""

from __future__ import annotations

import math
import os

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.plan import Resolved
from explorer.run.cases.baselines import BASELINES
from explorer.run.cases.likeness import UnitSize
from explorer.run.cases.mixed_precision import FP32, PLANS
from explorer.run.dry_run import DRY_RANKS, dry_run
from explorer.run.experiment import Experiment
from explorer.run.gpus import count_gpus
from explorer.run.own.own_scale import MOST_STEP_S, Elsewhere, codeless
from explorer.run.short_run import short_run

ENGINES = ("likeness", "layers", "torch", "dry")
"""What runs: stand-ins for layers; the model's own layers; stand-ins, then on torch's own runtime too; or the
order, with compute slept.
"""
FORMER = {"interpreter": "likeness"}
"""Names that engines had before."""
ROUNDS = {"layers": 5, "likeness": 7, "torch": 7, "dry": 3}
"""Measured rounds by engine: enough for a median in well under a minute."""
WARMUP_ROUNDS = {"layers": 1, "likeness": 2, "torch": 2, "dry": 0}
"""Discarded rounds by engine."""

__all__ = ["BASELINES", "ENGINES", "Experiment", "available_ranks", "dry_run", "make_experiment", "short_run"]


def available_ranks() -> int:
    """Count the processes that can be timed here: one per GPU, else one per core (at least two)."""
    if (gpus := count_gpus()) > 1:
        return gpus
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, cores)


def make_experiment(
    resolved: Resolved,
    *,
    rounds: int | None = None,
    engine: str | None = None,
    baseline: str | Resolved | None = None,
    ranks: int | None = None,
    size: UnitSize | None = None,
    warmup_rounds: int | None = None,
    profile: Cluster | None = None,
    elsewhere: Elsewhere | None = None,
    precision: str = PLANS,
) -> Experiment:
    """Make the launch that validates a plan.

    Args:
        resolved: the plan with its inputs.
        rounds: measured rounds, strategy and baseline in turn; None for `ROUNDS` of the engine.
        engine: one of `ENGINES`; None for the model's own layers, or for stand-ins where it has no code,
            where its layers cannot run, or where `size` is given.
        baseline: one of `BASELINES`, a plan or its file; None suits the plan.
        ranks: most processes; None for as many as can be timed here.
        size: size of the stand-ins.
        warmup_rounds: rounds before them that are discarded (a dry run needs none); None for `WARMUP_ROUNDS`
            of the engine.
        profile: a profile of this machine (`explorer.profiling.kept_profile`), whose prediction is compared
            as well; None if there is none.
        elsewhere: what a rank has where it will run, if not here: only code that travels runs there.
        precision: `plan`, that of the plan's job where own layers and the device have it; or fp32.

    Raises:
        InputError: a plan or option that cannot be run.
    """
    engine = FORMER.get(engine, engine) if engine else engine
    if engine is not None and engine not in ENGINES:
        raise InputError(f"unknown engine {engine!r}", key="engine", found=engine, allowed=", ".join(ENGINES))
    if rounds is not None and rounds < 1:
        raise InputError(f"{rounds} rounds", key="steps", found=rounds, allowed=">= 1")
    _check_precision(engine, precision)
    if engine == "dry":
        if profile is not None:
            raise InputError(
                "a dry run computes nothing that a profile could predict",
                key="profile", found=profile.name, allowed="engine layers, likeness or torch",
            )  # fmt: skip
        return dry_run(resolved, rounds=min(rounds or ROUNDS["dry"], 3), ranks=ranks or DRY_RANKS)
    if engine == "layers" and size is not None:
        raise InputError(
            "own layers have the sizes of their model, and no others",
            key="size", found=f"width {size.d_model}", allowed="engine likeness or torch",
        )  # fmt: skip

    def made(engine: str, size: UnitSize | None, reason: str = "", most_s: float = math.inf) -> Experiment:
        return short_run(
            resolved, rounds=rounds or ROUNDS[engine], engine=engine, baseline=baseline,
            ranks=ranks or available_ranks(), size=size, profile=profile, stand_ins=reason, most_s=most_s,
            elsewhere=elsewhere, precision=precision,
            warmup_rounds=WARMUP_ROUNDS[engine] if warmup_rounds is None else warmup_rounds,
        )  # fmt: skip

    if engine == "layers":
        return made(engine, None)
    if engine is not None or size is not None:
        return made(engine or "likeness", size or UnitSize(), "they were asked for")
    if reason := codeless(resolved, travels=elsewhere is not None):
        return made("likeness", UnitSize(), reason)
    try:
        return made("layers", None, most_s=MOST_STEP_S)
    except InputError as error:
        return made("likeness", UnitSize(), error.message)


def _check_precision(engine: str | None, precision: str) -> None:
    """Refuse precisions that no run has.

    Raises:
        InputError: an unknown one, or one of a run that computes nothing.
    """
    allowed = (PLANS,) if engine == "dry" else (PLANS, FP32)
    if precision not in allowed:
        words = "a dry run computes in no precision" if engine == "dry" else "unknown precision of a run"
        raise InputError(
            f"{words}: {precision!r}", key="precision", found=precision, allowed=", ".join(allowed)
        )
