"""Traffic between the board's lanes: activations and gradients by pair, reductions, broken runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from explorer.base.units import format_bytes, format_seconds
from explorer.explain.names import LINK_NAMES, link_kind
from explorer.pricing import lane_route
from explorer.tasks.placement import IntArray
from explorer.tasks.program import REDUCE, TRANSFER, Program, Slot
from explorer.views.scene import Scene


def step_counts(program: Program) -> IntArray:
    """Count how often each slot occurs in the first step."""
    return program.memo(
        "views.step_counts",
        lambda: np.bincount(program.slot[program.step == 0], minlength=len(program.slots)),
    )


@dataclass(slots=True)
class Hop:
    """Transfers from one stage to another, in both directions."""

    slot: Slot
    """One of the transfers; its pieces tell the link."""
    step_bytes: float = 0.0
    """Bytes of one step, both directions, all replicas."""
    once: dict[tuple[int, bool], tuple[float, float]] = field(default_factory=dict)
    """Bytes and seconds of one microbatch, slowest replica, by flow and direction (True is backward)."""

    def bytes_of(self, *, backward: bool) -> float:
        """Return the bytes of one microbatch in one direction."""
        return sum(size for (_, back), (size, _) in self.once.items() if back == backward)

    @property
    def transfer_s(self) -> float:
        """Return the seconds of the longest transfer of one microbatch."""
        return max(seconds for _, seconds in self.once.values())


def hops_of(scene: Scene) -> dict[tuple[int, int], Hop]:
    """Collect hops between stages on different lanes, by (sending, receiving) stage of the forward pass."""
    program, prices = scene.report.timeline.program, scene.report.timeline.prices
    sections, counts = program.skeleton.sections, step_counts(program)
    lane_of_stage = scene.lane_of_stage
    found: dict[tuple[int, int], Hop] = {}
    for number in np.flatnonzero(counts).tolist():
        slot = program.slots[number]
        if slot.kind != TRANSFER:
            continue
        ends = [sections[piece.section].stage for piece in (slot.piece, slot.peer)]
        source, target = ends[::-1] if slot.backward else ends
        if lane_of_stage[source] == lane_of_stage[target]:
            continue
        hop = found.setdefault((source, target), Hop(slot))
        size, seconds = float(prices.bytes[number]), float(prices.seconds[number])
        members = len(program.replica_classes.get(slot.piece.replica, (0,)))
        hop.step_bytes += int(counts[number]) * size * members
        known = hop.once.get((slot.where, slot.backward), (0.0, 0.0))
        hop.once[slot.where, slot.backward] = (max(known[0], size), max(known[1], seconds))
    return found


def links_view(scene: Scene, hops: Mapping[tuple[int, int], Hop]) -> list[dict[str, Any]]:
    """Return the links between board lanes: all hops of a pair of lanes together."""
    lanes = scene.lane_of_stage
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for (source, target), hop in hops.items():
        pair = (lanes[source], lanes[target])
        entry = found.setdefault(pair, _link(scene, *pair, hop.slot))
        entry["step_bytes"] += hop.step_bytes
        entry["forward_bytes"] += hop.bytes_of(backward=False)
        entry["backward_bytes"] += hop.bytes_of(backward=True)
        entry["transfer_s"] = max(entry["transfer_s"], hop.transfer_s)
    return list(found.values())


def _link(scene: Scene, source: int, target: int, slot: Slot) -> dict[str, Any]:
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


def replica_link(scene: Scene, kind: str | None, stages: Sequence[int]) -> dict[str, Any] | None:
    """Return a lane's gradient reduction: the slowest neighbours on its ring; None without replicas.

    Args:
        scene: the strategy.
        kind: kind of the slowest link between neighbours; None without replicas.
        stages: stages on the lane.
    """
    if kind is None or not scene.job.training:
        return None
    reduced = scene.memo("reduced bytes", lambda: _reduced_bytes(scene))
    size = sum((reduced.get(stage, 0.0) for stage in stages), 0.0)
    shown = link_kind(kind)
    return {"kind": shown, "name": LINK_NAMES[shown], "step_bytes": size}


def _reduced_bytes(scene: Scene) -> dict[int, float]:
    """Return per stage the bytes of its reductions in a step."""
    program, prices = scene.report.timeline.program, scene.report.timeline.prices
    counts, sections = step_counts(program), program.skeleton.sections
    found: dict[int, float] = {}
    for slot, times, moved in zip(program.slots, counts.tolist(), prices.bytes.tolist(), strict=True):
        if slot.kind == REDUCE:
            stage = sections[slot.piece.section].stage
            found[stage] = found.get(stage, 0.0) + times * moved
    return found


def noted(
    scene: Scene, runs: list[dict[str, Any]], hops: Mapping[tuple[int, int], Hop]
) -> list[dict[str, Any]]:
    """Add to every further run of a lane where its data goes and what that costs.

    Chunks of an interleaved schedule are separate on purpose and get no note.
    """
    if len(runs) < 2 or scene.strategy.schedule.startswith("interleaved"):
        return runs
    for run in runs[1:]:
        note = _note(scene, run, hops)
        if note:
            run["note"] = note
    return runs


def _note(scene: Scene, run: dict[str, Any], hops: Mapping[tuple[int, int], Hop]) -> str:
    """Write `+1 transfer each way, 1.5 ms and 32 MiB a microbatch, 2.0 GiB a step: gpu 0 → 2 → 0 → 4`."""
    lanes, layers = scene.lane_of_layer, scene.graph.layers
    first, end = run["first"], run["first"] + run["count"]
    own = lanes[layers[first].name]
    places = [lanes[layers[i].name] if 0 <= i < len(layers) else own for i in (first - 1, end)]
    around = [lane for lane in places if lane != own]
    if not around:
        return ""
    straight = len(around) == 2 and around[0] != around[1]  # data would go from one to the other anyway
    extra = len(around) - (1 if straight else 0)
    way = [own, places[0], own, *around[1:]] if places[0] != own else [own, places[1]]
    devices = " → ".join(str(scene.group_devices[int(lane)][0]) for lane in way)
    words = f"+{extra} transfer{'s' if extra > 1 else ''} each way"
    mine = [hop for pair, hop in hops.items() if run["stage"] in pair]
    if mine:
        share = extra / len(mine)
        seconds = sum(hop.transfer_s for hop in mine) * share
        size = sum(hop.bytes_of(backward=False) for hop in mine) * share
        step = sum(hop.step_bytes for hop in mine) * share
        words += (
            f", {format_seconds(seconds)} and {format_bytes(size)} a microbatch, {format_bytes(step)} a step"
        )
    return f"{words}: gpu {devices}"
