"""Emulation: the results a case should compute, in one process, without wires, collectives or an interpreter.

Samples are worked on in their order, in the finest parts into which some stage cuts them. Which weights a
stage reads for a part, and which updates apply its gradient, is replayed here from the actions of the lanes
by the rules' plain definitions (`UpdateHistory`), not by the functions that the ranks use. Only the
arithmetic of an update rule and of predicted weights is shared with them. Synchronous schedules reduce to
plain gradient accumulation, asynchronous ones to their rule (PipeDream: stashed weights, an update per
microbatch; 2BW: the version before the last).
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

import torch

from explorer.actions import ReadRule
from explorer.base.errors import InputError
from explorer.reads.predicted import predict
from explorer.run.compute import Compute
from explorer.run.lane import Interval, LaneTask
from explorer.run.modules import Weights, initial_weights, run_units, sample_tokens
from explorer.run.optimizers import Optimizer
from explorer.tasks.placement import Piece
from explorer.updates import GRADIENTS, WEIGHTS, rule_of

FLOOR = 1e-2
"""Gradients smaller than this share of the model's largest are compared with that share of it."""


class UpdateHistory:
    """Updates and reads of one piece, replayed from the tasks of its lane in their order."""

    def __init__(self, tasks: list[LaneTask]) -> None:
        self.spans: list[Interval] = []
        """Samples that each update names."""
        self.before: dict[tuple[str, int], int] = {}
        """(F or backward, microbatch) -> updates made before it."""
        for task in tasks:
            if task.op == "U":
                self.spans.append(task.span)
            for n in task.numbers:
                self.before["F" if task.op == "F" else "B", n] = len(self.spans)

    def version(self, rule: ReadRule, op: str, n: int, step: int, first: UpdateHistory) -> int:
        """Count the updates that have gone into the weights that an action reads, by the definition of the
        rule.
        """
        if rule.name in ("latest", "predicted"):
            return self.before[op, n]
        if rule.name == "stash":
            return self.before["F", n]
        if rule.name == "vertical":
            return first.before["F", n]
        if rule.name == "buffered":
            return max(0, step - rule.parameter)
        raise InputError(
            f"weights read by the rule {rule} cannot be judged yet", key="read_rule", found=str(rule)
        )


