"""The operators of a runnable model: its graph as the cost model prices any other model.

`explorer.run.model.model_graph` has one layer per unit, to be measured. Here every unit is a block of the
layers that torch runs for it, so that a cluster profile says how long it takes and what it keeps, before
anything of it was timed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from explorer.graph import Defaults, LayerGraph, Work
from explorer.models._accumulate import with_accumulation
from explorer.models.builder import GraphBuilder, Value
from explorer.run.model import BLOCK, CONV, EMBED, HEAD, KERNEL, ModelSpec, Unit
from explorer.strategy import JobStrategy

_SOURCE = "built to be run, operator by operator"


def operator_graph(model: ModelSpec) -> LayerGraph:
    """Return the graph of a runnable model by operator; the layers of a unit are the block of its name."""
    b = GraphBuilder("operators", defaults=Defaults(precision=model.dtype), source=_SOURCE)
    tokens = b.input("tokens", {"seq": model.seq}, dtype="int64")
    targets = b.input("targets", {"seq": model.seq}, dtype="int64")
    made: list[Value] = []
    for unit in model.units:
        with b.block(unit.name):
            if unit.kind == EMBED:
                made.append(_embedding(b, model, unit, tokens))
                continue
            x = made[unit.reads[0]]
            for number, source in enumerate(unit.reads[1:], start=1):
                x = b.add(f"sum{number}", x, made[source])
            made.append(_head(b, model, unit, x, targets) if unit.kind == HEAD else _body(b, model, unit, x))
    return with_accumulation(b.build())  # ranks add gradients up by a kernel of their own


def by_operator(strategy: JobStrategy, graph: LayerGraph) -> JobStrategy:
    """Return a strategy of units as the same strategy of their operators."""
    inside: dict[str, list[str]] = {}
    for layer in graph.layers:
        inside.setdefault(layer.block, []).append(layer.name)
    return strategy.with_stages(
        [
            replace(stage, layers=tuple(name for unit in stage.layers for name in inside[unit]))
            for stage in strategy.stages
        ]
    )


def _embedding(b: GraphBuilder, model: ModelSpec, unit: Unit, tokens: Value) -> Value:
    rows, out = {"vocab": model.vocab}, {"embed": model.d_model}
    x = b.embedding("lookup", tokens, rows, out, weight=f"{unit.name}.table")
    table = b.parameter(f"{unit.name}.positions", {"": model.seq, "embed": model.d_model})
    y = b.output("positions", {"seq": model.seq, "embed": model.d_model}, [x], [table])
    b.layer(
        "positions", "elementwise", reads=[x], writes=[y], weights=[table],
        forward=Work(moved_elements=2 * y.elements), weight_grad=Work(moved_elements=y.elements),
    )  # fmt: skip
    return y


def _head(b: GraphBuilder, model: ModelSpec, unit: Unit, x: Value, targets: Value) -> Value:
    table = next(item.name for item in model.units if item.kind == EMBED) if unit.tied else unit.name
    h = b.norm("norm", x)
    return b.loss("loss", b.linear("logits", h, {"vocab": model.vocab}, weight=f"{table}.table"), targets)


def _body(b: GraphBuilder, model: ModelSpec, unit: Unit, x: Value) -> Value:
    h = b.norm("norm", x)
    if unit.kind == CONV:
        wide = b.activation("gelu", _convolution(b, model, unit, h))
    else:
        if unit.kind == BLOCK:
            x = b.add("attention.add", _attention(b, model, unit, h), x)
            h = b.norm("norm2", x)
        wide = b.activation("gelu", _linear(b, unit, "up", h, {"ffn": unit.ffn}))
    return b.add("add", _linear(b, unit, "down", wide, {"embed": model.d_model}, over="ffn"), x)


def _linear(
    b: GraphBuilder, unit: Unit, name: str, x: Value, out: Mapping[str, float], *, over: str = "embed"
) -> Value:
    return b.linear(name, x, out, over=(over,), weight=f"{unit.name}.{name}")


def _attention(b: GraphBuilder, model: ModelSpec, unit: Unit, h: Value) -> Value:
    heads, head = model.heads, model.d_model // model.heads
    qkv = b.linear("qkv", h, {"qkv": 3, "heads": heads, "head": head}, weight=f"{unit.name}.qkv")
    mixed = b.attention("attention", qkv, heads=heads, head=head, causal=True)
    out = {"embed": model.d_model}
    return b.linear("proj", mixed, out, over=("heads", "head"), weight=f"{unit.name}.proj")


def _convolution(b: GraphBuilder, model: ModelSpec, unit: Unit, h: Value) -> Value:
    """Add a convolution over the sequence, as wide before as after."""
    sizes = {"ffn": unit.ffn, "embed": model.d_model, "kernel": KERNEL}
    weight = b.parameter(f"{unit.name}.up", sizes)
    y = b.output("up", {"seq": model.seq, "ffn": unit.ffn}, [h], [weight])
    flops = 2 * y.elements * model.d_model * KERNEL
    work = Work(flops=flops, moved_elements=h.elements + y.elements)
    b.layer(
        "up", "conv", reads=[h], writes=[y], weights=[weight], saves=[h], fixed=("seq", "kernel"),
        forward=work, input_grad=work, weight_grad=work,
    )  # fmt: skip
    return y
