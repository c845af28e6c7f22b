"""The board: which lane holds which layers, what each costs, the cuts between stages and the links."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import numpy as np

from explorer.identity import IdentityCache
from explorer.pricing import lane_route
from explorer.strategy import Stage
from explorer.tasks.placement import IntArray
from explorer.tasks.program import REDUCE, TRANSFER, B, F, I, Program, W
from explorer.views.blocks import layer_costs
from explorer.views.scene import Scene

LINK_NAMES = {
    "nvlink": "NVLink", "nvswitch": "NVSwitch", "pcie": "PCIe", "infiniband": "InfiniBand",
    "ethernet": "Ethernet", "internet": "internet", "shared": "shared memory", "host": "host",
}  # fmt: skip
"""Kinds of link that the page draws, by name."""

_COUNTS = IdentityCache(256)


def board_view(
    scene: Scene, *, can_undo: bool = False, can_redo: bool = False, baseline_name: str | None = None
) -> dict[str, Any]:
    """`Board.view`."""
    lanes = [_lane(scene, i) for i in range(len(scene.groups))]
    total = sum(lane["forward_s"] + lane["backward_s"] for lane in lanes)
    return {
        "lanes": lanes,
        "boundaries": _boundaries(scene),
        "links": _links(scene),
        "ideal_s": total / len(lanes),
        "scale_key": f"{scene.graph.name}|{scene.cluster.name}|{len(lanes)}|{_samples_key(scene)}",
        "can_undo": can_undo,
        "can_redo": can_redo,
        "editable": not any(stage.slices for stage in scene.strategy.stages),
        "baseline_name": baseline_name,
    }


def _samples_key(scene: Scene) -> str:
    stage = scene.strategy.stages[0]
    return f"{scene.job.sequence_length}|{stage.microbatch_samples}|{stage.meshes[0].axes}"


def step_counts(program: Program) -> IntArray:
    """How often each slot occurs in the first step."""
    return _COUNTS.get(
        (program,), None,
        lambda: np.bincount(program.slot[program.step == 0], minlength=len(program.slots)),
    )  # fmt: skip


def _lane(scene: Scene, number: int) -> dict[str, Any]:
    group, report = scene.groups[number], scene.report
    stages = [s for s, lane in enumerate(scene.lane_of_stage) if lane == number]
    runs = [run for s in stages for run in _runs(scene, s)]
    forward, backward = _seconds(scene, set(stages))
    parts, worst = _memory(scene, number)
    busiest = max(range(len(report.busy_s)), key=report.busy_s.__getitem__)
    view = {
        "id": str(number),
        "name": _lane_name(stages),
        "group": _node_name(scene, number),
        "replicas": [list(row) for row in group.meshes[0].rows],
        "runs": _noted(scene, runs),
        "forward_s": forward,
        "backward_s": backward,
        "in_flight": _in_flight(scene, worst, stages),
        "capacity_bytes": scene.cluster.kind_of(scene.group_devices[number][0]).memory_bytes,
        "memory": parts,
        "peak_bytes": sum(parts.values()),
        "binds": len(scene.groups) > 1 and busiest in scene.report_lanes[number],
        "replica_link": _replica_link(scene, number, set(stages)),
    }
    return {**view, **_factors(scene, runs, forward + backward)}


def _lane_name(stages: list[int]) -> str:
    if not stages:
        return "Empty"
    return f"Stage {stages[0]}" if len(stages) == 1 else f"Stages {', '.join(map(str, stages))}"


def _node_name(scene: Scene, number: int) -> str | None:
    if scene.cluster.node_count < 2:
        return None
    nodes = sorted({scene.cluster.node_of(device) for device in scene.group_devices[number]})
    return f"node {nodes[0]}" if len(nodes) == 1 else f"nodes {nodes[0]}–{nodes[-1]}"


def _runs(scene: Scene, number: int) -> list[dict[str, Any]]:
    """Consecutive layers of a stage; each sliced layer is a run of its own."""
    stage: Stage = scene.strategy.stages[number]
    index = scene.graph.index
    found: list[dict[str, Any]] = []
    for position in sorted(index[name] for name in stage.layers):
        if found and found[-1]["first"] + found[-1]["count"] == position:
            found[-1]["count"] += 1
        else:
            found.append({"stage": number, "copy": 0, "first": position, "count": 1})
    found += [
        {"stage": number, "copy": 0, "first": index[part.layer], "count": 1,
         "first_share": part.stop - part.start}
        for part in stage.slices
    ]  # fmt: skip
    return sorted(found, key=lambda run: int(run["first"]))


def _noted(scene: Scene, runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Say of every further run of a lane where its data goes; chunks of interleaving are meant to be so."""
    if len(runs) < 2 or scene.strategy.schedule.startswith("interleaved"):
        return runs
    lanes = scene.lane_of_layer
    names = [layer.name for layer in scene.graph.layers]
    for run in runs[1:]:
        first, end = run["first"], run["first"] + run["count"]
        own = lanes[names[first]]
        around = [lanes[names[i]] for i in (first - 1, end) if 0 <= i < len(names) and lanes[names[i]] != own]
        if around:
            run["note"] = f"+{len(around)} transfer{'s' if len(around) > 1 else ''} each way: " + " → ".join(
                [*around[:1], own, *around[1:]]
            )
    return runs


