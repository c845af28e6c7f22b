"""Layers on devices of several kinds, which take unequal shares of what is split; the best shares.

A layer that is split takes n r(k) times as long on a kind k as at equal shares 1/n. For given choices of the
layers the best shares are those of a linear program (Jiang et al., EuroSys 2024):

    minimise    sum over layers of T(l)  +  n m (seconds of re-sharding at equal shares)
    T(l)  >=  n r(k) seconds(l, k)          for every kind k of devices, where the layer is split
    m     >=  r(k)                          what is gathered or scattered is padded to the largest share
    sum over devices of r = 1
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from explorer.planners._pieces.choice_graph import ChoiceGraph, FloatArray
from explorer.planners._pieces.integer_program import least
from explorer.planners._pieces.layer_meshes import LayerMesh
from explorer.schedules._milp_program import Program
from explorer.search.problem import Problem

ANY, SHARDS, SAMPLES = "any", "shards", "samples"
"""Families of programs: all, those without samples of a device's own, those of nothing else."""
LEAST_SHARE = 0.02
"""Least share of a device, of an equal one: a device without any would be left out of the plan."""
_FAR = 1e9
"""Seconds of an option that is not allowed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SharedModel:
    """Layers on devices of several kinds, with seconds at equal shares."""

    counts: tuple[int, ...]
    """Devices of each kind."""
    mesh: LayerMesh
    """Choices, and costs at equal shares."""
    compute_s: tuple[FloatArray, ...]
    """Per layer: (kinds, options) seconds of a step at work; equal layers share arrays."""
    parted: tuple[FloatArray, ...]
    """Per layer: (options,) 1 where devices share the work, 0 where all do the same."""
    samples: tuple[FloatArray, ...]
    """Per layer: (options,) 1 where devices work on samples of their own."""

    @classmethod
    def of(cls, problem: Problem, mesh: LayerMesh) -> SharedModel:
        """Return the model of a mesh of one axis."""
        lane, table = mesh.table.layers.lane, mesh.table.options
        names = [lane.cluster.kind_of(device).name for device in mesh.stage.meshes[0].devices]
        ways = 3 if problem.job.training else 1
        times = problem.job.global_batch // mesh.stage.microbatch_samples
        known: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
        for layer, alike in enumerate(mesh.table.layers.alike.tolist()):
            if alike not in known:
                numbers = [int(k) for k in mesh.options[layer]]
                plans = np.array([mesh.table.layers.first_plan(layer, k) for k in numbers], dtype=np.int64)
                own = np.array([float(mesh.choices[k].axes == ()) for k in numbers])
                less = np.array([float(mesh.table.layers.plans[int(n)].work < 1) for n in plans])
                seconds = times * table.by_kind_s(layer, plans)[..., :ways].sum(axis=-1)
                known[alike] = seconds, np.maximum(own, less), own
        rows = [known[alike] for alike in mesh.table.layers.alike.tolist()]
        return cls(
            counts=tuple(names.count(kind.name) for kind in lane.kinds),
            mesh=mesh,
            compute_s=tuple([row[0] for row in rows]),
            parted=tuple([row[1] for row in rows]),
            samples=tuple([row[2] for row in rows]),
        )

    @property
    def devices(self) -> int:
        """Number of devices n."""
        return sum(self.counts)

    @cached_property
    def _distinct(self) -> dict[int, int]:
        """The first layer of each group of equal ones, by their array."""
        return {id(own): layer for layer, own in reversed(list(enumerate(self.compute_s)))}

    def offers(self, family: str) -> bool:
        """Tell whether every layer has an option of a family."""
        return all(self._allowed(layer, family).any() for layer in self._distinct.values())

    def _allowed(self, layer: int, family: str) -> FloatArray:
        own = self.samples[layer]
        return {ANY: np.ones(len(own)), SHARDS: 1.0 - own, SAMPLES: own}[family]

    def costs(self, shares: Sequence[float], family: str) -> ChoiceGraph:
        """Return seconds of a step under shares of the kinds, options of other families out of reach."""
        stretch, given = self.devices * np.array(shares), self.mesh.costs
        seconds: dict[int, FloatArray] = {}
        for name, layer in self._distinct.items():
            even = self.compute_s[layer]
            scale = np.where(self.parted[layer] > 0, stretch[:, None], 1.0)
            own = given.seconds[layer] - even.max(axis=0) + (scale * even).max(axis=0)
            seconds[name] = np.where(self._allowed(layer, family) > 0, own, _FAR)
        tables = {id(x): x * stretch.max() for x in given.edges.values()}
        return ChoiceGraph(
            seconds=tuple([seconds[id(own)] for own in self.compute_s]),
            held_bytes=given.held_bytes,
            edges={pair: tables[id(x)] for pair, x in given.edges.items()},
        )


def best_shares(loads: Sequence[FloatArray], sent_s: float, counts: Sequence[int]) -> tuple[float, ...]:
    """Return the shares of one device of each kind that take the least time.

    Args:
        loads: of each layer the seconds on each kind at equal shares, (kinds,).
        sent_s: seconds of transfers at equal shares, which grow with the largest share.
        counts: devices of each kind.
    """
    total = sum(counts)
    unit = sum(float(own.max()) for own in loads) + sent_s
    if len(counts) == 1 or not unit or not loads:
        return (1.0 / total,) * len(counts)
    program = Program()
    seconds = program.column(0.0, 1e9)
    # stretched: in units of an equal share
    shares = [program.column(LEAST_SHARE, float(total)) for _ in counts]
    largest = program.column(0.0, float(total))
    program.exactly(1.0, *((column, n / total) for column, n in zip(shares, counts, strict=True)))
    paid = [(largest, -sent_s / unit)]
    for own in loads:
        longest = program.column(0.0, 1e9)
        paid.append((longest, -1.0))
        for column, value in zip(shares, own.tolist(), strict=True):
            program.at_least(0.0, (longest, 1.0), (column, -value / unit))
    for column in shares:
        program.at_least(0.0, (largest, 1.0), (column, -1.0))
    program.at_least(0.0, (seconds, 1.0), *paid)
    values = least(program)
    return tuple(values[column] / total for column in shares)
