"""Clocks under a power limit: the less of its time a device spends on products, the faster they run.

`DeviceKind.settled_fraction` s is the speed that products keep where nothing else runs. A power limit holds
the mean over milliseconds, though, and kernels that wait for memory draw less than it: with a share x of the
time in products at full clock, whose power grows with the square of the clock (between its third power at
the upper end of the range and the first at the lower one, where the voltage is at its least), and a
share r of the limit drawn by all else,

    x (clock / s)^2 + (1 - x) r = 1        clock = s sqrt((1 - (1 - x) r) / x), at most 1

x is that of the whole model at the best efficiency of either, so that it depends on nothing that a strategy
chooses. r: STREAM-like kernels draw 60 to 70 % of an accelerator's limit (Patel et al., POLCA, 2023, phases
of language models bound by memory beside those bound by compute; recalled).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from explorer.base.caching import remembered
from explorer.base.units import scalar_bytes
from explorer.cluster import DeviceKind
from explorer.costs.graph_work import NAMES, work_table
from explorer.graph import LayerGraph

MEMORY_POWER = 0.65
"""Power of kernels that wait for memory, over the limit that products reach."""


def clock(settled: float, share: float) -> float:
    """Return the clock of products over their clock when nothing limits it.

    Args:
        settled: what is left of it where only products run.
        share: share of the time that products take at full clock.

    >>> clock(0.8, 1.0), round(clock(0.8, 0.75), 3), clock(0.95, 0.5)
    (0.8, 0.845, 1.0)
    """
    if share <= 0:
        return 1.0
    return min(1.0, settled * math.sqrt((1 - (1 - share) * MEMORY_POWER) / share))


@remembered(256)
def clocked(graph: LayerGraph, kind: DeviceKind, precision: str) -> DeviceKind:
    """Return the kind with the clock that its products have in steps of a model; itself if nothing limits it.

    Args:
        graph: the model.
        kind: the device; only kernels by precision have clocks that settle.
        precision: compute precision of the workload.
    """
    if kind.settled_fraction >= 1.0:
        return kind
    settled = clock(kind.settled_fraction, products_share(graph, kind, precision))
    return replace(kind, settled_fraction=settled)


def products_share(graph: LayerGraph, kind: DeviceKind, precision: str) -> float:
    """Return the share of a step that products, convolutions and attention take, all at their peaks."""
    table, inverse = graph.memo("costs.table", lambda: work_table(graph))
    count = np.bincount(inverse, minlength=table.trips.shape[1])
    memory = table.classes[NAMES.index("memory")]
    bound = np.zeros(len(count), dtype=bool)
    bound[memory] = True
    flops = (table.flops * table.trips * count).sum(axis=0)
    moved = (table.moved_elements * table.trips * count).sum(axis=0) * scalar_bytes(precision)
    products = float(flops[~bound].sum()) / kind.peak(precision)
    rest = float(moved[bound].sum()) / kind.memory_bandwidth_bytes_per_s
    return products / (products + rest) if products else 0.0
