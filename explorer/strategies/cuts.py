"""Where a model is cut into stages: between whole blocks, the heaviest stage as light as can be."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.base.errors import InputError
from explorer.graph import LayerGraph


def units(graph: LayerGraph) -> list[tuple[int, int]]:
    """Index ranges [start, stop) that a cut never divides: blocks, and layers outside of them.

    Where the model has no blocks every layer is a unit.
    """

    def make() -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for i, layer in enumerate(graph.layers):
            if found and layer.block and graph.layers[i - 1].block == layer.block:
                found[-1] = (found[-1][0], i + 1)
            else:
                found.append((i, i + 1))
        return found

    return graph.memo("units", make)


def balanced_cuts(graph: LayerGraph, stages: int, weights: Sequence[float] | None = None) -> list[int]:
    """Cuts that minimise the heaviest stage: exact, by parametric search over prefix sums of the units.

    Raises:
        InputError: more stages than units.
    """
    spans = units(graph)
    if stages > len(spans):
        spans = [(i, i + 1) for i in range(len(graph.layers))]
    if stages > len(spans):
        raise InputError(
            f"{stages} stages for {len(spans)} layers", key="stages", found=stages, allowed=f"<= {len(spans)}"
        )
    cost = list(weights) if weights is not None else default_weights(graph)
    loads = [sum(cost[a:b]) for a, b in spans]
    low, high = max(*loads, sum(loads) / stages), sum(loads)
    for _ in range(60):
        middle = (low + high) / 2
        if _groups_needed(loads, middle) <= stages:
            high = middle
        else:
            low = middle
    return [spans[i][0] for i in _cut_at(loads, high * (1 + 1e-12), stages)]


def default_weights(graph: LayerGraph) -> list[float]:
    """Return what a cut balances by default, per layer: FLOPs, measured seconds, and a little per element."""
    return graph.memo(
        "weights",
        lambda: [
            layer.forward.flops + layer.input_grad.flops + layer.weight_grad.flops
            + 1e-9 * (layer.forward.moved_elements + 1)
            + (layer.measured[0].forward_s + layer.measured[0].input_grad_s + layer.measured[0].weight_grad_s
               if layer.measured else 0.0)
            for layer in graph.layers
        ],
    )  # fmt: skip


def _groups_needed(loads: Sequence[float], limit: float) -> int:
    count, filled = 1, 0.0
    for load in loads:
        if filled + load > limit:
            count, filled = count + 1, 0.0
        filled += load
    return count


def _cut_at(loads: Sequence[float], limit: float, stages: int) -> list[int]:
    """First unit of every stage but the first: none above `limit`, none empty, as even as greedy allows."""
    cuts: list[int] = []
    filled, left = 0.0, sum(loads)
    for i, load in enumerate(loads):
        remaining = stages - len(cuts) - 1
        must = len(loads) - i <= remaining
        # close a stage at its fair share of what is left, if the rest still fits
        fair = remaining and filled >= (left + filled) / (remaining + 1) - load / 2
        fits = remaining and _groups_needed(loads[i:], limit) <= remaining
        if i and remaining and (must or filled + load > limit or (fair and fits and filled)):
            cuts.append(i)
            filled = 0.0
        filled += load
        left -= load
    return cuts
