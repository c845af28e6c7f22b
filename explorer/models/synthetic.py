"""Graphs of given seconds and bytes, for testing and thinking about schedules and passes.

Costs are `Measured` seconds per sample on any device kind, so one sample is one unit of work and the closed
forms of the literature can be read off. Bytes are kept in tensors of type ``byte``, which no precision
changes. The optimizer of these graphs is ``none``: no state, no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.base.errors import InputError
from explorer.graph import Defaults, Layer, LayerGraph, Measured, Parameter, Tensor, Use
from explorer.models.builder import GraphBuilder

Each = float | Sequence[float]
"""One number for all layers, or one for each."""

_DEFAULTS = Defaults(precision="fp32", optimizer="none")


def _each(values: Each, count: int, what: str) -> tuple[float, ...]:
    result = (values,) * count if isinstance(values, (int, float)) else tuple(values)
    if len(result) != count:
        raise InputError(
            f"{what} has {len(result)} values for {count} layers",
            key=what,
            found=len(result),
            allowed=str(count),
        )
    return result


def _seconds(
    forward_s: Sequence[float], backward_s: Each | None, input_grad_s: Each | None, weight_grad_s: Each | None
) -> list[Measured]:
    """Return the seconds of each layer: halves of `backward_s` (default twice the forward), or both parts."""
    count = len(forward_s)
    halves = input_grad_s is None and weight_grad_s is None
    if halves:
        whole = [2 * f for f in forward_s] if backward_s is None else _each(backward_s, count, "backward_s")
        inputs = weights = tuple(b / 2 for b in whole)
    else:
        inputs = _each(input_grad_s or 0.0, count, "input_grad_s")
        weights = _each(weight_grad_s or 0.0, count, "weight_grad_s")
    return [
        Measured(forward_s=f, input_grad_s=i, weight_grad_s=w, halves=halves)
        for f, i, w in zip(forward_s, inputs, weights, strict=True)
    ]


def chain(
    forward_s: Sequence[float],
    *,
    backward_s: Each | None = None,
    input_grad_s: Each | None = None,
    weight_grad_s: Each | None = None,
    activation_bytes: Each = 0.0,
    parameter_bytes: Each = 0.0,
    saved_bytes: Each = 0.0,
    name: str = "chain",
) -> LayerGraph:
    """Make layers ``layers.0``, ``layers.1``, ... one after the other, each a block of its own.

    Every layer reads ``t{i-1}`` (the first the input ``x``), writes ``t{i}`` of `activation_bytes`, trains a
    parameter ``w{i}`` of `parameter_bytes` (fp32) and keeps ``s{i}`` of `saved_bytes`; all per sample, bytes
    of parameters in total. The backward is `backward_s` in two halves (default twice the forward), or
    `input_grad_s` and `weight_grad_s` separately.

    >>> chain([1.0, 2.0]).layers[1].measured[0].input_grad_s
    2.0

    Raises:
        InputError: a sequence of the wrong length.
    """
    count = len(forward_s)
    measured = _seconds(forward_s, backward_s, input_grad_s, weight_grad_s)
    out = _each(activation_bytes, count, "activation_bytes")
    kept = _each(saved_bytes, count, "saved_bytes")
    held = _each(parameter_bytes, count, "parameter_bytes")
    tensors = [Tensor(name="x", shape=(0.0,), dtype="byte", backward=False)]
    tensors += [Tensor(name=f"t{i}", shape=(size,), dtype="byte") for i, size in enumerate(out)]
    tensors += [
        Tensor(name=f"s{i}", shape=(size,), dtype="byte", backward=False)
        for i, size in enumerate(kept)
        if size
    ]
    layers = [
        Layer(
            name=f"layers.{i}",
            block=f"layers.{i}",
            reads=(Use(name=f"t{i - 1}" if i else "x"),),
            writes=(Use(name=f"t{i}"), *((Use(name=f"s{i}"),) if kept[i] else ())),
            parameters=(Use(name=f"w{i}"),),
            saves=(f"s{i}",) if kept[i] else (),
            measured=(seconds,),
        )
        for i, seconds in enumerate(measured)
    ]
    parameters = tuple(_parameter(f"w{i}", size) for i, size in enumerate(held))
    return LayerGraph(
        name=name, layers=tuple(layers), tensors=tuple(tensors), parameters=parameters, defaults=_DEFAULTS
    )


def _parameter(name: str, size_bytes: float) -> Parameter:
    # Trainable even with no bytes: a gradient then flows, as in the real thing.
    return Parameter(name=name, shape=(size_bytes / 4,), dtype="fp32")


def branches(
    lengths: Sequence[int] = (2, 2),
    *,
    forward_s: float = 1.0,
    backward_s: float | None = None,
    activation_bytes: float = 0.0,
    parameter_bytes: float = 0.0,
    skip: bool = False,
    name: str = "branches",
) -> LayerGraph:
    """Make ``first``, then parallel branches ``branch0.0``, ``branch0.1``, ..., then ``join``; equal costs.

    ```
              +-> branch0.0 -> branch0.1 -+
      first --+-> branch1.0 -> branch1.1 -+-> join        skip: first -> join as well
    ```

    Raises:
        InputError: a branch without layers.
    """
    if min(lengths, default=0) < 1:
        raise InputError("every branch needs a layer", key="lengths", found=tuple(lengths), allowed=">= 1")
    reads: dict[str, tuple[str, ...]] = {"first": ("x",)}
    for number, length in enumerate(lengths):
        for i in range(length):
            reads[f"branch{number}.{i}"] = (f"branch{number}.{i - 1}" if i else "first",)
    ends = tuple(f"branch{number}.{length - 1}" for number, length in enumerate(lengths))
    reads["join"] = (*ends, "first") if skip else ends
    (measured,) = _seconds([forward_s], backward_s, None, None)
    layers = tuple(
        Layer(
            name=layer,
            reads=tuple(Use(name=item) for item in items),
            writes=(Use(name=layer),),
            parameters=(Use(name=f"{layer}.weight"),),
            measured=(measured,),
        )
        for layer, items in reads.items()
    )
    tensors = (
        Tensor(name="x", shape=(0.0,), dtype="byte", backward=False),
        *(Tensor(name=layer, shape=(activation_bytes,), dtype="byte") for layer in reads),
    )
    parameters = tuple(_parameter(f"{layer}.weight", parameter_bytes) for layer in reads)
    return LayerGraph(name=name, layers=layers, tensors=tensors, parameters=parameters, defaults=_DEFAULTS)


def tied(
    forward_s: Sequence[float],
    *,
    backward_s: Each | None = None,
    activation_bytes: Each = 0.0,
    parameter_bytes: Each = 0.0,
    saved_bytes: Each = 0.0,
    name: str = "tied",
) -> LayerGraph:
    """Make a `chain` whose first and last layer share the parameter ``w0`` (tied embeddings).

    >>> sorted({use.name for layer in tied([1, 1, 1]).layers for use in layer.parameters})
    ['w0', 'w1']
    """
    graph = chain(
        forward_s,
        backward_s=backward_s,
        activation_bytes=activation_bytes,
        parameter_bytes=parameter_bytes,
        saved_bytes=saved_bytes,
        name=name,
    )
    last = replace(graph.layers[-1], parameters=(Use(name="w0"),))
    parameters = graph.parameters[:-1] if len(graph.layers) > 1 else graph.parameters
    return replace(graph, layers=(*graph.layers[:-1], last), parameters=parameters)


def mlp(depth: int, *, width: int = 64, classes: int = 0, name: str = "mlp") -> LayerGraph:
    """Make `depth` blocks of up (width x 4 width), relu, down, with costs from their shapes, then a loss.

    The model is small, real in every part (dimensions, work, saved tensors), and quick to run.
    """
    b = GraphBuilder(name, defaults=Defaults(global_batch=32, precision="fp32", optimizer="sgd"))
    x = b.input("x", {"embed": width})
    for i in range(depth):
        with b.block(f"layers.{i}"):
            wide = b.activation("relu", b.linear("up", x, {"ffn": 4 * width}, bias=True), saves="output")
            x = b.linear("down", wide, {"embed": width}, over=("ffn",), bias=True)
    logits = b.linear("head", x, {"vocab": classes or width}, bias=True)
    b.loss("loss", logits, b.input("targets", {}, dtype="int64"))
    return b.build()
