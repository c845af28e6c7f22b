"""Megatron's published rule of thumb (Narayanan et al., SC'21, section 5 "Takeaways").

Tensor parallelism up to the devices of a node (takeaway 1), then pipeline stages until the model fits,
the rest data parallel (takeaway 2); the microbatch size is tried (takeaway 3). Interleaving if every
pipeline device can have two chunks or more. Devices are those of the problem in order, or the fastest if not
all may be used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from explorer.base.errors import ExplorerError
from explorer.base.registry import Option
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search._devices import on_devices
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategies.cuts import units
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.strategy import Strategy


@SEARCHERS.add(
    Searcher(
        name="megatron",
        title="Rule of thumb: tensor within a node, pipeline until it fits, rest data parallel",
        paper="Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, SC'21",
        options=(
            Option(
                name="recompute",
                default="none",
                help="none, selective or full",
                choices=RECOMPUTE,
            ),
        ),
        space=Space(words="tp × pp × dp by rule"),
        rigid=True,
    )
)
def megatron(problem: Problem, evaluator: Evaluator, *, recompute: str) -> Iterator[Candidate | None]:
    """Find the smallest t x p that fits, tensor first; then the best of some microbatch sizes and chunks.

    Raises:
        InputError: there is no cluster.
    """
    for tensor, stages in _by_size(problem):
        replicas = problem.device_count // (tensor * stages)
        found = False
        tries = [
            Degrees(
                tensor=tensor, stages=stages, replicas=replicas, chunks=chunks,
                microbatch_size=microbatch, recompute=recompute,
            )
            for microbatch in (1, 2, 4, 8, 16)
            for chunks in _chunks(problem, stages)
        ]  # fmt: skip
        for candidate in evaluator.evaluate_all(_built(problem, tries)):
            found = found or (candidate is not None and candidate.outcome.feasible)
            yield candidate
        if found:
            return


def _by_size(problem: Problem) -> list[tuple[int, int]]:
    """Return (t, p) with growing t x p; tensor grows to the node first, then pipeline."""
    cluster = problem.needed_cluster
    node = min(cluster.node_size(device) for device in problem.order)
    tensors = [t for t in (1, 2, 4, 8, 16) if t <= node and problem.device_count % t == 0]
    most = len(units(problem.graph))
    sizes = [(t, 1) for t in tensors]
    stages = [p for p in range(2, problem.device_count + 1) if p <= most]
    sizes += [(tensors[-1], p) for p in stages if problem.device_count % (tensors[-1] * p) == 0]
    return sizes


def _chunks(problem: Problem, stages: int) -> tuple[int, ...]:
    return (1, 2) if stages > 1 and len(units(problem.graph)) >= 2 * stages else (1,)


def _built(problem: Problem, tries: list[Degrees]) -> Iterator[tuple[Strategy, str]]:
    """Yield the strategies of degrees, with their labels, without those that the job does not allow."""
    for degrees in tries:
        with suppress(ExplorerError):  # this microbatch does not divide the batch
            strategy = degrees.build(
                problem.graph, problem.needed_cluster, problem.job, devices=problem.order
            )
            yield strategy, degrees.label + on_devices(problem.order[: degrees.devices])
