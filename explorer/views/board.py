"""The board: which lane holds which layers, what each costs, the cuts between stages and the links."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from operator import sub
from typing import Any, NamedTuple

import numpy as np

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.cluster import Cluster, DeviceKind
from explorer.cluster.memory_room import memory_room
from explorer.costs.stragglers import stage_factor
from explorer.graph import LayerGraph
from explorer.pricing.section_time import call_seconds
from explorer.strategies.shares import sharing_of
from explorer.strategy import ROUND_ROBIN, Mesh, Stage
from explorer.tasks.placement import stage_layers
from explorer.tasks.program import B, F, I, W
from explorer.views.blocks import layer_costs
from explorer.views.board_links import Hop, hops_of, links_view, noted, replica_link
from explorer.views.scene import Scene


def board_view(
    scene: Scene,
    *,
    can_undo: bool = False,
    can_redo: bool = False,
    baseline_name: str | None = None,
    pinned: Collection[str] = (),
    locked: Collection[tuple[int, ...]] = (),
    other: Scene | None = None,
    other_name: str | None = None,
) -> dict[str, Any]:
    """Return `Board.view`.

    Args:
        scene: the strategy.
        can_undo: whether there is something to undo.
        can_redo: whether there is something to redo.
        baseline_name: name of the strategy that the tiles compare with.
        pinned: names of layers that stay on their devices.
        locked: devices, ascending, of the lanes that keep exactly their layers.
        other: plan B, shown next to each lane; it has no lanes here if its model is another.
        other_name: name of plan B.
    """
    hops = hops_of(scene)
    closed = {tuple(devices) for devices in locked}
    beside = _other_lanes(scene, other) if other else {}
    lanes = [_lane(scene, i, hops) for i in range(len(scene.groups))]
    for lane, group in zip(lanes, scene.groups, strict=True):
        lane["locked"] = bool(closed) and lane_place(scene.cluster, group.meshes).devices in closed
        lane["other"] = beside.get(lane["id"])
    total = sum(lane["forward_s"] + lane["backward_s"] for lane in lanes)
    held = set(pinned)
    return {
        "lanes": lanes,
        "boundaries": _boundaries(scene),
        "links": links_view(scene, hops),
        "ideal_s": total / len(lanes),
        "scale_key": f"{scene.graph.name}|{scene.cluster.name}|{len(lanes)}|{_samples_key(scene)}",
        "can_undo": can_undo,
        "can_redo": can_redo,
        "editable": not any(stage.slices for stage in scene.strategy.stages),
        "baseline_name": baseline_name,
        "pinned": [layer.name for layer in scene.graph.layers if layer.name in held] if held else [],
        "other_name": other_name if other else None,
        "estimate": estimate_view(scene),
        "idle": idle_view(scene),
    }


MOST_IDLE = 32
"""Most devices out of use that are named."""


def idle_view(scene: Scene) -> dict[str, Any]:
    """Return the devices of the cluster that no lane has: the first of each kind, and how many there are."""
    return _idle(scene.cluster, tuple([group.meshes for group in scene.groups]))


@remembered(64)
def _idle(cluster: Cluster, groups: tuple[tuple[Mesh, ...], ...]) -> dict[str, Any]:
    """Return `idle_view`, which is the same whatever the lanes hold; sent to the page as it is."""
    used = {device for meshes in groups for mesh in meshes for device in mesh.devices}
    idle = [device for device in cluster.present if device not in used]
    kinds: dict[str | None, list[int]] = {}
    for device in idle:
        name = cluster.kind_of(device).name if len(cluster.device_kinds) > 1 else None
        kinds.setdefault(name, []).append(device)
    return {
        "kinds": [
            {"kind": name, "devices": devices[: MOST_IDLE // len(kinds)]} for name, devices in kinds.items()
        ],
        "count": len(idle),
    }


def estimate_view(scene: Scene) -> dict[str, Any]:
    """Return what the page needs to estimate at once how a move would change the tiles."""
    report, stage = scene.report, scene.strategy.stages[0]
    in_turn = stage.meshes[0].replicas if stage.replicas == ROUND_ROBIN else 1
    return {
        "step_s": report.step_time_s,
        "samples": scene.job.global_batch,
        "tokens_per_sample": max(1, scene.job.sequence_length),
        "microbatches": scene.job.global_batch / (stage.microbatch_samples * in_turn),
        "mfu": report.mfu,
        "bubble": report.bubble_fraction,
        "busy_s": {
            str(number): max((report.busy_s[lane] for lane in lanes), default=0.0)
            for number, lanes in enumerate(scene.report_lanes)
        },
    }


def _other_lanes(scene: Scene, other: Scene) -> dict[str, dict[str, Any]]:
    """Map board lanes to plan B's lanes shown next to them: the same devices, else the same position."""
    if [layer.name for layer in scene.graph.layers] != [layer.name for layer in other.graph.layers]:
        return {}
    by_devices = {frozenset(devices): i for i, devices in enumerate(other.group_devices)}
    own = [frozenset(devices) for devices in scene.group_devices]
    taken = {by_devices[devices] for devices in own if devices in by_devices}
    found = {}
    for number, devices in enumerate(own):
        match = by_devices.get(devices, number)
        if match < len(other.groups) and (devices in by_devices or match not in taken):
            found[str(number)] = _other_lane(other, match)
    return found


