"""Backend of a sharded run: the plan's own layers on lanes of several ranks, in the interpreter's order.

It computes forwards, backwards (whole or in halves) and updates of orders with flushes on this rank's pieces.
Weights are those of the plan's layers by name; groups of replicas add gradients up, or scatter them (ZeRO 1
to 3, HSDP). With full recomputation a backward makes its forward again, collectives included; offloaded
activations are on the host between the two.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.run.ranks.handing import Handing
from explorer.run.ranks.lane import Gather, LaneTask, RankLanes, Reduction, Transfer
from explorer.run.ranks.mailbox import Mailbox
from explorer.run.ranks.optimizers import Optimizer
from explorer.run.ranks.split_backward import Waiting, input_half, weight_half
from explorer.run.ranks.sweeps import Interval
from explorer.run.sharded.execution import Made, ShardedExecution
from explorer.run.sharded.flat_weights import FlatWeights, ShardLines
from explorer.run.sharded.lanes import LanePlace
from explorer.sharding.stage import Request
from explorer.tasks.placement import Piece, PlacedStrategy
from explorer.updates import PLAIN

DTYPES = {"fp32": torch.float32, "fp64": torch.float64, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedModel:
    """What a sharded run computes."""

    graph: LayerGraph
    """The plan's model."""
    placement: PlacedStrategy
    """The plan's strategy, resolved."""
    request: Request
    """Layout, mesh axes and exceptions of every stage."""
    weight: Callable[[str], torch.Tensor]
    """Initial value of a parameter, whole; the same on every rank."""
    sample: Callable[[str, int, int], torch.Tensor]
    """Samples [low, high) of an input of the model, whole."""
    dtype: str = "fp32"
    """Data type of the compute."""
    optimizer: str = "sgd"
    """Optimizer."""
    learning_rate: float = 0.05
    """Its learning rate."""
    options: Mapping[str, Mapping[str, Any]]
    """Per layer what the graph does not say."""
    offload: frozenset[int] = frozenset()
    """Sections whose activations are offloaded."""


class _Saved(NamedTuple):
    """What a forward leaves for its backward."""

    inputs: dict[str, torch.Tensor]
    made: dict[str, Made] | None


