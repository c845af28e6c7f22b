"""Edits of devices: swap two, give a replica to another group, take devices out of use or into it.

A group gains or loses whole replicas: the row of devices that works on one replica moves together. Everything
else that is chosen stays, so what the new number of replicas forbids is left to the checks of the strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError
from explorer.strategies.exceptions import mesh_over
from explorer.strategies.moves import DeviceGroup
from explorer.strategy import REPLICA, JobStrategy, Mesh, Sharding, Stage

IntArray = npt.NDArray[np.int64]
Row = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A strategy with all of its device groups, those that hold no layers included."""

    job: JobStrategy
    """The strategy."""
    groups: tuple[DeviceGroup, ...]
    """Its groups, in the order of the board."""


def swapped(placed: Placed, one: int, other: int) -> Placed:
    """Return the strategy with two devices in each other's place; one of them may be out of use.

    Raises:
        InputError: the devices are the same, or neither is in use.
    """
    used = _used(placed)
    if one == other or not {one, other} & used:
        raise InputError(
            f"devices {one} and {other} cannot change places", key="devices", found=other,
            allowed="two devices, one of them in use",
        )  # fmt: skip
    names = {one: other, other: one}

    def named(devices: Row) -> Row:
        return tuple([names.get(device, device) for device in devices])

    def rename(mesh: Mesh) -> Mesh:
        return replace(mesh, devices=named(mesh.devices))

    sync = tuple(replace(item, servers=named(item.servers)) for item in placed.job.sync)
    job = replace(placed.job, sync=sync)
    return _with_meshes(replace(placed, job=job), lambda stage: _renamed(stage, rename))


def given(placed: Placed, device: int, group: int) -> Placed:
    """Return the strategy with the replica of a device on another group.

    Raises:
        InputError: no such group, a device that is out of use, or as `without_row` and `with_row`.
    """
    if not 0 <= group < len(placed.groups):
        raise _no_lane(placed, group)
    row = row_of(placed, device)
    if row is None:
        raise InputError(
            f"device {device} is out of use", key="devices", found=device, allowed="a device in use",
        )  # fmt: skip
    return with_row(without_row(placed, device), row, group)


def with_device(
    placed: Placed, idle: Iterable[int], device: int, *, lane: int | None = None, other: int | None = None
) -> Placed:
    """Return the strategy after a device was put somewhere: on a lane, on another device, or out of use.

    Args:
        placed: the strategy.
        idle: devices out of use, in the order in which they are taken.
        device: the device; with its replica, unless it is put on another device.
        lane: number of the group that gains a replica; None for none.
        other: device that it changes places with, both with their replicas if these are equally large; None
            for none.

    Raises:
        InputError: as `swapped`, `given`, `joining`, `with_row` and `without_row`.
    """
    if other is not None:
        return _rows_swapped(placed, device, other)
    if lane is None:
        return without_row(placed, device)
    if row_of(placed, device) is not None:
        return given(placed, device, lane)
    if not 0 <= lane < len(placed.groups):
        raise _no_lane(placed, lane)
    return with_row(placed, joining(placed, idle, device, lane), lane)


def _rows_swapped(placed: Placed, one: int, other: int) -> Placed:
    """Let two replicas change places if they have equally many devices, else only the two devices."""
    rows = row_of(placed, one), row_of(placed, other)
    if None in rows or rows[0] == rows[1] or len(rows[0] or ()) != len(rows[1] or ()):
        return swapped(placed, one, other)
    for a, b in zip(rows[0] or (), rows[1] or (), strict=True):
        placed = swapped(placed, a, b)
    return placed


def _no_lane(placed: Placed, lane: int) -> InputError:
    return InputError(f"no lane {lane}", key="lane", found=lane, allowed=f"0 to {len(placed.groups) - 1}")


def row_of(placed: Placed, device: int) -> Row | None:
    """Return the devices of the replica that a device works on; None if it is out of use."""
    for group in placed.groups:
        for mesh in group.meshes:
            for row in mesh.rows:
                if device in row:
                    return row
    return None


def without_row(placed: Placed, device: int) -> Placed:
    """Return the strategy without the replica of a device; its devices are out of use.

    Raises:
        InputError: it is the only replica of its group, the group has several copies of its stages, or the
            device is in several groups or in none.
    """
    homes = [
        i for i, group in enumerate(placed.groups) if any(device in mesh.devices for mesh in group.meshes)
    ]
    if len(homes) != 1:
        what = "is out of use" if not homes else f"works for lanes {' and '.join(map(str, homes))}"
        raise InputError(
            f"device {device} {what}", key="devices", found=device, allowed="a device of one lane"
        )
    old = _only_mesh(placed.groups[homes[0]], homes[0])
    if old.replicas < 2:
        raise InputError(
            f"lane {homes[0]} has no replica but that of device {device}, and cannot be without devices",
            key="devices", found=device, allowed="a swap, or another replica for the lane first",
        )  # fmt: skip
    array, axis = _as_array(old)
    at = int(np.argwhere(array == device)[0][axis])
    return _on_mesh(placed, homes[0], _mesh_of(np.delete(array, at, axis), old))


