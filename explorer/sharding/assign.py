"""Assignment of a plan to every layer of a graph under a layout, over all mesh axes at once.

Each distinct layer is resolved once: layers with equal kind, dimensions and shapes share a *template*, and
the plan of a template is made once per group of layers with a common layout. Only elementwise layers, which
may follow their inputs, are gone through one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.graph import LayerGraph
from explorer.sharding.layer_plan import LayerPlan, TemplateGroup, distinct_plan
from explorer.sharding.states import BROADCAST, PARTIAL, SAMPLE, Axis, State, TensorPlacement
from explorer.sharding.wiring import IntArray, Wiring, wiring


class Assignment(NamedTuple):
    """The plans of all layers of a graph."""

    plans: tuple[LayerPlan, ...]
    """Different plans."""
    of: IntArray
    """Plan of each layer."""


def assign(
    graph: LayerGraph, groups: Sequence[TemplateGroup], group_of: IntArray, axes: tuple[Axis, ...]
) -> Assignment:
    """Plan every layer of a graph.

    Args:
        graph: the model.
        groups: different layouts and meshes.
        group_of: which of them each layer has.
        axes: all mesh axes of all groups.
    """
    wires = wiring(graph)
    pairs = group_of * len(wires.templates) + wires.template_of
    distinct, pair_of = np.unique(pairs, return_inverse=True)
    known = _Numbered()
    found = []
    for pair in distinct.tolist():
        group, template = divmod(pair, len(wires.templates))
        found.append(known.number(distinct_plan(wires.templates[template], groups[group], axes)))
    plan_of = np.array(found, dtype=np.int64)[pair_of]
    if any(plan.free for plan in known.plans):
        plan_of = _follow(wires, known, plan_of.tolist(), groups, group_of.tolist(), axes)
    return Assignment(tuple(known.plans), plan_of)


class _Numbered:
    """Plans in use, each once."""

    def __init__(self) -> None:
        self.plans: list[LayerPlan] = []
        self._numbers: dict[int, int] = {}

    def number(self, plan: LayerPlan) -> int:
        found = self._numbers.setdefault(id(plan), len(self.plans))
        if found == len(self.plans):
            self.plans.append(plan)
        return found


def _follow(
    wires: Wiring,
    known: _Numbered,
    plan_of: list[int],
    groups: Sequence[TemplateGroup],
    group_of: list[int],
    axes: tuple[Axis, ...],
) -> IntArray:
    """Let elementwise layers adopt the states of their inputs, in order: one may follow another."""
    made: dict[object, int] = {}
    for layer, sources in wires.followers:
        if not known.plans[plan_of[layer]].free:
            continue
        written = tuple([(plan_of[i] if i >= 0 else -1, k, shared) for i, k, shared in sources])
        key = (plan_of[layer], group_of[layer], written)
        if key not in made:
            plan = known.plans[plan_of[layer]]
            placements = [
                (known.plans[number].writes[k] if number >= 0 else None, shared)
                for number, k, shared in written
            ]
            if adopted := followed(plan, placements):
                template = wires.templates[wires.template_of[layer]]
                plan = distinct_plan(template, groups[group_of[layer]], axes, adopted)
            made[key] = known.number(plan)
        plan_of[layer] = made[key]
    return np.array(plan_of, dtype=np.int64)


def followed(
    plan: LayerPlan, inputs: Sequence[tuple[TensorPlacement | None, bool]]
) -> tuple[tuple[int, State], ...]:
    """Return the (mesh axis, state) pairs that an elementwise layer adopts, where all its inputs agree.

    Args:
        plan: the layer as its layout has it.
        inputs: per read the placement in which it was written (None for an input of the model), and whether
            other layers read it too.
    """
    found = []
    for axis in plan.free:
        states = set()
        for written, shared in inputs:
            state = written[axis] if written else BROADCAST
            # a partial sum that another reader needs whole is reduced anyway
            states.add(BROADCAST if state == PARTIAL and shared else state)
        if len(states) == 1 and (state := states.pop()) not in (BROADCAST, SAMPLE):
            found.append((axis, state))
    return tuple(found)
