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
    """Bytes of one piece beyond what a plan holds of it."""

    always: float
    """While it works."""
    scattering: float
    """At the end of a backward, on top, while its gradients are scattered; less what that has given back."""
    part: float
    """This rank's part of the gradients, scattered."""


def flat_bytes(priced: Prepared, section: int, samples: float) -> FlatBytes:
    """Return what flat weights of a section add; zeros without ZeRO.

    Args:
        priced: the program.
        section: the section.
        samples: samples of a microbatch of one replica.
    """
    shape, own = priced.program.skeleton.sections[section], priced.prices.memory[section]
    level, k = shape.zero, shape.shards
    if not level or k < 2:
        return FlatBytes(0.0, 0.0, 0.0)
    whole = own.weight_bytes * (k if level > 2 else 1)
    part, job = whole / k, priced.job
    wider = scalar_bytes(job.gradient_precision or job.precision) / scalar_bytes(job.precision)
    given_back = (own.activation_bytes_per_sample + own.buffer_bytes_per_sample) * samples
    always = (whole if level > 2 else part) - own.buffer_bytes
    return FlatBytes(always, 2 * wider * whole - given_back if level > 1 else 0.0, wider * part)
