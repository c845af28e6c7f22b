"""Stash: backward reads what its forward read, which is kept until then."""

from __future__ import annotations

from explorer.actions import ReadRule
from explorer.reads import READS, Reading, ReadSpec, no_numbers


@READS.add(
    ReadSpec(
        name="stash", title="Backward reads what its forward read", paper="PipeDream (Harlap et al., 2018)"
    )
)
def stash(rule: ReadRule) -> Reading:
    """Keep a version until the last backward of a microbatch that went forward on it."""
    no_numbers(rule)
    return Reading(version=lambda read: read.made if read.op == "F" else read.forward)
