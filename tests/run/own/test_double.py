"""In fp64 a module computes in fp64 what it would do in fp32 by name."""

from __future__ import annotations

import pytest
import torch

from explorer.run.own.double import _grouped_mm, lifted_call
from explorer.run.own.layer_modules import layer_module
from explorer.run.own.own_layers import own_layers
from tests.run.own.own_cases import configured


def test_products_by_groups_are_those_of_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(12, 16, generator=generator)
    weight = torch.randn(3, 16, 8, generator=generator)
    ends = torch.tensor([4, 4, 12], dtype=torch.int32)  # the second group has no rows
    found = []
    for product, dtype in ((torch._grouped_mm, torch.float32), (_grouped_mm, torch.float64)):
        a, b = x.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()
        y = product(a, b, offs=ends)
        found.append((y, *torch.autograd.grad(y.square().sum(), (a, b))))
    for one, other in zip(*found, strict=True):
        assert other.dtype == torch.float64
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-4)


def test_rows_after_the_last_group_give_nothing() -> None:
    made = _grouped_mm(torch.ones(3, 2), torch.ones(1, 2, 2), torch.tensor([2]))
    assert made.tolist() == [[2.0, 2.0], [2.0, 2.0], [0.0, 0.0]]


def test_another_arrangement_of_groups_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="2 by 2 axes"):
        _grouped_mm(torch.ones(2, 2), torch.ones(2, 2), torch.tensor([1, 2]))


def test_calls_stay_in_fp64() -> None:
    x = torch.full((2,), 1 / 3, dtype=torch.float64)
    for func, args, kwargs in (
        (torch.Tensor.float, (x,), {}),
        (torch.Tensor.to, (x, torch.float32), {}),
        (torch.softmax, (x, 0), {"dtype": torch.float32}),
        (torch.zeros, (2,), {"dtype": torch.float32}),
    ):
        assert lifted_call(func, args, kwargs).dtype == torch.float64


@pytest.mark.parametrize("name", ["mixtral", "t5"])
def test_no_value_of_a_module_falls_to_fp32(name: str) -> None:
    """Graphs that it runs without gradients (positions of Mixtral) neither: layers give what it gives."""
    own = own_layers(configured(name, "fp64").model)
    units = range(len(own.model.layers))
    weights = own.weights(units, torch.device("cpu"))
    data = own.samples(0, 2, torch.device("cpu"))
    loss = own.run(units, weights, {}, data)[own.loss]
    whole = own.whole(weights, data)
    assert whole is not None
    assert float(abs(whole - loss).detach()) < 1e-13 * float(abs(whole).detach())
    program = own.program(2)
    module = layer_module(program, own.model.layers)
    dtypes: set[torch.dtype] = set()

    class Watch(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> object:
            made = super().run_node(n)
            dtypes.update([made.dtype] if isinstance(made, torch.Tensor) else [])
            return made

    given = {**{n: x for n, x in program.inputs.items() if n not in data}, **data}
    Watch(module.module).run(*(given[n] for n in module.reads), *(weights[n] for n in module.parameters))
    assert torch.float64 in dtypes
    assert torch.float32 not in dtypes
