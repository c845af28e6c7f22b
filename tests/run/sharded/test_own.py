"""Models' own layers, and their weights, cut over ranks: gradients and bytes are what they should be."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.run import make_experiment
from explorer.run.cases.likeness import SMALL
from explorer.run.cases.sharded_likeness import own_on_lanes, sharded_scale
from explorer.run.judging.wire_bytes import INSIDE
from explorer.run.model import ModelSpec
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import own_scaled
from explorer.run.sharded.execution import COMPUTE
from explorer.run.sharded.kinds import look_up
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.sharded.own_check import require_pieces
from explorer.run.spec import from_data, to_data
from explorer.strategy import REPLICA, Mesh
from tests.run.own.own_cases import FACTORIES, GPT, configuration, small_resnet, source
from tests.run.own.test_own_scale import plan
from tests.run.sharded.check_own import CONVOLUTIONS, LANES, TENSOR, Way, laid_out, model
from tests.run.sharded.ranks import on_ranks

Results = list[list[dict[str, Any]]]
BOUND = {"fp64": 1e-10, "fp32": 1e-5}


def check(results: Results, *, exact: bool = False) -> None:
    """Gradients and weights of one process, nothing held at the end, and the bytes that are predicted.

    `exact`: bytes inside lanes in fp64, too.
    """
    assert results
    for rows in zip(*results, strict=True):
        predicted: dict[str, float] = {}
        sent: dict[str, float] = defaultdict(float)
        for row in rows:
            bound = BOUND[row["dtype"]]
            assert row["numerics"]["gradient"] <= bound, row
            assert row["numerics"]["weight"] <= bound, row
            assert row["numerics"]["compared"] > 0, row
            assert row["moved"] > 0, row
            assert (row["kept"], row["left"]) == (0, 0), row
            for where, (said, count) in row["bytes"].items():
                predicted[where] = said
                sent[where] = count  # of all ranks together
        assert predicted, rows[0]["name"]
        for where, count in predicted.items():
            # statistics inside lanes are counted in fp32
            if where != INSIDE or rows[0]["dtype"] == "fp32" or exact:
                assert abs(count - sent[where]) < 1, (rows[0]["name"], where, count, sent[where])
            assert sent[where] > 0, (rows[0]["name"], where)


@pytest.mark.parametrize("ranks", [2, 4])
def test_weights_are_sharded_over_replicas(ranks: int) -> None:
    check(on_ranks(ranks, "tests.run.sharded.check_own:small"))


@pytest.mark.parametrize("ranks", [2, 4])
def test_layers_are_cut_over_the_ranks_of_a_lane(ranks: int) -> None:
    check(on_ranks(ranks, "tests.run.sharded.check_own:lanes"))


@pytest.mark.parametrize("ranks", [2, 4])
def test_collectives_of_lanes_go_in_tiles_beside_products(ranks: int) -> None:
    """With sequence parallelism both ways of both collectives, without it sums of results and gradients."""
    results = on_ranks(ranks, "tests.run.sharded.check_own:tiles")
    check(results)
    for rows in zip(*results, strict=True):
        for row in rows:
            ops = {"all_gather", "reduce_scatter"} if row["sequence"] else {"all_reduce"}
            assert set(row["swapped"]) == ops, row
            assert min(row["swapped"].values()) > 0, row


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_convolutions_are_cut_by_channels_and_by_rows(ranks: int) -> None:
    """A ResNet-50 under the plan's names: norms by channel, strides, rows that do not divide, both ways."""
    check(on_ranks(ranks, "tests.run.sharded.check_own:convolutions"), exact=True)


def test_a_resnet_takes_over_the_names_of_the_plan() -> None:
    for way in CONVOLUTIONS[:2]:
        own = laid_out(way)
        require_pieces(own.model, 2)
        conv = own.graph.layer["stage2.0.conv2"]
        assert conv.reads[0].dims == ("in_channels", "height", "width")
        assert conv.writes[0].dims == ("out_channels", "height", "width")
        sizes = {dim.name: dim.size for dim in conv.dims}
        assert (sizes["height"], sizes["out_channels"]) == (9, 8), "what it writes"
        assert own.graph.layer["mean"].kind == "pool"


def test_a_norm_by_channel_of_a_capture_is_not_cut_over_its_places() -> None:
    own = small_resnet("fp64")
    norm = own.graph.layer["bn1"]
    assert {dim.name for dim in norm.dims if not dim.splittable} == {"height", "width"}


