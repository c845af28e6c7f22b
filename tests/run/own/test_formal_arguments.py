"""Formal arguments: what a layer takes only shape or data type of, it need not be given."""

from __future__ import annotations

import pytest
import torch

from explorer.run.own.formal_arguments import formal_argument, valued_inputs
from explorer.run.own.layer_modules import layer_module
from explorer.run.own.own_layers import own_layers
from tests.run.own.own_cases import FACTORIES, case, cut, source
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
EXACT = {"fp64": 1e-10, "fp32": 1e-5}


@pytest.mark.parametrize("dtype", EXACT)
def test_layers_read_what_the_graph_says(dtype: str) -> None:
    own = source(f"{FACTORIES}:casting", dtype=dtype)
    program = own_layers(own.model).program(2)
    for layer in own.graph.layers:
        module = layer_module(program, (layer.name,))
        assert set(module.reads) <= {use.name for use in layer.reads}, layer.name


@pytest.mark.parametrize("dtype", EXACT)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_stages_compute_what_one_process_computes(stages: int, dtype: str) -> None:
    own = source(f"{FACTORIES}:casting", dtype=dtype)
    prepared = case(own, cut(own, stages), "1f1b", batch=4)
    assert worst(on_threads(prepared)) <= EXACT[dtype]


def test_one_process_computes_what_the_module_computes() -> None:
    """Layer by layer, each by itself, from tensors of the others."""
    own = source(f"{FACTORIES}:casting")
    layers = own_layers(own.model)
    weights = layers.weights(range(len(own.model.layers)), torch.device("cpu"))
    data = layers.samples(0, 3, torch.device("cpu"))
    made: dict[int, torch.Tensor] = {}
    for unit in range(len(own.model.layers)):
        made |= layers.run([unit], weights, made, data)
    whole = layers.whole(weights, data)
    assert whole is not None
    assert made[layers.loss].item() == pytest.approx(whole.item(), rel=1e-12)


def test_a_tensor_read_for_its_values_too_is_no_formal_argument() -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    cast = graph.call_function(torch.ops.aten.type_as.default, (x, y))
    same = graph.call_function(torch.ops.aten.type_as.default, (x, x))
    added = graph.call_function(torch.ops.aten.add.Tensor, (x, y))
    zeros = graph.call_function(torch.ops.aten.zeros_like.default, (y,))
    assert (formal_argument(cast), list(valued_inputs(cast))) == (y, [x])
    assert (formal_argument(same), list(valued_inputs(same))) == (None, [x])
    assert (formal_argument(added), list(valued_inputs(added))) == (None, [x, y])
    assert (formal_argument(zeros), list(valued_inputs(zeros))) == (y, [])
