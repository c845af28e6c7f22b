"""Slices that are wrong on purpose, in one thing each, are found out by the numbers or by the bytes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch

from explorer.run.cases.build import Prepared
from explorer.run.judging.wire_bytes import wire_bytes
from explorer.run.own.assembly import Assembly
from explorer.run.own.blocks import Block
from explorer.run.own.sliced_layers import SlicedLayers
from explorer.run.own.sliced_model import SlicedModel
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.modules import Made
from tests.run.own.own_cases import FACTORIES, case, source
from tests.run.own.slice_cases import parts, sliced_stages
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
FAR = 1e-3


def prepared(reference: str, dim: str) -> Prepared:
    """The second layer of a user's module in halves."""
    own = source(f"{FACTORIES}:{reference}")
    return case(own, sliced_stages(own.graph, ("act",), ("second", dim, parts(0.5))), "1f1b", batch=4)


def mutant(kind: type[SlicedLayers]) -> Callable[[Compute], None]:
    """A change of every rank's units."""

    def change(run: Compute) -> None:
        assert isinstance(run.model, SlicedModel)
        run.units = kind(run.model)

    return change


class Same(SlicedLayers):
    """Nothing is wrong."""


class WeightsOneOff(SlicedLayers):
    """A part of a weight begins one place too early."""

    def _part_of(self, name: str, whole: Mapping[str, torch.Tensor]) -> torch.Tensor:
        made = super()._part_of(name, whole)
        ((axis, low, high),) = self.model.parts[name].block
        weight = whole[self.model.parts[name].parameter].detach()
        return weight.narrow(axis, low - 1, high - low).clone().requires_grad_() if low else made


class Swapped(SlicedLayers):
    """What slices made is put together in the wrong order."""

    def __init__(self, model: SlicedModel) -> None:
        super().__init__(model)

        class Wrong(Assembly):
            def block(self, key: int, block: Block, known: Mapping[int, torch.Tensor]) -> torch.Tensor:
                made = super().block(key, block, known)
                return made.roll(made.shape[1] // 2, 1) if key == self.model.number_of["second"] else made

        self.assembly = Wrong(model, self.graph, self.own.writer)


class Shifted(SlicedLayers):
    """A block of a message lies one place further on."""

    def __init__(self, model: SlicedModel) -> None:
        super().__init__(model)

        class Wrong(Assembly):
            def carried(self, units: Collection[int], made: Made) -> Iterator[tuple[int, torch.Tensor]]:
                for key, rows in super().carried(units, made):
                    yield key, rows.roll(1, 1)

        self.assembly = Wrong(model, self.graph, self.own.writer)


class AddedTwice(SlicedLayers):
    """Every part of a sum adds the bias."""

    def _is_added(self, cut: object, parameter: str) -> bool:
        del cut, parameter
        return False


@pytest.mark.parametrize(("kind", "reference", "dim"), [
    (WeightsOneOff, "skip", "seq"), (WeightsOneOff, "pictures", "channels"), (Swapped, "skip", "seq"),
    (Swapped, "pictures", "channels"), (Shifted, "pictures", "channels_2"), (AddedTwice, "skip", "ffn"),
    (AddedTwice, "pictures", "channels_2"),
])  # fmt: skip
def test_wrong_numbers_are_found_out(kind: type[SlicedLayers], reference: str, dim: str) -> None:
    made = prepared(reference, dim)
    assert worst(on_threads(made, mutant(Same))) <= 1e-10
    assert worst(on_threads(made, mutant(kind))) > FAR


def test_a_sum_that_nobody_exchanges_is_found_out() -> None:
    """The ranks would go on with biases of their own."""
    made = prepared("skip", "ffn")
    with patch.object(Compute, "contribution", lambda self, item: torch.zeros_like(_total(self, item))):
        assert worst(on_threads(made)) > FAR


def _total(run: Compute, item: object) -> torch.Tensor:
    return torch.zeros(sum(run.current[name].numel() for name in run.group_names[item.group]))  # type: ignore[attr-defined]


def test_more_bytes_than_the_range_are_found_out() -> None:
    """A whole tensor where a slice reads a part of it: right numbers, wrong bytes."""
    made = prepared("pictures", "channels_2")
    model = made.case.model
    assert isinstance(model, SlicedModel)
    key, whole = next((model.key_of[x], x) for x in model.passed if x.unit < len(model.layers))
    units = tuple(tuple(whole.tensor if k == key else k for k in keys) for keys in made.case.flow_units)
    wrong = replace(made, case=replace(made.case, flow_units=units))
    records = on_threads(wrong)
    assert worst(records) <= 1e-10
    assert not all(found.equal for found in wire_bytes(wrong, records))
    assert all(found.equal for found in wire_bytes(made, on_threads(made)))
