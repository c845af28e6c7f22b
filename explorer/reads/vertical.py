"""Vertical: a microbatch reads on every stage the version that it read on the first."""

from __future__ import annotations

from explorer.actions import ReadRule
from explorer.reads import READS, Reading, ReadSpec, no_numbers


@READS.add(
    ReadSpec(
        name="vertical",
        title="Every stage reads the version that the first stage read",
        paper="PipeDream's vertical sync (Harlap et al., 2018)",
    )
)
def vertical(rule: ReadRule) -> Reading:
    """Keep as many versions on later stages as on the first, so that a microbatch sees one model."""
    no_numbers(rule)
    return Reading(version=lambda read: read.first if read.op == "F" else read.forward)
