"""Section times: what a section takes as one, where its layers were timed one by one.

Each layer that is timed by itself makes masks, positions and views again that a section makes once, and is a
call of autograd's of its own: a stage of a small model takes 5 to 12 % less than its layers together. A
backward in two halves takes longer than one in one. So the sections of every case are timed as one, in the
calibration, and a task takes what its section did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from explorer.graph import LayerGraph
from explorer.passes.timing import FloatArray
from explorer.pricing.section_time import made_again
from explorer.run.cases.build import Prepared
from explorer.run.spec import Cut
from explorer.tasks.program import REMADE_BEFORE, B, F, I, Slot, W


class Section(NamedTuple):
    """A section that was timed."""

    units: tuple[int, ...]
    """Its layers."""
    samples: int
    """Samples of a microbatch."""
    splits: bool
    """Whether its backward is split."""


class Halves(NamedTuple):
    """Seconds of a forward, and of a backward by what it makes."""

    forward_s: float
    """Forward."""
    input_grad_s: float
    """Gradients of inputs; of a whole backward everything."""
    weight_grad_s: float
    """Gradients of weights; of a whole backward nothing."""


def section_times(cuts: Sequence[Cut], rows: Iterable[Mapping[str, Any]]) -> dict[Section, Halves]:
    """Return the seconds of every section, mean over ranks and rounds.

    Args:
        cuts: what was asked for.
        rows: results of `Stopwatch.measure`.
    """
    found: dict[Section, list[Halves]] = {}
    for row in rows:
        for cut, taken in zip(cuts, row.get("cuts", ()), strict=bool(cuts)):
            for number, (units, (forward, first, *rest)) in enumerate(zip(cut.sections, taken, strict=True)):
                section = Section(units, cut.samples, number in cut.split)
                found.setdefault(section, []).append(Halves(forward, first, sum(rest)))
    return {section: Halves(*map(fmean, zip(*halves, strict=True))) for section, halves in found.items()}


def section_extras(prepared: Prepared, graph: LayerGraph, known: Mapping[Section, Halves]) -> FloatArray:
    """Return by task the seconds that its section as one takes more than its layers one by one, less than 0
    for most; 0 for what is no compute, and where either was not timed.

    Args:
        prepared: the case.
        graph: its layers, with their measured seconds.
        known: seconds of sections.
    """
    program = prepared.program
    if not known:
        return np.zeros(program.size)
    split = {slot.where for slot in program.slots if slot.kind == I}
    by_slot = [
        _extra(prepared, graph, known, slot, splits=slot.where in split) if slot.kind in (F, B, I, W) else 0.0
        for slot in program.slots
    ]
    return np.array(by_slot)[program.slot]


def _extra(
    prepared: Prepared, graph: LayerGraph, known: Mapping[Section, Halves], slot: Slot, *, splits: bool
) -> float:
    """Return what the section of a slot takes more than its layers."""
    units = prepared.case.sections[slot.where]
    whole = known.get(Section(units, slot.samples, splits))
    if whole is None:  # as of slices, which are no layers of the graph
        return 0.0
    layers = [_layer_seconds(graph, unit, slot.samples) for unit in units]
    if None in layers:
        return 0.0
    apart = Halves(*map(sum, zip(*(item for item in layers if item), strict=True)))
    more = Halves(*(one - other for one, other in zip(whole, apart, strict=True)))
    again = 0.0
    if prepared.program.skeleton.sections[slot.where].full_recompute and slot.part != REMADE_BEFORE:
        forwards = [item.forward_s for item in layers if item]
        again = whole.forward_s - _remade_s(prepared, slot.where, forwards)
    if slot.kind == F:
        return again if slot.backward else more.forward_s
    if slot.kind == W:
        return more.weight_grad_s
    return again + more.input_grad_s + (more.weight_grad_s if slot.kind == B else 0.0)


def _remade_s(prepared: Prepared, section: int, forward_s: Sequence[float]) -> float:
    """Return the forward seconds of the layers that the costs count as made again: those that a backward
    reads, where ranks make a whole section again.
    """
    pricer = prepared.prices.pricer
    units = np.array(prepared.case.sections[section])
    return float(np.array(forward_s) @ made_again(pricer.graph, units, pricer.recompute(section)))


def _layer_seconds(graph: LayerGraph, unit: int, samples: int) -> Halves | None:
    """Return the seconds that a layer was timed with; None if it was not."""
    for row in graph.layers[unit].measured:
        if row.batch == samples:
            return Halves(row.forward_s, row.input_grad_s, row.weight_grad_s)
    return None


__all__ = ["Halves", "Section", "section_extras", "section_times"]
