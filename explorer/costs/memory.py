"""Memory: bytes by part that one device of one replica of a stage needs, as an allocator sees them.

Mixed precision (below fp32, training) keeps a master copy and the optimizer's states in fp32: with Adam
2 + 2 + 12 bytes a parameter in bf16 (Rajbhandari et al., ZeRO, section 3.1), or 2 + 4 + 12 with gradients in
fp32. ZeRO over N replicas divides the optimizer's part (1), gradients (2) and weights (3) by N.

Activations are the tensors that layers save, each once however many layers save it, times the share that a
device holds. Under ``full`` recompute a block keeps only its inputs and recomputes the rest, one block at a
time; layers outside blocks keep what they save, and a stage without blocks is one block. Under ``selective``
tensors that only the core of an attention writes and saves are recomputed (Korthikanti et al.).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from explorer.base.errors import InputError
from explorer.base.units import scalar_bytes
from explorer.costs.elementwise import larger
from explorer.costs.keeping import LAYER_CHOICES, Recompute
from explorer.costs.kept_by_layer import with_choices
from explorer.costs.memory_counts import Counts, counts
from explorer.graph import LayerGraph
from explorer.sharding.result import ShardedLayers
from explorer.strategy import RECOMPUTES
from explorer.workload import OPTIMIZERS

FP32_BYTES = 4.0
GATHERED_BLOCKS = 2
"""Blocks that ZeRO-3 holds: the one in use and the one that is fetched meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageMemory:
    """Bytes on one device for one replica of a stage."""

    weight_bytes: float
    """Bytes of one version of the weights, frozen ones included."""
    gradient_bytes: float
    """Bytes of gradients of trainable weights."""
    optimizer_bytes: float
    """Bytes of master copy and states, in fp32 (or the precision, if wider)."""
    version_bytes: float
    """Bytes of each further version of the trainable weights (weight stashing)."""
    activation_bytes_per_sample: float
    """Bytes kept from forward to backward, for each sample in flight."""
    recompute_peak_bytes_per_sample: float
    """Bytes recomputed and live during a backward, on top, for each sample of one microbatch."""
    recompute_in_turn_bytes_per_sample: float
    """The same if the backward is whole: less what it has freed by then of later blocks, where layers choose
    one by one what they keep."""
    waiting_bytes_per_sample: float
    """Bytes kept from input gradient to weight gradient if a backward is split, for each sample."""
    recompute_rest_bytes_per_sample: float
    """Bytes recomputed and live at the end of an input gradient, besides all that waits for the weight
    gradient, for each sample."""
    recompute_whole_bytes_per_sample: float
    """Bytes of the whole recomputation, if an action of its own does it ahead of the backward, per sample."""
    buffer_bytes: float
    """Bytes for ZeRO: gathered weights of two blocks (level 3), unscattered gradients of one (level 2)."""
    run_buffer_bytes: float
    """Further bytes for ZeRO if weights stay gathered, and gradients whole, over runs of actions."""
    buffer_bytes_per_sample: float
    """Bytes of temporaries for each sample of one microbatch: gradients (inference: values) at the largest
    layer, logits in fp32 if there is a loss, and tensors sent to other stages."""

    @property
    def state_bytes(self) -> float:
        """Bytes of everything that does not depend on samples."""
        return self.weight_bytes + self.gradient_bytes + self.optimizer_bytes + self.buffer_bytes


def stage_memory(
    graph: LayerGraph,
    layers: tuple[str, ...],
    sharded: ShardedLayers,
    *,
    precision: str,
    optimizer: str,
    zero: int,
    replicas: int,
    recompute: Recompute,
    training: bool,
    gradient_precision: str = "",
    fractions: Mapping[str, float] | None = None,
    whole: tuple[int, ...] = (),
    dummy_gradients: bool = True,
) -> StageMemory:
    """Return the bytes on one device for one replica of a stage.

    Args:
        graph: the model.
        layers: the stage's layers, whole and sliced.
        sharded: sharding of these layers, or of more of the graph.
        precision: data type of compute, weights and activations.
        optimizer: a name in `OPTIMIZERS`.
        zero: level, 0 to 3.
        replicas: devices that hold equal shards, over which ZeRO divides.
        recompute: none, selective or full; or a choice for each layer (`explorer.costs.keeping`).
        training: whether there are gradients, optimizer and saved activations.
        gradient_precision: data type of gradients; empty for `precision`.
        fractions: share of each sliced layer on this device; others are whole.
        whole: parameters of sliced layers, by position, that are nevertheless whole here.
        dummy_gradients: whether products whose gradients are added up in a wider precision write placeholders
            in the precision of the weights (`Framework.dummy_gradients`).

    Raises:
        InputError: a name is unknown, or a level or count is impossible.
    """
    found = counts(graph, layers, sharded, tuple((fractions or {}).items()), whole)
    if not isinstance(recompute, str):
        shares = np.zeros(len(graph.layers))
        for name in layers:
            shares[graph.index[name]] = (fractions or {}).get(name, 1.0)
        found = with_choices(found, graph, sharded, shares, recompute)
    return memory_of(
        found,
        precision=precision,
        optimizer=optimizer,
        zero=zero,
        replicas=replicas,
        recompute=recompute,
        training=training,
        gradient_precision=gradient_precision,
        dummy_gradients=dummy_gradients,
    )


