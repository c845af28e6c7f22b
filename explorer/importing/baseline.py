"""Baseline: what the config of a running job says of its split, before there is a model or a cluster.

Importers fill one; `explorer.importing.plans.plan_of` makes the plan. A 0 or an empty text is something that
the file does not say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.importing._megatron_recompute import Recomputation
from explorer.importing.spec import UnknownKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Sizes of a model, as far as a config says them."""

    name: str = ""
    """Name of a model of the zoo, or of a checkpoint; empty if there is none."""
    layers: int = 0
    """Transformer blocks."""
    hidden: int = 0
    """Width."""
    heads: int = 0
    """Query heads."""
    kv_heads: int = 0
    """Heads of keys and values; 0 is as many as query heads."""
    head: int = 0
    """Size of a head; 0 is the width over the heads."""
    ffn: int = 0
    """Width of the feed-forward part (of one expert)."""
    vocab: int = 0
    """Rows of the embedding."""
    experts: int = 0
    """Experts of a block; 0 is a dense model."""
    positions: int = 0
    """Most tokens of a sample, for which learned positions are made."""
    gated: bool | None = None
    """Whether the feed-forward part is gated (SwiGLU); None if that is not said."""
    tied: bool | None = None
    """Whether head and embedding share their weights; None if that is not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What a config says of the split of one training job."""

    trainer: str
    """Name of the trainer, for messages."""
    model: Facts = Facts()
    """Sizes of the model."""
    world_size: int = 0
    """Ranks."""
    devices_per_node: int = 0
    """Ranks on a node."""
    accelerator: str = ""
    """Part of the name of a device kind that something in the file hints at (`h100` where it says fp8)."""
    tensor: int = 1
    """Degree of tensor parallelism."""
    pipeline: int = 1
    """Pipeline positions."""
    context: int = 1
    """Degree of context parallelism."""
    expert: int = 1
    """Degree of expert parallelism."""
    replicas: int = 0
    """Data-parallel replicas; 0 is what the other degrees leave of the world."""
    chunks: int = 0
    """Stages of a pipeline position; 0 is one, or what the schedule has."""
    blocks: tuple[int, ...] = ()
    """Transformer blocks of every stage, in model order; () is an even cut."""
    schedule: str = ""
    """Name in `explorer.schedules`; empty for 1F1B, interleaved where there are several chunks."""
    options: tuple[tuple[str, Any], ...] = ()
    """Options of the schedule."""
    microbatch_size: int = 1
    """Samples of a microbatch per replica."""
    global_batch: int = 0
    """Samples of an optimizer step; 0 is what accumulation, microbatch and replicas make."""
    accumulation: int = 1
    """Microbatches of an optimizer step, where the batch is not said."""
    sequence_length: int = 0
    """Tokens of a sample."""
    recompute: str = "none"
    """One of `explorer.strategies.degrees.RECOMPUTE`."""
    recomputation: Recomputation | None = None
    """How blocks are computed again, where `recompute` is full; None is each by itself."""
    zero: int = 0
    """ZeRO level."""
    zero_replicas: int = 0
    """Replicas that ZeRO shards over; 0 is all."""
    offload: tuple[str, ...] = ()
    """What is kept in the host's memory, as `Stage.offload`."""
    overlap: tuple[tuple[str, str], ...] = ()
    """Collectives inside of lanes beside work, as `Stage.overlap`."""
    sequence_parallel: bool = False
    """Whether tensor parallelism splits norms by sequence."""
    context_exchange: str = "gather"
    """A key of `explorer.strategies.degrees.EXCHANGES`."""
    bucket_bytes: float = 0.0
    """Bytes of the buckets in which gradients are reduced beside the last backward."""
    precision: str = ""
    """Compute precision, as `Job.precision`."""
    gradient_precision: str = ""
    """Precision of gradients, as `Job.gradient_precision`."""
    optimizer: str = ""
    """Optimizer, as `Job.optimizer`."""
    references: Mapping[str, str] = field(default_factory=dict)
    """`model`, `sequence_length`, `cluster` and `devices` that an export of ours wrote into the file."""
    unknown: tuple[UnknownKey, ...] = ()
    """Keys for which a plan has no word."""
    assumed: tuple[str, ...] = ()
    """What was taken although the file does not say it."""
    problems: tuple[str, ...] = ()
    """What contradicts itself or cannot be a plan, one line each."""
