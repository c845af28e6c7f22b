"""Formal arguments: tensors of which an operator takes the shape or the data type, and no value.

A norm ends with `type_as(y, x)`, a cast to the data type of its input; `zeros_like(x)` makes a constant. The
graph of layers has no such read, so a layer gets no such tensor from others: what stands in for it has its
shape and data type, in the memory of one scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

_SECOND = frozenset({"type_as", "expand_as", "view_as", "reshape_as"})
_FIRST = frozenset({"empty_like", "zeros_like", "ones_like", "full_like"})


def formal_argument(node: Any) -> Any | None:
    """Return the node of whose result a node reads only shape and data type; None if there is none.

    A tensor that it reads as well for its values is none.
    """
    name = str(getattr(node.target, "_opname", ""))
    place = 1 if name in _SECOND else 0 if name in _FIRST or name.startswith("new_") else None
    if node.op != "call_function" or place is None or place >= len(node.args):
        return None
    given = node.args[place]
    others = [*node.args[:place], *node.args[place + 1 :]]
    return given if hasattr(given, "op") and given not in others else None


def valued_inputs(node: Any) -> Iterator[Any]:
    """Yield the nodes whose values a node reads."""
    formal = formal_argument(node)
    return (item for item in node.all_input_nodes if item is not formal)


def stand_in(graph: Any, node: Any) -> Any:
    """Add to a graph what has the shape and data type of a node's result; return it."""
    import torch

    value = node.meta["val"]
    scalar = graph.call_function(torch.ops.aten.zeros.default, ([],), {"dtype": value.dtype})
    return graph.call_function(torch.ops.aten.expand.default, (scalar, [int(size) for size in value.shape]))


def without_formal(graph: Any, node: Any, made: Callable[[Any], Any]) -> Any:
    """Copy a node to a graph where nobody has made its formal argument; return the copy.

    A `type_as` becomes a cast to a data type of that name.

    Args:
        graph: the graph.
        node: the node.
        made: the copies of all its other inputs.
    """
    import torch

    formal = formal_argument(node)
    if getattr(node.target, "_opname", "") == "type_as":
        dtype = node.meta["val"].dtype
        return graph.call_function(torch.ops.aten.to.dtype, (made(node.args[0]), dtype))
    like = stand_in(graph, formal)
    return graph.node_copy(node, lambda item: like if item is formal else made(item))
