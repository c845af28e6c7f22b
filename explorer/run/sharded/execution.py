"""Execution of sharded layers on a rank: each on its pieces, and between them the planned conversions.

`GraphSharding` says for every layer what it reads and writes over each mesh axis, and this runs exactly that:
what is sent is what `ShardedLayers` lists.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph, Use
from explorer.run.sharded import attention, routing, windows
from explorer.run.sharded import kinds as k
from explorer.run.sharded.boxing import Want, arrive
from explorer.run.sharded.here import Here
from explorer.run.sharded.mesh import RankMesh
from explorer.run.sharded.overlapped import Arriving, gathered
from explorer.run.sharded.rank_pieces import RankPieces, mesh_axes
from explorer.run.sharded.tiled import (
    InTiles,
    TileAxes,
    gather_in_tiles,
    made_in_tiles,
    scatter_in_tiles,
    summed_in_tiles,
    tile_axes,
    whole_of,
)
from explorer.sharding.stage import Request
from explorer.sharding.states import TensorPlacement

COMPUTE: dict[str, k.Compute] = {
    "linear": k.contract,
    "matmul": k.contract,
    "einsum": k.contract,
    "scores": k.contract,
    "context": k.contract,
    "elementwise": k.pointwise,
    "add": k.pointwise,
    "norm": k.normalise,
    "softmax": k.softmax,
    "embedding": k.look_up,
    "loss": k.cross_entropy,
    "attention": attention.attend,
    "conv": windows.convolve,
    "pool": k.mean,
    "router": routing.score,
    "experts": routing.mix,
}
"""What each kind of layer computes on a rank."""


class Made(NamedTuple):
    """An output: this rank's piece, and its state."""

    value: torch.Tensor
    placement: TensorPlacement
    gradient: TensorPlacement
    """State in which its gradient is wanted."""