class Emulation:
    """The whole model, with all pieces, in one process."""

    def __init__(self, run: Compute) -> None:
        self.run, self.model, self.case = run, run.model, run.case
        self.sections = run.skeleton.sections
        self.holders = run.skeleton.holders
        self.read_rule = run.case.order.read_rule
        self.tasks: list[LaneTask] = [task for plan in run.plans for task in plan.tasks]
        self.pieces = tuple(dict.fromkeys(task.piece for task in self.tasks))
        self.history = {
            piece: UpdateHistory([task for task in self.tasks if task.piece == piece])
            for piece in self.pieces
        }
        start = initial_weights(self.model, range(len(self.model.units)), run.device)
        self.names = {piece: run._names(piece.section) for piece in self.pieces}
        # per version: weights, and what the optimizer's next update would subtract from them
        self.weights: dict[Piece, list[Weights]] = {
            piece: [{name: start[name] for name in self.names[piece]}] for piece in self.pieces
        }
        self.directions: dict[Piece, list[Weights]] = {
            piece: [{name: torch.zeros_like(start[name]) for name in self.names[piece]}]
            for piece in self.pieces
        }
        self.optimizers = {
            piece: Optimizer(self.case.optimizer, self.case.learning_rate) for piece in self.pieces
        }
        self.own: dict[tuple[Piece, str, Interval], torch.Tensor] = {}
        """Sums of gradients over the samples of an update that a piece worked on."""
        self.worked: dict[tuple[Piece, Interval], int] = defaultdict(int)
        """Number of these samples."""
        self.states: dict[tuple[Piece, str], Any] = {}
        self.gradients: dict[tuple[Piece, str, Interval], torch.Tensor] = {}
        """Gradients handed to the optimizer of a piece, by the update for which they were made."""
        self.workers = self._workers()
        self.groups = self._groups()
        self.sequences = [
            sorted({span for piece in group.pieces for span in self.history[piece].spans})
            for group in self.holders
        ]
        self.done: dict[Piece, int] = defaultdict(int)
        self.taken: dict[tuple[Piece, int], int] = defaultdict(int)
        self.averaged: dict[int, int] = defaultdict(int)
        self.losses: list[float] = []

    def _workers(self) -> dict[tuple[int, int], list[Piece]]:
        """Return (section, microbatch) -> the pieces that run its forward."""
        found: dict[tuple[int, int], list[Piece]] = defaultdict(list)
        for task in self.tasks:
            for number in task.numbers if task.op == "F" else ():
                found[task.piece.section, number].append(task.piece)
        return found

    def _groups(self) -> dict[Piece, list[int]]:
        found: dict[Piece, list[int]] = defaultdict(list)
        for g, group in enumerate(self.holders):
            for piece in group.pieces:
                found[piece].append(g)
        return found

    def finish(self) -> None:
        """Run all samples."""
        for low, high in self._parts():
            self._work(low, high)
            for piece in self.pieces:
                spans = self.history[piece].spans
                while self.done[piece] < len(spans) and spans[self.done[piece]][1] <= high:
                    self._update(piece, spans[self.done[piece]])
                    self._average()
        for piece in self.pieces:
            self._update_rest(piece)

    def _parts(self) -> list[Interval]:
        """List the finest cuts: all borders of all microbatches of all pieces."""
        cuts = {0}
        for (section, number), pieces in self.workers.items():
            for piece in pieces:
                cuts.update(self.sections[section].interval(piece.replica, number))
        return list(pairwise(sorted(cuts)))

    # -- work -------------------------------------------------------------------------------------

    def _work(self, low: int, high: int) -> None:
        """Run forward and backward of some samples through the whole model."""
        weights: Weights = {}
        later: Weights = {}
        owner: dict[str, Piece] = {}
        used: list[Piece] = []
        for section, shape in enumerate(self.sections):
            number = low // shape.microbatch_samples
            piece = next(p for p in self.workers[section, number] if self._covers(p, number, low))
            used.append(piece)
            first = self.history[used[0]]
            for name, value in self._read(piece, "F", number, first).items():
                weights[name] = value.detach().clone().requires_grad_()
                owner.setdefault(name, piece)
            if self.run.training:
                later.update(self._read(piece, "B", number, first))
        tokens = sample_tokens(self.model, low, high, self.run.device)
        loss = run_units(self.model, range(len(self.model.units)), weights, {}, tokens)[
            len(self.model.units) - 1
        ]
        self.losses.append(float(loss.detach()))
        if not self.run.training:
            return
        for name, value in later.items():
            weights[name].data.copy_(value)  # activations stay those of the forward, weights are read anew
        found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
        for name, gradient in zip(weights, found, strict=True):
            if gradient is not None:
                self._add(owner[name], name, gradient, low)
        for piece in used:
            self.worked[piece, self._span(piece, low)] += high - low

    def _read(self, piece: Piece, op: str, number: int, first: UpdateHistory) -> Weights:
        """Return the weights that an action reads, as its rule defines them."""
        section = self.sections[piece.section]
        if not self.run.training:
            return self.weights[piece][0]
        step = number // self.case.shape.microbatches[section.stage]
        version = self.history[piece].version(self.read_rule, op, number, step, first)
        weights = self.weights[piece][version]
        if self.read_rule.name != "predicted":
            return weights
        ahead = (self.read_rule.parameter,) * 2
        if self.read_rule.horizons:
            ahead = self.read_rule.horizons[section.stage]
        slope, rate = self.directions[piece][version], self.case.learning_rate
        return {n: predict(w.detach(), slope[n], rate, ahead[op == "B"]) for n, w in weights.items()}

    def _covers(self, piece: Piece, number: int, sample: int) -> bool:
        low, high = self.sections[piece.section].interval(piece.replica, number)
        return low <= sample < high

    def _span(self, piece: Piece, sample: int) -> Interval:
        """Return the samples of the update that applies the gradient of one sample; (-1, -1) if none does."""
        spans = self.history[piece].spans
        return next((item for item in spans if item[0] <= sample < item[1]), (-1, -1))

    def _add(self, piece: Piece, name: str, gradient: torch.Tensor, sample: int) -> None:
        key = (piece, name, self._span(piece, sample))
        self.own[key] = self.own[key] + gradient if key in self.own else gradient

    # -- updates ----------------------------------------------------------------------------------

    def _update(self, piece: Piece, span: Interval) -> None:
        """Make a new version: the entries of its groups up to this span, in sequence, then what it holds
        alone.
        """
        fresh = {name: w.detach().clone().requires_grad_() for name, w in self.weights[piece][-1].items()}
        grouped: set[str] = set()
        for group in self.groups[piece]:
            names = self.run.group_names[group]
            rule, sequence = rule_of(self.holders[group].update), self.sequences[group]
            reached = sequence.index(span) + 1
            if rule.exchanges == GRADIENTS:
                for count in range(self.taken[piece, group] + 1, max(0, reached - rule.delay) + 1):
                    if count % rule.period == 0:
                        self._step_by_rule(piece, fresh, group, sequence[count - 1], received=True)
                self.taken[piece, group] = max(0, reached - rule.delay)
            kept = rule.exchanges == WEIGHTS or reached % rule.period > 0
            if rule.exchanges == WEIGHTS and grouped.issuperset(names):
                continue  # of groups that exchange in turn the first one has stepped already
            grouped.update(names)
            if kept or reached <= rule.delay:
                self._step_by_rule(piece, fresh, group, span, own=kept)
        alone = [name for name in self.names[piece] if name not in grouped]
        self._step(piece, fresh, {n: self._mean(self.pieces, n, span) for n in alone}, span)
        self.weights[piece].append(fresh)
        self.directions[piece].append(self._directions(piece, fresh))
        self.done[piece] += 1

    def _directions(self, piece: Piece, weights: Weights) -> Weights:
        if self.read_rule.name != "predicted":
            return {}
        return {name: self.optimizers[piece].direction(name, w).clone() for name, w in weights.items()}

    def _mean(self, pieces: tuple[Piece, ...], name: str, span: Interval) -> torch.Tensor | None:
        """Return the mean gradient over all samples of an update; the pieces named may have worked on it."""
        found = [self.own[p, name, span] for p in dict.fromkeys(pieces) if (p, name, span) in self.own]
        return sum(found[1:], found[0]) / (span[1] - span[0]) if found else None

    def _step_by_rule(
        self,
        piece: Piece,
        weights: Weights,
        group: int,
        span: Interval,
        *,
        received: bool = False,
        own: bool = False,
    ) -> None:
        """Update the parameters of a group by what its rule makes of the gradients of an update."""
        rule, made = rule_of(self.holders[group].update), {}
        for name in self.run.group_names[group]:
            mean = self._mean(self.holders[group].pieces, name, span) if received else None
            total = self.own.get((piece, name, span)) if own else None
            alone = None if total is None else total / self.worked[piece, span]
            state = self.states.get((piece, name))
            made[name], self.states[piece, name] = rule.gradient(weights[name].detach(), alone, mean, state)
        self._step(piece, weights, made, span)

    def _step(self, piece: Piece, weights: Weights, given: Any, span: Interval) -> None:
        found = {name: g for name, g in given.items() if g is not None}
        self.gradients.update({(piece, name, span): g for name, g in found.items()})
        self.optimizers[piece].step(weights, found)

    def _average(self) -> None:
        """Average the weights of groups whose pieces have all made an update that an average follows."""
        for g, group in enumerate(self.holders):
            rule = rule_of(group.update)
            if rule.exchanges != WEIGHTS:
                continue
            count = min(self.done[piece] for piece in group.pieces)
            turn, turns = group.turn
            exchange = count // rule.period - 1
            if count == self.averaged[g] or count % rule.period or exchange % turns != turn:
                continue
            self.averaged[g] = count
            span = self.sequences[g][count - 1]
            for name in self.run.group_names[g]:
                parts = [self.weights[p][count][name].detach() * self.worked[p, span] for p in group.pieces]
                mean = sum(parts[1:], parts[0]) / sum(self.worked[p, span] for p in group.pieces)
                for piece in group.pieces:
                    held, state = self.weights[piece][count][name].data, self.states.get((piece, name))
                    new, self.states[piece, name] = rule.average(held.clone(), None, mean, state)
                    held.copy_(new)

    def _update_rest(self, piece: Piece) -> None:
        """Apply what is still under way when the last update has been made."""
        for group in self.groups[piece]:
            rule, sequence = rule_of(self.holders[group].update), self.sequences[group]
            if rule.exchanges == WEIGHTS or not self.history[piece].spans:
                continue
            for count in range(self.taken[piece, group] + 1, len(sequence) + 1):
                if count % rule.period == 0:
                    last = self.weights[piece][-1]
                    self._step_by_rule(piece, last, group, sequence[count - 1], received=True)


