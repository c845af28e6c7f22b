"""Seconds of fused attention by its kernel, over arrays of sizes.

A kernel deals blocks of rows of the queries of every head to the compute units (FlashAttention-2, 2023,
section 3.2). A unit goes through the keys in tiles of `columns`, of which it leaves out those that a causal
mask hides whole. With U units of together P FLOP/s, tiles of r x c, heads of d and the kernel's share f of a
unit's peak at that d, its softmax included:

    tile   = 4 r c d / (f P / U)                     two products; 2.5 times that backward, at its own share
    steps  = blocks x mean tiles of a block,         blocks = batch x heads x ceil(queries / r)
    mean tiles of a block = keys / c, under a causal mask half of that and half of the block that it cuts
    work   = max(steps / U x (1 + imbalance min(1, U / blocks)), tiles of the longest block) x tile
    device = work x (1 + sustained x decades of work above 1 ms, at most 1)
    seconds = max(device, memory) + exposed x memory + start,     memory = bytes at the memory's peak

The units do not end together: the less blocks each has, the more the last one waits. Work that goes on for
milliseconds meets the power limit. Inputs and outputs are read and written once.

A backward does the same with blocks of keys and tiles of queries (`BACKWARD_TILE`), at its own share of peak,
and reads and writes more (`BACKWARD_PASSES`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.base.units import dtype_bytes, scalar_bytes
from explorer.cluster import AttentionKernel, DeviceKind

Array = npt.NDArray[np.float64]

BACKWARD_FLOPS = 2.5
"""FLOPs of the backward by those of the forward: five products of which one repeats the scores, to two
(FlashAttention-2, section 4.1)."""
BACKWARD_TILE = (128.0, 128.0)
"""Keys of a block, and queries of a tile, of a backward, whose blocks are of keys: kBlockN is 128 for heads
of 64 and 128 in FlashAttention-2 and -3 (flash_bwd_launch_template.h), and in FlashAttention-4 on B200."""
BACKWARD_PASSES = 2.0
"""Bytes of a backward by those that `Layer.input_grad` counts, twice the forward's. The code of
FlashAttention-2 (flash_bwd_preprocess_kernel.h, flash_bwd_kernel.h) with q, k, v, o as one tensor each reads
o and do for their row sums (2), reads q, k, v, do and writes dk, dv (6), clears, adds up and reads dq in fp32
(6) and writes it in the inputs' type (1): 15 tensors or 16, where 8 are counted."""
_SUM_BYTES = 4.0  # partial results are added up in fp32
_SHORT_S = 1e-3  # work that ends before the power limit bites
_WIDEST = 2.0  # bytes of a scalar: no fused kernel trains in fewer, none is for more


def attention_seconds(
    kernel: AttentionKernel,
    kind: DeviceKind,
    precision: str,
    batch: Array,
    queries: Array,
    keys: Array,
    head: Array,
    *,
    causal: Array | bool,
    moved: Array,
    backward: bool = False,
    start: bool = True,
) -> Array:
    """Return the seconds of attentions by one kernel.

    Args:
        kernel: the kernel.
        kind: the device; it has `compute_units`.
        precision: data type of queries, keys and values; fp8 computes its attention in 16 bits.
        batch: samples times query heads of each entry, shape (...,); may be fractions.
        queries: query positions.
        keys: key positions that queries see, before a causal mask.
        head: mean size of a head of keys and of values.
        causal: whether what lies behind a query is hidden, on average half of the keys.
        moved: bytes of inputs and outputs, those of the backward as `Layer.input_grad` counts them.
        backward: whether it is the backward.
        start: whether the kernel's start and end count.
    """
    rows, columns = BACKWARD_TILE if backward else (float(kernel.rows), float(kernel.columns))
    along, across = (keys, queries) if backward else (queries, keys)
    blocks = batch * np.ceil(along / rows)
    tiles = across / columns
    longest = np.ceil(tiles)
    cut = np.minimum(np.maximum(rows, columns) / columns, longest)
    mean = np.where(causal, (tiles + cut) / 2, longest)
    mean = np.minimum(mean, longest)
    each = kernel_flops(kernel, head, backward=backward) * rows * columns
    tile = each * kind.compute_units / attention_peak(kind, precision)
    waves = blocks / kind.compute_units
    late = 1.0 + kernel.imbalance * np.minimum(1.0, 1.0 / np.maximum(waves, 1e-300))
    device = np.maximum(waves * mean * late, np.where(batch > 0, longest, 0.0)) * tile
    device *= 1.0 + kernel.sustained * np.clip(np.log10(np.maximum(device, _SHORT_S) / _SHORT_S), 0.0, 1.0)
    memory = moved * (BACKWARD_PASSES if backward else 1.0) / kind.memory_bandwidth_bytes_per_s
    found: Array = np.maximum(device, memory) + kernel.exposed * memory + kernel.start_s * start
    return found


