"""Local search: better neighbours of a strategy, one small change after another, until none is left.

A neighbour moves blocks over a stage boundary or to the next lane, changes recomputation or ZeRO of one
stage, halves or doubles the microbatch, deals out samples by speed, or, if all stages are alike, exchanges
stages, replicas, tensor and context parallelism. The first neighbour that is better is taken, those around
the busiest stage first; from the last one several random changes at once open a way out. Pins and bans hold
by construction: a forbidden change is never proposed. A start that does not fit is made to fit first: less
overflow counts before anything else.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterable, Iterator
from dataclasses import replace

from explorer.base.errors import ExplorerError
from explorer.base.registry import Option
from explorer.cluster import Cluster
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search._pins import Rules, bits_of
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem, respecting
from explorer.strategies.cuts import units
from explorer.strategies.degrees import RECOMPUTE, Degrees
from explorer.strategies.degrees_neighbours import neighbouring_degrees
from explorer.strategies.degrees_reading import ranks_of, read_degrees
from explorer.strategies.moves import groups_of, move_boundary, place_layers
from explorer.strategies.shares import shared_by_speed
from explorer.strategy import ROUND_ROBIN, JobStrategy, Stage, Strategy

SUFFIX = ", improved"
"""Suffix of the label of a candidate found from another one."""
STEPS = (1, 2, 4)
"""Numbers of blocks that move over a boundary at once."""
KICK = 3
"""Number of random changes at once."""


@SEARCHERS.add(
    Searcher(
        name="local",
        title="Small changes while they help: boundaries, blocks, recomputation, ZeRO, microbatch",
        options=(
            Option(
                name="kicks",
                default=4,
                minimum=0,
                help="times that random changes are tried once no small one helps",
            ),
        ),
        space=Space(words="small changes of yours"),
        stochastic=True,
        loses="it refines one strategy: from an even split it never comes to tensor parallelism",
        starts=True,
    )
)
def local(problem: Problem, evaluator: Evaluator, *, kicks: int) -> Iterator[Candidate | None]:
    """Search on a downward path from the start, or from an even split if there is none.

    Raises:
        InputError: there is no cluster, or kicks are below 0.
    """
    cluster = problem.needed_cluster
    first: Candidate | None = evaluator.best
    if first is None:
        for strategy, label in _starts(problem, cluster):
            found = evaluator.evaluate(strategy, label)
            yield found
            if found is not None and (first is None or found.rank < first.rank):
                first = found
            if first is not None and (math.isfinite(first.value) or problem.start is not None):
                break
    if first is None:
        return
    yield from descend(problem, evaluator, first, kicks=kicks)


def _starts(problem: Problem, cluster: Cluster) -> Iterator[tuple[Strategy, str]]:
    """Yield the start; without one even splits over all devices, from the most stages to one."""
    if problem.start is not None:
        yield problem.start, "start"
    devices, job = problem.device_count, problem.job
    for stages in range(min(devices, len(units(problem.graph))), 0, -1):
        replicas = devices // stages
        if devices % stages == 0 and job.global_batch % replicas == 0:
            degrees = Degrees(stages=stages, replicas=replicas)
            try:
                even = degrees.build(problem.graph, cluster, job, devices=problem.order)
            except ExplorerError:
                continue
            yield even, f"pp {stages} x dp {replicas}"


def descend(
    problem: Problem, evaluator: Evaluator, first: Candidate, *, kicks: int = 0
) -> Iterator[Candidate | None]:
    """Descend from a candidate as long as a neighbour is better, then from random changes of the best.

    Deterministic by the seed of the problem; never worse than the first.
    """
    luck = random.Random(problem.seed)
    seen = {first.strategy}
    best = yield from _down(problem, evaluator, first, seen)
    for _ in range(kicks):
        strategy = _kicked(problem, best.strategy, luck)
        if strategy in seen:
            yield None
            continue
        seen.add(strategy)
        found = evaluator.evaluate(strategy, _label(first), recut=False)
        yield found
        if found is not None:
            found = yield from _down(problem, evaluator, found, seen)
            best = min(best, found, key=lambda item: item.rank)


def _down(
    problem: Problem, evaluator: Evaluator, first: Candidate, seen: set[Strategy]
) -> Generator[Candidate | None, None, Candidate]:
    """Take first improvements until a whole round of neighbours has none; return the last candidate."""
    best, improved = first, True
    while improved:
        improved = False
        for strategy, label in evaluator.looking_ahead(_unseen(problem, best, first, seen), recut=False):
            if strategy in seen:
                continue  # twice among those read ahead
            seen.add(strategy)
            found = evaluator.evaluate(strategy, label, recut=False)
            yield found
            if found is not None and found.rank < best.rank:
                best, improved = found, True
                break
    return best


def _unseen(
    problem: Problem, best: Candidate, first: Candidate, seen: set[Strategy]
) -> Iterator[tuple[Strategy, str]]:
    for job in neighbours(problem, best):
        strategy = best.strategy.with_job(job)
        if strategy not in seen:
            yield strategy, _label(first)


def _label(first: Candidate) -> str:
    return first.label.removesuffix(SUFFIX) + SUFFIX


def _kicked(problem: Problem, strategy: Strategy, luck: random.Random) -> Strategy:
    """Apply several random changes at once."""
    job = strategy.job
    for _ in range(KICK):
        options = list(_changes(problem, job, range(len(job.stages))))
        if options:
            job = luck.choice(options)
    return strategy.with_job(job)


# ---- neighbours ---------------------------------------------------------------------------------


def neighbours(problem: Problem, found: Candidate) -> Iterator[JobStrategy]:
    """Yield strategies one small change away that pins and bans allow, the most promising first."""
    job = found.strategy.job
    yield from _changes(problem, job, _by_load(found))
    yield from _blocks_to_next_lanes(problem, job)
    yield from _other_degrees(problem, found.strategy)


def _changes(problem: Problem, job: JobStrategy, order: Iterable[int]) -> Iterator[JobStrategy]:
    order = list(order)
    yield from _boundaries(problem, job, order)
    yield from _shares(problem, job)
    yield from _microbatches(problem, job)
    yield from _memory_choices(problem, job, order)


def _by_load(found: Candidate) -> list[int]:
    """Return the stages, those on the busiest devices first."""
    report, job = found.report, found.strategy.job
    busy = dict(zip(report.devices, report.per_device(report.busy_s), strict=True))
    loads = [max(busy.get(d, 0.0) for mesh in stage.meshes for d in mesh.devices) for stage in job.stages]
    return sorted(range(len(loads)), key=lambda i: -loads[i])


def _boundaries(problem: Problem, job: JobStrategy, order: list[int]) -> Iterator[JobStrategy]:
    """Move blocks over each boundary of a chain: away from the busiest stages first."""
    rules, count = problem.rules, len(job.stages)
    for stage in order:
        for neighbour in (stage - 1, stage + 1):
            if not 0 <= neighbour < count:
                continue
            before, after = sorted((stage, neighbour))
            for blocks in STEPS:
                moved = _shifted(problem, job, before, after, -blocks if stage == before else blocks)
                if moved is None or not _allowed(rules, job, moved):
                    break  # more of them are no better
                yield moved


def _other_degrees(problem: Problem, strategy: Strategy) -> Iterator[JobStrategy]:
    """Double one degree and halve another, or change the chunks, cut anew; only if all stages are alike."""
    degrees, cluster = read_degrees(strategy), problem.needed_cluster
    if degrees is None:
        return
    own = ranks_of(strategy.job)
    used = set(own)
    devices = (*own, *(device for device in problem.pool.devices if device not in used))
    for other in neighbouring_degrees(degrees, problem.graph, cluster, problem.job, devices):
        if (other.recompute, other.zero) != (degrees.recompute, degrees.zero):
            continue  # single stages try these
        made = other.build(problem.graph, cluster, problem.job, devices=devices)
        held = respecting(problem, made)
        if held is not None:
            yield held.job


def _shifted(problem: Problem, job: JobStrategy, before: int, after: int, blocks: int) -> JobStrategy | None:
    try:
        return move_boundary(problem.graph, job, before, after, blocks)
    except ExplorerError:
        return None  # a stage would be left empty


def _allowed(rules: Rules, before: JobStrategy, after: JobStrategy) -> bool:
    """Tell whether layers that went to other stages may be there."""
    if not rules:
        return True
    for old, new in zip(before.stages, after.stages, strict=True):
        if old is not new:
            had, devices = set(old.layers), bits_of(new)
            if not all(rules.allows(name, devices) for name in new.layers if name not in had):
                return False
    return True


def _shares(problem: Problem, job: JobStrategy) -> Iterator[JobStrategy]:
    """Deal samples by the speed of replicas, and equally; yield nothing if all are equally fast."""
    shared = shared_by_speed(problem.graph, problem.needed_cluster, problem.job.precision, job)
    equal = job.with_stages(replace(stage, shares=()) if stage.shares else stage for stage in job.stages)
    for other in (shared, equal):
        if other != job and shared is not job:
            yield other


def _microbatches(problem: Problem, job: JobStrategy) -> Iterator[JobStrategy]:
    """Halve or double all microbatches, if they still divide the batch and their replicas."""
    batch = problem.workload.job.global_batch
    for up in (True, False):
        sizes = [s.microbatch_samples * 2 if up else s.microbatch_samples // 2 for s in job.stages]
        fits = all(
            size >= 1
            and batch % size == 0
            and (up or stage.microbatch_samples % 2 == 0)
            and (stage.replicas == ROUND_ROBIN or size % stage.meshes[0].replicas == 0)
            for size, stage in zip(sizes, job.stages, strict=True)
        )
        if fits:
            yield job.with_stages(
                replace(stage, microbatch_samples=size) for size, stage in zip(sizes, job.stages, strict=True)
            )


def _memory_choices(problem: Problem, job: JobStrategy, order: list[int]) -> Iterator[JobStrategy]:
    """Change recomputation and ZeRO: of all stages alike, then of one."""
    if not problem.workload.job.training:
        return
    for choice in RECOMPUTE:
        yield from _with(job, range(len(job.stages)), recompute=choice)
    for level in range(4):
        yield from _with(job, [i for i in order if _replicated(job.stages[i])], zero=level)
    if len(job.stages) < 2:
        return
    for i in order:
        for choice in RECOMPUTE:
            yield from _with(job, [i], recompute=choice)
        for level in range(4) if _replicated(job.stages[i]) else ():
            yield from _with(job, [i], zero=level)


def _replicated(stage: Stage) -> bool:
    return max(mesh.replicas for mesh in stage.meshes) > 1


def _with(job: JobStrategy, which: range | list[int], **fields: object) -> Iterator[JobStrategy]:
    """Yield the strategy with fields of some stages set; nothing if they are set already."""
    stages = list(job.stages)
    for i in which:
        stages[i] = replace(stages[i], **fields)  # type: ignore[arg-type]
    if tuple(stages) != job.stages:
        yield job.with_stages(stages)


def _blocks_to_next_lanes(problem: Problem, job: JobStrategy) -> Iterator[JobStrategy]:
    """Move single blocks to the lane before or after theirs, which may break a run in two."""
    graph, groups = problem.graph, groups_of(job)
    if len(groups) < 2 or any(stage.slices for stage in job.stages):
        return
    lane = {
        name: i
        for i, group in enumerate(groups)
        for s in job.stages
        if s.meshes == group.meshes
        for name in s.layers
    }
    devices = [bits_of(group.template) for group in groups]
    for a, b in units(graph):
        names = [layer.name for layer in graph.layers[a:b]]
        for step in (-1, 1):
            target = lane[names[0]] + step
            if not 0 <= target < len(groups):
                continue
            if not all(problem.rules.allows(name, devices[target]) for name in names):
                continue
            try:
                yield place_layers(graph, job, dict.fromkeys(names, target), groups)
            except ExplorerError:
                continue