def compare_with_emulation(run: Compute) -> dict[str, float]:
    """Return the largest relative errors of gradients and weights of this rank against the emulation.

    `first` concerns the first update's gradients alone, which no optimizer has touched: Adam divides rounding
    errors of tiny gradients by those gradients.

    An error is a tensor's largest difference over its own largest entry (or `FLOOR` of the largest gradient
    of all).
    """
    right = Emulation(run)
    right.finish()
    largest = max((float(g.abs().max()) for g in right.gradients.values()), default=0.0)
    gradient = first = 0.0
    for (name, span), found in run.applied.items():
        expected = right.gradients.get((run.owner[name], name, span))
        if expected is None:
            gradient = first = float("inf")
            continue
        scale = max(float(expected.abs().max()), FLOOR * largest, 1e-30)
        gradient = max(gradient, float((found - expected).abs().max()) / scale)
        if span[0] == 0:
            first = max(first, float((found - expected).abs().max()) / scale)
    weight = 0.0
    for piece in run.pieces:
        for name in run.names[piece]:
            expected, found = right.weights[piece][-1][name].detach(), run.current[name].detach()
            scale = max(float(expected.abs().max()), 1e-30)
            weight = max(weight, float((found - expected).abs().max()) / scale)
    return {
        "gradient": gradient,
        "first": first,
        "weight": weight,
        "compared": float(len(run.applied)),
        "largest_gradient": largest,
        "loss_first": right.losses[0],
        "loss_last": right.losses[-1],
    }


__all__ = ["Emulation", "UpdateHistory", "compare_with_emulation"]
