"""A model of own layers in another precision: captured again, with the same layers, and run once on zeros."""

from __future__ import annotations

from dataclasses import replace

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.run.own.own_model import OwnModel


def in_precision(model: OwnModel, dtype: str) -> tuple[OwnModel | None, str]:
    """Return a model in another precision, its gradients in that one too; None and why if it has none.

    Args:
        model: the model.
        dtype: the precision, fp32, fp64 or bf16.
    """
    found, reason = captured_in(model, dtype)
    return (None if found is None else found[0]), reason


def captured_in(model: OwnModel, dtype: str) -> tuple[tuple[OwnModel, LayerGraph] | None, str]:
    """Return a model in another precision, and its graph by eager operators, captured in it; None and why if
    it has none.

    Args:
        model: the model, whose layers the graph has as they were captured, not as the plan says.
        dtype: the precision, fp32, fp64 or bf16.
    """
    try:
        return _captured(model, dtype), ""
    except InputError as error:
        return None, error.message
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as error:
        return None, (str(error).splitlines() or [type(error).__name__])[0]


def _captured(model: OwnModel, dtype: str) -> tuple[OwnModel, LayerGraph]:
    """Return a model of own layers in a precision, which have run once on zeros, and their eager graph.

    Raises:
        InputError: a module that cannot be captured in it, or has other layers then.
        RuntimeError: an operator that has no kernel for it.
    """
    import torch

    from explorer.models.captured_program import capture_program
    from explorer.run.own.layer_modules import LABELS, layer_module
    from explorer.run.own.own_source import open_own, own_source

    bare = replace(model, dtype=dtype, gradient_dtype="")
    opened, chosen = open_own(bare)
    source = own_source(
        model.reference, settings=dict(model.settings), sequence_length=model.sequence_length,
        keep=model.keep, dtype=dtype, seed=model.seed, opened=opened,
    )  # fmt: skip
    own = source.model
    if (own.layers, own.parameters, own.reads) != (model.layers, model.parameters, model.reads):
        raise InputError(f"the module has other layers in {dtype}", key="model", found=model.reference)
    program = capture_program(opened, keep=chosen)
    module = layer_module(program, model.layers)  # up to the loss, which needs all of them
    values = {node.name: node.meta["val"] for node in program.module.graph.nodes if node.op == "placeholder"}
    zeros = {
        name: torch.zeros(values[node].shape, dtype=values[node].dtype)
        for node, name in program.parameter_of.items()
    }
    inputs = dict(program.inputs)
    if program.loss:
        places = tuple(map(round, program.graph.tensor[LABELS].shape))
        inputs[LABELS] = torch.zeros(1, *places, dtype=torch.long)
    with torch.no_grad():
        module(inputs, zeros)
    return replace(bare, tensors=own.tensors), source.eager
