"""Synthetic graphs: the seconds and bytes that were asked for, and nothing else."""

from __future__ import annotations

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.models.synthetic import branches, chain, mlp, tied

SECONDS = st.lists(st.floats(0, 10), min_size=1, max_size=8)


@given(SECONDS)
def test_chain_backward_is_twice_the_forward(forward_s: list[float]) -> None:
    graph = chain(forward_s)
    measured = [layer.measured[0] for layer in graph.layers]
    assert [item.forward_s for item in measured] == forward_s
    assert [item.input_grad_s + item.weight_grad_s for item in measured] == [2 * f for f in forward_s]
    assert all(item.halves and item.batch == 1 and item.device_kind == "*" for item in measured)


def test_chain_takes_both_parts_apart() -> None:
    graph = chain([1.0, 2.0], input_grad_s=[3.0, 4.0], weight_grad_s=0.5)
    assert [
        (m.input_grad_s, m.weight_grad_s, m.halves) for layer in graph.layers for m in layer.measured
    ] == [
        (3.0, 0.5, False),
        (4.0, 0.5, False),
    ]


def test_chain_bytes() -> None:
    graph = chain([1.0] * 3, activation_bytes=[10, 20, 30], parameter_bytes=8, saved_bytes=[1, 0, 3])
    assert [graph.tensor[f"t{i}"].bytes_per_sample("bf16") for i in range(3)] == [10, 20, 30]
    assert [item.elements for item in graph.parameters] == [2, 2, 2]
    assert [layer.saves for layer in graph.layers] == [("s0",), (), ("s2",)]
    assert graph.tensor["s2"].bytes_per_sample("fp32") == 3


def test_gradient_flows_even_without_parameter_bytes() -> None:
    assert chain([1.0, 1.0]).needs_gradient == {"t0", "t1"}


def test_each_layer_of_a_chain_is_a_block() -> None:
    assert list(chain([1.0, 1.0]).blocks) == ["layers.0", "layers.1"]


def test_wrong_length_is_refused() -> None:
    with pytest.raises(InputError, match="backward_s has 2 values for 3 layers"):
        chain([1.0] * 3, backward_s=[1.0, 2.0])


@pytest.mark.parametrize("skip", [False, True])
def test_branches_join(skip: bool) -> None:
    graph = branches((2, 3), skip=skip)
    assert nx.is_directed_acyclic_graph(graph.digraph)
    ends = {"branch0.1", "branch1.2"} | ({"first"} if skip else set())
    assert set(graph.digraph.predecessors("join")) == ends
    assert not nx.has_path(graph.digraph, "branch0.0", "branch1.2")


def test_a_branch_needs_a_layer() -> None:
    with pytest.raises(InputError, match="every branch needs a layer"):
        branches((2, 0))


def test_tied_shares_one_parameter() -> None:
    graph = tied([1.0] * 4, parameter_bytes=4)
    assert [layer.parameters[0].name for layer in graph.layers] == ["w0", "w1", "w2", "w0"]
    assert graph.parameter_count == 3


def test_mlp_counts() -> None:
    graph = mlp(3, width=8, classes=5)
    assert graph.parameter_count == 3 * (8 * 32 + 32 + 32 * 8 + 8) + 8 * 5 + 5
    assert graph.flops_per_sample == 2 * (3 * 2 * 8 * 32 + 8 * 5)
