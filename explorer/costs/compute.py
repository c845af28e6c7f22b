"""Seconds of compute: measured if a source has them, else physics by shape, over all layers at once.

Physics of one layer in one direction on one device, for the work of one call (a *trip*):

    device = (1 + busy) x (max(compute, memory) + exposed x min(compute, memory) + kernels x launch)

where memory = moved / (bandwidth x efficiency(moved)), moved = activation elements x their bytes + the
parameters once (Williams, Waterman, Patterson: Roofline, 2009), and `exposed` is the device kind's, 0 on
accelerators; `busy` is how much longer kernels take in training than alone on an idle device. `compute` of a
matrix product whose sizes are known follows from tiles and waves (`explorer.costs.products`), that of a fused
attention from its kernel's blocks and tiles (`explorer.costs.attention`), of everything else from FLOPs by
the device kind's efficiency curve of its class (rows on their way to experts besides:
`explorer.costs.expert_rows`); if a curve rises so steeply that more work would take less
time, the time of the smaller work is kept.

The host issues kernels ahead of the device, so a block takes the longer of the two sums:

    block = max(sum of device, kernels x host issue),

where a kernel of the backward takes the share `backward_issue` of a forward's, and every layer of it is
stretched by the same share. A forward that is made again stands right before the backward of its block, and
launches do not wait for the device (CUDA programming guide, asynchronous execution; about a thousand may be
pending), so that there the longer of the sums of both together counts: what the host lags in the one it
makes up for as far as it is ahead in the other (`LayerCosts.relief`). A source's measured seconds take
precedence over physics. The arrays made here are read-only and shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.base.caching import MEBIBYTE, remembered
from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes, scalar_bytes, tensor_type
from explorer.cluster import DeviceKind
from explorer.costs.attention import attention_seconds, ring_seconds
from explorer.costs.clocks import clocked
from explorer.costs.efficiency import curve_of, effective_size
from explorer.costs.expert_rows import Routed, add_row_seconds, add_sums, set_single_experts
from explorer.costs.graph_work import NAMES, IntArray, WorkTable, work_table
from explorer.costs.measured import Array, MeasuredRows, measured_rows
from explorer.costs.memory_arrays import graph_arrays
from explorer.costs.model_key import model_key
from explorer.costs.narrow_products import cast_seconds, local_sizes, speed_up, whole
from explorer.costs.products import product_seconds
from explorer.graph import LayerGraph

COSTS_KEPT = 512
"""Layer costs of whole graphs that are remembered: 50 KB each for a thousand layers."""


class LayerCosts(NamedTuple):
    """Costs of every layer on one device, arrays of shape (3, layers): forward, input and weight gradient."""

    seconds: Array
    """Seconds from the start of a layer's first kernel to that of the next layer."""
    slack: Array
    """Part of `seconds` in which the device waits for the host: other kernels (collectives) fit in."""
    relief: Array
    """(layers,): part of the forward's `slack` that a backward right behind it makes up for: a forward made
    again takes so much less."""


def layer_times(
    graph: LayerGraph,
    kind: DeviceKind,
    *,
    samples: float,
    precision: str,
    work: Array | None = None,
    split: Array | None = None,
    tensor_degree: int = 1,
) -> Array:
    """Return the seconds of every layer on one device: forward, input and weight gradient; shape (3, layers).

    The `seconds` of `layer_costs`, with the same arguments.
    """
    return layer_costs(
        graph, kind, samples=samples, precision=precision, work=work, split=split, tensor_degree=tensor_degree
    ).seconds


@remembered(COSTS_KEPT, most_bytes=32 * MEBIBYTE)
def layer_costs(
    graph: LayerGraph,
    kind: DeviceKind,
    *,
    samples: float,
    precision: str,
    work: Array | None = None,
    split: Array | None = None,
    tensor_degree: int = 1,
    alike: IntArray | None = None,
) -> LayerCosts:
    """Return the costs of every layer on one device.

    Args:
        graph: the layers.
        kind: the device.
        samples: samples of one call; may be a fraction.
        precision: compute precision of the workload.
        work: shape (layers,): the fraction of each layer's work and parameters that this device has;
            None if it has everything.
        split: shape (3, layers): shares of batch, columns and depth of each layer's matrix products that the
            device has (`ShardedLayers.split`); the rest of `work` is a share of the rows.
        tensor_degree: tensor-parallel size by which measured seconds are found; those of degree 1 are
            multiplied by `work`, those of this degree are taken as they are.
        alike: per layer a number, equal only where `work` and `split` are (`ShardedLayers.alike`), so that
            equal layers are priced once; None if unknown.

    Raises:
        InputError: samples are below 0, the precision is unknown, `work` or `split` has the wrong shape, or a
            layer was measured on other device kinds only and does not state its work.
    """
    costs = _layer_costs(graph, kind, samples, precision, work, split, tensor_degree, alike)
    for array in costs:
        array.flags.writeable = False
    return costs


