"""Execution of sharded layers on a rank: each on its pieces, and between them the planned conversions.

`GraphSharding` says for every layer what it reads and writes over each mesh axis, and this runs exactly that:
what is sent is what `ShardedLayers` lists. Gradients of parameters that are partial sums are left so until
`add_up`, once an update, as a plan counts them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph, Use
from explorer.run.sharded import attention, routing, windows
from explorer.run.sharded import kinds as k
from explorer.run.sharded.boxing import Boxer, Want, arrive
from explorer.run.sharded.here import Here
from explorer.run.sharded.mesh import RankMesh
from explorer.run.sharded.overlapped import Arriving, gathered
from explorer.run.sharded.pieces import Dimensions
from explorer.run.sharded.sums import block_sum
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
from explorer.sharding.derive import Signature
from explorer.sharding.layer_plan import signature_over
from explorer.sharding.stage import GraphSharding, Request
from explorer.sharding.states import BROADCAST, PARTIAL, Axis, TensorPlacement

Tensors = dict[str, torch.Tensor]

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


class Stored(NamedTuple):
    """How a rank stores a parameter."""

    placement: TensorPlacement
    """Its state over every mesh axis: split where all its layers split it."""
    gradient: TensorPlacement
    """State in which its gradient is left until it is added up."""
    sums: tuple[tuple[int, int], ...]
    """(mesh axis, devices to add) that make the gradient whole."""


class Made(NamedTuple):
    """An output: this rank's piece, and its state."""

    value: torch.Tensor
    placement: TensorPlacement
    gradient: TensorPlacement
    """State in which its gradient is wanted."""


