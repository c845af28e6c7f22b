"""A small numpy executor of derived signatures: devices are coordinates, collectives are literal.

Each device holds an array and, per array axis, which global indices it has; axis 0 counts samples, so that a
split by sample is a split like any other. With no mesh axes the same code is the dense reference.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from explorer.graph import Layer, LayerGraph
from explorer.sharding.derive import choose
from explorer.sharding.layer_plan import LayerPlan
from explorer.sharding.reshard import Step, reshard
from explorer.sharding.stage import GraphSharding, Request
from explorer.sharding.states import BROADCAST, PARTIAL, SAMPLE, Axis, State, TensorPlacement
from explorer.sharding.traffic import backward_steps, forward_steps

Coordinates = tuple[int, ...]


@dataclass
class Local:
    """What one device has of a tensor."""

    values: np.ndarray
    indices: list[np.ndarray]


Shards = dict[Coordinates, Local]


def grid(axes: Sequence[Axis]) -> list[Coordinates]:
    return list(itertools.product(*(range(axis.size) for axis in axes)))


def owned(indices: np.ndarray, size: int, axes: Sequence[Axis], a: int, coordinate: int) -> np.ndarray:
    """Which of `indices` belong to a coordinate: axes are digits of the index and do not interfere."""
    n = axes[a].size
    if size < n:  # pieces held twice
        return indices == coordinate * size // n
    outer = 1
    for axis in axes[: a + 1]:
        if size % (outer * axis.size) == 0:
            outer *= axis.size
    return (indices // (size // outer)) % n == coordinate


def array_axis(state: State) -> int:
    return 0 if state == SAMPLE else state + 1


@dataclass
class Device:
    """The mesh, and what was sent over it."""

    axes: tuple[Axis, ...]
    sizes: dict[str, tuple[int, ...]]
    sent: Counter = field(default_factory=Counter)

    def scatter(self, name: str, dense: np.ndarray, placement: TensorPlacement) -> Shards:
        found = {}
        for where in grid(self.axes):
            local = Local(dense, [np.arange(n) for n in dense.shape])
            for a, state in enumerate(placement):
                assert state != PARTIAL
                if state != BROADCAST:
                    local = self._slice(local, name, a, where[a], array_axis(state))
            found[where] = local
        return found

    def _slice(self, local: Local, name: str, a: int, coordinate: int, axis: int) -> Local:
        size = self.sizes[name][axis]
        mask = owned(local.indices[axis], size, self.axes, a, coordinate)
        indices = list(local.indices)
        indices[axis] = indices[axis][mask]
        return Local(np.compress(mask, local.values, axis=axis), indices)

    def group(self, where: Coordinates, a: int) -> list[Coordinates]:
        return [(*where[:a], c, *where[a + 1 :]) for c in range(self.axes[a].size)]

    def gathered(self, shards: Shards, where: Coordinates, a: int, axis: int) -> Local:
        parts = [shards[peer] for peer in self.group(where, a)]
        indices = np.concatenate([part.indices[axis] for part in parts])
        values = np.concatenate([part.values for part in parts], axis=axis)
        _, first = np.unique(indices, return_index=True)
        kept = list(parts[0].indices)
        kept[axis] = indices[first]
        return Local(np.take(values, first, axis=axis), kept)

    def summed(self, shards: Shards, where: Coordinates, a: int) -> Local:
        parts = [shards[peer] for peer in self.group(where, a)]
        return Local(sum(part.values for part in parts), parts[0].indices)

    def step(self, name: str, shards: Shards, step: Step, way: str) -> Shards:
        """One collective, executed; its buffer is measured and noted."""
        a, found = step.axis, {}
        for where, local in shards.items():
            if step.op == "pad":
                found[where] = self._padded(name, local, where, step)
                continue
            if step.op == "slice":
                found[where] = self._slice(local, name, a, where[a], array_axis(step.target))
                continue
            if step.source == PARTIAL:
                whole = self.summed(shards, where, a)
            else:
                whole = self.gathered(shards, where, a, array_axis(step.source))
            if step.target != BROADCAST:
                found[where] = self._slice(whole, name, a, where[a], array_axis(step.target))
            else:
                found[where] = whole
            if where == grid(self.axes)[0]:
                buffer = local.values.size if step.op == "all_to_all" else whole.values.size
                self.sent[way, step.op, self.axes[a].name, name, buffer] += 1
        return found

    def _padded(self, name: str, local: Local, where: Coordinates, step: Step) -> Local:
        if step.source == BROADCAST:  # one device keeps it, the others have zeros
            return Local(local.values * (where[step.axis] == 0), local.indices)
        axis = array_axis(step.source)
        shape, indices = list(local.values.shape), list(local.indices)
        wanted = [i for i in range(self.sizes[name][axis]) if self._in_reach(i, name, axis, where, step)]
        shape[axis] = len(wanted)
        values = np.zeros(shape)
        at = [slice(None)] * len(shape)
        at[axis] = np.searchsorted(wanted, indices[axis])
        values[tuple(at)] = local.values
        indices[axis] = np.array(wanted)
        return Local(values, indices)

    def _in_reach(self, i: int, name: str, axis: int, where: Coordinates, step: Step) -> bool:
        """Whether an index is among those that the other mesh axes leave to this device."""
        others = [a for a in self.split_by[name, axis] if a != step.axis]
        size = self.sizes[name][axis]
        return all(owned(np.array([i]), size, self.axes, a, where[a])[0] for a in others)

    split_by: dict[tuple[str, int], list[int]] = field(default_factory=dict)


class Execution:
    """Runs a graph forward and backward under a layout and keeps values and gradients."""

    def __init__(self, graph: LayerGraph, request: Request, values: Mapping[str, np.ndarray]) -> None:
        self.graph, self.values = graph, values
        self.whole = GraphSharding(graph, request)
        self.axes = self.whole.axes
        samples = next(v.shape[0] for name, v in values.items() if name in graph.tensor)
        sizes = {t.name: (samples, *map(int, t.shape)) for t in graph.tensors}
        sizes |= {p.name: (1, *map(int, p.shape)) for p in graph.parameters}
        self.mesh = Device(self.axes, sizes)
        self.at: dict[str, dict[TensorPlacement, Shards]] = {}
        self.weights: dict[tuple[str, str], Shards] = {}
        self.position = {t.name: i for i, t in enumerate(graph.tensors)}

    def plan(self, layer: str) -> LayerPlan:
        return self.whole.plans[self.graph.index[layer]]

    def forward(self) -> dict[str, Shards]:
        for name, dense in self.values.items():
            if name in self.graph.tensor:
                rest = self.whole.rest(self.position[name]).placement
                self._arrive(name, rest, self.mesh.scatter(name, dense, rest))
        for layer in self.graph.layers:
            plan = self.plan(layer.name)
            reads = [self.at[u.name][p] for u, p in zip(layer.reads, plan.reads, strict=True)]
            self._hold(layer)
            for use, placement, shards in zip(
                layer.writes, plan.writes, self._compute(layer, reads), strict=True
            ):
                self._arrive(use.name, placement, shards)
        return {name: next(iter(found.values())) for name, found in self.at.items()}

    def _hold(self, layer: Layer) -> None:
        chosen = self._parameter_states(layer)
        for k, use in enumerate(layer.parameters):
            dense = self.values[use.name][None]
            placement = tuple(states[k] for states in chosen)
            self.weights[layer.name, use.name] = self.mesh.scatter(use.name, dense, placement)

    def _parameter_states(self, layer: Layer) -> list[tuple[State, ...]]:
        """Per mesh axis the state of every parameter; its plan must name the axes that split it."""
        plan, group = self.plan(layer.name), self.whole.group(self.graph.index[layer.name])
        found = []
        for a, axis in enumerate(self.axes):
            states = (BROADCAST,) * len(layer.parameters)
            if a in group.own:
                states = choose(layer, axis, group.layout).parameters
                assert [axis.name in held.axes for held in plan.parameters] == [s >= 0 for s in states]
            found.append(states)
        return found

    def _arrive(self, name: str, origin: TensorPlacement, shards: Shards) -> None:
        t = self.position[name]
        wanted = tuple(dict.fromkeys(self.whole.plans[i].reads[k] for i, k in self.whole.wires.readers[t]))
        there = self.at[name] = {origin: shards}
        sizes = self.whole.rest(t).sizes
        for k, steps in forward_steps(origin, wanted, sizes, self.axes):
            source = next(s for s in there if reshard(s, wanted[k], sizes, self.axes) == steps)
            there[wanted[k]] = self._convert(name, there[source], source, steps, "forward")

    def _convert(
        self, name: str, shards: Shards, source: TensorPlacement, steps: Sequence[Step], way: str
    ) -> Shards:
        now = list(source)
        for step in steps:
            for axis in range(len(self.mesh.sizes[name])):
                self.mesh.split_by[name, axis] = [
                    a for a, s in enumerate(now) if s not in (BROADCAST, PARTIAL) and array_axis(s) == axis
                ]
            shards = self.mesh.step(name, shards, step, way)
            now[step.axis] = step.target
        return shards

    def _compute(self, layer: Layer, reads: Sequence[Shards]) -> list[Shards]:
        from tests.sharding.layers import FORWARD

        return FORWARD[layer.kind](self, layer, reads)

    def backward(
        self, cotangents: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, Shards], dict[str, np.ndarray]]:
        """Gradients of tensors (as their writer needs them) and, made whole, of parameters."""
        from tests.sharding.layers import BACKWARD

        left: dict[str, dict[TensorPlacement, Shards]] = {}
        arrived: dict[str, Shards] = {}
        weights: dict[str, np.ndarray] = {}
        for layer in reversed(self.graph.layers):
            plan = self.plan(layer.name)
            gradients = []
            for use, goal in zip(layer.writes, plan.write_gradients, strict=True):
                if use.name in cotangents:
                    arrived[use.name] = self.mesh.scatter(use.name, cotangents[use.name], goal)
                else:
                    arrived[use.name] = self._reduce(use.name, left[use.name], goal)
                gradients.append(arrived[use.name])
            reads = [self.at[u.name][p] for u, p in zip(layer.reads, plan.reads, strict=True)]
            for_reads, for_weights = BACKWARD[layer.kind](self, layer, reads, gradients)
            for use, placement, shards in zip(layer.reads, plan.read_gradients, for_reads, strict=True):
                if shards is not None and use.name in self.graph.needs_gradient:
                    self._add(left.setdefault(use.name, {}), placement, shards)
            for k, (use, shards) in enumerate(zip(layer.parameters, for_weights, strict=True)):
                weights[use.name] = weights.get(use.name, 0.0) + self._whole_gradient(layer, k, shards)
        return arrived, weights

    @staticmethod
    def _add(found: dict[TensorPlacement, Shards], placement: TensorPlacement, shards: Shards) -> None:
        if placement in found:
            shards = {
                where: Local(local.values + found[placement][where].values, local.indices)
                for where, local in shards.items()
            }
        found[placement] = shards

    def _reduce(self, name: str, left: dict[TensorPlacement, Shards], goal: TensorPlacement) -> Shards:
        sizes = self.whole.rest(self.position[name]).sizes
        partial = [any(place[a] == PARTIAL for place in left) for a in range(len(self.axes))]
        joined: dict[TensorPlacement, Shards] = {}
        for place, shards in left.items():
            target = tuple(PARTIAL if partial[a] else s for a, s in enumerate(place))
            self._add(
                joined,
                target,
                self._convert(name, shards, place, reshard(place, target, sizes, self.axes), "backward"),
            )
        steps = [reshard(place, goal, sizes, self.axes) for place in joined]
        if any(place != goal for place in left):
            flat = tuple(step for each in steps for step in each)
            assert flat == backward_steps(tuple(left), goal, sizes, self.axes)
        total: dict[TensorPlacement, Shards] = {}
        for (place, shards), each in zip(joined.items(), steps, strict=True):
            self._add(total, goal, self._convert(name, shards, place, each, "backward"))
        return total[goal]

    def _whole_gradient(self, layer: Layer, k: int, shards: Shards) -> np.ndarray:
        """The gradient of a parameter after adding what its plan says; devices must agree on common parts."""
        use, held = layer.parameters[k], self.plan(layer.name).parameters[k]
        group, sums = self.whole.group(self.graph.index[layer.name]), dict(held.sums)
        for a, axis in enumerate(self.axes):
            # over axes that are not its own the devices are replicas, which data parallelism adds
            count = sums.get(axis.name, 1) if a in group.own else axis.size
            added = {}
            for where, local in shards.items():
                first = where[a] - where[a] % count
                peers = [(*where[:a], first + c, *where[a + 1 :]) for c in range(count)]
                added[where] = Local(sum(shards[peer].values for peer in peers), local.indices)
            shards = added
        whole = np.full(self.mesh.sizes[use.name], np.nan)
        for local in shards.values():
            at = np.ix_(*local.indices)
            known = ~np.isnan(whole[at])
            np.testing.assert_allclose(local.values[known], whole[at][known], rtol=1e-11, atol=1e-11)
            whole[at] = local.values
        return whole[0]

    def assert_holds(self, shards: Shards, placement: TensorPlacement, dense: np.ndarray) -> None:
        """Every device holds its part of the dense tensor; partial sums add up to it."""
        for a, state in enumerate(placement):
            if state == PARTIAL:
                shards = {where: self.mesh.summed(shards, where, a) for where in shards}
        for local in shards.values():
            np.testing.assert_allclose(local.values, dense[np.ix_(*local.indices)], rtol=1e-11, atol=1e-12)
