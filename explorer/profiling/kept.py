"""The profile of this machine, made once and kept in the cache folder, found again by what it depends on.

That is the host, its processor and cores, the devices and torch's version: with another of them the numbers
may be others, and the profile is not found.
"""

from __future__ import annotations

import hashlib
import json
import platform
from importlib import metadata
from pathlib import Path

from explorer.base.errors import InputError
from explorer.base.files import cache_folder, make_folder
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster, save_cluster
from explorer.profiling.machine import this_host
from explorer.profiling.sizes import CPU, CUDA
from explorer.run.gpus import count_gpus

FOLDER = "machines"
NAME = "this-machine"


def device_here(*, least: int = 1) -> str:
    """Return the device type that a run takes here: cuda if there are at least so many GPUs, else cpu."""
    return CUDA if count_gpus() >= max(1, least) else CPU


def kept_path(device: str) -> Path:
    """Return the file in which this machine's profile is kept. `device`: cpu or cuda."""
    host = this_host()
    facts = [platform.node(), host.processor, host.cores, device, _torch_version()]
    digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    return cache_folder() / FOLDER / f"{device}-{digest}.yaml"


def keep_profile(cluster: Cluster, device: str) -> Path:
    """Keep a profile of this machine, in place of an earlier one; return its file.

    Raises:
        InputError: the cache folder cannot be written.
    """
    path = kept_path(device)
    make_folder(path.parent)
    save_cluster(cluster, path)
    return path


def kept_profile(device: str) -> Cluster | None:
    """Return the profile that was kept of this machine; None if there is none, or it cannot be read."""
    path = kept_path(device)
    try:
        return load_cluster(path) if path.is_file() else None
    except InputError:
        return None


def _torch_version() -> str:
    """Return torch's version without importing it, for a second of its own."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
