"""Work of own layers, and what they keep, as eager torch runs them: each operator through memory.

A captured LayerGraph counts what a layer reads and writes at its borders, as one fused kernel would. Ranks
run what was captured operator by operator, and add the gradients of every microbatch to sums by kernels of
their own. Here the graph of a run counts that, so that a machine's profile says what the run takes. Products,
convolutions and attention stay as they are: their compute decides. A sum in place moves three times its
size, which is two by the curve of a profile: that is of operators with fresh results, whose lines a processor
fetches before it writes them.

Passes through memory, in elements of an operator's result n (of its input where the result is smaller):

* norms read for the statistics, read again and write: 3 n; batch normalisation over channels takes 8 n on
  processors (measured beside an addition), RMS norms are seven operators: 12 n; backward 5 n, 6 n, 24 n.
* softmax reads three times and writes: 4 n, backward 3 n; cross entropy as much, then 5 n.
* additions cost nothing in the backward; a product of two computed tensors differentiates both: 6 n;
  other pointwise operators read the gradient and what was kept, and write: 3 n.
* a tensor with k readers has its k gradients added up: 3 n (k - 1). Pieces of a tensor send back a tensor of
  its size each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

from explorer.graph import Layer, LayerGraph, Work
from explorer.models._operators import (
    ATTENTIONS,
    CONVOLUTIONS,
    FREE,
    GROUPED,
    MATMULS,
    NORMS,
    PIECES,
    SOFTMAXES,
)
from explorer.models.captured_program import CapturedProgram
from explorer.run.own.saved_tensors import with_saved

_COUNTED = MATMULS | GROUPED | CONVOLUTIONS | ATTENTIONS
_NORM = {"batch_norm": (8.0, 6.0), "rms_norm": (12.0, 24.0)}
_WRITTEN = frozenset({"contiguous", "clone", "repeat", "repeat_interleave", "reshape", "flatten", "_to_copy"})
"""Operators that a capture has for free but that may copy."""
_SUMMED = 2
"""Passes of a sum in place, as a profile counts."""
_ADDS = frozenset({"add", "sub"})
_LOSSES = frozenset({"cross_entropy_loss", "nll_loss", "nll_loss_nd"})


def eager_graph(program: CapturedProgram) -> LayerGraph:
    """Return the graph of a captured program with the work of eager operators and what autograd saves of
    them.

    Args:
        program: the program; its graph and its work are per sample, whatever number it was captured for.
    """
    forward, backward = _moved(program)
    layers = tuple(_eager(layer, forward, backward) for layer in program.graph.layers)
    return with_saved(replace(program.graph, layers=layers), program)


def _eager(layer: Layer, forward: Mapping[str, float], backward: Mapping[str, float]) -> Layer:
    """Return a layer with what its operators move, and gradients that are added up apart."""
    passes = _SUMMED if layer.parameters else layer.gradient_passes
    if layer.name not in forward:
        return replace(layer, gradient_passes=passes)
    return replace(
        layer,
        gradient_passes=passes,
        forward=_at_least(layer.forward, forward[layer.name]),
        input_grad=_at_least(layer.input_grad, backward[layer.name]),
    )


def _at_least(work: Work, moved: float) -> Work:
    return replace(work, moved_elements=max(work.moved_elements, moved))


def _moved(program: CapturedProgram) -> tuple[dict[str, float], dict[str, float]]:
    """Return the elements that the operators of each layer move for a sample, forward and backward."""
    forward: dict[str, float] = defaultdict(float)
    backward: dict[str, float] = defaultdict(float)
    readers: dict[str, list[str]] = defaultdict(list)
    for node in program.module.graph.nodes:
        layer = program.layer_of.get(node.name) or _layer_of_reader(program, node)
        if node.op != "call_function" or not layer or not _size(node):
            continue
        there, back = _passes(program, node)
        forward[layer] += there / program.samples
        backward[layer] += back / program.samples
        for item in node.all_input_nodes:
            if _computed(program, item) and _floating(item):
                readers[item.name].append(layer)
    sizes = {node.name: _size(node) for node in program.module.graph.nodes}
    for name, found in readers.items():
        for layer in found[1:]:  # the first gradient is there, each further one is added
            backward[layer] += 3 * sizes[name] / program.samples
    return dict(forward), dict(backward)


def _layer_of_reader(program: CapturedProgram, node: Any) -> str:
    """Return the layer of what reads a node that belongs to no layer; '' if none does."""
    for user in node.users:
        if user.name in program.layer_of:
            return str(program.layer_of[user.name])
    return ""


def _passes(program: CapturedProgram, node: Any) -> tuple[float, float]:
    """Return the elements that an operator moves for all samples, forward and backward."""
    name = _bare(node)
    read = [item for item in node.all_input_nodes if _computed(program, item)]
    n = max([_size(node), *(_size(item) for item in read)])
    wanted = [item for item in read if _floating(item)]
    if name in PIECES:
        return 0.0, float(sum(_size(item) for item in wanted)) + _size(node)
    if name in _COUNTED or name in FREE - _WRITTEN:
        return 0.0, 0.0
    if (known := _known(name)) is not None:
        return n * known[0], n * known[1]
    there = float(sum(_size(item) for item in read) + _size(node))
    if not wanted or name in _ADDS:
        return there, 0.0
    return there, 3.0 * n * (len(wanted) if name in ("mul", "div") else 1)


def _known(name: str) -> tuple[float, float] | None:
    """Return the passes of an operator that are not those of pointwise ones; None if they are."""
    if name in NORMS:
        return _NORM.get(name, (3.0, 5.0))
    if name in SOFTMAXES:
        return 4.0, 3.0
    return (4.0, 5.0) if name in _LOSSES else None


def _bare(node: Any) -> str:
    return str(getattr(node.target, "_opname", getattr(node.target, "__name__", node.target))).rstrip("_")


def _computed(program: CapturedProgram, node: Any) -> bool:
    """Tell whether a node is an activation rather than a parameter, a constant or a number."""
    return node.name not in program.parameter_of and node.name not in program.constants and _size(node) > 0


def _size(node: Any) -> int:
    value = node.meta.get("val")
    return prod(map(int, value.shape)) if hasattr(value, "shape") else 0


def _floating(node: Any) -> bool:
    value = node.meta.get("val")
    return bool(value is not None and hasattr(value, "dtype") and value.dtype.is_floating_point)