def _seconds(scene: Scene, stages: set[int]) -> tuple[float, float]:
    """Forward and backward of one microbatch over all stages of a lane, the slowest replica of each."""
    program, prices = scene.report.timeline.program, scene.report.timeline.prices
    sections = program.skeleton.sections
    slowest: dict[tuple[int, int], float] = {}
    for number, slot in enumerate(program.slots):
        if slot.kind in (F, B, I, W) and sections[slot.where].stage in stages:
            key = (slot.where, slot.kind)
            slowest[key] = max(slowest.get(key, 0.0), float(prices.seconds[number]))
    forward = sum(seconds for (_, kind), seconds in slowest.items() if kind == F)
    return forward, sum(slowest.values()) - forward


def _memory(scene: Scene, number: int) -> tuple[dict[str, float], int | None]:
    """Parts of the fullest device of a board lane, and the report's lane it is in."""
    report = scene.report
    keys = ("weight_bytes", "gradient_bytes", "optimizer_bytes", "activation_bytes", "buffer_bytes")
    lanes = scene.report_lanes[number]
    if not lanes:
        reserved = scene.cluster.kind_of(scene.group_devices[number][0]).reserved_bytes
        return {**dict.fromkeys(keys, 0.0), "other_bytes": reserved}, None
    worst = max(lanes, key=lambda lane: sum(report.memory_parts_bytes[lane]))
    weights, versions, *rest = report.memory_parts_bytes[worst]
    return dict(zip((*keys, "other_bytes"), (weights + versions, *rest), strict=True)), worst


def _in_flight(scene: Scene, lane: int | None, stages: list[int]) -> int:
    """Microbatches kept at the peak: activations there over those of one microbatch of every stage."""
    report, program = scene.report, scene.report.timeline.program
    if lane is None:
        return 1
    sections = program.skeleton.sections
    one = sum(
        item.activation_bytes_per_sample * max(map(section.samples, range(section.replicas)))
        for section, item in zip(sections, report.timeline.prices.memory, strict=True)
        if section.stage in stages
    )
    kept = report.memory_parts_bytes[lane][4]
    return max(1, round(kept / one)) if one > 0 else 1


def _factors(scene: Scene, runs: list[dict[str, Any]], seconds: float) -> dict[str, float]:
    """What turns the sum of a lane's layer costs into its simulated time."""
    costs = layer_costs(scene)
    both = costs.forward_s + costs.backward_s
    added = sum(
        float(both[run["first"] : run["first"] + run["count"]].sum()) * run.get("first_share", 1.0)
        for run in runs
    )
    return {"time_factor": seconds / added} if added > 0 and seconds > 0 else {}


