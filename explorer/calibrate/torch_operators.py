"""Operators of PyTorch by name: the work of a call, from the `Input Dims` that the profiler recorded.

Only operators that launch their own kernels are listed (`aten::addmm`, not `aten::linear` around it).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from explorer.base.formats import parse_json
from explorer.base.units import dtype_bytes
from explorer.calibrate.operators import Operator, product
from explorer.graph import Work

Dims = Sequence[Sequence[int]]

PRECISIONS = {
    "float": "fp32", "c10::half": "fp16", "c10::bfloat16": "bf16", "double": "fp64",
    "c10::float8_e4m3fn": "fp8", "c10::float8_e5m2": "fp8",
}  # fmt: skip
"""Data types as the profiler spells them, in lower case."""

_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "_scaled_mm": 0}
"""Matrix products: position of the first factor."""
_ATTENTION = {
    "_scaled_dot_product_flash_attention": (2, 4), "_scaled_dot_product_efficient_attention": (2, 6),
    "_scaled_dot_product_cudnn_attention": (2, 6), "_scaled_dot_product_flash_attention_for_cpu": (2, 4),
    "_flash_attention_forward": (1, 8), "_efficient_attention_forward": (1, 9),
}  # fmt: skip
"""Fused attention: the axis of the sequence, and the argument that says whether it is causal."""
_CAUSAL = {"True": True, "False": False, "1": True, "0": False}
_CONVOLUTIONS = {"cudnn_convolution": 2, "mkldnn_convolution": 3, "miopen_convolution": 3}
"""Convolutions: position of the padding, which stride, dilation and groups follow."""
_IN_PLACE = frozenset({"copy_"})  # what they write is one of their inputs and is not read
_ELEMENTWISE = frozenset(
    {
        "add", "add_", "sub", "mul", "mul_", "div", "div_", "gelu", "gelu_backward", "relu", "relu_", "silu",
        "silu_backward", "tanh", "sigmoid", "exp", "threshold_backward", "native_layer_norm", "_softmax",
        "_softmax_backward_data", "_log_softmax", "copy_",
    }
)  # fmt: skip
"""Operators bound by the bytes they move: their inputs, and a result as large as the largest of them."""


def operator_of(name: str, args: Mapping[str, Any], *, kernel: str = "") -> Operator | None:
    """Return the operator of a `cpu_op` event; None if its work is unknown.

    Args:
        name: name of the event, `aten::addmm`.
        args: arguments of the event.
        kernel: name of its kernel, which distinguishes TF32 from FP32.
    """
    own = name.removeprefix("aten::")
    make = _maker(own) if own != name else None
    dims, types = args.get("Input Dims"), args.get("Input type")
    if make is None or not _are_dims(dims) or not isinstance(types, list) or len(types) != len(dims):
        return None
    try:
        return make(own, dims, [str(item).lower() for item in types], args.get("Concrete Inputs"), kernel)
    except (IndexError, ValueError, TypeError, KeyError):
        return None  # other arguments than this operator has: its work is unknown


Maker = Callable[[str, Dims, Sequence[str], Any, str], Operator | None]


def _maker(own: str) -> Maker | None:
    if own in _PRODUCTS:
        return _product
    if own in _ATTENTION:
        return _attention
    if own in _CONVOLUTIONS:
        return _convolution
    return _moved if own in _ELEMENTWISE else None


def _are_dims(dims: Any) -> TypeGuard[Dims]:
    return isinstance(dims, list) and all(
        isinstance(row, list) and all(isinstance(n, int) and n >= 0 for n in row) for row in dims
    )


def _product(own: str, dims: Dims, types: Sequence[str], _values: Any, kernel: str) -> Operator | None:
    first = _PRODUCTS[own]
    a, b = dims[first], dims[first + 1]
    precision = PRECISIONS[types[first]]
    if precision == "fp32" and "tf32" in kernel.lower():
        precision = "tf32"
    if len(a) != len(b) or len(a) not in (2, 3) or a[-1] != b[-2] or a[:-2] != b[:-2]:
        return None
    batch = math.prod(a[:-2])
    m, n, k = a[-2], b[-1], a[-1]
    return product(m, n, k, batch=batch, precision=precision) if m * n * k * batch else None


def _attention(own: str, dims: Dims, types: Sequence[str], values: Any, _kernel: str) -> Operator | None:
    (query, key), (axis, mask) = dims[:2], _ATTENTION[own]
    causal = _CAUSAL[str(values[mask])]
    if len(query) != 4 or len(key) != 4 or not math.prod((*query, *key)):
        return None
    each = float(math.prod(query[1:]))
    work = Work(flops=4.0 * each * key[axis], moved_elements=2.0 * each + 2.0 * math.prod(key[1:]))
    return Operator(
        kind="attention",
        precision=PRECISIONS[types[0]],
        works=(work,),
        samples=float(query[0]),
        causal=causal,
    )


def _convolution(own: str, dims: Dims, types: Sequence[str], values: Any, _kernel: str) -> Operator | None:
    image, weight, at = dims[0], dims[1], _CONVOLUTIONS[own]
    padding, stride, dilation = (parse_json(str(values[at + i]), ours=False) for i in range(3))
    out = [
        (size + 2 * pad - gap * (window - 1) - 1) // step + 1
        for size, window, pad, step, gap in zip(image[2:], weight[2:], padding, stride, dilation, strict=True)
    ]
    made = weight[0] * math.prod(out)
    work = Work(flops=2.0 * made * math.prod(weight[1:]), moved_elements=math.prod(image[1:]) + made)
    return Operator(
        kind="conv", precision=PRECISIONS[types[0]], works=(work,), samples=float(image[0]),
        parameter_elements=float(math.prod(weight)),
    )  # fmt: skip


def _moved(own: str, dims: Dims, types: Sequence[str], _values: Any, _kernel: str) -> Operator | None:
    sizes = [math.prod(row) if row else 0 for row in dims]
    largest = sizes.index(max(sizes))
    precision = PRECISIONS[types[largest]]
    width = dtype_bytes(precision)
    read = sum(size * _width(spelt, width) for size, spelt in zip(sizes, types, strict=True))
    written = 0.0 if own in _IN_PLACE else sizes[largest] * width
    work = Work(flops=float(sizes[largest]), moved_elements=(read + written) / width)
    return Operator(kind="elementwise", precision=precision, works=(work,)) if sizes[largest] else None


def _width(spelt: str, otherwise: float) -> float:
    """Return the bytes of an element; for an unknown type (an index, a mask) those of the result."""
    return dtype_bytes(PRECISIONS[spelt]) if spelt in PRECISIONS else otherwise
