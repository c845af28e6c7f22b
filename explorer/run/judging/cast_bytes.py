"""Bytes of gradients in mixed precision that our ranks hold beyond a plan: one at a time is cast to fp32.

Gradients narrower than fp32 are cast by the update (`run.ranks.optimizers`); where their sums are in fp32,
by the sum itself: torch's sum of two data types first makes the narrow one wide. A backward makes gradients
in the precision of compute, whatever that of their sums.
"""

from __future__ import annotations

from typing import NamedTuple

from explorer.base.units import scalar_bytes
from explorer.costs.memory import FP32_BYTES
from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared


class CastBytes(NamedTuple):
    """Gradients of one piece in other precisions than that of their sums."""

    made: float
    """Bytes of gradients as a backward makes them, over those of their sums."""
    adding: float
    """Bytes of the largest one in fp32, while it is added to its sum."""
    updating: float
    """Bytes of the largest one in fp32, while its weights are updated."""


def cast_bytes(priced: Prepared, graph: LayerGraph | None, section: int) -> CastBytes:
    """Return the gradients of a section that are there in two precisions; of a run in one precision none.

    Args:
        priced: the program.
        graph: its layers; None if they are unknown.
        section: the section.
    """
    job = priced.job
    made, summed = scalar_bytes(job.precision), scalar_bytes(job.gradient_precision or job.precision)
    if graph is None or made >= FP32_BYTES:
        return CastBytes(made / summed, 0.0, 0.0)
    sizes = [graph.parameter[name].elements for name in priced.parameters_of(section, graph)]
    wide = FP32_BYTES * max(sizes, default=0.0)
    return CastBytes(made / summed, wide, 0.0) if made < summed else CastBytes(1.0, 0.0, wide)
