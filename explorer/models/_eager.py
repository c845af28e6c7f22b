"""Parts of a decoder as eager PyTorch launches their kernels.

A fused kernel reads its inputs and writes its outputs once. Eager PyTorch has a kernel for every operator;
norm, rotation and loss compute in fp32, and their intermediates go through memory. The bytes below are those
of reads and writes by operator, for one 2-byte element of the layer's input; how torch decomposes each:

* RMS norm: to fp32 (6), square (8), mean (4), times its root (8), back (6), times the weight (4); backward
  the gradients of each, the sum of both paths (84) and the weight's (8).
* Rotation: to fp32 and complex (6), times the phases (8), back (6); the same backward.
* silu(gate) x up: 4 + 6; backward 12 + 6.
* Cross entropy: to fp32 (6), log-softmax (12); backward its two gradients in fp32 (16) and back (6).

If n products read one tensor, their gradients are added one by one: 6 (n - 1).
"""

from __future__ import annotations

from explorer.graph import Work
from explorer.models.builder import GraphBuilder, Value

_WIDTH = 2.0  # bytes of the elements in which work is counted
_NORM = (36.0 / _WIDTH, 84.0 / _WIDTH, 8.0 / _WIDTH)
_ROPE = (20.0 / _WIDTH, 20.0 / _WIDTH)
_GATED = (10.0 / _WIDTH, 18.0 / _WIDTH)
_LOSS = (18.0 / _WIDTH, 22.0 / _WIDTH)
_SUM = 6.0 / _WIDTH


def eager_norm(b: GraphBuilder, name: str, x: Value, *, readers: int = 1) -> Value:
    """Add an RMS norm before `readers` products; it keeps its fp32 input and its output before the weight."""
    sizes = dict(zip(x.dims, x.shape, strict=True))
    weight = b.parameter(f"{b.full(name)}.weight", {"embed": x.size("embed")})
    wide = b.internal(name, "wide", sizes, dtype="fp32")
    narrow = b.internal(name, "normed", sizes)
    y = b.output(name, sizes, [x], [weight])
    back = _NORM[1] + _SUM * (readers - 1)
    b.layer(
        name, "norm", reads=[x], writes=[y, wide, narrow], weights=[weight], saves=[wide, narrow],
        fixed=["embed"], forward=Work(moved_elements=_NORM[0] * x.elements),
        input_grad=Work(moved_elements=back * x.elements),
        weight_grad=Work(moved_elements=_NORM[2] * x.elements),
    )  # fmt: skip
    return y


def eager_rope(b: GraphBuilder, name: str, q: Value, k: Value) -> tuple[Value, Value]:
    """Add rotary positions by complex products in fp32; nothing is kept."""
    rotated = [
        b.output(f"{name}.{part}", dict(zip(x.dims, x.shape, strict=True)), [x])
        for part, x in (("q", q), ("k", k))
    ]
    elements = q.elements + k.elements
    b.layer(
        name, "elementwise", reads=[q, k], writes=rotated, fixed=("head",),
        forward=Work(moved_elements=_ROPE[0] * elements), input_grad=Work(moved_elements=_ROPE[1] * elements),
    )  # fmt: skip
    return rotated[0], rotated[1]


def eager_gated(b: GraphBuilder, name: str, gate: Value, up: Value) -> Value:
    """Add silu(gate) x up as two kernels; they keep both inputs and silu's output."""
    sizes = dict(zip(gate.dims, gate.shape, strict=True))
    silu = b.internal(name, "silu", sizes)
    y = b.output(name, sizes, [gate, up])
    b.layer(
        name, "elementwise", reads=[gate, up], writes=[y, silu], saves=[gate, up, silu],
        forward=Work(moved_elements=_GATED[0] * y.elements),
        input_grad=Work(moved_elements=_GATED[1] * y.elements),
    )  # fmt: skip
    return y


def eager_loss(b: GraphBuilder, name: str, logits: Value, targets: Value) -> None:
    """Add the cross entropy of logits converted to fp32 first; it keeps the log-softmax."""
    sizes = dict(zip(logits.dims, logits.shape, strict=True))
    y = b.output(name, {}, [logits], dtype="fp32")
    kept = b.internal(name, "log_softmax", sizes, dtype="fp32")
    b.layer(
        name, "loss", reads=[logits, targets], writes=[y, kept], saves=[kept, targets], fixed=["vocab"],
        forward=Work(moved_elements=_LOSS[0] * logits.elements),
        input_grad=Work(moved_elements=_LOSS[1] * logits.elements),
    )  # fmt: skip
