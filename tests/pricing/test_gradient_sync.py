"""What devices hold: updates, reductions and gathers of frozen, sparse, carved and cut parameters."""

from __future__ import annotations

from dataclasses import replace

import pytest

import explorer
from explorer.base.caching import remembered
from explorer.costs.update_time import update_seconds
from explorer.graph import Dim, Layer, LayerGraph, Parameter, Tensor, Use, Work
from explorer.simulation.report import Report
from explorer.strategy import REPLICA, Mesh, Sharding, Slice, Stage, Strategy, single
from explorer.tasks.program import GATHER, REDUCE, WHOLE, U
from explorer.workload import Job, Workload, default_workload

WIDTH, SEQ = 64, 128
WEIGHT_BYTES = WIDTH * WIDTH * 2.0


def linear(name: str, x: str, y: str) -> Layer:
    work = Work(flops=2 * SEQ * WIDTH * WIDTH, moved_elements=2 * SEQ * WIDTH)
    dims = tuple(Dim(name=f"{d}{name}", size=WIDTH) for d in ("in", "out"))
    return Layer(
        name=name, kind="linear", dims=(Dim(name="seq", size=SEQ), *dims),
        reads=(Use(name=x, dims=("seq", f"in{name}")),), writes=(Use(name=y, dims=("seq", f"out{name}")),),
        parameters=(Use(name=f"w{name}", dims=(f"out{name}", f"in{name}")),),
        forward=work, input_grad=work, weight_grad=work, saves=(x,),
    )  # fmt: skip


def three(**parameter: object) -> LayerGraph:
    """Three linear layers; `parameter` changes the weights of the first two."""
    return LayerGraph(
        name="three",
        layers=(linear("a", "x0", "x1"), linear("b", "x1", "x2"), linear("c", "x2", "x3")),
        tensors=tuple(Tensor(name=f"x{i}", shape=(SEQ, WIDTH)) for i in range(4)),
        parameters=tuple(
            Parameter(name=f"w{n}", shape=(WIDTH, WIDTH), **(parameter if n != "c" else {}))  # type: ignore[arg-type]
            for n in "abc"
        ),
    )


def run(graph: LayerGraph, *stages: Stage) -> Report:
    workload = Workload(jobs=(Job(global_batch=2),))
    return explorer.simulate(graph, explorer.load_cluster("dgx-a100"), workload, single(stages=stages))


def cut_in_two(dim: str, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Stage, Stage]:
    """Layers a and c whole, half of b on either side."""

    def stage(layer: str, start: float, devices: tuple[int, ...]) -> Stage:
        part = Slice(layer="b", dim=dim, start=start, stop=start + 0.5)
        mesh = Mesh(devices=devices)
        return Stage(layers=(layer,), slices=(part,), meshes=(mesh,), microbatch_samples=len(devices))

    return stage("a", 0.0, first), stage("c", 0.5, second)


def moved(report: Report, kind: int) -> list[float]:
    program = report.timeline.program
    slots = [slot for slot in program.slots if slot.kind == kind]
    by_part: dict[object, float] = {}
    for slot in slots:  # a collective in parts is one
        whole = slot._replace(part=WHOLE)
        number = program.slots.index(slot)
        by_part[whole] = by_part.get(whole, 0.0) + float(report.timeline.prices.bytes[number])
    return list(by_part.values())


@pytest.mark.parametrize(("zero", "parameter", "gathered", "reduced"), [
    (1, {}, 3, 3),
    (1, {"trainable": False}, 1, 1),
    (3, {"trainable": False}, 3, 1),
    (1, {"density": 0.01}, 3, 1.02),
    (3, {"density": 0.01}, 3, 1.02),
])  # fmt: skip
def test_gathers_and_reductions(
    zero: int, parameter: dict[str, object], gathered: float, reduced: float
) -> None:
    """Level 1 gathers what was updated, level 3 all that a forward reads; gradients are sparse."""
    stage = Stage(layers=("a", "b", "c"), microbatch_samples=2, zero=zero, meshes=(Mesh(devices=(0, 1)),))
    report = run(three(**parameter), stage)
    assert moved(report, GATHER) == [pytest.approx(gathered * WEIGHT_BYTES)]
    assert moved(report, REDUCE) == [pytest.approx(reduced * WEIGHT_BYTES)]


