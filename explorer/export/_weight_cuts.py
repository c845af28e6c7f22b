"""How tensor parallelism cuts the weights of a model's modules, in the words of trainers: columns or rows."""

from __future__ import annotations

import re

from explorer.graph import Layer, LayerGraph

COLUMN, ROW, VOCAB, HEAD = "column", "row", "vocab", "head"
"""A weight (out, in) cut along out, along in; an embedding by rows; the head, whose logits are gathered."""
_CUT = ("heads", "kv_heads", "ffn", "vocab")
_LAST_NUMBER = re.compile(r"\d+$")


def weight_cuts(graph: LayerGraph) -> tuple[dict[str, str], list[str]]:
    """Return {module, a block's number as `*`: how its weight is cut}, and modules that cannot be cut so.

    A weight's dimensions are (out, in): those that the layer writes come first. Megatron-LM cuts `heads`,
    `kv_heads`, `ffn` and `vocab`, a weight by the one that it has. Where another dimension is outside of
    that one (q, k and v in one matrix), a plain cut would tear the parts apart.
    """
    found: dict[str, str] = {}
    odd: list[str] = []
    for layer in graph.layers:
        weight = next((use.dims for use in layer.parameters if len(use.dims) > 1), ())
        cut = next((i for i, dim in enumerate(weight) if dim in _CUT), None)
        if cut is None:
            continue
        written = {dim for use in layer.writes for dim in use.dims}
        name = _pattern(layer)
        if layer.kind == "embedding":
            found[name] = VOCAB
        elif weight[cut] in written:
            found[name] = HEAD if weight[cut] == "vocab" else COLUMN
            odd += [layer.name] * (cut > 0)
        else:
            found[name] = ROW
    return found, odd


def _pattern(layer: Layer) -> str:
    if not layer.block:
        return layer.name
    return _LAST_NUMBER.sub("*", layer.block) + layer.name.removeprefix(layer.block)
