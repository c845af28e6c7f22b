"""Assembly: the cost of a whole graph whose layers have chosen, looked up; and of one change, by itself.

`assemble` puts the columns of a graph together from the tables. `Assembled.changed` re-prices the layers that
choose anew, those that follow them, the blocks they are in (a host issues a block's kernels ahead) and the
tensors that they touch; what is summed is summed again, so no error adds up over a million changes.
Both give what `explorer.pricing` gives for the same choices (`with_choices`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from explorer.costs.compute import settled
from explorer.costs.memory import StageMemory
from explorer.costs.memory_arrays import graph_arrays
from explorer.costs.stragglers import lane_factor, stage_factor
from explorer.pricing.lane_collectives import inside_of
from explorer.pricing.layer_columns import LaneColumns, LayerColumns, slowest
from explorer.pricing.overlap import beside_of
from explorer.pricing.section_time import (
    SectionTime,
    Ways,
    slowed,
    summed,
)
from explorer.sharding.assign import assign, followed
from explorer.sharding.layer_plan import distinct_plan
from explorer.sharding.result import FloatArray, IntArray, ShardedLayers
from explorer.sharding.tensor_classes import tensor_classes
from explorer.sharding.tensor_plans import plan_tensors
from explorer.tables.edges import EdgeTable
from explorer.tables.layers import LayerTable, sharded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Assembled:
    """A whole graph on one lane whose layers have chosen."""

    edges: EdgeTable
    """Where everything is looked up."""
    chosen: IntArray
    """Choice of each layer."""
    plan: IntArray
    """Plan of each layer."""
    tensor: IntArray
    """What each tensor sends (`EdgeTable.sent`)."""
    device_s: FloatArray
    """(kinds of devices, 2, 3, layers): seconds of device and host."""
    compute_s: FloatArray
    """(3, layers): seconds of forward, input and weight gradient."""
    slack_s: FloatArray
    """(3, layers): part of them in which the device waits for the host."""
    again_s: FloatArray
    """(2, layers): seconds of forwards made again, and the part in which the device waits for the host."""
    lane: FloatArray
    """(6, layers), of the collectives for which a layer waits: seconds forward and backward; bytes that each
    device sends forward, backward and in repeated gathers; how many there are."""
    _memo: dict[str, ShardedLayers] = field(default_factory=dict, init=False, repr=False)

    @property
    def layers(self) -> LayerTable:
        """The table of layers."""
        return self.edges.layers

    def shards(self) -> ShardedLayers:
        """Return the sharding, as `explorer.sharding.shard` does; made when first asked for."""
        if "shards" not in self._memo:
            self._memo["shards"] = sharded(self.layers, self.chosen)
        return self._memo["shards"]

    def time(self, layers: IntArray | None = None) -> SectionTime:
        """Return the seconds of a microbatch, and the bytes that each device sends meanwhile.

        Args:
            layers: positions of the layers to sum; None for all.
        """
        ways, kind_s = self._hidden()
        found, lane = summed(self._columns(kind_s), ways, *self.layers.summed(layers)), self.layers.lane
        return slowed(found, stage_factor(lane.kinds, lane.devices))

    def memory(self, layers: IntArray | None = None) -> StageMemory:
        """Return the memory of one device for some layers; None for all."""
        if layers is None:
            layers = np.arange(len(self.plan))
        return self.layers.memory(self.shards(), layers)

    def _columns(self, kind_s: FloatArray) -> LayerColumns:
        lane = self.layers.lane
        if not self.lane[5].any():
            return LayerColumns(compute_s=self.compute_s, again_s=self.again_s[0], lane=None)
        columns = LaneColumns(
            slack_s=self.slack_s,
            again_slack_s=self.again_s[1],
            comm_s=self.lane[:2] * self.layers.apart,
            sent_bytes=self.lane[2:5],
            apart=self.layers.apart,
            kind_s=kind_s,
            slowdown=max(kind.overlap_slowdown for kind in lane.kinds),
        )
        wait = lane_factor(lane.kinds, math.prod(axis.size for axis in lane.axes))
        waits = np.where(self.layers.apart, wait, 1.0)
        return LayerColumns(compute_s=self.compute_s * waits, again_s=self.again_s[0] * waits, lane=columns)

    def _hidden(self) -> tuple[Ways, FloatArray]:
        """Return the collectives that work hides, and the seconds of each kind of collective."""
        lane = self.layers.lane
        inside = inside_of(lane.graph, self.shards()) if self.layers.hides else None
        if inside is None:
            return (None, None, None), np.zeros(0)
        kind_s = np.array([self.layers.kind_cost(kind)[0] for kind in inside.kinds])
        return beside_of(lane.graph, self.shards(), inside, lane.stage.overlap), kind_s

    # ---- changes ----------------------------------------------------------------------------------

    def changed(self, choices: Mapping[int, int]) -> Assembled:
        """Return the same graph with other choices for some layers, re-priced where anything changed.

        Args:
            choices: choice by position of the layer.
        """
        chosen, plan = self.chosen.copy(), self.plan.copy()
        for layer, choice in choices.items():
            chosen[layer] = choice
        changed = self._follow(choices, chosen, plan)
        if not changed:
            return replace(self, chosen=chosen)
        tensor, waiting = self._tensors(changed, plan)
        lane = self.lane.copy()
        for layer in waiting.union(changed):
            lane[:, layer] = _waits(self.edges, layer, plan, tensor)
        device, compute, slack = self.device_s.copy(), self.compute_s.copy(), self.slack_s.copy()
        again = self.again_s.copy()
        at = np.array(changed)
        device[..., at] = self.layers.device_s(at, plan[at])
        members = blocks_of(self.layers, changed)
        compute[:, members], slack[:, members], again[0, members], again[1, members] = settle(
            self.layers, members, plan, device[..., members]
        )
        return replace(
            self, chosen=chosen, plan=plan, tensor=tensor, device_s=device, compute_s=compute, slack_s=slack,
            again_s=again, lane=lane,
        )  # fmt: skip

    def _follow(self, choices: Iterable[int], chosen: IntArray, plan: IntArray) -> list[int]:
        """Plan layers anew, and after them those that follow; return the layers whose plan is another."""
        table, wires = self.layers, self.layers.wires
        queue, changed = sorted(set(choices)), []
        while queue:
            layer = heapq.heappop(queue)
            if queue and queue[0] == layer:
                continue
            number = _plan_now(table, layer, int(chosen[layer]), plan)
            if number == plan[layer]:
                continue
            plan[layer] = number
            changed.append(layer)
            for t in wires.writes[layer]:
                for reader, _ in wires.readers[t]:
                    if reader in table.followers:
                        heapq.heappush(queue, reader)
        return changed

    def _tensors(self, changed: Iterable[int], plan: IntArray) -> tuple[IntArray, set[int]]:
        """Plan the tensors of some layers anew; return all plans, and who waits for these before or after."""
        wires, tensor, waiting = self.layers.wires, self.tensor.copy(), set()
        for t in {t for i in changed for t in (*wires.reads[i], *wires.writes[i])}:
            source, readers = wires.writer[t], wires.readers[t]
            writer = int(plan[source[0]]) if source else None
            number = self.edges.of(t, writer, [int(plan[i]) for i, _ in readers])
            if number != tensor[t]:
                row = (source[0] if source else -1, *(i for i, _ in readers))
                for item in (*self.edges.sent(int(tensor[t])), *self.edges.sent(number)):
                    waiting.add(row[item.layer])
                tensor[t] = number
        return tensor, waiting


def assemble(edges: EdgeTable, chosen: Sequence[int] | IntArray) -> Assembled:
    """Return a whole graph whose layers have chosen.

    Args:
        edges: the table of tensors between layers, and by it that of layers.
        chosen: per layer of the graph the number of its choice.

    Raises:
        InputError: not one known choice for each layer.
    """
    table = edges.layers
    choice = table.checked(chosen)
    graph, axes = table.lane.graph, table.lane.axes
    assigned = assign(graph, table.groups, choice, axes)
    plan = np.array([table.number(item) for item in assigned.plans], dtype=np.int64)[assigned.of]
    tensor = np.zeros(len(graph.tensors), dtype=np.int64)
    if axes:
        own = [assigned.plans[n] for n in assigned.of.tolist()]
        found = plan_tensors(graph, assigned, own, axes)
        tensor = np.array([edges.number(item) for item in found.plans], dtype=np.int64)[found.of]
    every = np.arange(len(plan))
    device = table.device_s(every, plan)
    compute, slack, *again = settle(table, every, plan, device)
    return Assembled(
        edges=edges, chosen=choice, plan=plan, tensor=tensor, device_s=device, compute_s=compute,
        slack_s=slack, again_s=np.array(again), lane=_all_waits(edges, plan, tensor),
    )  # fmt: skip


def settle(
    table: LayerTable, layers: IntArray, plan: IntArray, device: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return what `explorer.pricing.layer_columns.slowest` does of layers.

    Args:
        table: the table of layers.
        layers: positions of all layers of some blocks.
        plan: plan of each layer of the graph.
        device: (kinds, 2, 3, len(layers)) seconds of device and host.
    """
    lane = table.lane
    work = table.work(plan[layers])
    found = [
        settled(lane.graph, kind, own[0], own[1], layers, samples=lane.samples, work=work, degree=lane.degree)
        for kind, own in zip(lane.kinds, device, strict=True)
    ]
    return slowest(found)


