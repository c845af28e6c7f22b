"""Plans in words: no choice differs in silence, and what is equal is not said."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from explorer.strategies.differences import compare_strategies
from explorer.strategy import (
    Boundary,
    JobStrategy,
    Keeping,
    Mesh,
    Sharding,
    Slice,
    Stage,
    Sync,
    UpdateChoice,
)

FIRST = Stage(
    layers=("a", "b"), meshes=(Mesh(devices=(0, 1, 2, 3)),), microbatch_samples=8,
    slices=(Slice(layer="s", dim="x", start=0.0, stop=0.5),),
)  # fmt: skip
SECOND = Stage(
    layers=("c",), meshes=(Mesh(devices=(4, 5)),), microbatch_samples=8,
    slices=(Slice(layer="s", dim="x", start=0.5, stop=1.0),),
)  # fmt: skip
JOB = JobStrategy(stages=(FIRST, SECOND))
OF_A_STAGE: dict[str, Any] = {
    "layers": ("a",),
    "meshes": (Mesh(devices=(0, 1, 2, 3), axes=(("replica", 2), ("tensor", 2))),),
    "microbatch_samples": 4,
    "slices": (),
    "replicas": "round_robin",
    "shares": (1.0, 1.0, 1.0, 2.0),
    "layout": (("embed", "tensor"),),
    "axis_shares": (("tensor", (1.0, 2.0)),),
    "shardings": (Sharding(layers=("a",), meshes=(Mesh(devices=(0,)),)),),
    "density": 0.5,
    "offload": ("optimizer",),
    "overlap": (("tensor", "ring"),),
    "recompute": "full",
    "keeping": (Keeping(layers=("a",), on="host"),),
    "zero": 3,
    "zero_replicas": 2,
    "reshard": "after_forward",
}
OF_A_JOB: dict[str, Any] = {
    "schedule": "gpipe",
    "options": (("chunks", 2),),
    "sync": (Sync(parameters=("*",), bucket_bytes=1e6),),
    "updates": (UpdateChoice(rule="k_step"),),
    "boundaries": (Boundary(source=0, target=1, codec="fp16"),),
    "transfers": "blocking",
    "checkpoint_period_s": 60.0,
}


def test_every_choice_is_looked_at() -> None:
    assert {field.name for field in fields(Stage)} - set(OF_A_STAGE) == {"name"}
    assert {field.name for field in fields(JobStrategy)} - set(OF_A_JOB) == {"stages", "job"}


@pytest.mark.parametrize("field", OF_A_STAGE)
def test_what_differs_of_a_stage_is_said(field: str) -> None:
    other = object.__new__(Stage)  # not every value is one that may be run
    for item in fields(Stage):
        object.__setattr__(
            other, item.name, OF_A_STAGE[field] if item.name == field else getattr(FIRST, item.name)
        )
    changed = JOB.with_stages((other, SECOND))
    said = compare_strategies(JOB, changed)
    assert len(said) == 1 + (field == "slices")  # whose layers it no longer has
    assert said[0].startswith("stage 0: ")
    one, arrow, two = said[0].removeprefix("stage 0: ").partition(" -> ")
    assert not arrow or not one.endswith(two)
    assert compare_strategies(changed, changed) == []


@pytest.mark.parametrize("field", OF_A_JOB)
def test_what_differs_of_a_job_is_said(field: str) -> None:
    changed = object.__new__(JobStrategy)
    for item in fields(JobStrategy):
        object.__setattr__(
            changed, item.name, OF_A_JOB[field] if item.name == field else getattr(JOB, item.name)
        )
    assert len(compare_strategies(JOB, changed)) == 1
    assert compare_strategies(changed, changed) == []


def test_equal_devices_are_not_said_to_differ() -> None:
    meshes = (Mesh(devices=(0, 1, 2, 3), axes=(("replica", 2), ("tensor", 2))),)
    (said,) = compare_strategies(JOB, JOB.with_stages((replace(FIRST, meshes=meshes), SECOND)))
    assert said == "stage 0: mesh replica 4 -> replica 2 x tensor 2"
    fewer = replace(FIRST, meshes=(Mesh(devices=(0, 1)),))
    assert compare_strategies(JOB, JOB.with_stages((fewer, SECOND))) == [
        "stage 0: devices [[0, 1, 2, 3]] -> [[0, 1]]"
    ]


def test_plans_of_different_stages_differ_in_more_than_their_number() -> None:
    whole = Stage(layers=("a", "b", "c", "s"), meshes=(Mesh(devices=(0, 1)),), microbatch_samples=2, zero=1)
    said = compare_strategies(JOB, JobStrategy(stages=(whole,)))
    assert said[:3] == ["stages: 2 -> 1", "devices: 6 -> 2", "microbatch_samples: 8 -> 2"]
    assert "zero: 0 -> 1" in said
