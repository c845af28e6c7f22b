"""Tables say of every run of layers what the simulator's pricer says of a stage that has these layers."""

from __future__ import annotations

from dataclasses import astuple, replace
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.synthetic import branches, tied
from explorer.pricing import Pricer
from explorer.pricing.layer_columns import LayerColumns, layer_columns
from explorer.strategies.degrees import Degrees
from explorer.strategy import JobStrategy, Sync
from explorer.tables import StageChoice, StageTable, even_bounds
from explorer.tables.borders import flow_tensors
from explorer.tables.stage_lanes import period_of
from explorer.tasks.placement import Piece, place
from explorer.tasks.program import CLOSING, GATHER, OPENING, REDUCE, TRANSFER, WHOLE, B, F, Slot, U
from explorer.workload import Job, default_workload

GPT = {"layers": "5", "embed": "128", "heads": "8", "vocab": "512", "positions": "64"}
DEEPSEEK = {
    "layers": "4", "embed": "64", "heads": "4", "vocab": "256", "experts": "8", "active": "2",
    "dense_layers": "1",
}  # fmt: skip
RESERVE = 1e-12
"""Rounding, as a share of a whole model's seconds or bytes."""


@cache
def model(name: str) -> LayerGraph:
    if name == "branches":
        return branches([2, 3], parameter_bytes=7.0, activation_bytes=3.0)
    if name == "tied":
        return tied([1.0] * 6, parameter_bytes=8.0)
    if name in ("gpt", "deepseek"):
        return load_model(name, settings=GPT if name == "gpt" else DEEPSEEK)
    return load_model(name)


@cache
def cluster(name: str) -> Cluster:
    return load_cluster(name)


class Case(NamedTuple):
    graph: LayerGraph
    cluster: Cluster
    job: Job
    strategy: JobStrategy
    choice: StageChoice
    bounds: tuple[int, ...]

    def __repr__(self) -> str:  # a graph fills pages
        return f"{self.graph.name} on {self.cluster.name}, cut at {self.bounds}: {self.choice}"


MODELS = ("gpt", "t5-large", "mixtral-8x7b", "deepseek", "gnmt-8", "resnet50", "vgg16", "dlrm")
CLUSTERS = ("dgx-a100-4", "hgx-h100-16", "pipedream-a", "mixed-v100-a100", "dgx-1-v100")
OVERLAPS = ((), (("tensor", "tiles"),), (("tensor", "weight_gradient"),))


@st.composite
def cases(draw: st.DrawFn, name: str) -> Case:
    """A strategy of some stages at any cuts, and the choice of them all."""
    graph, machine = model(name), cluster(draw(st.sampled_from(CLUSTERS)))
    count, size = len(graph.layers), draw(st.sampled_from([1, 2, 4]))
    stages = draw(st.integers(1, min(4, count)))
    job = default_workload(graph).job
    job = replace(job, global_batch=12 * size, gradient_precision=draw(st.sampled_from(["", "fp32"])))
    degrees = Degrees(
        tensor=draw(st.sampled_from([1, 2, 4])), context=draw(st.sampled_from([1, 1, 2])),
        replicas=draw(st.sampled_from([1, 2, 3, 4])), expert=draw(st.sampled_from([1, 1, 2, 4])),
        stages=stages, microbatch_size=size, recompute=draw(st.sampled_from(["none", "selective", "full"])),
        zero=draw(st.sampled_from([0, 1, 2, 3])), sequence_parallel=draw(st.booleans()),
        context_exchange=draw(st.sampled_from(["gather", "ring", "all_to_all"])),
    )  # fmt: skip
    for change in ({}, {"expert": 1}, {"context": 1}, {"tensor": 1}, {"replicas": 2}, {"replicas": 1}):
        degrees = degrees.changed(**change)
        if allowed(degrees, graph, machine, job):
            break
    cuts = sorted(draw(st.sets(st.integers(1, count - 1), min_size=stages - 1, max_size=stages - 1)))
    strategy = degrees.build(graph, machine, job, cuts=cuts).job
    shared = draw(st.sampled_from([0, *([2] if degrees.replicas % 2 == 0 else [])]))
    overlap = draw(st.sampled_from(OVERLAPS))
    changed = [replace(item, overlap=overlap, zero_replicas=shared) for item in strategy.stages]
    choice = replace(StageChoice.of(degrees), overlap=overlap, zero_replicas=shared)
    return Case(graph, machine, job, replace(strategy, stages=tuple(changed)), choice, (0, *cuts, count))


