"""What cannot run in slices is refused in one line before anything starts, and plans keep those that can."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from explorer.base.errors import InputError, PlanError
from explorer.export import export
from explorer.models import load_model
from explorer.plan import Resolved
from explorer.run import make_experiment
from explorer.run.cases.build import prepare
from explorer.run.cases.slices import layer_slices
from explorer.run.lane_layout import LaneLayout
from explorer.run.own.own_scale import own_scaled
from explorer.run.own.own_source import OwnSource
from explorer.run.own.planned_slices import stage_members
from explorer.run.own.sliced_model import SlicedModel
from explorer.run.own.slices_check import require_slices
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.spec import read_spec
from explorer.strategy import ACTIVATIONS, JobStrategy, Slice, Stage
from explorer.workload import Job
from tests.run.own.own_cases import FACTORIES, GPT, case, small_resnet, source
from tests.run.own.slice_cases import Cut, parts, sliced_stages, with_cut
from tests.run.own.test_own_scale import STACK, plan
from tests.run.programs import CLUSTER
from tests.run.sharded import plans as sharded_plans

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def gpt() -> OwnSource:
    return source(*GPT)


@pytest.fixture(scope="module")
def skip() -> OwnSource:
    return source(f"{FACTORIES}:skip")


@pytest.fixture(scope="module")
def stack() -> Resolved:
    return plan(STACK, stages=4, microbatches=4)


def strategy(own: OwnSource, layer: str, dim: str, at: float) -> JobStrategy:
    """A layer in two parts, with all others on the first of two stages."""
    last = [item.name for item in own.graph.layers if item.name != layer][-1]
    stages = sliced_stages(own.graph, (last,), (layer, dim, parts(at)), size=2)
    return JobStrategy(stages=stages, schedule="1f1b", job="j")


QKV, SCORES = "layers.0.attention.qkv", "layers.0.attention.attention"


@pytest.mark.parametrize(("layer", "dim", "at", "said"), [
    ("layers.0.attention.norm", "embed", 0.5, "layer_norm normalises over an axis of which"),
    (SCORES, "seq", 0.5, "needs all positions and all of a head"),
    (SCORES, "head", 0.5, "needs all positions and all of a head"),
    ("layers.0.mlp.gelu", "ffn", 0.3, "cannot be cut at 0.3: 'layers.0.mlp.up' has 128 places"),
    ("embed", "vocab", 0.5, "shares 'embed.weight', which is cut, with 'head'"),
    ("loss", "vocab", 0.5, "the model returns 'loss' as one number"),
])  # fmt: skip
def test_layers_that_have_no_such_parts(gpt: OwnSource, layer: str, dim: str, at: float, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        require_slices(gpt.model, gpt.graph, strategy(gpt, layer, dim, at))
    assert f"layer {layer!r}" in str(caught.value)
    assert "--engine likeness" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fractions_are_as_exact_as_plans_have_them() -> None:
    """12345 of 50257 tokens in nine digits is whole; in seven it is not, and the line shows it in full."""
    graph = load_model("gpt", settings={"layers": "1", "embed": "8", "heads": "2", "vocab": "50257",
                                        "tied": "no"}, sequence_length=8)  # fmt: skip
    last = ("norm",)
    for at in (round(12345 / 50257, 9), round(1 / 50257, 9), 12345 / 50257):
        stages = sliced_stages(graph, last, ("head", "vocab", parts(at)))
        _, (first, second) = layer_slices(graph, JobStrategy(stages=stages, schedule="1f1b", job="j"))
        place = round(at * 50257)
        assert first.block("head.weight")[0][1:] == (0, place)
        assert second.block("head.weight")[0][1:] == (place, 50257)
    for at in (12345.5 / 50257, round(12345 / 50257, 7)):
        stages = sliced_stages(graph, last, ("head", "vocab", parts(at)))
        with pytest.raises(InputError, match=re.escape(f"cannot be cut at {at!r}: ")):
            layer_slices(graph, JobStrategy(stages=stages, schedule="1f1b", job="j"))


def test_windows_are_not_cut_along_rows_without_their_neighbours() -> None:
    """The operators would take the rows: only their numbers show that some were missing."""
    own = small_resnet("fp64")
    with pytest.raises(InputError, match=r"its parts give another .* than the whole"):
        require_slices(own.model, own.graph, strategy(own, "stage1.0.conv2", "height", 0.5))
    with pytest.raises(InputError, match="its operators take no such parts"):
        require_slices(own.model, own.graph, strategy(own, "pool", "height_2", 0.5))
    with pytest.raises(InputError, match="batch_norm goes over an axis"):
        require_slices(own.model, own.graph, strategy(own, "stage1.0.bn2", "height", 0.5))
    for layer, dim in (("stage1.0.conv3", "height"), ("pool", "channels"), ("conv1", "channels")):
        require_slices(own.model, own.graph, strategy(own, layer, dim, 0.5))


@pytest.mark.parametrize(("layer", "dim"), [
    (QKV, "heads"), (QKV, "embed"), (QKV, "seq"), (SCORES, "heads"), ("embed", "seq"), ("positions", "seq"),
    ("layers.0.mlp.down", "ffn"),
])  # fmt: skip
def test_layers_that_have(gpt: OwnSource, layer: str, dim: str) -> None:
    require_slices(gpt.model, gpt.graph, strategy(gpt, layer, dim, 0.25))


def test_a_convolution_is_not_cut_along_what_its_graph_does_not_split() -> None:
    own = small_resnet("fp64")
    cut: Cut = ("stage1.0.conv2", "height", parts(0.5))
    with pytest.raises(PlanError, match="conv2 is cut along"):
        case(own, sliced_stages(own.graph, ("stage1.0.relu1",), cut), "1f1b", batch=4)


def staged(own: OwnSource, dim: str, **changes: object) -> tuple[Stage, ...]:
    stages = sliced_stages(own.graph, ("act",), ("second", dim, parts(0.5)), replicas=2, size=2)
    return tuple(replace(stage, **changes) for stage in stages)  # type: ignore[arg-type]


@pytest.mark.parametrize(("changes", "said"), [
    ({"zero": 1}, "beside ZeRO"),
    ({"offload": (ACTIVATIONS,)}, "beside activations on the host"),
])  # fmt: skip
def test_what_slices_do_not_run_beside(skip: OwnSource, changes: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        case(skip, staged(skip, "seq", **changes), "1f1b")
    assert "layer 'second', cut into slices, cannot be run yet" in str(caught.value)
    assert "whole layers" in str(caught.value)


def test_versions_of_what_several_stages_hold_whole(skip: OwnSource) -> None:
    """Stages of PipeDream read a bias that they share at different ages: no single process has such a one."""
    with pytest.raises(
        InputError, match=re.escape("'second.bias' is held whole by several stages")
    ) as caught:
        case(skip, sliced_stages(skip.graph, ("act",), ("second", "ffn", parts(0.5))), "pipedream")
    assert "a schedule with flushes" in str(caught.value)


def test_two_parts_of_a_layer_in_one_stage(skip: OwnSource) -> None:
    first, second = sliced_stages(skip.graph, ("act",), ("second", "seq", {0: (0.0, 0.5), 1: (0.75, 1.0)}))
    more = Slice(layer="second", dim="seq", start=0.5, stop=0.75)
    with pytest.raises(InputError, match="stage 1 has two slices of layer 'second'"):
        case(skip, (first, replace(second, slices=(more, *second.slices))), "1f1b")


def test_a_loss_is_no_sum_over_classes(gpt: OwnSource) -> None:
    graph = load_model(GPT[0], settings=GPT[1], sequence_length=GPT[2])
    with pytest.raises(InputError, match="the loss 'loss' is no sum of its parts along 'vocab'"):
        layer_slices(graph, strategy(gpt, "loss", "vocab", 0.5))


def test_stand_ins_run_no_slices() -> None:
    graph = sharded_plans.GRAPH
    stages = sliced_stages(graph, ("layers.1.norm2",), ("layers.1.up", "ffn", parts(0.5)))
    job = Job(global_batch=4, precision="fp32", optimizer="sgd")
    made = JobStrategy(stages=stages, schedule="1f1b")
    with pytest.raises(InputError, match="only a model's own layers run in slices"):
        prepare("x", graph, CLUSTER, job, made, steps=1, model=LayoutModel(graph=graph))


# -- plans ----------------------------------------------------------------------------------------


def test_a_plan_keeps_its_slices(stack: Resolved) -> None:
    down: Cut = ("blocks.5.down", "ffn", parts(0.25, first=1))
    cut = with_cut(stack, down, moved={"blocks.5.residual": 2})
    scaled, _ = own_scaled(cut, ranks=4)
    found = [
        (part.layer, part.dim, part.start, part.stop) for s in scaled.strategy.stages for part in s.slices
    ]
    assert found == [("blocks.5.down", "ffn", 0.0, 0.25), ("blocks.5.down", "ffn", 0.25, 1.0)]
    assert "layers cut over stages: blocks.5.down" in scaled.validated
    assert not any("cut over stages" in text for text in scaled.not_validated)
    made = make_experiment(cut, ranks=4, rounds=1)
    assert (made.engine, made.stand_ins) == ("layers", "")
    sliced = {case.name for case in made.spec.cases if isinstance(case.model, SlicedModel)}
    assert sliced == {"numerics", "bytes", "strategy"}


def test_stages_on_one_rank_join_their_parts(stack: Resolved) -> None:
    last: Cut = ("head", "classes", {2: (0.0, 0.25), 3: (0.25, 1.0)})
    scaled, _ = own_scaled(with_cut(stack, last), ranks=2)
    assert scaled.groups == ((0, 1), (2, 3))
    assert "head" in scaled.strategy.stages[1].layers
    assert not any(stage.slices for stage in scaled.strategy.stages)


def test_parts_with_others_between_them(stack: Resolved) -> None:
    names = {layer.name: layer.name for layer in stack.graph.layers}
    stages = with_cut(stack, ("head", "classes", parts(0.25, 0.5, first=1))).plan.strategy.job.stages
    layers, slices = stage_members(stack.graph, names, stages[1:3])
    assert "head" not in layers
    assert [(part.start, part.stop) for part in slices] == [(0.0, 0.5)]
    with pytest.raises(InputError, match=re.escape("parts of layer 'head' up to 0.25 and from 0.5 on")):
        stage_members(stack.graph, names, [stages[1], stages[3]])


@pytest.mark.parametrize(("cut", "said"), [
    (("head", "classes", {2: (0.0, 0.3), 3: (0.3, 1.0)}), "layer 'head' cannot be cut at 0.3"),
    (("head", "nothing", parts(0.5, first=2)), "layer 'head' of the module has no dimension 'nothing'"),
])  # fmt: skip
def test_refusals_of_plans_are_one_line_with_the_way_out(stack: Resolved, cut: Cut, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        own_scaled(with_cut(stack, cut), ranks=4)
    assert "--engine likeness" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lanes_of_several_ranks_run_no_slices(stack: Resolved) -> None:
    cut = with_cut(stack, ("head", "classes", parts(0.25, first=2)))
    wide = LaneLayout(layout=(("ffn", "tensor"),), axes=(("tensor", 2),))
    with pytest.raises(InputError, match="do not run yet on lanes of several ranks"):
        own_scaled(cut, ranks=2, lane=wide)


def test_a_plan_whose_slices_cannot_run_gives_stand_ins_that_say_why(stack: Resolved) -> None:
    made = make_experiment(with_cut(stack, ("head", "classes", {2: (0.0, 0.3), 3: (0.3, 1.0)})), ranks=4)
    assert made.engine == "likeness"
    assert "cannot be cut at 0.3" in made.stand_ins


def test_the_zoo_names_its_dimensions_itself() -> None:
    """The plan says `out_channels`, where a capture sees `channels`."""
    reference, settings = "resnet50", {"image": "72", "width": "4", "classes": "10"}
    graph = load_model(reference, settings=settings)
    assert "out_channels" in {dim.name for dim in graph.layer["stage3.0.conv2"].dims}
    whole = plan(reference, settings, stages=2, microbatches=4)
    before = {name: s for s, stage in enumerate(whole.plan.strategy.job.stages) for name in stage.layers}
    layer = next(
        item.name for item in reversed(graph.layers) if item.kind == "conv" and before[item.name] == 0
    )
    later = [name for name in graph.index if before[name] == 0 and graph.index[name] > graph.index[layer]]
    cut = with_cut(whole, (layer, "out_channels", parts(0.25)), moved=dict.fromkeys(later, 1))
    scaled, _ = own_scaled(cut, ranks=2)
    assert [part.dim for s in scaled.strategy.stages for part in s.slices] == ["out_channels"] * 2


def test_torchrun_takes_slices_along(tmp_path: Path) -> None:
    """A model of the zoo travels by its name, and so do its slices; stand-ins would have whole layers."""
    whole = plan(GPT[0], GPT[1], 8, stages=2, microbatches=4)
    at = whole.plan.strategy.job.stages[0].layers[-1]
    cut = with_cut(whole, (at, "embed", parts(0.25)))
    export(cut, "torchrun", tmp_path)
    spec = read_spec(tmp_path / "spec.json")
    (numerics,) = (case for case in spec.cases if case.name == "numerics")
    assert isinstance(numerics.model, SlicedModel)
    assert [numerics.model.layers[item.layer] for item in numerics.model.slices] == [at, at]
    assert "a layer cut over several stages" in (tmp_path / "run.sh").read_text()
