"""Tiles: products in parts beside their collective, a gather that feeds them or a reduction of their result.

Flux (Chang et al., arXiv:2406.06858) runs a product tile by tile, and the tiles' collective beside the
tiles after. Here tiles are the ranks' pieces along one axis of a tensor, each rank begins with another one,
and what is on its way goes on while the next tile is computed. What is sent is what the collective alone
sends.

    gathered    tile by tile what all ranks have, as it comes          adjoint: scattered
    scattered   tile by tile to the rank whose it is, added up there   adjoint: gathered

Where a sum is wanted on all ranks it is scattered, then gathered at once (`all_reduce`); its gradient, which
all ranks have, is cut into tiles and nothing is sent, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from explorer.run.sharded.collectives import exchange
from explorer.run.sharded.mesh import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """Which places along an axis of a tensor are the tile of each rank of a line."""

    line: Line
    """The ranks."""
    axis: int
    """Axis of the tensor."""
    tiles: tuple[tuple[int, ...], ...]
    """Places of the whole tensor along the axis, by rank; together all of them, each once."""
    tag: int = 0
    """Number by which messages of tensors that are under way at once are told apart."""
    name: str = ""
    """Tensor, under which bytes are counted."""

    @property
    def order(self) -> list[int]:
        """Ranks in the order in which their tiles are computed, and swapped: this one last."""
        return [*partners(self.line.place, self.line.size), self.line.place]

    def cut(self, whole: torch.Tensor, place: int) -> torch.Tensor:
        """Return a rank's tile of a whole tensor."""
        rows = self.tiles[place]
        if rows and rows[-1] - rows[0] == len(rows) - 1:
            return whole.narrow(self.axis, rows[0], len(rows))
        return whole.index_select(self.axis, torch.tensor(rows, device=whole.device))

    def join(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return the whole of all tiles, in the order of the ranks."""
        places = [row for rows in self.tiles for row in rows]
        joined = torch.cat(list(parts), self.axis)
        if places == sorted(places):
            return joined
        back = torch.tensor(places, device=joined.device).argsort()
        return joined.index_select(self.axis, back)

    def shape(self, like: torch.Tensor, place: int) -> list[int]:
        """Return the shape of a rank's tile of a tensor."""
        found = list(like.shape)
        found[self.axis] = len(self.tiles[place])
        return found


def partners(place: int, count: int) -> list[int]:
    """Return all other places in an order in which all can be met one by one: a round-robin tournament.

    Two places meet in the same round, which the circle method pairs off: places whose sum is that of the
    round modulo an odd number, and the one left over with the last place, or with nobody. NCCL does the swaps
    of a group one after the other, so that rounds without pairs (each with its next neighbour, say) would
    wait for each other in a circle.

    >>> [partners(place, 4) for place in range(4)]
    [[3, 1, 2], [2, 0, 3], [1, 3, 0], [0, 2, 1]]
    """
    odd = count - 1 + count % 2
    found = []
    for turn in range(odd):
        if place == odd:
            other = turn * (odd + 1) // 2 % odd
        else:
            other = (turn - place) % odd
            other = odd if other == place else other
        if other < count:
            found.append(other)
    return found


class _Message(NamedTuple):
    """Messages to and from one rank under way; what is sent is kept until it has gone."""

    works: list[Any]
    buffer: torch.Tensor
    kept: torch.Tensor

    def arrived(self) -> torch.Tensor:
        for work in self.works:
            work.wait()
        return self.buffer


@dataclass(slots=True, eq=False)
class _Run:
    """One use of a tiling, whose messages are under way."""

    way: Tiling
    op: str
    """`all_gather` or `reduce_scatter`, by which the other is its adjoint; `all_reduce` on one side only."""
    what: tuple[str, str]
    """Way and purpose under which the forward's bytes are counted."""
    under_way: dict[int, _Message] = field(default_factory=dict)

    def swap(self, op: str, peer: int, given: torch.Tensor, shape: Sequence[int]) -> None:
        """Begin to send to a rank and to receive from it."""
        line = self.way.line
        with line.meter.timed(begun=True):
            given, buffer = given.contiguous(), given.new_empty(list(shape))
            works = dist.batch_isend_irecv(
                [
                    dist.P2POp(kind, x, line.ranks[peer], group=line.group, tag=self.way.tag)
                    for kind, x in ((dist.isend, given), (dist.irecv, buffer))
                ]
            )
        line.meter.count(op, line.axis, given.numel() * given.element_size())
        self.under_way[peer] = _Message(works, buffer, given)

    def taken(self, peer: int) -> torch.Tensor:
        """Wait for what comes from a rank."""
        with self.way.line.meter.timed():
            return self.under_way.pop(peer).arrived()

    def give_all(self, op: str, own: torch.Tensor) -> list[torch.Tensor]:
        """Begin to send the own tile to all ranks; return buffers, and the own one."""
        found = [own] * self.way.line.size
        for peer in self.way.order[:-1]:
            self.swap(op, peer, own, self.way.shape(own, peer))
            found[peer] = self.under_way[peer].buffer
        return found

    def sum_up(self, own: torch.Tensor) -> torch.Tensor:
        """Wait for all ranks' parts of the own tile; return their sum, added up in rank order."""
        me = self.way.line.place
        parts = [own if i == me else self.taken(i) for i in range(self.way.line.size)]
        total = parts[0].clone()
        for part in parts[1:]:
            total += part
        return total

    def made_whole(self, tile: torch.Tensor) -> torch.Tensor:
        """Return all ranks' tiles joined, gathered at once."""
        line = self.way.line
        shapes = [self.way.shape(tile, i) for i in range(line.size)]
        return self.way.join(exchange(line, "all_reduce", [tile] * line.size, shapes))


class _Given(torch.autograd.Function):
    """All ranks' tiles, some still under way; back: this rank's gradient, added up."""

    @staticmethod
    def forward(ctx: Any, run: _Run, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.run, way = run, run.way
        if run.op == "all_reduce":  # all ranks have it; only its gradient is to be added up
            return tuple(way.cut(x, place).clone() for place in range(way.line.size))
        with way.line.meter.about(*run.what):
            parts = run.give_all("all_gather", x)
        return tuple(part.view_as(part) for part in parts)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        run = ctx.run
        total = run.sum_up(gradients[run.way.line.place])
        if run.op == "all_reduce":
            with run.way.line.meter.about("backward", run.way.name):
                total = run.made_whole(total)
        return None, total


class _Arrived(torch.autograd.Function):
    """One tile, waited for; back: its gradient is sent to the rank whose it is."""

    @staticmethod
    def forward(ctx: Any, run: _Run, place: int, tile: torch.Tensor) -> torch.Tensor:
        ctx.run, ctx.place = run, place
        if place in run.under_way:
            run.taken(place)
        return tile.view_as(tile)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        run, place, (g,) = ctx.run, ctx.place, gradients
        line = run.way.line
        if place != line.place:
            op = "all_reduce" if run.op == "all_reduce" else "reduce_scatter"
            with line.meter.about("backward", run.way.name):
                run.swap(op, place, g, run.way.shape(g, line.place))
        return None, None, g


class _Begun(torch.autograd.Function):
    """One tile of a partial sum, sent to the rank whose it is; back: its gradient, waited for."""

    @staticmethod
    def forward(ctx: Any, run: _Run, place: int, tile: torch.Tensor) -> torch.Tensor:
        ctx.run, ctx.place = run, place
        line = run.way.line
        if place != line.place:
            with line.meter.about(*run.what):
                run.swap(run.op, place, tile, run.way.shape(tile, line.place))
        return tile.view_as(tile)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        run, place = ctx.run, ctx.place
        return None, None, run.taken(place) if place in run.under_way else gradients[0]


class _Summed(torch.autograd.Function):
    """This rank's tile of the sum, or all of it; back: all ranks' gradients, some still under way."""

    @staticmethod
    def forward(ctx: Any, run: _Run, *tiles: torch.Tensor) -> torch.Tensor:
        ctx.run = run
        total = run.sum_up(tiles[run.way.line.place])
        if run.op == "all_reduce":
            with run.way.line.meter.about(*run.what):
                return run.made_whole(total)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        run, g = ctx.run, gradients[0].contiguous()
        way = run.way
        if run.op == "all_reduce":  # all ranks have it
            return None, *(way.cut(g, place) for place in range(way.line.size))
        with way.line.meter.about("backward", way.name):
            return None, *run.give_all("all_gather", g)


@dataclass(frozen=True, slots=True, eq=False)
class Arriving:
    """A tensor that comes tile by tile."""

    way: Tiling
    run: _Run
    parts: tuple[torch.Tensor, ...]
    taken: dict[int, torch.Tensor] = field(default_factory=dict)

    def tile(self, place: int) -> torch.Tensor:
        """Return a rank's tile, as soon as it has come; all readers of it share one gradient."""
        if place not in self.taken:
            found: torch.Tensor = _Arrived.apply(self.run, place, self.parts[place])  # type: ignore[no-untyped-call]
            self.taken[place] = found
        return self.taken[place]

    def whole(self) -> torch.Tensor:
        """Return all tiles joined."""
        return self.way.join([self.tile(place) for place in range(self.way.line.size)])


def gathered(way: Tiling, x: torch.Tensor, *, op: str = "all_gather") -> Arriving:
    """Begin to gather the ranks' tiles; their gradients are scattered tile by tile.

    Args:
        way: the tiles.
        x: this rank's tile; the whole tensor for `all_reduce`.
        op: `all_gather`; or `all_reduce`, where all ranks have the tensor and its gradient is to be added up.
    """
    run = _Run(way, op, ("forward", way.name))
    return Arriving(way, run, _Given.apply(run, x))  # type: ignore[no-untyped-call]


def scattered(
    way: Tiling, make: Callable[[int], torch.Tensor], *, op: str = "reduce_scatter"
) -> torch.Tensor:
    """Add up what the ranks make, tile by tile, each sent as soon as it is there.

    Args:
        way: the tiles.
        make: this rank's part of a tile, by the place of the rank whose it is.
        op: `reduce_scatter`, of which each rank keeps its tile; or `all_reduce`: all of them.
    """
    run = _Run(way, op, ("forward", way.name))
    tiles: dict[int, torch.Tensor] = {}
    for place in way.order:
        tiles[place] = _Begun.apply(run, place, make(place))  # type: ignore[no-untyped-call]
    found: torch.Tensor = _Summed.apply(run, *(tiles[i] for i in range(way.line.size)))  # type: ignore[no-untyped-call]
    return found


__all__ = ["Arriving", "Tiling", "gathered", "scattered"]
