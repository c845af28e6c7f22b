"""A plan built by one decision after the other, as a learner that acts step by step sees it.

First come the microbatch and recomputation, then each *key* unit: it goes on with the stage of the unit
before, or begins a stage on so many devices with a tensor degree. All other units go as the one before them
(propagation): keys are where the layers of a unit differ from those before it, and some evenly spaced ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product

from explorer.planners._pieces.stage_plans import Part, Plan, PlanSpace
from explorer.strategies.degrees import RECOMPUTE

KEYS = 12
"""Most units that are decided on."""
ROUNDS = (1, 2, 4, 8)
"""Microbatches a stage."""
SETTINGS = tuple(product(ROUNDS, RECOMPUTE))
"""What the first decision chooses from."""


def key_units(space: PlanSpace, most: int = KEYS) -> tuple[int, ...]:
    """Return the units to decide on, ascending, the first one among them."""
    kinds = [_layers_of(space, u) for u in range(len(space.units))]
    changes = [u for u in range(1, len(kinds)) if kinds[u] != kinds[u - 1]]
    spaced = space.cut([1.0] * min(most, len(kinds)))[:-1]
    found = sorted({*changes, *spaced})
    if len(found) >= most:
        found = [found[i * len(found) // (most - 1)] for i in range(most - 1)]
    return (0, *found)


def _layers_of(space: PlanSpace, unit: int) -> tuple[object, ...]:
    layers = space.problem.graph.layers[slice(*space.units[unit])]
    return tuple([(layer.kind, tuple([(dim.name, dim.size) for dim in layer.dims])) for layer in layers])


def starts_of(space: PlanSpace) -> tuple[tuple[int, int], ...]:
    """Return (groups, tensor degree) that a stage may begin with: powers of two, and all of a kind."""
    most = max(space.counts)
    sizes = sorted({*(1 << i for i in range(most.bit_length())), *space.counts})
    pairs = product(sizes, space.tensors)
    return tuple([(g, t) for g, t in pairs if g <= most and (g * space.fleet.size) % t == 0])


@dataclass(kw_only=True)
class Building:
    """A plan so far."""

    space: PlanSpace
    keys: tuple[int, ...]
    starts: tuple[tuple[int, int], ...]
    setting: int = -1
    """Number of the setting; -1 before it is chosen."""
    place: int = 0
    """Key that is decided next."""
    parts: list[Part] = field(default_factory=list)

    @property
    def actions(self) -> int:
        """Number of actions."""
        return max(len(SETTINGS), 1 + len(self.starts))

    @property
    def done(self) -> bool:
        """Whether nothing is left to decide."""
        return self.setting >= 0 and self.place == len(self.keys)

    def allowed(self) -> tuple[bool, ...]:
        """Tell which actions are allowed; none at the end."""
        found = [False] * self.actions
        if self.setting < 0:
            found[: len(SETTINGS)] = [True] * len(SETTINGS)
        elif not self.done:
            found[0] = bool(self.parts)
            for i, (groups, _) in enumerate(self.starts):
                found[1 + i] = self._kind(groups) is not None
        return tuple(found)

    def take(self, action: int) -> None:
        """Decide."""
        if self.setting < 0:
            self.setting = action
            return
        if action:
            groups, tensor = self.starts[action - 1]
            kind = self._kind(groups)
            if kind is None:
                raise ValueError(f"no kind has {groups} free groups of devices")
            self.parts.append(Part(0, kind, groups, tensor, SETTINGS[self.setting][1]))
        self.place += 1
        stop = self.keys[self.place] if self.place < len(self.keys) else len(self.space.units)
        self.parts[-1] = self.parts[-1]._replace(stop=stop)

    def state(self) -> tuple[float, ...]:
        """Return what is decided so far as numbers about 0 to 1."""
        space, loads = self.space, self.space.loads
        at = self.parts[-1].stop if self.parts else 0
        begun = self.parts[-2].stop if len(self.parts) > 1 else 0
        whole = sum(loads) or 1.0
        part = self.parts[-1] if self.parts else Part(0, 0, 0)
        free = [n / most for n, most in zip(self._free(), space.counts, strict=True)]
        chosen = [float(i == self.setting) for i in range(len(SETTINGS))]
        return (
            self.place / len(self.keys), sum(loads[:at]) / whole, sum(loads[begun:at]) / whole,
            part.groups / max(space.counts), part.tensor / space.tensors[-1],
            len(self.parts) / len(self.keys), *free, *chosen,
        )  # fmt: skip

    def plan(self) -> Plan | None:
        """Return the plan once all is decided; None if no microbatch serves all its replicas."""
        rounds = SETTINGS[self.setting][0] * len(self.parts)
        return self.space.sized(self.parts, self.space.problem.job.global_batch / rounds)

    def _free(self) -> list[int]:
        free = list(self.space.counts)
        for part in self.parts:
            free[part.kind] -= part.groups
        return free

    def _kind(self, groups: int) -> int | None:
        """Return the first kind with so many free groups."""
        return next((k for k, free in enumerate(self._free()) if free >= groups), None)


def building(space: PlanSpace) -> Building:
    """Return a plan of which nothing is decided."""
    return Building(space=space, keys=key_units(space), starts=starts_of(space))


def again(one: Building) -> Building:
    """Return a plan of the same space of which nothing is decided."""
    return Building(space=one.space, keys=one.keys, starts=one.starts)
