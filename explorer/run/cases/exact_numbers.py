"""Numbers in fp64: what is compared with one process, in a precision in which rounding decides nothing.

In fp32 a rounding may turn a ReLU over, or send a token to another expert, and with it change gradients by a
per cent, as a fault would; in bf16 it does so everywhere. So numbers are compared in fp64 wherever the model
computes in it, else in fp32, by the same order and layout on the same ranks; seconds and bytes are those of
the run's own precision.
"""

from __future__ import annotations

from dataclasses import replace

from explorer.base.units import dtype_bytes
from explorer.run.cases.likeness import Scaled
from explorer.run.own.other_precision import in_precision
from explorer.run.own.own_model import OwnModel
from explorer.run.own.own_scale import Elsewhere, room_bytes

FP32, FP64 = "fp32", "fp64"
COPIES = 23
"""Copies of all weights in fp64 that a rank holds at a time, by the resident memory of its process: 16 to 20
of GPT-2's table over two replicas, 15 to 17 of a Llama, 8 of its two stages; 13 are tensors, the rest pages
between them that the heap keeps. The rest up to 23 is margin: the same run differs by 2 from time to time.
"""


def in_fp64(scaled: Scaled, *, elsewhere: Elsewhere | None = None) -> tuple[Scaled, str]:
    """Return a run with its model in fp64, or else in fp32, or as it is, and why not in fp64.

    Args:
        scaled: the run.
        elsewhere: where it will run, if not here.
    """
    model = scaled.model
    if not isinstance(model, OwnModel) or model.dtype == FP64:
        return replace(scaled, model=replace(model, dtype=FP64)), ""
    reason = ""
    for dtype in (FP64, FP32):
        if dtype == model.dtype:
            break
        found, why = _own(model, dtype, scaled.ranks, elsewhere)
        reason = reason or why
        if found is not None:
            return replace(scaled, model=found), reason
    return scaled, reason


def _own(model: OwnModel, dtype: str, ranks: int, elsewhere: Elsewhere | None) -> tuple[OwnModel | None, str]:
    """Return a model in a precision, if there is room for it, and why not."""
    needed = dtype_bytes(dtype) * COPIES * ranks * model.elements
    if needed > (room := room_bytes(ranks, elsewhere)):
        return None, f"{dtype} needs {needed / 2**30:.1f} GiB, and there is room for {room / 2**30:.1f}"
    return in_precision(model, dtype)
