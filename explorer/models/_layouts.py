"""Axes of an operator's results, given those of its arguments.

There is one rule per family: matrix products contract, views regroup, reductions drop, everything pointwise
aligns axes from the right. An operator without a rule keeps the axes of its first argument that stay in place
with the same size and gets new ones elsewhere. That is safe: a wrongly new axis can only make a layer look
less splittable than it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from explorer.models import _operators as operators
from explorer.models._axes import Axes, Axis, TensorAxes


def result_axes(
    axes: Axes, op: str, args: Sequence[Any], inputs: Sequence[TensorAxes], outs: Sequence[Sequence[int]]
) -> list[TensorAxes]:
    """Return the axes of every result of one call.

    Args:
        axes: the knowledge so far; equalities are added to it.
        op: operator name without overload (`linear`).
        args: arguments, tensors as their axes.
        inputs: the axes of the tensor arguments, in order.
        outs: sizes of the results.
    """
    bare = op.rstrip("_") if not op.startswith("_") else op
    if not inputs or not outs:
        return [axes.fresh(out) for out in outs]
    if bare in operators.VIEWS:
        return [axes.reshape(inputs[0], outs[0])]
    if bare in operators.MOVES:
        return [_moved(bare, inputs[0], args)]
    if bare in operators.PIECES:
        return _pieces(axes, bare, inputs[0], args, outs)
    return [_single(axes, bare, args, inputs, outs[0])] + [
        _in_place(axes, inputs[0], out) for out in outs[1:]
    ]


Rule = Callable[[Axes, str, Sequence[Any], Sequence[TensorAxes], Sequence[int]], TensorAxes]
"""Function from (axes, op, args, inputs, out) to the axes of the (first) result."""


def _single(
    axes: Axes, op: str, args: Sequence[Any], inputs: Sequence[TensorAxes], out: Sequence[int]
) -> TensorAxes:
    for names, rule in _RULES:
        if op in names:
            return rule(axes, op, args, inputs, out)
    if "pool" in op:
        return _in_place(axes, inputs[0], out)
    return _aligned(axes, inputs, out)


def _in_place(axes: Axes, first: TensorAxes, out: Sequence[int]) -> TensorAxes:
    if len(first) != len(out):
        return axes.fresh(out)
    return tuple(
        axis if axes.size(axis) == size else axes.new(size) for axis, size in zip(first, out, strict=True)
    )


def _aligned(axes: Axes, inputs: Sequence[TensorAxes], out: Sequence[int]) -> TensorAxes:
    """Align pointwise operands by broadcasting: axes of equal size, counted from the right, are the same."""
    found: list[Axis | None] = [None] * len(out)
    for shape in inputs:
        if len(shape) > len(out):
            continue
        for i, axis in enumerate(shape, len(out) - len(shape)):
            if axis and axes.size(axis) == out[i]:
                known = found[i]
                if known is None:
                    found[i] = axis
                else:
                    axes.unify(known, axis)
    return tuple(axes.new(size) if axis is None else axis for axis, size in zip(found, out, strict=True))


def _moved(op: str, shape: TensorAxes, args: Sequence[Any]) -> TensorAxes:
    rank = len(shape)
    if op == "permute":
        return tuple(shape[i % rank] for i in args[1])
    order = list(range(rank))
    if op in ("transpose", "swapaxes", "swapdims"):
        i, j = args[1] % rank, args[2] % rank
    elif op in ("t", "numpy_T", "mT", "adjoint"):
        i, j = (rank - 2, rank - 1) if rank > 1 else (0, 0)
    else:
        i, j = (args[1] % rank, args[2] % rank) if isinstance(args[1], int) else (0, 0)
        order.insert(j, order.pop(i))
        i = j
    order[i], order[j] = order[j], order[i]
    return tuple(shape[k] for k in order)


def _pieces(
    axes: Axes, op: str, shape: TensorAxes, args: Sequence[Any], outs: Sequence[Sequence[int]]
) -> list[TensorAxes]:
    if op in ("select", "unbind"):
        dim = int(args[1] if len(args) > 1 else 0) % len(shape)
        rest = shape[:dim] + shape[dim + 1 :]
        return [rest for _ in outs]
    if op in ("slice", "narrow"):
        return [_in_place(axes, shape, outs[0])]
    dim = int(args[2] if len(args) > 2 else 0) % len(shape)
    extents = {out[dim] for out in outs}
    if len(extents) == 1 and len(outs) > 1:
        # Equal pieces: the axis is (pieces, rest), and all pieces have the rest.
        piece = axes.reshape((shape[dim],), (len(outs), outs[0][dim]))[1]
        return [(*shape[:dim], piece, *shape[dim + 1 :]) for _ in outs]
    return [_in_place(axes, shape, out) for out in outs]


def _expanded(axes: Axes, shape: TensorAxes, out: Sequence[int]) -> TensorAxes:
    offset = len(out) - len(shape)
    return tuple(
        shape[i - offset]
        if i >= offset and axes.size(shape[i - offset]) == size
        else axes.new(size, broadcast=True)
        for i, size in enumerate(out)
    )


def _linear(axes: Axes, inputs: Sequence[TensorAxes]) -> TensorAxes:
    x, weight = inputs[0], inputs[1]
    axes.unify(x[-1], weight[1])
    if len(inputs) > 2:
        axes.unify(weight[0], inputs[2][0])
    return (*x[:-1], weight[0])


def _product(axes: Axes, op: str, inputs: Sequence[TensorAxes], out: Sequence[int]) -> TensorAxes:
    """Return the axes of a batched matrix product, with an addend first for `addmm` and its like."""
    added = op in ("addmm", "baddbmm", "addmv")
    x, y = inputs[1:3] if added else inputs[0:2]
    inner = y[-2] if len(y) > 1 else y[0]
    axes.unify(x[-1], inner)
    tail = (*((x[-2],) if len(x) > 1 else ()), *((y[-1],) if len(y) > 1 else ()))
    batch = _aligned(axes, [x[:-2], y[:-2]], out[: len(out) - len(tail)])
    result = (*batch, *tail)
    if added:
        _aligned(axes, [result, inputs[0]], out)
    return result if len(result) == len(out) else axes.fresh(out)


def _grouped(axes: Axes, inputs: Sequence[TensorAxes], out: Sequence[int]) -> TensorAxes:
    """Return the axes of rows sorted by group (T, K) times one matrix per group (G, K, N)."""
    x, y = inputs[0], inputs[1]
    if len(x) != 2 or len(y) != 3:
        return _in_place(axes, x, out)
    axes.unify(x[1], y[1])
    return (x[0], y[2])


def _attention(axes: Axes, inputs: Sequence[TensorAxes]) -> TensorAxes:
    """Return the axes (..., heads, seq, head): heads of q and k differ in grouped attention and stay so."""
    q, k, v = inputs[:3]
    axes.unify(q[-1], k[-1])
    axes.unify(k[-2], v[-2])
    for i in range(len(q) - 2):
        axes.unify(q[i], k[i])
        axes.unify(k[i], v[i])
    if len(inputs) > 3:
        _aligned(axes, [(*q[:-1], k[-2]), inputs[3]], [axes.size(axis) for axis in (*q[:-1], k[-2])])
    return (*q[:-1], v[-1])


def _convolution(axes: Axes, op: str, inputs: Sequence[TensorAxes], out: Sequence[int]) -> TensorAxes:
    x, weight = inputs[0], inputs[1]
    transposed = "transpose" in op
    axes.unify(x[1] if len(x) == len(out) and len(x) > 1 else (), weight[0 if transposed else 1])
    out_channels = weight[1 if transposed else 0]
    if axes.size(out_channels) != out[1]:
        return axes.fresh(out)
    if len(inputs) > 2:
        axes.unify(out_channels, inputs[2][0])
    return (x[0], out_channels, *_in_place(axes, x[2:], out[2:]))


def _indexed(axes: Axes, args: Sequence[Any], out: Sequence[int]) -> TensorAxes:
    """Return the axes of `x[i, j, ...]` with index tensors in front: the index's axes, then the rest of x."""
    shape, indices = args[0], list(args[1])
    given = [i for i, index in enumerate(indices) if index is not None]
    if given != list(range(len(given))):
        return axes.fresh(out)
    rest = shape[len(given) :]
    head = _aligned(axes, [indices[i] for i in given], out[: len(out) - len(rest)])
    return (*head, *rest)


