"""Planners whose costs know no plan that fits say so, instead of asking for more time."""

from __future__ import annotations

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.search import NO_PLAN, SEARCHERS, Problem, search
from explorer.search.comparison import why_nothing
from explorer.workload import default_workload

RULES = [item.name for item in SEARCHERS if item.alone and not item.stochastic]


@pytest.mark.parametrize("name", RULES)
def test_a_model_too_large_for_its_devices_is_answered_in_one_line(name: str) -> None:
    """GPT-3 on one server of V100: either the closest plan is named, or that no plan was proposed."""
    graph = load_model("gpt3-175b")
    workload = default_workload(graph).with_job(global_batch=8)
    given = Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=workload)
    *_, last = search(given, name, max_evaluations=2)
    assert last.best is None
    assert last.details.get(NO_PLAN, False) == (last.evaluations == 0)
    words = why_nothing(last)
    assert "\n" not in words
    assert ("closest is" in words) == (last.evaluations > 0)
    assert "0 evaluations" not in words
