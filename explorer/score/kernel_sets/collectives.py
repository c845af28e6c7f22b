"""Collectives of 2, 4 or 8 devices of one node (NVIDIA aiconfigurator, 2026): seconds of one, on idle GPUs.

`elements` are of the whole message, of 2 bytes. The devices of a group are the first of a node of the
smallest bundled profile that has such devices: PCIe cards below one switch before those of another socket.
Nobody comes late (`explorer.calibrate.collective_fit.idle`), as collectives are repeated back to back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from explorer.base.errors import InputError
from explorer.calibrate.collective_fit import CollectiveTime, idle
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds
from explorer.score.kernel_devices import cluster_called
from explorer.score.kernels import KERNEL_SETS, KernelRow, Refused, checked
from explorer.score.reading import Record, read_table

COLUMNS = ("device", "operation", "num_gpus", "elements", "microseconds")
COUNTED_BYTES = 2**20
"""Bytes from which a message counts."""
ELEMENT_BYTES = 2
OPERATIONS = {
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "all_gather": "all_gather",
    "allgather": "all_gather", "reduce_scatter": "reduce_scatter", "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all", "all_to_all": "all_to_all",
}  # fmt: skip
"""Our names by those of the file."""


class Collective(NamedTuple):
    """One line of the file."""

    line: int
    kind: str
    cluster: Cluster
    time: CollectiveTime


@KERNEL_SETS.add(
    "collectives", title="collectives inside a node of idle GPUs", paper="NVIDIA aiconfigurator, 2026",
    path="measured/kernels/collectives.csv", source="aiconfigurator-kernels", counted="1 MiB and more",
    columns=COLUMNS,
)  # fmt: skip
def read(records: Sequence[Record]) -> Iterator[KernelRow | Refused]:
    """Read and predict collectives."""
    ready: dict[str, Cluster] = {}
    for record in records:
        found = checked(record, collective_of)
        if isinstance(found, Refused):
            yield found
            continue
        line, kind, cluster, item = found
        node = ready.setdefault(cluster.name, idle(cluster))
        seconds = collective_seconds(node, item.op, tuple(range(item.devices)), item.bytes_count)
        name = f"{item.bytes_count:.0f} bytes"
        counted = item.bytes_count >= COUNTED_BYTES
        yield KernelRow(line, kind, f"{item.op} {item.devices}", name, seconds, item.seconds, counted)


def collective_of(record: Record) -> Collective:
    """Return one line of the file.

    Raises:
        InputError: a size, the device or the operation is wrong.
    """
    operation = record.text("operation")
    if operation not in OPERATIONS:
        raise InputError(
            f"unknown operation {operation!r}", key="operation", found=operation,
            allowed=", ".join(OPERATIONS),
        )  # fmt: skip
    cluster, count = cluster_called(record.text("device")), record.count("num_gpus")
    if not 2 <= count <= cluster.device_count:
        raise InputError(
            f"{count} devices of {cluster.name!r}", key="num_gpus", found=count,
            allowed=f"2 to {cluster.device_count}",
        )  # fmt: skip
    size = record.positive("elements") * ELEMENT_BYTES
    item = CollectiveTime(OPERATIONS[operation], count, size, record.positive("microseconds") * 1e-6)
    return Collective(record.line, cluster.kind_of(0).name, cluster, item)


def times_of(path: Path, kinds: Sequence[str]) -> dict[str, list[CollectiveTime]]:
    """Return the measured collectives of some device kinds, of a file in this format.

    Raises:
        InputError: the file is missing or lacks a column.
    """
    found: dict[str, list[CollectiveTime]] = {kind: [] for kind in kinds}
    for record in read_table(path, COLUMNS)[0]:
        line = checked(record, collective_of)
        if isinstance(line, Collective) and line.kind in found:
            found[line.kind].append(line.time)
    return found