def _concatenated(axes: Axes, inputs: Sequence[TensorAxes], out: Sequence[int]) -> TensorAxes:
    """Keep the axes of equal size; the joined axis is new."""
    same = [
        tuple(axis if axes.size(axis) == size else () for axis, size in zip(shape, out, strict=True))
        for shape in inputs
        if len(shape) == len(out)
    ]
    return _aligned(axes, same, out)


def _einsum(axes: Axes, equation: str, inputs: Sequence[TensorAxes], out: Sequence[int]) -> TensorAxes:
    """Make equal letters equal axes; with an ellipsis only its letters are known."""
    left, _, right = equation.replace(" ", "").partition("->")
    found: dict[str, Axis] = {}
    for term, shape in zip(left.split(","), inputs, strict=False):
        for letter, axis in _letters(term, shape):
            if letter in found:
                axes.unify(found[letter], axis)
            else:
                found[letter] = axis
    known = dict(_letters(right, [(i,) for i in range(len(out))]))
    place = {position[0]: found[letter] for letter, position in known.items() if letter in found}
    return tuple(place[i] if i in place else axes.new(size) for i, size in enumerate(out))


def _letters(term: str, shape: Sequence[Axis]) -> list[tuple[str, Axis]]:
    """Pair a term's letters with axes: before an ellipsis from the left, behind it from the right."""
    head, dots, tail = term.partition("...")
    pairs = list(zip(head, shape, strict=False))
    return pairs + (list(zip(tail, shape[len(shape) - len(tail) :], strict=True)) if dots else [])


