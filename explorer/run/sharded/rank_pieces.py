"""Rank pieces: what of every tensor and parameter of a sharded graph a rank has, in which states.

Gradients of parameters that are partial sums are left so until `add_up`, once an update, as a plan counts
them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.run.sharded.boxing import Boxer, Want
from explorer.run.sharded.mesh import RankMesh
from explorer.run.sharded.pieces import Dimensions
from explorer.run.sharded.sums import block_sum
from explorer.sharding.derive import Signature
from explorer.sharding.layer_plan import signature_over
from explorer.sharding.stage import GraphSharding, Request
from explorer.sharding.states import BROADCAST, PARTIAL, Axis, TensorPlacement

Tensors = dict[str, torch.Tensor]


class Stored(NamedTuple):
    """How a rank stores a parameter."""

    placement: TensorPlacement
    """Its state over every mesh axis: split where all its layers split it."""
    gradient: TensorPlacement
    """State in which its gradient is left until it is added up."""
    sums: tuple[tuple[int, int], ...]
    """(mesh axis, devices to add) that make the gradient whole."""


class RankPieces:
    """The pieces of some layers of a graph on one rank of a mesh.

    Args:
        graph: the model.
        request: layout, mesh axes and exceptions.
        mesh: this rank's lines; `mesh_axes` says which the request needs.
        samples: samples that the ranks of the mesh work on together.
        layers: names of the layers that run here; all if None.

    Raises:
        InputError: a mesh of other axes.
    """

    def __init__(
        self,
        graph: LayerGraph,
        request: Request,
        mesh: RankMesh,
        *,
        samples: int,
        layers: Sequence[str] | None = None,
    ) -> None:
        self.graph, self.mesh = graph, mesh
        self.whole = GraphSharding(graph, request)
        self.axes = self.whole.axes
        if (wanted := mesh_axes(graph, request)) != mesh.axes:
            raise InputError("another mesh", key="mesh", found=str(mesh.axes), allowed=str(wanted))
        chosen = set(layers) if layers is not None else {layer.name for layer in graph.layers}
        self.layers = tuple(layer for layer in graph.layers if layer.name in chosen)
        self.inside = {graph.index[layer.name] for layer in self.layers}
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


def mesh_axes(graph: LayerGraph, request: Request) -> tuple[tuple[str, int], ...]:
    """Return names and sizes of the mesh axes that a request runs over, those carved out last."""
    whole = GraphSharding(graph, request)
    return tuple((axis.name, axis.size) for axis in whole.axes)
