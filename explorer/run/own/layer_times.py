"""Layer times: what a launch measured of own layers, as the seconds of their graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, NoReturn

from explorer.base.errors import InputError
from explorer.graph import Defaults, Layer, LayerGraph, Measured
from explorer.run.own.own_model import OwnModel
from explorer.run.sharded.layout_model import LayoutModel

Times = Mapping[tuple[str, int], tuple[float, float, float]]
"""(layer, samples) -> seconds of the forward and of the backward of so many samples, and those of the latter
in which gradients are added to those of earlier microbatches.
"""


def layer_times(model: OwnModel | LayoutModel, rows: Sequence[Mapping[str, Any]]) -> Times:
    """Average the seconds of every layer over ranks and rounds.

    Args:
        model: the model that was timed.
        rows: results of `Stopwatch.measure`.
    """
    found: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for row in rows:
        for samples, pairs in row["units"].items():
            for layer, (forward, backward) in zip(model.layers, pairs, strict=True):
                found[layer, int(samples)].append((forward, backward))
    sums = sum_seconds(model, rows)
    return {
        (layer, samples): (
            fmean(forward for forward, _ in pairs),
            fmean(backward for _, backward in pairs),
            sums.get(layer, 0.0),
        )
        for (layer, samples), pairs in found.items()
    }


def sum_seconds(model: OwnModel | LayoutModel, rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return by layer the seconds in which gradients are added up, mean over ranks and rounds; {} of rows of
    former versions.

    Arguments are those of `layer_times`.
    """
    timed = [row["sums"] for row in rows if row.get("sums")]
    return dict(zip(model.layers, map(fmean, zip(*timed, strict=True)), strict=True)) if timed else {}


def graph_with_times(graph: LayerGraph, times: Times, *, precision: str = "fp32") -> LayerGraph:
    """Return a graph whose layers take seconds measured in a precision."""
    written = {use.name for layer in graph.layers for use in layer.writes}
    layers = tuple(
        replace(layer, measured=_measured(layer, times, reads=any(u.name in written for u in layer.reads)))
        for layer in graph.layers
    )
    return replace(graph, layers=layers, defaults=Defaults(precision=precision))


def _measured(layer: Layer, times: Times, *, reads: bool) -> tuple[Measured, ...]:
    """Divide a backward into its two gradients: halves, or the only one that the layer has."""
    found = sorted((samples, pair) for (name, samples), pair in times.items() if name == layer.name)
    to_input = 0.0 if not reads else 0.5 if layer.parameters else 1.0
    return tuple(
        Measured(
            forward_s=forward,
            input_grad_s=to_input * (backward - added),
            weight_grad_s=(1 - to_input) * (backward - added) + added,
            batch=float(samples),
            halves=to_input == 0.5,
        )
        for samples, (forward, backward, added) in found
    )


def no_graph() -> NoReturn:
    """Refuse times of own layers without their graph.

    Raises:
        InputError: always.
    """
    raise InputError("own layers were timed, but their graph is not given", key="graph", allowed="a graph")
