"""Unequal shares along a mesh axis: who holds what, how long the slowest takes, what the fullest keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError, PlanError
from explorer.cluster import Cluster
from explorer.costs.compute import layer_times
from explorer.costs.stragglers import lane_factor, stage_factor
from explorer.pricing import Pricer
from explorer.sharding import megatron_layout, shard
from explorer.sharding.states import dealt
from explorer.simulation.report import Report
from explorer.strategies.degrees import Degrees
from explorer.strategy import Strategy
from explorer.tasks.placement import place
from explorer.workload import default_workload

MIXED = explorer.load_cluster("mixed-v100-a100")
V100, A100 = 0, 8
GPT = explorer.load_model(
    "gpt", sequence_length=512, settings={"layers": "4", "embed": "1024", "heads": "16", "vocab": "51200"}
)
WORKLOAD = default_workload(GPT).with_job(global_batch=8, precision="fp16")


def uneven(
    shares: Sequence[float], devices: Sequence[int] = (A100, V100), *, sequence: bool = False, zero: int = 0
) -> Strategy:
    degrees = Degrees(tensor=2, microbatch_size=4, sequence_parallel=sequence, zero=zero)
    job = degrees.build(GPT, MIXED, WORKLOAD.job, devices=devices).job
    pairs = (("tensor", tuple(map(float, shares))),) if shares else ()
    return Strategy(jobs=(job.with_stages(replace(stage, axis_shares=pairs) for stage in job.stages),))


def predicted(strategy: Strategy, cluster: Cluster = MIXED) -> Report:
    return explorer.simulate(GPT, cluster, WORKLOAD, strategy)


@given(units=st.integers(0, 300), shares=st.lists(st.floats(0.1, 9.0), min_size=1, max_size=8))
def test_units_are_dealt_out_whole_and_within_one_of_the_share(units: int, shares: list[float]) -> None:
    found = dealt(units, tuple(shares))
    assert sum(found) == units
    for each, got in zip(shares, found, strict=True):
        assert abs(got - units * each / sum(shares)) < 1


@settings(max_examples=25)
@given(shares=st.lists(st.integers(1, 9), min_size=2, max_size=4), sequence=st.booleans())
def test_the_pieces_of_all_devices_make_the_whole(shares: list[int], sequence: bool) -> None:
    names = tuple(layer.name for layer in GPT.layers)
    layout, own = megatron_layout(sequence_parallel=sequence), tuple(map(float, shares))
    places = [
        shard(GPT, names, layout=layout, sizes={"tensor": len(own)}, uneven=(("tensor", own, place),))
        for place in range(len(own))
    ]
    for name, axes in places[0].parameter_axes.items():
        fractions = [found.parameter_fraction[name] for found in places]
        assert sum(fractions) == pytest.approx(1.0 if axes else len(own))
    wide = [i for i, layer in enumerate(GPT.layers) if any(dim.name == "ffn" for dim in layer.dims)]
    for i in wide:
        assert [found.work[i] for found in places] == [n / 4096 for n in dealt(4096, own)]


def test_equal_shares_are_as_none() -> None:
    for sequence in (False, True):
        plain, same = (predicted(uneven(s, sequence=sequence)) for s in ((), (1.0, 1.0)))
        assert same.step_time_s == plain.step_time_s
        assert same.memory_parts_bytes[0][:6] == plain.memory_parts_bytes[0][:6]
        assert same.traffic_bytes == plain.traffic_bytes


def forward_s(strategy: Strategy) -> float:
    """Forward of a microbatch without its collectives."""
    pricer = Pricer(GPT, MIXED, WORKLOAD.job, strategy.job, place(GPT, strategy.job))
    time = pricer.section_time(0, A100, 4)
    return time.forward_s - time.forward_comm_s


def slowest_s(shares: tuple[float, ...]) -> float:
    """Every layer the longer of its pieces: each kind's seconds for its part of the work."""
    names = tuple(layer.name for layer in GPT.layers)
    own = []
    for at, device in enumerate((A100, V100)):
        found = shard(
            GPT, names, layout=megatron_layout(), sizes={"tensor": 2},
            uneven=(("tensor", shares, at),) if shares else (),
        )  # fmt: skip
        kind = MIXED.kind_of(device)
        own.append(
            layer_times(
                GPT, kind, samples=4.0, precision="fp16", tensor_degree=2, work=found.work, split=found.split
            )[0]
        )
    return float(sum(map(max, *own)))


