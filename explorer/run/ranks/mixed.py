"""Mixed precision: which tensors of a run in bf16 are in fp32 beside those that it computes with.

Weights that are computed with, activations and what is sent of them are in bf16. The update works on main
weights and states in fp32 (Micikevicius et al., Mixed Precision Training, 2018, section 3.1), rounds each
weight once, and reads gradients that are added up and reduced in bf16 or in fp32, as the plan's job says.
"""

from __future__ import annotations

import torch

from explorer.run.model import ModelSpec
from explorer.run.own.own_model import OwnModel
from explorer.run.sharded.layout_model import LayoutModel

_GRADIENTS = {"fp32": torch.float32, "bf16": torch.bfloat16}


def is_narrow(dtype: torch.dtype) -> bool:
    """Tell whether weights of a data type have main weights beside them: floats narrower than fp32."""
    return dtype.is_floating_point and dtype.itemsize < torch.float32.itemsize


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """Return the data type of the main weights of a data type.

    >>> wide_type(torch.bfloat16), wide_type(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.float32 if is_narrow(dtype) else dtype


def gradient_type(model: ModelSpec | OwnModel | LayoutModel) -> torch.dtype | None:
    """Return the data type in which gradients of a model are added up; None for that of each weight."""
    chosen = model.gradient_dtype if isinstance(model, OwnModel) else ""
    return _GRADIENTS[chosen] if chosen and chosen != model.dtype else None


def summed(gradient: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """Return a gradient in the data type in which it is added up; itself if it is in that one."""
    return gradient if dtype is None else gradient.to(dtype)