@pytest.mark.parametrize("way", LANES, ids=lambda way: way.name)
def test_every_layer_is_tried_on_its_pieces_first(way: Way) -> None:
    own = model(way.model, way.dtype).model
    require_pieces(replace(own, layout=way.layout, axes=way.axes), 2)


def test_what_would_mix_pieces_is_refused_in_one_line() -> None:
    own = source(f"{FACTORIES}:turned").model
    with pytest.raises(InputError, match="layer 'act' cannot be cut so: flip goes over an axis"):
        require_pieces(replace(own, layout=(("ffn", "tensor"),), axes=(("tensor", 2),)), 2)


def test_a_kind_that_computes_something_else_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    own = model("gpt", "fp64").model
    monkeypatch.setitem(COMPUTE, "embedding", lambda *given: 1.001 * look_up(*given))
    with pytest.raises(InputError, match="computes something else than layers of kind 'embedding' do"):
        require_pieces(replace(own, layout=(("vocab", "tensor"),), axes=(("tensor", 2),)), 2)


def test_a_plan_of_wide_lanes_runs_the_own_layers_or_says_first_why_not() -> None:
    resolved = plan(*GPT, tensor=2, microbatches=4)
    made = make_experiment(resolved, engine="layers", ranks=2, rounds=1)
    assert {case.lane_ranks for case in made.spec.cases if case.name != "baseline"} == {2}
    assert not made.stand_ins
    turned = plan(f"{FACTORIES}:turned", microbatches=4)
    job = turned.plan.strategy.job
    (stage,) = job.stages
    wide = replace(stage, meshes=(Mesh(devices=(0, 1), axes=TENSOR),), layout=(("ffn", "tensor"),))
    turned = replace(
        turned, plan=replace(turned.plan, strategy=turned.plan.strategy.with_job(job.with_stages([wide])))
    )
    with pytest.raises(InputError, match="flip goes over an axis"):
        make_experiment(turned, engine="layers", ranks=2, rounds=1)
    assert "flip goes over an axis" in make_experiment(turned, ranks=2, rounds=1).stand_ins


def test_a_plan_in_tiles_runs_in_tiles_and_says_so() -> None:
    resolved = plan(*GPT, tensor=2, microbatches=4)
    job = resolved.plan.strategy.job
    for how, tiles in (("tiles", ("tensor",)), ("weight_gradient", ())):
        stages = [replace(stage, overlap=(("tensor", how),)) for stage in job.stages]
        strategy = resolved.plan.strategy.with_job(job.with_stages(stages))
        made = replace(resolved, plan=replace(resolved.plan, strategy=strategy))
        scaled, _ = own_on_lanes(made, ranks=2, most_s=inf)
        small, _ = sharded_scale(
            made.graph, made.cluster, made.plan.workload.job, strategy.job, ranks=2, size=SMALL
        )
        for found in (scaled, small):
            assert isinstance(found.model, OwnModel | LayoutModel)
            assert found.model.tiles == tiles
            assert {s.overlap for s in found.strategy.stages} == {tuple((a, how) for a in tiles)}
            beside = any(text.startswith("collectives of a lane beside") for text in found.not_validated)
            assert beside == (not tiles)
            assert ("collectives along tensor in tiles beside products" in found.validated) == bool(tiles)


def test_experts_over_replicas_run_on_the_replicas_that_there_are() -> None:
    resolved = plan(configuration("mixtral"), tokens=8, microbatches=4, expert=4, replicas=4, zero=3)
    for ranks in (2, 4):
        scaled, _ = own_scaled(resolved, ranks=ranks)
        assert isinstance(scaled.model, OwnModel)
        assert scaled.model.mesh_axes == (("expert", ranks),)
        assert {
            mesh.axes for s in scaled.strategy.stages for item in s.shardings for mesh in item.meshes
        } == {((REPLICA, 1), ("expert", ranks))}
        assert not any("laid out apart" in text for text in scaled.not_validated)
        lost = "expert parallelism over replicas: 4 devices in the plan, 2 here" in scaled.not_validated
        assert lost == (ranks == 2)
        assert ("expert parallelism over replicas: 4" in scaled.validated) == (ranks == 4)


def test_experts_over_fewer_replicas_than_there_are_stand_there_several_times() -> None:
    resolved = plan(configuration("mixtral"), tokens=8, microbatches=2, expert=2, replicas=8)
    scaled, _ = own_scaled(resolved, ranks=8)
    assert isinstance(scaled.model, OwnModel)
    assert scaled.model.mesh_axes == (("expert", 2),)
    (stage,) = scaled.strategy.stages
    assert {mesh.axes for item in stage.shardings for mesh in item.meshes} == {((REPLICA, 4), ("expert", 2))}
    assert "expert parallelism over replicas: 2" in scaled.validated


