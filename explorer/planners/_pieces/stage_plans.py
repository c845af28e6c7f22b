"""Plans as learners see them: a line of stages, each with its devices and choices, all of it in one value.

A stage has consecutive units (blocks, and layers outside of them) and the next devices of one kind. Its
replicas share every microbatch; within a replica its layers are split over a tensor degree, except units that
work on samples of their own on every device. A plan is compared and looked up as a tuple of numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from explorer.base.errors import InputError
from explorer.planners._pieces.fleet import Fleet, fleet_of
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategies.cuts import default_weights, units
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS, Degrees
from explorer.strategies.model_axes import TENSOR, splittable
from explorer.strategy import Mesh, Sharding, Stage, Strategy, single

SCHEDULE = "1f1b"
DRAWS = 1000
"""Draws until there is taken to be no legal plan."""


class Part(NamedTuple):
    """One stage."""

    stop: int
    """The first unit after it."""
    kind: int
    """Number of the kind of its devices."""
    groups: int
    """Groups of devices that it has."""
    tensor: int = 1
    """Devices that share each layer."""
    recompute: str = "none"
    """What its backward computes again."""
    zero: int = 0
    """ZeRO level."""
    apart: tuple[int, ...] = ()
    """Units that are not shared: every device has samples of its own."""


class Plan(NamedTuple):
    """Stages in order, and the samples of a microbatch."""

    parts: tuple[Part, ...]
    microbatch: int

    @property
    def label(self) -> str:
        """The plan in a few words."""
        runs = [(groups, len(list(own))) for groups, own in groupby(part.groups for part in self.parts)]
        devices = " + ".join(f"{count} x {groups}" if count > 1 else f"{groups}" for groups, count in runs)
        count = len(self.parts)
        return f"{count} stage{'s' * (count > 1)} on {devices}, microbatches of {self.microbatch}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanSpace:
    """All plans of a problem: which are legal, some to begin with, draws, and their strategies."""

    problem: Problem
    fleet: Fleet
    units: tuple[tuple[int, int], ...]
    """Layers [start, stop) of each unit."""
    loads: tuple[float, ...]
    """Work of each unit, by which first plans are cut."""
    sizes: tuple[int, ...]
    """Samples that a microbatch may have: divisors of the batch, ascending."""
    tensors: tuple[int, ...]
    """Tensor degrees, ascending."""
    stages: dict[tuple[object, ...], Stage] = field(default_factory=dict)
    """Stages that were made. One that stays as it was stays the same object, and what it costs is known."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Groups of devices of each kind."""
        return tuple(map(len, self.fleet.groups))

    def legal(self, plan: Plan) -> Plan | None:
        """Return the plan in its normal form; None if it has too many devices or too few units or samples.

        What means nothing is left out: ZeRO without replicas, exceptions without tensor parallelism.
        """
        used, start = [0] * len(self.counts), 0
        parts = []
        for part in plan.parts:
            used[part.kind] += part.groups
            if part.stop <= start or part.groups < 1:
                return None
            made = self._normal(part, start, plan.microbatch)
            if made is None:
                return None
            parts.append(made)
            start = part.stop
        if start != len(self.units) or any(n > most for n, most in zip(used, self.counts, strict=True)):
            return None
        return Plan(tuple(parts), plan.microbatch)

    def _normal(self, part: Part, start: int, microbatch: int) -> Part | None:
        devices = part.groups * self.fleet.size
        tensor = max(t for t in self.tensors if t <= part.tensor and devices % t == 0)
        replicas = devices // tensor
        if replicas > microbatch:
            return None
        training = self.problem.job.training
        apart = tuple([u for u in part.apart if start <= u < part.stop])
        return part._replace(
            tensor=tensor,
            recompute=part.recompute if training else RECOMPUTE[0],
            zero=part.zero if training and replicas > 1 else 0,
            apart=apart if tensor > 1 and devices <= microbatch else (),
        )

    # ---- strategies ---------------------------------------------------------------------------------

    def strategy(self, plan: Plan) -> Strategy:
        """Return the strategy of a legal plan."""
        taken, start, made = [0] * len(self.counts), 0, []
        for part in plan.parts:
            first = taken[part.kind]
            taken[part.kind] += part.groups
            made.append(self._stage(part, start, first, plan.microbatch))
            start = part.stop
        return single(stages=tuple(made), schedule=SCHEDULE, job=self.problem.job.name)

    def _stage(self, part: Part, start: int, first: int, microbatch: int) -> Stage:
        key = (*part, start, first, microbatch)
        if key not in self.stages:
            groups = self.fleet.groups[part.kind][first : first + part.groups]
            devices = tuple([device for group in groups for device in group])
            degrees = Degrees(
                tensor=part.tensor, replicas=len(devices) // part.tensor, recompute=part.recompute,
                zero=part.zero,
            )  # fmt: skip
            names = self._names(range(start, part.stop))
            stage = degrees.stages_of([names], devices, microbatch_samples=microbatch)[0]
            if part.apart:
                own = Sharding(layers=self._names(part.apart), meshes=(Mesh(devices=devices),))
                stage = replace(stage, shardings=(own,))
            self.stages[key] = stage
        return self.stages[key]

    def _names(self, numbers: Sequence[int]) -> tuple[str, ...]:
        layers = self.problem.graph.layers
        return tuple([layers[i].name for u in numbers for i in range(*self.units[u])])

    # ---- plans to begin with ------------------------------------------------------------------------

    def cut(self, room: Sequence[float]) -> list[int]:
        """Return the stop of each of some stages, whose work is about in proportion to what they can do.

        Args:
            room: per stage, what it does in a second; as many as there are units at most.
        """
        done, able = [0.0, *accumulate(self.loads)], [*accumulate(room)]
        stops = [0]
        for i, so_far in enumerate(able[:-1]):
            wanted = done[-1] * so_far / able[-1]
            choices = range(stops[-1] + 1, len(self.units) - (len(room) - i - 1) + 1)
            _, stop = min((abs(done[u] - wanted), u) for u in choices)
            stops.append(stop)
        return [*stops[1:], len(self.units)]

    def line(self, shares: Sequence[tuple[int, int]], tensor: int = 1) -> Plan | None:
        """Return stages of (kind, groups) cut by the peak of their devices; None if there is no such plan."""
        if len(shares) > len(self.units):
            return None
        peaks = [kind.peak(self.problem.job.precision) for kind in self.fleet.kinds]
        stops = self.cut([peaks[k] * groups for k, groups in shares])
        parts = [Part(stop, k, groups, tensor) for stop, (k, groups) in zip(stops, shares, strict=True)]
        return self.sized(parts, self.problem.job.global_batch / (4 * len(parts) if len(parts) > 1 else 1))

    def sized(self, parts: Sequence[Part], samples: float) -> Plan | None:
        """Return the legal plan whose microbatch is nearest to so many samples; None if none is legal."""
        found = (self.legal(Plan(tuple(parts), size)) for size in self.sizes)
        legal = [plan for plan in found if plan is not None]
        return min(legal, key=lambda plan: abs(plan.microbatch - samples), default=None)

    def first_plans(self) -> tuple[Plan, ...]:
        """Return what people begin with: data and tensor parallelism, even pipelines, Megatron's mixture.

        Where devices differ in kind, each kind has a stage of its own, or several.
        """
        kinds, most = list(enumerate(self.counts)), self.tensors[-1]
        deep = [part for k, count in kinds for part in _even(k, count, 8)]
        nodes = [part for k, count in kinds for part in _even(k, count, count * self.fleet.size // most)]
        wanted = [self.line(kinds), self.line(kinds, most), self.line(deep), self.line(nodes, most)]
        return tuple(dict.fromkeys(plan for plan in wanted if plan is not None))

    def drawn(self, luck: random.Random) -> Plan:
        """Return a plan drawn at random, every choice uniformly among those that are left.

        Kinds in use are so wholly, if there are samples for all their devices.

        Raises:
            InputError: there are far too few samples for the devices.
        """
        for _ in range(DRAWS):
            count = luck.randint(1, min(len(self.units), sum(self.counts)))
            stops = [*sorted(luck.sample(range(1, len(self.units)), count - 1)), len(self.units)]
            kinds = [luck.randrange(len(self.counts)) for _ in stops]
            if any(kinds.count(k) > most for k, most in enumerate(self.counts)):
                continue
            rest = [iter(_composed(most, kinds.count(k), luck)) for k, most in enumerate(self.counts)]
            parts = [self._drawn(stop, k, next(rest[k]), luck) for stop, k in zip(stops, kinds, strict=True)]
            found = [self.legal(Plan(tuple(parts), size)) for size in self.sizes]
            if legal := [plan for plan in found if plan is not None]:
                return luck.choice(legal)
        batch, devices = self.problem.job.global_batch, len(self.problem.order)
        raise InputError(
            f"no stages on {devices} devices that {batch} samples keep busy", key="global_batch", found=batch,
            allowed="more samples, or fewer devices (--max-devices)",
        )  # fmt: skip

    def _drawn(self, stop: int, kind: int, groups: int, luck: random.Random) -> Part:
        some = luck.randrange(2) * [u for u in range(stop) if luck.random() < 0.5]
        tensor = luck.choice(self.tensors)
        most = max(1, self.sizes[-1] * tensor // self.fleet.size)  # a sample at least for every replica
        return Part(
            stop,
            kind,
            min(groups, most),
            tensor,
            luck.choice(RECOMPUTE),
            luck.choice(ZERO_LEVELS),
            tuple(some),
        )


def plan_space(problem: Problem) -> PlanSpace:
    """Return the plans of a problem.

    Raises:
        InputError: there is no cluster.
    """
    graph, fleet = problem.graph, fleet_of(problem)
    weights, spans = default_weights(graph), tuple(units(graph))
    node = min(problem.needed_cluster.node_size(device) for device in problem.order)
    tensors = [t for t in divisors(node) if t & (t - 1) == 0] if TENSOR in splittable(graph) else [1]
    return PlanSpace(
        problem=problem, fleet=fleet, units=spans,
        loads=tuple([sum(weights[a:b]) for a, b in spans]),
        sizes=tuple(divisors(problem.job.global_batch)),
        tensors=tuple([t for t in tensors if t <= len(problem.order)]),
    )  # fmt: skip


def _even(kind: int, count: int, stages: int) -> Iterator[tuple[int, int]]:
    """Yield (kind, groups) of equal stages, as many as there may be up to a number."""
    stages = max(n for n in divisors(count) if n <= max(stages, 1))
    for _ in range(stages):
        yield kind, count // stages


def _composed(total: int, parts: int, luck: random.Random) -> list[int]:
    """Return so many numbers of 1 or more with a given sum, drawn uniformly."""
    if not parts:
        return []
    return [b - a for a, b in pairwise([0, *sorted(luck.sample(range(1, total), parts - 1)), total])]