def _other_lane(other: Scene, number: int) -> dict[str, Any]:
    stages = other.stages_of_lane[number]
    forward, backward = _seconds(other, number)
    parts, _ = _memory(other, number)
    return {
        "forward_s": forward,
        "backward_s": backward,
        "peak_bytes": sum(parts.values()),
        "runs": [[run["first"], run["count"]] for s in stages for run in _runs(other, s)],
    }


def _samples_key(scene: Scene) -> str:
    stage = scene.strategy.stages[0]
    return f"{scene.job.sequence_length}|{stage.microbatch_samples}|{stage.meshes[0].axes}"


def _lane(scene: Scene, number: int, hops: Mapping[tuple[int, int], Hop]) -> dict[str, Any]:
    place = lane_place(scene.cluster, scene.groups[number].meshes)
    stages = scene.stages_of_lane[number]
    runs = [run for s in stages for run in _runs(scene, s)]
    room = memory_room(place.kinds[0])
    own = lane_figures(scene, number)
    view = {
        "id": str(number),
        "name": _lane_name(stages),
        "group": place.nodes,
        "replicas": place.replicas,
        "replica_count": place.replica_count,
        "span": place.span,
        "device_count": len(place.devices),
        "runs": noted(scene, runs, hops),
        "kind": place.kind if len(scene.cluster.device_kinds) > 1 else None,
        "sharing": _sharing(scene, number) if place.replica_count > 1 else None,
        **own,
        "capacity_bytes": place.kinds[0].memory_bytes,
        "fits_bytes": room.fits_bytes,
        "most_bytes": room.limit_bytes,
        "replica_link": replica_link(scene, place.link, stages),
    }
    return {
        **view,
        "call_s": _call_s(scene, number),
        **_factors(scene, runs, own["forward_s"] + own["backward_s"]),
    }


def _sharing(scene: Scene, number: int) -> str:
    """Return how the replicas of a lane share its samples: a word of `explorer.strategies.shares`."""
    stages = scene.stages_of_lane[number]
    return sharing_of(scene.strategy.stages[stages[0]] if stages else scene.groups[number].template)


def lane_figures(scene: Scene, number: int) -> dict[str, Any]:
    """Return what changes on a lane when layers move: its seconds, memory, microbatches in flight."""
    report = scene.report
    forward, backward = _seconds(scene, number)
    parts, worst = _memory(scene, number)
    busiest = report.memo("busiest lane", lambda: report.busy_s.index(max(report.busy_s)))
    return {
        "forward_s": forward,
        "backward_s": backward,
        "in_flight": _in_flight(scene, worst, scene.stages_of_lane[number]),
        "memory": parts,
        "peak_bytes": sum(parts.values()),
        "binds": len(scene.groups) > 1 and busiest in scene.report_lanes[number],
    }


def _lane_name(stages: Sequence[int]) -> str:
    if not stages:
        return "Empty"
    return f"Stage {stages[0]}" if len(stages) == 1 else f"Stages {', '.join(map(str, stages))}"


MOST_NAMED = 8
"""Most replicas of a lane that are named; thousands of devices are only counted."""