class ShardedExecution(RankPieces):
    """Some layers of a graph on one rank of a mesh.

    Args:
        graph: the model.
        request: layout, mesh axes and exceptions.
        mesh: this rank's lines; `mesh_axes` says which the request needs.
        samples: samples that the ranks of the mesh work on together.
        layers: names of the layers to run; all if None.
        options: per layer what the graph does not say of it, see `Here.options`.
        tiles: mesh axes whose collectives go in tiles beside products, where these can.

    Raises:
        InputError: a kind of layer that cannot be run, or a mesh of other axes.
    """

    def __init__(
        self,
        graph: LayerGraph,
        request: Request,
        mesh: RankMesh,
        *,
        samples: int,
        layers: Sequence[str] | None = None,
        options: Mapping[str, Mapping[str, Any]] | None = None,
        tiles: Collection[str] = (),
    ) -> None:
        super().__init__(graph, request, mesh, samples=samples, layers=layers)
        self.tiled = frozenset(a for a, axis in enumerate(self.axes) if axis.name in tiles)
        self._scatters: dict[str, InTiles | None] = {}
        self._check()
        self.here = {layer.name: self._here(layer, options or {}) for layer in self.layers}
        for here in self.here.values():
            self.check(here)

    def _check(self) -> None:
        if unknown := [layer for layer in self.layers if not self.computes(layer)]:
            raise InputError(
                f"layers of kind {unknown[0].kind!r} cannot be run sharded",
                key=f"layers.{unknown[0].name}",
                found=unknown[0].kind,
                allowed=", ".join(sorted(COMPUTE)),
            )

    def computes(self, layer: Layer) -> bool:
        """Tell whether there is arithmetic for a layer."""
        return layer.kind in COMPUTE

    def check(self, here: Here) -> None:
        """Refuse a layer that cannot be run so on some rank.

        Raises:
            InputError: key-value heads away from their queries, or fewer units than devices.
        """
        k.check_heads(here)
        check_enough(here)

    def compute(
        self, here: Here, reads: Sequence[torch.Tensor], weights: Sequence[torch.Tensor]
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Return what a layer makes of this rank's pieces: what its kind computes."""
        return COMPUTE[here.layer.kind](here, reads, weights)

    def _here(self, layer: Layer, options: Mapping[str, Mapping[str, Any]]) -> Here:
        i = self.graph.index[layer.name]
        return Here(
            layer=layer, plan=self.whole.plans[i], signatures=self.signatures[i], mesh=self.mesh,
            dimensions=self.dimensions, shapes=self.shapes, options=options.get(layer.name, {}),
        )  # fmt: skip

    # -- forward ----------------------------------------------------------------------------------

    def forward(
        self, inputs: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor]
    ) -> dict[str, Made]:
        """Run the layers on this rank's pieces; a backward of the outputs runs the planned backward.

        Args:
            inputs: tensors that other layers or the input pipeline write, as they rest.
            weights: this rank's pieces of the parameters.

        Returns:
            What nobody reads, as it was written, and what layers outside read, as it rests.
        """
        at: dict[str, dict[Want, torch.Tensor | Arriving]] = {}
        found: dict[str, Made] = {}
        for name, x in inputs.items():
            rest = self.whole.rest(self.position[name]).placement
            at[name] = self._arrive(name, x, rest, rest, self._wants(name))
        held = self._weights(weights)
        for layer in self.layers:
            here = self.here[layer.name]
            plan = here.plan
            reads = [
                at[use.name][Want(*states)]
                for use, *states in zip(layer.reads, plan.reads, plan.read_gradients, strict=True)
            ]
            own = [held[layer.name, use.name] for use in layer.parameters]
            if (way := self._scatter(here)) is not None:
                self._take_sum(here, way, list(map(whole_of, reads)), own, at, found)
                continue
            with self.mesh.meter.about("forward", layer.name):
                made = self._made(here, reads, own)
            for number, y in enumerate(made if isinstance(made, tuple) else (made,)):
                self._take_in(layer, number, y, at, found)
        return found

    # -- tiles ------------------------------------------------------------------------------------

    def can_tile(self, here: Here, use: Use, axis: int) -> bool:
        """Tell whether a layer can compute what belongs to a part of a tensor along an axis alone."""
        return tile_axes(here, use, axis) is not None

    def compute_tile(
        self,
        here: Here,
        reads: Sequence[torch.Tensor],
        weights: Sequence[torch.Tensor],
        axes: TileAxes,
        rows: Sequence[int],
    ) -> torch.Tensor:
        """Return a tile of what a layer makes.

        Args:
            here: the layer.
            reads: its reads, cut where the tile has a part of them.
            weights: this rank's pieces of its parameters.
            axes: along which axes the tile is cut.
            rows: places of the tile among those that this rank has along them.
        """
        del axes, rows
        found = self.compute(here, reads, weights)
        return found[0] if isinstance(found, tuple) else found

    def readers_here(self, name: str) -> list[tuple[int, int]]:
        """Return (layer, position among its reads) of the readers of a tensor that run here."""
        readers = self.whole.wires.readers[self.position[name]]
        return [(i, k) for i, k in readers if i in self.inside]

    def _arrive(
        self,
        name: str,
        x: torch.Tensor,
        origin: TensorPlacement,
        goal: TensorPlacement,
        wants: tuple[Want, ...],
    ) -> dict[Want, torch.Tensor | Arriving]:
        """Convert a tensor for its readers: in tiles, as they come, or whole."""
        way = gather_in_tiles(self, name, origin, goal, wants)
        if way is not None and (x.requires_grad or way.op != "all_reduce"):
            return {wants[0]: gathered(way.way, x, op=way.op)}
        return dict(arrive(self.boxer(name), x, origin, goal, wants))

    def _made(
        self, here: Here, reads: Sequence[torch.Tensor | Arriving], weights: Sequence[torch.Tensor]
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        """Compute a layer: tile by tile if what it reads comes so, and it can."""
        made = made_in_tiles(self, here, reads, weights)
        return self.compute(here, list(map(whole_of, reads)), weights) if made is None else made

    def _scatter(self, here: Here) -> InTiles | None:
        """Return how what a layer writes is added up in tiles; None if it is not."""
        name = here.layer.name
        if name not in self._scatters:
            wants = self._all_wants(here.layer.writes[0].name) if len(here.layer.writes) == 1 else ()
            self._scatters[name] = scatter_in_tiles(self, here, wants)
        return self._scatters[name]

    def _take_sum(
        self,
        here: Here,
        way: InTiles,
        reads: Sequence[torch.Tensor],
        weights: Sequence[torch.Tensor],
        at: dict[str, dict[Want, torch.Tensor | Arriving]],
        found: dict[str, Made],
    ) -> None:
        """Compute a layer tile by tile, each added up as soon as it is there; keep the sum."""
        use = here.layer.writes[0]
        with self.mesh.meter.about("forward", here.layer.name):
            total = summed_in_tiles(self, here, way, reads, weights)
        (want,) = self._all_wants(use.name)
        at[use.name] = {want: total}
        if any(i not in self.inside for i, _ in self.whole.wires.readers[self.position[use.name]]):
            found[use.name] = Made(total, want.placement, want.gradient)

    def _take_in(
        self,
        layer: Layer,
        number: int,
        y: torch.Tensor,
        at: dict[str, dict[Want, torch.Tensor | Arriving]],
        found: dict[str, Made],
    ) -> None:
        """Convert a layer's output for its readers; keep it if nobody, or somebody outside, reads it."""
        name, plan = layer.writes[number].name, self.here[layer.name].plan
        origin, goal = plan.writes[number], plan.write_gradients[number]
        readers = self.whole.wires.readers[self.position[name]]
        at[name] = self._arrive(name, y, origin, goal, self._all_wants(name))
        if any(i not in self.inside for i, _ in readers):
            rest = self.whole.rest(self.position[name]).placement
            found[name] = Made(whole_of(at[name][Want(rest, rest)]), rest, rest)
        elif not readers:
            found[name] = Made(y, origin, goal)

    def _all_wants(self, name: str) -> tuple[Want, ...]:
        """Return the ways in which a tensor is read here, and in which it rests if others read it."""
        wants = self._wants(name)
        if any(i not in self.inside for i, _ in self.whole.wires.readers[self.position[name]]):
            rest = self.whole.rest(self.position[name]).placement
            wants = tuple(dict.fromkeys((*wants, Want(rest, rest))))
        return wants

    def _wants(self, name: str) -> tuple[Want, ...]:
        """Return the ways in which the layers here read a tensor, in their order."""
        found: dict[Want, None] = {}
        for i, position in self.whole.wires.readers[self.position[name]]:
            if i in self.inside:
                plan = self.whole.plans[i]
                found[Want(plan.reads[position], plan.read_gradients[position])] = None
        return tuple(found)

    def _weights(self, weights: Mapping[str, torch.Tensor]) -> dict[tuple[str, str], torch.Tensor]:
        """Return every layer's pieces of its parameters."""
        found = {}
        for name, uses in self.uses.items():
            stored, wants = self.stored[name], [self._want(*use) for use in uses]
            plain = Want(stored.placement, stored.gradient)
            pieces = {plain: weights[name]}
            if other := tuple(dict.fromkeys(want for want in wants if want != plain)):
                all_ways = (plain, *other) if plain in wants else other
                made = arrive(
                    self.boxer(name), weights[name].unsqueeze(0), stored.placement, stored.gradient, all_ways
                )
                pieces = {want: x.squeeze(0) for want, x in made.items()}
            for (i, _), want in zip(uses, wants, strict=True):
                found[self.graph.layers[i].name, name] = pieces[want]
        return found


def check_enough(here: Here) -> None:
    """Refuse a dimension with fewer units than the devices of several mesh axes that split it.

    Raises:
        InputError: some units would be held twice, which sharding knows of one mesh axis only.
    """
    for dim, size in here.sizes.items():
        over = here.over(dim)
        if len(over) > 1 and size < math.prod(here.mesh.axes[a][1] for a in over):
            raise InputError(
                f"{dim!r} of {here.layer.name!r} has fewer units than its mesh axes have devices",
                key="layout",
                found=f"{size} over {' and '.join(here.mesh.axes[a][0] for a in over)}",
                allowed="one mesh axis, or no more devices than units",
            )


__all__ = ["COMPUTE", "Made", "ShardedExecution", "check_enough", "mesh_axes"]
