"""Even split: the model cut into equal shares of work, one stage per device group; what people try first."""

from __future__ import annotations

from collections.abc import Iterator

from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.search import SEARCHERS
from explorer.search.problem import Candidate, Evaluator, Problem
from explorer.strategies.uniform import uniform


@SEARCHERS.add(
    "even",
    title="Equal shares of work on a given number of stages",
    options=(
        Option(name="stages", default=0, help="pipeline stages; 0 is one per device, as far as blocks go"),
        Option(name="replicas", default=0, help="data-parallel replicas; 0 is all devices left"),
        Option(name="microbatch_size", default=1, help="samples per replica"),
        Option(name="schedule", default="1f1b", help="schedule name"),
    ),
    space="one even cut",
)
def even(
    problem: Problem,
    evaluator: Evaluator,
    *,
    stages: int,
    replicas: int,
    microbatch_size: int,
    schedule: str,
) -> Iterator[Candidate | None]:
    """One candidate: stages of equal FLOPs (the exact minimum of the heaviest, over blocks)."""
    from explorer.strategies.uniform import units

    devices = problem.device_count
    if problem.cluster is None:
        raise InputError("even needs a cluster", key="cluster")
    p = stages or min(devices, len(units(problem.graph)))
    d = replicas or max(1, devices // p)
    strategy = uniform(
        problem.graph, problem.cluster, problem.workload.job, stages=p, replicas=d,
        microbatch_size=microbatch_size, schedule=schedule,
    )  # fmt: skip
    yield evaluator.evaluate(strategy, f"pp {p} x dp {d}, even")
