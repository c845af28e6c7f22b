"""Rows on their way through a layer of experts: permutation, activation, and products of many small experts.

A device that sends S rows (its tokens times their experts) to n devices, and works on R, moves in the forward

    permute:     read S / k tokens, write S rows in the order of their experts
    sort:        read and write R rows, which arrive by sender, not by expert; and back (only n > 1, and
                 several experts on a device)
    activation:  read both halves of the R rows' inner width, write their product
    unpermute:   read S rows, write their weighted sums of k

with kernels of their own, which move memory beside the products (Megatron-Core, token dispatcher). The
backward does the same the other way round; it also reads the S rows that were summed, for the gradients of
their weights, and the activation reads three widths and writes two. If all tokens are gathered on all devices
(`all_gather`), each picks its R rows out of n S / k tokens, none are sorted, and sums go to all n S / k. Rows
lie anywhere in memory: they move at the device kind's efficiency over bytes called `permutation`.

A weight gradient is added to a sum in fp32 as the product writes it: read and written, 4 bytes each way, in
place of a result of its own. With few rows an expert that is most of its seconds. (Where separate kernels add
up, `Layer.gradient_passes` counts them.)

Products run as the software has it (`explorer.routing.EXPERT_KERNELS`). Kernels of several streams fill the
device as one kernel would, but the host issues each (`Software.expert_issue_s`), in one call for all experts.
Expert by expert, each fills the device by itself, and the host issues every operator of every expert. Where
rows are not padded, the host reads how many come before it can issue what depends on it, and the device has
nothing to do until the host's next kernel: two operators of the host, the one that reads and the one that
follows.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from explorer.cluster import DeviceKind
from explorer.costs.efficiency import curve_of, effective_size
from explorer.costs.graph_work import Array, IntArray, WorkTable
from explorer.costs.products import product_seconds
from explorer.routing import ALL_GATHER, EACH, STREAMS, Routing
from explorer.sharding.loads import busiest_load

PERMUTATION = "permutation"
"""Name of a device kind's efficiency curve of rows that move to their experts and back."""

OPERATORS = (11, 11, 10)
"""Operations issued for one expert by itself: two linear layers (`graph_work.KERNELS`) and an activation."""

SUM_BYTES = 4.0
"""Bytes of an element of a sum of gradients."""

WAIT_OPERATORS = 2.0
"""Operations of the host between the end of the router and the next kernel: it reads counts, then issues."""


Products: TypeAlias = tuple[Array, Array, Array, Array]
"""Batch, rows, columns and depth of products, one of each for every routed layer."""


class Routed:
    """Layers of a table whose tokens are routed, as one device has them.

    Attributes:
        columns: their positions in the table.
        routing: the routing of each.
        sent: rows that the device sends, by layer.
        rows: rows that it works on.
        tokens: tokens that it has.
        devices: devices among which experts are dealt out.
        own: experts of the device.
        inner: inner width of an expert that the device has.
    """

    def __init__(
        self, table: WorkTable, samples: float | Array, work: Array | float, split: Array | None
    ) -> None:
        columns = np.flatnonzero([item is not None for item in table.routing])
        self.columns: IntArray = columns
        self.routing: list[Routing] = [item for item in table.routing if item is not None]
        shape = table.trips.shape[1:]
        shares = np.ones((3, len(columns))) if split is None else split[:, columns]
        samples, work = (np.broadcast_to(np.asarray(x, dtype=float), shape)[columns] for x in (samples, work))
        tokens, chosen, experts, inner, self.width = table.routed[:, columns]
        self.own = np.maximum(1.0, np.rint(experts * shares[0]))
        self.devices = np.maximum(1.0, np.rint(1.0 / shares[0]))
        load = [
            busiest_load(item, int(e), int(min(e, n)))
            for item, e, n in zip(self.routing, experts.tolist(), self.devices.tolist(), strict=True)
        ]
        self.rows: Array = tokens * chosen * samples * work / (shares[1] * shares[2])
        self.sent: Array = self.rows / np.array(load)
        self.tokens: Array = self.sent / np.maximum(chosen, 1e-300)
        self.inner: Array = inner * shares[1]

    def permuted_elements(self) -> Array:
        """Return the elements that permutations move, forward and backward; shape (2, routed layers)."""
        gathers = np.array([item.dispatch == ALL_GATHER for item in self.routing])
        sorts = ~gathers & (self.devices > 1) & (self.own > 1)
        ends = np.where(gathers, self.rows, self.sent)
        around = np.where(gathers, self.rows, self.tokens)  # of what permuting reads
        summed = np.where(gathers, self.tokens * self.devices, self.tokens)
        forward = around + 2.0 * ends + summed + np.where(sorts, 4.0 * self.rows, 0.0)
        found: Array = np.stack([forward, forward + ends]) * self.width
        return found

    def activated_elements(self) -> Array:
        """Return the elements that activations move, forward and backward; shape (2, routed layers)."""
        return np.stack([3.0 * self.rows * self.inner, 5.0 * self.rows * self.inner])

    def has(self, kernels: str) -> IntArray:
        """Return which of the routed layers run their products so."""
        return np.flatnonzero([item.kernels == kernels for item in self.routing])


