"""Prices: all numbers that a program needs, by slot; those of unchanged stages come from the cache.

What a section computes, updates, gathers and reduces depends on its own stage, and on the stages with which
it shares parameters; what crosses between sections depends on the tensors that cross and on where they lie.
Each is kept by the program, by the identity of what it was found from.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from explorer.base.caching import Hashed, IdentityCache, Same
from explorer.costs.memory import StageMemory
from explorer.passes.timing import FloatArray, Shares
from explorer.pricing.link_shares import find_shares
from explorer.pricing.made_weights import price_with_reads
from explorer.pricing.price_tables import PriceTables, price_tables
from explorer.pricing.pricer import Pricer
from explorer.pricing.routes import Pattern
from explorer.pricing.twins import twins_of
from explorer.tasks.program import Program

MEMORY_COLUMNS = {item.name: number for number, item in enumerate(fields(StageMemory))}
"""Columns of `Prices.memory_bytes`, by the field of `StageMemory`."""
_row_of = attrgetter(*MEMORY_COLUMNS)


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
    memory_bytes: FloatArray
    """The same as numbers, shape (sections, `MEMORY_COLUMNS`)."""
    flops: FloatArray
    """Per section: forward FLOPs of one sample, of the whole section (not divided by devices)."""
    pricer: Pricer
    """The pricer that made them; answers some views (`Pricer.route`: who sends what to whom)."""

    def with_memory(self, memory: tuple[StageMemory, ...]) -> Prices:
        """Return the same prices with other memory."""
        return replace(self, memory=memory, memory_bytes=np.array([_row_of(item) for item in memory]))


class SectionPrices(NamedTuple):
    """What is priced of one section."""

    values: FloatArray
    """(4, own slots): seconds, comm_s, bytes and lane_bytes."""
    memory: StageMemory
    """Memory of one device."""
    memory_bytes: FloatArray
    """The same as numbers."""
    flops: float
    """Forward FLOPs of one sample."""


class Crossings(NamedTuple):
    """What all transfers of a program meet: it depends on where tensors lie, not on their sizes."""

    shares: Shares
    latency_s: FloatArray
    """Per transfer: start-up."""
    seconds_per_byte: FloatArray
    """Per transfer: seconds per byte of the whole tensor."""
    share: FloatArray
    """Per transfer: bytes sent for each byte of the tensor."""


def price(program: Program, pricer: Pricer) -> Prices:
    """Price every slot of a program; sections whose stage is unchanged come from the cache."""
    pricer.exchange_over_runs(program.whole_over_runs)
    tables = price_tables(program)
    own = _own(program, pricer, tables)
    values = np.zeros((4, len(program.slots)))
    values[:, tables.order] = np.concatenate([found.values for found in own], axis=1)
    sizes, patterns = _flows(program, pricer)
    crossings = _crossings(program, pricer, patterns)
    if pricer.strategy.transfers in ("", "direct"):
        moved = sizes[tables.flow] * tables.samples
        values[0, tables.number] = crossings.latency_s + moved * crossings.seconds_per_byte
        values[2, tables.number] = moved * crossings.share
    else:
        for number, slot in zip(tables.number.tolist(), tables.transfers, strict=True):
            values[:, number] = pricer.price(slot)
    return Prices(
        seconds=values[0],
        comm_s=values[1],
        bytes=values[2],
        lane_bytes=values[3],
        shares=crossings.shares,
        memory=tuple([found.memory for found in own]),
        memory_bytes=np.array([found.memory_bytes for found in own]),
        flops=np.array([found.flops for found in own]),
        pricer=pricer,
    )


def _own(program: Program, pricer: Pricer, tables: PriceTables) -> list[SectionPrices]:
    """Return what is priced of every section: it depends on the stages of the section and of those near."""
    twin = twins_of(program, pricer, tables)
    known: dict[Hashable, SectionPrices] = {}

    def make(section: int) -> SectionPrices:
        key = twin(section)
        if key not in known:
            known[key] = priced(section)
        return known[key]

    def priced(section: int) -> SectionPrices:
        rows = [price_with_reads(program, pricer, program.slots[n]) for n in tables.own[section].tolist()]
        memory = pricer.memory(section)
        return SectionPrices(
            np.array(rows, dtype=np.float64).reshape(-1, 4).T,
            memory,
            np.array(_row_of(memory)),
            _flops(pricer, section),
        )

    strategy, stages = pricer.strategy, pricer.stages
    caches = program.memo("section prices", lambda: IdentityCache(8))
    chosen = (strategy.sync, strategy.updates)
    common = (pricer.graph, pricer.cluster, pricer.job, pricer.framework)
    cache = caches.get(common, chosen, lambda: IdentityCache(max(256, 4 * len(stages))))
    asked = stages if tables.alone else [Same([stages[i] for i in near]) for near in tables.near]
    return cache.get_each(asked, range(len(stages)), make)


def _flows(program: Program, pricer: Pricer) -> tuple[FloatArray, Hashed[Pattern]]:
    """Return per flow the bytes of one sample of its whole tensors, and who holds and needs which share."""

    def make() -> tuple[FloatArray, Hashed[Pattern]]:
        found = [pricer.flow(f) for f in range(len(program.skeleton.flows))]
        return np.array([size for size, _ in found]), Hashed([pattern for _, pattern in found])

    cache = program.memo("flow sizes", lambda: IdentityCache(64))
    objects = (pricer.graph, pricer.placement.flow_tensors, *pricer.sharded)
    return cache.get(objects, pricer.job.precision, make)


def _crossings(program: Program, pricer: Pricer, patterns: Hashed[Pattern]) -> Crossings:
    def make() -> Crossings:
        routes = [pricer.lane_route(slot) for slot in price_tables(program).transfers]
        return Crossings(
            find_shares(program, pricer.cluster, patterns),
            np.array([route.latency_s for route in routes]),
            np.array([route.seconds_per_byte for route in routes]),
            np.array([route.share for route in routes]),
        )

    cache = program.memo("crossings", lambda: IdentityCache(8))
    return cache.get((pricer.cluster,), patterns, make)


def _flops(pricer: Pricer, section: int) -> float:
    flops = pricer.graph.memo(
        "flops", lambda: np.array([item.forward.flops * item.trips for item in pricer.graph.layers])
    )
    layers, fractions = pricer.placement.layers[section], pricer.placement.fractions[section]
    part = flops[layers]
    return float(part.sum() if fractions is None else (part * fractions).sum())
