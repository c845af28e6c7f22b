"""Replicas near a replica are all those whose routes meet its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.cluster import Cluster
from explorer.pricing.near_replicas import near_replicas
from explorer.pricing.routes import lane_route
from tests.random_plans import DEVICES, clusters


@given(cluster=clusters(), order=st.permutations(range(DEVICES)), width=st.sampled_from([1, 2]))
def test_no_other_replica_shares_a_link(cluster: Cluster, order: list[int], width: int) -> None:
    rows = [tuple(order[i : i + width]) for i in range(0, DEVICES, width)]
    half = len(rows) // 2
    sources, targets = tuple(rows[:half]), tuple(rows[half:])
    links = [
        {name for name, _, _ in lane_route(cluster, source, target).resources}
        for source, target in zip(sources, targets, strict=True)
    ]
    for replica, own in enumerate(links):
        found = near_replicas(cluster, (sources, targets), replica)
        assert replica in found
        assert {other for other, used in enumerate(links) if own & used} <= found


def test_a_replica_with_a_node_of_its_own_has_none_near() -> None:
    cluster = explorer.load_cluster("dgx-a100-128")
    rows = tuple(tuple(range(first, first + 8)) for first in range(0, 64, 8))
    assert near_replicas(cluster, (rows[:4], rows[4:]), 1) == {1}
    halves = tuple(tuple(range(first, first + 4)) for first in range(0, 32, 4))
    assert near_replicas(cluster, (halves,), 2) == {2, 3}
