"""Pricer of the slots of one placement: hands each slot to the pure function that prices it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

from explorer.base.errors import InputError
from explorer.base.units import scalar_bytes
from explorer.cluster import Cluster
from explorer.costs.keeping import OnHost, Recompute, on_host, recompute_of
from explorer.costs.kept_by_layer import moved_size, moves_anything
from explorer.costs.memory import StageMemory
from explorer.costs.stragglers import stage_factor
from explorer.costs.update_time import update_kernels, update_seconds
from explorer.framework import UNITS
from explorer.graph import LayerGraph
from explorer.pricing.exchanges_beside import NOTHING, Beside, ends_s, outside_share, slowed_s
from explorer.pricing.gradient_sync import (
    ReductionPrice,
    gather_price,
    reduce_price,
    updated_elements,
)
from explorer.pricing.host_memory import BLOCKS_HERE, Moved, host_seconds, reduced_memory
from explorer.pricing.layer_columns import Sharded, devices_of, sharded_of
from explorer.pricing.piece_tensors import Exchanges, Groups, Row
from explorer.pricing.section_time import (
    SectionTime,
    lane_sends,
    section_memory,
    section_time,
    slowed,
)
from explorer.strategy import OPTIMIZER, RESHARD_RUN, JobStrategy
from explorer.tasks.holder_groups import find_groups, groups_of_section
from explorer.tasks.placement import Piece, PlacedStrategy
from explorer.tasks.program import (
    BESIDE,
    GATHER,
    HOST,
    JOIN,
    REMADE_BEFORE,
    TRANSFER,
    WHOLE,
    B,
    F,
    Slot,
    U,
    W,
)
from explorer.updates import GRADIENTS, rule_of
from explorer.workload import Job


class SlotPrice(NamedTuple):
    """Price of one slot."""

    seconds: float = 0.0
    comm_s: float = 0.0
    """Part of `seconds` in collectives inside a compute task."""
    bytes: float = 0.0
    """Bytes moved between lanes, all devices of a lane together."""
    lane_bytes: float = 0.0
    """Bytes that each device sends along the axes of its lane."""


class Pricer(Exchanges):
    """Prices of the slots of one placement. Made anew for each evaluation; what it calls is remembered."""

    def __init__(
        self, graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy, placement: PlacedStrategy
    ) -> None:
        super().__init__(graph, cluster, job, strategy, placement)
        self._times: dict[tuple[int, int, Row, int], SectionTime] = {}
        self._memories: dict[tuple[int, int | None], StageMemory] = {}
        self._besides: dict[Piece, Beside] = {}
        self._over_runs: tuple[bool, ...] | None = None

    # ---- compute ---------------------------------------------------------------------------------

    def section_time(self, section: int, device: int, samples: int) -> SectionTime:
        """Return the seconds of a section for some samples on the row that holds `device`."""
        rows = self.sections[section].rows
        for copy, found in enumerate(rows):
            for row in found:
                if device in row:
                    return self._row_time(section, copy, row, samples)
        return self._row_time(section, 0, (device,), samples)

    def _row_time(self, section: int, copy: int, row: Row, samples: int) -> SectionTime:
        key = (section, copy, row, samples)
        if key not in self._times:
            self._times[key] = self._find_time(*key)
        return self._times[key]

    def _find_time(self, section: int, copy: int, row: Row, samples: int) -> SectionTime:
        kinds = tuple(dict.fromkeys([self.cluster.kind_of(device).name for device in row]))
        lines = self.lines(section, copy, row) if self.sharded[section].inside is not None else ()
        stage = self.stages[section]
        found = section_time(
            self.graph, self.cluster, self.sharded[section], self.placement.layers[section],
            self.placement.fractions[section],
            kinds=kinds, lines=lines, samples=float(samples), precision=self.job.precision,
            recompute=self.recompute(section), overlap=stage.overlap, pieces=self._pieces(section, copy, row),
        )  # fmt: skip
        if not self.job.training:
            return found
        return slowed(found, stage_factor(devices_of(self.cluster, kinds), stage.device_count))

    def _pieces(self, section: int, copy: int, row: Row) -> tuple[tuple[str, Sharded], ...]:
        """Return the kinds of devices in a row with the shards of each; () if all have equal shares."""
        stage = self.stages[section]
        if not stage.axis_shares or not set(row) <= set(stage.meshes[copy].devices):
            return ()
        found = zip(row, self.places(section, copy, row), strict=True)
        pairs = dict.fromkeys((self.cluster.kind_of(device).name, place) for device, place in found)
        return tuple((name, sharded_of(self.graph, stage, place)) for name, place in pairs)

    def places(self, section: int, copy: int, row: Row) -> tuple[int, ...]:
        """Return the place of each device of a row along the axis with unequal shares; 0 without one."""
        stage = self.stages[section]
        mesh = stage.meshes[copy]
        at = {device: number for number, device in enumerate(mesh.devices)}
        axis = stage.axis_shares[0][0] if stage.axis_shares else ""
        return tuple(mesh.coordinates(at[device]).get(axis, 0) if device in at else 0 for device in row)

    def memory(self, section: int, place: int | None = None) -> StageMemory:
        """Return the memory of one device of a section: with unequal shares at `place`, or the largest."""
        key = section, place
        if key not in self._memories:
            self._memories[key] = self._find_memory(section, place)
        return self._memories[key]

    def _find_memory(self, section: int, place: int | None) -> StageMemory:
        stage, memory = self.stages[section], self._plain_memory(section, place)
        moved = self._moved(section, place)
        if stage.density != 1 or stage.offload or moved.all_bytes:
            width = scalar_bytes(self.job.gradient_precision or self.job.precision)
            held, blocks = self.held(section, place), self.blocks(section)
            memory = reduced_memory(memory, stage, moved, held, width, blocks)
        gradients, weights = self.kept(section)
        if not gradients + weights:
            return memory
        return replace(
            memory,
            gradient_bytes=memory.gradient_bytes + gradients,
            optimizer_bytes=memory.optimizer_bytes + weights,
        )

    def _plain_memory(self, section: int, place: int | None = None) -> StageMemory:
        """Return the memory without sparse states and with everything on the device."""
        job = self.job
        return section_memory(
            self.graph, self.shards(section, place), self.placement.layers[section],
            self.placement.fractions[section], self.whole(section),
            precision=job.precision, gradient_precision=job.gradient_precision, optimizer=job.optimizer,
            training=job.training, zero=self.sections[section].zero, replicas=self.sections[section].shards,
            recompute=self.recompute(section), dummy_gradients=self.framework.dummy_gradients,
        )  # fmt: skip

    def recompute(self, section: int) -> Recompute:
        """Return what the layers of a section make again for their backward."""
        return recompute_of(self.graph, self.stages[section], self.placement.layers[section])

    def on_host(self, section: int) -> OnHost:
        """Return which layers of a section keep their tensors on the host."""
        return on_host(self.graph, self.stages[section], self.placement.layers[section])

    def _moved(self, section: int, place: int | None = None) -> Moved:
        """Return what goes to the host behind the forwards of a section, per sample."""
        away = self.on_host(section)
        if not self.job.training or not moves_anything(away):
            return Moved(0.0, 0.0)
        if isinstance(away, bool):
            size = self._plain_memory(section, place).activation_bytes_per_sample
            return Moved(size, min(1.0, BLOCKS_HERE / self.blocks(section)) * size)
        width = scalar_bytes(self.job.precision)
        found = moved_size(
            self.graph, self.shards(section, place), self.placement.layers[section],
            self.placement.fractions[section], self.recompute(section), away,
        )  # fmt: skip
        return Moved(found.all.bytes(width), found.here.bytes(width))

    # ---- slots -----------------------------------------------------------------------------------

    def price(self, slot: Slot) -> SlotPrice:
        """Return the price of a slot."""
        if slot.kind < 0 or slot.kind == JOIN:  # a join with a slot ends at an event of the cluster
            return SlotPrice(self.cluster.events[slot.where].time_s if slot.kind == JOIN else 0.0)
        if slot.kind < U:
            return self._compute(slot)
        if slot.kind == U:
            return self._update(slot)
        if slot.kind == TRANSFER:
            return self._transfer(slot)
        if slot.part == HOST:
            return SlotPrice(self._host_seconds(slot))
        return self._gather(slot) if slot.kind == GATHER else self._reduce(slot)

    def _compute(self, slot: Slot) -> SlotPrice:
        return self._overlapped(slot) if slot.part == BESIDE else self._alone(slot)

    def _overlapped(self, slot: Slot) -> SlotPrice:
        """Return the price of one half of a forward and a backward that run as one.

        The work of one hides the collectives of the other, so that the pair takes the longest of the work of
        both, the collectives of both, and either alone; each half takes its share of these seconds.
        """
        own = self._alone(slot._replace(peer=slot.piece, part=WHOLE))
        kind = B if slot.kind == F else F
        other = self._alone(Slot(kind, slot.peer.section, slot.peer, slot.peer, slot.samples))
        after_each_other = own.seconds + other.seconds
        if not after_each_other:
            return own
        comm = own.comm_s + other.comm_s
        work = after_each_other - comm
        share = own.seconds / after_each_other
        return own._replace(
            seconds=share * max(work, comm, own.seconds, other.seconds),
            comm_s=share * max(0.0, comm - work, own.seconds - work, other.seconds - work),
        )

    def _alone(self, slot: Slot) -> SlotPrice:
        time = self._row_time(slot.where, slot.piece.copy, self.row(slot.piece), slot.samples)
        near, slowdown = self.beside(slot.piece), self._slowdown(slot)
        if slot.kind == W:
            return SlotPrice(time.weight_grad_s + slowed_s(slowdown, near.reduce_s, time.weight_grad_s))
        fetched, sent = self._fetched(slot)
        if slot.kind == F and slot.backward:
            seconds, comm = time.recompute_s + fetched, time.recompute_comm_s + fetched
            slowed = slowed_s(slowdown, near.again_s, time.recompute_s)
            return SlotPrice(seconds + slowed, comm, 0.0, time.recompute_bytes + sent)
        if slot.kind == F:
            late = self._host_wait(slot, time.forward_s) + fetched + near.first_s
            slowed = slowed_s(slowdown, near.gather_s, time.forward_s)
            return SlotPrice(
                time.forward_s + slowed + late, time.forward_comm_s + late, 0.0, time.forward_bytes + sent
            )
        apart = slot.part == REMADE_BEFORE
        seconds = time.input_grad_s + (0.0 if apart else time.recompute_s)
        comm = time.backward_comm_s + (0.0 if apart else time.recompute_comm_s)
        if slot.kind == B:
            seconds += time.weight_grad_s - time.behind_weight_s
            comm -= time.behind_weight_s
        late = self._host_wait(slot, seconds) + fetched + (near.last_s if slot.kind == B else 0.0)
        beside = near.again_s + (near.reduce_s if slot.kind == B else 0.0)
        seconds += slowed_s(slowdown, beside, seconds)
        sent += time.backward_bytes + (0.0 if apart else time.recompute_bytes)
        return SlotPrice(seconds + late, comm + late, 0.0, sent)

    def _slowdown(self, slot: Slot) -> float:
        """Return how much longer the work of a slot takes beside exchanges; 0 if there are none."""
        if self.beside(slot.piece) is NOTHING:
            return 0.0
        return max(self.cluster.kind_of(device).overlap_slowdown for device in self.row(slot.piece))

    def exchange_over_runs(self, over_runs: tuple[bool, ...]) -> None:
        """Take from a program which sections exchange weights or gradients once for a run of actions.

        Until then it is what their stages ask for: what others do is known with their order
        (`explorer.tasks.runs`).
        """
        if over_runs != self._over_runs:
            self._over_runs = over_runs
            self._besides.clear()

    def beside(self, piece: Piece) -> Beside:
        """Return the exchanges between replicas that run beside one microbatch of a piece."""
        if piece not in self._besides:
            self._besides[piece] = self._find_beside(piece)
        return self._besides[piece]

    def _find_beside(self, piece: Piece) -> Beside:
        section, stage = self.sections[piece.section], self.stages[piece.section]
        zero = section.zero if section.shards > 1 else 0
        groups = self._groups_beside(piece, zero)
        if zero < 3 and not groups:
            return NOTHING
        once = min(1.0, stage.microbatch_samples / self.job.global_batch)
        asked = stage.reshard == RESHARD_RUN
        by_run = zero >= 2 and (asked if self._over_runs is None else self._over_runs[piece.section])
        blocks = self.blocks(piece.section)
        gather = partial(self._gather_seconds, self.gathered(piece) if zero == 3 else ())
        block_s = gather(1.0 / blocks)
        buckets = {number: self.buckets(number) for number in groups}
        bucket_s = sum(self._reduced_price(number, 1.0 / n).seconds for number, n in buckets.items())
        reduce_s = sum(n * self._reduced_price(number, 1.0 / n).seconds for number, n in buckets.items())
        first, last = 0.0, 0.0
        if self.framework.exchanges == UNITS and zero >= 2:
            outside = outside_share(self.graph, self.placement.layers[piece.section])
            first = ends_s(gather, outside, blocks) if zero == 3 else 0.0
            last = ends_s(partial(self._reduce_seconds, groups), outside, blocks)
        of_gather, of_reduce = once if by_run else 1.0, once if by_run or zero < 2 else 1.0
        return Beside(
            gather_s=of_gather * blocks * block_s, again_s=0.0 if by_run else blocks * block_s,
            reduce_s=of_reduce * reduce_s, first_s=max(0.0, of_gather * first - once * block_s),
            last_s=max(0.0, of_reduce * last - once * bucket_s),
        )  # fmt: skip

    def _groups_beside(self, piece: Piece, zero: int) -> tuple[int, ...]:
        """Return the groups in which a piece reduces gradients of its section alone beside backwards."""
        holders, found = self.placement.skeleton.holders, find_groups(self.placement.skeleton)
        return tuple(
            number
            for number in groups_of_section(self.placement.skeleton).get(piece.section, ())
            if (zero >= 2 or holders[number].buckets)
            and len(found[number].sections) == 1
            and rule_of(holders[number].update).exchanges == GRADIENTS
            and piece in holders[number].pieces
        )

    def _gather_seconds(self, groups: Groups, share: float) -> float:
        if not groups:
            return 0.0
        return gather_price(self.cluster, tuple((rows, size * share) for rows, size in groups)).seconds

    def _reduce_seconds(self, groups: tuple[int, ...], share: float) -> float:
        return sum(self._reduced_price(number, share).seconds for number in groups)

    def _reduced_price(self, number: int, share: float) -> ReductionPrice:
        """Return the price of reducing a share of a group's gradients at once."""
        group = self.placement.skeleton.holders[number]
        rows, lines, parts = self.reduced(number)
        zero = self.stages[group.pieces[0].section].zero
        parts = tuple((sums, size * share) for sums, size in parts)
        apart = zero and any(section.zero_replicas for section in self.sections)
        chunks = self.chunks(number) if apart else ()
        return reduce_price(self.cluster, group.method, zero, group.servers, rows, lines, parts, chunks)

    def _fetched(self, slot: Slot) -> tuple[float, float]:
        """Return the seconds of weights that ZeRO 3 gathers within a lane, and the bytes a device sends."""
        if self.sections[slot.where].zero < 3:
            return 0.0, 0.0
        groups = self.spread(slot.piece)
        if not groups:
            return 0.0, 0.0
        return gather_price(self.cluster, groups).seconds, _passed_on(groups)

    def _host_wait(self, slot: Slot, seconds: float) -> float:
        """Return the seconds by which activations moving to or from the host outlast the work behind them."""
        moved = self._moved(slot.where).all_bytes
        if not moved:
            return 0.0
        size = moved * slot.samples
        return max(0.0, host_seconds(self.cluster, self.row(slot.piece), size) - seconds)

    def _host_seconds(self, slot: Slot) -> float:
        """Return the seconds in which activations that an order moves go to the host, or come back."""
        row = self.row(slot.piece)
        for kind in {self.cluster.kind_of(device) for device in row}:
            if not kind.host_bandwidth_bytes_per_s:
                raise InputError(
                    f"the order moves activations from {kind.name} to the host, whose link has no bandwidth",
                    key="host_bandwidth_bytes_per_s", found=0, allowed="above 0, or an order without OFFLOAD",
                )  # fmt: skip
        return host_seconds(
            self.cluster, row, self.memory(slot.where).activation_bytes_per_sample * slot.samples
        )

    def _update(self, slot: Slot) -> SlotPrice:
        row, section = self.row(slot.piece), slot.where
        places = self.places(section, slot.piece.copy, row) if self.stages[section].axis_shares else ()
        kinds = [self.cluster.kind_of(device) for device in row]
        owners = zip(kinds, places or (None,) * len(row), strict=True)
        seconds = max(
            update_seconds(
                kind, elements=self._updated(section, place), optimizer=self.job.optimizer,
                precision=self.job.precision, kernels=update_kernels(self.framework),
                gradient_bytes=scalar_bytes(self.job.gradient_precision or self.job.precision),
            )
            for (_, place), kind in {(kind.name, place): kind for kind, place in owners}.items()
        )  # fmt: skip
        late = 0.0
        if OPTIMIZER in self.stages[section].offload:
            size = self._plain_memory(section).optimizer_bytes * self.stages[section].density
            late = max(0.0, host_seconds(self.cluster, row, size) - seconds)
        comm, lane_bytes = self._summed_before_update(slot.piece)
        return SlotPrice(seconds + late + comm, comm + late, 0.0, lane_bytes)

    def _updated(self, section: int, place: int | None) -> float:
        """Return the number of elements that a device updates."""
        held = self.held(section, place)
        elements = updated_elements(held, self.sections[section].zero, self.sections[section].shards)
        return elements * self.stages[section].density

    def _summed_before_update(self, piece: Piece) -> tuple[float, float]:
        """Return the seconds of a lane's own sums and gathers around its update, and bytes a device sends.

        Tensors that ZeRO spreads over the lane are reduced in parts. Level 3 gathers when weights are needed.
        """
        row, section = self.row(piece), piece.section
        gathers = self.spread(piece)
        seconds = sent = 0.0
        if parameters := self.unreduced(section):
            lines = (self.lines(section, piece.copy, row),)
            parts, shards = self.gradients(section, parameters), int(bool(gathers))
            seconds, _, sent = reduce_price(self.cluster, "all_reduce", shards, (), (row,), lines, parts)
            sent /= 1 + shards
        if gathers and self.sections[section].zero < 3:
            seconds += gather_price(self.cluster, gathers).seconds
            sent += _passed_on(gathers)
        return seconds, sent

    def sends(self, piece: Piece, samples: int, *, backward: bool) -> dict[tuple[str, int], float]:
        """Return the bytes that each device of a piece sends by (axis, size) in a forward or backward."""
        section = piece.section
        return lane_sends(
            self.cluster, self.job.precision, self.recompute(section), self.graph,
            self.sharded[section], self.placement.layers[section], self.placement.fractions[section],
            self.lines(section, piece.copy, self.row(piece)), float(samples), backward=backward,
        )  # fmt: skip

    def _reduce(self, slot: Slot) -> SlotPrice:
        pieces = self.parts(slot)
        found = self._reduced_price(slot.where, 1.0 / pieces.total)
        width = len(find_groups(self.placement.skeleton)[slot.where].rows[0])
        moved, around = found.bytes * width, found.lane_bytes
        return SlotPrice(found.seconds * pieces.here, 0.0, moved * pieces.here, around * pieces.here)

    def _gather(self, slot: Slot) -> SlotPrice:
        parts = self.parts(slot)
        groups = tuple((rows, size / parts.total) for rows, size in self.gathered(slot.piece))
        found = gather_price(self.cluster, groups)
        moved = found.bytes * len(groups[0][0][0])
        return SlotPrice(found.seconds * parts.here, 0.0, moved * parts.here)

    def _transfer(self, slot: Slot) -> SlotPrice:
        size = self.flow(slot.where)[0] * slot.samples
        route = self.route(slot)
        return SlotPrice(route.latency_s + size * route.seconds_per_byte, 0.0, size * route.share)


def _passed_on(groups: Groups) -> float:
    """Sum the bytes that each device sends in gathers."""
    return sum(size * (len(rows) - 1) / len(rows) for rows, size in groups)
