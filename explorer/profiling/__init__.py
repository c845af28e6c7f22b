"""Profiling: measures this machine and writes a cluster profile.

One rank runs on each GPU (NCCL between them) or core (gloo), all at once, as in training. Every round
measures everything once, so a disturbance hits all sizes alike; medians over rounds and ranks become the
numbers, their spread the bands.

>>> from explorer.profiling import profile_machine                      # doctest: +SKIP
>>> cluster = profile_machine("my-machine", quick=True)                # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.cluster import Cluster
from explorer.profiling.assemble import assemble
from explorer.profiling.kept import device_here, keep_profile, kept_path, kept_profile
from explorer.profiling.machine import chosen, gpu_precisions, this_host
from explorer.profiling.sizes import CUDA, survey_of
from explorer.run.launching.launch import RunResult, start
from explorer.run.spec import RunSpec, Survey

__all__ = [
    "ROUNDS", "device_here", "keep_profile", "kept_path", "kept_profile", "profile_machine", "profile_of"
]  # fmt: skip

ROUNDS = 7
QUICK_ROUNDS = 3


def profile_machine(
    name: str,
    *,
    devices: str = "auto",
    ranks: int | None = None,
    quick: bool = False,
    survey: Survey | None = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
) -> Cluster:
    """Measure this machine.

    Args:
        name: name of the profile.
        devices: auto (GPUs if there are any), cpu or cuda.
        ranks: number of processes; None for one per GPU or core.
        quick: whether to measure fewer sizes and rounds: seconds instead of minutes, and wider bands.
        survey: what to measure; None for what training meets.
        on_event: called with every event of the ranks.

    Raises:
        InputError: devices that this machine lacks, more ranks than devices, or GPUs of several kinds.
        RunError: a rank failed; nothing of the launch is left.
    """
    device, count = chosen(devices, ranks)
    precisions = gpu_precisions(count) if device == CUDA else ("fp32", "bf16")
    spec = RunSpec(
        ranks=count,
        survey=survey or survey_of(device, precisions, quick=quick),
        rounds=QUICK_ROUNDS if quick else ROUNDS,
        warmup_rounds=1,
        device=device,
    )
    with start(spec) as handle:
        for event in handle.events():
            if on_event is not None:
                on_event(event)
        return profile_of(name, handle.result())


def profile_of(name: str, result: RunResult) -> Cluster:
    """Make a profile from a finished launch with a survey."""
    machines = [rank["machine"] for rank in result.ranks]
    rows = [row for rank in result.ranks for measured in rank["survey"] for row in measured]
    return assemble(name, this_host(), machines, rows)
