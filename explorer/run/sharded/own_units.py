"""OwnPieces: a model's own layers on one rank of a lane, on its pieces.

Weights and data are those of `OwnLayers`, cut. An output of the model counts by a fixed weight for each of
its scalars (`run.own.criterion`), so a piece counts by the weights of its places.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import torch

from explorer.run.cases.small_graphs import without_internals
from explorer.run.own.criterion import output_weights
from explorer.run.own.own_layers import OwnLayers, own_layers
from explorer.run.own.own_model import OwnModel
from explorer.run.own.planned_layers import as_planned
from explorer.run.ranks.modules import Samples
from explorer.run.sharded.execution import Made as Output
from explorer.run.sharded.execution import ShardedExecution
from explorer.run.sharded.layout_units import LOSS_KEY, LayoutUnits, together
from explorer.run.sharded.mesh import RankMesh
from explorer.run.sharded.own_execution import OwnExecution, OwnShapes
from explorer.sharding.states import BROADCAST, PARTIAL


class OwnPieces(LayoutUnits):
    """The units of an `OwnModel` whose lanes have several ranks (see `explorer.run.ranks.units.Units`).

    Args:
        model: the layers and how they are laid out.
        mesh: this rank's lane.
    """

    def __init__(self, model: OwnModel, mesh: RankMesh) -> None:
        self.own: OwnLayers = own_layers(model.whole)
        self.mesh, self.loss, self.request = mesh, LOSS_KEY, model.request
        self.together = together(model, mesh)
        self.graph = as_planned(without_internals(self.own.program(1).graph), model.planned)
        self.number_of, self.tiles = model.number_of, model.tiles
        self.dtype = self.own.dtype
        self._shapes: dict[int, OwnShapes] = {}
        self._executions = {}

    def shapes(self, samples: int) -> OwnShapes:
        """Return how tensors lie in the operators for a number of samples."""
        if samples not in self._shapes:
            self._shapes[samples] = OwnShapes(self.own.program(samples))
        return self._shapes[samples]

    def _open(self, layers: Sequence[str], samples: int) -> ShardedExecution:
        return OwnExecution(
            self.shapes(samples), self.graph, self.request, self.mesh, layers=layers, tiles=self.tiles
        )

    def _initial(self, name: str) -> torch.Tensor:
        return self._apart(name, self.own.initial(name))

    def _apart(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return a parameter with the axes that the graph has."""
        return whole.reshape([int(size) for size in self.graph.parameter[name].shape])

    def samples(self, low: int, high: int, device: torch.device) -> Samples:
        """Return the inputs of some samples, whole."""
        return self.own.samples(low, high, device)

    def _cut_input(self, run: ShardedExecution, name: str, value: torch.Tensor) -> torch.Tensor:
        apart = value.reshape(value.shape[0], *(int(size) for size in self.graph.tensor[name].shape))
        return super()._cut_input(run, name, apart)

    def _counted(self, run: ShardedExecution, name: str, item: Output) -> torch.Tensor | None:
        tensor, program = self.graph.tensor[name], self.own.program(1)
        if not tensor.backward:
            return None
        if not program.shapes.get(name):  # a loss, of each sample
            return item.value.sum()
        shape = [int(size) for size in tensor.shape]
        numbers = [i for i, node in enumerate(program.outputs) if program.made_at[name] == node]
        place = [BROADCAST if state == PARTIAL else state for state in item.placement]
        total = item.value.new_zeros(())
        for number in numbers:
            weights = output_weights(prod(shape), number, item.value.device).to(item.value.dtype)
            whole = weights.view(1, *shape).expand(run.shapes[name][0], *shape)
            total = total + (item.value * run.boxer(name).cut(whole, tuple(place))).sum() / prod(shape)
        return total

    def cut(self, units: Iterable[int], name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's piece of a whole parameter of some layers."""
        return super().cut(units, name, self._apart(name, whole))

    def blank(self, key: int, samples: int, device: torch.device) -> torch.Tensor:
        """Make a tensor without values, of this rank's piece as it rests."""
        tensor = self.own.model.tensors[key]
        maker = self.graph.index[self.graph.producer[tensor.name]]
        shape = self.execution((maker,), samples).resting_shape(tensor.name)
        return torch.empty(shape, dtype=getattr(torch, tensor.dtype), device=device)

    def differentiable(self, key: int) -> bool:
        """Tell whether a gradient comes back for a tensor."""
        return self.own.model.tensors[key].gradient
