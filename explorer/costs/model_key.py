"""Names by which measured steps tell models apart."""

from __future__ import annotations

from explorer.graph import LayerGraph

_SIZES = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


def model_key(graph: LayerGraph) -> str:
    """Return the name of a graph with its parameters: of a GPT of any size the name alone says too little.

    >>> from explorer.models import load_model
    >>> model_key(load_model("gpt2-xl"))
    'gpt2-xl (1.56B)'
    """
    return graph.memo("model key", lambda: f"{graph.name} ({_short(graph.parameter_count)})")


def _short(count: float) -> str:
    size, unit = next(((s, u) for s, u in _SIZES if count >= s), (1.0, ""))
    return f"{count / size:.3g}{unit}"
