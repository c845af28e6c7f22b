"""Lines: the devices along one mesh axis through the devices of a row.

    mesh (replica 2, context 2, tensor 2) over 0..7, row (0 1 2 3):
        context, 2: (0 2) (1 3)         tensor, 2: (0 1) (2 3)

An axis of another mesh (experts over the data-parallel ranks) may leave the row.
"""

from __future__ import annotations

from typing import TypeAlias

from explorer.base.caching import STAGES_KEPT, Hashed, remembered
from explorer.strategy import REPLICA, Mesh, Stage

Line: TypeAlias = tuple[int, ...]
Lines: TypeAlias = tuple[tuple[str, int, tuple[Line, ...]], ...]
"""(axis, size, lines through the row's devices, each once)."""


def axis_lines(stage: Stage, copy: int, row: Line) -> Lines:
    """Return a row's lines along every axis but the replicas': of the stage's mesh, then its shardings'."""
    return lines_of(meshes_of(stage, copy), row)


def meshes_of(stage: Stage, copy: int) -> tuple[Mesh, ...]:
    """Return the meshes of a copy of a stage: its own, then its shardings'."""
    others = [item.meshes[copy] for item in stage.shardings if item.meshes] if stage.shardings else ()
    return (stage.meshes[copy], *others)


@remembered(4 * STAGES_KEPT)
def lines_of(meshes: tuple[Mesh, ...], row: Line) -> Lines:
    """Return a row's lines along every axis of some meshes but the replicas'."""
    found: dict[tuple[str, int], tuple[Line, ...]] = {}
    for mesh in dict.fromkeys(meshes):
        for axis, size in mesh.axes:
            inner = axis != REPLICA and size > 1 and (axis, size) not in found
            if inner and (lines := _lines(mesh, axis, row)):
                found[axis, size] = lines
    return tuple((axis, size, lines) for (axis, size), lines in found.items())


@remembered(STAGES_KEPT)
def lines_of_rows(meshes: tuple[Mesh, ...], rows: Hashed[Line]) -> Hashed[Lines]:
    """Return the lines of many rows, each as `lines_of` has them."""
    return Hashed([lines_of(meshes, row) for row in rows])


def _lines(mesh: Mesh, axis: str, row: Line) -> tuple[Line, ...]:
    place = _places(mesh)
    stride = 1
    for name, size in reversed(mesh.axes):
        if name == axis:
            break
        stride *= size
    starts = [place[d] - place[d] // stride % size * stride for d in row if d in place]
    return tuple(tuple(mesh.devices[s + k * stride] for k in range(size)) for s in dict.fromkeys(starts))


@remembered(1024)
def _places(mesh: Mesh) -> dict[int, int]:
    """Return the position of each device of a mesh."""
    return {device: i for i, device in enumerate(mesh.devices)}


def cut_row(mesh: Mesh, row: Line, axes: tuple[str, ...]) -> tuple[Line, ...]:
    """Group the devices of a row by their coordinates along some axes of its mesh, in order of coordinate."""
    place = _places(mesh)
    parts: dict[tuple[int, ...], list[int]] = {}
    for device in row:
        found = mesh.coordinates(place[device])
        parts.setdefault(tuple(found.get(axis, 0) for axis in axes), []).append(device)
    return tuple(map(tuple, parts.values()))


@remembered(STAGES_KEPT)
def cut_rows(meshes: tuple[Mesh, ...], rows: Hashed[Line], axes: tuple[str, ...]) -> Hashed[Line]:
    """Return the parts of many rows, each of one of the meshes, as `cut_row` has them."""
    mesh_of = {row: mesh for mesh in meshes for row in mesh.rows}
    return Hashed([part for row in rows for part in cut_row(mesh_of[row], row, axes)])


def lines_along(lines: Lines, axis: str, size: int) -> tuple[Line, ...]:
    """Return the lines along an axis of a given size; () if the row has none."""
    return next((found for name, count, found in lines if name == axis and count == size), ())


def summed_with(lines: Lines, device: int, sums: tuple[tuple[str, int], ...]) -> Line:
    """Return the devices whose partial sums join those of `device`: so many neighbours along each axis.

    Pieces of a parameter that is split into fewer parts than its axis has devices are held by neighbours.
    """
    group = [device]
    for axis, count in sums:
        along = [line for name, _, found in lines if name == axis for line in found]
        wider: list[int] = []
        for member in group:
            line = next((line for line in along if member in line), (member,))
            first = line.index(member) // count * count
            wider += line[first : first + count]
        group = list(dict.fromkeys(wider))
    return tuple(group)
