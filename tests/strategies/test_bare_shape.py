"""A shape without placing and lowering says what the lowered one says."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.plan import load_plan
from explorer.schedules import SCHEDULES
from explorer.schedules.needs import positions_of
from explorer.simulation.folding import UNFOLDED
from explorer.simulation.one_job import make_shape
from explorer.strategies.bare_shape import bare_shape
from explorer.tasks.placement import place

PLANS = sorted((Path(__file__).parents[1] / "plans").glob("*.yaml"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_as_lowered(path: Path) -> None:
    resolved = load_plan(path)
    for job in resolved.plan.workload.jobs:
        part = next(item for item in resolved.plan.strategy.jobs if item.job == job.name)
        graph = resolved.graphs.get(job.graph) or resolved.graph
        bare = bare_shape(graph, job, part)
        lowered = make_shape(place(graph, part, training=job.training), UNFOLDED, job)
        assert (bare.stages, bare.edges, bare.microbatches) == (
            lowered.stages,
            lowered.edges,
            lowered.microbatches,
        )
        assert (bare.copies, bare.replicas, bare.round_robin) == (
            lowered.copies,
            lowered.replicas,
            lowered.round_robin,
        )
        assert positions_of(bare) == positions_of(lowered)
        assert all(item.unmet(bare) == item.unmet(lowered) for item in SCHEDULES)
