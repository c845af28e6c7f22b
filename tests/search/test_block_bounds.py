"""Bounds of groups, before anything of them is looked at closely: never above what is simulated."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from explorer.actions import INPUT_GRAD, WEIGHT_GRAD, Order
from explorer.base.errors import ExplorerError
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.schedules import SCHEDULES, Schedule
from explorer.search import Evaluator, Problem
from explorer.search._blocks import Block, cut_bounds, least_of_layout, schedules_of
from explorer.search._forwards_first import bounds_forwards, forwards_first_s
from explorer.search._frames import Frames, allowed_counts
from explorer.search._groups import points_of
from explorer.search._least_bytes import states_needed
from explorer.search._least_work import least_of_work
from explorer.search._open_layouts import OpenLayouts
from explorer.search._quick_bounds import few_in_flight_s, least_of_block
from explorer.search._rates import room_of
from explorer.search._standing import Standing
from explorer.search.problem import respecting
from explorer.search.spaces import even_points, same_training
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS
from explorer.workload import Job, Workload

JOB = Job(global_batch=8, precision="fp16", optimizer="adam")
DEVICES = {
    "dgx-1-v100": (0, 1, 2, 3),
    "mixed-v100-a100": (0, 8, 1, 9),
    "ethernet-10g-4x4": (0, 1, 4, 5),
    "rtx4090-pcie-4": (0, 1, 2, 3),
}
SAMPLE = 40
MIXTURE = {
    "layers": "4", "embed": "256", "heads": "4", "vocab": "512", "experts": "8", "active": "2",
    "dense_layers": "1",
}  # fmt: skip
ROUTINGS = (
    {"imbalance": "1.5"},
    {"dispatch": "all_gather", "expert_kernels": "each"},
    {"expert_kernels": "streams", "capacity": "1.25", "padded": "true"},
)
"""Ways of tokens to their experts."""


def drawn(seed: int, decoder: Callable[..., LayerGraph]) -> Problem:
    """A random small problem, in which about half of the strategies fit."""
    luck = random.Random(seed)
    name = luck.choice(sorted(DEVICES))
    return Problem(
        graph=decoder(luck.choice((3, 5, 6)), luck.choice((256, 1024))),
        cluster=load_cluster(name),
        workload=Workload(
            jobs=(replace(JOB, global_batch=luck.choice((4, 8, 12)), mode="train" if seed % 5 else "infer"),)
        ),
        devices=DEVICES[name],
        weights=luck.choice(("synchronous", "any")),
        memory_limit_bytes=luck.choice((2.0**28, 2.0**30)),
        seed=seed,
    )


def opened(problem: Problem) -> list[Block]:
    """All blocks of a problem."""
    layouts = OpenLayouts(Standing(problem, Evaluator(problem=problem)))
    while (unseen := layouts.closed.unseen) is not None:
        list(layouts.look_at(unseen))
    found = []
    while (closed := layouts.weakest()) is not None:
        found += [block for block in layouts.make(closed) if block is not None]
    return found


def check_groups(problem: Problem, luck: random.Random, sample: int) -> None:
    """Simulate strategies of a problem's groups, which may not be better than any bound of theirs."""
    blocks, frames = opened(problem), Frames(problem)
    simulated = 0
    for _ in range(sample):
        block = luck.choice(blocks)
        group = luck.randrange(len(block.guess))
        degrees = block.degrees(group)
        if degrees.replicas > 1:
            degrees = degrees.changed(zero=luck.choice(ZERO_LEVELS), bucket_bytes=luck.choice((0.0, 1e7)))
        found = degrees.build(problem.graph, problem.needed_cluster, problem.job, devices=block.order)
        report = simulate(problem.graph, problem.needed_cluster, problem.workload, found)
        if not report.feasible or max(report.peak_memory_bytes) > problem.memory_limit_bytes:
            continue  # bounds are of what fits
        simulated += 1
        assert report.step_time_s >= block.lower[group], degrees.label
        least = least_of_layout(problem, block.order, block.costs, frames, schedules_of(problem))
        assert report.step_time_s >= least, degrees.label
        frame = frames.of(block.schedule, len(block.order), block.costs.row)
        given = (problem, block.order, block.costs, block.schedule, (), frame)
        assert report.step_time_s >= least_of_block(*given, limit=math.inf), degrees.label
        assert report.step_time_s >= least_of_block(*given, limit=report.step_time_s * 1.1), degrees.label
        assert report.step_time_s >= least_of_work(problem), degrees.label
    assert simulated or all(block.hopeless for block in blocks)


