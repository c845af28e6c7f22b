"""Mesh of ranks: a line of ranks along every mesh axis through this rank, and a meter of what they send."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist

from explorer.base.errors import InputError
from explorer.run.ranks.clocks import settle, worked_s
from explorer.run.sharded.communicators import ready_group

CPU = torch.device("cpu")
Coordinates = tuple[int, ...]
"""Place of a rank along every axis of a mesh."""


@dataclass(slots=True)
class Meter:
    """Bytes that this rank sent to others, by what they were sent for."""

    sent: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """(way, operation, mesh axis, what for) -> bytes."""
    times: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """The same keys -> number of operations."""
    inside_s: float = 0.0
    """Seconds in collectives: packing, sending, and waiting for others."""
    inside_cpu_s: float = 0.0
    """Processor seconds of them, of the thread that computes."""
    imagined_s: float = 0.0
    """Seconds of work to make what imagined ranks would have sent."""
    device: torch.device = CPU
    """Device on which what is sent lies."""
    _way: str = ""
    what: str = ""
    """What is sent now."""

    def count(self, op: str, axis: str, sent: int) -> None:
        """Count one operation."""
        key = (self._way, op, axis, self.what)
        self.sent[key] += sent
        self.times[key] += 1

    def apart(self, op: str, name: str, axis: str, sent: int) -> None:
        """Count bytes of an operation that has just been counted under a name of their own."""
        self.sent[self._way, op, axis, self.what] -= sent
        self.sent[self._way, name, axis, self.what] += sent

    @contextmanager
    def timed(self, *, begun: bool = False) -> Iterator[None]:
        """Time what is done inside as a collective.

        `begun`: it is only begun, and goes on beside what comes next.
        """
        if not begun:  # what the device was given before is no part of it
            settle(self.device)
        wall, cpu = time.perf_counter(), worked_s(self.device)
        try:
            yield
        finally:
            if not begun:
                settle(self.device)
            self.inside_s += time.perf_counter() - wall
            self.inside_cpu_s += worked_s(self.device) - cpu

    @contextmanager
    def imagining(self) -> Iterator[None]:
        """Time what is done inside as the making of what imagined ranks would have sent."""
        settle(self.device)
        begin = worked_s(self.device)
        yield
        settle(self.device)
        self.imagined_s += worked_s(self.device) - begin

    @contextmanager
    def about(self, way: str, what: str) -> Iterator[None]:
        """Count what is sent inside under a way (`forward`, `backward`) and what it is for."""
        before = self._way, self.what
        self._way, self.what = way, what
        try:
            yield
        finally:
            self._way, self.what = before

    def clear(self) -> None:
        """Forget everything counted so far."""
        self.sent.clear()
        self.times.clear()


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The ranks along one mesh axis, of which this is one."""

    axis: str
    """Name of the mesh axis."""
    ranks: tuple[int, ...]
    """Ranks in the order of their places."""
    place: int
    """Place of this rank among them."""
    group: Any
    """Their process group; None for a line of one, or where the others are imagined."""
    meter: Meter
    """Where bytes are counted."""

    @property
    def size(self) -> int:
        """Number of ranks."""
        return len(self.ranks)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankMesh:
    """This rank's place in a mesh, and its line along every axis."""

    axes: tuple[tuple[str, int], ...]
    """Names and sizes, the slowest first."""
    place: Coordinates
    """Place of this rank along every axis."""
    lines: tuple[Line, ...]
    """Its line along every axis."""
    meter: Meter
    """Bytes that this rank sent over any of them."""
    device: torch.device
    """Device on which its tensors live."""

    def with_line(self, line: Line) -> RankMesh:
        """Return the mesh with one more axis, the fastest, along which this rank has a line."""
        return replace(
            self, axes=(*self.axes, (line.axis, line.size)), place=(*self.place, line.place),
            lines=(*self.lines, line),
        )  # fmt: skip


def imagined_mesh(axes: Sequence[tuple[str, int]], device: torch.device) -> RankMesh:
    """Return the first rank's place in a mesh whose other ranks are imagined: they send zeros."""
    meter = Meter(device=device)
    lines = tuple(Line(name, tuple(range(size)), 0, None, meter) for name, size in axes)
    return RankMesh(axes=tuple(axes), place=(0,) * len(axes), lines=lines, meter=meter, device=device)


def open_mesh(
    axes: Sequence[tuple[str, int]],
    ranks: Sequence[int],
    *,
    device: torch.device | None = None,
    all_grids: Sequence[Sequence[int]] = (),
) -> RankMesh:
    """Make the lines of a mesh; every rank of the default process group calls it at the same time.

    Args:
        axes: names and sizes, the slowest first.
        ranks: ranks in row-major order of their coordinates.
        device: device of the tensors; the CPU if None.
        all_grids: the ranks of all meshes that are made at once, the same on all ranks; only this one if ().

    Returns:
        The mesh as this rank sees it.

    Raises:
        InputError: another number of ranks than the mesh has, or this rank is not among them.
    """
    sizes = [size for _, size in axes]
    if math.prod(sizes) != len(ranks):
        raise InputError(
            f"a mesh of {dict(axes)} has {math.prod(sizes)} ranks",
            key="ranks",
            found=len(ranks),
            allowed=str(math.prod(sizes)),
        )
    where = device or CPU
    me, meter = dist.get_rank(), Meter(device=where)
    if me not in ranks:
        raise InputError(f"rank {me} is not in the mesh", key="ranks", found=me, allowed=str(tuple(ranks)))
    place = list(itertools.product(*map(range, sizes)))[list(ranks).index(me)]
    lines = []
    for a, (name, _) in enumerate(axes):
        for grid in all_grids or (ranks,):
            made = lines_along(sizes, grid, a)
            lines += [Line(name, row, place[a], group, meter) for row, group in made if me in row]
    return RankMesh(axes=tuple(axes), place=place, lines=tuple(lines), meter=meter, device=where)


def lines_along(sizes: Sequence[int], ranks: Sequence[int], a: int) -> list[tuple[tuple[int, ...], Any]]:
    """Make the process groups of all lines of a mesh along an axis."""
    members: dict[Coordinates, list[int]] = {}
    for where, rank in zip(itertools.product(*map(range, sizes)), ranks, strict=True):
        members.setdefault((*where[:a], *where[a + 1 :]), []).append(rank)
    return [(tuple(row), ready_group(row)) for row in members.values()]
