"""Device kinds of a profile, and whether one is the device of a measurement."""

from __future__ import annotations

from explorer.cluster import Cluster, DeviceKind

RANK_KIND = "rank"
"""Name of the device kind that stands for one rank of this machine."""


def used_kinds(cluster: Cluster) -> tuple[DeviceKind, ...]:
    """List the device kinds that some node has."""
    used = {group.device_kind for group in cluster.nodes}
    return tuple(kind for kind in cluster.device_kinds if kind.name in used)


def same_device(kind: str, device: str) -> bool:
    """Tell whether a device kind of a profile is the device with a given name.

    >>> same_device("cpu", "cpu"), same_device("a100-sxm-80gb", "cpu")
    (True, False)
    >>> same_device("a100-sxm-80gb", "NVIDIA A100-SXM4-80GB")
    True
    >>> same_device("rtx-3090", "NVIDIA GeForce RTX 3090"), same_device("rtx-3090", "NVIDIA GeForce RTX 2080")
    (True, False)
    """
    words = kind.lower().replace("_", "-").split("-")
    if device == "cpu":
        return words[0] in ("cpu", RANK_KIND)
    said = device.lower().replace("-", " ").split()
    series = words[0] in ("rtx", "titan")  # the name of a series, distinguished by the word that follows
    return all(word in said for word in words[: 2 if series else 1])
