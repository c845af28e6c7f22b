"""Even split: the model cut into equal shares of work, one stage per device group, as people try first.

If that does not fit, recomputation and then ZeRO are added until it does.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.base.registry import Option
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search._devices import on_devices
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategies.cuts import units
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS, Degrees
from explorer.strategies.degrees_neighbours import most_replicas


@SEARCHERS.add(
    Searcher(
        name="even",
        title="Equal shares of work on a given number of stages",
        options=(
            Option(
                name="stages",
                default=0,
                minimum=0,
                help="pipeline stages; 0 is one per device, as far as blocks go",
            ),
            Option(
                name="replicas",
                default=0,
                minimum=0,
                help="data-parallel replicas; 0 is as many as devices and batch allow",
            ),
            Option(name="microbatch_size", default=1, minimum=1, help="samples per replica"),
            Option(name="schedule", default="1f1b", help="schedule name"),
        ),
        space=Space(words="one even cut"),
        rigid=True,
    )
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
    """Propose stages of equal FLOPs (exact minimum of the heaviest, over blocks), thriftier until one fits.

    Options that are not given follow from the devices, the blocks and the batch.

    Raises:
        InputError: there is no cluster, or the devices, blocks or batch do not allow the counts given.
    """
    batch, devices = problem.job.global_batch, problem.device_count
    p = stages or min(devices, len(units(problem.graph)))
    d = replicas or most_replicas(devices // p, batch // max(1, microbatch_size))
    degrees = Degrees(stages=p, replicas=d, microbatch_size=microbatch_size, schedule=schedule)
    placed = on_devices(problem.order[: degrees.devices])
    for thrift in _thrift(problem, degrees):
        strategy = thrift.build(problem.graph, problem.needed_cluster, problem.job, devices=problem.order)
        thrifty = f", {thrift.recompute} recomputation" if thrift.recompute != "none" else ""
        thrifty += f", ZeRO-{thrift.zero}" if thrift.zero else ""
        found = evaluator.evaluate(strategy, f"pp {p} x dp {d}, even{thrifty}{placed}")
        yield found
        if found is None or found.outcome.feasible:
            return


def _thrift(problem: Problem, degrees: Degrees) -> Iterator[Degrees]:
    """Yield the degrees themselves, then with more and more memory saved."""
    yield degrees
    if not problem.job.training:
        return
    for recompute in RECOMPUTE[1:]:
        yield degrees.changed(recompute=recompute)
    if degrees.replicas > 1:
        yield from (degrees.changed(recompute=RECOMPUTE[-1], zero=level) for level in ZERO_LEVELS[1:])
