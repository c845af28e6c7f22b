"""Layer table: what every distinct layer of a graph costs under every choice of sharding, on one lane.

    cost of a graph = sum over layers of cost(layer, choice)
                    + sum over tensors of cost(writer's choice, readers' choices)    (`explorer.tables.edges`)

which is what integer programs (Alpa), dynamic programs (PaSE, TensorOpt, Tofu) and Markov chains (FlexFlow)
search. A layer's *plan* is what a choice comes to for it: choices that say the same of its dimensions have
one plan, and equal layers share it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.errors import InputError
from explorer.costs.compute import device_costs
from explorer.costs.graph_work import work_table
from explorer.costs.measured import with_collectives
from explorer.costs.memory import StageMemory
from explorer.graph import Layer, LayerGraph, Parameter
from explorer.matrix_products import contractions
from explorer.pricing.lane_collectives import kind_cost
from explorer.pricing.section_time import call_seconds, made_again, section_memory
from explorer.sharding.derive import RING
from explorer.sharding.layer_plan import LayerPlan, TemplateGroup, distinct_plan
from explorer.sharding.result import FloatArray, IntArray, Kind, ShardedLayers
from explorer.sharding.stage import Arrangement, GraphSharding, kind_of_exchange, reads_of
from explorer.sharding.wiring import wiring
from explorer.tables.lane import Lane
from explorer.tables.layer_choices import LayerChoice


class Inner(NamedTuple):
    """One collective inside a layer."""

    way: int
    """0 in the forward, 1 in the backward, 2 for what the backward repeats unseen."""
    kind: Kind
    needs_gradient: bool
    """Whether it happens only if what the layer reads has a gradient."""


class Summed(NamedTuple):
    """Some layers, as their columns are summed on a lane."""

    layers: IntArray
    share: FloatArray
    """1 for each."""
    again: FloatArray
    """1 for those that a backward recomputes."""
    call: float
    """Seconds of the framework's call."""


class LayerTable:
    """Costs of distinct layers on one lane, made when they are first asked for.

    Args:
        lane: where the layers run.
        choices: what may be chosen for a layer (`layer_choices`).

    Raises:
        InputError: no choice, or one that names an axis the lane lacks.
    """

    def __init__(self, lane: Lane, choices: Sequence[LayerChoice]) -> None:
        self.lane, self.choices = lane, tuple(choices)
        self.groups = tuple([_group(lane, choice) for choice in self.choices])
        self.plans: list[LayerPlan] = []
        """Plans by number."""
        self._numbers: dict[int, int] = {}
        self._equal: dict[LayerPlan, int] = {}
        self._first: dict[tuple[int, int], int] = {}
        self._inner: dict[int, tuple[Inner, ...]] = {}
        self._seconds: dict[Kind, tuple[float, float]] = {}
        graph = lane.graph
        self.wires = wiring(graph)
        self.alike = graph.memo("tables.alike", lambda: _alike(lane))
        """Per layer a number: equal layers have equal ones."""
        self._columns: dict[int, int] = {}
        self._every: Summed | None = None
        self.apart = ~with_collectives(graph, lane.names, lane.degree)
        """Per layer whether its collectives take seconds of their own."""
        self._device = np.zeros((len(lane.kinds), 2, 3, 0))
        self.followers = graph.memo(
            "tables.followers", lambda: {item.layer: item for item in self.wires.followers}
        )
        """Layers that may follow their inputs, by position."""
        self.needed, _ = reads_of(graph)
        """Per layer whether anything that it reads has a gradient."""
        self.hides = bool(lane.stage.overlap) or any(d == RING for c in self.choices for d, _ in c.layout)
        """Whether work may hide collectives."""
        if not self.choices:
            raise InputError("no choice for layers", key="choices", found=0, allowed=">= 1")

    def checked(self, chosen: Sequence[int] | IntArray) -> IntArray:
        """Return choices as an array.

        Raises:
            InputError: not one known choice for each layer.
        """
        found, count = np.array(chosen, dtype=np.int64), len(self.lane.graph.layers)
        if found.shape != (count,) or ((found < 0) | (found >= len(self.choices))).any():
            raise InputError(
                f"{found.size} choices for {count} layers", key="chosen", found=found.size,
                allowed=f"for each of {count} layers a number below {len(self.choices)}",
            )  # fmt: skip
        return found

    def summed(self, layers: IntArray | None) -> Summed:
        """Return how columns of some layers are summed; None is all of them."""
        if layers is None:
            if self._every is None:
                self._every = self.summed(np.arange(len(self.lane.graph.layers)))
            return self._every
        lane, share = self.lane, np.ones(len(layers))
        return Summed(
            layers=layers,
            share=share,
            again=share * made_again(lane.graph, layers, lane.stage.recompute),
            call=call_seconds(lane.graph, lane.kinds, lane.degree, layers),
        )

    # ---- plans ------------------------------------------------------------------------------------

    def number(self, plan: LayerPlan) -> int:
        """Return the number of a plan; equal plans have one."""
        known = self._numbers.get(id(plan))
        if known is None:
            known = self._equal.setdefault(plan, len(self.plans))
            if known == len(self.plans):
                self.plans.append(plan)
                self._numbers[id(plan)] = known  # it stays alive, and so its identity
        return known

    def first_plan(self, layer: int, choice: int) -> int:
        """Return the plan of a layer under a choice, before it follows its inputs."""
        key = (int(self.wires.template_of[layer]), choice)
        if key not in self._first:
            template = self.wires.templates[key[0]]
            self._first[key] = self.number(distinct_plan(template, self.groups[choice], self.lane.axes))
        return self._first[key]

    def inner(self, plan: int) -> tuple[Inner, ...]:
        """Return the collectives inside a layer of a plan."""
        if plan not in self._inner:
            found, axes = self.plans[plan], self.lane.axes
            self._inner[plan] = tuple(
                Inner(way, kind_of_exchange(item, axes), way == 1 and item.op == "halo")
                for way, items in enumerate((found.forward, found.backward, found.again))
                for item in items
            )
        return self._inner[plan]

    def inner_of(self, layer: int, plan: int) -> list[Inner]:
        """Return the collectives inside one layer."""
        return [item for item in self.inner(plan) if self.needed[layer] or not item.needs_gradient]

    def kind_cost(self, kind: Kind) -> tuple[float, float]:
        """Return the seconds of a collective on the lane and the bytes that a device sends."""
        if kind not in self._seconds:
            lane = self.lane
            self._seconds[kind] = kind_cost(lane.cluster, kind, lane.lines, lane.job.precision, lane.samples)
        return self._seconds[kind]

    # ---- compute ----------------------------------------------------------------------------------

    def device_s(self, layers: IntArray, plans: IntArray) -> FloatArray:
        """Return (kinds of devices, 2, 3, layers) seconds of the device and of the host that issues kernels.

        Args:
            layers: positions of layers.
            plans: the plan of each.
        """
        keys = self.alike[layers] + plans * (len(self.alike) + 1)
        distinct, example, inverse = np.unique(keys, return_index=True, return_inverse=True)
        new = [k for k, key in enumerate(distinct.tolist()) if key not in self._columns]
        if new:
            self._add(distinct[new], layers[example[new]], plans[example[new]])
        columns = np.array([self._columns[key] for key in distinct.tolist()], dtype=np.int64)
        found: FloatArray = self._device[..., columns[inverse]]
        return found

    def _add(self, keys: IntArray, layers: IntArray, plans: IntArray) -> None:
        """Price pairs of distinct layers and plans, all at once."""
        lane, products = self.lane, contractions(self.lane.graph)
        work = np.array([self.plans[n].work for n in plans.tolist()])
        split = np.ones((3, len(layers)))
        for k, (i, n) in enumerate(zip(layers.tolist(), plans.tolist(), strict=True)):
            product = products[i]
            if product is not None:
                split[:, k] = product.shares(self.plans[n].pieces)
        made = [
            device_costs(
                lane.graph, kind, layers, samples=lane.samples, precision=lane.job.precision,
                work=work, split=split,
            )
            for kind in lane.kinds
        ]  # fmt: skip
        first = self._device.shape[-1]
        self._columns.update({key: first + k for k, key in enumerate(keys.tolist())})
        self._device = np.concatenate([self._device, np.array(made)], axis=-1)

    def work(self, plans: IntArray) -> FloatArray:
        """Return the share of a layer's work under each of some plans."""
        return np.array([self.plans[n].work for n in plans.tolist()])

    # ---- memory -----------------------------------------------------------------------------------

    def memory(self, shards: ShardedLayers, layers: IntArray) -> StageMemory:
        """Return the memory of one device for some layers of a sharded graph."""
        lane, stage, job = self.lane, self.lane.stage, self.lane.job
        return section_memory(
            lane.graph, shards, layers, None, (),
            precision=job.precision, gradient_precision=job.gradient_precision, optimizer=job.optimizer,
            training=job.training, zero=stage.zero, replicas=stage.zero_replicas or stage.meshes[0].replicas,
            recompute=stage.recompute, dummy_gradients=lane.dummy_gradients,
        )  # fmt: skip


