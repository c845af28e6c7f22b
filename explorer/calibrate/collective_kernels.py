"""Collectives in a trace: NCCL's kernels with the sizes and groups that PyTorch records with them.

A rank that comes early waits inside the kernel, so of equal collectives the shortest counts, not the median.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from explorer.base.errors import InputError
from explorer.base.formats import parse_json
from explorer.base.units import dtype_bytes
from explorer.calibrate.estimate import MODEL_SD, Observation
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds

_KERNEL = re.compile(r"^(?:nccl|rccl)(?:Dev)?Kernel_?(\w*)", re.IGNORECASE)
_OPERATIONS = {
    "allreduce": ("all_reduce", "In"), "_allgather_base": ("all_gather", "Out"),
    "allgather": ("all_gather", "Out"), "allgather_into_tensor_coalesced": ("all_gather", "Out"),
    "_reduce_scatter_base": ("reduce_scatter", "In"), "reduce_scatter": ("reduce_scatter", "In"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", "In"),
    "all_to_all": ("all_to_all", "In"), "all_to_allv": ("all_to_all", "In"), "broadcast": ("broadcast", "In"),
}  # fmt: skip
"""Operation and the message that is the full buffer, by PyTorch's name of the collective."""
_TYPES = {"float": "fp32", "half": "fp16", "bfloat16": "bf16", "double": "fp64"}


class KernelCollective(NamedTuple):
    """Equal collectives of a trace: operation, devices and bytes."""

    op: str
    devices: tuple[int, ...]
    bytes_count: float


def is_collective(kernel: str) -> bool:
    """Tell whether a kernel is one of NCCL's (or RCCL's)."""
    return _KERNEL.match(kernel) is not None


def collective_observations(
    kernels: Sequence[tuple[str, float, Mapping[str, Any]]], cluster: Cluster, *, name: str
) -> tuple[list[Observation], list[str]]:
    """Return observations of collectives among kernels (name, seconds, args), and why others are left out."""
    spans: dict[KernelCollective, list[float]] = defaultdict(list)
    unknown = foreign = 0
    for kernel, seconds, args in kernels:
        if not is_collective(kernel) or seconds <= 0:
            continue
        found = _read(args)
        if found is None:
            unknown += 1
        elif max(found.devices) >= cluster.device_count:
            foreign += 1
        else:
            spans[found].append(seconds)
    remarks = []
    if unknown:
        remarks.append(f"{name}: {unknown} collectives without their size or group left out")
    if foreign:
        remarks.append(f"{name}: {foreign} collectives over more devices than {cluster.name} has")
    return [_observation(item, min(times), name) for item, times in spans.items()], remarks


def _observation(item: KernelCollective, seconds: float, name: str) -> Observation:
    return Observation(
        name=f"{item.op} of {item.bytes_count:.0f} bytes over {len(item.devices)} devices in {name}",
        predict=lambda cluster: collective_seconds(cluster, item.op, item.devices, item.bytes_count),
        measured_s=seconds,
        sd=MODEL_SD,
    )


def _read(args: Mapping[str, Any]) -> KernelCollective | None:
    known = _OPERATIONS.get(str(args.get("Collective name", "")).lower())
    precision = _TYPES.get(str(args.get("dtype", "")).lower())
    size = args.get("Group size")
    if known is None or precision is None or not isinstance(size, int) or not 1 < size < 2**20:
        return None
    elements = args.get(f"{known[1]} msg nelems")
    if not isinstance(elements, int) or elements <= 0:
        return None
    return KernelCollective(known[0], _group(args, size), float(elements * dtype_bytes(precision)))


def _group(args: Mapping[str, Any], size: int) -> tuple[int, ...]:
    """Return the ranks of the group if they are listed in full, else the first ones."""
    try:
        ranks = parse_json(str(args.get("Process Group Ranks", "")), ours=False)
    except InputError:
        return tuple(range(size))
    whole = isinstance(ranks, list) and len(set(map(str, ranks))) == size
    if whole and all(isinstance(rank, int) and rank >= 0 for rank in ranks):
        return tuple(sorted(ranks))
    return tuple(range(size))
