"""Layer options: what each layer costs by itself under each of its choices: the nodes that planners weigh."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.base.units import scalar_bytes
from explorer.costs.collectives import collective_seconds
from explorer.costs.compute import settled
from explorer.costs.memory import StageMemory
from explorer.sharding.result import FloatArray, IntArray, ShardedLayers
from explorer.tables.layers import LayerTable, parameters_of, sharded


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerOptions:
    """One layer's choices, those with equal plans once: a row of each array for each choice."""

    choices: IntArray
    """Numbers of the choices."""
    compute_s: FloatArray
    """(choices, 3): seconds of forward, input gradient and weight gradient, as if the layer were alone."""
    comm_s: FloatArray
    """(choices, 2): seconds of collectives inside the layer, forward and backward."""
    sent_bytes: FloatArray
    """(choices, 2): bytes that each device sends in them."""
    sync_s: FloatArray
    """Seconds to add up its gradients, once a step, each parameter by itself."""


class OptionTable:
    """Costs of single layers on one lane, made when they are first asked for; equal layers share them.

    Args:
        layers: the layers and their plans.
    """

    def __init__(self, layers: LayerTable) -> None:
        self.layers = layers
        self._options: dict[int, LayerOptions] = {}
        self._memory: dict[int, tuple[StageMemory, ...]] = {}
        self._uniform: dict[int, ShardedLayers] = {}

    def of(self, layer: int) -> LayerOptions:
        """Return the costs of one layer under its choices; equal layers share them."""
        alike = int(self.layers.alike[layer])
        if alike not in self._options:
            self._options[alike] = self._make(layer)
        return self._options[alike]

    def _make(self, layer: int) -> LayerOptions:
        first: dict[int, int] = {}
        for choice in range(len(self.layers.choices)):
            first.setdefault(self.layers.first_plan(layer, choice), choice)
        plans = np.array(list(first), dtype=np.int64)
        inside = np.array([self._inside(layer, plan) for plan in first])
        return LayerOptions(
            choices=np.array(list(first.values()), dtype=np.int64),
            compute_s=self._alone_s(layer, plans),
            comm_s=inside[..., 0],
            sent_bytes=inside[..., 1],
            sync_s=np.array([self._sync_s(layer, plan, choice) for plan, choice in first.items()]),
        )

    def _alone_s(self, layer: int, plans: IntArray) -> FloatArray:
        found: FloatArray = self.by_kind_s(layer, plans).max(axis=0)
        return found

    def by_kind_s(self, layer: int, plans: IntArray) -> FloatArray:
        """Return (kinds of devices, plans, 3): seconds of one layer alone under some plans on each kind."""
        lane, at = self.layers.lane, np.full(1, layer)
        found = []
        for k in range(len(plans)):
            device = self.layers.device_s(at, plans[k : k + 1])
            times = [
                settled(
                    lane.graph, kind, own[0], own[1], at, samples=lane.samples,
                    work=self.layers.work(plans[k : k + 1]), degree=lane.degree,
                ).seconds[:, 0]
                for kind, own in zip(lane.kinds, device, strict=True)
            ]  # fmt: skip
            found.append(times)
        return np.array(found).swapaxes(0, 1)

    def _inside(self, layer: int, plan: int) -> FloatArray:
        """Return (forward and backward, seconds and bytes) of the collectives inside a layer."""
        found = np.zeros((2, 2))
        for item in self.layers.inner_of(layer, plan):
            seconds, sent = self.layers.kind_cost(item.kind)
            found[min(item.way, 1)] += seconds if item.way < 2 else 0.0, sent
        return found

    def _sync_s(self, layer: int, plan: int, choice: int) -> float:
        """Price an all-reduce of each parameter's gradient over the devices whose gradients differ.

        These are the replicas, the devices along axes that the choice leaves to samples, and neighbours along
        its own axes whose gradients are partial sums.
        """
        graph, job, mesh = self.layers.lane.graph, self.layers.lane.job, self.layers.lane.stage.meshes[0]
        width, seconds = scalar_bytes(job.gradient_precision or job.precision), 0.0
        own = [self.layers.lane.axes[k].name for k in sorted(self.layers.groups[choice].own)]
        for item, held in zip(
            parameters_of(graph, graph.layers[layer]), self.layers.plans[plan].parameters, strict=True
        ):
            if not (job.training and item.trainable):
                continue
            summed = dict(held.sums)
            groups: dict[tuple[int, ...], list[int]] = {}
            for k, device in enumerate(mesh.devices):
                at = mesh.coordinates(k)
                groups.setdefault(tuple([at[axis] // summed.get(axis, 1) for axis in own]), []).append(device)
            size = item.elements * held.fraction * item.density * width
            devices = tuple(next(iter(groups.values())))
            if len(devices) > 1:
                seconds += collective_seconds(
                    self.layers.lane.cluster, "all_reduce", devices, size, concurrent=len(groups)
                )
        return seconds

    def memory(self, layer: int) -> tuple[StageMemory, ...]:
        """Return the memory of one device for one layer alone under each of its options.

        All layers make the same choice there; a saved tensor has the shape in which its writer leaves it.
        """
        alike = int(self.layers.alike[layer])
        if alike not in self._memory:
            choices, at = self.of(layer).choices.tolist(), np.full(1, layer)
            self._memory[alike] = tuple([self.layers.memory(self._same(choice), at) for choice in choices])
        return self._memory[alike]

    def _same(self, choice: int) -> ShardedLayers:
        if choice not in self._uniform:
            self._uniform[choice] = sharded(self.layers, np.full(len(self.layers.lane.graph.layers), choice))
        return self._uniform[choice]
