"""In fp64 what a module does in fp32 of its own accord: its casts, and operators that know no fp64.

Modules lift sums of half precision to fp32 by name (norms, scores of experts), which in a run in fp64 would
be a fall to fp32, whose roundings no comparison could see through. So there fp32 stands for the precision of
the run, and torch's product by groups of rows, which has no kernel for fp64, is a product for each group.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx.node import map_aggregate

GROUPED = frozenset({"_grouped_mm", "grouped_mm"})
"""Names of torch's product by groups."""


def _grouped_mm(
    x: torch.Tensor,
    weight: torch.Tensor,
    offs: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Multiply every group of rows by a matrix of its own, as `torch._grouped_mm` does.

    Args:
        x: rows (rows, depth), those of a group beside each other.
        weight: a matrix for each group (groups, depth, columns).
        offs: row after the last one of each group (groups,); rows after the last group give zeros.
        bias: added for each group (groups, columns).
        out_dtype: data type of the result; None for that of `x`.

    Raises:
        NotImplementedError: another arrangement of groups.
    """
    if x.dim() != 2 or weight.dim() != 3 or offs is None:
        raise NotImplementedError(
            f"products by groups of {x.dim()} by {weight.dim()} axes in fp64, not 2 by 3 with ends of groups"
        )
    ends = offs.tolist()
    parts = []
    for group, (low, high) in enumerate(zip([0, *ends], ends, strict=False)):
        y = x[low:high] @ weight[group]
        parts.append(y if bias is None else y + bias[group])
    parts.append(x.new_zeros(x.shape[0] - ends[-1], weight.shape[2]))
    return torch.cat(parts).to(out_dtype or x.dtype)


def lifted(value: Any) -> Any:
    """Return arguments with fp64 wherever they say fp32.

    >>> lifted((1, [torch.float32]))
    (1, [torch.float64])
    """
    return map_aggregate(value, lambda item: torch.float64 if item is torch.float32 else item)


def lift_node(node: Any) -> None:
    """Let a node of a captured program compute in fp64."""
    if node.op != "call_function":
        return
    node.args, node.kwargs = lifted(node.args), lifted(node.kwargs)
    if str(getattr(node.target, "_opname", "")) in GROUPED:
        node.target = _grouped_mm


def lifted_module(module: Any) -> Any:
    """Return a copy of a graph inside of a captured program (what it runs without gradients) in fp64."""
    made = copy.deepcopy(module)
    for node in list(made.graph.nodes):
        if "_assert_tensor_metadata" in str(node.target):  # says of casts what they are no more
            made.graph.erase_node(node)
        else:
            lift_node(node)
    made.recompile()
    return made


def lifted_call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Call a function of torch so that it computes in fp64."""
    name = getattr(func, "__name__", "")
    if name == "float" and args and isinstance(args[0], torch.Tensor):
        return args[0].double()
    chosen = _grouped_mm if name in GROUPED else func
    return chosen(*lifted(args), **lifted(dict(kwargs)))


__all__ = ["lift_node", "lifted", "lifted_call", "lifted_module"]
