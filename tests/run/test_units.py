"""Units, mailbox and optimizers: against torch, dense arrays and each other."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from explorer.base.errors import RunError
from explorer.run.model import (
    BLOCK,
    CONV,
    EMBED,
    HEAD,
    MLP,
    ModelSpec,
    Unit,
    forward_flops,
    model_graph,
    transformer,
)
from explorer.run.ranks.held_weights import unshared
from explorer.run.ranks.mailbox import Mailbox
from explorer.run.ranks.modules import initial_weights, run_units, sample_tokens
from explorer.run.ranks.optimizers import Optimizer

CPU = torch.device("cpu")
MIXED = ModelSpec(
    units=(
        Unit(name="embed", kind=EMBED),
        Unit(name="a", kind=BLOCK, ffn=12, reads=(0,)),
        Unit(name="b", kind=MLP, ffn=20, reads=(0,)),
        Unit(name="c", kind=CONV, ffn=6, reads=(1, 2)),
        Unit(name="head", kind=HEAD, reads=(3, 0)),
    ),
    d_model=8, heads=2, seq=4, vocab=16, dtype="fp64",
)  # fmt: skip


def test_any_partition_computes_the_same() -> None:
    tokens = sample_tokens(MIXED, 3, 8, CPU)
    everything = initial_weights(MIXED, range(5), CPU)
    whole = run_units(MIXED, range(5), everything, {}, tokens)
    first = run_units(MIXED, [0, 1], initial_weights(MIXED, [0, 1], CPU), {}, tokens)
    second = run_units(MIXED, [2, 3, 4], initial_weights(MIXED, [4, 3, 2], CPU), first, tokens)
    assert torch.equal(second[4], whole[4])
    parts = [sample_tokens(MIXED, low, high, CPU) for low, high in ((3, 5), (5, 8))]
    halves = [run_units(MIXED, range(5), everything, {}, part)[4].detach() for part in parts]
    assert float(sum(halves)) == pytest.approx(float(whole[4].detach()), rel=1e-14)


def test_graph_counts_what_modules_do() -> None:
    graph = model_graph(MIXED)
    weights = initial_weights(MIXED, range(5), CPU)
    assert {p.name: p.shape for p in graph.parameters} == {
        n: tuple(map(float, w.shape)) for n, w in weights.items()
    }
    with FlopCounterMode(display=False) as counter:
        run_units(MIXED, range(5), weights, {}, sample_tokens(MIXED, 0, 3, CPU))
    counted = 3 * sum(forward_flops(MIXED, unit) for unit in MIXED.units)
    # the counter knows the fused attention kernels of GPUs only
    attention = 3 * 4.0 * MIXED.seq**2 * MIXED.d_model
    assert counter.get_total_flops() in (counted, counted - attention)


def test_a_tied_head_has_the_embeddings_table() -> None:
    model = transformer(1, tied=True)
    weights = initial_weights(model, range(3), CPU)
    assert "head.table" not in weights
    assert torch.equal(initial_weights(model, [2], CPU)["embed.table"], weights["embed.table"])
    loss = run_units(model, range(3), weights, {}, sample_tokens(model, 0, 2, CPU))[2]
    assert torch.autograd.grad(loss, weights["embed.table"])[0].abs().sum() > 0


@given(
    cuts=st.lists(st.integers(1, 11), unique=True, max_size=4),
    asked=st.lists(st.integers(1, 11), unique=True, max_size=4),
    layers=st.integers(1, 3),
)
def test_mailbox_is_a_sum_of_rows(cuts: list[int], asked: list[int], layers: int) -> None:
    """However the rows come in and are asked for, taking gives the sum over all that cover them."""
    box, dense = Mailbox(), torch.zeros(12, 2, dtype=torch.float64)
    for layer in range(layers):
        bounds = [0, *sorted(cuts), 12] if layer % 2 == 0 else [0, 12]
        for low, high in itertools.pairwise(bounds):
            rows = torch.arange(low, high, dtype=torch.float64).unsqueeze(1).repeat(1, 2) + layer
            box.put("x", (low, high), rows)
            dense[low:high] += rows
    bounds = [0, *sorted(asked), 12]
    for low, high in reversed(list(itertools.pairwise(bounds))):
        assert torch.equal(box.take("x", (low, high)), dense[low:high])
    assert box.size == 0


def test_mailbox_misses_nothing() -> None:
    box = Mailbox()
    box.put("x", (0, 2), torch.zeros(2, 1))
    with pytest.raises(RunError, match="samples 1 to 3"):
        box.take("x", (1, 4))


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam", "adamw"])
def test_a_gradient_may_lie_transposed_in_memory(kind: str) -> None:
    plain = torch.arange(12.0).reshape(3, 4)
    turned = plain.t().contiguous().t()
    found = []
    for gradient in (plain, turned):
        weights = {"w": torch.ones(3, 4)}
        Optimizer(kind, 0.1).step(weights, {"w": gradient.clone(memory_format=torch.preserve_format)})
        found.append(weights["w"])
    assert turned.stride() != plain.stride()
    assert torch.equal(*found)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("early", [False, True])
def test_optimizers_are_torchs(kind: str, early: bool) -> None:
    """Whether their states are made before the first update or by it."""
    ours = {"a": torch.randn(3, 4, dtype=torch.float64), "b": torch.randn(5, dtype=torch.float64)}
    theirs = [torch.nn.Parameter(w.clone()) for w in ours.values()]
    made = {
        "sgd": lambda: torch.optim.SGD(theirs, lr=0.1),
        "momentum": lambda: torch.optim.SGD(theirs, lr=0.1, momentum=0.9),
        "adam": lambda: torch.optim.Adam(theirs, lr=0.1),
        "adamw": lambda: torch.optim.AdamW(theirs, lr=0.1, weight_decay=0.01),
    }[kind]()
    optimizer = Optimizer(kind, 0.1)
    if early:
        optimizer.make_states(ours)
        assert kind == "sgd" or not optimizer.direction("a", ours["a"]).any()
    states = sum(map(len, optimizer._states()))
    for _ in range(3):
        gradients = {name: torch.randn_like(w) for name, w in ours.items()}
        optimizer.step(ours, {name: 3 * g for name, g in gradients.items()}, 3)
        for parameter, gradient in zip(theirs, gradients.values(), strict=True):
            parameter.grad = gradient.clone()
        made.step()
    assert not early or sum(map(len, optimizer._states())) == states
    for w, parameter in zip(ours.values(), theirs, strict=True):
        torch.testing.assert_close(w, parameter.detach(), rtol=1e-12, atol=1e-12)


def test_gradients_that_share_memory_are_added_up_apart() -> None:
    """The gradient of both parts of an addition is one tensor; sums of microbatches grow in place."""
    total = torch.ones(3)
    other = torch.ones(2)
    found = unshared({"a": total, "b": total.view(3, 1), "c": other, "d": torch.zeros(2)}, [other, None])
    for name, gradient in found.items():
        gradient.add_(1.0)
        assert bool((gradient == (1.0 if name == "d" else 2.0)).all()), name
    assert found["a"] is total