def memory_of(
    found: Counts,
    *,
    precision: str,
    optimizer: str,
    zero: int,
    replicas: int,
    recompute: Recompute,
    training: bool,
    gradient_precision: str = "",
    dummy_gradients: bool = True,
) -> StageMemory:
    """Turn counts into bytes; the arguments are those of `stage_memory`.

    Where the numbers of `found` are arrays, one entry for each of many runs of layers, so are those returned
    (or one number, if it holds for all of them).

    Raises:
        InputError: a name is unknown, or a level or count is impossible.
    """
    _check(optimizer=optimizer, zero=zero, replicas=replicas, recompute=recompute)
    width = scalar_bytes(precision)
    states = _states(
        found,
        width=width,
        gradient_width=scalar_bytes(gradient_precision or precision),
        optimizer=optimizer,
        zero=zero,
        replicas=replicas,
        training=training,
        dummy_gradients=dummy_gradients,
    )
    return StageMemory(
        **states,
        activation_bytes_per_sample=found.saved[recompute].bytes(width) if training else 0.0,
        recompute_peak_bytes_per_sample=found.again[recompute].bytes(width) if training else 0.0,
        recompute_in_turn_bytes_per_sample=(
            found.again_in_turn.get(recompute, found.again[recompute]).bytes(width) if training else 0.0
        ),
        waiting_bytes_per_sample=found.waiting.bytes(width) if training else 0.0,
        recompute_whole_bytes_per_sample=_made_at_once(found, width, recompute) if training else 0.0,
        recompute_rest_bytes_per_sample=found.again_for_inputs[recompute].bytes(width) if training else 0.0,
        buffer_bytes_per_sample=_temporaries(found, width, recompute, training=training),
    )


def _made_at_once(found: Counts, width: float, recompute: Recompute) -> float:
    if recompute in found.whole:
        return found.whole[recompute].bytes(width)
    return found.saved["none"].bytes(width) - found.saved[recompute].bytes(width)


def _states(
    found: Counts,
    *,
    width: float,
    gradient_width: float,
    optimizer: str,
    zero: int,
    replicas: int,
    training: bool,
    dummy_gradients: bool,
) -> dict[str, float]:
    kind = OPTIMIZERS[optimizer]
    master = FP32_BYTES if width < FP32_BYTES and optimizer != "none" else 0.0
    per_scalar = master + kind.states * max(FP32_BYTES, width)
    weight = gradient = states = version = 0.0
    for item in found.weights:
        group = item.replicas(replicas)
        shard = [1.0 if zero < level else 1.0 / group for level in (1, 2, 3)]
        weight += (item.trained.bytes(width) + item.frozen.bytes(width)) * shard[2]
        version += item.trained.bytes(width) * shard[2]
        gradient += item.touched.bytes(gradient_width) * shard[1]
        fixed = FP32_BYTES * item.fixed_states * kind.states
        fixed += FP32_BYTES * item.fixed_masters * (optimizer != "none")
        states += (item.trained.compute * per_scalar + fixed) * shard[0]
    buffers = 0.0
    if training and zero >= 2 and replicas > 1:
        buffers += found.largest_block.bytes(gradient_width)
    if zero >= 3 and replicas > 1:
        buffers += GATHERED_BLOCKS * found.largest_gathered.bytes(width)
    if training and dummy_gradients and zero < 2 and gradient_width > width:
        buffers += found.placeholders.bytes(width)
    return {
        "weight_bytes": weight,
        "gradient_bytes": gradient if training else 0.0,
        "optimizer_bytes": states if training else 0.0,
        "version_bytes": version,
        "buffer_bytes": buffers,
        "run_buffer_bytes": _whole(
            found, width=width, gradient_width=gradient_width, zero=zero if training else 0, replicas=replicas
        ),
    }


def _whole(found: Counts, *, width: float, gradient_width: float, zero: int, replicas: int) -> float:
    """Return the bytes of all gradients instead of one block's, and of all weights instead of two blocks'."""
    sharded = [item for item in found.weights if item.replicas(replicas) > 1]
    more = 0.0
    if zero >= 2 and sharded:
        more += sum(item.trained.bytes(gradient_width) for item in sharded)
        more -= found.largest_block.bytes(gradient_width)
    if zero >= 3 and sharded:
        more += sum(item.trained.bytes(width) + item.frozen.bytes(width) for item in sharded)
        more -= (GATHERED_BLOCKS - 1) * found.largest_gathered.bytes(width)
    return larger(0.0, more)


def _temporaries(found: Counts, width: float, recompute: Recompute, *, training: bool) -> float:
    layer = found.working[recompute] if training else found.passing
    logits = FP32_BYTES * found.logits if width < FP32_BYTES else 0.0
    under_way = larger(0.0, layer.bytes(width))
    return under_way + found.exchanged.bytes(width) + logits + found.border.bytes(width)


def _check(*, optimizer: str, zero: int, replicas: int, recompute: Recompute) -> None:
    alike = isinstance(recompute, str)
    made, known = ((recompute,), RECOMPUTES) if alike else (tuple(dict.fromkeys(recompute)), LAYER_CHOICES)
    for key, value, allowed in (
        ("optimizer", optimizer, tuple(OPTIMIZERS)),
        ("zero", zero, (0, 1, 2, 3)),
        *(("recompute", choice, known) for choice in made),
    ):
        if value not in allowed:
            raise InputError(
                f"unknown {key} {value!r}", key=key, found=value, allowed=", ".join(map(str, allowed))
            )
    if replicas < 1:
        raise InputError("a stage needs a replica", key="replicas", found=replicas, allowed=">= 1")