def blocks_of(table: LayerTable, layers: Sequence[int]) -> IntArray:
    """Return all layers of the blocks that some layers are in, in order."""
    graph = table.lane.graph
    members = graph.memo("tables.blocks", lambda: _members(graph_arrays(graph).own_block))
    block = graph_arrays(graph).own_block
    return np.sort(np.concatenate([members[b] for b in {int(block[i]) for i in layers}]))


def _members(block: IntArray) -> dict[int, IntArray]:
    order = np.argsort(block, kind="stable")
    numbers, first = np.unique(block[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))


def _plan_now(table: LayerTable, layer: int, choice: int, plan: IntArray) -> int:
    """Return the plan of a layer under a choice and the plans of its inputs."""
    number = table.first_plan(layer, choice)
    found = table.plans[number]
    if not found.free:
        return number
    sources = table.followers[layer].sources
    inputs = [(table.plans[plan[i]].writes[k] if i >= 0 else None, shared) for i, k, shared in sources]
    if not (adopted := followed(found, inputs)):
        return number
    template = table.wires.templates[table.wires.template_of[layer]]
    return table.number(distinct_plan(template, table.groups[choice], table.lane.axes, adopted))


def _waits(edges: EdgeTable, layer: int, plan: IntArray, tensor: IntArray) -> FloatArray:
    """Return the column of `Assembled.lane` of one layer."""
    table, wires = edges.layers, edges.layers.wires
    found = np.zeros(6)
    for item in table.inner_of(layer, int(plan[layer])):
        _add(found, item.way, *table.kind_cost(item.kind))
    for t in dict.fromkeys((*wires.reads[layer], *wires.writes[layer])):
        source = wires.writer[t]
        for sent in edges.sent(int(tensor[t])):
            waits = wires.readers[t][sent.layer - 1] if sent.layer else source
            if waits and waits[0] == layer:
                _add(found, sent.way, sent.seconds, sent.bytes)
    return found


