"""Facts that the system tells without measuring: cores, memory nodes, the processor's name."""

from __future__ import annotations

import contextlib
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from explorer.base.errors import InputError
from explorer.base.files import read_text
from explorer.profiling.sizes import CPU, CUDA
from explorer.run.gpus import count_gpus

_NODES = Path("/sys/devices/system/node")
_PROCESSOR = Path("/proc/cpuinfo")
_TF32_SINCE = (8, 0)
"""Compute capability from which GPUs have products in bf16 and TF32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The machine under the ranks."""

    cores: int
    """Cores that this process may use."""
    memory_nodes: int
    """Parts of memory that are nearer to some cores than to others (NUMA); 1 if unknown."""
    processor: str
    """Name of the processor, for display."""


def this_host() -> Host:
    """Describe this machine by everything known of it, except what identifies it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    nodes = len(list(_NODES.glob("node[0-9]*"))) if _NODES.is_dir() else 1
    return Host(cores=cores, memory_nodes=max(1, nodes), processor=_processor())


def _processor() -> str:
    with contextlib.suppress(InputError):  # another system
        for text in read_text(_PROCESSOR, errors="replace").splitlines():
            key, _, value = text.partition(":")
            if key.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or "processor"


def gpu_precisions(count: int) -> tuple[str, ...]:
    """Return the precisions in which the first GPUs here have products of their own, the usual one first.

    Args:
        count: number of GPUs.

    Raises:
        InputError: they are not all alike: a profile has one kind of device.
    """
    import torch

    names = dict.fromkeys(torch.cuda.get_device_name(i) for i in range(count))
    if len(names) > 1:
        raise InputError(
            f"GPUs of several kinds: {', '.join(names)}", key="devices", found=len(names),
            allowed="those of one kind (CUDA_VISIBLE_DEVICES says which torch sees)",
        )  # fmt: skip
    newer = torch.cuda.get_device_capability(0) >= _TF32_SINCE
    return ("bf16", "fp16", "tf32", "fp32") if newer else ("fp16", "fp32")


def chosen(devices: str, ranks: int | None) -> tuple[str, int]:
    """Choose the device type and the number of ranks.

    Args:
        devices: auto, cpu or cuda.
        ranks: processes, each on its own core or GPU; None for as many as there are.

    Raises:
        InputError: no such device here, or more ranks than devices: they would time each other.
    """
    if devices not in ("auto", CPU, CUDA):
        raise InputError(
            f"unknown devices {devices!r}", key="devices", found=devices, allowed="auto, cpu, cuda"
        )
    count = 0 if devices == CPU else count_gpus()
    if devices == CUDA and not count:
        raise InputError(
            "torch finds no CUDA device here", key="devices", found=devices, allowed="cpu, or auto"
        )
    device = CUDA if count else CPU
    most = count or this_host().cores
    wanted = most if ranks is None else ranks
    if not 1 <= wanted <= most:
        what = "GPU" if device == CUDA else "core"
        raise InputError(
            f"{wanted} ranks on {most} {what}s: each needs one of its own",
            key="ranks",
            found=wanted,
            allowed=f"1 to {most}",
        )
    return device, wanted
