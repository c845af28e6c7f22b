"""Units: what a rank needs of a model to compute it, whether stand-ins or the user's own layers.

A unit is what a section's numbers count. What units pass on has a *key*: for stand-ins the unit that made it,
for own layers a tensor. The loss, summed over samples, is passed on to nobody and has a key as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import torch

from explorer.run.model import ModelSpec
from explorer.run.own.own_model import OwnModel
from explorer.run.own.sliced_model import SlicedModel
from explorer.run.ranks.modules import (
    DTYPES,
    Made,
    Samples,
    Weights,
    initial_weights,
    run_units,
    sample_tokens,
)
from explorer.run.sharded.layout_model import LayoutModel


class Units(Protocol):
    """A model that a rank computes."""

    loss: int
    """Key of the loss."""

    def weights(self, units: Iterable[int], device: torch.device) -> Weights:
        """Return the initial weights of some units, equal wherever they are made."""

    def samples(self, low: int, high: int, device: torch.device) -> Samples:
        """Return the data of samples [low, high), each from its number alone."""

    def run(
        self,
        units: Iterable[int],
        weights: Mapping[str, torch.Tensor],
        outside: Mapping[int, torch.Tensor],
        samples: Samples,
    ) -> Made:
        """Run some units, given what they read of others; return what others read, and the loss if it is
        theirs.
        """

    def first(self, units: Iterable[int]) -> list[int]:
        """List the units that read nothing of others: their gradients are those of weights alone."""

    def reads(self, units: Iterable[int]) -> list[int]:
        """List the keys of what some units read of others."""

    def blank(self, key: int, samples: int, device: torch.device) -> torch.Tensor:
        """Make a tensor without values for what has a key."""

    def differentiable(self, key: int) -> bool:
        """Tell whether a gradient comes back for what has a key."""

    def whole(self, weights: Mapping[str, torch.Tensor], samples: Samples) -> torch.Tensor | None:
        """Return the loss as the model itself computes it; None if it is no more than its units."""


class StandIns:
    """The units of a `ModelSpec`."""

    def __init__(self, model: ModelSpec) -> None:
        self.model = model
        self.loss = len(model.units) - 1

    def weights(self, units: Iterable[int], device: torch.device) -> Weights:
        """Return initial weights."""
        return initial_weights(self.model, units, device)

    def samples(self, low: int, high: int, device: torch.device) -> Samples:
        """Return tokens."""
        return {"tokens": sample_tokens(self.model, low, high, device)}

    def run(
        self,
        units: Iterable[int],
        weights: Mapping[str, torch.Tensor],
        outside: Mapping[int, torch.Tensor],
        samples: Samples,
    ) -> Made:
        """Run units; what they make has their own numbers as keys."""
        return run_units(self.model, units, weights, outside, samples["tokens"])

    def first(self, units: Iterable[int]) -> list[int]:
        """List embeddings."""
        return [unit for unit in units if not self.model.units[unit].reads]

    def reads(self, units: Iterable[int]) -> list[int]:
        """List the units whose outputs are read."""
        own = set(units)
        return sorted({source for unit in own for source in self.model.units[unit].reads} - own)

    def blank(self, key: int, samples: int, device: torch.device) -> torch.Tensor:
        """Make a tensor of (samples, seq, d_model)."""
        del key
        shape = (samples, self.model.seq, self.model.d_model)
        return torch.empty(shape, dtype=DTYPES[self.model.dtype], device=device)

    def differentiable(self, key: int) -> bool:
        """Tell that all outputs of units are."""
        del key
        return True

    def whole(self, weights: Mapping[str, torch.Tensor], samples: Samples) -> torch.Tensor | None:
        """Return None."""
        del weights, samples
        return None


def units_of(model: ModelSpec | OwnModel | LayoutModel) -> Units:
    """Return the units of a model, on one rank."""
    if isinstance(model, ModelSpec):
        return StandIns(model)
    if isinstance(model, LayoutModel):
        from explorer.run.sharded.layout_units import LayoutUnits, alone

        return LayoutUnits(model, alone(torch.device("cpu")))
    if isinstance(model, SlicedModel):
        from explorer.run.own.sliced_layers import sliced_layers

        return sliced_layers(model)
    from explorer.run.own.own_layers import own_layers

    return own_layers(model.whole)