def allowed(degrees: Degrees, graph: LayerGraph, machine: Cluster, job: Job) -> bool:
    """Whether the model and the devices are enough for some degrees."""
    try:
        degrees.check(graph, machine, job)
    except InputError:
        return False
    return True


def pricer_of(case: Case, strategy: JobStrategy | None = None) -> Pricer:
    strategy = strategy or case.strategy
    placement = place(case.graph, strategy, training=case.job.training)
    return Pricer(case.graph, case.cluster, case.job, strategy, placement)


def close(found: object, wanted: object, scale: object) -> None:
    for one, other, most in zip(found, wanted, scale, strict=True):  # type: ignore[call-overload]
        assert one == pytest.approx(other, rel=1e-9, abs=RESERVE * abs(most) + 1e-300)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=12)
@given(data=st.data())
def test_runs_cost_what_stages_cost(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    table = StageTable(case.graph, case.cluster, case.job)
    pricer = pricer_of(case)
    count = len(case.graph.layers)
    for number, section in enumerate(pricer.sections):
        choice = replace(case.choice, first=section.stage * case.choice.devices)
        start, stop = case.bounds[section.stage : section.stage + 2]
        found, most = table.run(choice, start, stop), table.run(choice, 0, count)
        time = pricer.section_time(number, section.rows[0][0][0], choice.microbatch_size)
        close(found.seconds, time, most.seconds)
        close(astuple(found.memory), astuple(pricer.memory(number)), astuple(most.memory))
        exchange = type(found.exchange)(*(float(item[0]) for item in found.exchange))
        check_exchange(pricer, number, exchange)
        piece = Piece(number, 0, 0)
        zero = choice.zero if section.shards > 1 and case.job.training else 0
        gather = exchange.gather_part_s * exchange.blocks * (zero == 3)
        reduce = (exchange.reduce_s + exchange.expert_reduce_s) * (zero >= 2)
        # ZeRO 3 within a lane gathers in every forward and backward
        for kind, seconds, beside in (
            (F, time.forward_s, gather),
            (B, time.input_grad_s + time.weight_grad_s + time.recompute_s - time.behind_weight_s,
             gather + reduce),
        ):  # fmt: skip
            slowed = table.overlap_slowdown(choice) * min(beside, seconds)
            wanted = pricer.price(Slot(kind, number, piece, piece, choice.microbatch_size)).seconds
            assert seconds + slowed + exchange.fetched_s == pytest.approx(wanted, rel=1e-9)


def check_exchange(pricer: Pricer, number: int, found: object) -> None:
    piece = Piece(number, 0, 0)
    wanted = pricer.price(Slot(U, number, piece, piece, 1)).seconds
    assert found.update_s == pytest.approx(wanted, rel=1e-9)
    everyone = sum(len(rows) for rows in pricer.sections[number].rows)
    reduced = {True: 0.0, False: 0.0}
    for g, group in enumerate(pricer.placement.skeleton.holders):
        if piece in group.pieces and {item.section for item in group.pieces} == {number}:
            slot = Slot(REDUCE, g, piece, piece, 1, part=WHOLE)
            reduced[len(group.pieces) == everyone] += pricer.price(slot).seconds
    assert found.reduce_s == pytest.approx(reduced[True], rel=1e-9)
    assert found.expert_reduce_s == pytest.approx(reduced[False], rel=1e-9)
    section = pricer.sections[number]
    if section.zero and section.shards > 1:
        whole = pricer.price(Slot(GATHER, number, piece, piece, 1, part=WHOLE)).seconds
        first = pricer.price(Slot(GATHER, number, piece, piece, 1, part=OPENING)).seconds
        assert found.gather_s == pytest.approx(whole, rel=1e-9)
        assert found.gather_part_s == pytest.approx(first, rel=1e-9)
    assert found.blocks == pricer.blocks(number)


@pytest.mark.parametrize("name", ["gpt", "t5-large", "branches", "resnet50"])
@settings(max_examples=12)
@given(data=st.data())
def test_transfers_take_what_flows_take(name: str, data: st.DataObject) -> None:
    case = data.draw(cases(name))
    table, pricer = StageTable(case.graph, case.cluster, case.job), pricer_of(case)
    ends = [replace(case.choice, first=s * case.choice.devices) for s in range(len(case.bounds) - 1)]
    runs = list(pairwise(case.bounds))
    found = {
        (flow.source, i): f for f, flow in enumerate(pricer.placement.skeleton.flows) for i in flow.targets
    }
    borders = table.borders
    for (a, b), f in found.items():
        for backward in (False, True):
            slot = Slot(TRANSFER, f, Piece(a, 0, 0), Piece(b, 0, 0), case.choice.microbatch_size, backward)
            wanted = pricer.price(slot).seconds
            seconds = table.crossings.flow(ends[a], runs[a], ends[b], runs[b], backward=backward)
            assert seconds == pytest.approx(wanted, rel=1e-9)
            cut = runs[b][0]
            if b == a + 1 and borders.first[cut] >= runs[a][0] and borders.last[cut] < runs[b][1]:
                assert borders.sample_bytes[cut] == pytest.approx(pricer.flow(f)[0], rel=1e-9)
                across = table.crossings.transfer(ends[a], ends[b], np.array([cut, cut]), backward=backward)
                assert across == pytest.approx([wanted, wanted], rel=1e-9)


@given(data=st.data())
@settings(max_examples=12)
def test_many_runs_are_each_as_alone(data: st.DataObject) -> None:
    case = data.draw(cases("deepseek"))
    table, count = StageTable(case.graph, case.cluster, case.job), len(case.graph.layers)
    pairs = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(1, count)), min_size=1))
    starts, stops = (
        np.array(item) for item in zip(*[(min(a, b - 1), max(a + 1, b)) for a, b in pairs], strict=True)
    )
    choice = replace(case.choice, bucket_bytes=data.draw(st.sampled_from([0.0, 1e4, 1e6])))
    found = table.runs(choice, starts, stops)
    for k in range(len(starts)):
        alone = table.run(choice, int(starts[k]), int(stops[k]))
        assert found.seconds.at(k) == alone.seconds
        assert found.memory.at(k) == alone.memory
        assert [item[k] for item in found.exchange] == [item[0] for item in alone.exchange]


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_buckets_are_those_of_the_reduction(zero: int) -> None:
    graph, machine = model("gpt"), cluster("dgx-a100-4")
    job = default_workload(graph).with_job(global_batch=8).job
    sync = (Sync(parameters=("*",), bucket_bytes=1e5),)
    degrees = Degrees(tensor=2, replicas=4, stages=2, zero=zero)
    strategy = replace(degrees.build(graph, machine, job).job, sync=sync)
    pricer = pricer_of(Case(graph, machine, job, strategy, StageChoice(), ()))
    table = StageTable(graph, machine, job)
    start = 0
    for section, layers in enumerate(pricer.placement.layers):
        choice = replace(StageChoice.of(degrees, section), bucket_bytes=1e5)
        found = table.run(choice, start, start + len(layers)).exchange
        start += len(layers)
        piece = Piece(section, 0, 0)
        for g, group in enumerate(pricer.placement.skeleton.holders):
            if {item.section for item in group.pieces} == {section}:
                opening, closing = (
                    Slot(REDUCE, g, piece, piece, 1, part=part) for part in (OPENING, CLOSING)
                )
                assert found.reduce_parts[0] > 2
                assert found.reduce_s[0] == pytest.approx(pricer.price(closing).seconds, rel=1e-9)
                before = found.reduce_s[0] * (found.reduce_parts[0] - 1)
                assert before == pytest.approx(pricer.price(opening).seconds, rel=1e-9)


