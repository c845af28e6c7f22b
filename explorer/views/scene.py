"""Scene: one strategy with its inputs and its report, and the rows ("board lanes") that pictures share.

A board lane is a device group of `explorer.strategies.moves`: all replicas of the stages that run on it. It
stays a row when it has lost its last layer, so groups are given separately from the strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.base.caching import Owner
from explorer.cluster import Cluster
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.simulation.report import Report
from explorer.strategies.moves import DeviceGroup, groups_of
from explorer.strategy import JobStrategy, Strategy
from explorer.workload import Job, Workload

MOST_ROWS = 64
"""Most rows of a picture by device; above, devices are folded by node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene(Owner):
    """The strategy, inputs and report that every view shows."""

    graph: LayerGraph
    """Model."""
    cluster: Cluster
    """Devices."""
    job: Job
    """Jobs."""
    strategy: JobStrategy
    """Strategy."""
    report: Report
    """Prediction for the strategy."""
    groups: tuple[DeviceGroup, ...]
    """Device groups, one per board lane; those of the strategy and maybe more."""
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        framework = load_framework(self.job.framework)
        object.__setattr__(self, "cluster", cluster_under(self.cluster, framework))

    @property
    def lane_of_stage(self) -> tuple[int, ...]:
        """Board lane of every stage."""
        return self.memo("lane_of_stage", lambda: _lane_of_stage(self))

    @property
    def stages_of_lane(self) -> tuple[tuple[int, ...], ...]:
        """Stages of every board lane, ascending."""
        return self.memo("stages_of_lane", lambda: _stages_of_lane(self))

    @property
    def lane_of_device(self) -> dict[int, int]:
        """Board lane of every device of a group; the first if groups share devices."""
        return self.memo("lane_of_device", lambda: _lane_of_device(self))

    @property
    def group_devices(self) -> tuple[tuple[int, ...], ...]:
        """Devices of every board lane, all copies and replicas."""
        return self.memo("group_devices", lambda: tuple(_devices(group) for group in self.groups))

    @property
    def report_lanes(self) -> tuple[tuple[int, ...], ...]:
        """Lanes of the report that use each board lane's devices."""
        return self.memo("report_lanes", lambda: _report_lanes(self))

    @property
    def lane_of_layer(self) -> dict[str, str]:
        """Board lane id of every layer; for a layer cut over stages, that of its first part."""
        return self.memo("lane_of_layer", lambda: _lane_of_layer(self))


def _lane_of_stage(scene: Scene) -> tuple[int, ...]:
    number = {group.meshes: i for i, group in enumerate(scene.groups)}
    return tuple(number[stage.meshes] for stage in scene.strategy.stages)


def _stages_of_lane(scene: Scene) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in scene.groups]
    for stage, lane in enumerate(scene.lane_of_stage):
        found[lane].append(stage)
    return tuple(map(tuple, found))


def _lane_of_device(scene: Scene) -> dict[int, int]:
    found: dict[int, int] = {}
    for i, devices in enumerate(scene.group_devices):
        for device in devices:
            found.setdefault(device, i)
    return found


def _devices(group: DeviceGroup) -> tuple[int, ...]:
    return tuple(dict.fromkeys(device for mesh in group.meshes for device in mesh.devices))


def _report_lanes(scene: Scene) -> tuple[tuple[int, ...], ...]:
    users: dict[int, list[int]] = {}
    for lane, devices in enumerate(scene.report.lanes):
        for device in devices:
            users.setdefault(device, []).append(lane)
    return tuple(
        tuple(sorted({lane for device in devices for lane in users.get(device, ())}))
        for devices in scene.group_devices
    )


def _lane_of_layer(scene: Scene) -> dict[str, str]:
    found: dict[str, str] = {}
    for stage, lane in zip(scene.strategy.stages, scene.lane_of_stage, strict=True):
        for name in stage.all_layers:
            found.setdefault(name, str(lane))
    return found


def make_scene(
    graph: LayerGraph,
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    report: Report,
    groups: Sequence[DeviceGroup] = (),
) -> Scene:
    """Make a scene of one job, adding device groups of the strategy that `groups` lacks."""
    known = {group.meshes: group for group in groups}
    for group in groups_of(strategy.job):
        known[group.meshes] = group
    return Scene(
        graph=graph,
        cluster=cluster,
        job=workload.job,
        strategy=strategy.job,
        report=report,
        groups=tuple(known.values()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """One row of a picture by device."""

    name: str
    """Name: `gpu 3`, or `node 2` if devices are folded."""
    devices: tuple[int, ...]
    """Devices it stands for."""
    lane: str | None
    """Board lane id, if all devices are in one."""

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data for a view."""
        return {"name": self.name, "lane": self.lane, "count": len(self.devices)}


def device_rows(scene: Scene) -> list[LaneRow]:
    """Return rows of the used devices, folded by node (then by even runs of nodes) above `MOST_ROWS`."""
    return scene.memo("device rows", lambda: _device_rows(scene))


def _device_rows(scene: Scene) -> list[LaneRow]:
    lanes = scene.lane_of_device
    devices = scene.report.devices
    if len(devices) <= MOST_ROWS:
        return [_row(f"gpu {device}", (device,), lanes) for device in devices]
    by_node: dict[int, list[int]] = {}
    for device in devices:
        by_node.setdefault(scene.cluster.node_of(device), []).append(device)
    nodes = list(by_node)
    size = -(-len(nodes) // MOST_ROWS)
    rows = []
    for start in range(0, len(nodes), size):
        part = nodes[start : start + size]
        name = f"node {part[0]}" if len(part) == 1 else f"nodes {part[0]}–{part[-1]}"
        rows.append(_row(name, tuple(device for node in part for device in by_node[node]), lanes))
    return rows


def _row(name: str, devices: tuple[int, ...], lanes: dict[int, int]) -> LaneRow:
    held = {lanes[device] for device in devices if device in lanes}
    return LaneRow(name=name, devices=devices, lane=str(held.pop()) if len(held) == 1 else None)
