"""LayoutUnits: the layers of a `LayoutModel` on one rank of a lane, on its pieces; whole on a lane of one.

Weights are drawn from a seed for each parameter's name and data from one for each sample's number, so that
every way of cutting the model and the batch works on the same numbers.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import prod

import torch

from explorer.run.lane_layout import LaneLayout
from explorer.run.ranks.modules import DTYPES, Made, Samples, Weights
from explorer.run.ranks.sweeps import first_guess
from explorer.run.sharded.execution import Made as Output
from explorer.run.sharded.execution import ShardedExecution
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.sharded.mesh import Meter, RankMesh
from explorer.sharding.stage import Request

LOSS_KEY = -1
WHOLE = Request((), (), ())


def alone(device: torch.device) -> RankMesh:
    """Return the mesh of a rank for itself."""
    return RankMesh(axes=(), place=(), lines=(), meter=Meter(), device=device)


def together(model: LaneLayout, mesh: RankMesh) -> int:
    """Return over how many ranks experts are laid out, each with samples, or tokens of them, of its own."""
    return model.spread_axis[1] if mesh.axes else 1


class LayoutUnits:
    """The units of a `LayoutModel` (see `explorer.run.ranks.units.Units`).

    Args:
        model: the layers and how they are laid out.
        mesh: this rank's lane; a mesh without axes runs layers whole.
    """

    def __init__(self, model: LayoutModel, mesh: RankMesh) -> None:
        self.model, self.mesh, self.loss = model, mesh, LOSS_KEY
        self.graph, self.number_of = model.graph, model.number_of
        self.request = model.request if mesh.axes else WHOLE
        self.dtype = DTYPES[model.dtype]
        self.together = together(model, mesh)
        self._executions: dict[tuple[tuple[int, ...], int], ShardedExecution] = {}

    def execution(self, units: Iterable[int], samples: int) -> ShardedExecution:
        """Return some layers on this rank, for samples of a lane; others with parts of its experts have as
        many each.
        """
        key = (tuple(units), samples * self.together)
        if key not in self._executions:
            layers = [self.graph.layers[unit].name for unit in key[0]]
            self._executions[key] = self._open(layers, key[1])
        return self._executions[key]

    def _open(self, layers: Sequence[str], samples: int) -> ShardedExecution:
        return ShardedExecution(
            self.graph, self.request, self.mesh, samples=samples, layers=layers, tiles=self.model.tiles
        )

    # -- weights and data -------------------------------------------------------------------------

    def weights(self, units: Iterable[int], device: torch.device) -> Weights:
        """Return this rank's pieces of the initial weights of some layers."""
        run = self.execution(units, 1)
        return {
            name: run.cut_weight(name, self._initial(name)).to(device).contiguous().clone().requires_grad_()
            for name in run.uses
        }

    def _initial(self, name: str) -> torch.Tensor:
        """Draw a parameter, whole: matrices keep about the size of what they multiply, scales are near 1."""
        shape = [int(size) for size in self.model.graph.parameter[name].shape]
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.model.seed}:{name}".encode()))
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        if len(shape) > 1:
            value = value / max(shape[-1], prod(shape) ** 0.5 / 2) ** 0.5
        else:
            value = value * 0.02 + (0.0 if name.endswith("bias") else 1.0)
        return value.to(self.dtype)

    def samples(self, low: int, high: int, device: torch.device) -> Samples:
        """Return the inputs of some samples, whole: numbers within bounds, or from a normal distribution."""
        return {
            name: torch.stack([self._sample(name, n) for n in range(low, high)]).to(device)
            for name in self._inputs
        }

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        graph = self.model.graph
        return tuple(
            t.name for t in graph.tensors if t.name not in graph.producer and graph.consumers.get(t.name)
        )

    @cached_property
    def _bounds(self) -> dict[str, int]:
        return self.model.bounds()

    def _sample(self, name: str, number: int) -> torch.Tensor:
        shape = [int(size) for size in self.model.graph.tensor[name].shape]
        generator = torch.Generator().manual_seed(zlib.crc32(f"{self.model.seed}:{name}:{number}".encode()))
        if name in self._bounds:
            return torch.randint(self._bounds[name], shape, generator=generator)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(self.dtype)

    # -- layers -----------------------------------------------------------------------------------

    def run(
        self,
        units: Iterable[int],
        weights: Mapping[str, torch.Tensor],
        outside: Mapping[int, torch.Tensor],
        samples: Samples,
    ) -> Made:
        """Run layers; keys are tensors as they rest between layers.

        What nobody reads is the loss, of which this rank has its share.
        """
        layers = tuple(units)
        if not layers:
            return {}
        run = self.execution(layers, next(iter(samples.values())).shape[0])
        inputs = {}
        for layer in run.layers:
            for use in layer.reads:
                if use.name in samples:
                    inputs[use.name] = self._cut_input(run, use.name, samples[use.name])
                elif (key := self.number_of[use.name]) in outside:
                    inputs[use.name] = outside[key]
        made = run.forward(inputs, {name: weights[name] for name in run.uses})
        found: Made = {}
        for name, item in made.items():
            if self.graph.consumers.get(name):
                found[self.number_of[name]] = item.value
            elif (own := self._counted(run, name, item)) is not None:
                found[LOSS_KEY] = found[LOSS_KEY] + own if LOSS_KEY in found else own
        return found

    def _cut_input(self, run: ShardedExecution, name: str, value: torch.Tensor) -> torch.Tensor:
        """Return this rank's piece of an input."""
        return run.cut_own(name, value) if self.together > 1 else run.cut_input(name, value)

    def _counted(self, run: ShardedExecution, name: str, item: Output) -> torch.Tensor | None:
        """Return what this rank's piece of what nobody reads counts; None if it is no output."""
        del run, name
        return item.value.sum()

    def prepare(self, units: Iterable[int], samples: int, device: torch.device) -> None:
        """Make what some layers need before they are timed."""
        del device  # that of the mesh
        self.execution(units, samples)

    def first(self, units: Iterable[int]) -> list[int]:
        """List no layers: a section is one graph, whose conversions go from layer to layer."""
        del units
        return []

    def reads(self, units: Iterable[int]) -> list[int]:
        """List the tensors that layers read of others."""
        graph, own = self.graph, set(units)
        names = {graph.layers[unit].name for unit in own}
        return sorted(
            {
                self.number_of[use.name]
                for unit in own
                for use in graph.layers[unit].reads
                if graph.producer.get(use.name, "") not in {"", *names}
            }
        )

    def blank(self, key: int, samples: int, device: torch.device) -> torch.Tensor:
        """Make a tensor without values, of this rank's piece as it rests."""
        tensor = self.graph.tensors[key]
        maker = self.graph.index[self.graph.producer[tensor.name]]
        shape = self.execution((maker,), samples).resting_shape(tensor.name)
        return torch.empty(shape, dtype=self.dtype, device=device)

    def guess(self, key: int, samples: int, device: torch.device) -> torch.Tensor:
        """Return this rank's piece of what stands for a tensor before anything was computed."""
        name = next(name for name, number in self.number_of.items() if number == key)
        run = self.execution((self.graph.index[self.graph.producer[name]],), samples)
        whole = first_guess(self.blank(key, samples, device).new_empty((samples, *run.shapes[name][1:])))
        return self._cut_input(run, name, whole)

    def differentiable(self, key: int) -> bool:
        """Tell whether a gradient comes back for a tensor."""
        return self.graph.tensors[key].backward

    def whole(self, weights: Mapping[str, torch.Tensor], samples: Samples) -> torch.Tensor | None:
        """Return None: layers are the model."""
        del weights, samples
        return None

    # -- pieces -----------------------------------------------------------------------------------

    def held_apart(self, units: Iterable[int]) -> set[str]:
        """Return the parameters of some layers that are over the ranks of several replicas, a part each."""
        run = self.execution(units, 1)
        carved = [a for a, axis in enumerate(run.axes) if axis.carved]
        return {
            name for name, item in run.stored.items() if any(item.placement[a] >= 0 for a in carved)
        }  # fmt: skip

    def add_up(self, units: Iterable[int], sums: Mapping[str, torch.Tensor]) -> Weights:
        """Return gradients of some layers' weights made whole over the lane; those of replicas are exchanged
        by the order.

        Experts over ranks of several lanes have had the tokens of all of them.
        """
        layers = tuple(units)
        run = self.execution(layers, 1)
        if self.together == 1:
            return run.add_up(sums)
        apart = self.held_apart(layers)
        found = {name: total for name, total in sums.items() if name in apart}
        others = {name: total for name, total in sums.items() if name not in apart}
        return found | run.add_up(others, carved=False)

    def cut(self, units: Iterable[int], name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return this rank's piece of a whole parameter of some layers."""
        return self.execution(units, 1).cut_weight(name, whole)
