"""Operators of aten: their category (free, matrix product, normalisation, ...), FLOPs, and what they keep.

FLOPs are those of `torch.utils.flop_counter`: 2mnk for matrix products and convolutions, causal attention
not halved, nothing for the rest. Its formulas are registered for decomposed operators (`mm`, `bmm`), while an
exported program holds `linear`, `matmul` and `scaled_dot_product_attention`; hence the short forms here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEWS = _names("view reshape _unsafe_view flatten unflatten squeeze unsqueeze view_as reshape_as ravel")
"""Operators that reinterpret one tensor in row-major order."""
MOVES = _names("permute transpose t numpy_T mT swapaxes swapdims movedim adjoint")
"""Operators that reorder axes."""
PIECES = _names(
    "slice narrow select split chunk split_with_sizes unbind tensor_split unsafe_split unsafe_chunk"
)
"""Operators that take parts of one tensor, sharing its memory."""
COPIES = _names(
    """contiguous clone alias to _to_copy type_as float double half bfloat16 detach lift_fresh
    lift_fresh_copy expand expand_as broadcast_to dropout feature_dropout _assert_tensor_metadata conj
    resolve_conj resolve_neg requires_grad_ identity view_as_real view_as_complex repeat_interleave repeat"""
)
"""Operators without work in a fused or compute-bound program; `dropout` only if it drops nothing."""
FREE = VIEWS | MOVES | PIECES | COPIES
"""Operators that are part of no layer."""

MATMULS = _names("linear matmul mm bmm addmm baddbmm einsum mv dot addmv _scaled_mm")
GROUPED = _names("_grouped_mm grouped_mm grouped_mm_fallback")
"""Products of rows sorted by group with one matrix per group."""
CONVOLUTIONS = _names(
    """convolution conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d _convolution"""
)
ATTENTIONS = _names(
    """scaled_dot_product_attention _scaled_dot_product_flash_attention _scaled_dot_product_cudnn_attention
    _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention_for_cpu"""
)
RECURRENT = _names("lstm gru rnn_tanh rnn_relu")
CHANNEL_NORMS = _names("group_norm native_group_norm batch_norm instance_norm")
NORMS = CHANNEL_NORMS | _names("layer_norm native_layer_norm rms_norm _fused_rms_norm")
SOFTMAXES = _names("softmax _softmax log_softmax _log_softmax _safe_softmax")
REDUCTIONS = _names(
    "mean sum amax amin max min var std argmax argmin logsumexp norm prod any all linalg_vector_norm"
)
LOOKUPS = _names(
    """index gather scatter scatter_add index_select index_add index_put index_copy sort topk argsort
    one_hot nonzero masked_select histc bincount searchsorted masked_scatter take_along_dim scatter_reduce"""
)
ACTIVATIONS = _names("gelu silu mish hardswish softplus relu tanh sigmoid elu leaky_relu hardtanh erf")
"""Pointwise nonlinearities."""

_KEEPS_INPUTS = NORMS | _names(
    "gelu silu mish hardswish softplus pow mul div hardtanh leaky_relu elu log square abs sin cos"
)
_KEEPS_OUTPUT = SOFTMAXES | _names("relu tanh sigmoid exp rsqrt sqrt reciprocal")


def category(op: str) -> str:
    """Return the class for grouping and costs: matmul, conv, attention, embedding, norm, ..., pointwise."""
    for name, members in (
        ("matmul", MATMULS | GROUPED),
        ("conv", CONVOLUTIONS),
        ("attention", ATTENTIONS),
        ("recurrent", RECURRENT),
        ("norm", NORMS),
        ("softmax", SOFTMAXES),
        ("lookup", LOOKUPS),
    ):
        if op in members:
            return name
    if op.startswith("embedding"):
        return "embedding"
    return "pool" if "pool" in op or op.startswith("upsample") else "pointwise"


def drops_nothing(op: str, args: Sequence[Any]) -> bool:
    """Tell whether a dropout passes everything: probability 0, or not training."""
    return "dropout" in op and (args[1] == 0 or not args[2])


def forward_flops(op: str, shapes: Sequence[Sequence[int]], out: Sequence[int], equation: str = "") -> float:
    """Count the FLOPs of one call: `shapes` are its tensor arguments', `out` is its (first) result's.

    >>> forward_flops("linear", [(1, 8, 4), (16, 4)], (1, 8, 16))
    1024
    """
    elements = math.prod(out)
    if op == "einsum":
        return 2 * _einsum_extent(equation, shapes)
    if op in MATMULS | GROUPED:
        first = shapes[1] if op in ("addmm", "baddbmm", "addmv") else shapes[0]
        return 2 * elements * first[-1]
    if op in ATTENTIONS:
        # softmax(q k^T) v: one product over the head size of k, one over that of v.
        q, k, v = shapes[:3]
        return 2 * math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])
    if op in CONVOLUTIONS:
        transposed = "transpose" in op
        return 2 * (math.prod(shapes[0]) if transposed else elements) * math.prod(shapes[1][1:])
    if op in RECURRENT:
        # Every step multiplies every weight matrix once.
        steps = math.prod(shapes[0][:-1])
        return 2 * steps * sum(math.prod(shape) for shape in shapes[1:] if _is_recurrent_weight(shape))
    return 0


def _is_recurrent_weight(shape: Sequence[int]) -> bool:
    return len(shape) == 2


def _einsum_extent(equation: str, shapes: Sequence[Sequence[int]]) -> int:
    sizes: dict[str, int] = {}
    for term, shape in zip(equation.replace(" ", "").split("->")[0].split(","), shapes, strict=False):
        sizes.update(zip(reversed(term.replace("...", "")), reversed(shape), strict=False))
        for i, size in enumerate(shape[: len(shape) - len(term.replace("...", ""))]):
            sizes[f"...{i}"] = size
    return math.prod(sizes.values())


def kept(op: str) -> str:
    """Return what autograd keeps of a call: ``inputs``, ``output``, ``mask`` or ``none``.

    Additions, views and comparisons keep nothing. A matrix product keeps the operands whose partner needs a
    gradient; that is decided once the operands are known.
    """
    bare = op.rstrip("_")
    if "dropout" in bare:
        return "mask"
    if bare in _KEEPS_OUTPUT:
        return "output"
    if bare in ATTENTIONS:
        return "inputs"
    if bare in _KEEPS_INPUTS | MATMULS | GROUPED | CONVOLUTIONS | RECURRENT or bare.startswith("embedding"):
        return "inputs"
    return "inputs" if "pool" in bare else "none"
