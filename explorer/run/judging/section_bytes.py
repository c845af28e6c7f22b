"""Bytes that one section adds on a rank while it works: what its backward makes, saves and gives back."""

from __future__ import annotations

from collections import Counter

from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared
from explorer.run.judging.backward_bytes import PieceLayers, backward_bytes, first_half_bytes
from explorer.run.judging.cast_bytes import cast_bytes
from explorer.run.judging.flat_bytes import flat_bytes
from explorer.run.judging.made_bytes import made_bytes
from explorer.run.judging.piece_shares import piece_shares


class SectionBytes:
    """What one section adds while it works."""

    def __init__(
        self, priced: Prepared, graph: LayerGraph | None, section: int, samples: float, *, apart: bool
    ) -> None:
        """Ask for what the layers of a section take.

        Args:
            priced: the program.
            graph: its layers; None if they are unknown.
            section: the section.
            samples: samples of a microbatch.
            apart: whether tasks of their own make activations again: then a plan's count is what is known.
        """
        shape, own, model = (
            priced.program.skeleton.sections[section], priced.prices.memory[section], priced.case.model,
        )  # fmt: skip
        self.flat, cast = flat_bytes(priced, section), cast_bytes(priced, graph, section)
        again = bool(priced.case.again and priced.case.again[section])
        self.gradients, self.version = own.gradient_bytes, own.version_bytes
        blocks = 0.0 if self.flat.scattered else own.buffer_bytes
        self.buffers = own.buffer_bytes_per_sample * samples + blocks
        """Bytes of what layers make for a moment, and of a plan's buffers, but for those of ZeRO: in place of
        blocks all weights are gathered here, and all gradients scattered."""
        self.number, self.piled = section, 0.0
        """Its number; bytes of a microbatch's gradients that wait until others join in their sum."""
        self.leaves = self.inputs = 0.0
        self.known = self.remakes = False
        waiting = own.waiting_bytes_per_sample * samples
        parts = 2 * _shared_bytes(priced, graph, section)
        made = (self.flat.made or cast.made * self.gradients) + cast.adding + parts
        self.late = max(0.0, made - waiting)
        """Bytes that the second half of a split backward makes, less what waited for it."""
        self.saved = {"B": own.activation_bytes_per_sample * samples, "W": waiting}
        """Bytes that are given back by the end of a backward, or of its second half."""
        self.backward = max(0.0, made - self.saved["B"])
        """Bytes that a backward makes, less what it has given back."""
        self.updating = cast.updating
        """Bytes of a gradient that an update casts."""
        self.made = made_bytes(priced, graph, section)
        """Weights that it makes for its reads."""
        if graph is None or model is None or again or (apart and shape.full_recompute):
            return
        piece = PieceLayers(
            graph=graph, layers=tuple(priced.placement.layers[section].tolist()), samples=samples,
            element_bytes=model.element_bytes, shares=piece_shares(priced, graph, section),
        )  # fmt: skip
        self.known = True
        self.backward = backward_bytes(piece, cast.adding)
        self.inputs = first_half_bytes(piece)
        self.leaves = piece.unsaved_inputs()
        self.remakes = shape.full_recompute
        if self.remakes:  # a rank keeps inputs alone, and makes all of a piece again, not block by block
            self.backward += piece.remade()
            self.leaves = float(piece.arriving().sum()) - self.saved["B"]


def _shared_bytes(priced: Prepared, graph: LayerGraph | None, section: int) -> float:
    """Return the bytes of the largest weight that several layers of a section use; 0 if there is none."""
    model = priced.case.model
    if graph is None or model is None:
        return 0.0
    uses = Counter(priced.parameters_of(section, graph))
    shared = [graph.parameter[name].elements for name, count in uses.items() if count > 1]
    return model.element_bytes * max(shared, default=0.0)


__all__ = ["SectionBytes"]