class LanePlace(NamedTuple):
    """Where a lane lies: the same whatever it holds."""

    devices: tuple[int, ...]
    """Its devices, ascending."""
    nodes: str | None
    """Its nodes, in words; None if the cluster has only one."""
    kinds: tuple[DeviceKind, ...]
    """Kinds of its devices, that of the first device first."""
    replicas: list[list[int]]
    """First and last device of the first replicas, of all copies (or their only one); sent to the page as it
    is.
    """
    replica_count: int
    """Number of all of them."""
    link: str | None
    """Kind of the slowest link between neighbours of its replicas; None without a second one."""

    @property
    def span(self) -> list[int] | None:
        """First and last device where its devices follow each other, which names thousands in a few letters;
        else None.
        """
        first, last = self.devices[0], self.devices[-1]
        return [first, last] if last - first == len(self.devices) - 1 else None

    @property
    def kind(self) -> str:
        """The kinds of its devices in words: `v100-16gb`, `v100-16gb, rtx-2060`."""
        return ", ".join(kind.name for kind in self.kinds)


@remembered(1024)
def lane_place(cluster: Cluster, meshes: tuple[Mesh, ...]) -> LanePlace:
    """Return where a lane on these meshes lies."""
    devices = tuple(dict.fromkeys(device for mesh in meshes for device in mesh.devices))
    nodes = sorted(set(map(cluster.node_of, devices)))
    name = f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {nodes[0]}–{nodes[-1]}"
    rows = [row for mesh in meshes for row in mesh.rows]
    paths = [cluster.path(a[0], b[0]) for a, b in pairwise(rows)]
    slowest = min(paths, key=lambda path: path.bandwidth_bytes_per_s, default=None)
    kinds = {kind.name: kind for kind in map(cluster.kind_of, devices)}
    return LanePlace(
        devices=tuple(sorted(devices)),
        nodes=name if cluster.node_count > 1 else None,
        kinds=tuple(kinds.values()),
        replicas=[[row[0], row[-1]] if len(row) > 1 else [row[0]] for row in rows[:MOST_NAMED]],
        replica_count=len(rows),
        link=slowest.kind if slowest else None,
    )


def _runs(scene: Scene, number: int) -> list[dict[str, Any]]:
    """List the runs of consecutive layers of a stage; each sliced layer is a run of its own."""
    stage: Stage = scene.strategy.stages[number]
    index = scene.graph.index
    found: list[dict[str, Any]] = [
        {"stage": number, "copy": 0, "first": first, "count": count}
        for first, count in _whole_runs(scene.graph, stage)
    ]
    found += [
        {"stage": number, "copy": 0, "first": index[part.layer], "count": 1,
         "first_share": part.stop - part.start}
        for part in stage.slices
    ]  # fmt: skip
    return sorted(found, key=lambda run: int(run["first"])) if stage.slices else found


@remembered(STAGES_KEPT)
def _whole_runs(graph: LayerGraph, stage: Stage) -> tuple[tuple[int, int], ...]:
    """Return the (first, count) of runs of consecutive whole layers."""
    index = graph.index
    positions = np.sort(np.array([index[name] for name in stage.layers], dtype=np.int64))
    starts = np.flatnonzero(np.diff(positions, prepend=-2) > 1)
    counts = np.diff(starts, append=len(positions))
    return tuple(zip(positions[starts].tolist(), counts.tolist(), strict=True))


def _seconds(scene: Scene, number: int) -> tuple[float, float]:
    """Sum one microbatch's forward and backward over a lane's stages, with the slowest replica of each."""
    slowest = scene.memo("board.slowest", lambda: _slowest(scene))[number]
    forward = sum(seconds for (_, kind), seconds in slowest.items() if kind == F)
    return forward, sum(slowest.values()) - forward


def _slowest(scene: Scene) -> list[dict[tuple[int, int], float]]:
    """Return the slowest replica's seconds of one microbatch by (section, kind of task), per board lane."""
    program, prices = scene.report.timeline.program, scene.report.timeline.prices
    lanes = [scene.lane_of_stage[section.stage] for section in program.skeleton.sections]
    found: list[dict[tuple[int, int], float]] = [{} for _ in scene.groups]
    for slot, seconds in zip(program.slots, prices.seconds.tolist(), strict=True):
        if slot.kind in (F, B, I, W):
            own, key = found[lanes[slot.where]], (slot.where, slot.kind)
            own[key] = max(own.get(key, 0.0), seconds)
    return found


