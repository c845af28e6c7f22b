"""Section times: what the layers of a section take as one, from how long they take one by one.

Each layer that is timed by itself makes masks, positions and views again that a section makes once, and is a
call of autograd's of its own: a stage of a small model takes 5 to 15 % less than its layers together. So the
sections of every case are timed as one, in the calibration, and the seconds of a task are those of its layers
times what its section took over what they took.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np

from explorer.graph import LayerGraph
from explorer.passes.timing import FloatArray
from explorer.run.cases.build import Prepared
from explorer.run.spec import Cut
from explorer.tasks.program import KINDS

Section = tuple[tuple[int, ...], int]
"""Units of a section, and the samples of its microbatches."""
Pair = tuple[float, float]
"""Seconds of a forward and of a backward."""
_FORWARD, _BACKWARDS = KINDS.index("F"), tuple(map(KINDS.index, "BIW"))


def section_times(cuts: Sequence[Cut], rows: Iterable[Mapping[str, Any]]) -> dict[Section, Pair]:
    """Return the seconds of every section, mean over ranks and rounds.

    Args:
        cuts: what was asked for.
        rows: results of `Stopwatch.measure`; those of former versions have none.
    """
    found: dict[Section, list[Pair]] = {}
    for row in rows:
        for cut, pairs in zip(cuts, row.get("cuts", ()), strict=False):
            for units, pair in zip(cut.sections, pairs, strict=True):
                found.setdefault((units, cut.samples), []).append(pair)
    return {
        section: (fmean(forward for forward, _ in pairs), fmean(backward for _, backward in pairs))
        for section, pairs in found.items()
    }


def section_factors(prepared: Prepared, graph: LayerGraph, known: Mapping[Section, Pair]) -> FloatArray:
    """Return by task the seconds of its section as one over those of its layers one by one; 1 for what is no
    compute, and where either was not timed.

    Args:
        prepared: the case.
        graph: its layers, with their measured seconds.
        known: seconds of sections.
    """
    program = prepared.program
    by_slot = np.ones(len(program.slots))
    for number, slot in enumerate(program.slots):
        if slot.kind in (_FORWARD, *_BACKWARDS) and known:
            units, which = prepared.case.sections[slot.where], int(slot.kind != _FORWARD)
            seconds = known.get((units, slot.samples))
            apart = sum(_layer_seconds(graph, unit, slot.samples)[which] for unit in units)
            if seconds and apart:
                by_slot[number] = seconds[which] / apart
    return by_slot[program.slot]


def _layer_seconds(graph: LayerGraph, unit: int, samples: int) -> Pair:
    """Return the forward and backward seconds that a layer was timed with; 0 if it was not."""
    for row in graph.layers[unit].measured:
        if row.batch == samples:
            return row.forward_s, row.input_grad_s + row.weight_grad_s
    return 0.0, 0.0


__all__ = ["Pair", "Section", "section_factors", "section_times"]
