"""What a framework decides where a strategy leaves it open: blocking sends, buckets of gradients, transfers.

Whatever a strategy says itself stands: an option that is given, a `Sync`, a kind of transfer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.base.units import dtype_bytes
from explorer.framework import UNITS, Framework
from explorer.graph import COMPUTE, LayerGraph
from explorer.schedules import SCHEDULES
from explorer.strategy import JobStrategy, Sync
from explorer.workload import Job

ROUNDED_UP = 1 + 1e-9
"""Bytes of a unit are a little more than its share, so that there are as many buckets as blocks."""


def strategy_under(strategy: JobStrategy, framework: Framework, graph: LayerGraph, job: Job) -> JobStrategy:
    """Return the strategy as a framework runs it; the same object where it decides nothing."""
    changes = _changes(strategy, framework, graph, job)
    return replace(strategy, **changes) if changes else strategy


def bucket_bytes_of(framework: Framework, graph: LayerGraph, job: Job) -> float:
    """Return the bytes of gradients that a framework reduces at once; 0 for all of them.

    Where it exchanges units, they are those of a block, if blocks had equal parts of everything.
    """
    if framework.exchanges != UNITS:
        return framework.bucket_bytes
    width = dtype_bytes(job.gradient_precision or job.precision)
    return graph.memo(f"bytes of a unit {width}", lambda: _unit_bytes(graph, width))


def _unit_bytes(graph: LayerGraph, width: float) -> float:
    blocks = len({layer.block for layer in graph.layers} - {""})
    sizes = (
        item.elements * (width if item.dtype == COMPUTE else dtype_bytes(item.dtype))
        for item in graph.parameters
        if item.trainable
    )
    return sum(sizes) / max(1, blocks) * ROUNDED_UP


def _changes(strategy: JobStrategy, framework: Framework, graph: LayerGraph, job: Job) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if framework.transfers and not strategy.transfers:
        found["transfers"] = framework.transfers
    size = bucket_bytes_of(framework, graph, job)
    bucketed = size and (framework.buckets == "always" or len(strategy.stages) == 1)
    if bucketed and not strategy.sync:
        found["sync"] = (Sync(parameters=("*",), bucket_bytes=size),)
    if framework.blocking and "blocking" not in dict(strategy.options):
        known = [item for item in SCHEDULES if item.name == strategy.schedule]
        if any(option.name == "blocking" for item in known for option in item.options):
            found["options"] = (*strategy.options, ("blocking", True))
    return found
