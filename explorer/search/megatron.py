"""Megatron's published rule of thumb (Narayanan et al., SC'21, section 5 "Takeaways").

Tensor parallelism up to the devices of a node (takeaway 1), then pipeline stages until the model fits,
the rest data parallel (takeaway 2); the microbatch size is tried (takeaway 3). Interleaving where every
pipeline device can have two chunks or more.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.base.errors import ExplorerError, InputError
from explorer.base.registry import Option
from explorer.search import SEARCHERS
from explorer.search.problem import Candidate, Evaluator, Problem
from explorer.strategies.uniform import uniform, units


@SEARCHERS.add(
    "megatron",
    title="Rule of thumb: tensor within a node, pipeline until it fits, rest data parallel",
    paper="Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, SC'21",
    options=(
        Option(
            name="recompute",
            default="none",
            help="none, selective or full",
            choices=("none", "selective", "full"),
        ),
    ),
    space="tp × pp × dp by rule",
)
def megatron(problem: Problem, evaluator: Evaluator, *, recompute: str) -> Iterator[Candidate | None]:
    """Smallest t x p that fits, tensor first; then the best of some microbatch sizes and chunks."""
    if problem.cluster is None:
        raise InputError("megatron needs a cluster", key="cluster")
    for tensor, stages in _by_size(problem):
        replicas = problem.device_count // (tensor * stages)
        found = False
        for microbatch in (1, 2, 4, 8, 16):
            for chunks in _chunks(problem, stages):
                candidate = _try(problem, evaluator, tensor, stages, replicas, microbatch, chunks, recompute)
                found = found or (candidate is not None and candidate.report.feasible)
                yield candidate
        if found:
            return


def _by_size(problem: Problem) -> list[tuple[int, int]]:
    """(t, p) with growing t x p; tensor grows to the node first, then pipeline."""
    cluster = problem.cluster
    if cluster is None:
        return []
    node = min(group.devices_per_node for group in cluster.nodes)
    tensors = [t for t in (1, 2, 4, 8, 16) if t <= node and problem.device_count % t == 0]
    most = len(units(problem.graph))
    sizes = [(t, 1) for t in tensors]
    stages = [p for p in range(2, problem.device_count + 1) if p <= most]
    sizes += [(tensors[-1], p) for p in stages if problem.device_count % (tensors[-1] * p) == 0]
    return sizes


def _chunks(problem: Problem, stages: int) -> tuple[int, ...]:
    return (1, 2) if stages > 1 and len(units(problem.graph)) >= 2 * stages else (1,)


def _try(
    problem: Problem, evaluator: Evaluator, tensor: int, stages: int, replicas: int,
    microbatch: int, chunks: int, recompute: str,
) -> Candidate | None:  # fmt: skip
    if problem.cluster is None:
        return None
    try:
        strategy = uniform(
            problem.graph, problem.cluster, problem.workload.job, stages=stages, replicas=replicas,
            tensor=tensor, chunks=chunks, microbatch_size=microbatch, recompute=recompute,
        )  # fmt: skip
    except ExplorerError:
        return None  # this microbatch does not divide the batch
    label = f"tp {tensor} x pp {stages} x dp {replicas}, {chunks} chunks, microbatch {microbatch}"
    return evaluator.evaluate(strategy, label)
