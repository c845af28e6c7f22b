"""Degrees of parallelism: how many devices work together in which way, as one value.

Stages x replicas x context x tensor devices, with chunks, microbatch size, recomputation, ZeRO and schedule.
`build` makes the strategy, `read` gets the value back. Ranks are numbered as Megatron does it: tensor
innermost (so that it stays inside a node), then context, replicas, and pipeline stages outermost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.schedules.placements import Grid, Placement
from explorer.sharding.derive import RING
from explorer.sharding.layouts import Layout, context_layout, expert_layout, megatron_layout, ulysses_layout
from explorer.strategies.cuts import balanced_cuts
from explorer.strategy import (
    REPLICA,
    ROUND_ROBIN,
    SPLIT,
    JobStrategy,
    Mesh,
    Sharding,
    Stage,
    Strategy,
    single,
)
from explorer.workload import Job

TENSOR, CONTEXT, EXPERT = "tensor", "context", "expert"
"""Mesh axes beside the replicas."""
RECOMPUTE = ("none", "selective", "full")
"""What is computed again in the backward, from most to least memory."""
ZERO_LEVELS = (0, 1, 2, 3)
GATHER, RING_EXCHANGE, ALL_TO_ALL = "gather", "ring", "all_to_all"
EXCHANGES: dict[str, Layout] = {
    GATHER: context_layout(),
    RING_EXCHANGE: context_layout(ring=True),
    ALL_TO_ALL: ulysses_layout(),
}
"""How attention sees the whole sequence under context parallelism, with the layout of each."""
MESH_AXES = (REPLICA, CONTEXT, TENSOR)
"""Axes of the mesh of a pipeline position, outermost first."""
GRID = ("stages", "replicas", TENSOR, CONTEXT)
"""Degrees whose product is the number of devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Degrees:
    """How a model is spread over devices when every stage is treated alike.

    `sequence_parallel` is False without tensor parallelism and `context_exchange` is `gather` without context
    parallelism, whatever was given: there they mean nothing.

    Raises:
        InputError: a degree below 1, or an unknown word.
    """

    tensor: int = 1
    """Devices t that share each layer."""
    stages: int = 1
    """Pipeline positions p."""
    replicas: int = 1
    """Data-parallel replicas d."""
    context: int = 1
    """Devices c that share the sequence of every sample."""
    expert: int = 1
    """Devices that share the experts of every mixture, among those of a pipeline position."""
    chunks: int = 0
    """Stages of one copy per pipeline position; 0 becomes what the schedule's placement has."""
    microbatch_size: int = 1
    """Samples of a microbatch per replica."""
    recompute: str = "none"
    """One of `RECOMPUTE`."""
    zero: int = 0
    """ZeRO level."""
    schedule: str = ""
    """Name; "" becomes 1f1b, or interleaved_1f1b where several chunks are given."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the schedule."""
    sequence_parallel: bool = False
    """Whether tensor parallelism also splits norms and additions, along the sequence."""
    context_exchange: str = GATHER
    """A key of `EXCHANGES`."""

    def __post_init__(self) -> None:
        for key in (*GRID, EXPERT, "microbatch_size"):
            if (value := getattr(self, key)) < 1:
                raise InputError(f"{key} is {value}", key=key, found=value, allowed=">= 1")
        if self.chunks < 0:
            raise InputError(f"chunks is {self.chunks}", key="chunks", found=self.chunks, allowed=">= 1")
        for key, known in (
            ("recompute", RECOMPUTE),
            ("zero", ZERO_LEVELS),
            ("context_exchange", tuple(EXCHANGES)),
        ):
            if (word := getattr(self, key)) not in known:
                allowed = ", ".join(map(str, known))
                raise InputError(f"{key} is {word!r}", key=key, found=word, allowed=allowed)
        name = self.schedule or default_schedule(self.chunks)
        grid = SCHEDULES.get(name).placement.grid(self.stages, self.chunks or None)
        given: dict[str, Any] = {"schedule": name, "chunks": grid.chunks}
        if self.tensor == 1:
            given["sequence_parallel"] = False
        if self.context == 1:
            given["context_exchange"] = GATHER
        for key, value in given.items():
            object.__setattr__(self, key, value)

    # -- what it says ---------------------------------------------------------------------------------

    @property
    def devices(self) -> int:
        """Devices used."""
        return self.stages * self.position_devices

    @property
    def position_devices(self) -> int:
        """Devices of one pipeline position."""
        return self.replicas * self.context * self.tensor

    @property
    def placement(self) -> Placement:
        """Where the schedule wants the stages."""
        return SCHEDULES.get(self.schedule).placement

    @property
    def grid(self) -> Grid:
        """What the placement is laid over."""
        return self.placement.grid(self.stages, self.chunks)

    @property
    def stage_count(self) -> int:
        """Stages of one copy."""
        return self.placement.stages(self.grid)

    @property
    def takes_turns(self) -> bool:
        """Whether replicas take whole microbatches, as schedules that dispatch need it."""
        return self.replicas > 1 and SCHEDULES.get(self.schedule).dispatch

    @property
    def microbatch_samples(self) -> int:
        """Samples of a microbatch, over all replicas that share it."""
        return self.microbatch_size * (1 if self.takes_turns else self.replicas)

    @property
    def homes(self) -> tuple[tuple[int, ...], ...]:
        """Pipeline positions of the copies of every stage."""
        grid, position = self.grid, self.placement.position
        return tuple(
            tuple(position(stage, copy, grid) for copy in range(grid.copies))
            for stage in range(self.stage_count)
        )

    @property
    def label(self) -> str:
        """Name it in a few words, as leaderboards do: `tp 2 x pp 4 x dp 1, microbatch 8`."""
        grid = [f"tp {self.tensor}", *([f"cp {self.context}"] if self.context > 1 else [])]
        grid += [f"pp {self.stages}", f"dp {self.replicas}"]
        parts = [" x ".join(grid)]
        parts += [f"ep {self.expert}"] if self.expert > 1 else []
        parts += [f"{self.chunks} chunks"] if self.chunks > 1 else []
        parts += [f"microbatch {self.microbatch_size}"]
        parts += [f"{self.recompute} recomputation"] if self.recompute != "none" else []
        parts += [f"ZeRO-{self.zero}"] if self.zero else []
        parts += [self.schedule] if self.schedule not in ("1f1b", "interleaved_1f1b") else []
        return ", ".join(parts)

    @property
    def words(self) -> str:
        """Name the grid of devices in plain words: `4 stages × 2 replicas × 2-way tensor`."""
        words = [f"{self.stages} stage{'s' * (self.stages > 1)}"]
        words.append(f"{self.replicas} replica{'s' * (self.replicas > 1)}")
        words += [f"{self.context}-way context"] if self.context > 1 else []
        return " × ".join([*words, f"{self.tensor}-way tensor"] if self.tensor > 1 else words)

    @property
    def layout(self) -> Layout:
        """Return the named-dimension layout of every stage."""
        context = EXCHANGES[self.context_exchange] if self.context > 1 else ()
        if self.tensor == 1:
            return context
        return (*context, *megatron_layout(sequence_parallel=self.sequence_parallel))

    def mesh(self, position: int, devices: Sequence[int] = ()) -> Mesh:
        """Return the mesh of a pipeline position: a contiguous run of ranks.

        Args:
            position: 0 to stages - 1.
            devices: device of every rank; () is 0, 1, 2, ....
        """
        size = self.position_devices
        ranks = range(position * size, (position + 1) * size)
        sizes = dict(zip(MESH_AXES, (self.replicas, self.context, self.tensor), strict=True))
        axes = tuple((name, size) for name, size in sizes.items() if size > 1 or name == REPLICA)
        return Mesh(devices=tuple(devices[i] for i in ranks) if devices else tuple(ranks), axes=axes)

    # -- from degrees to a strategy and back ------------------------------------------------------------

    def build(
        self,
        graph: LayerGraph,
        cluster: Cluster,
        job: Job,
        *,
        devices: Sequence[int] = (),
        cuts: Sequence[int] | None = None,
        weights: Sequence[float] | None = None,
        microbatch_samples: int | None = None,
    ) -> Strategy:
        """Return the strategy: the model cut evenly (or at `cuts`), every stage treated alike.

        Args:
            graph: the model.
            cluster: the devices.
            job: for the global batch.
            devices: device of every rank, in order; the first so many are used. () is `cluster.order`.
            cuts: first layer index of every stage but the first, instead of balancing.
            weights: cost per layer that the cut balances; default forward + backward FLOPs.
            microbatch_samples: of all replicas together, where replicas take unequal parts of a microbatch.

        Raises:
            InputError: too few devices or units, a batch that does not divide, a dimension the model lacks.
        """
        samples = microbatch_samples or self.microbatch_samples
        if cluster.pools and not devices:
            devices = cluster.order
        self._check(graph, cluster, job, devices, samples)
        count = self.stage_count
        if cuts is None:
            cuts = balanced_cuts(graph, count, weights)
        names = [layer.name for layer in graph.layers]
        bounds = [0, *cuts, len(names)]
        parts = [tuple(names[bounds[i] : bounds[i + 1]]) for i in range(count)]
        return single(
            stages=self._stages(parts, devices, expert_patterns(graph), samples),
            schedule=self.schedule,
            options=self.options,
            job=job.name,
        )

    def _stages(
        self,
        parts: Sequence[tuple[str, ...]],
        devices: Sequence[int],
        experts: tuple[str, ...],
        samples: int,
    ) -> tuple[Stage, ...]:
        layout = self.layout
        made = [self.mesh(position, devices) for position in range(self.stages)]
        found = []
        for layers, positions in zip(parts, self.homes, strict=True):
            meshes = tuple(made[position] for position in positions)
            found.append(
                Stage(
                    layers=layers,
                    meshes=meshes,
                    microbatch_samples=samples,
                    replicas=ROUND_ROBIN if self.takes_turns else SPLIT,
                    layout=layout,
                    shardings=self._shardings(layers, meshes, experts),
                    recompute=self.recompute,
                    zero=self.zero,
                )
            )
        return tuple(found)

    def _shardings(
        self, layers: tuple[str, ...], meshes: Sequence[Mesh], experts: tuple[str, ...]
    ) -> tuple[Sharding, ...]:
        """Experts on a mesh of their own over all devices of the position (Megatron's folding)."""
        if self.expert == 1:
            return ()
        axes = ((REPLICA, self.position_devices // self.expert), (EXPERT, self.expert))
        spread = tuple(Mesh(devices=mesh.devices, axes=axes) for mesh in meshes)
        own = Sharding(layers=experts, layout=expert_layout(), meshes=spread)
        return (own,) if any(own.covers(name) for name in layers) else ()

    @classmethod
    def nearest(cls, job: JobStrategy, positions: int = 0) -> Degrees:
        """Return the degrees nearest to any strategy, as pickers show it: those of its first stage.

        Args:
            job: the strategy.
            positions: device groups along the pipeline; 0 counts those that hold layers.
        """
        first = job.stages[0]
        mesh = first.meshes[0]
        whole = SCHEDULES.get(job.schedule).placement.whole
        homes = {mesh for stage in job.stages for mesh in stage.meshes}
        stages = len(homes) if whole or not positions else positions
        context = mesh.size(CONTEXT)
        shared = 1 if first.replicas == ROUND_ROBIN else mesh.replicas
        own = (item.meshes[0] for stage in job.stages for item in stage.shardings if item.meshes)
        dims = {dim for dim, axis in first.layout if axis == CONTEXT}
        return cls(
            stages=stages,
            replicas=mesh.replicas,
            tensor=len(mesh.devices) // (mesh.replicas * context),
            context=context,
            expert=max((found.size(EXPERT) for found in own), default=1),
            chunks=len(job.stages) if whole else max(1, len(job.stages) // stages),
            microbatch_size=max(1, first.microbatch_samples // shared),
            recompute=first.recompute,
            zero=first.zero,
            schedule=job.schedule,
            options=job.options,
            sequence_parallel=("seq", TENSOR) in first.layout,
            context_exchange=RING_EXCHANGE if RING in dims else ALL_TO_ALL if "heads" in dims else GATHER,
        )

    @classmethod
    def read(cls, strategy: Strategy) -> Degrees | None:
        """Return the degrees of which `build` makes this strategy, with some cuts and devices.

        None for any other: stages that differ, shares, offload, reductions of its own, ....
        """
        if len(strategy.jobs) != 1:
            return None
        job = strategy.job
        found = cls.nearest(job)
        homes = found.homes
        if [len(stage.meshes) for stage in job.stages] != [len(positions) for positions in homes]:
            return None
        meshes = {
            position: mesh
            for positions, stage in zip(homes, job.stages, strict=True)
            for position, mesh in zip(positions, stage.meshes, strict=True)
        }
        devices = [device for _, mesh in sorted(meshes.items()) for device in mesh.devices]
        if len(set(devices)) != found.devices or len(devices) != found.devices:
            return None
        parts = [stage.layers for stage in job.stages]
        patterns = next((item.layers for stage in job.stages for item in stage.shardings), ())
        made = single(
            stages=found._stages(parts, devices, patterns, found.microbatch_samples), schedule=job.schedule,
            options=job.options, job=job.job,
        )  # fmt: skip
        plain = job.with_stages(replace(stage, name="") if stage.name else stage for stage in job.stages)
        return found if made.job == plain else None

    @classmethod
    def regular(cls, job: JobStrategy) -> Degrees | None:
        """Return the degrees of a strategy whose stages lie alike, whatever else is chosen; None for others.

        Equal meshes of known axes, one device group after the other, without slices, shares, shardings of
        single layers or replicas that take turns.
        """
        axes = {mesh.axes for stage in job.stages for mesh in stage.meshes}
        groups = {stage.meshes for stage in job.stages}
        plain = all(
            not (stage.slices or stage.shardings or stage.shares or stage.axis_shares)
            and stage.replicas == SPLIT
            and len(stage.meshes) == 1
            for stage in job.stages
        )
        known = {name for found in axes for name, _ in found} <= {REPLICA, CONTEXT, TENSOR}
        alike = len(axes) == 1 and plain and known and len(job.stages) % len(groups) == 0
        return cls.nearest(job) if alike else None

    # -- legality and neighbours ------------------------------------------------------------------------

    def check(self, graph: LayerGraph, cluster: Cluster, job: Job, devices: Sequence[int] = ()) -> None:
        """Raise where no strategy can be built.

        Raises:
            InputError: as `build`, and where the schedule does not get what it needs.
        """
        self._check(graph, cluster, job, devices, self.microbatch_samples)
        if self.stage_count > len(graph.layers):
            raise InputError(
                f"{self.stage_count} stages for {len(graph.layers)} layers", key="stages",
                found=self.stage_count, allowed=f"<= {len(graph.layers)}",
            )  # fmt: skip
        microbatches = job.global_batch // self.microbatch_samples
        for unmet in SCHEDULES.get(self.schedule).unmet_even(self.stages, microbatches, self.chunks):
            raise unmet.error()

    def _check(
        self, graph: LayerGraph, cluster: Cluster, job: Job, devices: Sequence[int], samples: int
    ) -> None:
        there = len(devices) if devices else cluster.device_count
        if self.devices > there:
            factors = [f"{self.stages} stages", f"{self.replicas} replicas"]
            factors += [f"{self.context} context"] if self.context > 1 else []
            what = f"{there} are given" if devices else f"cluster {cluster.name!r} has {there}"
            raise InputError(
                f"{' x '.join([*factors, f'{self.tensor} tensor'])} need {self.devices} devices; {what}",
                key="stages",
                found=self.devices,
                allowed=f"<= {there}",
            )
        if devices:
            _check_devices(cluster, devices)
        if samples < 1 or job.global_batch % samples:
            raise InputError(
                f"microbatches of {samples} samples ({samples // self.replicas} x {self.replicas} replicas)"
                f" do not divide the global batch of {job.global_batch}",
                key="microbatch_size",
                found=samples,
                allowed="a divisor of the global batch",
            )
        self._check_dimensions(graph)

    def _check_dimensions(self, graph: LayerGraph) -> None:
        known = graph.memo(
            "dimension_names", lambda: {dim.name for item in graph.layers for dim in item.dims}
        )
        for axis, layout in (
            (TENSOR, megatron_layout() if self.tensor > 1 else ()),
            (CONTEXT, context_layout() if self.context > 1 else ()),
        ):
            dims = [dim for dim, _ in layout]
            if dims and not known.intersection(dims):
                raise InputError(
                    f"model {graph.name!r} has no dimension that {axis} parallelism splits"
                    f" ({', '.join(dims)})",
                    key=axis,
                    found=getattr(self, axis),
                    allowed="1",
                )
        if self.expert > 1:
            self._check_experts(graph)

    def _check_experts(self, graph: LayerGraph) -> None:
        most = _expert_count(graph)
        if not most:
            raise InputError(
                f"model {graph.name!r} has no experts", key=EXPERT, found=self.expert, allowed="1"
            )
        if self.position_devices % self.expert or self.expert > most:
            raise InputError(
                f"{most} experts over {self.expert} of the {self.position_devices} devices of a stage",
                key=EXPERT,
                found=self.expert,
                allowed=f"a divisor of {self.position_devices}, at most {most}",
            )

    def exchanges(self, kinds: Iterable[str] = GRID) -> Iterator[Degrees]:
        """Yield degrees on as many devices: one of `kinds` doubled, another halved."""
        for more, less in permutations(kinds, 2):
            if getattr(self, less) % 2 == 0:
                yield self.changed(**{more: 2 * getattr(self, more), less: getattr(self, less) // 2})

    def neighbours(
        self, graph: LayerGraph, cluster: Cluster, job: Job, devices: Sequence[int] = ()
    ) -> Iterator[Degrees]:
        """Yield the degrees one change away that can be built, on at most as many devices.

        One degree doubled and another halved, chunks or microbatches doubled or halved, other recomputation
        or ZeRO level.
        """
        for found in self._changes(job):
            try:
                found.check(graph, cluster, job, devices)
            except InputError:
                continue
            yield found

    def _changes(self, job: Job) -> Iterator[Degrees]:
        yield from self.exchanges()
        keys = ("microbatch_size", EXPERT, *(["chunks"] if self.stages > 1 else []))
        for key in keys:
            value = getattr(self, key)
            yield self.changed(**{key: 2 * value})
            if value % 2 == 0:
                yield self.changed(**{key: value // 2})
        if job.training:
            yield from (self.changed(recompute=word) for word in RECOMPUTE if word != self.recompute)
            if self.replicas > 1:
                yield from (self.changed(zero=level) for level in ZERO_LEVELS if level != self.zero)

    def divisible(self, job: Job) -> Degrees:
        """Return the degrees with the largest microbatch, up to their own, that divides the batch."""
        share, rest = divmod(job.global_batch, self.replicas)
        sizes = range(self.microbatch_size, 0, -1) if not rest else ()
        return self.changed(microbatch_size=next((n for n in sizes if share % n == 0), self.microbatch_size))

    def changed(self, **changes: Any) -> Degrees:
        """Return the degrees with some changed; a schedule or chunks by default follow the others."""
        if self.schedule == default_schedule(self.chunks) and not self.options:
            changes.setdefault("schedule", "")
        if self.chunks == self.placement.grid(self.stages).chunks:
            changes.setdefault("chunks", 0)
        return replace(self, **changes)


def chunks_or_default(chunks: int | None) -> int:
    """Return chunks as `Degrees` takes them: 0, the schedule's default, where None are given.

    Raises:
        InputError: fewer than 1.
    """
    if chunks is not None and chunks < 1:
        raise InputError(f"chunks is {chunks}", key="chunks", found=chunks, allowed=">= 1")
    return chunks or 0


def default_schedule(chunks: int) -> str:
    """Return the schedule where none is named."""
    return "interleaved_1f1b" if chunks > 1 else "1f1b"


def ranks_of(job: JobStrategy) -> tuple[int, ...]:
    """Return the devices of a strategy in the order of its stages."""
    return tuple(dict.fromkeys(d for stage in job.stages for mesh in stage.meshes for d in mesh.devices))


def most_replicas(most: int, batch: int) -> int:
    """Return the most replicas, up to `most`, that divide a batch; 1 where none do.

    >>> most_replicas(3, 16)
    2
    """
    return next((count for count in range(min(most, batch), 1, -1) if batch % count == 0), 1)


def _check_devices(cluster: Cluster, devices: Sequence[int]) -> None:
    wrong = [device for device in devices if not 0 <= device < cluster.device_count]
    if wrong or len(set(devices)) < len(devices):
        said = f"no device {wrong[0]}" if wrong else "a device twice"
        raise InputError(
            f"{said} in the devices of {cluster.name!r}",
            key="devices",
            found=wrong[0] if wrong else len(devices),
            allowed=f"different devices from 0 to {cluster.device_count - 1}",
        )


def splittable(graph: LayerGraph) -> frozenset[str]:
    """Return the axes beside replicas that a model can be split along: `tensor`, `context`, `expert`."""

    def make() -> frozenset[str]:
        return frozenset(axis for axis in (TENSOR, CONTEXT, EXPERT) if _splits(graph, axis))

    return graph.memo("splittable_axes", make)


def _splits(graph: LayerGraph, axis: str) -> bool:
    if axis == EXPERT:
        return _expert_count(graph) > 1
    dims = {dim for dim, _ in (megatron_layout() if axis == TENSOR else context_layout())}
    return any(dim.name in dims for layer in graph.layers for dim in layer.dims)


def expert_patterns(graph: LayerGraph) -> tuple[str, ...]:
    """Return patterns of the names of all layers of experts, and of no others."""

    def make() -> tuple[str, ...]:
        names = [layer.name for layer in graph.layers if layer.kind == "experts"]
        if not names:
            return ()
        patterns = tuple(dict.fromkeys(f"*.{name.rpartition('.')[2]}" for name in names))
        sharding = Sharding(layers=patterns)
        covered = [layer.name for layer in graph.layers if sharding.covers(layer.name)]
        return patterns if covered == names else tuple(names)

    return graph.memo("expert_patterns", make)


def _expert_count(graph: LayerGraph) -> int:
    """Experts of the smallest mixture; 0 where there is none."""

    def make() -> int:
        sizes = [
            dim.size
            for layer in graph.layers
            if layer.kind == "experts"
            for dim in layer.dims
            if dim.name == "experts"
        ]
        return math.floor(min(sizes, default=0))

    return graph.memo("expert_count", make)
