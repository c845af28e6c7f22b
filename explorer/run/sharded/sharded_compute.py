"""ShardedCompute: a rank's compute where weights are sharded over the ranks of a lane, or over lanes (ZeRO).

It is `Compute` on this rank's pieces. Gradients that are partial sums over the lane are made whole once,
before they are exchanged or applied. Groups under ZeRO 1 to 3 and HSDP have flat weights, whatever computes
them: their gradients are scattered, each rank updates its part, and what is gathered is filled in place.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch

from explorer.run.lane_layout import LaneLayout
from explorer.run.own.own_model import OwnModel
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.gathered import last_readers
from explorer.run.ranks.held_weights import Gradients
from explorer.run.ranks.lane import Gather, LanePlan, LaneTask, RankLanes, Reduction
from explorer.run.ranks.modules import Weights
from explorer.run.ranks.shard_rows import in_step, rows_of, sharded_groups
from explorer.run.ranks.sweeps import Interval
from explorer.run.ranks.transport import Transport
from explorer.run.ranks.units import Units
from explorer.run.sharded.flat_weights import FlatWeights, Messages, ShardLines
from explorer.run.sharded.lanes import LanePlace, LaneTransport, open_lanes, over_replicas
from explorer.run.sharded.layout_model import LayoutModel
from explorer.run.sharded.layout_units import LayoutUnits
from explorer.run.sharded.shard_lines import open_shards
from explorer.run.spec import RunCase
from explorer.tasks.placement import Piece


class ShardedCompute(Compute):
    """Everything one rank of a lane computes of a case.

    Args:
        case: the case.
        lanes: plans of the lanes.
        where: this rank's lane, place and mesh.
        shards: per group that is sharded over lanes its ZeRO level, and the ranks of its parts.

    Raises:
        InputError: an order or an update rule under which weights cannot be sharded.
    """

    def __init__(
        self,
        case: RunCase,
        lanes: RankLanes,
        where: LanePlace,
        shards: Mapping[int, tuple[int, ShardLines]],
    ) -> None:
        self.where, self.shards = where, shards
        super().__init__(case, lanes, where.lane, where.mesh.device)
        self.last_reader = last_readers(self.plans[self.lane])
        self.in_step = {
            group.number: in_step(self.plans[lane] for lane in row)
            for group in sharded_groups(self.skeleton) for row in rows_of(group, lanes) if self.lane in row
        }  # fmt: skip

    def _open_units(self) -> Units:
        self.layers: LayoutUnits | None = None
        if isinstance(self.model, LayoutModel):
            self.layers = LayoutUnits(self.model, self.where.mesh)
        elif isinstance(self.model, OwnModel) and self.model.mesh_axes:
            from explorer.run.sharded.own_units import OwnPieces

            self.layers = OwnPieces(self.model, self.where.mesh)
        if self.layers is not None:
            return self.layers
        return super()._open_units()

    def reset(self) -> None:
        """Go back to the initial weights, with nothing under way."""
        super().reset()
        self.zero: dict[int, FlatWeights] = {}
        self.flat_of: dict[str, FlatWeights] = {}
        for g, (level, lines) in self.shards.items():
            flat = FlatWeights(
                level=level,
                lines=lines,
                meter=self.where.mesh.meter,
                gradient_dtype=self.gradient_dtype,
                frees=self.case.count_bytes,
            )
            flat.fill({name: self.current[name] for name in self.group_names[g]})
            self.zero[g] = flat
            self.flat_of |= dict.fromkeys(flat.weights, flat)
            self.current.update(flat.weights)
        for piece in self.pieces:
            self.versions[piece][0] = {name: self.current[name] for name in self.names[piece]}
        self.under_way: dict[int, deque[tuple[Messages, torch.Tensor, torch.Tensor]]] = defaultdict(deque)
        self.parts: dict[int, deque[torch.Tensor]] = defaultdict(deque)
        self.wanted: Counter[int] = Counter()
        self.added: Counter[int] = Counter()
        self.gathering: dict[int, list[Messages]] = {}
        self.inside: list[list[float]] = []
        """(task, seconds in collectives inside of it, processor seconds of them)."""
        self.late: dict[tuple[Piece, int], tuple[list[torch.Tensor], list[torch.Tensor | None]]] = {}

    def _group_names(self) -> list[tuple[str, ...]]:
        """Return the parameters that each group adds up: of those laid out over several replicas the group
        of this rank's replicas with the same part, of all others the group of all replicas.
        """
        found = super()._group_names()
        if not isinstance(self.model, LaneLayout) or not self.model.spread or self.layers is None:
            return found
        apart = self.layers.held_apart(range(len(self.model.units)))
        lanes = self.model.spread_axis[1] // self.model.lane_ranks
        for g, group in enumerate(self.skeleton.holders):
            parts = {piece.replica % lanes for piece in group.pieces}
            mine = bool(set(group.pieces) & set(self.pieces))
            found[g] = tuple(
                name for name in found[g]
                if (len(parts) == 1 and mine if name in apart else len(parts) == lanes)
            )  # fmt: skip
        return found

    def _updated(self) -> Weights:
        """Return this rank's parts of sharded weights, too."""
        found = {name: weight for name, weight in super()._updated().items() if name not in self.flat_of}
        for g, flat in self.zero.items():
            names = self.group_names[g]
            if names and self.skeleton.updates[self.owner[names[0]].section]:
                found[f"part {g}"] = flat.part
        return found

    # -- gathers ----------------------------------------------------------------------------------

    def _zero_of(self, piece: Piece) -> list[FlatWeights]:
        return [flat for g, flat in self.zero.items() if piece in self.skeleton.holders[g].pieces]

    def gather(self, item: Gather) -> None:
        """Begin to gather the weights of a piece, or to move what it keeps."""
        if item.moved:
            super().gather(item)
        else:
            self.gathering[item.task] = [flat.begin_gather() for flat in self._zero_of(item.piece)]

    def gathered(self, task: int) -> None:
        """Wait for a gather of weights, or for a move."""
        if task in self.moves:
            super().gathered(task)
        for work in self.gathering.pop(task, ()):
            work.wait()

    # -- compute ----------------------------------------------------------------------------------

    def compute(self, task: LaneTask) -> None:
        """Run one task; give gathered weights back after their last reader, and before it all gradients whose
        reductions have ended.
        """
        for group in self.zero:
            self._add_what_came(group)
        meter = self.where.mesh.meter
        before = meter.inside_s, meter.inside_cpu_s
        super().compute(task)
        self.inside.append([task.task, meter.inside_s - before[0], meter.inside_cpu_s - before[1]])
        for piece in self.last_reader.get(task.task, ()):
            for flat in self._zero_of(piece):
                if flat.level == 3:
                    flat.release()

    def _run_units(
        self, piece: Piece, number: int, interval: Interval, inputs: dict[int, torch.Tensor]
    ) -> dict[int, torch.Tensor]:
        # weights stay where they are: only what the forward makes goes to the host
        hosted = piece.section in self.case.hosted
        with torch.autograd.graph.save_on_cpu() if hosted else nullcontext():
            return super()._run_units(piece, number, interval, inputs)

    def _input_grad(self, piece: Piece, number: int, op: str = "I") -> None:
        """Make the gradients of inputs; sharded layers without any leave all of their backward for later."""
        inputs = self.saved[piece, number][0]
        if self.layers is None or any(x.requires_grad for x in inputs.values()):
            super()._input_grad(piece, number, op)
            return
        _, outputs, came = self._roots(piece, number)
        self.late[piece, number] = (outputs, came)

    def _weight_grad(self, piece: Piece, number: int) -> None:
        if (piece, number) not in self.late:
            super()._weight_grad(piece, number)
            return
        outputs, came = self.late.pop((piece, number))
        weights = self._weights(piece, number, "W")
        found = torch.autograd.grad(outputs, list(weights.values()), came, allow_unused=True)
        self._add(piece, number, dict(zip(weights, found, strict=True)))

    # -- exchanges and updates --------------------------------------------------------------------

    def _whole(self, sums: Gradients) -> Gradients:
        """Return gradients made whole over the lane."""
        if self.layers is None:
            return sums
        found: Gradients = {}
        for name, total in sums.items():
            found |= self.layers.add_up(self.case.sections[self.owner[name].section], {name: total})
        return found

    def _gather_sums(self, pieces: Iterable[Piece], names: Iterable[str]) -> None:
        """Add what several pieces of this lane have of a gradient to what the first has, made whole."""
        wanted = set(names)
        members = set(pieces)
        found: dict[Interval, dict[str, tuple[Piece, torch.Tensor]]] = defaultdict(dict)
        for (piece, span), sums in self.sums.items():
            for name in [name for name in sums if piece in members and name in wanted]:
                own = sums.pop(name)
                first, total = found[span].get(name, (piece, None))
                found[span][name] = (first, own if total is None else total + own)
        for span, items in found.items():
            for name, (piece, total) in items.items():
                self.sums[piece, span] |= self._whole({name: total})

    def contribution(self, item: Reduction) -> torch.Tensor:
        """Return what this rank adds to an exchange, flat and whole over the lane.

        Gradients of sharded weights are scattered at once, and nothing is left to add up.
        """
        members, names = self._members(item.group), self.group_names[item.group]
        self._gather_sums(members, names)
        if item.group not in self.zero:
            return super().contribution(item)
        # one at most, as in FSDP2: each holds the gradients twice
        while self.in_step[item.group] and self.under_way[item.group]:
            self._take_part(item.group)
        mine: Gradients = {}
        for (piece, _), sums in self.sums.items():
            if piece in members:
                mine |= {name: sums.pop(name) for name in names if name in sums}
        self.under_way[item.group].append(self.zero[item.group].begin_reduce(mine))
        return torch.empty(0, device=self.device)

    def reduced(self, item: Reduction, total: torch.Tensor) -> None:
        """Keep a sum, or this rank's part of it, for the next update."""
        if item.group not in self.zero:
            super().reduced(item, total)
            return
        self.wanted[item.group] += 1
        while self.added[item.group] < self.wanted[item.group]:
            self._add_next(item.group)

    def _add_what_came(self, group: int) -> None:
        """Take in the parts of reductions that have ended, whose flat gradients nobody needs any more.

        Where bytes are counted, all are waited for, as at the end of a backward of FSDP2: how long one lasts
        beside the next microbatch is for no clock to decide. Where time is measured, or replicas take turns,
        nothing is waited for.
        """
        waiting, counts = self.under_way[group], self.case.count_bytes and self.in_step[group]
        while waiting and (counts or waiting[0][0].is_completed()):
            self._take_part(group)

    def _take_part(self, group: int) -> None:
        """Wait for the oldest reduction under way, and add up what came for this rank's part."""
        work, came, flat = self.under_way[group].popleft()
        work.wait()
        part = self.zero[group].sum_of(came)
        if self.zero[group].lines.copies > 1:  # others have to join in its sum: that comes later
            self.parts[group].append(part.clone())
        else:
            self._add_part(group, part)
        self.zero[group].end_reduce(came, flat)

    def _add_part(self, group: int, part: torch.Tensor) -> None:
        self.zero[group].add(part)
        self.added[group] += 1

    def _add_next(self, group: int) -> None:
        """Add the next part of a reduction, in sequence, over groups of replicas."""
        if not self.parts[group]:
            self._take_part(group)
        if self.parts[group]:
            part = self.parts[group].popleft()
            self._add_part(group, part)
            part.untyped_storage().resize_(0)  # the thread that summed it may hold it a moment longer

    def _own(self, span: Interval, group: int) -> Gradients:
        self._gather_sums(self._members(group), self.group_names[group])
        return super()._own(span, group)

    def _alone(self, piece: Piece, span: Interval) -> Gradients:
        return self._whole(super()._alone(piece, span))

    def _update(self, piece: Piece, span: Interval) -> None:
        """Update this rank's parts of sharded weights, and all others as they are."""
        for g, flat in self.zero.items():
            names = self.group_names[g]
            if names and self.owner[names[0]] == piece:
                total = flat.take_sum()
                if self.case.check:  # the optimizer writes the means into the sums
                    mean = total / (span[1] - span[0])
                    parts = {(name, span): flat.share(name, mean) for name in names}
                    self.applied.update({key: part for key, part in parts.items() if part.numel()})
                self.optimizer.step({f"part {g}": flat.part}, {f"part {g}": total}, span[1] - span[0])
        super()._update(piece, span)

    # -- comparison and result --------------------------------------------------------------------

    def _guess(self, key: int, interval: Interval) -> torch.Tensor:
        """Return this rank's piece of it."""
        if self.layers is None:
            return super()._guess(key, interval)
        return self.layers.guess(key, interval[1] - interval[0], self.device)

    def share(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """Return what of a parameter, or of its gradient, this rank answers for."""
        if self.layers is not None:
            whole = self.layers.cut(self.case.sections[self.owner[name].section], name, whole)
        flat = self.flat_of.get(name)
        return whole if flat is None else flat.share_of(name, whole)

    def held(self) -> list[torch.Tensor]:
        """Return the tensors that a round starts with: this rank's parts of sharded weights, too."""
        return [*super().held(), *(flat.part for flat in self.zero.values())]

    def present(self, name: str) -> torch.Tensor:
        """Return the present values of that."""
        flat = self.flat_of.get(name)
        return self.current[name].detach() if flat is None else flat.share(name, flat.part).detach()

    def record(self) -> dict[str, Any]:
        """Return what `Compute` records, with the bytes sent and the seconds of collectives inside tasks."""
        sent = [[*key, count] for key, count in sorted(self.where.mesh.meter.sent.items()) if count]
        return {
            **super().record(),
            "sent": sent,
            "inside": self.inside,
            "gathers": sum(flat.gathers for flat in self.zero.values()),
            "reductions": sum(flat.reductions for flat in self.zero.values()),
            "gathered_bytes": sum(flat.held_bytes for flat in self.zero.values() if flat.level == 3),
        }


class Opened(NamedTuple):
    """What a rank needs to run a sharded case."""

    compute: ShardedCompute | None
    """Its compute; None for a rank without a lane."""
    transport: LaneTransport
    """Its way to the other lanes."""
    plan: LanePlan | None
    """What it does."""


def open_sharded(case: RunCase, lanes: RankLanes, transport: Transport) -> Opened:
    """Make lanes, process groups and pieces of a sharded case; every rank calls it."""
    layout = case.model if isinstance(case.model, LaneLayout) else LaneLayout()
    each = case.lane_ranks
    where = open_lanes(layout.axes, len(lanes.program.programs), device=transport.device)
    if layout.spread:
        where = over_replicas(where, lanes, layout.spread_axis, each=each)
    joined = LaneTransport(transport=transport, ranks=each, where=where)
    joined.open(lanes.wires, lanes.groups)
    shards = open_shards(lanes, where, ranks=each)
    if where is None:
        return Opened(None, joined, None)
    return Opened(ShardedCompute(case, lanes, where, shards), joined, lanes.plan(where.lane))
