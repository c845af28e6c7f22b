"""Clusters of published runs: a bundled profile with as many nodes as the run had.

Readers of sets take clusters from here, so sets can be read with fitted numbers of profiles at other values:
as they were before rows of the same source were used (`explorer.score.heldout`), or on trial
(`explorer.score.knob_fit`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.score.knobs import turned

Values = tuple[tuple[str, float], ...]
"""Values of knobs by key, sorted."""

_VALUES: ContextVar[Values] = ContextVar("values of knobs", default=())


@contextmanager
def knobs_at(values: Mapping[str, float] | Values) -> Iterator[None]:
    """Set knobs of bundled profiles to these values as long as the context lasts."""
    token = _VALUES.set(tuple(sorted(dict(values).items())))
    try:
        yield
    finally:
        _VALUES.reset(token)


def machine(name: str, framework: str = "") -> Cluster:
    """Return the bundled profile `name` under a framework, knobs of both at the values of `knobs_at`.

    Raises:
        InputError: the profile or the framework is unknown.
    """
    return _machine(name, framework, _VALUES.get())


@lru_cache(maxsize=32)
def _machine(name: str, framework: str, values: Values) -> Cluster:
    return turned(cluster_under(load_cluster(name), load_framework(framework)), dict(values))


def nodes_of(name: str, devices: int, framework: str = "") -> Cluster:
    """Return the bundled profile `name` under a framework, with enough of its nodes for `devices`.

    Raises:
        InputError: the profile is unknown or has several kinds of nodes, or its levels or links do not join
            the devices.
    """
    return _nodes_of(name, devices, framework, _VALUES.get())


@lru_cache(maxsize=128)
def _nodes_of(name: str, devices: int, framework: str, values: Values) -> Cluster:
    cluster = _machine(name, framework, values)
    if len(cluster.nodes) != 1 or cluster.levels[-1].scope != "all":
        raise InputError(
            f"cluster {name!r} is not made of equal nodes on one network", key="cluster", found=name,
            allowed="a profile with one kind of nodes",
        )  # fmt: skip
    if cluster.links and devices != cluster.device_count:
        raise InputError(
            f"{devices} devices of {name!r}, whose links join {cluster.device_count}", key="devices",
            found=devices, allowed=f"{cluster.device_count}",
        )  # fmt: skip
    group = cluster.nodes[0]
    count = -(-devices // group.devices_per_node)
    return replace(cluster, name=f"{name} x {count}", nodes=(replace(group, count=count, max_count=0),))