def _stacked(axes: Axes, inputs: Sequence[TensorAxes], args: Sequence[Any], out: Sequence[int]) -> TensorAxes:
    dim = (args[1] if len(args) > 1 else 0) % len(out)
    rest = _aligned(axes, inputs, [size for i, size in enumerate(out) if i != dim])
    return (*rest[:dim], axes.new(out[dim]), *rest[dim:])


def _reduced(axes: Axes, inputs: Sequence[TensorAxes], args: Sequence[Any], out: Sequence[int]) -> TensorAxes:
    shape = inputs[0]
    if len(out) == len(shape) or len(inputs) > 1:
        return _aligned(axes, inputs, out)
    dims = args[1] if len(args) > 1 else None
    if isinstance(dims, int):
        dims = [dims]
    if dims is None:
        return axes.fresh(out)
    gone = {dim % len(shape) for dim in dims if isinstance(dim, int)}
    rest = tuple(axis for i, axis in enumerate(shape) if i not in gone)
    return rest if len(rest) == len(out) else axes.fresh(out)


def _lookup(inputs: Sequence[TensorAxes]) -> TensorAxes:
    """Return the axes of rows of a table at some indices: those of the indices, then that of a row."""
    return (*inputs[1], inputs[0][1])


def _normalised(axes: Axes, inputs: Sequence[TensorAxes]) -> TensorAxes:
    """Return the axes of a norm with one weight per channel, the second axis."""
    for weight in inputs[1:3]:
        axes.unify(inputs[0][1], weight[0])
    return inputs[0]


_RULES: tuple[tuple[frozenset[str], Rule], ...] = (
    (
        frozenset({"expand", "expand_as", "broadcast_to", "repeat"}),
        lambda x, _, __, i, o: _expanded(x, i[0], o),
    ),
    (frozenset({"linear"}), lambda x, _, __, i, ___: _linear(x, i)),
    (frozenset({"einsum"}), lambda x, _, a, i, o: _einsum(x, a[0], i, o)),
    (operators.GROUPED, lambda x, _, __, i, o: _grouped(x, i, o)),
    (operators.MATMULS, lambda x, op, _, i, o: _product(x, op, i, o)),
    (operators.ATTENTIONS, lambda x, _, __, i, ___: _attention(x, i)),
    (operators.CONVOLUTIONS, lambda x, op, _, i, o: _convolution(x, op, i, o)),
    (frozenset({"embedding"}), lambda _, __, ___, i, ____: _lookup(i)),
    (frozenset({"index"}), lambda x, _, a, __, o: _indexed(x, a, o)),
    (frozenset({"cat", "concat", "concatenate"}), lambda x, _, __, i, o: _concatenated(x, i, o)),
    (frozenset({"stack"}), lambda x, _, a, i, o: _stacked(x, i, a, o)),
    (operators.CHANNEL_NORMS, lambda x, _, __, i, ___: _normalised(x, i)),
    (operators.REDUCTIONS, lambda x, _, a, i, o: _reduced(x, i, a, o)),
    (operators.LOOKUPS, lambda x, _, __, i, o: _in_place(x, i[0], o)),
)
"""Families of operators; an operator takes the first it belongs to, and any other is pointwise."""
