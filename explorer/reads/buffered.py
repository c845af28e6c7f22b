"""Buffered: all microbatches of step t read the version of k steps before, from k + 1 buffers."""

from __future__ import annotations

import numpy as np

from explorer.actions import ReadRule
from explorer.base.errors import InputError
from explorer.reads import READS, Reading, ReadSpec


@READS.add(
    ReadSpec(
        name="buffered",
        title="All microbatches of a step read the version of k steps before",
        paper="PipeDream-2BW (Narayanan et al., 2021)",
    )
)
def buffered(rule: ReadRule) -> Reading:
    """Keep k + 1 buffers throughout: the one no longer read takes the sum of gradients being reduced.

    Raises:
        InputError: horizons, which only predicted weights have.
    """
    if rule.horizons:
        raise InputError(f"read rule {rule} with horizons", key="read_rule", allowed="buffered(k)")
    back = rule.parameter
    return Reading(version=lambda read: np.maximum(0, read.step - back), buffers=back + 1)
