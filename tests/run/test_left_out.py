"""What a real run cannot tell about is said: every field is carried over, or named where a plan uses it."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from explorer.graph import LayerGraph, Parameter
from explorer.plan import load_plan
from explorer.run.cases.left_out import CARRIED, LEFT_OUT, left_out
from explorer.run.cases.likeness import SMALL, scale
from explorer.strategy import Boundary, Keeping
from tests.fields.samples import Sample, decoder, one_stage, pipeline, samples, with_job, with_stages
from tests.fields.test_every_field import CLASSES, PLANS_OF_A_STRATEGY
from tests.test_plans import PLANS

SAID = {field for item in LEFT_OUT for field in item.fields}
OF_THE_MODEL = {"name", "trainable", "density"}
"""Fields of parameters that are no part of the layers, for all of which small ones stand."""


def test_every_field_is_carried_or_said() -> None:
    every = {
        f"{name}.{field.name}"
        for name in PLANS_OF_A_STRATEGY
        for field in fields(CLASSES[name])
        if field.init
    }
    every |= {f"Parameter.{field.name}" for field in fields(Parameter) if field.name in OF_THE_MODEL}
    assert every - SAID - set(CARRIED) == set()
    assert SAID - every == {"Cluster.name"}
    assert set(CARRIED) <= every
    # recomputation is both: the full one is run, the selective one said
    assert SAID & set(CARRIED) == set()


def tied() -> Sample:
    """A head that uses the embedding's table, two stages later."""
    base = pipeline()
    graph = base.graph
    assert isinstance(graph, LayerGraph)
    table = graph.layer["embed"].parameters[0]
    layers = tuple(
        replace(item, parameters=(replace(item.parameters[0], name=table.name),))
        if item.name == "head"
        else item
        for item in graph.layers
    )
    kept = {use.name for item in layers for use in item.parameters}
    parameters = tuple(item for item in graph.parameters if item.name in kept)
    return base._replace(graph=replace(graph, layers=layers, parameters=parameters))


def frozen() -> Sample:
    base = one_stage(decoder(1))
    assert isinstance(base.graph, LayerGraph)
    first, *rest = base.graph.parameters
    return base._replace(graph=replace(base.graph, parameters=(replace(first, trainable=False), *rest)))


def with_job_fields(**changes: object) -> Sample:
    base = pipeline()
    job = replace(base.strategy.job, **changes)  # type: ignore[arg-type]
    return base._replace(strategy=base.strategy.with_job(job))


USES: dict[str, tuple[Sample, str]] = {
    "lanes": (pipeline(), "tensor parallelism: 2 devices of a lane in the plan, 1 here"),
    "own meshes": (samples()["sharded"], "wide parallelism: 4 devices of a lane"),
    "own layouts": (samples()["sharded"], "layers laid out apart from their stage: head"),
    "slices": (samples()["cut"], "layers cut over stages: layers.0.mlp.up"),
    "density": (samples()["pruned"], "pruned weights"),
    "offload": (samples()["offloaded"], "offload to host memory: optimizer, activations"),
    "overlap": (samples()["tiles"], "collectives of a lane beside its work: tensor by tiles"),
    "selective": (with_stages(pipeline(), recompute="selective"), "selective recomputation"),
    "blocks": (
        with_stages(pipeline(), keeping=(Keeping(layers=("layers.0.*",), recompute="full"),)),
        "blocks recomputed otherwise than their stage: layers.0",
    ),
    "single layers": (
        with_stages(pipeline(), keeping=(Keeping(layers=("layers.0.mlp.up",), recompute="full"),)),
        "layers recomputed otherwise than their block: layers.0.mlp.up",
    ),
    "hosted layers": (
        with_stages(pipeline(), keeping=(Keeping(layers=("layers.0.mlp.up",), on="host"),)),
        "activations of single layers on the host: layers.0.mlp.up",
    ),
    "transfers": (with_job_fields(transfers="best"), "transfers between stages: best in the plan"),
    "checkpoints": (with_job_fields(checkpoint_period_s=60.0), "checkpoints every 60 s"),
    "servers": (samples()["sparse"], "gradients reduced otherwise than by an all-reduce"),
    "buckets": (samples()["buckets"], "gradients reduced in buckets"),
    "tied": (tied(), "weights that stages share: embed"),
    "frozen": (frozen(), "frozen weights"),
    "sparse": (samples()["sparse"], "tables of which a step touches few rows"),
    "precision": (pipeline(), "precision: fp16 in the plan, fp32 here"),
    "gradients": (
        with_job(pipeline(), gradient_precision="bf16"), "precision of gradients: bf16 in the plan, fp32 here"
    ),
    "inputs": (with_job(pipeline(), input_seconds_per_sample=0.5), "the input pipeline: 0.5 s a sample"),
    "framework": (samples()["under a framework"], "framework: megatron-2021 in the plan, this package's own"),
    "tokens": (pipeline(), "tokens of a sample: 64 in the plan, few here"),
    "moves": (
        with_job_fields(schedule="optpipe", options=(("offload", True),)), "moved to the host for want"
    ),
    "devices": (pipeline(), "devices and links: those of two nodes in the plan, this machine's here"),
    "microbatches": (pipeline(), "samples of a microbatch: 4 in the plan"),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_what_is_dropped_stands_under_not_validated(name: str) -> None:
    sample, words = USES[name]
    graph, cluster, workload, strategy = sample
    assert isinstance(graph, LayerGraph)
    found = scale(graph, cluster, workload.job, strategy.job, ranks=2, size=SMALL)
    assert [text for text in found.not_validated if words in text]
    assert not [text for text in found.validated if words in text]


@pytest.mark.parametrize(("name", "level"), [("replicas", 2), ("weights sharded", 3)])
def test_zero_is_carried_where_replicas_are_left(name: str, level: int) -> None:
    graph, cluster, workload, strategy = samples()[name]
    assert isinstance(graph, LayerGraph)
    lanes = {d for stage in strategy.job.stages for mesh in stage.meshes for d in mesh.devices}
    several = scale(graph, cluster, workload.job, strategy.job, ranks=len(lanes), size=SMALL)
    assert any(text.startswith(f"ZeRO level {level}") for text in several.validated)
    assert {stage.zero for stage in several.strategy.stages} == {level}
    alone = scale(graph, cluster, workload.job, strategy.job, ranks=1, size=SMALL)
    assert any(text.startswith(f"ZeRO level {level}") for text in alone.not_validated)
    assert {stage.zero for stage in alone.strategy.stages} == {0}


def test_a_plain_plan_has_little_to_say() -> None:
    plain = with_job(one_stage(decoder(1)), precision="fp32", sequence_length=0)
    graph, cluster, workload, strategy = plain
    assert isinstance(graph, LayerGraph)
    assert [text.partition(":")[0] for text in left_out(graph, cluster, workload.job, strategy.job)] == [
        "samples of a microbatch", "devices and links"
    ]  # fmt: skip


def test_codecs_would_be_said() -> None:
    sample = with_job_fields(boundaries=(Boundary(source=0, target=1, codec="fp16"),))
    assert isinstance(sample.graph, LayerGraph)
    said = left_out(sample.graph, sample.cluster, sample.workload.job, sample.strategy.job)
    assert "codecs between stages" in said


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_each_is_said_once(path: object) -> None:
    plan = load_plan(path)  # type: ignore[arg-type]
    if len(plan.plan.strategy.jobs) == 1:
        said = left_out(plan.graph, plan.cluster, plan.plan.workload.job, plan.plan.strategy.job)
        assert len(said) == len(set(said))