class ShardedExecution:
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
        self.graph, self.mesh = graph, mesh
        self.whole = GraphSharding(graph, request)
        self.axes = self.whole.axes
        self.tiled = frozenset(a for a, axis in enumerate(self.axes) if axis.name in tiles)
        self._scatters: dict[str, InTiles | None] = {}
        if (wanted := mesh_axes(graph, request)) != mesh.axes:
            raise InputError("another mesh", key="mesh", found=str(mesh.axes), allowed=str(wanted))
        chosen = set(layers) if layers is not None else {layer.name for layer in graph.layers}
        self.layers = tuple(layer for layer in graph.layers if layer.name in chosen)
        self.inside = {graph.index[layer.name] for layer in self.layers}
        self._check()
        carved = math.prod(axis.size for axis in self.axes if axis.carved)
        self.replica_samples = samples / carved
        self.shapes = {t.name: (samples, *map(int, t.shape)) for t in graph.tensors}
        self.shapes |= {p.name: (1, *map(int, p.shape)) for p in graph.parameters}
        self.signatures = {i: self._signatures(i) for i in range(len(graph.layers))}
        held = {
            (i, position): self._held(i, position)
            for i, layer in enumerate(graph.layers)
            for position in range(len(layer.parameters))
        }
        self.dimensions = Dimensions(self.whole, held)
        self.position = {t.name: i for i, t in enumerate(graph.tensors)}
        self.uses = self._uses()
        self.stored = {name: self._stored(uses) for name, uses in self.uses.items()}
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

    # -- states -----------------------------------------------------------------------------------

    def _signatures(self, i: int) -> tuple[Signature, ...]:
        """Return the signatures of a layer's plan, one per mesh axis; elementwise layers may follow."""
        layer, plan, group = self.graph.layers[i], self.whole.plans[i], self.whole.group(i)
        found = []
        for a, axis in enumerate(self.axes):
            reads = tuple(placement[a] for placement in plan.reads)
            signature = signature_over(layer, a, axis, group)
            if signature.reads != reads:
                signature = signature_over(layer, a, axis, group, reads[0])
            found.append(signature)
        return tuple(found)

    def _held(self, i: int, position: int) -> TensorPlacement:
        return tuple(signature.parameters[position] for signature in self.signatures[i])

    def _uses(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for i in sorted(self.inside):
            for position, use in enumerate(self.graph.layers[i].parameters):
                found[use.name].append((i, position))
        return dict(found)

    def _want(self, i: int, position: int) -> Want:
        signatures = self.signatures[i]
        return Want(
            tuple(item.parameters[position] for item in signatures),
            tuple(item.parameter_gradients[position] for item in signatures),
        )

    def _stored(self, uses: Sequence[tuple[int, int]]) -> Stored:
        wants = [self._want(*use) for use in uses]
        placement, gradient, sums = [], [], []
        for a, axis in enumerate(self.axes):
            states = {want.placement[a] for want in wants}
            state = states.pop() if len(states) == 1 else BROADCAST
            left = {want.gradient[a] for want in wants}
            made = state if state >= 0 else BROADCAST if left == {BROADCAST} else PARTIAL
            count = axis.size if made == PARTIAL else 1
            if state >= 0:
                count = max(self.signatures[i][a].summands for i, _ in uses)
            placement.append(state)
            gradient.append(made)
            sums += [(a, count)] if count > 1 else []
        return Stored(tuple(placement), tuple(gradient), tuple(sums))

    def _here(self, layer: Layer, options: Mapping[str, Mapping[str, Any]]) -> Here:
        i = self.graph.index[layer.name]
        return Here(
            layer=layer, plan=self.whole.plans[i], signatures=self.signatures[i], mesh=self.mesh,
            dimensions=self.dimensions, shapes=self.shapes, options=options.get(layer.name, {}),
        )  # fmt: skip

    @property
    def plain_axes(self) -> tuple[Axis, ...]:
        """The mesh axes for what has no samples: parameters."""
        return tuple(replace(axis, carved=False) for axis in self.axes)

    def boxer(self, name: str) -> Boxer:
        """Return the conversions of a tensor or a parameter."""
        shape = self.shapes[name]
        sizes = self.whole.rest(self.position[name]).sizes if name in self.position else shape[1:]
        return Boxer(
            name=name, shape=shape, sizes=sizes, axes=self.axes, mesh=self.mesh, dimensions=self.dimensions
        )

    # -- inputs and weights -----------------------------------------------------------------------

    def cut_input(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's piece of a tensor as it rests between its layers."""
        return self.boxer(name).cut(whole, self.whole.rest(self.position[name]).placement)

    def resting_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of this rank's piece of a tensor between its layers."""
        placement = self.whole.rest(self.position[name]).placement
        return tuple(map(len, self.dimensions.indices(name, self.shapes[name], placement, self.mesh.place)))

    def cut_weight(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's piece of a parameter."""
        return self.boxer(name).cut(whole.unsqueeze(0), self.stored[name].placement).squeeze(0)

    def cut_own(self, name: str, own: torch.Tensor) -> torch.Tensor:
        """Return this rank's piece of a tensor between its layers, of samples that are its own already."""
        placement = self.whole.rest(self.position[name]).placement
        return self.boxer(name).cut_apart(own, placement)

    def add_up(self, gradients: Mapping[str, torch.Tensor], *, carved: bool = True) -> Tensors:
        """Return the gradients of parameters made whole: partial sums are added over the ranks.

        `carved`: over axes that are carved out of the replicas, too; else whoever exchanges between replicas
        adds them.
        """
        found = {}
        for name, gradient in gradients.items():
            total = gradient
            with self.mesh.meter.about("update", name):
                for a, count in self.stored[name].sums:
                    if carved or not self.axes[a].carved:
                        total = block_sum(self.mesh.lines[a], total, count)
            found[name] = total
        return found

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


def mesh_axes(graph: LayerGraph, request: Request) -> tuple[tuple[str, int], ...]:
    """Return names and sizes of the mesh axes that a request runs over, those carved out last."""
    whole = GraphSharding(graph, request)
    return tuple((axis.name, axis.size) for axis in whole.axes)


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
