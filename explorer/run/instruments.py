"""Instruments: the short run and the dry-time run, each from a plan to a launch and from a result to a
comparison.
"""

from __future__ import annotations

import os
from pathlib import Path

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.plan import Resolved
from explorer.run.cases.baselines import BASELINES
from explorer.run.cases.likeness import UnitSize
from explorer.run.dry_run import DRY_RANKS, dry_run
from explorer.run.experiment import Experiment
from explorer.run.short_run import WARMUP_ROUNDS, short_run

ENGINES = ("interpreter", "layers", "torch", "dry")

__all__ = ["BASELINES", "ENGINES", "Experiment", "available_ranks", "dry_run", "make_experiment", "short_run"]


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
    profile: Cluster | None = None,
) -> Experiment:
    """Make the launch that validates a plan.

    Args:
        resolved: the plan with its inputs.
        rounds: measured rounds, strategy and baseline in turn.
        engine: one of `ENGINES`; layers runs the model's own layers, the others stand-ins for them.
        baseline: one of `BASELINES`, a plan or its file; None suits the plan.
        ranks: most processes; None for as many as can be timed here.
        size: size of the stand-ins.
        warmup_rounds: rounds before them that are discarded (a dry run needs none).
        profile: a profile of this machine (`explorer.profiling.kept_profile`), whose prediction is compared
            as well; None if there is none.

    Raises:
        InputError: a plan or option that cannot be run.
    """
    if engine not in ENGINES:
        raise InputError(f"unknown engine {engine!r}", key="engine", found=engine, allowed=", ".join(ENGINES))
    if rounds < 1:
        raise InputError(f"{rounds} rounds", key="steps", found=rounds, allowed=">= 1")
    if engine == "dry":
        if profile is not None:
            raise InputError(
                "a dry run computes nothing that a profile could predict",
                key="profile", found=profile.name, allowed="engine interpreter, layers or torch",
            )  # fmt: skip
        return dry_run(resolved, rounds=min(rounds, 3), ranks=ranks or DRY_RANKS)
    if engine == "layers" and size is not None:
        raise InputError(
            "own layers have the sizes of their model, and no others",
            key="size", found=f"width {size.d_model}", allowed="engine interpreter or torch",
        )  # fmt: skip
    return short_run(
        resolved, rounds=rounds, engine=engine, baseline=baseline, ranks=ranks or available_ranks(),
        size=None if engine == "layers" else size or UnitSize(), warmup_rounds=warmup_rounds, profile=profile,
    )  # fmt: skip
