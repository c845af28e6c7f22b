"""Reference of `explorer.sharding.stage`: the walk over every layer and tensor of a graph, one by one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from explorer.graph import LayerGraph
from explorer.matrix_products import contractions
from explorer.sharding.holdings import joined
from explorer.sharding.layer_plan import Exchange, Held, LayerPlan, TemplateGroup, make_plan
from explorer.sharding.result import Collective, ShardedLayers
from explorer.sharding.stage import Request, groups_of
from explorer.sharding.states import BROADCAST, PARTIAL, SAMPLE, State
from explorer.sharding.tensor_classes import tensor_classes
from explorer.sharding.tensor_plans import PASSED_ON
from explorer.sharding.traffic import Sent, rest_of, traffic
from explorer.sharding.wiring import wiring


class Result(NamedTuple):
    """What `ShardedLayers` says, worked out layer by layer."""

    work: list[float]
    split: list[tuple[float, float, float]]
    parameter_fraction: dict[str, float]
    parameter_axes: dict[str, tuple[str, ...]]
    partial_sums: dict[str, tuple[tuple[str, int], ...]]
    carved: dict[str, float]
    tensor_fraction: dict[str, float]
    tensor_share: list[float]
    forward: tuple[Collective, ...]
    backward: tuple[Collective, ...]
    regather: tuple[Collective, ...]
    notes: tuple[str, ...]


def of(found: ShardedLayers) -> Result:
    """The same of a `ShardedLayers`."""
    split = [tuple(row) for row in found.split.T.tolist()]
    return Result(
        found.work.tolist(), split, dict(found.parameter_fraction), dict(found.parameter_axes),
        dict(found.partial_sums), dict(found.carved), dict(found.tensor_fraction),
        found.tensor_share.tolist(), found.forward, found.backward, found.regather, found.notes,
    )  # fmt: skip


class Walk:
    """A graph under one layout, every layer by itself."""

    def __init__(self, graph: LayerGraph, request: Request) -> None:
        self.graph, self.wires = graph, wiring(graph)
        (base, *by_override), self.axes = groups_of(request)
        pairs = list(zip(request.overrides, by_override, strict=True))

        def group_of(name: str) -> TemplateGroup:
            matching = (g for item, g in pairs if any(fnmatchcase(name, p) for p in item.layers))
            return next(matching, base)

        self.groups = [group_of(layer.name) for layer in graph.layers]
        self.plans: list[LayerPlan] = []
        for i in range(len(graph.layers)):
            self.plans.append(self._plan(i))
        shapes = [tensor.shape for tensor in graph.tensors]
        self.rest = [rest_of(self.wires, self.plans, t, shape, self.axes) for t, shape in enumerate(shapes)]

    def _plan(self, i: int) -> LayerPlan:
        template = self.wires.templates[self.wires.template_of[i]]
        plan = make_plan(template, self.groups[i], self.axes)
        followed: dict[int, State] = {}
        for axis in plan.free:
            states = set()
            for t in self.wires.reads[i]:
                source = self.wires.writer[t]
                state = self.plans[source[0]].writes[source[1]][axis] if source else BROADCAST
                states.add(BROADCAST if state == PARTIAL and len(self.wires.readers[t]) > 1 else state)
            if len(states) == 1 and (state := states.pop()) not in (BROADCAST, SAMPLE):
                followed[axis] = state
        return make_plan(template, self.groups[i], self.axes, followed) if followed else plan

    def cut(self, layers: Sequence[str]) -> Result:
        """The layers of one stage."""
        graph, plans = self.graph, self.plans
        members = sorted(graph.index[name] for name in layers)
        touched = list(
            dict.fromkeys(t for i in members for t in (*self.wires.reads[i], *self.wires.writes[i]))
        )
        work = [plan.work if i in members else 1.0 for i, plan in enumerate(plans)]
        split = [
            product.shares(plan.pieces) if product is not None and plan.pieces else (1.0, 1.0, 1.0)
            for product, plan in zip(contractions(graph), plans, strict=True)
        ]
        return Result(
            work, split, *self._parameters(members),
            {graph.tensors[t].name: self.rest[t].share for t in touched}, [item.share for item in self.rest],
            *self._collectives(members, touched),
            tuple(dict.fromkeys(note for i in members for note in plans[i].notes)),
        )  # fmt: skip

    def _collectives(self, members: list[int], touched: list[int]) -> tuple[tuple[Collective, ...], ...]:
        ways: tuple[list[tuple[int, Collective]], ...] = ([], [], [])
        if not self.axes:
            return (), (), ()
        savers = tensor_classes(self.graph).savers
        for i in members:
            ways[0].extend(self._inside(i, item) for item in self.plans[i].forward)
            needed = any(self.wires.needs_gradient[t] for t in self.wires.reads[i])
            back = [item for item in self.plans[i].backward if needed or item.op != "halo"]
            ways[1].extend(self._inside(i, item) for item in back)
            ways[2].extend(self._inside(i, item) for item in self.plans[i].again)
        for t in touched:
            rest = {t: self.rest[t]}
            sent = traffic(self.wires, self.plans, rest, self.axes, t, frozenset(members), savers[t])
            for way, items in zip(ways, sent, strict=True):
                way.extend(self._message(t, item) for item in items)
        ways[0].sort(key=lambda item: item[0])
        for way in ways[1:]:
            way.sort(key=lambda item: item[0], reverse=True)
        return tuple(tuple(item for _, item in way) for way in ways)

    def _inside(self, i: int, item: Exchange) -> tuple[int, Collective]:
        layer, axis = self.graph.layers[i], self.axes[item.axis]
        first = layer.reads[0].name if layer.reads else ""
        elements = item.elements * (axis.stretch if item.op in PASSED_ON else 1.0)
        return i, Collective(item.op, axis.name, first, layer.name, elements, item.dtype, axis.size)

    def _message(self, t: int, sent: Sent) -> tuple[int, Collective]:
        axis, tensor, op = self.axes[sent.step.axis], self.graph.tensors[t], sent.step.op
        elements = math.prod(tensor.shape) * sent.step.buffer
        elements *= axis.stretch if op in PASSED_ON else 1.0
        layer = self.graph.layers[sent.layer].name
        return sent.layer, Collective(op, axis.name, tensor.name, layer, elements, tensor.dtype, axis.size)

    def _parameters(
        self, members: list[int]
    ) -> tuple[
        dict[str, float], dict[str, tuple[str, ...]], dict[str, tuple[tuple[str, int], ...]], dict[str, float]
    ]:
        held: dict[str, Held] = {}
        carved: dict[str, float] = {}
        for i in members:
            own = self.groups[i].own
            taken = math.prod(self.axes[a].size for a in own if self.axes[a].carved)
            given = math.prod(x.size for a, x in enumerate(self.axes) if not x.carved and a not in own)
            for use, item in zip(self.graph.layers[i].parameters, self.plans[i].parameters, strict=True):
                held[use.name] = joined(held[use.name], item) if use.name in held else item
                inside = given > 1 and not any(self.axes[a].carved for a in own)  # sums of the replica
                if taken != given and not inside:
                    carved[use.name] = taken / given
        trained = self.graph.parameter
        return (
            {name: item.fraction for name, item in held.items()},
            {name: item.axes for name, item in held.items()},
            {name: item.sums for name, item in held.items() if item.sums and trained[name].trainable},
            carved,
        )
