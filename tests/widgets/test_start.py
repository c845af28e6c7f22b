"""Where the workbench begins: what fits, else the fastest of what lacks least memory, on all devices."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.search.evaluator import Evaluator
from explorer.search.first_plans import first_plans
from explorer.search.problem import Problem
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_reading import read_degrees
from widgets.inputs import Inputs, load_inputs
from widgets.start import start_strategy


def inputs(model: str, cluster: str) -> Inputs:
    return load_inputs(model, cluster, sequence_length=None, changes={})


@pytest.mark.parametrize(("model", "cluster"), [("gpt2-small", "dgx-a100"), ("llama3-8b", "dgx-a100")])
def test_what_can_fit_fits(model: str, cluster: str) -> None:
    own = inputs(model, cluster)
    assert simulate(own.graph, own.cluster, own.workload, start_strategy(own)).feasible


@pytest.mark.parametrize(
    ("model", "cluster"), [("mixtral-8x7b", "dgx-a100-40gb"), ("llama3-70b", "hgx-h100")]
)
def test_what_cannot_fit_uses_all_devices_and_is_not_beaten_in_both(model: str, cluster: str) -> None:
    """No even shape of all devices lacks less memory by more than a twentieth, or is as small and faster."""
    own = inputs(model, cluster)
    strategy = start_strategy(own)
    found = simulate(own.graph, own.cluster, own.workload, strategy)
    lacks = max(item.over_bytes for item in found.overflows)
    room = min(kind.memory_bytes for kind in own.cluster.device_kinds)
    assert set(strategy.job.devices) == set(own.cluster.present)
    for stages, tensor in ((1, 8), (2, 4), (4, 2), (8, 1)):
        other = Degrees(stages=stages, tensor=tensor, recompute="full", zero=1).build(
            own.graph, own.cluster, own.job
        )
        report = simulate(own.graph, own.cluster, own.workload, other)
        over = max(item.over_bytes for item in report.overflows)
        assert over >= lacks - 0.05 * room
        assert over > lacks or report.step_time_s >= found.step_time_s


def test_thousands_of_devices_take_few_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Estimates choose; a handful of what they choose is simulated."""
    calls = 0

    def counted(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        return simulate(*given)

    monkeypatch.setattr("widgets.start.simulate", counted)
    monkeypatch.setattr("explorer.search.evaluator.simulate", counted)
    own = inputs("llama3-405b", "hgx-h100-2048")
    strategy = start_strategy(own)
    assert calls <= 4
    report = simulate(own.graph, own.cluster, own.workload, strategy)
    assert report.feasible
    assert len(strategy.job.devices) == 16_384
    # Megatron's answer is of this kind: as many devices as a node share a layer
    assert strategy.job.stages[0].meshes[0].size("tensor") == 8


@pytest.mark.parametrize(
    ("model", "cluster"),
    [("llama3-405b", "hgx-h100-2048"), ("awd-lm", "dgx-a100-128"), ("deepseek-v2", "hgx-h100-2048")],
)
def test_where_no_short_pipeline_fits_it_is_no_slower_than_what_a_search_costs_first(
    model: str, cluster: str
) -> None:
    own = inputs(model, cluster)
    problem = Problem(graph=own.graph, cluster=own.cluster, workload=own.workload)
    ruled = [item for item in first_plans(problem, Evaluator(problem=problem)) if item is not None][-1]
    assert ruled.outcome.feasible
    found = simulate(own.graph, own.cluster, own.workload, start_strategy(own))
    assert found.feasible
    assert found.step_time_s <= ruled.outcome.step_time_s


def test_a_short_pipeline_that_fits_as_it_is_comes_first() -> None:
    """Something faster may be there: the workbench begins where a placement is easy to follow."""
    found = read_degrees(start_strategy(inputs("llama3-8b", "dgx-a100-128")))
    assert found is not None
    assert (found.stages, found.chunks, found.zero, found.recompute) == (4, 1, 0, "none")


@pytest.mark.parametrize("model", ["mixtral-8x7b", "deepseek-v3", "resnet50"])
def test_any_model_begins_with_something_on_any_cluster(model: str) -> None:
    for cluster in ("cpu-2", "mixed-v100-a100", "rtx4090-pcie-4"):
        own = inputs(model, cluster)
        assert simulate(own.graph, own.cluster, own.workload, start_strategy(own)).step_time_s > 0
