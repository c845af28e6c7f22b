"""Products in fp8 among tensors in bf16, as the precision `fp8` asks for.

The products of linear layers and experts inside of blocks have factors in fp8; attention, norms, embedding,
head and loss compute in bf16, and weights and activations are kept in it. Each factor is cast before it is
used, by kernels that read and write memory: the input of a product (once for all that read it), the weight,
and in the backward the gradient of what it wrote (Micikevicius et al., FP8 Formats for Deep Learning, 2022).
Products of the backward may be summed outside of the tensor cores' short accumulators, which takes longer
(`DeviceKind.fp8_gradient_fraction`). Units that wait for such sums draw less power, so that a clock which a
power limit holds (`DeviceKind.settled_fraction`) costs nothing on top: the lower of the two shares counts.
"""

from __future__ import annotations

import numpy as np

from explorer.base.units import TENSORS, tensor_type
from explorer.cluster import DeviceKind
from explorer.costs.efficiency import curve_of, effective_size
from explorer.costs.graph_work import Array, IntArray, WorkTable
from explorer.costs.products import product_seconds


def local_sizes(
    table: WorkTable, columns: IntArray, samples: float | Array, work: Array | float, split: Array | None
) -> tuple[Array, Array, Array, Array]:
    """Return batch, rows, columns and depth of the products of some layers on this device, in one call.

    Args:
        table: the layers.
        columns: which of them.
        samples: samples of one call, or of each layer's.
        work: share of the work that the device has, or each layer's.
        split: as `explorer.costs.compute.layer_costs` has it; None if it has everything.
    """
    shape = table.trips.shape[1:]
    batch, rows, wide, deep = table.sizes[:, columns]
    share = np.broadcast_to(np.asarray(work, dtype=float), shape)[columns]
    shares = np.ones((3, len(columns))) if split is None else split[:, columns]
    batch, wide, deep = (whole(size * part) for size, part in zip((batch, wide, deep), shares, strict=True))
    samples = np.broadcast_to(np.asarray(samples, dtype=float), shape)[columns]
    return batch, whole(rows * samples * share / shares.prod(axis=0)), wide, deep


def whole(sizes: Array) -> Array:
    """Round sizes that are whole numbers but for rounding errors: one row more may be a tile more."""
    nearest = np.rint(sizes)
    return np.where(np.abs(sizes - nearest) <= 1e-9 * nearest, nearest, sizes)


def narrow_columns(table: WorkTable, precision: str) -> IntArray:
    """Return the layers of a table whose products are narrower than its tensors under a precision."""
    if precision not in TENSORS:
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero((table.shared_by > 0) & (table.sizes[0] > 0))


def speed_up(
    seconds: Array,
    table: WorkTable,
    kind: DeviceKind,
    samples: float | Array,
    precision: str,
    work: Array | float,
    split: Array | None,
) -> None:
    """Replace the seconds of narrow products, so far those of the tensors' type; shape (3, layers)."""
    columns = narrow_columns(table, precision)
    if not len(columns):
        return
    slower = kind.fp8_gradient_fraction if kind.peak(precision) > kind.peak(tensor_type(precision)) else 1.0
    if kind.kernels_of(precision) is not None:
        slower = min(1.0, slower / kind.settled_fraction)
    if not kind.prices_shapes:
        seconds[:, columns] *= kind.peak(tensor_type(precision)) / kind.peak(precision)
        seconds[1:, columns] /= slower
        return
    batch, rows, wide, deep = local_sizes(table, columns, samples, work, split)
    count = table.products[:, columns]
    forward = product_seconds(kind, precision, batch, rows, wide, deep)
    back = product_seconds(kind, precision, batch, rows, deep, wide) / slower
    summed = product_seconds(kind, precision, batch, deep, wide, rows, summed=True) / slower
    seconds[0, columns] = count[0, :, 0] * forward
    for way in (1, 2):
        seconds[way, columns] = count[way, :, 0] * back + count[way, :, 1] * summed


def cast_seconds(
    table: WorkTable,
    kind: DeviceKind,
    samples: float | Array,
    precision: str,
    work: Array | float,
    split: Array | None,
) -> Array | float:
    """Return the seconds of the casts for narrow products, shape (3, layers); 0 if there are none."""
    columns = narrow_columns(table, precision)
    if not len(columns):
        return 0.0
    batch, rows, wide, deep = local_sizes(table, columns, samples, work, split)
    count = table.products[:, columns].sum(axis=2)
    cast = np.zeros_like(table.flops)
    cast[0, columns] = count[0] * batch * (rows * deep / table.shared_by[columns] + wide * deep)
    cast[1, columns] = np.minimum(count[0], count[1]) * batch * rows * wide
    bytes_moved = cast * kind.software.cast_bytes
    found: Array = effective_size(curve_of(kind, "memory"), bytes_moved) / kind.memory_bandwidth_bytes_per_s
    return found
