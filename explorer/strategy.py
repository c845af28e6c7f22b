"""Strategy: everything that is chosen: a DAG of stages on meshes, a schedule, and how to synchronise.

A *stage* is a set of layers (or slices of layers) that run on one *mesh* per copy: an ordered device
list with named axes. The axis ``replica`` counts data-parallel replicas; every other axis (``tensor``,
``expert``, ``context``) works on one replica together, in lockstep: that row of devices is a *lane*.
Which devices reduce gradients together is never declared: it follows from which hold the same shard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import chain
from typing import Any, TypeVar

from explorer.base.caching import Hashed, Owner, Same, remembered
from explorer.base.errors import InputError

REPLICA = "replica"
"""The mesh axis whose coordinates are data-parallel replicas."""
SPLIT, ROUND_ROBIN = "split", "round_robin"
RESHARDS = (RESHARD_ACTION, RESHARD_RUN) = ("action", "run")
"""How long ZeRO keeps gathered weights: see `explorer.tasks.runs`."""
TRANSFERS = ("direct", "gather", "broadcast", "ordered", "best")
"""How tensors cross from one stage's mesh to another's: see `explorer.pricing.stage_transfers`."""
OFFLOADS = (OPTIMIZER, ACTIVATIONS) = ("optimizer", "activations")
"""What a stage may keep in host memory."""
RECOMPUTES = ("none", "selective", "full")
"""What a stage may make again for its backward; a `Keeping` may say `output` as well."""
RECOMPUTE_OUTPUT = "output"
KEPT_ON = (ON_DEVICE, ON_HOST) = ("device", "host")
"""Where layers keep what their backward reads."""
OVERLAPS = (TILES, WEIGHT_GRADIENT) = ("tiles", "weight_gradient")
"""How collectives inside a lane may overlap with work: see `explorer.pricing.overlap`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh(Owner):
    """An ordered device list with named axes, row-major.

    >>> Mesh(devices=(0, 1, 2, 3), axes=(("replica", 2), ("tensor", 2))).rows
    ((0, 1), (2, 3))
    """

    devices: tuple[int, ...]
    """Device numbers, each once."""
    axes: tuple[tuple[str, int], ...] = ()
    """(name, size), outermost first; the sizes multiply to the number of devices. () is a single replica
    axis.
    """
    _memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        if not self.axes:
            object.__setattr__(self, "axes", ((REPLICA, len(self.devices)),))
        sizes = math.prod(size for _, size in self.axes)
        if sizes != len(self.devices) or len(set(self.devices)) != len(self.devices) or not self.devices:
            raise InputError(
                f"a mesh with axes {dict(self.axes)} over devices {list(self.devices)}",
                key="mesh",
                found=len(self.devices),
                allowed=f"{sizes} different devices",
            )

    def __hash__(self) -> int:
        return self.memo("hash", lambda: hash((self.devices, self.axes)))

    def size(self, axis: str) -> int:
        """Return the size of an axis; 1 if the mesh has none of that name."""
        return dict(self.axes).get(axis, 1)

    @property
    def replicas(self) -> int:
        """Data-parallel replicas."""
        return self.size(REPLICA)

    def coordinates(self, position: int) -> dict[str, int]:
        """Return the coordinates of the device at a position, by axis."""
        found: dict[str, int] = {}
        for name, size in reversed(self.axes):
            position, found[name] = divmod(position, size)
        return found

    @property
    def rows(self) -> Hashed[tuple[int, ...]]:
        """Devices of each replica, in mesh order."""
        return self.memo("rows", self._find_rows)

    def _find_rows(self) -> Hashed[tuple[int, ...]]:
        """Cut the devices at the replica axis: what is outside of it goes round the replicas in turn."""
        names = [name for name, _ in self.axes]
        inner = (
            math.prod(size for _, size in self.axes[1 + names.index(REPLICA) :]) if REPLICA in names else 0
        )
        if not inner:
            return Hashed((self.devices,))
        chunks = [self.devices[i : i + inner] for i in range(0, len(self.devices), inner)]
        count = self.replicas
        return Hashed(tuple(chain.from_iterable(chunks[r::count])) for r in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Part of a layer along one of its dimensions: the fractions [start, stop)."""

    layer: str
    """Layer that is cut."""
    dim: str
    """One of its iteration dimensions."""
    start: float
    """In [0, 1)."""
    stop: float
    """In (start, 1]."""

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop <= 1:
            raise InputError(
                f"slice of {self.layer!r} from {self.start} to {self.stop}",
                key="slices",
                found=(self.start, self.stop),
                allowed="0 <= start < stop <= 1",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharding:
    """How some layers of a stage are laid out if it differs from the stage's own layout."""

    layers: tuple[str, ...]
    """Layer names or shell patterns (`*.experts*`)."""
    layout: tuple[tuple[str, str], ...] = ()
    """Named-dimension layout: (dimension, mesh axis); () replicates over every axis but `replica`."""
    meshes: tuple[Mesh, ...] = ()
    """Another mesh per copy, over some or all of the stage's devices; () is the stage's mesh."""

    def covers(self, layer: str) -> bool:
        """Tell whether this exception applies to a layer."""
        return _covers(self.layers, layer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """What some layers of a stage keep for their backward, and where, if it differs from the stage's choice.

    Raises:
        InputError: an unknown choice, or none.
    """

    layers: tuple[str, ...]
    """Layer names or shell patterns (`h.0.*`)."""
    recompute: str = ""
    """`none`, `selective` or `full` as in `Stage.recompute`, for these layers alone; `output`: they are made
    again like `full`, and what they write is dropped too, whoever reads it (output-discarding checkpoints of
    Megatron Core, `MUST_RECOMPUTE` of torch's selective checkpoints). Empty is the stage's choice.
    """
    on: str = ""
    """`host`: what they save is moved out after the forward and fetched before the backward; `device`: it
    stays. Empty is the stage's choice (`Stage.offload`).
    """

    def __post_init__(self) -> None:
        for key, value, allowed in (
            ("recompute", self.recompute, ("", *RECOMPUTES, RECOMPUTE_OUTPUT)),
            ("on", self.on, ("", *KEPT_ON)),
        ):
            if value not in allowed:
                raise InputError(
                    f"unknown {key} {value!r}",
                    key=f"keeping.{key}",
                    found=value,
                    allowed=", ".join(allowed[1:]),
                )
        if not self.layers or not (self.recompute or self.on):
            raise InputError(
                "an exception of what is kept needs layers and a choice", key="keeping", found=self.layers,
                allowed="layers, and recompute or on",
            )  # fmt: skip

    def covers(self, layer: str) -> bool:
        """Tell whether this exception applies to a layer."""
        return _covers(self.layers, layer)


def _covers(layers: tuple[str, ...], layer: str) -> bool:
    """Tell whether a layer is among names and shell patterns."""
    names, patterns = _names_and_patterns(layers)
    return layer in names or any(fnmatchcase(layer, pattern) for pattern in patterns)


@lru_cache(maxsize=1024)
def _names_and_patterns(layers: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Tell plain names from shell patterns."""
    patterns = tuple(item for item in layers if set(item) & set("*?["))
    return frozenset(layers).difference(patterns), patterns


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Layers that run on one device group.

    Raises:
        InputError: no layers, no mesh, or shares that do not fit the replicas.
    """

    layers: tuple[str, ...]
    """Whole layers, by name, in model order."""
    meshes: tuple[Mesh, ...]
    """One mesh per copy."""
    microbatch_samples: int = 1
    """Samples of one microbatch, over all replicas together."""
    name: str = ""
    """Name for people; empty is `stage i`."""
    slices: tuple[Slice, ...] = ()
    """Parts of layers that it shares with other stages."""
    replicas: str = SPLIT
    """How replicas share the work: `split` each microbatch into whole samples, or `round_robin` whole
    microbatches.
    """
    shares: tuple[float, ...] = ()
    """Per replica: its share of each microbatch (largest remainder); () is equal."""
    layout: tuple[tuple[str, str], ...] = ()
    """Named-dimension layout of all layers: (dimension, mesh axis), as in Mesh-TensorFlow."""
    axis_shares: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """(mesh axis, share of each device along it): for one axis of the layout whose devices take unequal parts
    of every dimension that is split over it, in whole units by largest remainder; () is equal.
    """
    shardings: tuple[Sharding, ...] = ()
    """Exceptions for some layers; the first that covers a layer applies."""
    density: float = 1.0
    """Share of the weights left after pruning: gradients, their sums and optimizer states have only those
    (SAMO); weights stay dense for compute.
    """
    offload: tuple[str, ...] = ()
    """What is kept in the host's memory: `optimizer` (states, fetched for the update) and `activations`
    (moved out after the forward, fetched before the backward).
    """
    overlap: tuple[tuple[str, str], ...] = ()
    """(mesh axis, how) of collectives inside the lane that overlap with work: `tiles`, cut into parts that
    overlap with the product they feed or come from, or `weight_gradient`, reductions of input gradients
    during the weight gradient.
    """
    recompute: str = "none"
    """none, selective (attention's inner part) or full (only the stage's inputs are kept per block)."""
    keeping: tuple[Keeping, ...] = ()
    """Exceptions of some layers from `recompute` and from `activations` in `offload`; of each the first that
    covers a layer and says something applies.
    """
    zero: int = 0
    """ZeRO level over the replicas: 0 none, 1 optimizer states, 2 and gradients, 3 and weights."""
    zero_replicas: int = 0
    """Number of replicas that ZeRO shards over, in consecutive groups; each group holds everything (HSDP,
    MiCS). 0 is all.
    """
    reshard: str = ""
    """How long ZeRO 3 keeps weights gathered (and ZeRO 2 gradients whole): `action`, for one forward or
    backward, block by block; `run`, as long as the devices work on this stage. Empty is `run` in
    breadth-first orders (several stages per device, always several actions of one at a time), else `action`.
    """

    def __post_init__(self) -> None:
        if not (self.layers or self.slices) or not self.meshes:
            raise InputError("a stage needs layers and a mesh", key="stages", found=self.name or "stage")
        for key, value, allowed in (
            ("replicas", self.replicas, (SPLIT, ROUND_ROBIN)),
            ("recompute", self.recompute, RECOMPUTES),
            ("zero", self.zero, (0, 1, 2, 3)),
            ("reshard", self.reshard, ("", *RESHARDS)),
        ):
            if value not in allowed:
                raise InputError(
                    f"unknown {key} {value!r}", key=key, found=value, allowed=", ".join(map(str, allowed))
                )
        total = sum(mesh.replicas for mesh in self.meshes)
        if self.zero_replicas < 0 or (self.zero_replicas and total % self.zero_replicas):
            raise InputError(
                f"ZeRO over {self.zero_replicas} of {total} replicas",
                key="zero_replicas",
                found=self.zero_replicas,
                allowed=f"a divisor of {total}, or 0 for all",
            )
        if not 0 < self.density <= 1:
            raise InputError(
                f"a density of {self.density}", key="density", found=self.density, allowed="above 0, up to 1"
            )
        if len(set(self.offload)) < len(self.offload) or not set(self.offload) <= set(OFFLOADS):
            raise InputError(
                f"offload of {', '.join(self.offload)}",
                key="offload",
                found=self.offload,
                allowed=", ".join(OFFLOADS),
            )
        axes = [axis for axis, _ in self.overlap]
        if len(set(axes)) < len(axes) or not {how for _, how in self.overlap} <= set(OVERLAPS):
            raise InputError(
                f"overlap {dict(self.overlap)} of the axes {axes}",
                key="overlap",
                found=self.overlap,
                allowed=f"each axis once, with {' or '.join(OVERLAPS)}",
            )
        self._check_axis_shares()
        if self.microbatch_samples < 1:
            raise InputError(
                "a microbatch must hold a sample",
                key="microbatch_samples",
                found=self.microbatch_samples,
                allowed=">= 1",
            )
        if self.shares and (
            len(self.shares) != self.meshes[0].replicas or min(self.shares) < 0 or sum(self.shares) <= 0
        ):
            raise InputError(
                f"{len(self.shares)} shares for {self.meshes[0].replicas} replicas",
                key="shares",
                found=self.shares,
                allowed="one share of 0 or more per replica",
            )

    def _check_axis_shares(self) -> None:
        sizes = {name: size for name, size in self.meshes[0].axes if name != REPLICA}
        for axis, shares in self.axis_shares:
            if sizes.get(axis) != len(shares) or min(shares) <= 0 or len(self.axis_shares) > 1:
                raise InputError(
                    f"shares {', '.join(f'{share:g}' for share in shares)} along the mesh axis {axis!r}",
                    key="axis_shares",
                    found=self.axis_shares,
                    allowed=f"one axis, a share above 0 for each of its devices ({sizes or 'there is none'})",
                )

    def sharding_of(self, layer: str) -> Sharding | None:
        """Return the exception that covers a layer; None if there is none."""
        return next((item for item in self.shardings if item.covers(layer)), None)

    def keeping_of(self, layer: str) -> tuple[str, str]:
        """Return what exceptions say of a layer, `recompute` and `on`, each empty if none says anything."""
        covering = [item for item in self.keeping if item.covers(layer)]
        again = next((item.recompute for item in covering if item.recompute), "")
        return again, next((item.on for item in covering if item.on), "")

    @property
    def device_count(self) -> int:
        """Devices of all replicas and copies."""
        return sum(len(mesh.devices) for mesh in self.meshes)

    @property
    def all_layers(self) -> tuple[str, ...]:
        """Names of whole and sliced layers."""
        return (*self.layers, *(part.layer for part in self.slices))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """How the holders of some parameters exchange them; parameters without one use an all-reduce."""

    parameters: tuple[str, ...]
    """Parameter names or shell patterns."""
    method: str = "all_reduce"
    """all_reduce, parameter_server or sharded_table."""
    servers: tuple[int, ...] = ()
    """Devices of the servers; () is the workers themselves, evenly."""
    bucket_bytes: float = 0.0
    """Size of the buckets that are reduced as the last backward makes them (DDP, FSDP: 25 MiB); 0 waits for
    all.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateChoice:
    """The rule by which some parameters are updated; without one: the mean gradient at every update."""

    rule: str
    """A name in `explorer.updates`."""
    parameters: tuple[str, ...] = ("*",)
    """Parameter names or shell patterns."""
    options: tuple[tuple[str, Any], ...] = ()
    """Its options."""


C = TypeVar("C", Sync, UpdateChoice)


def covering(items: Iterable[C], parameter: str) -> C | None:
    """Return the first choice whose names or patterns cover a parameter; None if there is none."""
    return next((item for item in items if any(fnmatchcase(parameter, p) for p in item.parameters)), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """What happens to the activations between two stages."""

    source: int
    """Sending stage."""
    target: int
    """Receiving stage."""
    codec: str
    """Name of the codec (`fp16`, `int8`, ...)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStrategy:
    """Everything chosen for one job."""

    stages: tuple[Stage, ...]
    """In a topological order of the stage DAG."""
    schedule: str = "1f1b"
    """A name in `explorer.schedules`."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the schedule."""
    sync: tuple[Sync, ...] = ()
    """Exceptions to plain all-reduce; the first that covers a parameter applies."""
    updates: tuple[UpdateChoice, ...] = ()
    """Update rules other than plain data parallelism; the first that covers a parameter applies."""
    boundaries: tuple[Boundary, ...] = ()
    """Codecs between stages."""
    transfers: str = ""
    """How tensors cross between stages: `direct`, every device is sent what it needs; `gather`, every device
    is sent a part, and the receivers gather the rest; `broadcast`, in chunks down chains; `ordered`, the same
    slice by slice, each from one device, in the order that has its ports busy least; `best`, the fastest for
    every transfer. Empty is the framework's choice, `direct` without one.
    """
    checkpoint_period_s: float = 0.0
    """Seconds between checkpoints; 0 for none."""
    job: str = "job"
    """Name of the job."""

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError("a strategy needs a stage", key="stages", found=0, allowed="1 or more")
        if self.transfers not in ("", *TRANSFERS):
            raise InputError(
                f"unknown transfers {self.transfers!r}",
                key="transfers",
                found=self.transfers,
                allowed=", ".join(TRANSFERS),
            )

    @property
    def copies(self) -> int:
        """Copies of every stage."""
        return max(len(stage.meshes) for stage in self.stages)

    @property
    def devices(self) -> tuple[int, ...]:
        """All devices used, ascending."""
        return _devices_of(Same([stage.meshes for stage in self.stages]))

    def sync_of(self, parameter: str) -> Sync | None:
        """Return the exception that covers a parameter; None if there is none."""
        return covering(self.sync, parameter)

    def update_of(self, parameter: str) -> UpdateChoice | None:
        """Return the update rule chosen for a parameter; None if there is none."""
        return covering(self.updates, parameter)

    def with_stages(self, stages: Iterable[Stage]) -> JobStrategy:
        """Return the same strategy of the job with other stages."""
        return replace(self, stages=tuple(stages))


@remembered(256)
def _devices_of(stages: Same[tuple[Mesh, ...]]) -> tuple[int, ...]:
    """Return the devices of the meshes of some stages, each once, ascending."""
    return tuple(sorted({device for meshes in stages for mesh in meshes for device in mesh.devices}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """One part per job of the workload."""

    jobs: tuple[JobStrategy, ...]
    """At least one; `JobStrategy.job` names unique."""

    def __post_init__(self) -> None:
        names = [part.job for part in self.jobs]
        if not names or len(names) != len(set(names)):
            raise InputError("a strategy needs one part per job", key="jobs", found=names)

    @property
    def job(self) -> JobStrategy:
        """The only part.

        Raises:
            InputError: there are several.
        """
        if len(self.jobs) != 1:
            raise InputError(f"the strategy has {len(self.jobs)} jobs where one is needed", key="jobs")
        return self.jobs[0]

    def with_job(self, job: JobStrategy) -> Strategy:
        """Return the same strategy with the part of that name replaced."""
        return Strategy(jobs=tuple(job if part.job == job.job else part for part in self.jobs))


def single(**fields: Any) -> Strategy:
    """Make a strategy of one job from the fields of `JobStrategy`; `options` may be a mapping."""
    options = fields.pop("options", ())
    pairs = tuple(options.items()) if isinstance(options, Mapping) else tuple(options)
    return Strategy(jobs=(JobStrategy(options=pairs, **fields),))
