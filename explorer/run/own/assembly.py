"""Assembly: what a unit reads of a tensor, put together from what it has of those who made it.

Parts along an axis lie behind each other; parts of a sum are added up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import torch

from explorer.base.errors import RunError
from explorer.graph import LayerGraph
from explorer.run.own.blocks import Block, common, inside, narrowed
from explorer.run.own.sliced_model import Passed, SlicedModel
from explorer.run.ranks.modules import Made


class Assembly:
    """The tensors of a model of which some units make parts.

    Args:
        model: the model.
        graph: its whole layers.
        writer: per tensor, the layer that writes it.
    """

    def __init__(self, model: SlicedModel, graph: LayerGraph, writer: Sequence[int]) -> None:
        self.model, self.graph, self.writer = model, graph, writer
        self.passed: dict[int, list[Passed]] = {}
        for item in model.passed:
            self.passed.setdefault(item.tensor, []).append(item)

    def shape(self, key: int) -> list[int]:
        """Return the shape of one sample of a whole tensor, with axes as blocks count them."""
        return [int(size) for size in self.graph.tensor[self.model.tensors[key].name].shape]

    def block(self, key: int, block: Block, known: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Return a block of a tensor: (samples, places along axes).

        Args:
            key: number of the tensor.
            block: which part of it.
            known: what has been made or has arrived, by key.

        Raises:
            RunError: some of it is not there.
        """
        name, found, axes = self.model.tensors[key].name, [], set[int]()
        for unit in self.model.units_of(self.writer[key]):
            cut = self.model.slice_of(unit)
            made = cut.block(name) if cut else ()
            wanted = common(block, made)
            if wanted is not None:
                axes.update(axis for axis, _, _ in made)
                found.append(self._taken(key, unit, wanted, known))
        if len(found) == 1:
            return found[0]
        return torch.cat(found, dim=1 + axes.pop()) if axes else sum(found[1:], found[0])

    def whole(self, key: int, known: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Return a whole tensor as whole layers pass it on."""
        if key in known:
            return known[key]
        rows = self.block(key, (), known)
        return rows.reshape(rows.shape[0], *self.model.tensors[key].shape)

    def _taken(self, key: int, unit: int, block: Block, known: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Return a block of what a unit made of a tensor, from whatever is known that holds it."""
        if unit < len(self.model.layers) and key in known:
            rows = known[key]
            return narrowed(rows.reshape(rows.shape[0], *self.shape(key)), block, 1)
        for item in self.passed.get(key, ()):
            number = self.model.key_of[item]
            if item.unit == unit and number in known and common(block, item.block) == block:
                return narrowed(known[number], inside(block, item.block), 1)
        raise RunError(f"{self.model.tensors[key].name!r} of {self.model.units[unit]} has not arrived")

    def carried(self, units: Collection[int], made: Made) -> Iterator[tuple[int, torch.Tensor]]:
        """Yield what flows carry in part of what some units made, by key."""
        for item in self.model.passed:
            key = self.model.key_of[item]
            if item.unit in units and key not in made:
                yield key, self._taken(item.tensor, item.unit, item.block, made)
