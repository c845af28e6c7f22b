"""Recorded calls do what the graph says, for whatever values, and keep none of the first."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch.fx import Graph, Node

from explorer.run.own.recorded_calls import Known, Recorded, Recorder

CONSTANT = torch.tensor([2.0, 3.0, 5.0, 7.0])


def halves(x: torch.Tensor, *, width: int) -> tuple[torch.Tensor, ...]:
    return x.split(width, dim=-1)


def program() -> tuple[Graph, list[Node]]:
    """Values alone, in lists, in slices, by keyword, one of several results, and what is the same always."""
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    constant = graph.get_attr("constant")
    both = graph.call_function(torch.cat, ([x, y],), {"dim": -1})
    parts = graph.call_function(halves, (both,), {"width": 2})
    second = graph.call_function(_item, (parts, 1))
    count = graph.call_function(torch.Tensor.dim, (x,))
    cut = graph.call_function(_sliced, (both, slice(None, count)))
    scaled = graph.call_function(torch.mul, (x, constant))
    named = graph.call_function(torch.add, (scaled,), {"other": y, "alpha": 0.5})
    same = graph.call_function(torch.Tensor.contiguous, (y,))
    return graph, [second, cut, named, same, constant]


def _item(x: Any, i: int) -> Any:
    return x[i]


def _sliced(x: torch.Tensor, part: slice) -> torch.Tensor:
    return x[..., part]


def by_hand(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    both = torch.cat([x, y], -1)
    return [both[..., 2:4], both[..., : x.dim()], x * CONSTANT + 0.5 * y, y, CONSTANT]


def recorded(x: torch.Tensor, y: torch.Tensor) -> tuple[Recorded, list[Any]]:
    graph, ends = program()
    recorder = Recorder(2)
    known: dict[Any, Known] = {}
    given = iter([x, y])
    for node in graph.nodes:
        if node.op == "placeholder":
            known[node] = Known(next(given), len(known))
        elif node.op == "get_attr":
            known[node] = Known(CONSTANT)
        else:
            known[node] = recorder.call(node.target, node.args, node.kwargs, known)
    wanted = [known[node] for node in ends]
    return recorder.recorded(wanted), [item.value for item in wanted]


def numbers(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 4, generator=generator) for _ in "xy"]


@pytest.mark.parametrize("seed", range(3))
def test_calls_are_made_again_with_other_values(seed: int) -> None:
    first, other = numbers(seed), numbers(seed + 100)
    calls, made = recorded(*first)
    for found, right in ((made, by_hand(*first)), (calls(other), by_hand(*other))):
        for a, b in zip(found, right, strict=True):
            torch.testing.assert_close(a, b)


def test_what_returned_its_input_once_need_not_again() -> None:
    calls, _ = recorded(*numbers(0))
    x, y = numbers(1)
    assert calls([x, y.t().contiguous().t()])[3].is_contiguous()


def test_gradients_flow_through_calls_made_again() -> None:
    calls, _ = recorded(*numbers(0))
    x, y = (item.requires_grad_() for item in numbers(1))
    torch.autograd.grad(calls([x, y])[2].sum(), [x, y])
    gx, gy = torch.autograd.grad(calls([x, y])[2].sum(), [x, y])
    torch.testing.assert_close(gx, CONSTANT.expand(3, 4))
    torch.testing.assert_close(gy, torch.full((3, 4), 0.5))


def test_no_value_of_the_first_call_is_kept() -> None:
    x, y = numbers(0)
    held = [weakref.ref(x), weakref.ref(y)]
    calls, made = recorded(x, y)
    held += [weakref.ref(item) for item in made[:3]]
    del x, y, made
    gc.collect()
    assert [item() for item in held] == [None] * len(held)
    assert len(calls(numbers(1))) == 5