def test_shared_parameters_are_reduced_by_a_run_that_has_all_of_their_layers() -> None:
    graph, machine = model("tied"), cluster("dgx-a100")
    table = StageTable(graph, machine, default_workload(graph).job)
    choice, count = StageChoice(replicas=2), len(graph.layers)
    whole = table.run(choice, 0, count).exchange.reduce_bytes[0]
    parts = [table.run(choice, a, a + 1).exchange.reduce_bytes[0] for a in range(count)]
    shared = next(
        p for p in graph.parameters if sum(p.name in {u.name for u in x.parameters} for x in graph.layers) > 1
    )
    assert whole - sum(parts) == pytest.approx(4 * shared.elements)


def test_rows_whose_links_look_alike_share_their_columns() -> None:
    graph, machine = model("gpt"), cluster("hgx-h100-16")
    table = StageTable(graph, machine, default_workload(graph).job)
    assert period_of(machine, tuple(range(128))) == 8
    choices = [StageChoice(tensor=4, first=first) for first in (0, 4, 8, 64, 2, 6)]
    columns = [table.columns(choice) for choice in choices]
    assert all(item is columns[0] for item in columns[:5])
    assert columns[5] is not columns[0], "tensor parallelism leaves the node"


@pytest.mark.parametrize("name", ["mixed-v100-a100", "pipedream-a", "dgx-1-v100"])
def test_devices_that_differ_are_not_moved(name: str) -> None:
    machine = cluster(name)
    alike = len({(n.device_kind, n.devices_per_node) for n in machine.nodes}) == 1 and not machine.links
    assert bool(period_of(machine, tuple(range(machine.device_count)))) == alike
    assert period_of(machine, tuple(reversed(range(machine.device_count)))) == 0


