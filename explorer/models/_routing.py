"""Settings of models with experts: how tokens reach them, and how unevenly."""

from __future__ import annotations

from dataclasses import replace

from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.graph import Layer, LayerGraph
from explorer.routing import ALL_TO_ALL, DISPATCHES, EXPERT_KERNELS, GROUPED, Routing

ROUTING = (
    Option(
        name="dispatch", default=ALL_TO_ALL, choices=DISPATCHES,
        help="tokens go to the devices of their experts, or all tokens to all devices",
    ),
    Option(
        name="expert_kernels", default=GROUPED, choices=EXPERT_KERNELS,
        help="products of experts: one kernel for all, one an expert on several streams, or expert by expert",
    ),
    Option(
        name="capacity", default=0.0, minimum=0.0,
        help="rows for which an expert has room, over the mean; more are dropped; 0: room for all",
    ),
    Option(name="padded", default=False, help="experts compute as many rows as they have room for"),
    Option(
        name="imbalance", default=1.0, minimum=1.0,
        help="rows that come to the busiest expert over the mean",
    ),
)  # fmt: skip
"""Options of every model with experts; a framework decides the first two if they are not given."""


def read_routing(
    experts: int, *, dispatch: str, expert_kernels: str, capacity: float, padded: bool, imbalance: float
) -> Routing:
    """Return the routing that settings state.

    Raises:
        InputError: as `Routing`, or a busiest expert with more rows than there are.
    """
    if imbalance > experts:
        raise InputError(
            f"a busiest of {experts} experts with {imbalance:g} times the mean rows", key="imbalance",
            found=imbalance, allowed=f"1 to {experts}",
        )  # fmt: skip
    return Routing(
        dispatch=dispatch, kernels=expert_kernels, capacity=capacity, padded=padded, imbalance=imbalance
    )


def with_routing(graph: LayerGraph, *, dispatch: str = "", kernels: str = "") -> LayerGraph:
    """Let software decide how tokens reach the experts of a model; the empty text leaves what the model says.

    Layers of which no source says how tokens are routed stay as they are.
    """

    def changed(layer: Layer) -> Layer:
        if layer.routing is None:
            return layer
        own = layer.routing
        own = replace(own, dispatch=dispatch or own.dispatch, kernels=kernels or own.kernels)
        return replace(layer, routing=own)

    return replace(graph, layers=tuple(map(changed, graph.layers)))