def _replica_link(scene: Scene, number: int, stages: set[int]) -> dict[str, Any] | None:
    """Gradient reduction between the replicas of a lane: the slowest neighbours on the ring."""
    rows = [row for mesh in scene.groups[number].meshes for row in mesh.rows]
    if len(rows) < 2 or not scene.job.training:
        return None
    program, prices = scene.report.timeline.program, scene.report.timeline.prices
    counts, sections = step_counts(program), program.skeleton.sections
    size = 0.0
    for slot, times, moved in zip(program.slots, counts.tolist(), prices.bytes.tolist(), strict=True):
        if slot.kind == REDUCE and sections[slot.piece.section].stage in stages:
            size += times * moved
    slowest = min(
        (scene.cluster.path(a[0], b[0]) for a, b in pairwise(rows)),
        key=lambda path: path.bandwidth_bytes_per_s,
    )
    kind = link_kind(slowest.kind)
    return {"kind": kind, "name": LINK_NAMES[kind], "step_bytes": size}


def link_kind(kind: str) -> str:
    """A cluster's link kind as the page knows it."""
    return {"shared_memory": "shared", "local": "shared"}.get(kind, kind if kind in LINK_NAMES else "shared")


def _boundaries(scene: Scene) -> list[dict[str, Any]]:
    """Cuts between stages whose layers follow each other in the model."""
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


def _links(scene: Scene) -> list[dict[str, Any]]:
    """Transfers between board lanes, both directions and all flows of a pair together."""
    program, prices = scene.report.timeline.program, scene.report.timeline.prices
    sections, counts = program.skeleton.sections, step_counts(program)
    lane_of_stage = scene.lane_of_stage
    found: dict[tuple[int, int], dict[str, Any]] = {}
    once: dict[tuple[int, int], dict[tuple[int, bool], tuple[float, float]]] = defaultdict(dict)
    for number in np.flatnonzero(counts).tolist():
        slot = program.slots[number]
        if slot.kind != TRANSFER:
            continue
        ends = [lane_of_stage[sections[piece.section].stage] for piece in (slot.piece, slot.peer)]
        source, target = ends[::-1] if slot.backward else ends
        if source == target:
            continue
        entry = found.setdefault((source, target), _link(scene, source, target, slot))
        size, seconds = float(prices.bytes[number]), float(prices.seconds[number])
        members = len(program.replica_classes.get(slot.piece.replica, (0,)))
        entry["step_bytes"] += int(counts[number]) * size * members
        known = once[source, target].get((slot.where, slot.backward), (0.0, 0.0))
        once[source, target][slot.where, slot.backward] = (max(known[0], size), max(known[1], seconds))
    for pair, entry in found.items():
        for (_, backward), (size, seconds) in once[pair].items():
            entry["backward_bytes" if backward else "forward_bytes"] += size
            entry["transfer_s"] = max(entry["transfer_s"], seconds)
    return list(found.values())


def _link(scene: Scene, source: int, target: int, slot: Any) -> dict[str, Any]:
    sections = scene.report.timeline.program.skeleton.sections
    rows = [sections[p.section].rows[p.copy][p.replica] for p in (slot.piece, slot.peer)]
    kind = link_kind(lane_route(scene.cluster, rows[0], rows[1]).kind)
    crosses = scene.cluster.node_of(rows[0][0]) != scene.cluster.node_of(rows[1][0])
    return {
        "from_lane": str(source),
        "to_lane": str(target),
        "kind": kind,
        "name": LINK_NAMES[kind] + (", between nodes" if crosses else ""),
        "dashed": crosses,
        "forward_bytes": 0.0,
        "backward_bytes": 0.0,
        "transfer_s": 0.0,
        "step_bytes": 0.0,
    }
