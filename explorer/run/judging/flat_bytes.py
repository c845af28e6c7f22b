"""Bytes that our ranks hold beyond a plan under ZeRO, whose weights are flat (`run.sharded.flat_weights`).

A plan gathers two blocks and scatters the gradients of one. Our ranks gather all weights of a piece at once
(level 3), keep their part beside the whole (levels 1 and 2), and copy all its gradients next to each other,
beside the gradients themselves, before they are scattered. A scatter has ended before the rank's next task;
until then it holds twice the weights, what is sent and what comes. FSDP2 waits so at the end of a backward,
and a run whose bytes are counted does; where seconds are measured one may last into the next microbatch.
"""

from __future__ import annotations

from typing import NamedTuple

from explorer.base.units import scalar_bytes
from explorer.run.cases.build import Prepared


class FlatBytes(NamedTuple):
    """Bytes of one piece beyond what a plan holds of it; all zero without ZeRO."""

    always: float = 0.0
    """This rank's part, beside the whole (levels 1 and 2)."""
    working: float = 0.0
    """All weights while it works, gathered (level 3)."""
    made: float = 0.0
    """Gradients of a microbatch, whole, before they are scattered (levels 2 and 3)."""
    scattered: float = 0.0
    """What is sent of them and what comes (levels 2 and 3)."""
    part: float = 0.0
    """This rank's part of the gradients, added up."""


def flat_bytes(priced: Prepared, section: int) -> FlatBytes:
    """Return what flat weights of a section add.

    Args:
        priced: the program.
        section: the section.
    """
    shape, own = priced.program.skeleton.sections[section], priced.prices.memory[section]
    level, k = shape.zero, shape.shards
    if not level or k < 2:
        return FlatBytes()
    whole = own.weight_bytes * (k if level > 2 else 1)
    job = priced.job
    wider = scalar_bytes(job.gradient_precision or job.precision) / scalar_bytes(job.precision)
    found = FlatBytes(part=wider * whole / k)
    if level > 1:
        found = found._replace(made=whole, scattered=2 * wider * whole)
    return found._replace(working=whole) if level > 2 else found._replace(always=whole / k)
