"""Compute: the backend of a real run, with units forward and backward on the weights that a rank holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

from explorer.actions import RECOMPUTE
from explorer.base.errors import InputError, RunError
from explorer.run.ranks.clocks import settle
from explorer.run.ranks.handing import Handing
from explorer.run.ranks.held_weights import HeldWeights
from explorer.run.ranks.kept import HostLine, Kept
from explorer.run.ranks.lane import Gather, LaneTask, RankLanes, Transfer
from explorer.run.ranks.mailbox import Mailbox
from explorer.run.ranks.packing import empty, tensors_of
from explorer.run.ranks.split_backward import input_half, run_cut, weight_half
from explorer.run.ranks.sweeps import Interval, first_guess
from explorer.run.spec import RunCase
from explorer.tasks.placement import Piece


class Compute(HeldWeights):
    """Everything one rank computes of a case."""

    def __init__(self, case: RunCase, lanes: RankLanes, lane: int, device: torch.device) -> None:
        super().__init__(case, lanes, lane, device)
        self.handing = Handing(self.skeleton, self.pieces)
        self.into = self._flows_into()
        self.split = {task.piece for task in self.plans[lane].tasks if task.op == "I"}
        moves = [item for items in self.plans[lane].gathers for item in items if item.moved]
        self.moves = {item.task: item for item in moves}
        self.moving = {item.piece for item in moves}
        self.host_line = HostLine(device)
        samples = lanes.program.order.steps * lanes.sweeps.batch_samples
        data = self.units.samples(0, samples, device)
        self.data = {name: lanes.sweeps.rows(rows) for name, rows in data.items()}

    def reset(self) -> None:
        """Go back to the initial weights, with nothing under way."""
        super().reset()
        self.forwards, self.backwards, self.outbox = Mailbox(), Mailbox(), Mailbox()
        self.saved: dict[tuple[Piece, int], Any] = {}
        self.tables: dict[tuple[Piece, int], tuple[tuple[torch.Tensor, torch.Tensor], ...]] = {}
        self.kept: dict[tuple[Piece, int], Kept] = {}
        self.losses: list[float] = []

    def _flows_into(self) -> dict[int, dict[int, int]]:
        """Return, per section: key of what is read from outside -> flow that brings it."""
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for f, flow in enumerate(self.skeleton.flows):
            for target in flow.targets:
                for key in self.case.flow_units[f]:
                    found[target][key] = f
        return found

    # -- messages ---------------------------------------------------------------------------------

    def _keys(self, item: Transfer) -> list[int]:
        """List the keys of what a message carries: gradients come back for some only."""
        keys = self.case.flow_units[item.flow]
        return [key for key in keys if not item.backward or self.units.differentiable(key)]

    def _blank(self, key: int, interval: Interval) -> torch.Tensor:
        return self.units.blank(key, interval[1] - interval[0], self.device)

    def message(self, item: Transfer) -> torch.Tensor:
        """Join the rows of all that a flow carries."""
        if item.flow < 0:
            return torch.zeros(1, device=self.device)
        box = self.backwards if item.backward else self.outbox
        parts = [box.take((item.flow, key), item.interval) for key in self._keys(item)]
        return self.sent.packed(parts, backward=item.backward)

    def buffer(self, item: Transfer) -> torch.Tensor:
        """Make a buffer for such a message."""
        if item.flow < 0:
            return torch.zeros(1, device=self.device)
        return empty([self._blank(key, item.interval) for key in self._keys(item)])

    def deliver(self, item: Transfer, message: torch.Tensor) -> None:
        """Put a message where its readers look for it."""
        if item.flow < 0:
            return
        keys = self._keys(item)
        parts = tensors_of(message, [self._blank(key, item.interval) for key in keys])
        for key, rows in zip(keys, parts, strict=True):
            if item.backward:
                self.backwards.put((item.flow, key), item.interval, rows)
            else:
                for target in self.skeleton.flows[item.flow].targets:
                    self.forwards.put((item.flow, target, key), item.interval, rows)

    def gather(self, item: Gather) -> None:
        """Begin to move what microbatches keep to the host, or back.

        Raises:
            InputError: weights are gathered: those that are sharded run in `ShardedCompute`.
        """
        if not item.moved:
            raise InputError("weights of a rank for itself are whole", key="zero", allowed="0")
        for number in item.moved:
            kept = self.kept[item.piece, number]
            kept.fetch() if item.back else kept.send()

    def gathered(self, task: int) -> None:
        """Wait for a move; what has gone to the host gives its memory back."""
        item = self.moves[task]
        for number in item.moved:
            kept = self.kept[item.piece, number]
            kept.arrive() if item.back else kept.leave()

    # -- compute ----------------------------------------------------------------------------------

    def compute(self, task: LaneTask) -> None:
        """Run one task."""
        if task.op == "U":
            self._update(task.piece, task.span)
        else:
            run = {
                "F": self._forward,
                "B": self._backward,
                "I": self._input_grad,
                "W": self._weight_grad,
                RECOMPUTE: self._recompute,
            }
            for number in task.numbers:
                run[task.op](task.piece, number)
        settle(self.device)

    def _forward(self, piece: Piece, number: int) -> None:
        interval = self._interval(piece, number)
        again = self.skeleton.sections[piece.section].full_recompute
        inputs = {}
        for key, flow in self.into[piece.section].items():
            rows = self._boundary(self.forwards, (flow, piece.section, key), interval)
            back = self.skeleton.flows[flow].gradient and self.units.differentiable(key)
            inputs[key] = rows.requires_grad_(self.training and back)
        kept = self._keep(piece, number)
        with torch.set_grad_enabled(self.training and not again), kept.saving() if kept else nullcontext():
            made = self._run_units(piece, number, interval, inputs)
        # a backward begins at the outputs' places in the graph; a split one detaches the outputs themselves
        ends = made if piece in self.split else _ends(made)
        self.saved[piece, number] = (inputs, None if again else ends)
        if kept:
            tables = self.tables.get((piece, number), ())
            own = made.values() if piece in self.split and not again else ()
            kept.add([*inputs.values(), *own, *(t for pair in tables for t in pair)])
        if self.units.loss in made:
            self.losses.append(float(made[self.units.loss].detach()))
        self._hand_on(piece, interval, made)

    def _recompute(self, piece: Piece, number: int) -> None:
        """Make again what the backward reads, which then finds it."""
        inputs, _ = self.saved[piece, number]
        made = self._run_units(piece, number, self._interval(piece, number), inputs)
        self.saved[piece, number] = (inputs, made)

    def _keep(self, piece: Piece, number: int) -> Kept | None:
        """Begin to keep what a forward saves, if the piece's activations move; its weights and data stay."""
        if piece not in self.moving:
            return None
        staying = [*self._read(piece, number, "F").values(), *self.data.values()]
        self.kept[piece, number] = Kept(staying, self.host_line)
        return self.kept[piece, number]

    def _boundary(self, box: Mailbox, key: tuple[int, ...], interval: Interval) -> torch.Tensor:
        """Take what neighbours left for some samples; the first guess where nothing was made before."""
        source = self.lanes.sweeps.source(interval)
        if source is not None:
            return box.take(key, source).detach()
        if box is self.backwards:
            return torch.zeros_like(self._blank(key[-1], interval))
        return self._guess(key[-1], interval)

    def _guess(self, key: int, interval: Interval) -> torch.Tensor:
        """Return what stands for the values of a boundary before any were computed."""
        return first_guess(self._blank(key, interval))

    def _run_units(
        self, piece: Piece, number: int, interval: Interval, inputs: dict[int, torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        # what a backward recomputes it computes with the weights that its forward read (see `find_reads`)
        weights = self._read(piece, number, "F")
        data = {name: rows[interval[0] : interval[1]] for name, rows in self.data.items()}
        units = self.case.sections[piece.section]
        if piece not in self.split or not torch.is_grad_enabled():
            return self._run_blocks(piece.section, weights, inputs, data)
        made, self.tables[piece, number] = run_cut(self.units, units, weights, inputs, data)
        return made

    def _run_blocks(
        self,
        section: int,
        weights: Mapping[str, torch.Tensor],
        inputs: Mapping[int, torch.Tensor],
        data: Mapping[str, torch.Tensor],
    ) -> dict[int, torch.Tensor]:
        """Run the units of a section: at once, or in parts where its backward makes single blocks again."""
        units = self.case.sections[section]
        blocks = self.case.again[section] if self.case.again else ()
        if not blocks or not torch.is_grad_enabled():
            return self.units.run(units, weights, inputs, dict(data))
        known, block_of = dict(inputs), {unit: i for i, block in enumerate(blocks) for unit in block}
        for block, part in groupby(units, key=lambda unit: block_of.get(unit, -1)):
            own = tuple(part)
            outside = {key: known[key] for key in self.units.reads(own) if key in known}
            run = partial(self.units.run, own, weights, outside, dict(data))
            known |= run() if block < 0 else checkpoint(run, use_reentrant=False)
        flows = zip(self.skeleton.flows, self.case.flow_units, strict=True)
        read = {key for flow, keys in flows if flow.source == section for key in keys}
        return {key: made for key, made in known.items() if key in read or key == self.units.loss}

    def _hand_on(self, piece: Piece, interval: Interval, made: dict[int, torch.Tensor]) -> None:
        """Pass outputs to sections on this lane directly, to others through the outbox."""
        if not self.lanes.sweeps.is_read(interval):
            return
        for f, flow in enumerate(self.skeleton.flows):
            if flow.source == piece.section:
                rows = {key: made[key].detach() for key in self.case.flow_units[f]}
                self.handing.hand_on(f, piece.copy, interval, rows, self.forwards, self.outbox)

    def _roots(self, piece: Piece, number: int) -> tuple[Any, list[Any], list[torch.Tensor | None]]:
        """Return saved inputs, the outputs to differentiate or their places in the graph, and the gradients
        that came back for them.
        """
        inputs, made = self.saved.pop((piece, number))
        moving = self.kept.pop((piece, number), None)
        if moving is not None and not moving.is_here:
            raise RunError(f"the backward of microbatch {number} finds its activations on the host")
        interval = self._interval(piece, number)
        if made is None:
            made = self._run_units(piece, number, interval, inputs)
        came: dict[int, torch.Tensor] = {}
        for f, flow in enumerate(self.skeleton.flows):
            if flow.source == piece.section and flow.gradient:
                for key in filter(self.units.differentiable, self.case.flow_units[f]):
                    rows = self._boundary(self.backwards, (f, key), interval)
                    came[key] = came[key] + rows if key in came else rows
        loss = [made[self.units.loss]] if self.units.loss in made else []
        kept = [key for key in came if made[key] is not None and getattr(made[key], "requires_grad", True)]
        outputs = [*(made[key] for key in kept), *loss]
        return inputs, outputs, [*(came[key] for key in kept), *(None for _ in loss)]

    def _backward(self, piece: Piece, number: int) -> None:
        if piece in self.split:  # its graph is cut, for others of its microbatches
            self._input_grad(piece, number, "B")
            self._weight_grad(piece, number)
            return
        inputs, outputs, came = self._roots(piece, number)
        wanted = [u for u, x in inputs.items() if x.requires_grad]
        weights = self._weights(piece, number, "B")
        found = torch.autograd.grad(
            outputs, [*(inputs[u] for u in wanted), *weights.values()], came, allow_unused=True
        )
        self._send_back(piece, number, dict(zip(wanted, found, strict=False)))
        sent, own = found[: len(wanted)], found[len(wanted) :]
        self._add(piece, number, dict(zip(weights, own, strict=True)), [*sent, *came])

    def _input_grad(self, piece: Piece, number: int, op: str = "I") -> None:
        inputs, outputs, came = self._roots(piece, number)
        wanted = [u for u, x in inputs.items() if x.requires_grad]
        found, waiting = input_half(
            outputs, came, [inputs[u] for u in wanted], self._weights(piece, number, op),
            self.tables.pop((piece, number), ()),
        )  # fmt: skip
        self._send_back(piece, number, dict(zip(wanted, found, strict=True)))
        self.saved[piece, number] = waiting

    def _weight_grad(self, piece: Piece, number: int) -> None:
        self._add(piece, number, weight_half(self.saved.pop((piece, number))))

    def _send_back(self, piece: Piece, number: int, found: Mapping[int, torch.Tensor | None]) -> None:
        interval = self._interval(piece, number)
        for key, rows in found.items():
            if self.lanes.sweeps.is_read(interval):
                given = torch.zeros_like(self._blank(key, interval)) if rows is None else rows
                self.backwards.put((self.into[piece.section][key], key), interval, given)

    # -- result -----------------------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """Return losses and versions seen, and if requested the squares of the first update's gradients."""
        self._apply_rest()
        found: dict[str, Any] = {
            "losses": self.losses,
            "versions": max(self.most_versions.values()),
            "sent": self.sent.record(),
            "left": self.forwards.size + self.backwards.size + len(self.saved),
        }
        if self.case.check:
            found["squares"] = {
                name: float((g.double() ** 2).sum())
                for (name, span), g in self.applied.items()
                if span[0] == 0
            }
        return found


def _ends(made: Mapping[int, torch.Tensor]) -> dict[int, Any]:
    """Return where a backward begins: the outputs' places in the graph, so that their values need not stay.

    Numbers (the loss) stay as they are; an output that has no gradient has no place.
    """
    return {
        key: rows if not rows.dim() else get_gradient_edge(rows) if rows.requires_grad else None
        for key, rows in made.items()
    }