@pytest.mark.parametrize("seed", range(12))
def test_no_group_is_bounded_above_what_is_simulated(seed: int, decoder: Callable[..., LayerGraph]) -> None:
    check_groups(drawn(seed, decoder), random.Random(seed), SAMPLE)


@pytest.mark.parametrize("seed", range(12))
def test_what_fits_is_in_its_block(seed: int, decoder: Callable[..., LayerGraph]) -> None:
    """Groups are left out for memory only where no strategy of theirs fits."""
    problem, luck = drawn(seed, decoder), random.Random(seed)
    problem = replace(problem, memory_limit_bytes=problem.memory_limit_bytes / luck.choice((1, 2, 4)))
    graph, cluster, frames, fitted = problem.graph, problem.needed_cluster, Frames(problem), 0
    blocks = [block for block in opened(problem) if not block.hopeless]
    for block in luck.choices(blocks, k=SAMPLE) if blocks else ():
        frame = frames.of(block.schedule, len(block.order), block.costs.row)
        row, again = luck.randrange(len(frame)), luck.randrange(len(RECOMPUTE))
        grid, again = frame.grid[row], again if problem.job.training else 0
        group = [int(part[grid]) for part in (frame.positions, frame.replicas, frame.chunks)]
        group += [int(frame.size[row]), again]
        p, d, v, size, _ = group
        degrees = replace(block.degrees(0), stages=p, replicas=d, chunks=v, microbatch_size=size)
        degrees = replace(degrees, recompute=RECOMPUTE[again])
        if problem.job.training:
            degrees = replace(degrees, zero=luck.choice(ZERO_LEVELS) if d > 1 else 0)
        try:
            found = degrees.build(graph, cluster, problem.job, devices=block.order)
            report = simulate(graph, cluster, problem.workload, found)
        except ExplorerError:
            continue
        if report.feasible and max(report.peak_memory_bytes) <= problem.memory_limit_bytes:
            fitted += 1
            assert group in block.grids.tolist(), degrees.label
    assert fitted or not blocks


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "routing"), list(enumerate(ROUTINGS)))
def test_no_group_of_experts_is_bounded_above_what_is_simulated(seed: int, routing: dict[str, str]) -> None:
    graph = load_model("deepseek", settings=MIXTURE | routing)
    problem = Problem(
        graph=graph, cluster=load_cluster("hgx-h100-16"), devices=(0, 1, 2, 3), memory_limit_bytes=2.0**40,
        workload=Workload(jobs=(replace(JOB, global_batch=8, precision="bf16"),)), seed=seed,
    )  # fmt: skip
    check_groups(problem, random.Random(seed), SAMPLE // 2)


@pytest.mark.parametrize("name", ["zb_auto", "spp", "1f1b"])
def test_room_for_few_microbatches_makes_steps_longer(name: str, decoder: Callable[..., LayerGraph]) -> None:
    """Where a device holds fewer microbatches than positions lie behind it, no order keeps them busy."""
    cluster, schedule = load_cluster("dgx-1-v100"), SCHEDULES.get(name)
    graph, luck, least, simulated = decoder(6, 512), random.Random(1), [], 0
    for share in (0.05, 0.055, 0.06):
        kinds = [replace(kind, memory_bytes=share * kind.memory_bytes) for kind in cluster.device_kinds]
        problem = Problem(
            graph=graph, cluster=replace(cluster, device_kinds=tuple(kinds)), devices=tuple(range(4)),
            workload=Workload(jobs=(replace(JOB, global_batch=24),)), schedule=name,
        )  # fmt: skip
        for block in (block for block in opened(problem) if block.costs.row == 1):
            costs, frame = block.costs, Frames(problem).of(schedule, len(block.order), block.costs.row)
            every, room = np.ones((len(frame), 3), dtype=bool), room_of(problem, kinds[0])
            states = states_needed(problem, costs, schedule, frame).min(axis=0)
            few = few_in_flight_s(problem, costs, schedule, frame, every, states, room)
            work_s = costs.whole(frame.size, 0).once * frame.count / frame.positions[frame.grid]
            rows = np.flatnonzero(few[:, 0] > work_s).tolist()
            for row in [*rows[-2:], *luck.sample(rows, min(4, len(rows)))]:
                p, d = int(frame.positions[frame.grid[row]]), int(frame.replicas[frame.grid[row]])
                degrees = costs.layout.changed(
                    stages=p,
                    replicas=d,
                    microbatch_size=int(frame.size[row]),
                    schedule=name,
                    zero=3 * (d > 1),
                )
                try:
                    strategy = degrees.build(graph, problem.needed_cluster, problem.job, devices=block.order)
                    report = simulate(graph, problem.needed_cluster, problem.workload, strategy)
                except ExplorerError:
                    continue
                least.append(float(few[row, 0]))
                simulated += report.feasible
                assert not report.feasible or report.step_time_s >= few[row, 0], degrees.label
    assert least
    assert simulated or name != "zb_auto"  # of the others none fits where there is so little room


ONE_WAY = [
    item
    for item in SCHEDULES
    if item.placement.copies == 1 and item.flush and not item.hides and not item.literal
]


@pytest.mark.parametrize("schedule", ONE_WAY, ids=lambda item: item.name)
def test_no_order_runs_more_forwards_first_than_it_keeps(
    schedule: Schedule, decoder: Callable[..., LayerGraph]
) -> None:
    """With as much room as its own peak no step is shorter than the bound, which often says something."""
    problem = Problem(
        graph=decoder(6, 512), cluster=load_cluster("dgx-1-v100"), devices=tuple(range(4)),
        workload=Workload(jobs=(replace(JOB, global_batch=8),)), schedule=schedule.name,
    )  # fmt: skip
    luck, active, simulated = random.Random(schedule.name), 0, 0
    blocks = [block for block in opened(problem) if block.costs.row == 1]
    for block, _ in product(blocks, range(SAMPLE)):
        assert bounds_forwards(problem, block.costs, schedule)
        degrees = block.degrees(luck.randrange(len(block.guess)))
        frame = Frames(problem).of(schedule, len(block.order), 1)
        same = frame.positions[frame.grid] == degrees.stages
        same &= (frame.chunks[frame.grid] == degrees.chunks) & (frame.size == degrees.microbatch_size)
        rows, again = np.flatnonzero(same)[:1], np.array([RECOMPUTE.index(degrees.recompute)])
        built = degrees.build(problem.graph, problem.needed_cluster, problem.job, devices=block.order)
        try:
            report = simulate(problem.graph, problem.needed_cluster, problem.workload, built)
        except ExplorerError:
            continue
        simulated += 1
        states = states_needed(problem, block.costs, schedule, frame).min(axis=0)[:, rows, again]
        room = max(report.peak_memory_bytes) - states
        found = forwards_first_s(block.costs, frame, rows, again, degrees.microbatch_size, room)
        assert report.step_time_s >= found[0], degrees.label
        work = block.costs.whole(frame.size[rows], int(again[0])).once * frame.count[rows] / degrees.stages
        active += bool(degrees.stages > 1 and found[0] > work[0])
    assert simulated
    assert active


@pytest.mark.parametrize(
    ("seed", "devices"), [(1, (0, 8)), (2, (0, 8, 9)), (3, (8, 0, 1, 9)), (4, (0, 1, 8, 9, 10, 2))]
)
def test_no_point_on_mixed_devices_is_bounded_above_what_is_simulated(
    seed: int, devices: tuple[int, ...], decoder: Callable[..., LayerGraph]
) -> None:
    """Replicas on slow devices have a bound of their own, with as many samples as others or with fewer."""
    problem = Problem(
        graph=decoder(4, 512), cluster=load_cluster("mixed-v100-a100"), devices=devices,
        workload=Workload(jobs=(replace(JOB, global_batch=12),)),
    )  # fmt: skip
    luck, found = random.Random(seed), []
    for block in opened(problem):
        found += points_of(problem, block, range(len(block.guess)))
    by_speed = [point for point in found if point.by_speed]
    simulated = 0
    for point in [*luck.sample(found, SAMPLE), *luck.sample(by_speed, min(SAMPLE, len(by_speed)))]:
        strategy = point.strategy(problem)
        assert strategy is not None
        report = simulate(problem.graph, problem.needed_cluster, problem.workload, strategy)
        simulated += 1
        assert report.step_time_s >= point.bound * (1 - 1e-12), point.label
    assert simulated >= SAMPLE
    assert by_speed


@pytest.mark.parametrize("position", [0, 2, 3])
def test_bounds_hold_where_pins_want_another_cut(position: int, decoder: Callable[..., LayerGraph]) -> None:
    """An even cut balances FLOPs, so that another may be faster: here embedding and head take most time."""
    graph, devices = decoder(3, 64), DEVICES["dgx-1-v100"]
    problem = replace(
        drawn(1, decoder), graph=graph, cluster=load_cluster("dgx-1-v100"), devices=devices,
        pins=(("layers.1.attention.norm", devices[position]),), memory_limit_bytes=0.0,
    )  # fmt: skip
    assert sum(_moved_and_bounded(problem, block) for block in opened(problem))


def _moved_and_bounded(problem: Problem, block: Block) -> int:
    """Compare bounds of groups with plans that pins cut anew; return how many there are."""
    moved = 0
    for degrees, lower in zip(map(block.degrees, range(len(block.lower))), block.lower, strict=True):
        if degrees.stage_count == 1 or block.schedule.name not in ("1f1b", "gpipe", "zb_h1"):
            continue
        cuts = cut_bounds(problem, degrees.stage_count)[1:-1]
        even = degrees.build(
            problem.graph, problem.needed_cluster, problem.job, devices=block.order, cuts=cuts
        )
        found = respecting(problem, even)
        if found is None or found == even:
            continue
        moved += 1
        report = simulate(problem.graph, problem.needed_cluster, problem.workload, found)
        assert report.step_time_s >= lower, degrees.label
    return moved


@pytest.mark.parametrize("seed", range(8))
def test_what_is_in_no_block_does_not_fit(seed: int, decoder: Callable[..., LayerGraph]) -> None:
    """Points that plain loops list and no block has are those that lack memory, or cannot be ordered."""
    problem, luck = drawn(seed, decoder), random.Random(seed)
    there = {
        (block.order[: degrees.devices], degrees.changed(zero=0, bucket_bytes=0.0))
        for block in opened(problem)
        for degrees in map(block.degrees, range(len(block.guess)))
    }
    points = [
        point
        for point in even_points(problem)
        if not point.by_speed
        and (problem.job.training or point.degrees.recompute == "none")  # else nothing is recomputed
        and (point.order[: point.degrees.devices], point.degrees.changed(zero=0, bucket_bytes=0.0))
        not in there
    ]
    for point in luck.sample(points, min(SAMPLE, len(points))):
        try:
            strategy = point.strategy(problem)
            assert strategy is not None
            report = simulate(problem.graph, problem.needed_cluster, problem.workload, strategy)
        except ExplorerError:
            continue
        assert not report.feasible or problem.over_bytes(report) > 0, point.degrees.label


@pytest.mark.parametrize("schedule", list(SCHEDULES), ids=lambda item: item.name)
def test_frames_take_what_the_schedule_can_order(schedule: Schedule) -> None:
    if not same_training(schedule, "any"):
        pytest.skip("chosen only by name")
    counts = np.arange(1, 25)
    for positions in (1, 2, 3, 4, 6):
        for chunks in (1, 2, 3, 4) if schedule.placement.several else (schedule.placement.chunks,):
            if (positions * chunks) % schedule.needs.stage_multiple or schedule.placement.copies > positions:
                continue
            if chunks % schedule.needs.chunk_multiple or chunks > (schedule.needs.most_chunks or chunks):
                continue
            found = allowed_counts(schedule, positions, chunks, counts).tolist()
            wanted = [not schedule.unmet_even(positions, int(count), chunks) for count in counts]
            assert found == wanted


@pytest.mark.parametrize("schedule", list(SCHEDULES), ids=lambda item: item.name)
def test_backwards_that_are_promised_whole_are(schedule: Schedule) -> None:
    if schedule.split or schedule.literal or schedule.dispatch:
        pytest.skip("it may split backwards, or has no order of its own")
    for positions, count in ((2, 4), (4, 8), (4, 2), (3, 9)):
        grid = schedule.placement.grid(positions)
        if schedule.unmet_even(positions, count, grid.chunks):
            continue
        shape = schedule.placement.shape(grid, count)
        order = schedule.function(shape, steps=1, **schedule.read_options({}))
        assert isinstance(order, Order)
        assert not {action.op for lane in order.lanes for action in lane} & {INPUT_GRAD, WEIGHT_GRAD}