def device_costs(
    graph: LayerGraph,
    kind: DeviceKind,
    layers: IntArray,
    *,
    samples: float | Array,
    precision: str,
    work: Array,
    split: Array,
) -> tuple[Array, Array]:
    """Return the physics of single layers, each by itself.

    Args:
        graph: the model.
        kind: the device.
        layers: positions of layers; one may come several times, with other shares or samples.
        samples: samples of one call, or of each layer's.
        precision: compute precision of the workload.
        work: per layer of `layers` the share of its work.
        split: as in `layer_costs`, per layer of `layers`.

    Returns:
        Seconds of the device and of the host that issues its kernels, both of shape (3, len(layers));
        `settled` makes blocks of them.
    """
    table, inverse = graph.memo("costs.table", lambda: work_table(graph))
    own = clocked(graph, kind.running(model_key(graph)), precision)
    return _physics(table.taken(inverse[layers]), own, samples, precision, work, split)


def settled(
    graph: LayerGraph,
    kind: DeviceKind,
    device: Array,
    host: Array,
    layers: IntArray,
    *,
    samples: float,
    work: Array,
    degree: int,
) -> LayerCosts:
    """Return the costs of the layers of some whole blocks, as `layer_costs` does of all.

    Args:
        graph: the model.
        kind: the device.
        device: (3, len(layers)) seconds of `device_costs`.
        host: the same of the host.
        layers: their positions: none of a block is missing.
        samples: samples of one call.
        work: per layer of `layers` the share of its work.
        degree: tensor-parallel size by which measured seconds are found.
    """
    block = graph_arrays(graph).own_block[layers]
    if len(block) < len(graph.layers):
        _, block = np.unique(block, return_inverse=True)
    stretched = _hosted(device, host, block)
    times, slack = stretched, stretched - device
    relief = relief_of(device, host, block)
    place = np.full(len(graph.layers), -1, dtype=np.int64)
    place[layers] = np.arange(len(layers))
    for rows in _measured(graph, kind, degree):
        mine = place[rows.layers] >= 0
        at = place[rows.layers[mine]]
        seconds = rows.at(samples)[:, mine]
        if rows.degree != degree or degree == 1:
            seconds = seconds * rows.degree * work[at]
        times[:, at] = seconds
        slack[:, at] = relief[at] = 0.0
    left_out = unwanted_gradients(graph)[:, layers]
    times[left_out] = slack[left_out] = 0.0
    return LayerCosts(times, slack, relief)


def _measured(graph: LayerGraph, kind: DeviceKind, degree: int) -> Sequence[MeasuredRows]:
    key = f"costs.measured {kind.name} {degree}"
    return graph.memo(key, lambda: measured_rows(graph, kind.name, degree))


def _layer_costs(
    graph: LayerGraph,
    kind: DeviceKind,
    samples: float,
    precision: str,
    work: Array | None,
    split: Array | None,
    degree: int,
    alike: IntArray | None,
) -> LayerCosts:
    _check(graph, samples, work, split)
    table, inverse = graph.memo("costs.table", lambda: work_table(graph))
    running = clocked(graph, kind.running(model_key(graph)), precision)
    if work is None:
        times, host = (found[:, inverse] for found in _physics(table, running, samples, precision, 1.0, None))
    elif alike is not None and split is not None:
        pairs = inverse * (int(alike.max(initial=0)) + 1) + alike
        _, example, back = np.unique(pairs, return_index=True, return_inverse=True)
        own = table.taken(inverse[example])
        found = _physics(own, running, samples, precision, work[example], split[:, example])
        times, host = (item[:, back] for item in found)
    else:
        every = graph.memo("costs.every", lambda: table.taken(inverse))
        times, host = _physics(every, running, samples, precision, work, split)
    every_layer = graph.memo("costs.positions", lambda: np.arange(len(graph.layers)))
    share = np.ones(len(every_layer)) if work is None else work
    return settled(graph, kind, times, host, every_layer, samples=samples, work=share, degree=degree)


def _check(graph: LayerGraph, samples: float, work: Array | None, split: Array | None) -> None:
    count = len(graph.layers)
    if not samples >= 0:
        raise InputError(f"{samples} samples", key="samples", found=samples, allowed=">= 0")
    for name, array, shape in (("work", work, (count,)), ("split", split, (3, count))):
        if array is not None and array.shape != shape:
            raise InputError(
                f"{name} of shape {array.shape}", key=name, found=array.shape, allowed=f"shape {shape}"
            )


