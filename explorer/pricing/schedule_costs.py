"""Seconds and bytes for schedules that look at them: of stages, of the edges between them, of lanes.

Greedy and optimal schedules place an action where it fits in time and in memory (`Shape.forward_s` to
`Shape.memory_cap_bytes`). They are told what the simulator charges for the same action.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from explorer.costs.memory import StageMemory
from explorer.pricing.pricer import Pricer
from explorer.strategy import RESHARD_RUN
from explorer.tasks.lanes import Lanes
from explorer.tasks.placement import Piece
from explorer.tasks.program import GATHER, HOST, TRANSFER, F, I, Slot, W


class ScheduleCosts(NamedTuple):
    """Costs of a schedule, under the names of the fields of `Shape`."""

    forward_s: tuple[float, ...]
    input_grad_s: tuple[float, ...]
    weight_grad_s: tuple[float, ...]
    transfer_s: tuple[float, ...]
    activation_bytes: tuple[float, ...]
    waiting_bytes: tuple[float, ...]
    host_s: tuple[float, ...]
    memory_cap_bytes: tuple[float, ...]


def schedule_costs(pricer: Pricer, lanes: Lanes, edges: tuple[tuple[int, int], ...]) -> ScheduleCosts:
    """Return the costs of one microbatch of every stage, on the first replica of its first copy.

    Args:
        pricer: prices of the strategy.
        lanes: the lanes that the schedule orders.
        edges: (from, to) of stages.
    """
    sections = pricer.sections
    stages = 1 + max(section.stage for section in sections)
    leaving: list[list[int]] = [[] for _ in range(stages)]
    for f, flow in enumerate(pricer.placement.skeleton.flows):
        leaving[sections[flow.source].stage].append(f)

    def by_stage(value: Callable[[int], float]) -> tuple[float, ...]:
        found = [0.0] * stages
        for i, section in enumerate(sections):
            found[section.stage] += value(i)
        return tuple(found)

    def seconds(kind: int) -> tuple[float, ...]:
        return by_stage(lambda i: pricer.price(_slot(pricer, kind, i)).seconds)

    def held(size: Callable[[StageMemory], float]) -> tuple[float, ...]:
        return by_stage(lambda i: size(pricer.memory(i)) * sections[i].samples(0))

    return ScheduleCosts(
        forward_s=seconds(F),
        input_grad_s=seconds(I),
        weight_grad_s=seconds(W),
        transfer_s=tuple(_transfer_seconds(pricer, leaving[source], target) for source, target in edges),
        activation_bytes=held(lambda item: item.activation_bytes_per_sample),
        waiting_bytes=held(lambda item: item.waiting_bytes_per_sample),
        host_s=by_stage(lambda i: _host_seconds(pricer, i)),
        memory_cap_bytes=tuple(
            _room(pricer, devices, pieces)
            for devices, pieces in zip(lanes.devices, lanes.pieces, strict=True)
        ),
    )


def _slot(pricer: Pricer, kind: int, section: int) -> Slot:
    piece = Piece(section, 0, 0)
    return Slot(kind, section, piece, piece, pricer.sections[section].samples(0))


def _transfer_seconds(pricer: Pricer, flows: Sequence[int], target: int) -> float:
    """Sum the seconds that one microbatch's tensors of some flows take to a stage; 0 on one device."""
    sections, total = pricer.sections, 0.0
    for f in flows:
        flow = pricer.placement.skeleton.flows[f]
        sender = Piece(flow.source, 0, 0)
        for receiver in (Piece(i, 0, 0) for i in flow.targets if sections[i].stage == target):
            if pricer.row(sender) != pricer.row(receiver):
                samples = min(sections[flow.source].samples(0), sections[receiver.section].samples(0))
                total += pricer.price(Slot(TRANSFER, f, sender, receiver, samples)).seconds
                break  # the targets of a flow share their devices
    return total


def _host_seconds(pricer: Pricer, section: int) -> float:
    """Return the seconds in which a microbatch's activations go to the host; inf if its link is not known."""
    slot = _slot(pricer, GATHER, section)._replace(part=HOST)
    known = all(
        pricer.cluster.kind_of(device).host_bandwidth_bytes_per_s for device in pricer.row(slot.piece)
    )
    return pricer.price(slot).seconds if known else math.inf


def _room(pricer: Pricer, devices: tuple[int, ...], pieces: tuple[Piece, ...]) -> float:
    """Return the bytes of a lane's smallest device that are left for activations in flight."""
    kinds = [pricer.cluster.kind_of(device) for device in devices]
    room = min(kind.memory_bytes - kind.reserved_bytes for kind in kinds)
    most = 0.0
    for section in dict.fromkeys(piece.section for piece in pieces):
        memory = pricer.memory(section)
        samples = max(pricer.sections[section].samples(p.replica) for p in pieces if p.section == section)
        room -= memory.weight_bytes + memory.gradient_bytes + memory.optimizer_bytes
        shape = pricer.sections[section]
        whole = memory.run_buffer_bytes if shape.reshard == RESHARD_RUN else 0.0
        again = memory.recompute_peak_bytes_per_sample if shape.recomputes else 0.0
        buffers = memory.buffer_bytes + whole + (memory.buffer_bytes_per_sample + again) * samples
        most = max(most, buffers)
    return room - most
