"""Edits: any layer to any group is a strategy that can be checked and costed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.models.synthetic import chain
from explorer.simulation.check import check
from explorer.strategies.moves import assignment_of, groups_of, move_boundary, place_layers, stages_of
from explorer.strategy import Slice
from tests.random_plans import Case, even_cases, pipeline, total_seconds


@settings(max_examples=80)
@given(case=st.one_of(even_cases("1f1b"), even_cases("gpipe")), data=st.data())
def test_any_drop_is_legal_and_costed(case: Case, data: st.DataObject) -> None:
    job = case.strategy.job
    groups = groups_of(job)
    names = [layer.name for layer in case.graph.layers]
    moves = data.draw(st.dictionaries(st.sampled_from(names), st.integers(0, len(groups) - 1)))
    moved = place_layers(case.graph, job, moves)
    strategy = case.strategy.with_job(moved)
    assert check(case.graph, case.cluster, case.workload, strategy) == []
    expected = assignment_of(case.graph, job, groups)
    for name, group in moves.items():
        expected[case.graph.index[name]] = group
    assert assignment_of(case.graph, moved, groups) == expected
    report = explorer.simulate(case.graph, case.cluster, case.workload, strategy)
    if case.workload.job.optimizer == "none" and all(stage.recompute == "none" for stage in moved.stages):
        # wherever layers lie, the same work is done once for every sample
        work = case.workload.job.global_batch * total_seconds(case.graph)
        assert sum(report.per_device(report.busy_s)) == pytest.approx(work, rel=1e-9, abs=1e-9)


@settings(max_examples=40)
@given(case=even_cases("1f1b"), data=st.data())
def test_stages_that_stay_are_the_same_objects(case: Case, data: st.DataObject) -> None:
    job = case.strategy.job
    name = data.draw(st.sampled_from([layer.name for layer in case.graph.layers]))
    moved = place_layers(case.graph, job, {name: data.draw(st.integers(0, len(groups_of(job)) - 1))})
    before = {id(stage) for stage in job.stages}
    for stage in moved.stages:
        assert (stage in job.stages) == (id(stage) in before)


@settings(max_examples=40)
@given(case=even_cases("1f1b"), data=st.data())
def test_pieces_are_coarsest(case: Case, data: st.DataObject) -> None:
    """Putting every layer on one group makes one stage; no two neighbours of one group can be joined."""
    groups = groups_of(case.strategy.job)
    group = data.draw(st.integers(0, len(groups) - 1))
    stages = stages_of(case.graph, [group] * len(case.graph.layers), groups)
    assert len(stages) == 1
    assert stages[0].layers == tuple(layer.name for layer in case.graph.layers)


def test_a_broken_run_opens_a_second_piece() -> None:
    case = pipeline([1.0] * 3, [1.0] * 3, microbatches=2)
    moved = place_layers(case.graph, case.strategy.job, {"layers.2": 0})
    assert [stage.layers for stage in moved.stages] == [("layers.0",), ("layers.1",), ("layers.2",)]
    assert [stage.meshes[0].devices for stage in moved.stages] == [(0,), (1,), (0,)]
    back = place_layers(case.graph, moved, {"layers.1": 0})
    assert [stage.layers for stage in back.stages] == [("layers.0", "layers.1", "layers.2")]


@pytest.mark.parametrize(("units", "expected"), [(1, (2, 1)), (-1, (0, 3)), (2, None), (-2, None)])
def test_a_boundary_moves(units: int, expected: tuple[int, int] | None) -> None:
    graph = chain([1.0] * 3)
    case = pipeline([1.0] * 2, [1.0] * 2, microbatches=2)
    first, second = case.strategy.job.stages
    job = case.strategy.job.with_stages(
        stages_of(graph, [0, 1, 1], groups_of(case.strategy.job.with_stages((first, second))))
    )
    if expected is None or 0 in expected:
        with pytest.raises(InputError, match="blocks"):
            move_boundary(graph, job, 0, 1, units)
        return
    moved = move_boundary(graph, job, 0, 1, units)
    assert tuple(len(stage.layers) for stage in moved.stages) == expected


def test_bad_edits_are_refused() -> None:
    case = pipeline([1.0] * 2, [1.0] * 2, microbatches=2)
    with pytest.raises(InputError, match="nowhere"):
        place_layers(case.graph, case.strategy.job, {"nowhere": 0})
    with pytest.raises(InputError, match="group 7"):
        place_layers(case.graph, case.strategy.job, {"layers.0": 7})
    with pytest.raises(InputError, match="placements"):
        stages_of(case.graph, [0], groups_of(case.strategy.job))
    first, second = case.strategy.job.stages
    cut = replace(first, slices=(Slice(layer="layers.1", dim="d", start=0.0, stop=0.5),))
    with pytest.raises(InputError, match="sliced"):
        place_layers(case.graph, case.strategy.job.with_stages((cut, second)), {})