class ShardedBackend:
    """Everything one rank of a lane computes; see `explorer.run.ranks.interpreter.Backend`.

    Args:
        model: the plan's layers and how they are laid out.
        lanes: plans of the lanes.
        where: this rank's lane, place and mesh.

    Raises:
        InputError: an order or an update rule that it cannot run.
    """

    reduce_op: Any = dist.ReduceOp.SUM

    def __init__(self, model: ShardedModel, lanes: RankLanes, where: LanePlace) -> None:
        self.model, self.lanes, self.where = model, lanes, where
        self.skeleton = model.placement.skeleton
        self.plan = lanes.plan(where.lane)
        check_order(lanes)
        self.pieces = tuple(dict.fromkeys(task.piece for task in self.plan.tasks))
        self.handing = Handing(self.skeleton, self.pieces)
        self.names = {
            s: tuple(model.graph.layers[i].name for i in layers.tolist())
            for s, layers in enumerate(model.placement.layers)
        }
        tensors = model.graph.tensors
        self.flows = [tuple(tensors[t].name for t, _ in items) for items in model.placement.flow_tensors]
        self.producer = model.graph.producer
        self._executions: dict[tuple[int, int], ShardedExecution] = {}
        self.parameters = {p.section: tuple(self._execution(p.section, 1).uses) for p in self.pieces}
        self.groups = self._groups()
        self.zero = self._flat_weights()
        self._last_reader = self._releases()
        self.reset()

    def _execution(self, section: int, samples: int) -> ShardedExecution:
        key = (section, samples)
        if key not in self._executions:
            self._executions[key] = ShardedExecution(
                self.model.graph, self.model.request, self.where.mesh, samples=samples,
                layers=self.names[section], options=self.model.options,
            )  # fmt: skip
        return self._executions[key]

    # -- weights ----------------------------------------------------------------------------------

    def _groups(self) -> dict[int, tuple[str, ...]]:
        """Return the parameters of the holders groups that this lane is in."""
        names = [item.name for item in self.model.graph.parameters]
        mine = set(self.pieces)
        return {
            g: tuple(names[p] for p in self.model.placement.held[g])
            for g, group in enumerate(self.skeleton.holders)
            if mine & set(group.pieces)
        }

    def _flat_weights(self) -> dict[int, FlatWeights]:
        """Make what is sharded over replicas; every rank makes all process groups in one order."""
        found = {}
        for g, group in enumerate(self.skeleton.holders):
            section = self.skeleton.sections[group.pieces[0].section]
            if not section.zero or section.shards < 2:
                continue
            lanes = [self.lanes.lane_of[piece] for piece in group.pieces]
            k = min(section.shards, len(lanes))
            for place in range(self.where.ranks):
                rows = [
                    [self.where.rank(i, place) for i in lanes[low : low + k]]
                    for low in range(0, len(lanes), k)
                ]
                inner = [dist.new_group(row) if len(row) > 1 else None for row in rows]
                columns = [list(column) for column in zip(*rows, strict=True)]
                outer = [dist.new_group(row) if len(row) > 1 else None for row in columns]
                if place == self.where.place and g in self.groups:
                    row, at = divmod(lanes.index(self.where.lane), k)
                    lines = ShardLines(inner=inner[row], place=at, size=k, outer=outer[at], copies=len(rows))
                    found[g] = FlatWeights(level=section.zero, lines=lines, meter=self.where.mesh.meter)
        return found

    def reset(self) -> None:
        """Go back to the initial weights, with nothing under way."""
        self.weights: dict[str, torch.Tensor] = {}
        dtype = DTYPES[self.model.dtype]
        for piece in self.pieces:
            run = self._execution(piece.section, 1)
            for name in self.parameters[piece.section]:
                if name not in self.weights:
                    value = run.cut_weight(name, self.model.weight(name)).to(dtype).contiguous()
                    self.weights[name] = value.clone().requires_grad_()
        for g, flat in self.zero.items():
            flat.fill({name: self.weights[name] for name in self.groups[g]})
            self.weights.update(flat.weights)
        self.optimizer = Optimizer(self.model.optimizer, self.model.learning_rate)
        self.forwards, self.backwards, self.outbox = Mailbox(), Mailbox(), Mailbox()
        self.saved: dict[tuple[Piece, int], _Saved] = {}
        self.halves: dict[tuple[Piece, int], Waiting | tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        self.sums: dict[str, torch.Tensor] = {}
        self.under_way: dict[int, deque[tuple[Any, torch.Tensor, torch.Tensor]]] = defaultdict(deque)
        self.gathering: dict[int, list[Any]] = {}
        self.received: dict[str, torch.Tensor] = {}
        self.applied: dict[tuple[str, Interval], torch.Tensor] = {}
        self.losses: list[float] = []

    def _zero_of(self, piece: Piece) -> list[FlatWeights]:
        return [flat for g, flat in self.zero.items() if piece in self.skeleton.holders[g].pieces]

    def _releases(self) -> dict[int, list[Piece]]:
        """Return, per task, the pieces whose gathered weights nothing reads from then on."""
        found: dict[int, list[Piece]] = defaultdict(list)
        open_at: dict[Piece, int] = {}
        for task in self.plan.tasks:
            if task.op == "U":
                continue
            if task.gathers and task.piece in open_at:
                found[open_at[task.piece]].append(task.piece)
            open_at[task.piece] = task.task
        for piece, last in open_at.items():
            found[last].append(piece)
        return found

    def gather(self, item: Gather) -> None:
        """Begin to gather the weights of a piece."""
        self.gathering[item.task] = [flat.begin_gather() for flat in self._zero_of(item.piece)]

    def gathered(self, task: int) -> None:
        """Wait for a gather of weights."""
        for work in self.gathering.pop(task, ()):
            if work is not None:
                work.wait()

    # -- messages ---------------------------------------------------------------------------------

    def _resting(self, name: str, interval: Interval) -> tuple[int, ...]:
        run = self._execution(self.pieces[0].section, interval[1] - interval[0])
        return run.resting_shape(name)

    def message(self, item: Transfer) -> torch.Tensor:
        """Join the pieces of all tensors of a flow."""
        if item.flow < 0:
            return torch.zeros(1, device=self.where.mesh.device)
        box = self.backwards if item.backward else self.outbox
        parts = [box.take((item.flow, name), item.interval).reshape(-1) for name in self.flows[item.flow]]
        return torch.cat(parts)

    def buffer(self, item: Transfer) -> torch.Tensor:
        """Make a buffer for such a message."""
        if item.flow < 0:
            return torch.zeros(1, device=self.where.mesh.device)
        shapes = [self._resting(name, item.interval) for name in self.flows[item.flow]]
        count = sum(torch.Size(shape).numel() for shape in shapes)
        return torch.empty(count, dtype=DTYPES[self.model.dtype], device=self.where.mesh.device)

    def deliver(self, item: Transfer, message: torch.Tensor) -> None:
        """Put a message where its readers look for it."""
        if item.flow < 0:
            return
        start = 0
        for name in self.flows[item.flow]:
            shape = self._resting(name, item.interval)
            count = torch.Size(shape).numel()
            rows = message[start : start + count].view(shape)
            start += count
            if item.backward:
                self.backwards.put((item.flow, name), item.interval, rows)
            else:
                for target in self.skeleton.flows[item.flow].targets:
                    self.forwards.put((item.flow, target, name), item.interval, rows)

    # -- compute ----------------------------------------------------------------------------------

    def compute(self, task: LaneTask) -> None:
        """Run one task."""
        if task.op == "U":
            self._update(task.piece, task.span)
        else:
            run = {"F": self._forward, "B": self._backward, "I": self._input_grad, "W": self._weight_grad}
            for number in task.numbers:
                run[task.op](task.piece, number)
        for piece in self._last_reader.get(task.task, ()):
            for flat in self._zero_of(piece):
                if flat.level == 3:
                    flat.release()

    def _interval(self, piece: Piece, number: int) -> Interval:
        return self.skeleton.sections[piece.section].interval(piece.replica, number)

    def _inputs(self, piece: Piece, interval: Interval) -> dict[str, torch.Tensor]:
        """Return what the section reads of others, and of the input pipeline."""
        run = self._execution(piece.section, interval[1] - interval[0])
        found = {}
        for f, flow in enumerate(self.skeleton.flows):
            if piece.section in flow.targets:
                for name in self.flows[f]:
                    rows = self.forwards.take((f, piece.section, name), interval).detach()
                    found[name] = rows.requires_grad_(flow.gradient)
        for layer in run.layers:
            for use in layer.reads:
                if use.name not in self.producer and use.name not in found:
                    whole = self.model.sample(use.name, *interval)
                    found[use.name] = run.cut_input(use.name, whole)
        return found

    def _forward(self, piece: Piece, number: int) -> None:
        interval = self._interval(piece, number)
        again = self.skeleton.sections[piece.section].full_recompute
        inputs = self._inputs(piece, interval)
        with torch.set_grad_enabled(not again):
            made = self._run(piece, interval, inputs)
        for name, item in made.items():
            if name not in self.model.graph.consumers:
                self.losses.append(float(item.value.detach().sum()))
        self._hand_on(piece, interval, made)
        self.saved[piece, number] = _Saved(inputs, None if again else made)

    def _run(self, piece: Piece, interval: Interval, inputs: dict[str, torch.Tensor]) -> dict[str, Made]:
        run = self._execution(piece.section, interval[1] - interval[0])
        names = self.parameters[piece.section]
        offloaded = piece.section in self.model.offload
        # weights stay where they are: only what the forward makes goes to the host
        with torch.autograd.graph.save_on_cpu() if offloaded else nullcontext():
            return run.forward(inputs, {name: self.weights[name] for name in names})

    def _hand_on(self, piece: Piece, interval: Interval, made: dict[str, Made]) -> None:
        """Pass outputs to sections on this lane directly, to others through the outbox."""
        for f, flow in enumerate(self.skeleton.flows):
            if flow.source == piece.section:
                rows = {name: made[name].value.detach() for name in self.flows[f]}
                self.handing.hand_on(f, piece.copy, interval, rows, self.forwards, self.outbox)

    def _roots(
        self, piece: Piece, number: int
    ) -> tuple[dict[str, torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        """Return saved inputs, the outputs to differentiate, and the gradients that came back for them."""
        interval = self._interval(piece, number)
        inputs, made = self.saved.pop((piece, number))
        if made is None:
            made = self._run(piece, interval, inputs)
        came: dict[str, torch.Tensor] = {}
        for f, flow in enumerate(self.skeleton.flows):
            if flow.source == piece.section and flow.gradient:
                for name in self.flows[f]:
                    rows = self.backwards.take((f, name), interval)
                    came[name] = came[name] + rows if name in came else rows
        for name, item in made.items():
            if name not in self.model.graph.consumers:
                came[name] = torch.ones_like(item.value)
        return inputs, [made[name].value for name in came], list(came.values())

    def _held(self, piece: Piece) -> dict[str, torch.Tensor]:
        return {name: self.weights[name] for name in self.parameters[piece.section]}

    def _backward(self, piece: Piece, number: int) -> None:
        inputs, outputs, came = self._roots(piece, number)
        wanted = {name: x for name, x in inputs.items() if x.requires_grad}
        weights = self._held(piece)
        found = torch.autograd.grad(outputs, [*wanted.values(), *weights.values()], came, allow_unused=True)
        self._send_back(piece, number, dict(zip(wanted, found, strict=False)))
        self._add(dict(zip(weights, found[len(wanted) :], strict=True)))

    def _input_grad(self, piece: Piece, number: int) -> None:
        """Make the gradients of inputs; a section that has none leaves all of its backward for later."""
        inputs, outputs, came = self._roots(piece, number)
        wanted = {name: x for name, x in inputs.items() if x.requires_grad}
        if not wanted:
            self.halves[piece, number] = (outputs, came)
            return
        found, waiting = input_half(outputs, came, list(wanted.values()), self._held(piece), ())
        self._send_back(piece, number, dict(zip(wanted, found, strict=True)))
        self.halves[piece, number] = waiting

    def _weight_grad(self, piece: Piece, number: int) -> None:
        waiting = self.halves.pop((piece, number))
        if isinstance(waiting, Waiting):
            self._add(weight_half(waiting))
            return
        outputs, came = waiting
        weights = self._held(piece)
        found = torch.autograd.grad(outputs, list(weights.values()), came, allow_unused=True)
        self._add(dict(zip(weights, found, strict=True)))

    def _send_back(self, piece: Piece, number: int, found: Mapping[str, torch.Tensor | None]) -> None:
        interval = self._interval(piece, number)
        for name, rows in found.items():
            source = next(f for f, item in enumerate(self.flows) if name in item and self._reads(f, piece))
            if rows is not None:
                self.backwards.put((source, name), interval, rows)

    def _add(self, found: Mapping[str, torch.Tensor | None]) -> None:
        for name, gradient in found.items():
            if gradient is not None:
                self.sums[name] = self.sums[name] + gradient if name in self.sums else gradient

    def _reads(self, flow: int, piece: Piece) -> bool:
        return piece.section in self.skeleton.flows[flow].targets

    # -- exchanges and updates --------------------------------------------------------------------

    def contribution(self, item: Reduction) -> torch.Tensor:
        """Return the gradients that this rank adds to those of the other replicas, flat.

        Sharded ones are scattered at once, and nothing is left to add up.
        """
        mine = self._taken(self.groups[item.group])
        if item.group in self.zero:
            self.under_way[item.group].append(self.zero[item.group].begin_reduce(mine))
            return torch.empty(0, device=self.where.mesh.device)
        parts = [
            mine[name].reshape(-1) if name in mine else torch.zeros_like(self.weights[name]).reshape(-1)
            for name in self.groups[item.group]
        ]
        return torch.cat(parts).detach()

    def _taken(self, names: tuple[str, ...]) -> dict[str, torch.Tensor]:
        """Take the sums of some gradients, made whole over the lane."""
        found: dict[str, torch.Tensor] = {}
        for name in names:
            if name in self.sums:
                section = next(s for s, known in self.parameters.items() if name in known)
                found |= self._execution(section, 1).add_up({name: self.sums.pop(name)})
        return found

    def reduced(self, item: Reduction, total: torch.Tensor) -> None:
        """Keep a sum until the update."""
        if item.group in self.zero:
            work, part, _ = self.under_way[item.group].popleft()
            if work is not None:
                work.wait()
            self.zero[item.group].add(part)
            return
        start = 0
        for name in self.groups[item.group]:
            like = self.weights[name]
            self.received[name] = total[start : start + like.numel()].view_as(like)
            start += like.numel()

    def _update(self, piece: Piece, span: Interval) -> None:
        """Apply what was exchanged, and what only this rank holds once all its pieces have made it."""
        count = span[1] - span[0]
        for g, flat in self.zero.items():
            if piece in self.skeleton.holders[g].pieces:
                gradient = flat.take_sum() / count
                self.applied[f"part {g}", span] = gradient
                self.optimizer.step({f"part {g}": flat.part}, {f"part {g}": gradient})
        shared = {name for names in self.groups.values() for name in names}
        names = self.parameters[piece.section]
        alone = tuple(name for name in names if name not in shared and self._is_last(piece, name))
        found = self._taken(alone)
        found |= {name: self.received.pop(name) for name in names if name in self.received}
        mean = {name: gradient / count for name, gradient in found.items()}
        self.applied.update({(name, span): gradient for name, gradient in mean.items()})
        self.optimizer.step(self.weights, mean)

    def _is_last(self, piece: Piece, name: str) -> bool:
        """Tell whether of this lane's pieces with a parameter this one updates last in a step."""
        updates = [task.piece for task in self.plan.tasks if task.op == "U"]
        users = [p for p in updates if name in self.parameters[p.section]]
        return not users or users[-1] == piece


def check_order(lanes: RankLanes) -> None:
    """Refuse what this backend cannot run.

    Raises:
        InputError: updates without flushes, or update rules of their own.
    """
    if not lanes.program.order.flush:
        raise InputError(
            "sharded layers run under orders with flushes",
            key="schedule",
            found="updates without flushes",
            allowed="gpipe, 1f1b, interleaved_1f1b, breadth_first, zb_h1, ...",
        )
    if lanes.moved:
        raise InputError(
            "sharded layers do not move activations where an order says so",
            key="schedule", found="OFFLOAD", allowed="offload: [activations]",
        )  # fmt: skip
    if any(group.update != PLAIN for group in lanes.program.skeleton.holders):
        raise InputError("sharded layers run under one update rule", key="updates", allowed="all_reduce")
