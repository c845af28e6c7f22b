"""Emulation: what a case should compute, in one process, without wires, collectives or an interpreter.

Samples are worked on in their order, in the finest parts into which some stage cuts them; every stage
uses the weight version that the read rule gives its microbatch. Synchronous schedules come out as plain
gradient accumulation; asynchronous ones as their update rule says (PipeDream: stashed weights, an update
per microbatch; 2BW: the version before the last).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import torch

from explorer.run.compute import Compute
from explorer.run.lane import Interval, LaneTask, sample_interval
from explorer.run.modules import Weights, initial_weights, run_units, sample_tokens
from explorer.run.optimizers import Optimizer
from explorer.tasks.placement import Piece

FLOOR = 1e-2
"""Gradients below this share of the largest of the model are compared with that share of it."""


class Emulation:
    """Whole model, all pieces, one process."""

    def __init__(self, run: Compute) -> None:
        self.run, self.model, self.case = run, run.model, run.case
        self.sections = run.skeleton.sections
        self.tasks: list[LaneTask] = [task for plan in run.plans for task in plan.tasks]
        self.pieces = tuple(dict.fromkeys(task.piece for task in self.tasks))
        start = initial_weights(self.model, range(len(self.model.units)), run.device)
        self.names = {piece: run._names(piece.section) for piece in self.pieces}
        self.weights: dict[Piece, list[Weights]] = {
            piece: [{name: start[name] for name in self.names[piece]}] for piece in self.pieces
        }
        self.optimizers = {
            piece: Optimizer(self.case.optimizer, self.case.learning_rate) for piece in self.pieces
        }
        self.sums: dict[tuple[str, Interval], torch.Tensor] = {}
        self.gradients: dict[tuple[str, Interval], torch.Tensor] = {}
        self.workers = self._workers()
        self.groups = self._groups()
        self.done: dict[Piece, int] = defaultdict(int)
        self.taken: dict[tuple[Piece, int], int] = defaultdict(int)
        self.losses: list[float] = []

    def _workers(self) -> dict[tuple[int, int], list[Piece]]:
        """(section, microbatch) -> the pieces that run its forward."""
        found: dict[tuple[int, int], list[Piece]] = defaultdict(list)
        for task in self.tasks:
            for number in task.numbers if task.op == "F" else ():
                found[task.piece.section, number].append(task.piece)
        return found

    def _groups(self) -> dict[Piece, list[int]]:
        found: dict[Piece, list[int]] = defaultdict(list)
        for g, group in enumerate(self.run.skeleton.holders):
            for piece in group.pieces:
                found[piece].append(g)
        return found

    def finish(self) -> None:
        """Run all samples."""
        for low, high in self._parts():
            self._work(low, high)
            for piece in self.pieces:
                spans = self.run.reads.updates.get(piece, ())
                while self.done[piece] < len(spans) and spans[self.done[piece]][1] <= high:
                    self._update(piece, spans[self.done[piece]])
        for piece in self.pieces:
            self._update_rest(piece)

    def _parts(self) -> list[Interval]:
        """The finest cuts: all borders of all microbatches of all pieces."""
        cuts = {0}
        for (section, number), pieces in self.workers.items():
            for piece in pieces:
                cuts.update(sample_interval(self.sections[section], piece.replica, number))
        return list(pairwise(sorted(cuts)))

    def _work(self, low: int, high: int) -> None:
        """Forward and backward of some samples through the whole model."""
        weights: Weights = {}
        used: list[tuple[Piece, Weights]] = []
        for section, shape in enumerate(self.sections):
            number = low // shape.microbatch_samples
            piece = next(p for p in self.workers[section, number] if self._covers(p, number, low))
            version = self.weights[piece][self.run.reads.version[piece][number]]
            used.append((piece, version))
            weights.update(version)
        tokens = sample_tokens(self.model, low, high, self.run.device)
        loss = run_units(self.model, range(len(self.model.units)), weights, {}, tokens)[
            len(self.model.units) - 1
        ]
        self.losses.append(float(loss.detach()))
        if not self.run.training:
            return
        names = list(weights)
        found = torch.autograd.grad(loss, [weights[name] for name in names], allow_unused=True)
        by_name = dict(zip(names, found, strict=True))
        for name, piece in {name: piece for piece, version in reversed(used) for name in version}.items():
            spans = self.run.reads.updates.get(piece, ())
            span = next((item for item in spans if item[0] <= low < item[1]), None)
            gradient = by_name[name]
            if span is not None and gradient is not None:
                known = self.sums.get((name, span))
                self.sums[name, span] = gradient if known is None else known + gradient

    def _covers(self, piece: Piece, number: int, sample: int) -> bool:
        low, high = sample_interval(self.sections[piece.section], piece.replica, number)
        return low <= sample < high

    def _update(self, piece: Piece, span: Interval) -> None:
        """The entries of its groups up to this span, in sequence, then what it holds alone: a new version."""
        fresh = {name: w.detach().clone().requires_grad_() for name, w in self.weights[piece][-1].items()}
        grouped: set[str] = set()
        for group in self.groups[piece]:
            names = self.run.group_names[group]
            grouped.update(names)
            sequence = self.run.reads.sequences[group]
            reached = sequence.index(span) + 1
            for covered in sequence[self.taken[piece, group] : reached]:
                self._step(piece, fresh, names, covered)
            self.taken[piece, group] = reached
        self._step(piece, fresh, [name for name in self.names[piece] if name not in grouped], span)
        self.weights[piece].append(fresh)
        self.done[piece] += 1

    def _update_rest(self, piece: Piece) -> None:
        """What other replicas reduced behind the last update of this one."""
        for group in self.groups[piece]:
            left = self.run.reads.sequences[group][self.taken[piece, group] :]
            for covered in left if piece in self.run.reads.updates else ():
                self._step(piece, self.weights[piece][-1], self.run.group_names[group], covered)

    def _step(self, piece: Piece, weights: Weights, names: Any, span: Interval) -> None:
        count = span[1] - span[0]
        found = {name: self.sums[name, span] / count for name in names if (name, span) in self.sums}
        self.gradients.update({(name, span): g for name, g in found.items()})
        self.optimizers[piece].step(weights, found)


def compare_with_emulation(run: Compute) -> dict[str, float]:
    """Largest relative errors of gradients and weights of this rank against the emulation.

    `first` is of the first update's gradients alone, which no optimizer has touched: Adam divides rounding
    errors of tiny gradients by those gradients.

    Each tensor's largest difference over its own largest entry (or `FLOOR` of the largest gradient of all).
    """
    right = Emulation(run)
    right.finish()
    largest = max((float(g.abs().max()) for g in right.gradients.values()), default=0.0)
    gradient = first = 0.0
    for key, found in run.applied.items():
        expected = right.gradients.get(key)
        if expected is None:
            gradient = first = float("inf")
            continue
        scale = max(float(expected.abs().max()), FLOOR * largest, 1e-30)
        gradient = max(gradient, float((found - expected).abs().max()) / scale)
        if key[1][0] == 0:
            first = max(first, float((found - expected).abs().max()) / scale)
    weight = 0.0
    for piece in run.pieces:
        for name in run.names[piece]:
            expected, found = right.weights[piece][-1][name], run.current[name]
            scale = max(float(expected.abs().max()), 1e-30)
            weight = max(weight, float((found - expected).detach().abs().max()) / scale)
    return {
        "gradient": gradient,
        "first": first,
        "weight": weight,
        "compared": float(len(run.applied)),
        "largest_gradient": largest,
        "loss_first": right.losses[0],
        "loss_last": right.losses[-1],
    }


__all__ = ["Emulation", "compare_with_emulation"]
