"""Exchanges beside work: what they slow, and what of them nothing hides, in closed form."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.cluster import Cluster
from explorer.costs.update_time import CLIPPING_PASSES, UpdateKernels, update_seconds
from explorer.framework import Framework
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.pricing.exchanges_beside import ends_s, outside_share, slowed_s
from explorer.pricing.gradient_sync import gather_price
from explorer.simulation.report import Report
from explorer.strategies.degrees import Degrees
from explorer.strategies.framework_choices import bucket_bytes_of
from explorer.strategy import Strategy
from explorer.tasks.program import F
from explorer.workload import OPTIMIZERS, Job, Workload
from tests.support.clusters import device_bound

SLOWDOWN, TOKENS, LAYERS = 0.25, 512, 4
SETTINGS = {"layers": str(LAYERS), "embed": "512", "heads": "8"}


def model(**settings: str) -> LayerGraph:
    return load_model("gpt", sequence_length=TOKENS, settings=SETTINGS | settings)


def cluster(slowdown: float = SLOWDOWN) -> Cluster:
    made = device_bound("dgx-a100")
    kinds = tuple(replace(kind, overlap_slowdown=slowdown) for kind in made.device_kinds)
    return replace(made, device_kinds=kinds)


def run(
    graph: LayerGraph, machine: Cluster, *, zero: int, batch: int = 16, framework: str = "", **more: object
) -> Report:
    job = Job(global_batch=batch, sequence_length=TOKENS, gradient_precision="fp32", framework=framework)
    strategy = Degrees(replicas=8, zero=zero, **more).build(graph, machine, job)  # type: ignore[arg-type]
    return explorer.simulate(graph, machine, Workload(jobs=(job,)), strategy)


def asking(strategy: Strategy, reshard: str) -> Strategy:
    """Return a strategy all of whose stages ask for gathers once a run, once an action, or for nothing."""
    stages = [replace(stage, reshard=reshard) for stage in strategy.job.stages]
    return strategy.with_job(strategy.job.with_stages(stages))


def forward_s(report: Report) -> float:
    line = report.timeline
    pairs = zip(line.program.slots, line.prices.seconds, strict=True)
    return next(float(s) for slot, s in pairs if slot.kind == F)


def test_work_beside_gathers_is_slowed_and_no_other() -> None:
    graph = model()
    plain, slowed = (forward_s(run(graph, cluster(s), zero=3)) for s in (0.0, SLOWDOWN))
    pricer = run(graph, cluster(), zero=3).timeline.prices.pricer
    beside = pricer.beside(pricer.placement.skeleton.holders[0].pieces[0])
    assert slowed == pytest.approx(plain + SLOWDOWN * min(plain, beside.gather_s), rel=1e-12)
    assert beside.gather_s == beside.again_s > 0
    assert forward_s(run(graph, cluster(), zero=2)) == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("schedule", ["interleaved_1f1b", "breadth_first"])
def test_weights_that_stay_gathered_slow_the_work_of_one_gather(schedule: str) -> None:
    """Four chunks, each gathered once for both microbatches of a step: by the order, or as stages ask."""
    graph, machine, m = model(), cluster(), 2
    job = Job(global_batch=2 * m, sequence_length=TOKENS, gradient_precision="fp32")
    degrees = Degrees(stages=2, chunks=2, replicas=2, microbatch_size=1, zero=3, schedule=schedule)
    strategy = degrees.build(graph, machine, job)
    stays, again, alone = (
        explorer.simulate(graph, machine, Workload(jobs=(job,)), asking(strategy, reshard))
        for reshard in ("", "run", "action")
    )
    assert all(stays.timeline.program.whole_over_runs)
    assert stays.step_time_s == again.step_time_s < alone.step_time_s
    pricer = stays.timeline.prices.pricer
    piece = pricer.placement.skeleton.holders[0].pieces[0]
    each, once = (report.timeline.prices.pricer.beside(piece) for report in (alone, stays))
    assert once.gather_s == pytest.approx(each.gather_s / m, rel=1e-12)
    assert once.again_s == 0.0 < each.again_s


def test_slowed_at_most_for_the_work_there_is() -> None:
    assert slowed_s(0.2, 3.0, 10.0) == pytest.approx(0.6)
    assert slowed_s(0.2, 30.0, 10.0) == pytest.approx(2.0)
    assert slowed_s(0.0, 30.0, 10.0) == 0.0


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_step_is_between_its_work_and_its_work_after_all_exchanges(zero: int) -> None:
    graph = model()
    report = run(graph, cluster(), zero=zero, bucket_bytes=1e6)
    alone = run(graph, cluster(0.0), zero=zero, bucket_bytes=1e6)
    line = report.timeline
    assert (
        alone.step_time_s * (1 - 1e-12)
        <= report.step_time_s
        <= (1 + SLOWDOWN) * float(sum(line.prices.seconds[line.program.slot[line.program.step == 0]]))
    )


def test_units_of_fsdp_show_at_both_ends_of_every_microbatch() -> None:
    """A forward shows gathers of what is outside of blocks and of one block, less what its order shows."""
    graph, machine = model(), cluster(0.0)
    found = {}
    for framework in ("", "torch-fsdp-2023"):
        report = run(graph, machine, zero=3, batch=32, framework=framework, microbatch_size=1)
        pricer = report.timeline.prices.pricer
        piece = pricer.placement.skeleton.holders[0].pieces[0]
        found[framework] = pricer.beside(piece), pricer, piece
    assert found[""][0].first_s == found[""][0].last_s == 0.0
    beside, pricer, piece = found["torch-fsdp-2023"]
    outside = outside_share(graph, pricer.placement.layers[0])
    blocks = sum(p.elements for p in graph.parameters if p.name.startswith("layers."))
    assert outside == pytest.approx(1 - blocks / sum(p.elements for p in graph.parameters))
    groups = pricer.gathered(piece)

    def gather(share: float) -> float:
        return gather_price(machine, tuple((rows, size * share) for rows, size in groups)).seconds

    ends = gather(outside) + gather((1 - outside) / LAYERS)
    assert ends == pytest.approx(ends_s(gather, outside, LAYERS))
    assert beside.first_s == pytest.approx(ends - gather(1 / LAYERS) / 4)
    assert pricer.buckets(0) == LAYERS
    assert beside.last_s > 0


def test_a_unit_is_a_share_of_all_gradients() -> None:
    graph, job = model(), Job(gradient_precision="fp32")
    units = Framework(name="u", exchanges="units", bucket_bytes=5.0)
    total = sum(4.0 * item.elements for item in graph.parameters)
    assert bucket_bytes_of(units, graph, job) == pytest.approx(total / LAYERS)
    assert bucket_bytes_of(Framework(name="b", bucket_bytes=5.0), graph, job) == 5.0


def test_more_passes_over_weights_take_more_seconds() -> None:
    fused, separate, flat = (
        run(model(accumulation=how), cluster(0.0), zero=2).step_time_s
        for how in ("fused", "separate", "flat")
    )
    assert fused < separate < flat
    # three times the passes, of which longer ones reach more of the memory's bandwidth
    assert 2 * (separate - fused) < flat - fused <= 3 * (separate - fused)


def test_updates_by_separate_kernels_and_clipping_move_what_is_counted() -> None:
    kind = replace(
        cluster().device_kinds[0], memory_bandwidth_bytes_per_s=1e12,
        efficiency=(("memory", explorer.cluster.Curve(points=((1.0, 1.0),))),),
    )  # fmt: skip

    def seconds(**how: bool) -> float:
        return update_seconds(
            kind, elements=1e12, optimizer="adam", precision="bf16", kernels=UpdateKernels(**how),
            gradient_bytes=2.0,
        )  # fmt: skip

    adam = OPTIMIZERS["adam"]
    assert seconds() == pytest.approx(adam.moved_bytes)
    assert seconds(separate=True) == pytest.approx(adam.separate_bytes)
    assert seconds(clipping=True) - seconds() == pytest.approx(2.0 * CLIPPING_PASSES)
