"""Exchanges beside work: how gathers and reductions slow the work that hides them, and what nothing hides.

While a device exchanges sharded states its work takes `DeviceKind.overlap_slowdown` longer, since collectives
hold compute units and share the memory's bandwidth (Lee et al., Characterizing Compute-Communication Overlap
in GPU-Accelerated Distributed Deep Learning, 2025: compute beside FSDP's collectives on A100 and H100):

    slowed = slowdown x min(exchange, work)

A framework that exchanges by units (`Framework.exchanges`; torch.distributed.fsdp of PyTorch 2) lets each
microbatch wait for its own first gathers and last reductions: the stream that gathers waits at the root's
forward for all work before, and what follows a backward waits for the stream that reduces. With K blocks and
a share o of the weights outside of them, a forward shows the gathers of o and of the first block, since only
the little work of embeddings lies between, and a backward the reductions of the last block and of o:

    first = gather(o) + gather((1 - o) / K)        last = reduce((1 - o) / K) + reduce(o)

of which the order of tasks shows one K-th of either once a step (`explorer.tasks.gathers`, `reductions`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from explorer.graph import LayerGraph
from explorer.tasks.skeleton import IntArray


class Beside(NamedTuple):
    """Exchanges of one microbatch of a section."""

    gather_s: float = 0.0
    """Seconds in which weights are gathered beside each forward and backward."""
    again_s: float = 0.0
    """The same beside a backward."""
    reduce_s: float = 0.0
    """Seconds in which gradients are reduced beside a backward."""
    first_s: float = 0.0
    """Seconds of gathers for which a forward waits, besides those of which the order of tasks tells."""
    last_s: float = 0.0
    """Seconds of reductions for which the end of a backward waits, as `first_s`."""


NOTHING = Beside()
"""No exchange beside work."""


def slowed_s(slowdown: float, exchange_s: float, work_s: float) -> float:
    """Return the seconds by which an exchange slows the work beside it."""
    return slowdown * min(exchange_s, work_s)


def ends_s(seconds: Callable[[float], float], outside: float, blocks: float) -> float:
    """Return the seconds of the units at one end of a microbatch.

    Args:
        seconds: of the exchange of a share of everything.
        outside: share outside of blocks.
        blocks: number of blocks.
    """
    return (seconds(outside) if outside else 0.0) + seconds((1.0 - outside) / blocks)


def outside_share(graph: LayerGraph, layers: IntArray) -> float:
    """Return the share of some layers' parameters that is outside of blocks; 0 if there are no blocks."""

    def make() -> tuple[dict[str, float], dict[str, bool]]:
        sizes = {item.name: item.elements for item in graph.parameters}
        inside: dict[str, bool] = {}
        for layer in graph.layers:
            for use in layer.parameters:
                inside[use.name] = bool(layer.block)
        return sizes, inside

    sizes, inside = graph.memo("parameters outside of blocks", make)
    names = {use.name for i in np.asarray(layers).tolist() for use in graph.layers[i].parameters}
    every = sum(sizes[name] for name in names)
    within = sum(sizes[name] for name in names if inside[name])
    return (every - within) / every if within else 0.0
