"""Numbers in fp64: what is compared with one process, in a precision in which rounding decides nothing.

In fp32 a rounding may turn a ReLU over, or send a token to another expert, and with it change gradients by a
per cent, as a fault would. So numbers are compared in fp64 wherever the model computes in it, by the same
order and layout on the same ranks; seconds and bytes are those of the run's own precision.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.base.errors import InputError
from explorer.run.cases.likeness import Scaled
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import Elsewhere, room_bytes

FP64 = "fp64"
COPIES = 23
"""Copies of all weights in fp64 that a rank holds at a time, by the resident memory of its process: 16 to 20
of GPT-2's table over two replicas, 15 to 17 of a Llama, 8 of its two stages; 13 are tensors, the rest pages
between them that the heap keeps. The rest up to 23 is margin: the same run differs by 2 from time to time.
"""


def in_fp64(scaled: Scaled, *, elsewhere: Elsewhere | None = None) -> tuple[Scaled, str]:
    """Return a run with its model in fp64, or as it is and why not.

    Args:
        scaled: the run.
        elsewhere: where it will run, if not here.
    """
    model = scaled.model
    if not isinstance(model, OwnModel) or model.dtype == FP64:
        return replace(scaled, model=replace(model, dtype=FP64)), ""
    needed = 8 * COPIES * scaled.ranks * model.elements
    if needed > (room := room_bytes(scaled.ranks, elsewhere)):
        return scaled, f"fp64 needs {needed / 2**30:.1f} GiB, and there is room for {room / 2**30:.1f}"
    try:
        return replace(scaled, model=_own_in_fp64(model)), ""
    except InputError as error:
        return scaled, error.message
    except (RuntimeError, TypeError, ValueError, NotImplementedError, IndexError) as error:
        return scaled, (str(error).splitlines() or [type(error).__name__])[0]


def _own_in_fp64(model: OwnModel) -> OwnModel:
    """Return a model of own layers in fp64, which have run once on zeros.

    Raises:
        InputError: a module that cannot be captured in fp64, or has other layers then.
        RuntimeError: an operator that has no kernel for fp64.
    """
    import torch

    from explorer.models.captured_program import capture_program
    from explorer.run.own.layer_modules import layer_module
    from explorer.run.own.own_source import open_own, own_source

    opened, chosen = open_own(replace(model, dtype=FP64))
    own = own_source(
        model.reference, settings=dict(model.settings), sequence_length=model.sequence_length,
        keep=model.keep, dtype=FP64, seed=model.seed, opened=opened,
    ).model  # fmt: skip
    if (own.layers, own.parameters, own.reads) != (model.layers, model.parameters, model.reads):
        raise InputError("the module has other layers in fp64", key="model", found=model.reference)
    program = capture_program(opened, keep=chosen)
    module = layer_module(program, model.layers, loss=False)
    values = {node.name: node.meta["val"] for node in program.module.graph.nodes if node.op == "placeholder"}
    zeros = {
        name: torch.zeros(values[node].shape, dtype=values[node].dtype)
        for node, name in program.parameter_of.items()
    }
    with torch.no_grad():
        module(program.inputs, zeros)
    return replace(model, dtype=FP64, tensors=own.tensors)
