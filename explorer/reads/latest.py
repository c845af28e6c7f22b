"""Latest: every action reads the newest version that its stage has made."""

from __future__ import annotations

from explorer.actions import ReadRule
from explorer.reads import READS, Reading, ReadSpec, no_numbers


@READS.add(ReadSpec(name="latest", title="The newest version, forward and backward"))
def latest(rule: ReadRule) -> Reading:
    """Keep one version; a backward runs on newer weights than its forward if updates came between."""
    no_numbers(rule)
    return Reading(version=lambda read: read.made, newest=True)
