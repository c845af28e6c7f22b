"""Pins and bans of a problem, prepared so that every candidate can be checked; and cuts that respect them.

Devices are bits of an integer, so that a stage of hundreds of devices is one number. A pin says that a
layer's stages must contain a device, a ban that they must not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.graph import LayerGraph
from explorer.strategies.cuts import default_weights, units
from explorer.strategy import JobStrategy, Stage

EVENNESS = 8
"""Exponent of the loads whose sum cuts minimise: the heaviest is nearly least, the others even too."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Demands of pins and bans on each layer; layers without any are not listed."""

    must: dict[str, int]
    """Devices, as bits, that a layer's stages must contain."""
    never: dict[str, int]
    """Devices, as bits, that a layer's stages must not contain."""

    def __bool__(self) -> bool:
        return bool(self.must or self.never)

    def allows(self, layer: str, devices: int) -> bool:
        """Tell whether a layer may be on these devices, given as bits."""
        return not self.must.get(layer, 0) & ~devices and not self.never.get(layer, 0) & devices

    def respected_by(self, job: JobStrategy) -> bool:
        """Tell whether every layer is where it must be and nowhere it must not be."""
        if not self:
            return True
        held: dict[str, int] = dict.fromkeys(self.must, 0)
        for stage in job.stages:
            devices = bits_of(stage)
            for name in stage.all_layers:
                if name in self.must or name in self.never:
                    held[name] = held.get(name, 0) | devices
        return all(self.allows(name, devices) for name, devices in held.items())


def rules_of(pins: Iterable[tuple[str, int]], bans: Iterable[tuple[str, int]]) -> Rules:
    """Return the rules of (layer, device) pairs."""
    return Rules(must=_by_layer(pins), never=_by_layer(bans))


def _by_layer(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    devices: dict[str, set[int]] = {}
    for name, device in pairs:
        devices.setdefault(name, set()).add(device)
    known: dict[frozenset[int], int] = {}
    found: dict[str, int] = {}
    for name, several in devices.items():
        key = frozenset(several)
        if key not in known:  # most layers share theirs
            known[key] = sum(1 << device for device in key)
        found[name] = known[key]
    return found


def bits_of(stage: Stage) -> int:
    """Return all devices of a stage, as bits."""
    found = 0
    for mesh in stage.meshes:
        for device in mesh.devices:
            found |= 1 << device
    return found


def fit_cuts(graph: LayerGraph, rules: Rules, job: JobStrategy) -> JobStrategy | None:
    """Return the same chain of stages on the same devices, cut as evenly as allowed; None if no cut is.

    Blocks stay whole if they can; elsewhere single layers are cut. The result is None as well if the stages
    are not consecutive runs of the model.
    """
    names = [layer.name for layer in graph.layers]
    if [name for stage in job.stages for name in stage.all_layers] != names:
        return None
    cuts = allowed_cuts(graph, rules, job.stages, units(graph))
    if cuts is None:
        cuts = allowed_cuts(graph, rules, job.stages, [(i, i + 1) for i in range(len(names))])
    if cuts is None:
        return None
    ends = [0, *cuts, len(names)]
    return job.with_stages(
        _with_layers(stage, names[ends[i] : ends[i + 1]]) for i, stage in enumerate(job.stages)
    )


def _with_layers(stage: Stage, names: Sequence[str]) -> Stage:
    return stage if stage.layers == tuple(names) else replace(stage, layers=tuple(names))


def allowed_cuts(
    graph: LayerGraph, rules: Rules, stages: Sequence[Stage], spans: Sequence[tuple[int, int]]
) -> list[int] | None:
    """Return the first layer of every stage but the first, between spans of layers; None if impossible.

    A dynamic program over stages and spans: every stage holds one span or more, all of them allowed there.
    """
    count = len(spans)
    if len(stages) > count:
        return None
    each = default_weights(graph)
    done = np.concatenate([[0.0], np.cumsum([sum(each[a:b]) for a, b in spans])])
    devices = [sum(len(mesh.devices) for mesh in stage.meshes) for stage in stages]
    fair = done[-1] / sum(devices) or 1.0
    load = done[None, :] - done[:, None]  # [from, to)
    forward = np.triu(np.ones((count + 1, count + 1), dtype=bool), 1)
    cost = np.full(count + 1, np.inf)
    cost[0] = 0.0
    came: list[np.ndarray] = []
    for stage, size in zip(stages, devices, strict=True):
        possible = forward & (
            _from(graph, rules, bits_of(stage), spans)[None, :] <= np.arange(count + 1)[:, None]
        )
        total = np.where(possible, cost[:, None] + (load / (size * fair)) ** EVENNESS, np.inf)
        came.append(total.argmin(axis=0))
        cost = total.min(axis=0)
    if not np.isfinite(cost[count]):
        return None
    at, found = count, []
    for before in reversed(came[1:]):
        at = int(before[at])
        found.append(spans[at][0])
    return found[::-1]


def _from(graph: LayerGraph, rules: Rules, devices: int, spans: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return for every end of a run of spans the earliest start from which these devices allow all."""
    earliest = [0]
    for i, (a, b) in enumerate(spans):
        allowed = all(rules.allows(graph.layers[k].name, devices) for k in range(a, b))
        earliest.append(earliest[-1] if allowed else i + 1)
    return np.array(earliest)
