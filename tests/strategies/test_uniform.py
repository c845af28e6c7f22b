"""Uniform strategies: devices numbered as Megatron does, cuts that balance."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.models.synthetic import chain
from explorer.schedules import SCHEDULES
from explorer.simulation.check import check
from explorer.strategies.cuts import balanced_cuts, units
from explorer.strategies.degrees import Degrees
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

CLUSTER = explorer.load_cluster("dgx-a100")
GPT = explorer.load_model("gpt2-small")
WORKLOAD = default_workload(GPT).with_job(global_batch=32)


def test_tensor_is_innermost_and_pipeline_outermost() -> None:
    mesh = Degrees(stages=2, replicas=2, tensor=2).mesh(1)
    assert mesh.devices == (4, 5, 6, 7)
    assert mesh.rows == ((4, 5), (6, 7))


@pytest.mark.parametrize(("p", "d", "t", "chunks"), [(1, 1, 1, 1), (2, 2, 2, 1), (8, 1, 1, 1), (2, 1, 4, 2)])
def test_a_uniform_strategy_is_whole_and_legal(p: int, d: int, t: int, chunks: int) -> None:
    strategy = uniform(
        GPT, CLUSTER, WORKLOAD.job, stages=p, replicas=d, tensor=t, chunks=chunks, microbatch_size=1
    )
    assert check(GPT, CLUSTER, WORKLOAD, strategy) == []
    assert strategy.job.devices == tuple(range(p * d * t))
    assert len(strategy.job.stages) == p * chunks
    assert strategy.job.schedule == ("interleaved_1f1b" if chunks > 1 else "1f1b")
    for i, stage in enumerate(strategy.job.stages):
        assert stage.meshes[0] == strategy.job.stages[i % p].meshes[0]
        assert stage.microbatch_samples == d


@pytest.mark.parametrize("name", [item.name for item in SCHEDULES if not item.literal])
def test_every_schedule_runs_by_name(name: str) -> None:
    """A uniform strategy has the copies, chunks and positions that the schedule's placement asks for."""
    schedule = SCHEDULES.get(name)
    strategy = uniform(GPT, CLUSTER, WORKLOAD.job, stages=4, microbatch_size=1, schedule=name)
    grid = schedule.placement.grid(4)
    held: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    for i, stage in enumerate(strategy.job.stages):
        for copy, mesh in enumerate(stage.meshes):
            held[mesh.devices[0]].append((i, copy))
    assert tuple(map(tuple, held)) == schedule.placement.held(grid)
    assert schedule.unmet_even(4, 32) == ()
    assert explorer.simulate(GPT, CLUSTER, WORKLOAD, strategy).step_time_s > 0


def test_a_schedule_refuses_what_it_cannot_order() -> None:
    strategy = uniform(GPT, CLUSTER, WORKLOAD.job, stages=3, schedule="chimera")
    (problem,) = check(GPT, CLUSTER, WORKLOAD, strategy)
    assert "needs a multiple of 2 (found 3; allowed: 2 or 4)" in problem
    with pytest.raises(InputError, match="multiple of 2"):
        explorer.simulate(GPT, CLUSTER, WORKLOAD, strategy)


@settings(max_examples=60)
@given(loads=st.lists(st.floats(0.1, 5.0), min_size=1, max_size=8), data=st.data())
def test_cuts_minimise_the_heaviest_stage(loads: list[float], data: st.DataObject) -> None:
    """Against brute force over all cuts."""
    p = data.draw(st.integers(1, len(loads)))
    cuts = balanced_cuts(chain(loads), p, loads)

    def heaviest(at: tuple[int, ...] | list[int]) -> float:
        bounds = [0, *at, len(loads)]
        return max(sum(loads[a:b]) for a, b in pairwise(bounds))

    assert len(cuts) == p - 1
    assert all(a < b for a, b in zip([0, *cuts], [*cuts, len(loads)], strict=True))
    best = min(map(heaviest, combinations(range(1, len(loads)), p - 1)))
    assert heaviest(cuts) == pytest.approx(best, rel=1e-9)


def test_blocks_are_not_divided() -> None:
    starts = {start for start, _ in units(GPT)}
    for p in (2, 3, 4, 7):
        assert set(balanced_cuts(GPT, p)) <= starts


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"stages": 9}, "stages"),
        ({"replicas": 0}, "replicas"),
        ({"stages": 2, "microbatches": 5}, "microbatches"),
        ({"replicas": 3, "microbatch_size": 1}, "microbatch_size"),
        ({"tensor": 16}, "stages"),
    ],
)
def test_what_does_not_fit_is_refused(wrong: dict[str, int], key: str) -> None:
    with pytest.raises(InputError) as caught:
        uniform(GPT, CLUSTER, WORKLOAD.job, **wrong)  # type: ignore[arg-type]
    assert caught.value.key == key
    assert caught.value.allowed


def test_more_stages_than_layers_is_refused() -> None:
    with pytest.raises(InputError, match="4 stages for 3 layers"):
        balanced_cuts(chain([1.0] * 3), 4)
