"""Bytes of weights that a read rule makes (`explorer.reads`): what our ranks hold of them beyond a plan.

A rank has one working copy of a piece's weights, for forwards and backwards alike, whether or not they look
ahead. It fills the copy weight by weight (`run.ranks.held_weights`): the direction of an update, which Adam
makes of its moments, lies there beside what is taken from the weight, the result and the direction before it.
"""

from __future__ import annotations

from typing import NamedTuple

from explorer.costs.memory import FP32_BYTES
from explorer.graph import LayerGraph
from explorer.reads import reading_of
from explorer.run.cases.build import Prepared


class MadeBytes(NamedTuple):
    """Bytes of the weights that one piece makes for its reads; zeros if it reads a version as it is."""

    copy: float
    """Its working copy, whole."""
    beyond: float
    """What of that a plan does not count."""
    reading: float
    """The most that is there for a moment, while it is filled."""


def made_bytes(priced: Prepared, graph: LayerGraph | None, section: int) -> MadeBytes:
    """Return what a section's reads of weights take.

    Args:
        priced: the program.
        graph: its layers; None if they are unknown.
        section: the section.
    """
    program = priced.program
    if reading_of(program.order.read_rule).make is None:
        return MadeBytes(0.0, 0.0, 0.0)
    copy = priced.prices.memory[section].version_bytes
    beyond = max(0, 1 - program.copies[section]) * copy
    if graph is None:
        return MadeBytes(copy, beyond, 0.0)
    names = dict.fromkeys(priced.parameters_of(section, graph))
    width = max(FP32_BYTES, priced.case.model.element_bytes if priced.case.model else 0)
    sizes = [width * graph.parameter[name].elements for name in names]
    if priced.case.optimizer == "momentum":  # its velocity is the direction
        return MadeBytes(copy, beyond, 2 * max(sizes, default=0.0))
    pairs = zip(sizes, [0.0, *sizes], strict=False)
    return MadeBytes(copy, beyond, max((3 * size + before for size, before in pairs), default=0.0))


__all__ = ["MadeBytes", "made_bytes"]