def test_experts_of_which_replicas_cannot_hold_equal_parts_stay_whole() -> None:
    resolved = plan(configuration("three experts"), tokens=8, microbatches=2, expert=2, replicas=2)
    scaled, _ = own_scaled(resolved, ranks=2)
    assert isinstance(scaled.model, OwnModel)
    assert not scaled.model.spread
    assert any("laid out apart" in text for text in scaled.not_validated)


def test_experts_go_over_whole_lanes_of_several_ranks() -> None:
    """Of 2 replicas of 2 ranks all 4 share 4 experts; of one lane both, which is said."""
    resolved = plan(configuration("mixtral"), tokens=8, microbatches=4, tensor=2, expert=4, replicas=2)
    for ranks in (2, 4):
        scaled, _ = own_on_lanes(resolved, ranks=ranks, most_s=inf)
        assert isinstance(scaled.model, OwnModel)
        assert scaled.model.mesh_axes == (("tensor", 2), ("expert", ranks))
        (stage,) = scaled.strategy.stages
        assert [mesh.axes for mesh in stage.meshes] == [((REPLICA, ranks // 2), ("tensor", 2))]
        assert [mesh.axes for item in stage.shardings for mesh in item.meshes] == [
            ((REPLICA, 1), ("expert", ranks))
        ]
        less = "expert parallelism over replicas: 4 devices in the plan, 2 here" in scaled.not_validated
        assert less == (ranks == 2)
        assert not any("laid out apart" in text for text in scaled.not_validated)


def test_experts_that_lanes_cannot_hold_in_equal_parts_are_refused_there() -> None:
    resolved = plan(configuration("three experts"), tokens=8, microbatches=4, tensor=2, expert=2, replicas=2)
    with pytest.raises(InputError, match="run over devices of several lanes"):
        own_on_lanes(resolved, ranks=4, most_s=inf)


@pytest.mark.parametrize(
    ("shape", "ranks", "axes"),
    [
        ({"expert": 4, "replicas": 4}, 2, (("expert", 2),)),
        ({"expert": 4, "replicas": 4}, 4, (("expert", 4),)),
        ({"expert": 2, "replicas": 2, "stages": 2}, 4, (("expert", 2),)),
        ({"expert": 4, "replicas": 2, "tensor": 2}, 4, (("tensor", 2), ("expert", 4))),
    ],
)
def test_stand_ins_share_experts_as_the_plan_does(
    shape: dict[str, int], ranks: int, axes: tuple[tuple[str, int], ...]
) -> None:
    resolved = plan("mixtral-8x7b", tokens=8, microbatches=4, **shape)
    made = make_experiment(resolved, engine="likeness", ranks=ranks, rounds=1)
    assert made.stand_ins.startswith("the plan has l")
    models = {case.name: case.model for case in made.spec.cases}
    stand_in = models["strategy"]
    assert isinstance(stand_in, LayoutModel)
    assert stand_in.mesh_axes == axes
    assert from_data(to_data(made.spec)) == made.spec
    scaled, _ = sharded_scale(
        resolved.graph, resolved.cluster, resolved.plan.workload.job, resolved.plan.strategy.job,
        ranks=ranks, size=SMALL,
    )  # fmt: skip
    assert not any("laid out apart" in text for text in scaled.not_validated)
    said = f"expert parallelism over replicas: {shape['expert']}"
    assert (said in scaled.validated) == (dict(axes)["expert"] == shape["expert"])


def test_stand_ins_on_one_replica_say_that_experts_are_not_shared() -> None:
    resolved = plan("mixtral-8x7b", tokens=8, microbatches=4, expert=2, replicas=2, stages=2)
    made = make_experiment(resolved, engine="likeness", ranks=2, rounds=1)
    assert {type(case.model) for case in made.spec.cases} == {ModelSpec}
    with pytest.raises(InputError, match="run over devices of several lanes"):
        sharded_scale(
            resolved.graph, resolved.cluster, resolved.plan.workload.job, resolved.plan.strategy.job,
            ranks=2, size=SMALL,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "ranks"),
    [
        ("models_of_transformers", 2),
        ("models_of_transformers", 4),
        ("lanes_of_transformers", 2),
        ("lanes_of_transformers", 4),
        ("lanes_of_transformers", 8),
        ("full_width_models", 2),  # four of them do not fit 24 GB
        ("full_width_lanes", 2),
    ],
)
def test_larger_models(function: str, ranks: int) -> None:
    check(on_ranks(ranks, f"tests.run.sharded.check_own:{function}"))
