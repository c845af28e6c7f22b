"""Both halves of a backward together are one backward, and the second goes through products alone."""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from torch.nn import functional

from explorer.run.model import ModelSpec, transformer
from explorer.run.ranks.modules import Weights, initial_weights, run_units, sample_tokens
from explorer.run.ranks.split_backward import input_half, weight_half

CPU = torch.device("cpu")
TIED, PLAIN = (
    transformer(3, d_model=8, heads=2, ffn=16, seq=4, dtype="fp64", tied=tied) for tied in (True, False)
)


@dataclass(frozen=True, kw_only=True)
class Section:
    """Some units with all that a backward through them needs."""

    model: ModelSpec
    units: tuple[int, ...]
    weights: Weights
    inputs: dict[int, torch.Tensor]
    tokens: torch.Tensor

    def run(self, *, cut: bool) -> tuple[list[torch.Tensor], tuple[tuple[torch.Tensor, torch.Tensor], ...]]:
        first = [u for u in self.units if cut and not self.model.units[u].reads]
        tables = run_units(self.model, first, self.weights, {}, self.tokens)
        leaves = {u: made.detach().requires_grad_() for u, made in tables.items()}
        rest = [u for u in self.units if u not in leaves]
        made = run_units(self.model, rest, self.weights, {**self.inputs, **leaves}, self.tokens)
        outputs = [({**leaves, **made})[self.units[-1]]]
        return outputs, tuple((tables[u], leaves[u]) for u in first)

    def seed(self) -> list[torch.Tensor | None]:
        last = self.model.units[self.units[-1]]
        return (
            [None] if last.kind == "head" else [torch.linspace(-1, 1, 96, dtype=torch.float64).view(3, 4, 8)]
        )


def section(model: ModelSpec, units: tuple[int, ...]) -> Section:
    generator = torch.Generator().manual_seed(1)
    outside = {r for u in units for r in model.units[u].reads if r not in units}
    inputs = {
        u: torch.randn(3, 4, 8, generator=generator, dtype=torch.float64).requires_grad_() for u in outside
    }
    return Section(
        model=model, units=units, weights=initial_weights(model, units, CPU), inputs=inputs,
        tokens=sample_tokens(model, 0, 3, CPU),
    )  # fmt: skip


def both_halves(part: Section) -> tuple[dict[int, torch.Tensor | None], dict[str, torch.Tensor]]:
    outputs, tables = part.run(cut=True)
    found, waiting = input_half(outputs, part.seed(), list(part.inputs.values()), part.weights, tables)
    return dict(zip(part.inputs, found, strict=True)), weight_half(waiting)


CASES = {
    "first": (PLAIN, (0, 1)),
    "embedding alone": (PLAIN, (0,)),
    "middle": (PLAIN, (1, 2)),
    "last": (PLAIN, (2, 3, 4)),
    "all, tied": (TIED, (0, 1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_one_backward(name: str) -> None:
    part = section(*CASES[name])
    outputs, _ = part.run(cut=False)
    wanted = [*part.inputs.values(), *part.weights.values()]
    right = torch.autograd.grad(outputs, wanted, part.seed(), allow_unused=True)
    inputs, weights = both_halves(part)
    for found, expected in zip(inputs.values(), right, strict=False):
        assert found is not None
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-14)
    for key, expected in zip(part.weights, right[len(inputs) :], strict=True):
        assert torch.allclose(weights[key], expected, rtol=1e-12, atol=1e-14), key
    assert all(x.grad is None for x in wanted)


def test_the_second_half_goes_through_products_alone() -> None:
    part = section(*CASES["middle"])
    outputs, tables = part.run(cut=True)
    assert not tables
    runs: Counter[str] = Counter()
    open_nodes, names = [outputs[0].grad_fn], {}
    while open_nodes:
        node = open_nodes.pop()
        if node is not None and node not in names and "Accumulate" not in node.name():
            names[node] = f"{node.name()} {len(names)}"
            node.register_prehook(lambda _, name=names[node]: runs.update([name]))
            open_nodes += [before for before, _ in node.next_functions]
    _, waiting = input_half(outputs, part.seed(), list(part.inputs.values()), part.weights, ())
    transposed = {name for name in names.values() if name.startswith("TBackward")}
    assert dict(runs) == dict.fromkeys(set(names.values()) - transposed, 1)
    runs.clear()
    weight_half(waiting)
    products = {name for name in names.values() if name.startswith("Mm")}
    assert len(products) == len(transposed) == 2 * 4
    assert dict(runs) == dict.fromkeys(products | transposed, 1)


def test_what_no_weight_gradient_reads_is_given_back_between_the_halves() -> None:
    """Of a feed-forward the products' inputs stay, what the activation saved goes."""
    generator = torch.Generator().manual_seed(1)
    x, up, down, scale = (
        torch.randn(size, generator=generator, dtype=torch.float64).requires_grad_()
        for size in ((4, 8), (16, 8), (8, 16), (8,))
    )
    normed = functional.layer_norm(x, (8,), scale)
    wide = functional.linear(normed, up)
    active = functional.gelu(wide)
    outputs = [x + functional.linear(active, down)]
    held = {name: weakref.ref(t) for name, t in (("normed", normed), ("wide", wide), ("active", active))}
    del normed, wide, active

    def alive() -> set[str]:
        return {name for name, tensor in held.items() if tensor() is not None}

    assert alive() == {"normed", "wide", "active"}
    weights = {"up": up, "down": down, "scale": scale}
    _, waiting = input_half(outputs, [torch.ones(4, 8).double()], [x], weights, ())
    assert alive() == {"normed", "active"}
    assert set(weight_half(waiting)) == {"up", "down", "scale"}
    del outputs, waiting
    assert not alive()
