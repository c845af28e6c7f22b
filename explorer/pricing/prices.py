"""Prices: all numbers that a program needs, by slot; those of unchanged stages come from the cache."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.base.caching import IdentityCache
from explorer.costs.memory import StageMemory
from explorer.passes.timing import FloatArray, Shares
from explorer.pricing.link_shares import find_shares
from explorer.pricing.pricer import Pricer
from explorer.tasks.program import Program
from explorer.tasks.program_tables import derived


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """All numbers that a program needs."""

    seconds: FloatArray
    """Per slot: seconds of one task."""
    comm_s: FloatArray
    """Per slot: the part of its seconds in collectives inside a compute task."""
    bytes: FloatArray
    """Per slot: bytes that a transfer or collective moves between lanes, all devices of a lane together."""
    lane_bytes: FloatArray
    """Per slot: bytes that each device of its lane (of a reduction, of all its lanes) sends along the
    lane's own axes meanwhile: tensor, context and expert parallelism, and sums of partial gradients."""
    shares: Shares
    """Shared rates of all slots."""
    memory: tuple[StageMemory, ...]
    """Per section: memory of one device."""
    flops: FloatArray
    """Per section: forward FLOPs of one sample, of the whole section (not divided by devices)."""
    pricer: Pricer
    """The pricer that made them; answers some views (`Pricer.route`: who sends what to whom)."""


def price(program: Program, pricer: Pricer) -> Prices:
    """Price every slot of a program; sections whose stage is unchanged come from the cache."""
    tables = derived(program)
    values = np.zeros((len(program.slots), 4))
    memory = []
    for section, slots in enumerate(tables.own_slots):
        own, held = _own(program, pricer, section)
        values[slots] = own
        memory.append(held)
    for number in tables.other_slots:
        values[number] = pricer.price(program.slots[number])
    return Prices(
        seconds=values[:, 0].copy(),
        comm_s=values[:, 1].copy(),
        bytes=values[:, 2].copy(),
        lane_bytes=values[:, 3].copy(),
        shares=_shares(program, pricer),
        memory=tuple(memory),
        flops=_section_flops(pricer),
        pricer=pricer,
    )


def _own(program: Program, pricer: Pricer, section: int) -> tuple[FloatArray, StageMemory]:
    """Return (slots, 4) prices of what a section computes, and its memory.

    Both depend only on its stage, on the partial sums that no reduction adds up, and on what update rules
    keep.
    """

    def make() -> tuple[FloatArray, StageMemory]:
        slots = derived(program).own_slots[section].tolist()
        rows = [pricer.price(program.slots[number]) for number in slots]
        return np.array(rows, dtype=np.float64).reshape(-1, 4), pricer.memory(section)

    cache = program.memo("own prices", lambda: IdentityCache(max(256, 4 * len(program.skeleton.sections))))
    objects = (pricer.graph, pricer.cluster, pricer.job, pricer.stages[section])
    return cache.get(objects, (section, pricer.unreduced(section), pricer.kept(section)), make)


def _shares(program: Program, pricer: Pricer) -> Shares:
    patterns = tuple([pricer.flow(f)[1] for f in range(len(program.skeleton.flows))])
    cache = program.memo("shares", lambda: IdentityCache(8))
    return cache.get((pricer.cluster,), patterns, lambda: find_shares(program, pricer.cluster, patterns))


def _section_flops(pricer: Pricer) -> FloatArray:
    flops = pricer.graph.memo(
        "flops", lambda: np.array([item.forward.flops * item.trips for item in pricer.graph.layers])
    )
    found = []
    for layers, fractions in zip(pricer.placement.layers, pricer.placement.fractions, strict=True):
        part = flops[layers]
        found.append(float(part.sum() if fractions is None else (part * fractions).sum()))
    return np.array(found)
