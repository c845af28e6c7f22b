"""SlicedLayers: own layers on a rank where some of them are cut into slices over stages.

Runs of whole layers are those of `OwnLayers`; a slice computes its layer's own operators on pieces
(`layer_pieces`). What either reads of a cut tensor is put together (`assembly`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby

import numpy as np
import torch

from explorer.base.errors import InputError, RunError
from explorer.models.captured_program import CapturedProgram
from explorer.run.cases.small_graphs import without_internals
from explorer.run.own.assembly import Assembly
from explorer.run.own.blocks import Block, narrowed
from explorer.run.own.criterion import output_weights
from explorer.run.own.layer_pieces import PieceLayer, Pieces
from explorer.run.own.own_layers import LOSS_KEY, OwnLayers, own_layers
from explorer.run.own.sliced_model import LayerSlice, Passed, SlicedModel
from explorer.run.ranks.modules import Made, Samples, Weights
from explorer.run.sharded.own_execution import OwnShapes, own_module
from explorer.run.sharded.pieces import Indices


@lru_cache(maxsize=4)
def sliced_layers(model: SlicedModel) -> SlicedLayers:
    """Return the layers of a model, made once; whole ones are those of all cases of a launch."""
    return SlicedLayers(model)


class SlicedLayers:
    """The units of a `SlicedModel` (see `explorer.run.ranks.units.Units`)."""

    def __init__(self, model: SlicedModel) -> None:
        self.model, self.loss = model, LOSS_KEY
        self.own: OwnLayers = own_layers(model.uncut)
        self.graph = without_internals(self.own.program(1).graph)
        self._shapes: dict[int, OwnShapes] = {}
        self._pieces: dict[tuple[int, int, torch.device], PieceLayer] = {}
        self.assembly = Assembly(model, self.graph, self.own.writer)

    def weights(self, units: Iterable[int], device: torch.device) -> Weights:
        """Return the initial weights of some units: of slices their parts."""
        units = tuple(units)
        whole = self.own.weights(sorted(set(map(self.model.layer_of, units))), device)
        parts = self.model.parts
        return {
            name: self._part_of(name, whole) if name in parts else whole[name]
            for name in self.model.parameters_of(units)
        }

    def _part_of(self, name: str, whole: Mapping[str, torch.Tensor]) -> torch.Tensor:
        part = self.model.parts[name]
        shape = self._sizes(self.graph.parameter[part.parameter].shape)
        apart = whole[part.parameter].detach().reshape(shape)
        return narrowed(apart, part.block, 0).clone().requires_grad_()

    def samples(self, low: int, high: int, device: torch.device) -> Samples:
        """Return the inputs of some samples, whole."""
        return self.own.samples(low, high, device)

    def run(
        self,
        units: Iterable[int],
        weights: Mapping[str, torch.Tensor],
        outside: Mapping[int, torch.Tensor],
        samples: Samples,
    ) -> Made:
        """Run units; keys are tensors, then what slices made and what flows carry in part."""
        made: Made = {}
        units = tuple(units)
        for cut, together in groupby(units, key=self.model.slice_of):
            members = tuple(together)
            known = {**outside, **made}
            found = (
                self._run_whole(members, weights, known, samples)
                if cut is None
                else self._run_slice(members[0], cut, weights, known, samples)
            )
            loss = [part[LOSS_KEY] for part in (made, found) if LOSS_KEY in part]
            made |= found
            if len(loss) > 1:
                made[LOSS_KEY] = loss[0] + loss[1]
        return made | dict(self.assembly.carried(set(units), made))

    def _run_whole(
        self,
        layers: tuple[int, ...],
        weights: Mapping[str, torch.Tensor],
        known: Mapping[int, torch.Tensor],
        samples: Samples,
    ) -> Made:
        """Run whole layers, each given whole what it reads."""
        given = {key: self.assembly.whole(key, known) for key in self.own.reads(layers)}
        return self.own.run(layers, weights, given, samples)

    def _run_slice(
        self,
        unit: int,
        cut: LayerSlice,
        weights: Mapping[str, torch.Tensor],
        known: Mapping[int, torch.Tensor],
        samples: Samples,
    ) -> Made:
        """Run a slice on its pieces of what its layer reads; an output of the model is counted."""
        rows = {}
        for key in self.model.reads[cut.layer]:
            name = self.model.tensors[key].name
            rows[name] = self.assembly.block(key, cut.block(name), known)
        made: Made = {}
        for name, value in self.computed(unit, rows, weights, samples).items():
            if name in self.model.number_of:
                passed = Passed(self.model.number_of[name], unit, cut.block(name))
                made[self.model.key_of[passed]] = value
            counted = self._counted(name, value, cut.block(name))
            if counted is not None:
                made[LOSS_KEY] = made[LOSS_KEY] + counted if LOSS_KEY in made else counted
        return made

    def computed(
        self,
        unit: int,
        rows: Mapping[str, torch.Tensor],
        weights: Mapping[str, torch.Tensor],
        samples: Samples,
    ) -> dict[str, torch.Tensor]:
        """Return what a slice makes of its layer's tensors, each as (samples, places along axes).

        Args:
            unit: the slice.
            rows: its blocks of what the layer reads of others, by name, in the same form.
            weights: its weights, by the names that its parts have.
            samples: inputs of the model, whole.
        """
        first = next(iter(samples.values()))
        count, ways, cut = first.shape[0], self.shapes(first.shape[0]), self._slice(unit)
        piece = self.piece_layer(unit, count, first.device)
        tensors = dict(self._inputs({**self.own.of_all(first.device), **samples}, piece.pieces, ways.program))
        for name, value in rows.items():
            tensors[name] = ways.to_operators(name, value, piece.pieces)
        parameters = {}
        for part in self.model.parts_of(unit):
            value = weights[part.name if part.block else part.parameter]
            if cut.sums and not cut.first and not part.block and self._is_added(cut, part.parameter):
                value = torch.zeros_like(value)  # a sum has it once
            shape = piece.pieces.shape(ways.parameter_axes(part.parameter))
            parameters[part.parameter] = value.reshape(shape)
        made = piece(tensors, parameters)
        return {
            use.name: ways.to_layers(use.name, made[use.name], piece.pieces, count)
            for use in self.graph.layers[cut.layer].writes
        }

    def _slice(self, unit: int) -> LayerSlice:
        cut = self.model.slice_of(unit)
        if cut is None:
            raise RunError(f"{self.model.units[unit]} is no slice")
        return cut

    def _inputs(
        self, inputs: Samples, pieces: Pieces, program: CapturedProgram
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield a slice's places of the model's inputs."""
        for name, value in inputs.items():
            axes = program.axes_of.get(name)
            yield name, value if axes is None else pieces.cut(value, axes)

    def _is_added(self, cut: LayerSlice, parameter: str) -> bool:
        """Tell whether a parameter is no factor of a sum over parts: not the first, which all multiply."""
        return self.model.parameters[cut.layer].index(parameter) > 0

    def _counted(self, name: str, rows: torch.Tensor, block: Block) -> torch.Tensor | None:
        """Return what a part of an output of the model counts; None for what is no output."""
        program = self.own.program(1)
        numbers = [i for i, node in enumerate(program.outputs) if program.tensor_at.get(node) == name]
        if program.loss or not numbers or not self.graph.tensor[name].backward:
            return None
        shape = self._sizes(self.graph.tensor[name].shape)
        total, places = rows.new_zeros(()), int(np.prod(shape))
        for number in numbers:
            whole = output_weights(places, number, rows.device).to(rows.dtype).view(1, *shape)
            total = total + (rows * narrowed(whole, block, 1)).sum() / places
        return total

    # -- layers -----------------------------------------------------------------------------------

    def shapes(self, samples: int) -> OwnShapes:
        """Return how tensors lie in the operators for a number of samples."""
        if samples not in self._shapes:
            self._shapes[samples] = OwnShapes(self.own.program(samples))
        return self._shapes[samples]

    def piece_layer(self, unit: int, samples: int, device: torch.device) -> PieceLayer:
        """Return the operators of a slice's layer on its pieces."""
        key = unit, samples, device
        if key not in self._pieces:
            cut, program = self._slice(unit), self.own.program(samples)
            layer = self.graph.layers[cut.layer]
            pieces = Pieces(sizes=program.atom_sizes, held=self._held(cut, samples))
            self._pieces[key] = PieceLayer(program, own_module(program, layer, device), pieces)
        return self._pieces[key]

    def _held(self, cut: LayerSlice, samples: int) -> dict[int, Indices]:
        """Return the places of every atom that a slice has in part.

        Raises:
            InputError: an axis that stands twice in a tensor, or is cut otherwise in another.
        """
        ways, layer, found = self.shapes(samples), self.graph.layers[cut.layer], dict[int, Indices]()
        parameters = {use.name for use in layer.parameters}
        for name, block in cut.places:
            if name not in parameters and name not in ways.program.made_at:
                continue  # an input of the model is cut where it is read
            atoms = ways.parameter_atoms(name) if name in parameters else ways.atoms(name)
            for axis, low, high in block:
                own = np.arange(low, high)
                twice = atoms.count(atoms[axis]) > 1
                if twice or found.setdefault(atoms[axis], own).tolist() != own.tolist():
                    raise InputError(
                        f"{name!r} has other parts of that axis", key="slices", found=layer.name,
                        allowed="whole layers, or --engine likeness",
                    )  # fmt: skip
        return found

    @staticmethod
    def _sizes(shape: Sequence[float]) -> list[int]:
        return [int(size) for size in shape]

    def first(self, units: Iterable[int]) -> list[int]:
        """List units that read nothing of others."""
        return [unit for unit in units if not self.model.reads[self.model.layer_of(unit)]]

    def reads(self, units: Iterable[int]) -> list[int]:
        """List what units may read of others: whatever is made of their tensors elsewhere."""
        own = set(units)
        tensors = {key for unit in own for key in self.model.reads[self.model.layer_of(unit)]}
        whole = [key for key in tensors if self.own.writer[key] not in own]
        parts = [self.model.key_of[item] for key in tensors for item in self.assembly.passed.get(key, ())
                 if item.unit not in own]  # fmt: skip
        return sorted({*whole, *parts})

    def blank(self, key: int, samples: int, device: torch.device) -> torch.Tensor:
        """Make a tensor without values."""
        if key < len(self.model.tensors):
            return self.own.blank(key, samples, device)
        item = self.model.passed[key - len(self.model.tensors)]
        tensor, shape = self.model.tensors[item.tensor], self.assembly.shape(item.tensor)
        for axis, low, high in item.block:
            shape[axis] = high - low
        return torch.empty((samples, *shape), dtype=getattr(torch, tensor.dtype), device=device)

    def differentiable(self, key: int) -> bool:
        """Tell whether a gradient comes back for what has a key."""
        count = len(self.model.tensors)
        return self.own.differentiable(key if key < count else self.model.passed[key - count].tensor)

    def whole(self, weights: Mapping[str, torch.Tensor], samples: Samples) -> torch.Tensor | None:
        """Return None: one process computes whole layers (`explorer.run.referee.whole_weights`)."""
        del weights, samples
        return None


__all__ = ["SlicedLayers", "sliced_layers"]
