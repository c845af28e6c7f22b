"""Weights that one rank holds: their versions, gradients collected for each update, exchanges and updates.

Gradients are sums over samples; the `U` that applies them divides by the samples it names. So the numbers are
equal up to rounding, whatever the microbatches, replicas and order are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.distributed as dist

from explorer.base.errors import InputError
from explorer.run.cases.weight_reads import find_reads
from explorer.run.ranks.allocated import wait_until_let_go
from explorer.run.ranks.group_parameters import group_parameters
from explorer.run.ranks.lane import RankLanes, Reduction
from explorer.run.ranks.mixed import gradient_type, summed
from explorer.run.ranks.modules import Weights
from explorer.run.ranks.optimizers import Optimizer
from explorer.run.ranks.sent import Sent
from explorer.run.ranks.sweeps import Interval
from explorer.run.ranks.units import Units, units_of
from explorer.run.spec import RunCase
from explorer.tasks.placement import Piece
from explorer.updates import PLAIN, WEIGHTS, rule_of

Gradients = dict[str, torch.Tensor]


class HeldWeights:
    """The weights of one rank's pieces in a case, and what is done with them but for computing."""

    reduce_op: Any = dist.ReduceOp.SUM

    def __init__(self, case: RunCase, lanes: RankLanes, lane: int, device: torch.device) -> None:
        if case.model is None:
            raise InputError(f"case {case.name!r} has no model", key="model", found=None, allowed="a model")
        self.case, self.model, self.lanes, self.lane, self.device = case, case.model, lanes, lane, device
        self.units = self._open_units()
        self.gradient_dtype = gradient_type(self.model)
        self.skeleton = lanes.program.skeleton
        self.plans = [lanes.plan(i) for i in range(len(lanes.program.programs))]
        self.reads = find_reads(lanes, self.plans)
        self.training = lanes.program.shape.training
        self.pieces = tuple(dict.fromkeys(task.piece for task in self.plans[lane].tasks))
        self.names = {piece: self._names(piece.section) for piece in self.pieces}
        self.group_names = self._group_names()
        self.rules = [rule_of(group.update) for group in self.skeleton.holders]
        grouped = [
            set(self.group_names[g])
            for g, h in enumerate(self.skeleton.holders)
            if set(h.pieces) & set(self.pieces)
        ]
        self.grouped = set().union(*grouped)
        self.owner = self._owners()
        self.reset()

    def _open_units(self) -> Units:
        """Return what this rank computes of the model."""
        return units_of(self.model)

    def share(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return what of a parameter, or of its gradient, this rank answers for: all of it."""
        del name
        return whole

    def held(self) -> list[torch.Tensor]:
        """Return the tensors that a round starts with."""
        return list(self.current.values())

    def present(self, name: str) -> torch.Tensor:
        """Return the present values of that."""
        return self.current[name].detach()

    def reset(self) -> None:
        """Go back to the initial weights, so that every round runs the same numbers."""
        units = sorted({u for piece in self.pieces for u in self.case.sections[piece.section]})
        self.current: Weights = self.units.weights(units, self.device)
        self.sent = Sent()
        self.optimizer = Optimizer(self.case.optimizer, self.case.learning_rate)
        self.versions: dict[Piece, dict[int, Weights]] = {
            piece: {0: {name: self.current[name] for name in self.names[piece]}} for piece in self.pieces
        }
        self.working: dict[Piece, Weights] = {}
        self.states: dict[str, Any] = {}
        self.made = dict.fromkeys(self.pieces, 0)
        self.most_versions = dict.fromkeys(self.pieces, 1)
        self.unread: dict[Piece, list[int]] = {
            piece: sorted(self.reads.version[piece]) for piece in self.pieces
        }
        self.sums: dict[tuple[Piece, Interval], Gradients] = defaultdict(dict)
        self.pending: dict[Piece, list[tuple[int, Interval, Gradients]]] = defaultdict(list)
        self.applied: dict[tuple[str, Interval], torch.Tensor] = {}

    def make_states(self) -> None:
        """Make the optimizer's states, which all steps of a training but its first find."""
        if self.training and self.case.optimizer != "none":
            self.optimizer.make_states(self._updated())

    def _updated(self) -> Weights:
        """Return what updates change on this rank, by the names of its states."""
        return {
            name: self.current[name] for name, piece in self.owner.items()
            if self.skeleton.updates[piece.section]
        }  # fmt: skip

    def _owners(self) -> dict[str, Piece]:
        """Return the piece whose update applies a parameter's gradient: of several on this rank that share
        what no other rank holds the one that updates last, when all have added theirs.
        """
        found: dict[str, Piece] = {}
        for piece in self.pieces:
            for name in self.names[piece]:
                found.setdefault(name, piece)
        for task in self.plans[self.lane].tasks:
            if task.op == "U":
                found.update(
                    {name: task.piece for name in self.names[task.piece] if name not in self.grouped}
                )
        return found

    def _names(self, section: int) -> tuple[str, ...]:
        return self.model.parameters_of(self.case.sections[section])

    def _group_names(self) -> list[tuple[str, ...]]:
        """Return the parameters that each holders group adds up."""
        return group_parameters(self.case, self.skeleton)

    def _interval(self, piece: Piece, number: int) -> Interval:
        return self.skeleton.sections[piece.section].interval(piece.replica, number)

    # -- versions and gradients -----------------------------------------------------------------------

    def _weights(self, piece: Piece, number: int, op: str) -> Weights:
        """Return the weights of a backward: the tensors of its forward, filled with the values read now."""
        if not self.skeleton.updates[piece.section]:
            return {}
        return self._read(piece, number, op)

    def _read(self, piece: Piece, number: int, op: str) -> Weights:
        """Return the weights of a version; updated ones in a working copy that all microbatches of the piece
        share.
        """
        reads = self.reads
        version = reads.version[piece][number] if op == "F" else reads.backward[piece][op, number]
        weights = self.versions[piece][version]
        reading = self.reads.reading
        if reading.make is None or reading.horizon is None:
            return weights
        ahead = reading.horizon(self.skeleton.sections[piece.section].stage, op)
        work = self.working.setdefault(
            piece, {n: torch.empty_like(w).requires_grad_() for n, w in weights.items()}
        )
        for name, w in weights.items():
            direction = self.optimizer.direction(name, w)
            work[name].data.copy_(reading.make(w.data, direction, self.optimizer.learning_rate, ahead))
        return work

    def _add(
        self,
        piece: Piece,
        number: int,
        found: Mapping[str, torch.Tensor | None],
        beside: Iterable[torch.Tensor | None] = (),
    ) -> None:
        """Add a microbatch's gradient to the sum of the update that applies it.

        `beside`: other gradients of the same backward; what shares memory with one of them is copied.
        """
        low = self._interval(piece, number)[0]
        spans = self.reads.updates.get(piece, ())
        span = next((item for item in spans if item[0] <= low < item[1]), None)
        if self.unread[piece]:
            self.unread[piece].remove(number)
        if span is None:
            return
        total = self.sums[piece, span]
        fresh = {name: g for name, g in found.items() if g is not None}
        known = [name for name in fresh if name in total]
        if known:
            torch._foreach_add_([total[name] for name in known], [fresh[name] for name in known])
        new = {name: g for name, g in fresh.items() if name not in known}
        if self.gradient_dtype is None:
            total.update(unshared(new, beside))
        else:  # in memory of its own, as it is another data type
            total.update({name: summed(g, self.gradient_dtype) for name, g in new.items()})

    # -- exchanges and updates ------------------------------------------------------------------------

    def contribution(self, item: Reduction) -> torch.Tensor:
        """Return what this rank adds to an exchange, flat: its gradients over the samples named, or its
        weights.

        Gradients are zeros if this rank has none; weights count by the share of samples worked on.
        """
        parts = []
        averaged = self.rules[item.group].exchanges == WEIGHTS
        members = self._members(item.group)
        everyone = self.skeleton.holders[item.group].pieces
        worked = max(1, sum(self._own_samples(p, item.span) for p in everyone))
        share = sum(self._own_samples(p, item.span) for p in members) / worked
        for name in self.group_names[item.group]:
            if averaged:
                total = self.current[name] * share
            else:
                own = [self.sums[p, item.span].pop(name, None) for p in members]
                given = [g for g in own if g is not None]
                total = sum(given[1:], given[0]) if given else self._no_gradient(name)
            parts.append(total.detach().reshape(-1))
        return self.sent.exchanged(len(item.ranks), torch.cat(parts))

    def _no_gradient(self, name: str) -> torch.Tensor:
        like = self.current[name]
        return torch.zeros_like(like, dtype=self.gradient_dtype or like.dtype)

    def _members(self, group: int) -> list[Piece]:
        return [piece for piece in self.skeleton.holders[group].pieces if piece in self.names]

    def _own_samples(self, piece: Piece, span: Interval) -> int:
        """Count the samples of an update that a piece worked on."""
        size = self.skeleton.sections[piece.section].microbatch_samples
        numbers = self.reads.version[piece].keys() & set(range(span[0] // size, -(-span[1] // size)))
        return sum(high - low for low, high in (self._interval(piece, n) for n in numbers))

    def reduced(self, item: Reduction, total: torch.Tensor) -> None:
        """Keep a sum for the next update of the piece that owns these parameters; take over averages."""
        if self.case.count_bytes:
            wait_until_let_go(total)
        found, start = {}, 0
        for name in self.group_names[item.group]:
            like = self.current[name]
            found[name] = total[start : start + like.numel()].view_as(like)
            start += like.numel()
        if self.rules[item.group].exchanges == WEIGHTS:
            for name, mean in found.items():
                held = self.current[name].data
                new, self.states[name] = self.rules[item.group].average(
                    held, None, mean, self.states.get(name)
                )
                held.copy_(new)
        elif found:
            self.pending[self.owner[next(iter(found))]].append((item.group, item.span, found))

    def _update(self, piece: Piece, span: Interval) -> None:
        """Make a new version: apply what was exchanged, in sequence, then what only this rank holds."""
        entries = self.pending.pop(piece, [])
        self._new_version(piece)
        waiting = {
            g for g, names in enumerate(self.group_names) if names and self.owner.get(names[0]) == piece
        }
        own = {g: self._own(span, g) for g in waiting}
        for group, covered, gradients in entries:
            self._apply_by_rule(group, covered, own[group], gradients)
            waiting.discard(group)
        for group in sorted(waiting):
            self._apply_by_rule(group, span, own[group], None)
        self._apply_sums(span, self._alone(piece, span))
        self._forget(piece)

    def _own(self, span: Interval, group: int) -> Gradients:
        """Return the mean gradients of a group over this rank's own samples, unless they were sent away."""
        members = self._members(group)
        sums: Gradients = {}
        for name in self.group_names[group]:
            for member in members:
                g = self.sums[member, span].pop(name, None)
                if g is not None:
                    sums[name] = sums[name] + g if name in sums else g
        samples = sum(self._own_samples(member, span) for member in members)
        return self._mean(sums, (0, samples))

    def _alone(self, piece: Piece, span: Interval) -> Gradients:
        """Return the gradient sums of a piece's parameters that no other rank holds."""
        alone: Gradients = {}
        for other in self.pieces:
            sums = self.sums[other, span]
            for name in [n for n in sums if self.owner[n] == piece and n not in self.grouped]:
                g = sums.pop(name)
                alone[name] = alone[name] + g if name in alone else g
        return alone

    def _apply_by_rule(
        self, group: int, covered: Interval, own: Gradients, received: Gradients | None
    ) -> None:
        """Apply the gradients of one group as its rule makes them."""
        if received is not None and self.skeleton.holders[group].update == PLAIN:
            self._apply_sums(covered, received)
            return
        mean = None if received is None else self._mean(received, covered)
        made: Gradients = {}
        for name in self.group_names[group]:
            gradient, self.states[name] = self.rules[group].gradient(
                self.current[name].data, own.get(name), mean and mean[name], self.states.get(name)
            )
            if gradient is not None:
                made[name] = gradient
        self._apply(covered, made)

    def _new_version(self, piece: Piece) -> None:
        """Make the weights that this update may write: the same ones, or copies if older ones are still
        read.
        """
        self.made[piece] += 1
        held = self.versions[piece]
        mine = [name for name in self.names[piece] if self.owner[name] == piece]
        if self.reads.several:
            for name in mine:
                self.current[name] = self.current[name].detach().clone().requires_grad_()
        held[self.made[piece]] = {name: self.current[name] for name in self.names[piece]}

    @staticmethod
    def _mean(sums: Gradients, span: Interval) -> Gradients:
        """Divide sums by the samples of an update, in place: nothing reads them any more."""
        if sums:
            torch._foreach_div_(list(sums.values()), span[1] - span[0])
        return sums

    def _apply_sums(self, span: Interval, sums: Gradients) -> None:
        """Hand sums of gradients to the optimizer, which divides them; the comparison wants the means."""
        if self.case.check:
            self._apply(span, self._mean(sums, span))
        else:
            self.optimizer.step(self.current, sums, span[1] - span[0])

    def _apply(self, span: Interval, gradients: Gradients) -> None:
        """Hand mean gradients to the optimizer."""
        if self.case.check:
            self.applied.update({(name, span): g for name, g in gradients.items()})
        self.optimizer.step(self.current, gradients)

    def _forget(self, piece: Piece) -> None:
        """Drop the versions that no later microbatch reads and no buffer holds."""
        held, read, back = self.versions[piece], self.reads.version[piece], self.reads.backward[piece]
        made, left = self.made[piece], self.unread[piece]
        needed = set(range(made - self.reads.reading.buffers + 1, made + 1))
        needed.update(read[n] for n in left)
        needed.update(back[op, n] for n in left for op in "BIW" if (op, n) in back)
        for version in [v for v in held if v not in needed]:
            del held[version]
        # versions updated in place are one and the same tensors
        apart = {id(tensor) for weights in held.values() for tensor in list(weights.values())[:1]}
        self.most_versions[piece] = max(self.most_versions[piece], len(apart))

    def _apply_rest(self) -> None:
        """Apply what was exchanged after the last update."""
        for piece, entries in list(self.pending.items()):
            self._new_version(piece)
            for group, span, gradients in entries:
                self._apply_by_rule(group, span, {}, gradients)
        self.pending.clear()


def unshared(gradients: Gradients, beside: Iterable[torch.Tensor | None]) -> Gradients:
    """Return gradients to which others can be added in place: each in memory of its own.

    Autograd may return one tensor for several weights, or for what is sent beside them, or one whose elements
    share memory (`expand`).
    """
    taken = {g.untyped_storage().data_ptr() for g in beside if g is not None}
    found: Gradients = {}
    for name, g in gradients.items():
        at = g.untyped_storage().data_ptr()
        folded = any(step == 0 and size > 1 for step, size in zip(g.stride(), g.shape, strict=True))
        again = folded or at in taken
        found[name] = g.clone(memory_format=torch.contiguous_format) if again else g
        taken.add(at)
    return found