@pytest.mark.parametrize(("dim", "weights", "groups"), [("seq", 2.0, 1), ("outb", 1.5, 0), ("inb", 1.5, 0)])
def test_a_cut_layer_holds_whole_what_has_not_its_dimension(dim: str, weights: float, groups: int) -> None:
    """Cut along the sequence both parts hold all of the weight, and reduce its gradient."""
    stages = cut_in_two(dim, (0,), (1,))
    report = run(three(), *stages)
    assert [parts[0] for parts in report.memory_parts_bytes] == [pytest.approx(weights * WEIGHT_BYTES)] * 2
    assert len(report.timeline.program.skeleton.holders) == groups
    assert moved(report, REDUCE) == [pytest.approx(WEIGHT_BYTES)] * groups


def test_a_cut_layer_with_replicas_reduces_over_all_of_them() -> None:
    stages = cut_in_two("seq", (0, 1), (2, 3))
    report = run(three(), *stages)
    placement = report.timeline.placement
    by_size = {
        len(group.pieces): held
        for group, held in zip(placement.skeleton.holders, placement.held, strict=True)
    }
    assert by_size[4] == (1,)
    assert len(placement.skeleton.holders) == 3


@pytest.mark.parametrize("experts", [2, 4, 8])
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_experts_are_divided_by_their_own_replicas(experts: int, zero: int) -> None:
    """8 ranks, experts over e of them: ZeRO divides dense weights by 8, experts by 8 / e."""
    graph, cluster = explorer.load_model("mixtral-8x7b"), explorer.load_cluster("dgx-a100-4")
    workload = default_workload(graph).with_job(global_batch=8)
    strategy = explorer.uniform(graph, cluster, workload.job, stages=1, replicas=8, microbatch_size=1)
    mesh = Mesh(devices=tuple(range(8)), axes=((REPLICA, 8 // experts), ("expert", experts)))
    sharding = Sharding(layers=("*experts*",), layout=(("experts", "expert"),), meshes=(mesh,))
    stage = replace(strategy.job.stages[0], zero=zero, shardings=(sharding,))
    report = explorer.simulate(graph, cluster, workload, Strategy(jobs=(strategy.job.with_stages((stage,)),)))
    expert = sum(
        graph.parameter[u.name].elements for x in graph.layers if x.kind == "experts" for u in x.parameters
    )
    dense = graph.parameter_count - expert
    held = (dense / 8 if zero else dense) + expert / experts / (8 / experts if zero else 1)
    kind, job = cluster.kind_of(0), workload.job
    expected = update_seconds(kind, elements=held, optimizer=job.optimizer, precision=job.precision)
    program, prices = report.timeline.program, report.timeline.prices
    assert [prices.seconds[i] for i, s in enumerate(program.slots) if s.kind == U] == [
        pytest.approx(expected)
    ]
    if zero:
        replicas = 8 // experts
        sent = 2 * (dense * 7 / 8 + expert / experts * (replicas - 1) / replicas)
        assert moved(report, GATHER) == [pytest.approx(sent * 8 / 7)]


def test_remembered_keys_are_the_arguments() -> None:
    calls = []

    @remembered(4)
    def work(graph: object, numbers: tuple[int, ...], extra: float) -> int:
        calls.append((graph, numbers, extra))
        return len(calls)

    one, other = object(), object()
    assert [work(one, (1,), 0.0), work(one, (1,), 0.0)] == [1, 1]
    assert [work(other, (1,), 0.0), work(one, (2,), 0.0), work(one, (1,), 1.0)] == [2, 3, 4]
    assert work(one, (1,), 2.0) == 5
    assert work(one, (1,), 0.0) == 6, "a full cache forgets"
    assert work(one, (1,), extra=0.0) == work(one, (1,), extra=0.0) == 7
    assert work(one, (1,), extra=1.0) == 8
    assert work(one, numbers=(1,), extra=1.0) == 9, "names count"
