"""SlicedModel: own layers of which some are cut into slices over stages, as plain data.

A slice is a unit of its own behind the whole layers, so that whoever counts units and keys needs to know
nothing of it. It has its part of every parameter with the dimension of the cut, under a name of its own, and
of the others the whole; what it makes, and what a flow carries of a tensor, are keys behind whole tensors.
Torch is not needed here; ranks compute it in `sliced_layers`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

from explorer.run.own.blocks import Block
from explorer.run.own.own_model import OwnModel, own_model


class LayerSlice(NamedTuple):
    """A part of a layer along one of its dimensions."""

    layer: int
    """Layer that is cut."""
    dim: str
    """Dimension along which it is cut."""
    first: bool
    """Whether it is the first: what a sum over slices is given once, as a bias is, it adds."""
    places: tuple[tuple[str, Block], ...]
    """(tensor or parameter, block) of everything that the layer touches and that has the dimension."""
    sums: bool
    """Whether what it makes is a part of a sum: what the layer writes does not have the dimension."""

    def block(self, name: str) -> Block:
        """Return the part of a tensor or a parameter that it touches."""
        return next((block for known, block in self.places if known == name), ())


class Passed(NamedTuple):
    """What a unit made of a tensor, or a block of that, as it is passed on."""

    tensor: int
    """Number of the tensor."""
    unit: int
    """Unit that made it."""
    block: Block
    """Which part of the whole tensor."""


class Part(NamedTuple):
    """A slice's part of a parameter."""

    parameter: str
    """Name of the whole."""
    block: Block
    """Which part of it."""

    @property
    def name(self) -> str:
        """Name of its own."""
        return f"{self.parameter}[{', '.join(f'{axis}: {low} to {high}' for axis, low, high in self.block)}]"


@dataclass(frozen=True, kw_only=True)
class SlicedModel(OwnModel):
    """Own layers of which some are cut into slices."""

    slices: tuple[LayerSlice, ...] = ()
    """Units behind the whole layers."""
    passed: tuple[Passed, ...] = ()
    """Keys behind the whole tensors."""
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Parameters of which slices have parts, with the whole shapes whose axes blocks count."""

    @property
    def uncut(self) -> OwnModel:
        """The same layers, all of them whole."""
        return OwnModel(**fields_of(self))

    @property
    def units(self) -> Sequence[str]:
        """What a section's numbers count: whole layers, then slices."""
        return (*self.layers, *(f"{self.layers[item.layer]} along {item.dim}" for item in self.slices))

    def slice_of(self, unit: int) -> LayerSlice | None:
        """Return the slice that a unit is; None for a whole layer."""
        return self.slices[unit - len(self.layers)] if unit >= len(self.layers) else None

    def layer_of(self, unit: int) -> int:
        """Return the layer that a unit is, or is a slice of."""
        return self.slices[unit - len(self.layers)].layer if unit >= len(self.layers) else unit

    def parts_of(self, unit: int) -> tuple[Part, ...]:
        """Return the parameters of a unit, each as the part that it has."""
        cut = self.slice_of(unit)
        names = self.parameters[self.layer_of(unit)]
        return tuple(Part(name, cut.block(name) if cut else ()) for name in names)

    def parameters_of(self, units: Iterable[int]) -> tuple[str, ...]:
        """Return the parameters of some units, each once; parts have names of their own."""
        parts = (part for unit in units for part in self.parts_of(unit))
        return tuple(dict.fromkeys(part.name if part.block else part.parameter for part in parts))

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts of parameters, by their names."""
        first = len(self.layers)
        found = (part for i in range(len(self.slices)) for part in self.parts_of(first + i))
        return {part.name: part for part in found if part.block}

    @cached_property
    def key_of(self) -> dict[Passed, int]:
        """Keys of what is passed on in part, or made by a slice."""
        return {item: len(self.tensors) + i for i, item in enumerate(self.passed)}

    @cached_property
    def makers(self) -> dict[int, tuple[int, ...]]:
        """Per layer that is cut: its units, in the order of their parts."""
        found: dict[int, list[int]] = {}
        for i, item in enumerate(self.slices):
            found.setdefault(item.layer, []).append(len(self.layers) + i)
        return {layer: tuple(units) for layer, units in found.items()}

    def units_of(self, layer: int) -> tuple[int, ...]:
        """Return the units that make what a layer writes."""
        return self.makers.get(layer, (layer,))


def as_own(data: dict[str, Any]) -> OwnModel:
    """Make a model from plain data whose lists are tuples, sliced or not."""
    model = own_model({item.name: data[item.name] for item in fields(OwnModel) if item.name in data})
    if "slices" not in data:
        return model
    return SlicedModel(
        **fields_of(model),
        slices=tuple(LayerSlice(*item) for item in data["slices"]),
        passed=tuple(Passed(*item) for item in data["passed"]),
        shapes=data["shapes"],
    )


def fields_of(model: OwnModel) -> dict[str, Any]:
    """Return what a model of whole layers says, by name."""
    return {item.name: getattr(model, item.name) for item in fields(OwnModel)}


__all__ = ["LayerSlice", "Part", "Passed", "SlicedModel", "as_own", "fields_of"]
