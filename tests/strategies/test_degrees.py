"""Degrees of parallelism: built, read back, changed; refused where the model lacks the dimension."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.models.synthetic import chain
from explorer.schedules import SCHEDULES
from explorer.simulation.check import check
from explorer.strategies.degrees import EXCHANGES, RECOMPUTE, Degrees
from explorer.strategies.degrees_neighbours import most_replicas, neighbouring_degrees
from explorer.strategies.degrees_reading import nearest_degrees, read_degrees
from explorer.strategy import Slice, Strategy, Sync
from explorer.workload import default_workload

CLUSTER = explorer.load_cluster("dgx-a100-4")
GPT = explorer.load_model("gpt2-small")
MIXTRAL = explorer.load_model("mixtral-8x7b")
WORKLOAD = default_workload(GPT).with_job(global_batch=64)
EVEN = [item.name for item in SCHEDULES if not item.literal]

DEGREES = st.builds(
    Degrees,
    stages=st.sampled_from([1, 2, 3, 4, 6]),
    replicas=st.sampled_from([1, 2, 4]),
    tensor=st.sampled_from([1, 2, 4]),
    context=st.sampled_from([1, 2]),
    expert=st.sampled_from([1, 2, 8]),
    chunks=st.sampled_from([0, 1, 2]),
    microbatch_size=st.sampled_from([1, 2, 3]),
    recompute=st.sampled_from(RECOMPUTE),
    zero=st.integers(0, 3),
    schedule=st.sampled_from(["", *EVEN]),
    sequence_parallel=st.booleans(),
    context_exchange=st.sampled_from(list(EXCHANGES)),
    bucket_bytes=st.sampled_from([0.0, 25.0 * 2**20]),
)


def built(degrees: Degrees, devices: tuple[int, ...] = ()) -> Strategy | None:
    graph = MIXTRAL if degrees.expert > 1 else GPT
    try:
        return degrees.build(graph, CLUSTER, WORKLOAD.job, devices=devices)
    except InputError:
        return None


@settings(max_examples=150)
@given(degrees=DEGREES, shuffled=st.permutations(range(CLUSTER.device_count)))
def test_what_is_built_is_read_back_and_ranks_keep_their_devices(
    degrees: Degrees, shuffled: list[int]
) -> None:
    devices = tuple(shuffled)
    strategy = built(degrees, devices)
    assume(strategy is not None)
    assert strategy is not None
    assert read_degrees(strategy) == degrees
    assert nearest_degrees(strategy.job) == degrees
    assert set(strategy.job.devices) == set(devices[: degrees.devices])
    homes = {mesh.devices for stage in strategy.job.stages for mesh in stage.meshes}
    size = degrees.position_devices
    assert homes == {devices[i * size : (i + 1) * size] for i in range(degrees.stages)}


@settings(max_examples=60)
@given(degrees=DEGREES)
def test_neighbours_can_be_built_and_are_ordered_by_their_schedule(degrees: Degrees) -> None:
    graph = MIXTRAL if degrees.expert > 1 else GPT
    job = WORKLOAD.job
    found = list(neighbouring_degrees(degrees, graph, CLUSTER, job))
    assert degrees not in found
    assert len(set(found)) == len(found)
    for other in found:
        strategy = other.build(graph, CLUSTER, job)
        assert read_degrees(strategy) == other
        assert [text for text in check(graph, CLUSTER, WORKLOAD, strategy) if "schedule" in text] == []


def test_tensor_is_innermost_then_context_then_replicas_then_stages() -> None:
    mesh = Degrees(stages=2, replicas=2, context=2, tensor=2).mesh(1)
    assert mesh.devices == tuple(range(8, 16))
    assert [name for name, _ in mesh.axes] == ["replica", "context", "tensor"]
    assert mesh.rows == ((8, 9, 10, 11), (12, 13, 14, 15))


def test_a_schedule_says_where_stages_lie() -> None:
    strategy = Degrees(stages=4, schedule="chimera").build(GPT, CLUSTER, WORKLOAD.job)
    assert [[mesh.devices[0] for mesh in stage.meshes] for stage in strategy.job.stages] == [
        [0, 3], [1, 2], [2, 1], [3, 0]
    ]  # fmt: skip
    assert read_degrees(strategy) == Degrees(stages=4, schedule="chimera")


def test_experts_lie_on_a_mesh_over_all_devices_of_their_stage() -> None:
    strategy = Degrees(stages=2, replicas=2, tensor=2, expert=4).build(MIXTRAL, CLUSTER, WORKLOAD.job)
    for stage in strategy.job.stages:
        (own,) = stage.shardings
        assert own.meshes[0].devices == stage.meshes[0].devices
        assert own.meshes[0].axes == (("replica", 1), ("expert", 4))
        kinds = {MIXTRAL.layer[name].kind for name in stage.layers if own.covers(name)}
        assert kinds == {"experts"}
    assert explorer.simulate(MIXTRAL, CLUSTER, WORKLOAD, strategy).step_time_s > 0


@pytest.mark.parametrize(
    ("model", "degrees", "key", "words"),
    [
        ("chain", {"tensor": 2}, "tensor", "no dimension that tensor parallelism splits"),
        ("chain", {"context": 2}, "context", "no dimension that context parallelism splits"),
        ("gpt2-small", {"replicas": 2, "expert": 2}, "expert", "has no experts"),
        ("mixtral-8x7b", {"replicas": 2, "expert": 4}, "expert", "8 experts over 4 of the 2 devices"),
        ("mixtral-8x7b", {"replicas": 16, "expert": 16}, "expert", "at most 8"),
        ("gpt2-small", {"stages": 3, "schedule": "nothing"}, "schedule", "unknown schedule"),
        ("gpt2-small", {"stages": 64}, "stages", "need 64 devices"),
        ("gpt2-small", {"replicas": 3}, "microbatch_size", "do not divide"),
        ("gpt2-small", {"chunks": -1}, "chunks", ">= 1"),
        ("gpt2-small", {"replicas": 2, "bucket_bytes": -1.0}, "bucket_bytes", ">= 0"),
        ("gpt2-small", {"recompute": "some"}, "recompute", "none, selective, full"),
        ("gpt2-small", {"context": 2, "context_exchange": "fax"}, "context_exchange", "ring"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(
    model: str, degrees: dict[str, int], key: str, words: str
) -> None:
    graph = chain([1.0] * 8) if model == "chain" else explorer.load_model(model)
    with pytest.raises(InputError) as caught:
        Degrees(**degrees).build(graph, CLUSTER, WORKLOAD.job)  # type: ignore[arg-type]
    assert caught.value.key == key
    assert words in str(caught.value)


@pytest.mark.parametrize("devices", [(0, 0, 1, 2), (0, 1, 2, 99), (0, 1)])
def test_devices_that_are_none_are_refused(devices: tuple[int, ...]) -> None:
    with pytest.raises(InputError):
        Degrees(stages=4).build(GPT, CLUSTER, WORKLOAD.job, devices=devices)


def test_other_strategies_are_no_degrees_but_have_nearest_ones() -> None:
    plain = Degrees(stages=2, replicas=2, microbatch_size=2)
    job = plain.build(GPT, CLUSTER, WORKLOAD.job).job
    last = job.stages[-1]
    whole = Slice(layer=job.stages[0].layers[-1], dim="seq", start=0.0, stop=1.0)
    others = [
        job.with_stages([job.stages[0], replace(last, recompute="full")]),
        job.with_stages([job.stages[0], replace(last, offload=("optimizer",))]),
        job.with_stages([job.stages[0], replace(last, shares=(3.0, 1.0))]),
        job.with_stages(
            [
                replace(job.stages[0], layers=job.stages[0].layers[:-1]),
                replace(last, slices=(whole,)),
            ]
        ),
        replace(job, sync=(Sync(parameters=("*",), method="parameter_server"),)),
        replace(job, transfers="best"),
    ]
    for other in others:
        assert read_degrees(Strategy(jobs=(other,))) is None
        assert nearest_degrees(other).microbatch_size == 2
    named = job.with_stages([replace(job.stages[0], name="first"), last])
    assert read_degrees(Strategy(jobs=(named,))) == plain


def test_defaults_follow_what_is_changed() -> None:
    plain = Degrees(stages=2)
    assert plain.schedule == "1f1b"
    assert plain.changed(chunks=2).schedule == "interleaved_1f1b"
    assert plain.changed(chunks=2).changed(chunks=1) == plain
    assert Degrees(stages=2, schedule="gpipe").changed(chunks=2).schedule == "gpipe"
    assert Degrees(stages=2, schedule="cyclic").changed(stages=4).chunks == 4
    assert not Degrees(tensor=2, sequence_parallel=True).changed(tensor=1).sequence_parallel
    assert Degrees(context=2, context_exchange="ring").changed(context=1) == Degrees()


@given(most=st.integers(0, 70), batch=st.integers(1, 200))
def test_most_replicas_against_brute_force(most: int, batch: int) -> None:
    assert most_replicas(most, batch) == max([d for d in range(1, most + 1) if batch % d == 0], default=1)


def test_words_and_label() -> None:
    degrees = Degrees(stages=4, replicas=2, tensor=2, chunks=2, microbatch_size=8, recompute="full", zero=1)
    assert degrees.label == "tp 2 x pp 4 x dp 2, 2 chunks, microbatch 8, full recomputation, ZeRO-1"
    assert degrees.words == "4 stages × 2 replicas × 2-way tensor"