def test_other_prices_can_be_put_in() -> None:
    graph, machine = model("gpt"), cluster("dgx-a100")
    job = default_workload(graph).job

    def twice(*arguments: Any, **named: Any) -> LayerColumns:
        found = layer_columns(*arguments, **named)
        return replace(found, compute_s=2 * found.compute_s)

    ours, theirs = StageTable(graph, machine, job), StageTable(graph, machine, job, prices=twice)
    one, two = (table.run(StageChoice(), 3, 20) for table in (ours, theirs))
    assert two.seconds.weight_grad_s == pytest.approx(2 * one.seconds.weight_grad_s)
    assert two.memory == one.memory


@pytest.mark.parametrize(("start", "stop"), [(3, 3), (-1, 4), (2, 10_000), (5, 4)])
def test_runs_without_layers_are_refused(start: int, stop: int) -> None:
    graph = model("gpt")
    table = StageTable(graph, cluster("dgx-a100"), default_workload(graph).job)
    with pytest.raises(InputError, match="a run of layers from"):
        table.run(StageChoice(), start, stop)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"tensor": 0}, "tensor"),
        ({"recompute": "some"}, "recompute"),
        ({"first": -1}, "first"),
        ({"zero_replicas": 3, "replicas": 4}, "zero_replicas"),
        ({"replicas": 64}, "first"),
        ({"expert": 2, "replicas": 2}, "expert"),
    ],
)
def test_what_cannot_be_chosen_is_refused(changes: dict[str, Any], key: str) -> None:
    graph = model("gpt")
    table = StageTable(graph, cluster("dgx-a100"), default_workload(graph).job)
    with pytest.raises(InputError) as error:
        table.run(StageChoice(**changes), 0, 4)
    assert error.value.key == key


def test_a_choice_larger_than_the_cluster_is_told_how_large_that_is() -> None:
    table = StageTable(model("gpt"), cluster("dgx-a100"), default_workload(model("gpt")).job)
    with pytest.raises(InputError, match="8 devices at most"):
        table.run(StageChoice(replicas=64), 0, 4)
    with pytest.raises(InputError, match="<= 4"):
        table.run(StageChoice(replicas=4, first=6), 0, 4)


def test_even_bounds_are_the_cuts_of_degrees() -> None:
    graph, machine = model("gpt"), cluster("dgx-a100")
    job = default_workload(graph).job
    found = even_bounds(graph, [1, 2, 4, 4])
    assert sorted(found) == [1, 2, 4]
    for count, bounds in found.items():
        strategy = Degrees(stages=count).build(graph, machine, job)
        names = [layer.name for layer in graph.layers]
        runs = [tuple(names[a:b]) for a, b in pairwise(bounds)]
        assert runs == [stage.layers for stage in strategy.job.stages]


def test_tensors_that_go_together_take_as_long_as_each_alone() -> None:
    graph, devices = load_model("t5-large"), load_cluster("dgx-a100-4")
    job = default_workload(graph).job
    count = len(graph.layers)
    cuts = [(a, min(count, a + 9)) for a in range(1, count - 1, 3)]
    sent = [flow_tensors(graph, (0, a), (a, b)) for a, b in cuts]
    ends = (
        StageChoice(tensor=4, sequence_parallel=True),
        StageChoice(tensor=4, sequence_parallel=True, first=4),
    )
    together = StageTable(graph, devices, job).crossings.flows(*ends, sent)
    for (a, b), seconds in zip(cuts, together, strict=True):
        alone = StageTable(graph, devices, job).crossings.flow(ends[0], (0, a), ends[1], (a, b))
        assert seconds == alone
    assert len(set(together)) > 2