def _memory(scene: Scene, number: int) -> tuple[dict[str, float], int | None]:
    """Return the memory parts of the fullest device of a board lane, and the report's lane it is in."""
    report = scene.report
    keys = ("weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes", "buffer_bytes")
    lanes = scene.report_lanes[number]
    if not lanes:
        reserved = scene.cluster.kind_of(scene.group_devices[number][0]).reserved_bytes
        return {**dict.fromkeys(keys, 0.0), "other_bytes": reserved}, None
    worst = max(lanes, key=report.peak_memory_bytes.__getitem__)
    weights, versions, *rest, _ = report.memory_parts_bytes[worst]  # what is cached need not fit
    return dict(zip((*keys, "other_bytes"), (weights + versions, *rest), strict=True)), worst


def _in_flight(scene: Scene, lane: int | None, stages: Sequence[int]) -> int:
    """Estimate microbatches kept at the peak: its activations over one microbatch's of every stage."""
    if lane is None:
        return 1
    kept_of = scene.memo("microbatch bytes", lambda: _microbatch_bytes(scene))
    one = sum(kept_of[stage] for stage in stages)
    kept = scene.report.memory_parts_bytes[lane][4]
    return max(1, round(kept / one)) if one > 0 else 1


def _microbatch_bytes(scene: Scene) -> list[float]:
    """Return per stage the bytes of activations that one microbatch keeps on a device."""
    found = [0.0] * len(scene.strategy.stages)
    timeline = scene.report.timeline
    for section, item in zip(timeline.program.skeleton.sections, timeline.prices.memory, strict=True):
        samples = (
            section.microbatch_samples
            if section.round_robin
            else max(map(sub, section.offsets[1:], section.offsets))
        )
        found[section.stage] += item.activation_bytes_per_sample * samples
    return found


def _call_s(scene: Scene, number: int) -> float:
    """Return the seconds that one stage's calls on a lane cost in addition to its layers, per microbatch."""
    kinds = lane_place(scene.cluster, scene.groups[number].meshes).kinds
    stages = [scene.strategy.stages[stage] for stage in scene.stages_of_lane[number]]
    layers = stage_layers(scene.graph, stages[0]) if stages else np.zeros(0, dtype=np.int64)
    degree = stages[0].meshes[0].size("tensor") if stages else 1
    once = call_seconds(scene.graph, kinds, degree, layers)
    if not scene.job.training:
        return once
    return 2 * once * stage_factor(kinds, stages[0].device_count if stages else 1)


def _factors(scene: Scene, runs: list[dict[str, Any]], seconds: float) -> dict[str, float]:
    """Return the factors that turn the sum of a lane's layer costs into its simulated time."""
    costs = layer_costs(scene)
    both = costs.forward_s + costs.backward_s
    added = sum(
        float(both[run["first"] : run["first"] + run["count"]].sum()) * run.get("first_share", 1.0)
        for run in runs
    )
    return {"time_factor": seconds / added} if added > 0 and seconds > 0 else {}


def _boundaries(scene: Scene) -> list[dict[str, Any]]:
    """List the cuts between stages whose layers follow each other in the model."""
    runs = [_runs(scene, s) for s in range(len(scene.strategy.stages))]
    lanes, found = scene.lane_of_stage, []
    start = {run[0]["first"]: s for s, run in enumerate(runs) if not scene.strategy.stages[s].slices}
    for before, own in enumerate(runs):
        last = own[-1]
        at = last["first"] + last["count"]
        after = start.get(at)
        if after is None or lanes[before] == lanes[after] or scene.strategy.stages[before].slices:
            continue
        found.append(
            {
                "id": f"{before}|{after}",
                "before": before,
                "after": after,
                "before_lane": str(lanes[before]),
                "after_lane": str(lanes[after]),
                "at": at,
                "minimum": last["first"] + (1 if len(own) == 1 else 0),
                "maximum": at + runs[after][0]["count"] - (1 if len(runs[after]) == 1 else 0),
            }
        )
    return found
