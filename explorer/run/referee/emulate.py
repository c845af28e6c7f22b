"""Emulation: the results a case should compute, in one process, without wires, collectives or an interpreter.

Samples are worked on in their order, in the finest parts into which some stage cuts them. Who works on a
part, which weights it reads and which update applies its gradient is replayed by plain definitions
(`run.referee.replay`), not by the functions that the ranks use; a parameter's mean gradient is that over all
samples of an update, whoever worked on them. Only the arithmetic of units, optimizers, update rules and
predicted weights is shared with the ranks. Synchronous schedules reduce to plain gradient accumulation,
asynchronous ones to their rule (PipeDream: stashed weights, an update per microbatch; 2BW: the version before
the last), sweeps to sections that each work on what their neighbours made a sweep before.

Every rank emulates the whole model, so what no later sample reads is given back: versions of weights, sums of
gradients that have been applied, gradients of pieces that are not compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

from explorer.reads.predicted import predict
from explorer.run.ranks.heap import give_back_freed_memory
from explorer.run.ranks.mixed import gradient_type, summed
from explorer.run.ranks.modules import Samples, Weights
from explorer.run.ranks.optimizers import Optimizer
from explorer.run.ranks.sweeps import first_guess
from explorer.run.ranks.units import units_of
from explorer.run.referee.replay import Replay, Span
from explorer.run.referee.whole_weights import in_parts, joined, rewrite_joined, uncut
from explorer.run.spec import RunCase
from explorer.tasks.skeleton import Piece
from explorer.updates import GRADIENTS, WEIGHTS, rule_of


class Emulation:
    """The whole model, with all pieces, in one process."""

    def __init__(
        self,
        case: RunCase,
        device: torch.device,
        *,
        nudged: bool = False,
        wanted: Iterable[Piece] | None = None,
    ) -> None:
        """Begin with the initial weights.

        Args:
            case: what to emulate.
            device: where to compute.
            nudged: begin with weights that differ by a rounding, each up or down by lot.
            wanted: pieces whose gradients are kept; None for all.
        """
        self.books, self.case, self.device = Replay(case), case, device
        self.model = self.books.model
        whole = uncut(self.model)
        self.units = units_of(whole)
        self.last, self.gradient_dtype = self.units.loss, gradient_type(self.model)
        self.pieces = tuple(self.books.workers)
        self.rules = {name: rule_of(choice) for name, choice in self.books.choices.items()}
        start = in_parts(self.model, self.units.weights(range(len(whole.units)), device))
        self.shapes = {name: value.shape for name, value in start.items()}
        if nudged:
            start = {name: _nudged(value) for name, value in start.items()}
        self.wanted = set(self.pieces if wanted is None else wanted)
        self.predicts = case.order.read_rule.name == "predicted"
        # per version: weights, and what the optimizer's next update would subtract from them; {} if forgotten
        self.weights: dict[Piece, list[Weights]] = {}
        self.directions: dict[Piece, list[Weights]] = {}
        for piece in self.pieces:
            names = self.books.names[piece.section]
            self.weights[piece] = [{name: start[name] for name in names}]
            still = {name: torch.zeros_like(start[name]) for name in names} if self.predicts else {}
            self.directions[piece] = [still]
        self.optimizers = {piece: Optimizer(case.optimizer, case.learning_rate) for piece in self.pieces}
        self.own: dict[tuple[Piece, str, Span], torch.Tensor] = {}
        """Sums of gradients over the samples of an update that a piece worked on."""
        self.worked: dict[tuple[Piece, Span], int] = defaultdict(int)
        """Number of these samples."""
        self.states: dict[tuple[Piece, str], Any] = {}
        self.gradients: dict[tuple[Piece, str, Span], torch.Tensor] = {}
        """Gradients handed to the optimizer of a wanted piece, by the update for which they were made."""
        self.largest = 0.0
        """Largest entry of a gradient of any piece."""
        self.values: dict[tuple[int, int], torch.Tensor] = {}
        """(first sample of a part, unit) -> its output, of orders with sweeps."""
        self.slopes: dict[tuple[int, int], torch.Tensor] = {}
        """The same, gradients of the outputs."""
        self.done: dict[Piece, int] = defaultdict(int)
        self.taken: dict[tuple[Piece, str], int] = defaultdict(int)
        self.averaged: dict[str, int] = defaultdict(int)
        self.losses: list[float] = []

    def finish(self) -> None:
        """Run all samples."""
        parts = self.books.parts()
        oldest = self._oldest(parts)
        for (low, high), needed in zip(parts, oldest, strict=True):
            self._work(low, high)
            for piece in self.pieces:
                spans = self.books.workers[piece].spans
                while self.done[piece] < len(spans) and spans[self.done[piece]][1] <= high:
                    self._update(piece, spans[self.done[piece]])
                    self._average()
            if self._forget(needed):
                give_back_freed_memory()
        for piece in self.pieces:
            self._update_rest(piece)

    def _oldest(self, parts: list[Span]) -> list[dict[Piece, int]]:
        """Return, after each part, the oldest version of each piece that a later part reads."""
        found: list[dict[Piece, int]] = []
        needed: dict[Piece, int] = {}
        for low, _ in reversed(parts):
            found.append(dict(needed))
            used = [self.books.worker_of(section, low) for section in range(len(self.books.sections))]
            for piece in used if self.case.shape.training else ():
                read = min(self.books.version(piece, op, low, used[0]) for op in "FB")
                needed[piece] = min(read, needed.get(piece, read))
        return found[::-1]

    def _forget(self, needed: dict[Piece, int]) -> bool:
        """Give back versions that are older than those needed, but for the last; tell whether there were any.

        Averages may change any.
        """
        gone = False
        for piece in () if any(r.exchanges == WEIGHTS for r in self.rules.values()) else self.pieces:
            last = len(self.weights[piece]) - 1
            for version in range(min(needed.get(piece, last), last)):
                gone = gone or bool(self.weights[piece][version])
                self.weights[piece][version], self.directions[piece][version] = {}, {}
        return gone

    def _forget_sums(self, piece: Piece, span: Span) -> None:
        """Give back the sums that every holder of a parameter has applied."""
        for name in self.weights[piece][-1]:
            holders, sequence = self.books.holders[name], self.books.updates[name]
            if self.rules[name].exchanges == WEIGHTS:
                self.own.pop((piece, name, span), None)
                continue
            for done in sequence[: min(self.taken[holder, name] for holder in holders)]:
                for holder in holders:
                    self.own.pop((holder, name, done), None)

    # -- work -------------------------------------------------------------------------------------

    def _work(self, low: int, high: int) -> None:
        """Run forward and backward of some samples through the whole model."""
        used = [self.books.worker_of(section, low) for section in range(len(self.books.sections))]
        moves = any(self._moves(piece, low, used[0]) for piece in used)
        weights = [self._leaves(piece, low, used[0], copied=moves) for piece in used]
        at = self.books.batches.data(low)
        data = self.units.samples(at, at + high - low, self.device)
        if self.books.batches.sweeps == 1:
            found = self._together(used, weights, data, low, moves=moves)
        else:
            found = self._apart(used, weights, data, low, moves=moves)
        for piece, gradients in zip(used, found, strict=True):
            span = self.books.update_of(piece, low)
            for name, gradient in gradients.items():
                key = (piece, name, span)
                if key in self.own:
                    self.own[key].add_(gradient)
                else:  # two parameters may have been given one tensor
                    self.own[key] = summed(gradient.clone(), self.gradient_dtype)
            self.worked[piece, span] += high - low

    def _moves(self, piece: Piece, sample: int, first: Piece) -> bool:
        """Tell whether a backward of a sample reads other weights than its forward."""
        if not self.case.shape.training:
            return False
        if self.case.order.read_rule.name == "predicted":
            return True
        return self.books.version(piece, "F", sample, first) != self.books.version(piece, "B", sample, first)

    def _leaves(self, piece: Piece, sample: int, first: Piece, *, copied: bool) -> Weights:
        """Return the weights that a forward of a sample reads, to differentiate by; copies if other values
        are to be written there.
        """
        read = {name: value.detach() for name, value in self._read(piece, "F", sample, first).items()}
        return {name: (value.clone() if copied else value).requires_grad_() for name, value in read.items()}

    def _turn_back(self, used: list[Piece], weights: list[Weights], sample: int) -> None:
        """Write the weights that the backward reads where the forward's stood: activations stay those of the
        forward.
        """
        for piece, leaves in zip(used, weights, strict=True):
            for name, value in self._read(piece, "B", sample, used[0]).items():
                leaves[name].data.copy_(value)

    def _together(
        self, used: list[Piece], weights: list[Weights], data: Samples, low: int, *, moves: bool
    ) -> list[Weights]:
        """Differentiate the loss of some samples at once, through all sections."""
        loss, read = self._loss(used, weights, data)
        self.losses.append(float(loss.detach()))
        if not self.case.shape.training:
            return [{} for _ in used]
        if moves:
            self._turn_back(used, weights, low)
            rewrite_joined(self.model, read, _merged(weights))
        flat = [leaf for leaves in weights for leaf in leaves.values()]
        gradients: Iterable[torch.Tensor | None] = torch.autograd.grad(loss, flat, allow_unused=True)
        found = iter(gradients)
        pairs = [{name: next(found) for name in leaves} for leaves in weights]
        return [{name: g for name, g in part.items() if g is not None} for part in pairs]

    def _loss(self, used: list[Piece], weights: list[Weights], data: Samples) -> tuple[torch.Tensor, Weights]:
        """Return the loss of some samples as the model itself computes it, or section by section if those who
        share a weight read different ones; and the whole weights that the model reads.
        """
        if self._agree(weights):
            read = joined(self.model, _merged(weights), self.shapes)
            whole = self.units.whole(read, data)
            if whole is not None:
                return whole, read
        made: dict[int, torch.Tensor] = {}
        total = torch.zeros((), device=self.device)
        for piece, leaves in zip(used, weights, strict=True):
            made.update(self.units.run(self.case.sections[piece.section], leaves, made, data))
            if self.last in made:
                total = total + made.pop(self.last)
        return total, {}

    def _agree(self, weights: list[Weights]) -> bool:
        """Tell whether all who share a weight read the same one, and share its gradient at once."""
        plain = all(
            rule.exchanges == GRADIENTS and rule.period == 1 and not rule.delay
            for rule in self.rules.values()
        )
        first: Weights = {}
        for name, leaf in ((name, leaf) for leaves in weights for name, leaf in leaves.items()):
            if not plain or not torch.equal(first.setdefault(name, leaf), leaf):
                return False
        return True

    def _apart(
        self, used: list[Piece], weights: list[Weights], data: Samples, low: int, *, moves: bool
    ) -> list[Weights]:
        """Differentiate section by section, each given what its neighbours made so many sweeps before."""
        batches = self.books.batches
        source = low - self.books.lag(low) * batches.samples
        guessed = self.books.lag(low) > low // batches.samples % batches.sweeps
        inputs: list[dict[int, torch.Tensor]] = []
        made: list[dict[int, torch.Tensor]] = []
        count = len(next(iter(data.values())))

        def blank(key: int) -> torch.Tensor:
            return self.units.blank(key, count, self.device)

        for piece, leaves in zip(used, weights, strict=True):
            units = self.case.sections[piece.section]
            given = {
                key: (first_guess(blank(key)) if guessed else self.values[source, key])
                .detach()
                .clone()
                .requires_grad_(self.units.differentiable(key))
                for key in self.units.reads(units)
            }
            inputs.append(given)
            made.append(self.units.run(units, leaves, given, data))
            self.values.update({(low, unit): x.detach() for unit, x in made[-1].items()})
        self.losses.append(sum(float(part[self.last].detach()) for part in made if self.last in part))
        if not self.case.shape.training:
            return [{} for _ in used]
        if moves:
            self._turn_back(used, weights, low)
        found: list[Weights] = [{} for _ in used]
        outside = {unit for given in inputs for unit in given}
        for s in reversed(range(len(used))):
            keys = [key for key in made[s] if key in outside and made[s][key].requires_grad]
            known = {} if guessed else self.slopes
            came = [known.get((source, key), torch.zeros_like(made[s][key])) for key in keys]
            loss = [made[s][self.last]] if self.last in made[s] else []
            roots = [*(made[s][key] for key in keys), *loss]
            inner = {str(key): x for key, x in inputs[s].items() if x.requires_grad}
            wanted = {**weights[s], **inner}
            slopes: Iterable[torch.Tensor | None] = torch.autograd.grad(
                roots, list(wanted.values()), [*came, *[None] * len(loss)], allow_unused=True
            )
            for name, g in zip(wanted, slopes, strict=True):
                if g is not None and name in weights[s]:
                    found[s][name] = g
                elif g is not None:
                    key = (low, int(name))
                    self.slopes[key] = self.slopes[key] + g if key in self.slopes else g
        return found

    def _read(self, piece: Piece, op: str, sample: int, first: Piece) -> Weights:
        """Return the weights that an action reads, as its rule defines them."""
        if not self.case.shape.training:
            return self.weights[piece][0]
        version = self.books.version(piece, op, sample, first)
        weights, rule = self.weights[piece][version], self.case.order.read_rule
        if rule.name != "predicted":
            return weights
        ahead = (rule.parameter,) * 2
        if rule.horizons:
            ahead = rule.horizons[self.books.sections[piece.section].stage]
        slope, rate = self.directions[piece][version], self.case.learning_rate
        return {
            n: predict(w.detach(), slope[n], rate, ahead[op == "B"]).to(w.dtype) for n, w in weights.items()
        }

    # -- updates ----------------------------------------------------------------------------------

    def _update(self, piece: Piece, span: Span) -> None:
        """Make a new version: every parameter by its rule, from the gradients of the updates up to this."""
        fresh = {name: w.detach().clone().requires_grad_() for name, w in self.weights[piece][-1].items()}
        for name in fresh:
            rule, sequence = self.rules[name], self.books.updates[name]
            reached = sequence.index(span) + 1
            if rule.exchanges == GRADIENTS:
                for count in range(self.taken[piece, name] + 1, max(0, reached - rule.delay) + 1):
                    if count % rule.period == 0:
                        self._step(piece, fresh, name, sequence[count - 1], received=True)
                self.taken[piece, name] = max(0, reached - rule.delay)
            kept = rule.exchanges == WEIGHTS or reached % rule.period > 0
            if kept or reached <= rule.delay:
                self._step(piece, fresh, name, span, own=kept)
        self.weights[piece].append(fresh)
        self.directions[piece].append(self._directions(piece, fresh))
        self.done[piece] += 1
        self._forget_sums(piece, span)

    def _directions(self, piece: Piece, weights: Weights) -> Weights:
        if not self.predicts:
            return {}
        return {name: self.optimizers[piece].direction(name, w).clone() for name, w in weights.items()}

    def _mean(self, name: str, span: Span) -> torch.Tensor | None:
        """Return a parameter's mean gradient over all samples of an update, whoever worked on them."""
        holders = self.books.holders[name]
        found = [self.own[p, name, span] for p in holders if (p, name, span) in self.own]
        return sum(found[1:], found[0]) / (span[1] - span[0]) if found else None

    def _step(
        self,
        piece: Piece,
        weights: Weights,
        name: str,
        span: Span,
        *,
        received: bool = False,
        own: bool = False,
    ) -> None:
        """Update a parameter by what its rule makes of the gradients of an update."""
        mean = self._mean(name, span) if received else None
        total = self.own.get((piece, name, span)) if own else None
        alone = None if total is None else total / self.worked[piece, span]
        state = self.states.get((piece, name))
        made, self.states[piece, name] = self.rules[name].gradient(weights[name].detach(), alone, mean, state)
        if made is not None:
            self.largest = max(self.largest, float(made.abs().max()) if made.numel() else 0.0)
            if piece in self.wanted:
                self.gradients[piece, name, span] = made
            self.optimizers[piece].step(weights, {name: made})

    def _average(self) -> None:
        """Average the weights of parameters all of whose holders have made an update that an average
        follows.
        """
        for name, pieces in self.books.holders.items():
            rule = self.rules[name]
            if rule.exchanges != WEIGHTS:
                continue
            count = min(self.done[piece] for piece in pieces)
            if count == self.averaged[name] or count % rule.period:
                continue
            self.averaged[name] = count
            rounds = rule.partners(len(pieces)) if rule.partners else ((tuple(range(len(pieces))),),)
            exchange = count // rule.period - 1
            for members in rounds[exchange % len(rounds)] if rounds else ():
                self._average_over(name, [pieces[i] for i in members], count)

    def _average_over(self, name: str, pieces: list[Piece], count: int) -> None:
        """Give some pieces the mean of their weights after so many updates, by the samples each worked on."""
        span, rule = self.books.updates[name][count - 1], self.rules[name]
        parts = [self.weights[p][count][name].detach() * self.worked[p, span] for p in pieces]
        mean = sum(parts[1:], parts[0]) / sum(self.worked[p, span] for p in pieces)
        for piece in pieces:
            held, state = self.weights[piece][count][name].data, self.states.get((piece, name))
            new, self.states[piece, name] = rule.average(held.clone(), None, mean, state)
            held.copy_(new)

    def _update_rest(self, piece: Piece) -> None:
        """Apply what is still under way when the last update has been made."""
        for name in self.weights[piece][-1]:
            rule, sequence = self.rules[name], self.books.updates[name]
            if rule.exchanges == WEIGHTS or not self.books.workers[piece].spans:
                continue
            for count in range(self.taken[piece, name] + 1, len(sequence) + 1):
                if count % rule.period == 0:
                    self._step(piece, self.weights[piece][-1], name, sequence[count - 1], received=True)


def _merged(weights: list[Weights]) -> Weights:
    """Return the weights of all sections; of those that several have, the first section's."""
    found: Weights = {}
    for leaves in weights:
        found = {**leaves, **found}
    return found


def _nudged(weight: torch.Tensor) -> torch.Tensor:
    """Return a weight whose entries are a rounding larger or smaller."""
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, weight.shape, generator=generator).mul_(2).sub_(1).to(weight)
    moved = weight.detach() * (1 + signs * torch.finfo(weight.dtype).eps)
    return moved.requires_grad_(weight.requires_grad)