def _hosted(times: Array, host: Array, block: IntArray) -> Array:
    """Stretch device seconds where the host takes longer to issue a block's kernels than the device to run
    them; input and weight gradients are issued together.
    """
    result = np.array(times)
    if not host.any():
        return result
    for directions in ([0], [1, 2]):
        device = np.bincount(block, weights=times[directions].sum(axis=0))
        issue = np.bincount(block, weights=host[directions].sum(axis=0))
        stretch = np.maximum(1.0, issue / np.maximum(device, 1e-300))
        result[directions] *= np.where(device > 0, stretch, 1.0)[block]
    return result


def relief_of(device: Array, host: Array, block: IntArray) -> Array:
    """Return how much less a forward takes where the backward of its block is right behind it.

    A block's relief is what the host lags in the forward, or is ahead in the backward, if that is less; every
    layer has a share of it as large as its share of the forward's seconds.

    Args:
        device: (3, layers) seconds of the device.
        host: (3, layers) seconds in which the host issues them.
        block: (layers,) number of each layer's block.
    """
    if not host.any():
        return np.zeros(len(block))
    work = np.array([np.bincount(block, weights=part) for part in (device[0], device[1:].sum(axis=0))])
    issue = np.array([np.bincount(block, weights=part) for part in (host[0], host[1:].sum(axis=0))])
    lag, ahead = np.maximum(0.0, issue[0] - work[0]), np.maximum(0.0, work[1] - issue[1])
    share = np.minimum(lag, ahead) / np.maximum(work[0], 1e-300)
    found: Array = device[0] * np.where(work[0] > 0, share, 0.0)[block]
    return found


def unwanted_gradients(graph: LayerGraph) -> NDArray[np.bool_]:
    """Return per direction and layer whether it takes no time since no weight needs that gradient."""
    return graph.memo("costs.unwanted", lambda: _unwanted(graph))


def _unwanted(graph: LayerGraph) -> NDArray[np.bool_]:
    """Return gradients, shape (3, layers), in measured seconds that frozen weights (LoRA) make needless.

    Seconds measured in full training stay as they are if all weights train: there a first layer's are right,
    even if a source gave one backward that we halved.
    """
    found = np.zeros((3, len(graph.layers)), dtype=bool)
    if all(item.trainable for item in graph.parameters) or not any(i.trainable for i in graph.parameters):
        return found
    for i, layer in enumerate(graph.layers):
        made = [use.name for use in layer.reads if use.name in graph.producer]
        used = [graph.parameter[use.name] for use in layer.parameters]
        found[1, i] = bool(made) and not any(name in graph.needs_gradient for name in made)
        found[2, i] = bool(used) and not any(item.trainable for item in used)
        if found[2, i] and not made:
            found[1, i] = True
    return found


def _physics(
    table: WorkTable,
    kind: DeviceKind,
    samples: float | Array,
    precision: str,
    work: Array | float,
    split: Array | None,
) -> tuple[Array, Array]:
    """Return device seconds, and the host's seconds to issue the kernels; both of shape (3, layers)."""
    wide, own = scalar_bytes(precision), tensor_type(precision)
    flops = table.flops * (samples * work)
    moved = table.moved_elements * (samples * work * wide)
    routed = Routed(table, samples, work, split) if table.routing else None
    held = work if routed is None else _held(routed, table, work, split)
    moved += (table.parameter_elements * wide + table.parameter_bytes) * held
    memory = effective_size(curve_of(kind, "memory"), moved) / kind.memory_bandwidth_bytes_per_s
    seconds = np.empty_like(flops)
    for name, columns in zip(NAMES, table.classes, strict=True):
        if len(columns):
            seconds[:, columns] = _compute(kind, name, own, flops[:, columns])
    if kind.prices_shapes:
        _set_products(seconds, table, kind, samples, own, work, split)
        if routed is not None:
            sizes = local_sizes(table, routed.columns, samples, work, split)
            set_single_experts(seconds, routed, sizes, table, kind, own)
            add_sums(seconds, routed, sizes, table, kind, own)
    speed_up(seconds, table, kind, samples, precision, work, split)
    exposed = kind.exposed_memory * np.minimum(seconds, memory) if kind.exposed_memory else 0.0
    np.maximum(seconds, memory, out=seconds)
    seconds += exposed
    if kind.attention_kernels and kind.compute_units:
        _set_attention(seconds, table, kind, samples, own, work, split)
    summed = table.summed_elements * (work * wide)
    seconds += effective_size(curve_of(kind, "memory"), summed) / kind.memory_bandwidth_bytes_per_s
    seconds += cast_seconds(table, kind, samples, precision, work, split)
    seconds += kind.launch_overhead_s * table.kernels
    issue_s = kind.software.host_issue_s * np.array([1.0, *(kind.software.backward_issue,) * 2])
    host = issue_s[:, None] * table.kernels
    if routed is not None:
        add_row_seconds(seconds, host, routed, table, kind, wide)
    if kind.busy_slowdown:
        seconds *= 1.0 + kind.busy_slowdown
    idle = ~table.active | (samples * work <= 0)
    return (
        np.where(idle, 0.0, seconds * table.trips),
        np.where(idle, 0.0, host),  # one call of a library issues all steps of a recurrent layer
    )


