"""Strategies of placements that need not be contiguous: a device has several stages then.

A list schedule orders the stages. They are as coarse as possible without a circle, or, where it is known when
the nodes start, end where something is sent: a stage is one action, so what a coarse one makes first would
wait for its end, and branches on two devices would run one after the other. Coarse ones send less often and
in larger pieces, which is better where microbatches fill the devices anyway: both are worth judging.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from explorer.planners._pieces.earliest_finish import Workers, earliest_finish
from explorer.planners._pieces.fleet import Fleet
from explorer.planners._pieces.plans import judged, strategy_of
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.strategies.moves import DeviceGroup, stages_of
from explorer.strategy import Mesh, Stage, Strategy

SCHEDULE = "spp"
"""A list schedule, whatever stages branch, join and share devices."""


class Placed(NamedTuple):
    """A node graph on devices."""

    work: WorkGraph
    """Its nodes; seconds of a transfer are `transfer_s` times those of a byte of the link."""
    workers: Workers
    """The devices, as they time nodes and transfers."""
    fleet: Fleet
    """The groups of devices that they stand for."""
    device: Sequence[int]
    """Per node: its device."""


def strategy_of_placement(
    problem: Problem,
    work: WorkGraph,
    fleet: Fleet,
    device: Sequence[int],
    microbatch: int,
    *,
    starts: Sequence[float] = (),
) -> Strategy:
    """Return the strategy in which every node runs on its group of devices.

    Args:
        problem: the search problem.
        work: its nodes.
        fleet: the groups.
        device: per node, the number of its group.
        microbatch: samples of a microbatch.
        starts: seconds at which each node starts, by which stages are cut; () for the coarsest ones.
    """
    if starts:
        cut = [(work.layers(nodes), fleet.order[device[nodes[0]]]) for nodes in runs(work, device, starts)]
        return strategy_of(problem, cut, microbatch, schedule=SCHEDULE)
    number = {layer: device[v] for v, members in enumerate(work.members) for layer in members}
    template = Stage(layers=(problem.graph.layers[0].name,), meshes=(Mesh(devices=(0,)),))
    groups = [DeviceGroup(meshes=(Mesh(devices=own),), template=template) for own in fleet.order]
    stages = stages_of(problem.graph, [number[layer] for layer in range(len(problem.graph.layers))], groups)
    index = problem.graph.index
    placed = [
        (tuple(index[name] for name in stage.layers), fleet.order[number[index[stage.layers[0]]]])
        for stage in stages
    ]
    return strategy_of(problem, placed, microbatch, schedule=SCHEDULE)


def judged_placement(
    problem: Problem, evaluator: Evaluator, given: Placed, microbatch: int, label: str
) -> Iterator[Candidate | None]:
    """Cost a placement with the coarsest stages, and with those that end where something is sent.

    Args:
        problem: the search problem.
        evaluator: what costs them.
        given: the placement.
        microbatch: samples of a microbatch.
        label: what the coarsest stages are called.
    """
    work, workers, fleet, device = given
    coarse = strategy_of_placement(problem, work, fleet, device, microbatch)
    yield from judged(problem, evaluator, coarse, label)
    found = strategy_of_placement(
        problem, work, fleet, device, microbatch, starts=starts_of(work, workers, device)
    )
    if {stage.layers for stage in found.job.stages} != {stage.layers for stage in coarse.job.stages}:
        yield from judged(problem, evaluator, found, f"{label}, {len(found.job.stages)} stages")


def starts_of(work: WorkGraph, workers: Workers, device: Sequence[int]) -> tuple[float, ...]:
    """Return when nodes start if each runs on its device as soon as it is ready, whatever they hold."""
    roomy = workers._replace(room_bytes=(math.inf,) * len(workers.kind))
    found = earliest_finish(work, roomy, may=lambda v: (device[v],))
    assert found is not None  # the planner put every node where it may run
    return found.start_s


def runs(work: WorkGraph, device: Sequence[int], starts: Sequence[float]) -> list[tuple[int, ...]]:
    """Return nodes that follow each other on a device, nothing sent or received in between, by their start.

    Only the first node of a run reads what was made elsewhere, and only the last makes what is read there, so
    that every run can begin and end when its nodes would.
    """
    sends, receives = set[int](), set[int]()
    for maker, readers in zip(work.producer.tolist(), work.readers, strict=True):
        far = [reader for reader in readers if device[reader] != device[maker]]
        receives.update(far)
        if far:
            sends.add(maker)
    order = sorted(range(work.count), key=lambda v: (starts[v], v))
    found = [run for d in sorted(set(device)) for run in _runs_of(d, device, order, sends, receives)]
    return sorted(found, key=lambda run: (starts[run[0]], run[0]))


def _runs_of(
    d: int, device: Sequence[int], order: Sequence[int], sends: set[int], receives: set[int]
) -> Iterator[tuple[int, ...]]:
    """Yield the runs of one device, in order."""
    run: list[int] = []
    for v in (v for v in order if device[v] == d):
        if run and (run[-1] in sends or v in receives):
            yield tuple(run)
            run = []
        run.append(v)
    if run:
        yield tuple(run)
