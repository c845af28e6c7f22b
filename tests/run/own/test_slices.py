"""Layers cut over stages: gradients and weights are those of one process, bytes those predicted."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from explorer.run.judging.wire_bytes import BETWEEN, REPLICAS, wire_bytes
from explorer.run.own.own_source import OwnSource
from explorer.run.own.sliced_model import SlicedModel
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.lane import RankLanes
from explorer.run.spec import RunSpec, as_read
from explorer.strategies.keeping import Kept, with_kept
from explorer.strategy import Mesh
from tests.run.own.own_cases import FACTORIES, GPT, case, small_resnet, source
from tests.run.own.slice_cases import Cut, parts, sliced_stages
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
EXACT, SINGLE = 1e-10, 1e-5
SCHEDULES = ("gpipe", "1f1b")


@cache
def model(name: str, dtype: str = "fp64") -> OwnSource:
    if name == "gpt":
        return source(*GPT, dtype)
    return small_resnet(dtype) if name == "resnet" else source(f"{FACTORIES}:{name}", dtype=dtype)


def mlp(*fractions: float, first: int = 0) -> tuple[Cut, ...]:
    """A feed-forward cut over its hidden scalars throughout, as tensor parallelism cuts it."""
    own = parts(*fractions, first=first)
    return tuple((f"layers.1.mlp.{name}", "ffn", own) for name in ("up", "gelu", "down"))


def heads(*fractions: float) -> tuple[Cut, ...]:
    """An attention cut over its heads throughout."""
    names = ("qkv", "attention", "proj")
    return tuple((f"layers.1.attention.{name}", "heads", parts(*fractions)) for name in names)


UP, GELU = "layers.1.mlp.up", "layers.1.mlp.gelu"
CASES: dict[str, tuple[str, tuple[str, ...], tuple[Cut, ...]]] = {
    "linear, outputs": ("skip", ("act",), (("second", "seq", parts(0.5)),)),
    "linear, outputs, uneven": ("skip", ("act",), (("second", "seq", parts(0.25)),)),
    "linear, outputs, three": ("skip", ("act", "act"), (("second", "seq", parts(0.25, 0.5)),)),
    "linear, inputs": ("skip", ("act",), (("second", "ffn", parts(0.25)),)),
    "linear, inputs, three": ("skip", ("act", "act"), (("second", "ffn", parts(0.25, 0.5)),)),
    "of the model's input": ("skip", ("",), (("first", "first:1", parts(0.5)),)),
    "an output of the model": ("skip", ("residual",), (("head", "classes", parts(0.25)),)),
    "an output that is a sum": ("skip", ("head",), (("side", "ffn", parts(0.25)),)),
    "norm by channel": ("pictures", ("first",), (("norm", "channels", parts(0.25)),)),
    "convolution, channels": ("pictures", ("act",), (("second", "channels", parts(0.25)),)),
    "convolution, channels, three": ("pictures", ("act", "act"), (
        ("second", "channels", parts(0.25, 0.5)),
    )),
    "convolution, channels that it reads": ("pictures", ("act",), (
        ("second", "channels_2", parts(0.25)),
    )),
    "two convolutions": ("pictures", ("act", "act"), (
        ("second", "channels", parts(0.25)), ("mix", "channels", parts(0.25, first=1)),
    )),
    "rows of a function": ("pictures", ("norm",), (("act", "height", parts(0.5)),)),
    "in the middle": ("gpt", ("positions", "layers.1.mlp.norm", "layers.2.attention.add"), (
        (UP, "ffn", parts(0.25, first=1)),
    )),
    "tensor parallelism over stages": ("gpt", ("layers.1.mlp.norm",), mlp(0.25)),
    "the same over three": ("gpt", ("layers.1.mlp.norm", "layers.1.mlp.norm"), mlp(0.25, 0.5)),
    "heads over stages": ("gpt", ("layers.1.attention.norm",), heads(0.25)),
    "cut elsewhere behind": ("gpt", ("layers.1.mlp.norm",), (
        (UP, "ffn", parts(0.5)), (GELU, "ffn", parts(0.125)),
    )),
    "cut across behind": ("gpt", ("layers.1.mlp.norm", "layers.1.mlp.norm"), (
        (UP, "ffn", parts(0.25)), (GELU, "seq", parts(0.25, first=1)),
    )),
    "tokens of an embedding": ("gpt", ("positions",), (("layers.0.attention.norm", "seq", parts(0.25)),)),
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_slices_compute_what_one_process_computes(name: str, schedule: str) -> None:
    reference, last, cuts = CASES[name]
    own = model(reference)
    prepared = case(own, sliced_stages(own.graph, last, *cuts), schedule, optimizer="momentum", batch=4)
    records = on_threads(prepared)
    assert worst(records) <= EXACT
    assert all(record["left"] == 0 for record in records)
    assert sum(record["numerics"]["compared"] for record in records) >= 2 * len(own.graph.parameters)
    for found in wire_bytes(prepared, records):
        assert found.equal, found
        assert found.predicted_bytes > 0


@pytest.mark.parametrize(
    "name", ["linear, outputs, uneven", "two convolutions", "tensor parallelism over stages"]
)
def test_in_fp32(name: str) -> None:
    reference, last, cuts = CASES[name]
    own = model(reference, "fp32")
    prepared = case(own, sliced_stages(own.graph, last, *cuts), "1f1b", batch=4)
    records = on_threads(prepared)
    assert worst(records) <= SINGLE
    assert all(found.equal for found in wire_bytes(prepared, records))


def test_what_fills_a_message_up_is_counted_apart() -> None:
    """Two scalars of a part take 8 bytes, behind which the next tensor begins at 16."""
    reference, last, cuts = CASES["linear, outputs, uneven"]
    own = model(reference, "fp32")
    prepared = case(own, sliced_stages(own.graph, last, *cuts), "1f1b", batch=4)
    (found,) = wire_bytes(prepared, on_threads(prepared))
    messages = 2 * 4 * 2  # there and back, microbatches, steps
    assert found.predicted_bytes == messages * (8 + 2) * 4
    assert found.sent_bytes == found.predicted_bytes + messages * 8
    assert found.known == (("tensors of a message begin at a multiple of 16 bytes", messages * 8.0),)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_convolution_of_the_zoo(schedule: str) -> None:
    own = model("resnet")
    cut = ("stage1.0.conv2", "channels", parts(0.25))
    stages = sliced_stages(own.graph, ("stage1.0.relu1",), cut, size=2)
    prepared = case(own, stages, schedule, batch=4)
    records = on_threads(prepared)
    assert worst(records) <= EXACT
    assert all(found.equal for found in wire_bytes(prepared, records))


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("name", ["linear, outputs, three", "an output of the model"])
def test_a_backward_that_reads_other_weights(name: str, optimizer: str) -> None:
    """SpecTrain predicts the weights of a backward anew: parts and the whole have to be those."""
    reference, last, cuts = CASES[name]
    own = model(reference)
    prepared = case(own, sliced_stages(own.graph, last, *cuts), "spectrain", optimizer=optimizer, batch=4)
    assert worst(on_threads(prepared)) <= EXACT


@pytest.mark.parametrize("schedule", ["zb_h1", "zb_auto", "pipedream", "pipedream_2bw", "spectrain"])
def test_other_schedules(schedule: str) -> None:
    """Backwards in halves, and stages that read weights of different ages."""
    own = model("skip")
    stages = sliced_stages(own.graph, ("act",), ("second", "seq", parts(0.25)))
    prepared = case(own, stages, schedule, optimizer="momentum")
    assert worst(on_threads(prepared)) <= EXACT


@pytest.mark.parametrize("dim", ["ffn", "embed"])
def test_parts_of_one_layer_on_one_rank(dim: str) -> None:
    """Four stages take turns on two ranks; the first rank has the first and the third part."""
    own = model("gpt")
    ends = ("layers.1.mlp.norm",) * 2 + ("layers.2.mlp.norm",)
    stages = sliced_stages(own.graph, ends, (UP, dim, parts(0.25, 0.5)))
    placed = tuple(replace(stage, meshes=(Mesh(devices=(s % 2,)),)) for s, stage in enumerate(stages))
    prepared = case(own, placed, "interleaved_1f1b", batch=4)
    lanes = RankLanes(prepared.program)
    begun = [[x.task for items in lanes.plan(r).collectives for x in items] for r in range(2)]
    assert begun[0] == begun[1], "several groups of the same ranks share a channel"
    records = on_threads(prepared)
    assert worst(records) <= EXACT
    assert all(found.equal for found in wire_bytes(prepared, records))


@pytest.mark.parametrize("schedule", ["zb_v", "zb_auto"])
@pytest.mark.parametrize("dim", ["ffn", "embed"])
def test_parts_of_one_layer_on_a_way_there_and_back(dim: str, schedule: str) -> None:
    """Four stages in a V on two ranks, backwards in halves; the second rank has two parts."""
    own = model("gpt")
    ends = ("layers.1.mlp.norm",) * 2 + ("layers.2.mlp.norm",)
    stages = sliced_stages(own.graph, ends, (UP, dim, parts(0.25, 0.5)))
    placed = tuple(
        replace(stage, meshes=(Mesh(devices=(rank,)),))
        for stage, rank in zip(stages, (0, 1, 1, 0), strict=True)
    )
    prepared = case(own, placed, schedule, batch=4)
    records = on_threads(prepared)
    assert worst(records) <= EXACT
    assert all(found.equal for found in wire_bytes(prepared, records))


@pytest.mark.parametrize("dim", ["seq", "ffn"])
def test_replicas(dim: str) -> None:
    """Replicas of a part exchange its gradients, and all ranks those of what every part holds."""
    own = model("skip")
    stages = sliced_stages(own.graph, ("act",), ("second", dim, parts(0.25)), replicas=2, size=2)
    prepared = case(own, stages, "1f1b")
    records = on_threads(prepared)
    assert worst(records) <= EXACT
    assert {found.where: found.equal for found in wire_bytes(prepared, records)} == {
        BETWEEN: True, REPLICAS: True,
    }  # fmt: skip


def test_recomputation() -> None:
    own = model("gpt")
    cut = (UP, "ffn", parts(0.25))
    full = sliced_stages(own.graph, ("layers.1.mlp.norm",), cut, recompute="full")
    assert worst(on_threads(case(own, full, "1f1b", batch=4))) <= EXACT
    again = {name: Kept("full") for name in full[1].all_layers if own.graph.layer[name].block == "layers.1"}
    plain = sliced_stages(own.graph, ("layers.1.mlp.norm",), cut)
    prepared = case(own, (plain[0], with_kept(plain[1], again)), "1f1b", batch=4)
    assert len(prepared.case.again[1]) == 1
    assert worst(on_threads(prepared)) <= EXACT


def test_what_several_stages_hold_stays_equal() -> None:
    own, runs = model("skip"), list[Compute]()
    stages = sliced_stages(own.graph, ("act",), ("second", "ffn", parts(0.25)))
    on_threads(case(own, stages, "1f1b", optimizer="adam"), runs.append)
    first, second = (run.current["second.bias"] for run in runs)
    assert torch.equal(first, second)
    initial = runs[0].units.weights(runs[0].case.sections[0], torch.device("cpu"))
    assert not torch.equal(first, initial["second.bias"])
    (mine,), (others,) = ([n for n in run.current if n.startswith("second.weight")] for run in runs)
    assert (runs[0].current[mine].shape, runs[1].current[others].shape) == ((8, 2), (8, 6))


def test_a_specification_keeps_its_slices() -> None:
    own = model("gpt")
    stages = sliced_stages(own.graph, ("layers.1.mlp.norm",), *mlp(0.25))
    made = case(own, stages, "1f1b").case
    (read,) = as_read(RunSpec(ranks=2, cases=(made,))).cases
    assert isinstance(read.model, SlicedModel)
    assert (read.model, read.sections, read.flow_units) == (made.model, made.sections, made.flow_units)
    assert read.model.uncut == own.model
