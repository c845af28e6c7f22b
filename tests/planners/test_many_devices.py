"""More devices than planners tell apart: groups of replicas share every microbatch that is proposed."""

from __future__ import annotations

import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.planners._pieces.fleet import MOST_GROUPS, fleet_of
from explorer.planners._pieces.plans import sizes_worth_trying
from explorer.search import Problem, search
from explorer.workload import default_workload

GROUPED = (
    "bapipe", "dapple", "dawnpiper", "edgepipe", "graphpipe", "min_cut", "spp", "tarnawski", "tarnawski_ip",
    "tarnawski_linear", "tensorflow_greedy",
)  # fmt: skip
"""Planners that take groups of devices as replicas."""


def on_128(batch: int) -> Problem:
    graph, cluster = load_model("gpt2-small"), load_cluster("hgx-h100-16")
    assert cluster.device_count == 128 > MOST_GROUPS
    workload = default_workload(graph).with_job(global_batch=batch)
    return Problem(graph=graph, cluster=cluster, workload=workload)


@pytest.mark.parametrize("name", GROUPED)
def test_every_plan_on_many_devices_can_be_simulated(name: str) -> None:
    *_, last = search(on_128(256), name, max_evaluations=2)
    assert "failed" not in last.details, last.details
    assert last.best is not None


@pytest.mark.parametrize("name", GROUPED)
def test_a_batch_that_groups_cannot_share_is_refused_in_one_line(name: str) -> None:
    """128 devices are groups of 8, or 16 of them: 12 samples are no multiple of that."""
    with pytest.raises(InputError) as caught:
        list(search(on_128(12), name, max_evaluations=4))
    assert caught.value.key == "global_batch"
    assert "cannot share a batch of 12 evenly" in str(caught.value)
    assert "--max-devices" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_are_multiples_of_the_replicas_of_a_group() -> None:
    given = on_128(256)
    fleet = fleet_of(given)
    assert (fleet.count, fleet.size) == (16, 8)
    sizes = sizes_worth_trying(given, fleet.count, replicas=fleet.size)
    assert sizes == [16, 8]
    assert sizes_worth_trying(given, 16) == [16, 8, 4, 2]


def test_groups_share_what_dapple_is_told() -> None:
    with pytest.raises(InputError, match="that 8 replicas share evenly") as caught:
        list(search(on_128(256), "dapple", options={"microbatch_size": "4"}))
    assert caught.value.key == "microbatch_size"
