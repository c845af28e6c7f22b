"""Degrees of parallelism: how many devices work together in which way, as one value.

Stages x replicas x context x tensor devices, with chunks, microbatch size, recomputation, ZeRO and schedule.
`build` makes the strategy; `degrees_reading` gets the value back, `degrees_neighbours` goes a step further.
Ranks are numbered as Megatron does it: tensor innermost (so that it stays inside a node), then context,
replicas, and pipeline stages outermost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.base.errors import InputError
from explorer.base.units import MIB
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.schedules.placements import Grid, Placement
from explorer.sharding.layouts import Layout, context_layout, megatron_layout, ulysses_layout
from explorer.strategies.cuts import balanced_cuts
from explorer.strategies.model_axes import (
    CONTEXT,
    EXPERT,
    TENSOR,
    check_axes,
    expert_patterns,
    expert_shardings,
)
from explorer.strategy import RECOMPUTES, REPLICA, ROUND_ROBIN, SPLIT, Mesh, Stage, Strategy, Sync, single
from explorer.workload import Job

RECOMPUTE = RECOMPUTES
"""What is computed again in the backward, from most to least memory."""
ZERO_LEVELS = (0, 1, 2, 3)
USUAL_BUCKET_BYTES = 25.0 * MIB
"""Size of the buckets of gradients that DDP and FSDP make if nobody says otherwise."""
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

    `sequence_parallel` is False without tensor parallelism, `context_exchange` is `gather` without context
    parallelism and `bucket_bytes` is 0 where nobody holds the same weights, whatever was given: there they
    mean nothing.

    Raises:
        InputError: a degree below 1, an unknown word, or buckets of less than 0 bytes.
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
    bucket_bytes: float = 0.0
    """Size of the buckets in which gradients are reduced as the last backward makes them; 0 waits for all."""

    def __post_init__(self) -> None:
        for key in (*GRID, EXPERT, "microbatch_size"):
            if (value := getattr(self, key)) < 1:
                raise InputError(f"{key} is {value}", key=key, found=value, allowed=">= 1")
        if self.chunks < 0:
            raise InputError(f"chunks is {self.chunks}", key="chunks", found=self.chunks, allowed=">= 1")
        if not 0 <= self.bucket_bytes < math.inf:
            raise InputError(
                f"buckets of {self.bucket_bytes:g} bytes", key="bucket_bytes", found=self.bucket_bytes,
                allowed=">= 0",
            )  # fmt: skip
        for key, known in (
            ("recompute", RECOMPUTE),
            ("zero", ZERO_LEVELS),
            ("context_exchange", tuple(EXCHANGES)),
        ):
            if (word := getattr(self, key)) not in known:
                allowed = ", ".join(map(str, known))
                raise InputError(f"{key} is {word!r}", key=key, found=word, allowed=allowed)
        name = self.schedule or default_schedule(self.chunks)
        schedule = SCHEDULES.get(name).with_options(dict(self.options))
        grid = schedule.placement.grid(self.stages, self.chunks or None)
        given: dict[str, Any] = {"schedule": name, "chunks": grid.chunks}
        if self.tensor == 1:
            given["sequence_parallel"] = False
        if self.context == 1:
            given["context_exchange"] = GATHER
        if self.replicas * grid.copies == 1:
            given["bucket_bytes"] = 0.0
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
        return SCHEDULES.get(self.schedule).with_options(dict(self.options)).placement

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
        parts += ["sequence parallel"] if self.sequence_parallel else []
        parts += [f"{self.context_exchange} attention"] if self.context_exchange != GATHER else []
        parts += [f"{self.bucket_bytes / MIB:g} MiB buckets"] if self.bucket_bytes else []
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
    def sync(self) -> tuple[Sync, ...]:
        """Return how gradients are exchanged where it is no plain all-reduce at the end."""
        return (Sync(parameters=("*",), bucket_bytes=self.bucket_bytes),) if self.bucket_bytes else ()

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
            stages=self.stages_of(parts, devices, expert_patterns(graph), samples),
            schedule=self.schedule,
            options=self.options,
            sync=self.sync,
            job=job.name,
        )

    def stages_of(
        self,
        parts: Sequence[tuple[str, ...]],
        devices: Sequence[int] = (),
        experts: tuple[str, ...] = (),
        microbatch_samples: int | None = None,
    ) -> tuple[Stage, ...]:
        """Return the stages of parts of a model.

        Args:
            parts: names of the layers of every stage.
            devices: device of every rank; () is 0, 1, 2, ....
            experts: patterns of the layers of experts.
            microbatch_samples: as `build`.
        """
        made = [self.mesh(position, devices) for position in range(self.stages)]
        layout = self.layout
        found = []
        for layers, positions in zip(parts, self.homes, strict=True):
            meshes = tuple(made[position] for position in positions)
            found.append(
                Stage(
                    layers=layers,
                    meshes=meshes,
                    microbatch_samples=microbatch_samples or self.microbatch_samples,
                    replicas=ROUND_ROBIN if self.takes_turns else SPLIT,
                    layout=layout,
                    shardings=expert_shardings(layers, meshes, experts, self.expert),
                    recompute=self.recompute,
                    zero=self.zero,
                )
            )
        return tuple(found)

    # -- legality --------------------------------------------------------------------------------------

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
        if self.zero and SCHEDULES.get(self.schedule).dispatch:
            raise InputError(
                f"ZeRO-{self.zero} under {self.schedule}, whose replicas may leave", key="zero",
                found=self.zero, allowed="0",
            )  # fmt: skip
        microbatches = job.global_batch // self.microbatch_samples
        schedule = SCHEDULES.get(self.schedule).with_options(dict(self.options))
        for unmet in schedule.unmet_even(self.stages, microbatches, self.chunks):
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
            cluster.check_devices(devices)
        if samples < 1 or job.global_batch % samples:
            raise InputError(
                f"microbatches of {samples} samples ({samples // self.replicas} x {self.replicas} replicas)"
                f" do not divide the global batch of {job.global_batch}",
                key="microbatch_size",
                found=samples,
                allowed="a divisor of the global batch",
            )
        check_axes(
            graph, tensor=self.tensor, context=self.context, expert=self.expert,
            devices=self.position_devices, exchanged=self.context_exchange == ALL_TO_ALL,
        )  # fmt: skip

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