@pytest.mark.parametrize("shares", [(3.0, 1.0), (1.0, 3.0), (13.0, 3.0)])
def test_a_layer_takes_what_the_slowest_of_its_pieces_takes(shares: tuple[float, ...]) -> None:
    more = forward_s(uneven(shares)) - forward_s(uneven(()))
    wait = lane_factor(MIXED.device_kinds, 2) * stage_factor(MIXED.device_kinds, 2)
    assert more == pytest.approx((slowest_s(shares) - slowest_s(())) * wait)
    assert abs(more) > 1e-3 * forward_s(uneven(()))


def test_more_work_for_the_faster_device_is_faster() -> None:
    times = {shares: predicted(uneven(shares)).step_time_s for shares in ((1.0, 1.0), (3.0, 1.0), (1.0, 3.0))}
    assert times[3.0, 1.0] < times[1.0, 1.0] < times[1.0, 3.0]


def test_memory_is_that_of_the_device_with_least_room() -> None:
    """A100 has 80 GB and V100 16: a large piece on the A100 may still leave the V100 the fuller one."""
    equal, large, small = (predicted(uneven(s)) for s in ((), (15.0, 1.0), (1.0, 15.0)))
    assert equal.capacity_bytes[0] == MIXED.kind_of(V100).memory_bytes
    assert small.capacity_bytes[0] == MIXED.kind_of(V100).memory_bytes
    assert small.memory_parts_bytes[0][0] > equal.memory_parts_bytes[0][0]
    tight = replace(
        MIXED,
        device_kinds=tuple(
            replace(kind, memory_bytes=1.2e9 if "v100" in kind.name else kind.memory_bytes)
            for kind in MIXED.device_kinds
        ),
    )
    assert large.memory_parts_bytes[0][0] < equal.memory_parts_bytes[0][0]  # what the V100 holds
    over = [predicted(uneven(s), tight).overflows for s in ((15.0, 1.0), (), (1.0, 15.0))]
    lacks = [sum(item.over_bytes for item in found) for found in over]
    assert lacks[0] < lacks[1] < lacks[2]


def test_gathers_wait_for_the_largest_piece() -> None:
    """With sequence parallelism pieces are passed on: n x the largest share times as long, per byte."""
    names = tuple(layer.name for layer in GPT.layers)
    layout = megatron_layout(sequence_parallel=True)
    plain, found = (
        shard(GPT, names, layout=layout, sizes={"tensor": 2}, uneven=uneven)
        for uneven in ((), (("tensor", (3.0, 1.0), 0),))
    )
    for before, after in zip(plain.forward, found.forward, strict=True):
        stretch = 1.5 if before.op in ("all_gather", "reduce_scatter") else 1.0
        assert after.elements_per_sample == pytest.approx(stretch * before.elements_per_sample)
    assert any(item.op == "all_gather" for item in plain.forward)


@pytest.mark.parametrize(
    "pairs",
    [
        (("tensor", (1.0,)),), (("tensor", (1.0, 0.0)),), (("replica", (1.0,)),), (("expert", (1.0, 1.0)),),
        (("tensor", (1.0, 1.0)), ("tensor", (1.0, 2.0))),
    ],
)  # fmt: skip
def test_shares_of_no_axis_are_refused(pairs: tuple[tuple[str, tuple[float, ...]], ...]) -> None:
    stage = uneven(()).job.stages[0]
    with pytest.raises(InputError) as caught:
        replace(stage, axis_shares=pairs)
    assert caught.value.key == "axis_shares"


def test_shares_along_an_axis_that_splits_nothing_are_refused() -> None:
    strategy = uneven((3.0, 1.0))
    job = strategy.job.with_stages(replace(stage, layout=()) for stage in strategy.job.stages)
    with pytest.raises(PlanError, match="unequal shares along mesh axis 'tensor'"):
        predicted(Strategy(jobs=(job,)))