def least_elements(table: WorkTable) -> tuple[Array, Array]:
    """Return what all devices together move at least for one sample, forward and backward.

    They are the elements of permutations and of activations, each of shape (2, layers), wherever experts are:
    none are sorted, no device has more rows than another, and sums go to the tokens alone.
    """
    columns = np.flatnonzero([item is not None for item in table.routing])
    gathers = np.array([item.dispatch == ALL_GATHER for item in table.routing if item is not None])
    tokens, chosen, _, inner, width = table.routed[:, columns]
    rows = tokens * chosen
    forward = np.where(gathers, rows, tokens) + 2.0 * rows + tokens
    permuted, activated = np.zeros((2, 2, table.trips.shape[1]))
    permuted[:, columns] = np.stack([forward, forward + rows]) * width
    activated[:, columns] = np.stack([3.0 * rows * inner, 5.0 * rows * inner])
    return permuted, activated


def set_single_experts(
    seconds: Array,
    routed: Routed,
    sizes: tuple[Array, ...],
    table: WorkTable,
    kind: DeviceKind,
    precision: str,
) -> None:
    """Replace the seconds of products that run expert by expert; shape (3, layers of the table).

    Args:
        seconds: of all layers, so far those of one kernel for all experts.
        routed: the routed layers.
        sizes: batch, rows, columns and depth of their products on this device.
        table: all layers.
        kind: the device.
        precision: data type of the factors.
    """
    mine = routed.has(EACH)
    if not len(mine):
        return
    batch, rows, wide, deep = (item[mine] for item in sizes)
    columns, one = routed.columns[mine], np.ones(len(mine))
    count = table.products[:, columns]
    forward = batch * product_seconds(kind, precision, one, rows, wide, deep)
    back = batch * product_seconds(kind, precision, one, rows, deep, wide)
    summed = batch * product_seconds(kind, precision, one, deep, wide, rows, summed=True)
    seconds[0, columns] = count[0, :, 0] * forward
    for way in (1, 2):
        seconds[way, columns] = count[way, :, 0] * back + count[way, :, 1] * summed


def add_sums(
    seconds: Array,
    routed: Routed,
    sizes: tuple[Array, ...],
    table: WorkTable,
    kind: DeviceKind,
    precision: str,
) -> None:
    """Let products add weight gradients to sums in fp32, where no other kernels do.

    What is moved besides is exposed as memory is in products (`explorer.costs.products`). Arguments are those
    of `set_single_experts`.
    """
    mine = np.flatnonzero(table.summed_elements[2, routed.columns] == 0)
    batch, _, wide, deep = (item[mine] for item in sizes)
    columns = routed.columns[mine]
    kernels = kind.kernels_of(precision)
    fraction, exposed = (kernels.memory_fraction, kernels.exposed_memory) if kernels else (1.0, 0.0)
    moved = table.products[2, columns].sum(axis=1) * batch * wide * deep * 2.0 * SUM_BYTES
    memory = moved / (kind.memory_bandwidth_bytes_per_s * fraction)
    own = seconds[2, columns]
    seconds[2, columns] = np.maximum(own, memory) + exposed * np.minimum(own, memory)


def add_row_seconds(
    device: Array, host: Array, routed: Routed, table: WorkTable, kind: DeviceKind, element_bytes: float
) -> None:
    """Add what routed layers take beside their products to the seconds of device and host.

    Args:
        device: seconds of the device, shape (3, layers of the table).
        host: seconds of the host, of the same shape.
        routed: the routed layers.
        table: all layers.
        kind: the device.
        element_bytes: bytes of an activation's element.
    """
    columns, software = routed.columns, kind.software
    moved = routed.permuted_elements() * element_bytes, routed.activated_elements() * element_bytes
    permutes = PERMUTATION if PERMUTATION in dict(kind.efficiency) else "memory"
    for name, each in zip((permutes, "memory"), moved, strict=True):
        device[:2, columns] += effective_size(curve_of(kind, name), each) / kind.memory_bandwidth_bytes_per_s
    backward = np.array([1.0, software.backward_issue, software.backward_issue])
    for mine, issues in (
        (routed.has(STREAMS), table.products[:, columns].sum(axis=2) * routed.own * software.expert_issue_s),
        (routed.has(EACH), np.outer(OPERATORS, routed.own) * software.host_issue_s * backward[:, None]),
    ):
        host[:, columns[mine]] += issues[:, mine]
    alone = routed.has(EACH)
    device[:, columns[alone]] += np.outer(OPERATORS, routed.own[alone]) * kind.launch_overhead_s
    waits = columns[[not item.padded for item in routed.routing]]
    device[0, waits] += WAIT_OPERATORS * software.host_issue_s
