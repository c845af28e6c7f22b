"""Exceptions of layers from what their stage keeps: what counts, how they are made, and how they move."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.strategies.exceptions import carried
from explorer.strategies.keeping import Kept, exceptions_of, keeping_words, kept_of, with_kept
from explorer.strategies.memory_choices import (
    LAYER_CHOICES,
    MEMORY_CHOICES,
    with_layer_choice,
    with_memory_choice,
)
from explorer.strategies.moves import move_boundary
from explorer.strategy import JobStrategy, Keeping, Mesh, Stage
from explorer.workload import default_workload

LAYERS = tuple(f"h.{block}.{name}" for block in range(2) for name in ("q", "attn", "up"))
PATTERNS = (*LAYERS, "h.0.*", "*.attn", "*")
RECOMPUTES = ("none", "selective", "full")

items = st.builds(
    Keeping,
    layers=st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=3).map(tuple),
    recompute=st.sampled_from(("", *RECOMPUTES, "output")),
    on=st.sampled_from(("device", "host")),
)
stages = st.builds(
    lambda keeping, recompute, offload: Stage(
        layers=LAYERS, meshes=(Mesh(devices=(0,)),), recompute=recompute, offload=offload, keeping=keeping
    ),
    st.lists(items, max_size=4).map(tuple),
    st.sampled_from(RECOMPUTES),
    st.sampled_from(((), ("activations",), ("optimizer", "activations"))),
)


def one_by_one(stage: Stage, layer: str) -> Kept:
    """What is kept of a layer, by walking through the exceptions from the last to the first."""
    recompute, on = stage.recompute, "host" if "activations" in stage.offload else "device"
    for item in reversed(stage.keeping):
        if item.covers(layer):
            recompute, on = item.recompute or recompute, item.on or on
    return Kept(recompute, on)


def kept_by_all(stage: Stage) -> dict[str, Kept]:
    return {name: kept_of(stage, name) for name in stage.all_layers}


@given(stages)
def test_the_first_that_says_something_counts(stage: Stage) -> None:
    assert kept_by_all(stage) == {name: one_by_one(stage, name) for name in LAYERS}


@given(stages)
def test_spelt_out_exceptions_are_the_same_and_say_nothing_twice(stage: Stage) -> None:
    made = with_kept(stage, exceptions_of(stage))
    assert kept_by_all(made) == kept_by_all(stage)
    assert with_kept(made, exceptions_of(made)) is made
    named = [name for item in made.keeping for name in item.layers]
    assert len(named) == len(set(named)) == len(exceptions_of(stage))
    assert len({(item.recompute, item.on) for item in made.keeping}) == len(made.keeping)
    for item in made.keeping:
        assert list(item.layers) == sorted(item.layers, key=LAYERS.index)
        assert item.recompute != stage.recompute


@given(stages, st.sets(st.sampled_from(LAYERS), min_size=1), st.sampled_from(LAYER_CHOICES))
def test_a_choice_is_had_by_its_layers_and_changes_no_other(stage: Stage, layers: set[str], choice) -> None:  # type: ignore[no-untyped-def]
    job = JobStrategy(stages=(stage,))
    all_had = all(choice.held_by(stage, name) for name in layers)
    (made,) = with_layer_choice(job, layers, choice.key).stages
    had = [choice.held_by(made, name) for name in sorted(layers)]
    assert not any(had) if choice.kind == "host" and all_had else all(had)
    for name in set(LAYERS) - layers:
        assert kept_of(made, name) == kept_of(stage, name)
    for name in layers:
        before, after = kept_of(stage, name), kept_of(made, name)
        assert before.recompute == after.recompute if choice.kind == "host" else before.on == after.on


@given(stages, st.sampled_from(MEMORY_CHOICES))
def test_a_choice_of_the_stage_leaves_its_exceptions_as_they_are(stage: Stage, choice) -> None:  # type: ignore[no-untyped-def]
    (made,) = with_memory_choice(JobStrategy(stages=(stage,)), (0,), choice.key).stages
    for name in exceptions_of(made):
        assert kept_of(made, name).recompute in (kept_of(stage, name).recompute, made.recompute)
    assert all(any((item.recompute, item.on)) for item in made.keeping)
    for item in made.keeping:
        assert item.recompute != made.recompute


def test_undoing_leaves_no_trace() -> None:
    job = JobStrategy(stages=(Stage(layers=LAYERS, meshes=(Mesh(devices=(0,)),)),))
    block = LAYERS[:3]
    full = with_layer_choice(job, block, "full")
    assert full.stages[0].keeping == (Keeping(layers=block, recompute="full"),)
    both = with_layer_choice(full, (*block, "h.1.q"), "to_host")
    assert both.stages[0].keeping == (
        Keeping(layers=block, recompute="full", on="host"),
        Keeping(layers=("h.1.q",), on="host"),
    )
    assert keeping_words(both.stages) == ["3 layers recomputed, to the host", "1 layer to the host"]
    assert with_layer_choice(with_layer_choice(both, (*block, "h.1.q"), "to_host"), block, "as_stage") == job


def test_what_is_not_there_is_refused() -> None:
    job = JobStrategy(stages=(Stage(layers=LAYERS, meshes=(Mesh(devices=(0,)),)),))
    with pytest.raises(InputError, match=r"no stage has the layer 'x' \(allowed: layers of the strategy"):
        with_layer_choice(job, ("x",), "full")
    with pytest.raises(InputError, match="no layer was chosen"):
        with_layer_choice(job, (), "full")
    with pytest.raises(InputError, match=r"unknown choice 'less' \(allowed: as_stage, keep, "):
        with_layer_choice(job, ("h.0.q",), "less")


def test_exceptions_go_with_their_layers() -> None:
    graph = explorer.load_model("gpt2-small")
    cluster = explorer.load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=16)
    job = explorer.uniform(graph, cluster, workload.job, stages=2, replicas=2, microbatches=4).job
    block = graph.layer[job.stages[0].layers[-1]].block
    last = [name for name in job.stages[0].layers if graph.layer[name].block == block]
    made = with_layer_choice(job, last, "full")
    moved = move_boundary(graph, made, 0, 1, -1)
    assert moved.stages[0].keeping == ()
    assert moved.stages[1].keeping == (Keeping(layers=tuple(last), recompute="full"),)
    full = made.with_stages((made.stages[0], replace(made.stages[1], recompute="full")))
    assert move_boundary(graph, full, 0, 1, -1).stages[1].keeping == ()  # its new stage does so anyway
    assert carried(graph, made, made.stages) == made.stages