def sharded(table: LayerTable, chosen: IntArray) -> ShardedLayers:
    """Return the sharding of a whole graph whose layers have chosen."""
    graph = table.lane.graph
    whole = GraphSharding(graph, Arrangement(table.groups, chosen, table.lane.axes))
    return whole.cut(tuple([layer.name for layer in graph.layers]))


def _group(lane: Lane, choice: LayerChoice) -> TemplateGroup:
    names = [axis.name for axis in lane.axes]
    used = [*(axis for _, axis in choice.layout), *(choice.axes or ())]
    if unknown := [axis for axis in used if axis not in names]:
        raise InputError(
            f"a choice names mesh axis {unknown[0]!r}", key="choices", found=unknown[0],
            allowed=", ".join(names) or "none",
        )  # fmt: skip
    own = range(len(names)) if choice.axes is None else [names.index(axis) for axis in choice.axes]
    return TemplateGroup(choice.layout, frozenset(own))


def _alike(lane: Lane) -> IntArray:
    """Return a number per layer: equal for equal sharding, work, measurements and saved tensors."""
    graph, wires = lane.graph, wiring(lane.graph)
    _, work = graph.memo("costs.table", lambda: work_table(graph))
    numbers: dict[object, int] = {}
    products: dict[int, int] = {}
    found = []
    for i, (layer, product) in enumerate(zip(graph.layers, contractions(graph), strict=True)):
        touched = [use.name for use in (*layer.reads, *layer.writes)]
        key = (
            int(wires.template_of[i]), int(work[i]), products.setdefault(id(product), len(products)),
            layer.measured, layer.selective, layer.last_read_by, bool(layer.block),
            tuple([touched.index(name) if name in touched else name for name in layer.saves]),
            tuple([(item.dtype, item.backward) for item in map(graph.tensor.__getitem__, touched)]),
            tuple([(p.dtype, p.trainable, p.density) for p in parameters_of(graph, layer)]),
            any(wires.needs_gradient[t] for t in wires.reads[i]),
        )  # fmt: skip
        found.append(numbers.setdefault(key, len(numbers)))
    return np.array(found, dtype=np.int64)


def parameters_of(graph: LayerGraph, layer: Layer) -> list[Parameter]:
    """Return the parameters that a layer uses."""
    return [graph.parameter[use.name] for use in layer.parameters]
