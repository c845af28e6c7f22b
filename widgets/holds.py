"""Pins and locks: what neither a hand nor a searcher may move. Pure.

A pinned layer stays on its devices; a locked lane keeps exactly its layers. Both are kept as long as the
placement they refer to exists: another even cut releases what it moves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy

Devices = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """Pins and locks of a state."""

    pinned: frozenset[str] = frozenset()
    """Names of layers that stay on their devices."""
    locked: frozenset[Devices] = frozenset()
    """Devices, ascending, of the lanes that keep their layers."""

    def __bool__(self) -> bool:
        return bool(self.pinned or self.locked)


NOTHING = Holds()


def places(job: JobStrategy) -> dict[str, Devices]:
    """Return the devices of every layer, ascending, over all stages, copies and replicas that hold it."""
    found: dict[str, set[int]] = {}
    for stage in job.stages:
        devices = {device for mesh in stage.meshes for device in mesh.devices}
        for name in stage.all_layers:
            found.setdefault(name, set()).update(devices)
    return {name: tuple(sorted(devices)) for name, devices in found.items()}


def contents(job: JobStrategy) -> dict[Devices, frozenset[str]]:
    """Return the layers of every set of devices that shares a stage's work."""
    found: dict[Devices, set[str]] = {}
    for stage in job.stages:
        devices = tuple(sorted({device for mesh in stage.meshes for device in mesh.devices}))
        found.setdefault(devices, set()).update(stage.all_layers)
    return {devices: frozenset(names) for devices, names in found.items()}


def with_pins(holds: Holds, layers: Iterable[str], *, on: bool) -> Holds:
    """Pin layers, or unpin them."""
    names = frozenset(layers)
    return replace(holds, pinned=holds.pinned | names if on else holds.pinned - names)


def with_lock(holds: Holds, devices: Iterable[int], *, on: bool) -> Holds:
    """Lock the lane on some devices, or unlock it."""
    lane = frozenset({tuple(sorted(devices))})
    return replace(holds, locked=holds.locked | lane if on else holds.locked - lane)


def released(holds: Holds, before: JobStrategy, after: JobStrategy) -> Holds:
    """Return the part of `holds` that a change of placement breaks; empty if it respects all."""
    if not holds:
        return NOTHING
    old, new = places(before), places(after)
    had, has = contents(before), contents(after)
    return Holds(
        pinned=frozenset(name for name in holds.pinned if old.get(name) != new.get(name)),
        locked=frozenset(lane for lane in holds.locked if had.get(lane) != has.get(lane)),
    )


def check(holds: Holds, before: JobStrategy, after: JobStrategy) -> None:
    """Refuse a move by hand that pins or locks forbid.

    Raises:
        InputError: the move breaks a pin or lock; the message says how to release it.
    """
    broken = released(holds, before, after)
    if broken.pinned:
        names = sorted(broken.pinned)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise InputError(
            f"{names[0]}{more} is pinned to its devices" if not more else f"{names[0]}{more} are pinned",
            key="pins", found=names[0], allowed="unpin first: select it and press P",
        )  # fmt: skip
    if broken.locked:
        lane = min(broken.locked)
        raise InputError(
            f"the lane on devices {', '.join(map(str, lane))} is locked: it keeps exactly its layers",
            key="locks", found=str(lane), allowed="unlock first: go to the lane and press L",
        )  # fmt: skip


def kept(holds: Holds, before: JobStrategy, after: JobStrategy) -> Holds:
    """Return the holds that still apply to a new placement."""
    gone = released(holds, before, after)
    return Holds(pinned=holds.pinned - gone.pinned, locked=holds.locked - gone.locked)


def bounds(
    holds: Holds, job: JobStrategy, graph: LayerGraph, cluster: Cluster
) -> tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]:
    """Return the (pins, bans) of `explorer.search.Problem`: (layer, device) that must and must not hold.

    A pinned layer must be on its devices and on no other; so must the layers of a locked lane, and all other
    layers must keep away from it.
    """
    where = places(job)
    held = {name: where[name] for name in graph.index if name in holds.pinned and name in where}
    bans: list[tuple[str, int]] = []
    for devices, names in contents(job).items():
        if devices in holds.locked:
            held |= dict.fromkeys(sorted(names), devices)
            bans += [(name, d) for name in graph.index if name not in names for d in devices]
    pins = tuple((name, device) for name, devices in held.items() for device in devices)
    everywhere = range(cluster.device_count)
    bans += [(name, d) for name, devices in held.items() for d in everywhere if d not in set(devices)]
    return pins, tuple(dict.fromkeys(bans))