def _held(routed: Routed, table: WorkTable, work: Array | float, split: Array | None) -> Array:
    """Return the shares of parameters that the device has: its experts', however many rows come to them."""
    held = np.array(np.broadcast_to(np.asarray(work, dtype=float), table.trips.shape[1:]))
    held[routed.columns] = 1.0 if split is None else split[:, routed.columns].prod(axis=0)
    return held


def _compute(kind: DeviceKind, name: str, precision: str, flops: Array) -> Array:
    """Return seconds by FLOPs and curve, shape (3, layers of the class)."""
    peak = _peak(kind, name, precision)
    seconds = effective_size(curve_of(kind, name), flops) / peak
    backward = dict(kind.efficiency).get(f"{name}_backward")
    if backward is not None:
        seconds[1:] = effective_size(backward, flops[1:]) / peak
    return seconds


def _set_products(
    seconds: Array,
    table: WorkTable,
    kind: DeviceKind,
    samples: float | Array,
    precision: str,
    work: Array | float,
    split: Array | None,
) -> None:
    """Replace the seconds by FLOPs of matrix products of known sizes by those of their tiles."""
    known = np.zeros(table.trips.shape[1], dtype=bool)
    known[table.classes[NAMES.index("matmul")]] = True
    columns = np.flatnonzero(known & (table.sizes[0] > 0))
    if not len(columns):
        return
    batch, rows, wide, deep = local_sizes(table, columns, samples, work, split)
    forward = product_seconds(kind, precision, batch, rows, wide, deep)
    back = product_seconds(kind, precision, batch, rows, deep, wide)
    steps = table.trips[0, columns] / table.trips[2, columns]
    summed = product_seconds(kind, precision, batch, deep, wide, rows * steps, summed=True)
    count = table.products[:, columns]
    seconds[0, columns] = count[0, :, 0] * forward
    for d in (1, 2):
        seconds[d, columns] = count[d, :, 0] * back + count[d, :, 1] * summed


def _set_attention(
    seconds: Array,
    table: WorkTable,
    kind: DeviceKind,
    samples: float | Array,
    precision: str,
    work: Array | float,
    split: Array | None,
) -> None:
    """Replace the seconds of fused attentions of known sizes by those of the device kind's usual kernel.

    What a device has besides its share of the heads is a share of the queries, over all keys, which a ring
    brings in blocks.
    """
    every = table.classes[NAMES.index("attention")]
    columns = every[table.sizes[0, every] > 0]
    if not len(columns):
        return
    kernel = kind.attention_kernels[0]
    heads, queries, head, keys = table.sizes[:, columns]
    shape = table.trips.shape[1:]
    samples, work = (np.broadcast_to(np.asarray(x, dtype=float), shape)[columns] for x in (samples, work))
    shares = np.ones((3, len(columns))) if split is None else split[:, columns]
    share, passes = shares[0], 1.0 / shares[2]
    moved = table.moved_elements[:2, columns] * (samples * work * scalar_bytes(precision))
    batch, rows = samples * whole(heads * share), whole(queries * work / share)
    rings = bool((passes > 1).any())
    for way in (0, 1):
        given = (kernel, kind, precision, batch, rows, keys, head)
        causal, backward = table.causal[columns], way == 1
        found = attention_seconds(*given, causal=causal, moved=moved[way], backward=backward)
        if rings:
            found = np.where(
                passes > 1,
                ring_seconds(*given, passes, causal=causal, moved=moved[way], backward=backward),
                found,
            )
        # the kernel's own start is in place of one launch
        seconds[way, columns] = found - kind.launch_overhead_s


def _peak(kind: DeviceKind, name: str, precision: str) -> float:
    """Return the peak FLOP/s of a class: outside products that of the vector units, in fp32 or wider."""
    if name == "memory" and dtype_bytes(precision) < 4 and "fp32" in dict(kind.peak_flops_per_s):
        return kind.peak("fp32")
    return kind.peak(precision)
