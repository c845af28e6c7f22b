"""Every registered schedule into the targets that take orders: by name, as CSV, or refused by feature."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

import explorer
from explorer.base.errors import PlanError
from explorer.export import export, preview, refusals
from explorer.export._order import order_of
from explorer.plan import Resolved, make_plan
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules._torch_notation import unsupported
from explorer.schedules.placements import ANY
from explorer.simulation.check import check
from explorer.strategies.cuts import balanced_cuts
from explorer.strategy import Mesh, Stage, single
from tests.export.test_schedule_csv import loaded

ORDERED = [item for item in SCHEDULES if not item.literal]
BATCH = 8
every = pytest.mark.parametrize(
    "schedule",
    [pytest.param(item, marks=[pytest.mark.slow] * item.costly, id=item.name) for item in ORDERED],
)


@cache
def planned(name: str) -> Resolved:
    """A plan in the schedule's own placement, with several chunks where it knows them."""
    schedule = SCHEDULES.get(name)
    graph, cluster = explorer.load_model("llama3-8b"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=BATCH, optimizer="adam")
    placement = schedule.placement
    several = placement.several and not placement.whole and placement is not ANY
    chunks = max(2, placement.chunks) if several else None
    grid = placement.grid(4, chunks)
    count = placement.stages(grid)
    bounds = [0, *balanced_cuts(graph, count), len(graph.layers)]
    stages = tuple(
        Stage(
            layers=tuple(layer.name for layer in graph.layers[bounds[i] : bounds[i + 1]]),
            meshes=tuple(Mesh(devices=(placement.position(i, copy, grid),)) for copy in range(grid.copies)),
            microbatch_samples=1,
        )
        for i in range(count)
    )
    strategy = single(stages=stages, schedule=name)
    assert check(graph, cluster, workload, strategy) == []
    plan = make_plan("llama3-8b", graph, "dgx-a100", cluster, workload, strategy)
    return Resolved(plan=plan, graphs={"model": graph}, cluster=cluster)


def sayable(plan: Resolved) -> bool:
    """Whether torch's notation holds the order."""
    schedule = SCHEDULES.get(plan.plan.strategy.job.schedule)
    return not schedule.dispatch and not unsupported(*order_of(plan))


@every
def test_torchs_runtime_takes_the_csv_of_all_that_its_notation_can_say(
    schedule: Schedule, tmp_path: Path
) -> None:
    plan = planned(schedule.name)
    assert bool(refusals(plan, "schedule_csv")) != sayable(plan)
    if not sayable(plan):
        return
    (file,) = export(plan, "schedule_csv", tmp_path)
    order, shape = order_of(plan)
    runtime = loaded(file, len(order.lanes), shape.stages, BATCH)
    stages = plan.plan.strategy.job.stages
    assert runtime.stage_index_to_group_rank == {i: s.meshes[0].devices[0] for i, s in enumerate(stages)}


@every
def test_torchtitan_gets_a_name_or_the_same_csv(schedule: Schedule) -> None:
    plan = planned(schedule.name)
    assert bool(refusals(plan, "torchtitan")) != sayable(plan)
    if not sayable(plan):
        return
    files = preview(plan, "torchtitan")
    (name,) = re.findall(r'pipeline_parallel_schedule="(\w+)"', files["explorer_plan.py"])
    assert ("schedule.csv" in files) == (not schedule.torch_name)
    assert (
        name == schedule.torch_name or files["schedule.csv"] == preview(plan, "schedule_csv")["schedule.csv"]
    )


@every
@pytest.mark.parametrize("target", ["schedule_csv", "torchtitan"])
def test_what_is_refused_is_named_once_with_a_way_out(schedule: Schedule, target: str) -> None:
    plan = planned(schedule.name)
    problems = refusals(plan, target)
    if not problems:
        return
    with pytest.raises(PlanError) as caught:
        preview(plan, target)
    assert caught.value.problems == tuple(problems)
    said = [re.match(rf"{target} cannot express ([^(:]+).*: .+", text) for text in problems]
    assert all("\n" not in text for text in problems)
    features = [found.group(1) for found in said if found]
    assert len(set(features)) == len(problems)
