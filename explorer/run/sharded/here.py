"""Here: a layer on one rank, with its signature over every mesh axis and the pieces the rank has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.graph import Layer, Use
from explorer.run.sharded.mesh import Line, RankMesh
from explorer.run.sharded.pieces import Dimensions, Indices
from explorer.sharding.derive import Signature
from explorer.sharding.layer_plan import LayerPlan
from explorer.sharding.states import PARTIAL, TensorPlacement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Here:
    """A layer on one rank."""

    layer: Layer
    """The layer."""
    plan: LayerPlan
    """Its states over all mesh axes."""
    signatures: tuple[Signature, ...]
    """Its signature over every mesh axis."""
    mesh: RankMesh
    """This rank's lines, one for each mesh axis."""
    dimensions: Dimensions
    """Pieces of the graph's dimensions."""
    shapes: Mapping[str, tuple[int, ...]]
    """Whole shapes of tensors (samples first) and of parameters (a 1 first)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the graph does not say of the layer: `function`, `stride`, `padding`, `eps`, `scale`, ...."""

    @property
    def sizes(self) -> dict[str, int]:
        """Whole sizes of the layer's dimensions."""
        return {dim.name: int(dim.size) for dim in self.layer.dims}

    @property
    def fixed(self) -> tuple[str, ...]:
        """Dimensions that no einsum rule splits: those of a softmax, a norm, a window."""
        return tuple(dim.name for dim in self.layer.dims if not dim.splittable)

    def over(self, dim: str) -> tuple[int, ...]:
        """Return the mesh axes that split a dimension of this layer."""
        return tuple(a for a, signature in enumerate(self.signatures) if dim in signature.dims)

    def lines(self, op: str, way: str = "forward") -> tuple[Line, ...]:
        """Return the lines over which the layer has an operation inside, in the order of the mesh axes."""
        found = dict.fromkeys(item.axis for item in getattr(self.plan, way) if item.op == op)
        return tuple(self.mesh.lines[a] for a in found)

    def read_indices(self, k: int, place: Sequence[int] | None = None) -> list[Indices]:
        """Return the indices of the k-th read that this rank (or the one at `place`) has, samples first."""
        return self._indices(self.layer.reads[k], self.plan.reads[k], place)

    def indices_in(self, k: int, placement: Sequence[int], place: Sequence[int]) -> list[Indices]:
        """Return the indices of the k-th read that the rank at `place` has in some state."""
        return self._indices(self.layer.reads[k], tuple(placement), place)

    def written_indices(self, k: int, place: Sequence[int] | None = None) -> list[Indices]:
        """Return the indices of the k-th write that this rank (or the one at `place`) makes."""
        return self._indices(self.layer.writes[k], self.plan.writes[k], place)

    def held_indices(self, k: int, place: Sequence[int] | None = None) -> list[Indices]:
        """Return the indices of the k-th parameter that this rank (or the one at `place`) holds."""
        placement = tuple(signature.parameters[k] for signature in self.signatures)
        return self._indices(self.layer.parameters[k], placement, place)[1:]

    def neighbours(self, a: int) -> list[tuple[int, ...]]:
        """Return the coordinates of all ranks of the line along a mesh axis, in order."""
        place = self.mesh.place
        return [(*place[:a], c, *place[a + 1 :]) for c in range(self.mesh.lines[a].size)]

    def is_first_of_sum(self, k: int = 0) -> bool:
        """Tell whether this rank is the first of those whose k-th writes are added: it adds the bias."""
        states = zip(self.plan.writes[k], self.mesh.place, strict=True)
        return all(place == 0 for state, place in states if state == PARTIAL)

    def _indices(self, use: Use, placement: TensorPlacement, place: Sequence[int] | None) -> list[Indices]:
        return self.dimensions.indices(use.name, self.shapes[use.name], placement, place or self.mesh.place)
