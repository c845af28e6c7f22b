"""Bytes on the wire: what a sharded run sent beside what the cost model says, by where it goes.

Everything is counted over all ranks and steps. What differs has a name; there is no tolerance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from explorer.base.units import dtype_bytes, scalar_bytes
from explorer.graph import COMPUTE
from explorer.pricing.layer_columns import sharded_of
from explorer.run.cases.build import Prepared
from explorer.run.judging.wire_places import CORNERS, known_places
from explorer.run.ranks.lane import RankLanes
from explorer.run.sharded.layout_model import PADDING, ROUTED, ROUTING, STAGES
from explorer.sharding.reshard import wire_factor
from explorer.sharding.result import ShardedLayers
from explorer.strategy import REPLICA, Mesh
from explorer.tasks.placement import Holders, SectionShape
from explorer.tasks.program import GATHER, HOST, REDUCE, TRANSFER, B, F, I, Program, U, W

NUMBER_BYTES = 8
"""Bytes of the number of an expert."""
INSIDE, REPLICAS, BETWEEN = "inside lanes", "between replicas", "between stages"


@dataclass(frozen=True, slots=True, kw_only=True)
class WireBytes:
    """Bytes that all ranks sent for one purpose."""

    where: str
    """`inside lanes`, `between replicas` or `between stages`."""
    predicted_bytes: float
    """By the cost model, for the same program."""
    sent_bytes: float
    """As counted by the ranks."""
    known: tuple[tuple[str, float], ...] = ()
    """(reason, bytes) of what is sent otherwise and known why; part of `sent_bytes`."""

    @property
    def equal(self) -> bool:
        """Whether what was sent is what was predicted, but for what is known."""
        left = self.sent_bytes - sum(count for _, count in self.known) - self.predicted_bytes
        return abs(left) < 1


def wire_bytes(prepared: Prepared, rows: Sequence[Mapping[str, Any]]) -> list[WireBytes]:
    """Compare what the ranks of a case sent with its prediction.

    Args:
        prepared: the case, priced.
        rows: the ranks' records of one run.
    """
    sent: Counter[str] = Counter()
    routed: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for _, op, axis, layer, count in row.get("sent", ()):
            routed[op, layer] += count
            sent[{REPLICA: REPLICAS, STAGES: BETWEEN}.get(axis, INSIDE)] += count
    predicted = {INSIDE: _inside(prepared), REPLICAS: _replicas(prepared), BETWEEN: _between(prepared)}
    corners = sum(count for (op, _), count in routed.items() if op == CORNERS)
    padding = sum(count for (op, _), count in routed.items() if op == PADDING)
    filled = "tensors of a message begin at a multiple of 16 bytes"
    known = {
        BETWEEN: [(filled, float(padding))] * bool(padding),
        INSIDE: _known_inside(prepared) + _known_routing(prepared, routed) + known_places(prepared, corners),
    }
    return [
        WireBytes(
            where=where, predicted_bytes=count, sent_bytes=float(sent[where]),
            known=tuple(known.get(where, ())),
        )
        for where, count in predicted.items()
        if count or sent[where]
    ]  # fmt: skip


def _slots(prepared: Prepared, *kinds: int) -> Iterator[int]:
    """Yield the slot of every task of some kinds."""
    program = prepared.program
    for slot in program.slot.tolist():
        if slot and program.slots[slot].kind in kinds and program.slots[slot].part != HOST:
            yield slot


def _between(prepared: Prepared) -> float:
    return sum(float(prepared.prices.bytes[slot]) for slot in _slots(prepared, TRANSFER))


def _inside(prepared: Prepared) -> float:
    program, lane_of, total = prepared.program, RankLanes(prepared.program).lane_of, 0.0
    for number in _slots(prepared, F, B, I, W, U, TRANSFER, REDUCE, GATHER):
        slot = program.slots[number]
        # every lane of a group adds up its own partial sums before they are exchanged
        several = slot.kind == REDUCE
        lanes = {lane_of[piece] for piece in program.skeleton.holders[slot.where].pieces} if several else (0,)
        total += float(prepared.prices.lane_bytes[number]) * len(lanes)
    return total * prepared.case.lane_ranks


def _known_inside(prepared: Prepared) -> list[tuple[str, float]]:
    """Return what is not sent again: split tensors that the cost model gathers once more in a backward."""
    pricer, precision, total = prepared.prices.pricer, prepared.job.precision, 0.0
    for slot in (prepared.program.slots[slot] for slot in _slots(prepared, B, I)):
        section = prepared.case.skeleton.sections[slot.where]
        if not section.full_recompute:
            own = _names(prepared, slot.where)
            for item in (item for item in pricer.shards(slot.where).regather if item.layer in own):
                scalars = wire_factor(item.op, item.size) * item.elements_per_sample * slot.samples
                width = dtype_bytes(precision if item.dtype == COMPUTE else item.dtype)
                total -= scalars * width * prepared.case.lane_ranks
    why = "gathered inputs are kept from the forward, and not gathered again for the backward"
    return [(why, total)] if total else []


def _known_routing(prepared: Prepared, sent: Mapping[tuple[str, str], int]) -> list[tuple[str, float]]:
    """Return what no prediction knows of exchanges of experts: how tokens were routed, and that it is said.

    Each token that left its rank was named once, by one number; it went there and back, as did gradients.
    """
    layers, pricer = prepared.prices.pricer.graph.layer, prepared.prices.pricer
    named = {layer: count // NUMBER_BYTES for (op, layer), count in sent.items() if op == ROUTED and count}
    if not named:
        return []
    word, left = dtype_bytes(prepared.job.precision), 0.0
    again = {
        name: prepared.case.skeleton.sections[s].full_recompute
        for s in range(len(prepared.placement.layers))
        for name in _names(prepared, s)
    }
    for name, tokens in named.items():
        write, sizes = layers[name].writes[0], {dim.name: dim.size for dim in layers[name].dims}
        ways = 3 if again[name] else 4  # made again, the forward named every token twice
        left += ways * tokens * prod(sizes[dim] for dim in write.dims if dim != "seq") * word
    for slot in (prepared.program.slots[slot] for slot in _slots(prepared, F, B, I)):
        shards, own = pricer.shards(slot.where), _names(prepared, slot.where)
        items = shards.forward if slot.kind == F else shards.backward
        if slot.kind != F and prepared.case.skeleton.sections[slot.where].full_recompute:
            items = (*items, *shards.forward)
        for item in (item for item in items if item.op == "all_to_all" and item.layer in own):
            if item.layer in named:
                scalars = wire_factor(item.op, item.size) * item.elements_per_sample * slot.samples
                left -= scalars * word * prepared.case.lane_ranks
    told = sum(count for (op, layer), count in sent.items() if op in (ROUTING, ROUTED))
    return [
        ("tokens as they were routed, where balanced ones are predicted", left),
        ("how many tokens go to whom, and to which expert, said before they go", float(told)),
    ]


def _names(prepared: Prepared, section: int) -> set[str]:
    layers = prepared.prices.pricer.graph.layers
    return {layers[i].name for i in prepared.placement.layers[section].tolist()}


def _replicas(prepared: Prepared) -> float:
    """Return the bytes of exchanges of replicas: of n an all-reduce of S sends 2 (n-1) S, and ZeRO over k of
    them (k-1) S a gather or a reduction, whose parts are padded, and 2 (n/k-1) S a sum over n/k groups. Of a
    lane every rank exchanges its own pieces, which may be unequal.
    """
    program, lanes, job = prepared.program, RankLanes(prepared.program), prepared.job
    weight_word = scalar_bytes(job.precision)
    word = scalar_bytes(job.gradient_precision or job.precision)
    held = _held_scalars(prepared)
    found = 0.0
    for reduction in lanes.reductions.values():
        n, section = len(reduction.ranks), _first(program, reduction.group)
        each = held[reduction.group]
        if not section.zero or section.shards < 2:
            found += 2 * (n - 1) * sum(each) * word
            continue
        k = min(section.shards, n)
        padded = sum(-(-scalars // k) * k for scalars in each)
        found += ((k - 1) * n // k + 2 * (n // k - 1)) * padded * word
    for plan in (lanes.plan(lane) for lane in range(len(program.programs))):
        for gather in (item for items in plan.gathers for item in items if not item.moved):
            for g, group in enumerate(program.skeleton.holders):
                if gather.piece in group.pieces:
                    k = min(_first(program, g).shards, len({lanes.lane_of[p] for p in group.pieces}))
                    found += (k - 1) * sum(-(-scalars // k) for scalars in held[g]) * weight_word
    return found


def _first(program: Program, group: int) -> SectionShape:
    return program.skeleton.sections[program.skeleton.holders[group].pieces[0].section]


def _held_scalars(prepared: Prepared) -> list[list[int]]:
    """Return, per holders group, the scalars of its parameters on every rank of a lane."""
    pricer = prepared.prices.pricer
    found = []
    for group, held in zip(program_groups(prepared), prepared.placement.held, strict=True):
        section = group.pieces[0].section
        cut = _cut(prepared, section)
        parameters = [(pricer.graph.parameters[p], cut.get(p, 1.0)) for p in held]
        whole = {item.name: part * item.elements for item, part in parameters}
        ranks = [shards.parameter_fraction for shards in _rank_shards(prepared, section)]
        found.append([round(sum(own.get(name, 1.0) * n for name, n in whole.items())) for own in ranks])
    return found


def _rank_shards(prepared: Prepared, section: int) -> list[ShardedLayers]:
    """Return what every rank of a lane holds. The cost model has that of the largest piece: where units do
    not divide, equal shares are dealt out here as unequal ones are.
    """
    pricer, ranks = prepared.prices.pricer, prepared.case.lane_ranks
    stage = pricer.stages[section]
    axes = [(name, size) for name, size in stage.meshes[0].axes if name != REPLICA and size > 1]
    unequal = stage.axis_shares or tuple((name, (1.0,) * size) for name, size in axes if len(axes) == 1)
    if not unequal or stage.shardings:
        return [pricer.shards(section)] * ranks
    lane = Mesh(devices=tuple(range(ranks)), axes=tuple(axes))
    apart = replace(stage, axis_shares=unequal)
    places = (lane.coordinates(rank)[unequal[0][0]] for rank in range(ranks))
    return [sharded_of(pricer.graph, apart, place).shards for place in places]


def _cut(prepared: Prepared, section: int) -> dict[int, float]:
    """Return the parameters of which a section holds a slice's part, and how much."""
    placement, graph = prepared.placement, prepared.prices.pricer.graph
    shares = placement.fractions[section]
    if shares is None:
        return {}
    position = {item.name: i for i, item in enumerate(graph.parameters)}
    pairs = zip(placement.layers[section].tolist(), shares.tolist(), strict=True)
    found = {position[use.name]: share for layer, share in pairs for use in graph.layers[layer].parameters}
    return {p: share for p, share in found.items() if p not in placement.whole[section]}


def program_groups(prepared: Prepared) -> tuple[Holders, ...]:
    """Return the holders groups of a program."""
    return prepared.program.skeleton.holders
