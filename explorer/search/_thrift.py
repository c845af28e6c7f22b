"""Thriftier variants of a strategy that does not fit: what it keeps moves to the host's memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from explorer.search.evaluator import Candidate
from explorer.search.problem import Problem
from explorer.strategy import ACTIVATIONS, OPTIMIZER, Strategy

_MOVED = (
    ((OPTIMIZER,), "optimizer states in host memory"),
    ((OPTIMIZER, ACTIVATIONS), "optimizer states and activations in host memory"),
)


def thriftier(problem: Problem, found: Candidate) -> Iterator[tuple[Strategy, str]]:
    """Yield a candidate with ever more in the host's memory, as far as the links to hosts are known."""
    job = found.strategy.job
    kinds = {problem.needed_cluster.kind_of(device).name for device in job.devices}
    known = {kind.name for kind in problem.needed_cluster.device_kinds if kind.host_bandwidth_bytes_per_s}
    if not kinds <= known or not problem.job.training:
        return
    for parts, words in _MOVED:
        moved = job.with_stages(replace(stage, offload=parts) for stage in job.stages)
        yield found.strategy.with_job(moved), f"{found.label}, {words}"