def with_row(placed: Placed, row: Sequence[int], group: int) -> Placed:
    """Return the strategy with devices that are out of use as another replica of a group, its last.

    Raises:
        InputError: a device is in use, the replicas of the group have another number of devices, or the group
            has several copies of its stages.
    """
    if not 0 <= group < len(placed.groups):
        raise _no_lane(placed, group)
    if busy := sorted(_used(placed).intersection(row)):
        raise InputError(
            f"device {busy[0]} is in use", key="devices", found=busy[0], allowed="devices out of use"
        )
    old = _only_mesh(placed.groups[group], group)
    size = len(old.rows[0])
    if len(row) != size:
        raise InputError(
            f"a replica of {len(row)} does not fit lane {group}, whose replicas have {size} devices",
            key="devices", found=len(row), allowed=f"{size} devices, or a swap of single devices",
        )  # fmt: skip
    array, axis = _as_array(old)
    shape = [1 if k == axis else size for k, size in enumerate(array.shape)]
    return _on_mesh(placed, group, _mesh_of(np.concatenate([array, np.reshape(row, shape)], axis), old))


def joining(placed: Placed, idle: Iterable[int], device: int, group: int) -> Row:
    """Return the devices out of use that would join a group as one replica, beginning with one of them.

    Args:
        placed: the strategy.
        idle: devices out of use, in the order in which they are taken.
        device: the first one.
        group: number of the group.

    Raises:
        InputError: too few devices are out of use.
    """
    size = len(placed.groups[group].meshes[0].rows[0])
    order = list(dict.fromkeys(idle))
    after = order[order.index(device) :] + order[: order.index(device)] if device in order else []
    if len(after) < size:
        raise InputError(
            f"{len(after)} devices are out of use, and a replica of lane {group} has {size}", key="devices",
            found=len(after), allowed=f"{size} devices out of use",
        )  # fmt: skip
    return tuple(after[:size])


# ---- meshes ---------------------------------------------------------------------------------------


def _used(placed: Placed) -> frozenset[int]:
    return frozenset(d for group in placed.groups for mesh in group.meshes for d in mesh.devices)


def _only_mesh(group: DeviceGroup, number: int) -> Mesh:
    if len(group.meshes) != 1:
        raise InputError(
            f"lane {number} has {len(group.meshes)} copies of its stages, all with equally many devices",
            key="devices", found=len(group.meshes), allowed="a schedule with one copy, or a swap of devices",
        )  # fmt: skip
    return group.meshes[0]


def _as_array(mesh: Mesh) -> tuple[IntArray, int]:
    """Return the devices by axis, and which axis counts replicas; one of size 1 is added if there is none."""
    names = [name for name, _ in mesh.axes]
    array = np.array(mesh.devices).reshape([size for _, size in mesh.axes])
    return (array, names.index(REPLICA)) if REPLICA in names else (array[None], 0)


def _mesh_of(array: IntArray, old: Mesh) -> Mesh:
    names = [name for name, _ in old.axes]
    names = names if REPLICA in names else [REPLICA, *names]
    axes = tuple(zip(names, map(int, array.shape), strict=True))
    return Mesh(devices=tuple(map(int, array.ravel())), axes=axes)


def _on_mesh(placed: Placed, number: int, mesh: Mesh) -> Placed:
    """Return the strategy with a group on another mesh of the same axes."""
    old = placed.groups[number].meshes

    def moved(stage: Stage) -> Stage:
        if stage.meshes != old:
            return stage
        total = mesh.replicas
        return replace(
            stage, meshes=(mesh,), shares=stage.shares if len(stage.shares) == total else (),
            zero_replicas=0 if stage.zero_replicas and total % stage.zero_replicas else stage.zero_replicas,
            shardings=tuple(_resized(item, old[0], mesh) for item in stage.shardings),
        )  # fmt: skip

    return _with_meshes(placed, moved)


def _resized(item: Sharding, old: Mesh, new: Mesh) -> Sharding:
    """Return an exception on the devices of another mesh of its stage."""
    if not item.meshes:
        return item
    own = item.meshes[0]
    kept = [name for name, _ in own.axes if name != REPLICA]
    if own == mesh_over(old, kept):
        return replace(item, meshes=(mesh_over(new, kept),))
    inner = tuple((name, size) for name, size in own.axes if name != REPLICA)
    width, count = int(np.prod([size for _, size in inner], initial=1)), len(new.devices)
    if own.devices != old.devices or count % width:
        raise InputError(
            f"{', '.join(item.layers)} lie over groups of {width}, which do not divide {count} devices",
            key="devices", found=count, allowed=f"a multiple of {width} devices on this lane",
        )  # fmt: skip
    return replace(item, meshes=(Mesh(devices=new.devices, axes=((REPLICA, count // width), *inner)),))


def _renamed(stage: Stage, rename: Callable[[Mesh], Mesh]) -> Stage:
    shardings = tuple(replace(item, meshes=tuple(map(rename, item.meshes))) for item in stage.shardings)
    return replace(stage, meshes=tuple(map(rename, stage.meshes)), shardings=shardings)


def _with_meshes(placed: Placed, change: Callable[[Stage], Stage]) -> Placed:
    """Change all stages, and the templates of all groups alike."""
    templates = [change(group.template) for group in placed.groups]
    groups = tuple(DeviceGroup(meshes=item.meshes, template=item) for item in templates)
    return Placed(job=placed.job.with_stages(change(stage) for stage in placed.job.stages), groups=groups)