def ring_seconds(
    kernel: AttentionKernel,
    kind: DeviceKind,
    precision: str,
    batch: Array,
    queries: Array,
    keys: Array,
    head: Array,
    passes: Array,
    *,
    causal: Array,
    moved: Array,
    backward: bool = False,
) -> Array:
    """Return the seconds of attentions whose keys and values come in blocks around a ring, without transfers.

    The positions are dealt in zigzag (Brandon et al., Striped Attention, 2023; Megatron-Core): under a causal
    mask a device sees half of every block but its own, of which it sees what its mask leaves; without a mask,
    all. Each pass is a kernel of its own that reads the queries again, and all but the first add their part
    to what was made before: of the output an fp32 sum and a part in 16 bits (Transformer Engine,
    context_parallel.py), backward one to the gradients of queries and of keys and values.

    Args:
        kernel: the kernel.
        kind: the device.
        precision: data type of queries, keys and values.
        batch: samples times query heads of each entry.
        queries: query positions of a device.
        keys: key positions of all blocks together.
        head: mean size of a head of keys and of values.
        passes: number of blocks of each entry.
        causal: whether what lies behind a query is hidden.
        moved: bytes of inputs and outputs of one pass.
        backward: whether it is the backward.
    """
    own = attention_seconds(
        kernel, kind, precision, batch, queries, keys / passes, head, causal=causal, moved=moved,
        backward=backward,
    )  # fmt: skip
    seen = keys / passes / np.where(causal, 2.0, 1.0)
    other = attention_seconds(
        kernel, kind, precision, batch, queries, seen, head, causal=False, moved=moved, backward=backward
    )
    output = batch * queries * head
    wide = scalar_bytes(precision)
    added = (moved / 2 / wide if backward else output) * (2 * _SUM_BYTES + wide)
    return own + (passes - 1) * (other + added / kind.memory_bandwidth_bytes_per_s)


def kernel_flops(kernel: AttentionKernel, head: Array, *, backward: bool) -> Array:
    """Return the FLOPs that take as long at peak as a kernel takes for one score: 4 d / f, or 10 d / f.

    Between two sizes of heads that a kernel states the seconds of a score are interpolated, outside of them
    the nearest share holds.
    """
    flops = 4.0 * (BACKWARD_FLOPS if backward else 1.0)
    shares = np.array([item.backward if backward else item.forward for item in kernel.heads])
    sizes = np.array([float(item.head) for item in kernel.heads])
    inside = np.interp(head, sizes, flops * sizes / shares)
    scale = np.where(head < sizes[0], head / sizes[0], np.where(head > sizes[-1], head / sizes[-1], 1.0))
    found: Array = inside * scale
    return found


def attention_peak(kind: DeviceKind, precision: str) -> float:
    """Return the peak FLOP/s of attention: in 16 bits if products are in fewer."""
    return kind.peak("bf16" if dtype_bytes(precision) < _WIDEST else precision)


CACHE_TOKEN_S, CACHE_HEAD_S, CACHE_PASSES, _CACHE_UNITS = 0.55e-9, 0.125e-9, 0.9, 132
"""Seconds of a token, of each of its key-value heads (on as many compute units), and passes of its bytes."""


def cache_seconds(kind: DeviceKind, precision: str, tokens: Array, kv_heads: Array, head: Array) -> Array:
    """Return the seconds in which serving software writes keys and values to a cache of pages before it
    attends; training has none.

    A group of threads for each token goes through its heads. Fitted together with the kernels of three kinds
    of devices to NVIDIA's aiconfigurator (2026), whose measured attention begins with it.
    """
    moved = 4.0 * tokens * kv_heads * head * dtype_bytes(precision)  # keys and values, read and written
    each = (CACHE_TOKEN_S + CACHE_HEAD_S * kv_heads) * _CACHE_UNITS / kind.compute_units
    found: Array = tokens * each + CACHE_PASSES * moved / kind.memory_bandwidth_bytes_per_s
    return found
