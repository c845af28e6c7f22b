"""Replay: who works on which samples, which weights are read and who holds what, by plain definitions.

It is what the numerics of a run are judged by, and knows nothing of how ranks keep their books: it reads the
actions of an order, the places of its lanes and the sizes of sections, and counts. Only the arithmetic of
update rules and of predicted weights is the ranks' own.

Samples of an order with sweeps are numbered on over batches: sweep k of step t is batch t S + k.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from explorer.actions import Order, Shape
from explorer.base.errors import InputError
from explorer.run.spec import RunCase
from explorer.tasks.skeleton import Piece, SectionShape
from explorer.updates import PLAIN, Chosen

Span = tuple[int, int]
"""Samples [low, high), counted on over batches."""


@dataclass(frozen=True, slots=True)
class Batches:
    """How samples are counted."""

    sweeps: int
    """Batches of a step, all of the same samples."""
    samples: int
    """Samples of a batch."""
    count: int
    """All batches."""

    def first(self, action_sample: int, sweep: int) -> int:
        """Return the number of a sample that an action of a sweep names by its place in the steps."""
        step, within = action_sample // self.samples, action_sample % self.samples
        return (step * self.sweeps + sweep) * self.samples + within

    def data(self, sample: int) -> int:
        """Return the sample of the data, counted over steps, that a sample is."""
        batch, within = sample // self.samples, sample % self.samples
        return batch // self.sweeps * self.samples + within


def batches_of(order: Order, shape: Shape, sections: tuple[SectionShape, ...]) -> Batches:
    """Return the batches of an order: as many samples as the first section has in a step."""
    samples = shape.microbatches[sections[0].stage] * sections[0].microbatch_samples
    sweeps = max(action.sweep for lane in order.lanes for action in lane) + 1
    return Batches(sweeps, samples, order.steps * sweeps)


@dataclass(slots=True)
class Worker:
    """Updates and reads of one piece, in the order of its lane."""

    spans: list[Span] = field(default_factory=list)
    """Samples that each update names."""
    before: dict[tuple[str, int], int] = field(default_factory=dict)
    """(F or backward, first sample of a microbatch) -> updates made before it."""


class Replay:
    """The books of a case, in plain lists."""

    def __init__(self, case: RunCase) -> None:
        if case.model is None:
            raise InputError(f"case {case.name!r} has no model", key="model", found=None, allowed="a model")
        self.model = case.model
        self.sections, self.order, self.shape = case.skeleton.sections, case.order, case.shape
        self.batches = batches_of(case.order, case.shape, self.sections)
        self.names = [case.model.parameters_of(units) for units in case.sections]
        self.copy_of: dict[tuple[int, int], int] = {}
        """(stage, first sample of a microbatch) -> the copy that runs its forward."""
        self.workers = self._workers()
        self.holders = self._holders()
        self.updates = {
            name: sorted({span for piece in pieces for span in self.workers[piece].spans})
            for name, pieces in self.holders.items()
        }
        """Per parameter: samples of its updates in order, whoever makes them."""
        self.choices = self._choices(case)

    def _workers(self) -> dict[Piece, Worker]:
        """Walk down every lane, once for each place that it holds."""
        found: dict[Piece, Worker] = {}
        for lane, places in zip(self.order.lanes, self.shape.lanes, strict=True):
            for stage, copy, replica in places:
                for number, section in enumerate(self.sections):
                    if section.stage == stage:
                        worker = found.setdefault(Piece(number, copy, replica), Worker())
                        self._walk(worker, lane, stage, copy, section.microbatch_samples)
        return found

    def _walk(self, worker: Worker, lane, stage: int, copy: int, size: int) -> None:  # type: ignore[no-untyped-def]
        for op, at, first, count, own, sweep in lane:
            if at != stage or own != copy or op not in "FBIWU":
                continue
            low = self.batches.first(first * size, sweep)
            if op == "U":
                worker.spans.append((low, low + count * size))
                continue
            for sample in range(low, low + count * size, size):
                worker.before["F" if op == "F" else "B", sample] = len(worker.spans)
                if op == "F":
                    self.copy_of[stage, sample] = copy

    def worker_of(self, section: int, sample: int) -> Piece:
        """Return the piece of a section that works on a sample."""
        shape = self.sections[section]
        number, within = divmod(sample, shape.microbatch_samples)
        copy = self.copy_of[shape.stage, number * shape.microbatch_samples]
        if shape.round_robin:
            return Piece(section, copy, number % len(shape.rows[0]))
        return Piece(section, copy, sum(1 for end in shape.offsets[1:] if end <= within))

    def parts(self) -> list[Span]:
        """List the finest cuts of all samples: where any section's microbatch or replica begins."""
        total = self.batches.count * self.batches.samples
        cuts = {0, total}
        for shape in self.sections:
            inner = (0,) if shape.round_robin else shape.offsets
            for base in range(0, total, shape.microbatch_samples):
                cuts.update(base + offset for offset in inner)
        return list(pairwise(sorted(cuts)))

    def update_of(self, piece: Piece, sample: int) -> Span:
        """Return the update that applies the gradient of a sample; (-1, -1) if none does."""
        return next((s for s in self.workers[piece].spans if s[0] <= sample < s[1]), (-1, -1))

    def version(self, piece: Piece, op: str, sample: int, first: Piece) -> int:
        """Count the updates in the weights that a forward or backward of a sample reads, by its rule.

        Args:
            piece: who reads.
            op: F or B.
            sample: any sample of the microbatch.
            first: the piece of the first stage that works on the sample.
        """
        rule = self.order.read_rule
        if rule.name in ("latest", "predicted"):
            return self._before(piece, op, sample)
        if rule.name == "stash":
            return self._before(piece, "F", sample)
        if rule.name == "vertical":
            return self._before(first, "F", sample)
        if rule.name == "buffered":
            return max(0, sample // self.batches.samples - rule.parameter)
        raise InputError(
            f"weights read by the rule {rule} cannot be judged yet", key="read_rule", found=str(rule)
        )

    def _before(self, piece: Piece, op: str, sample: int) -> int:
        size = self.sections[piece.section].microbatch_samples
        return self.workers[piece].before[op, sample // size * size]

    def lag(self, sample: int) -> int:
        """Return how many batches back the boundary values lie that a sample reads."""
        sweep = sample // self.batches.samples % self.batches.sweeps
        return self.order.lag[sweep] if sweep < len(self.order.lag) else 0

    def _holders(self) -> dict[str, tuple[Piece, ...]]:
        """Return, per parameter, all pieces that hold it, in order."""
        found: dict[str, list[Piece]] = {}
        for piece in sorted(self.workers):
            for name in self.names[piece.section]:
                found.setdefault(name, []).append(piece)
        return {name: tuple(pieces) for name, pieces in found.items()}

    def _choices(self, case: RunCase) -> dict[str, Chosen]:
        """Return the update rule of every parameter: that of the group over exactly the sections that use
        it. Who exchanges with whom is not taken from the group.
        """
        rules = {frozenset(p.section for p in group.pieces): group.update for group in case.skeleton.holders}
        found = {}
        for name, pieces in self.holders.items():
            sections = frozenset(p.section for p in pieces)
            partly = next((rule for part, rule in rules.items() if part < sections), PLAIN)
            # partners of a parameter that several sections use may all belong to one of them
            found[name] = rules.get(sections, partly if len(sections) > 1 else PLAIN)
        return found