def _add(found: FloatArray, way: int, seconds: float, sent: float) -> None:
    if way < 2:
        found[way] += seconds
    found[2 + way] += sent
    found[5] += 1.0


def _all_waits(edges: EdgeTable, plan: IntArray, tensor: IntArray) -> FloatArray:
    """Return `Assembled.lane`."""
    table, found = edges.layers, np.zeros((6, len(plan)))
    if not table.lane.axes:
        return found

    def add(way: int, layers: IntArray, seconds: float, sent: float) -> None:
        if way < 2:
            np.add.at(found[way], layers, seconds)
        np.add.at(found[2 + way], layers, sent)
        np.add.at(found[5], layers, 1.0)

    for number in np.unique(plan).tolist():
        if table.inner(number):
            layers = np.flatnonzero(plan == number)
            for item in table.inner(number):
                own = layers[table.needed[layers]] if item.needs_gradient else layers
                add(item.way, own, *table.kind_cost(item.kind))
    sent, classes = edges.columns(), tensor_classes(table.lane.graph)
    count = sent.first[tensor + 1] - sent.first[tensor]
    row = np.repeat(sent.first[tensor] - np.cumsum(count) + count, count) + np.arange(count.sum())
    waits = classes.layers_of(np.repeat(np.arange(len(tensor)), count), sent.layer[row])
    for way in range(3):
        mine = sent.way[row] == way
        number, at = row[mine], waits[mine]
        if way < 2:
            found[way] += np.bincount(at, weights=sent.seconds[number], minlength=len(plan))
        found[2 + way] += np.bincount(at, weights=sent.bytes[number], minlength=len(plan))
    found[5] += np.bincount(waits, minlength=len(plan))
    return found
