"""Cluster: device kinds, devices in nodes, and the links between them.

Devices are numbered from 0 through the node groups in order. Links are either *levels* (NVLink inside
a node, InfiniBand between nodes: the innermost level that spans two devices carries their traffic) or
an explicit list of `Link`s. A level names what is shared: the capacity that all traffic entering or
leaving one group (a node's NICs, a PCIe switch) must fit in. Every number has a `Source`.
"""

from __future__ import annotations

from explorer.cluster.attention_kernels import AttentionKernel, HeadSpeed
from explorer.cluster.device_kinds import LIKELY, MARGINS, SURELY, Curve, DeviceKind, Software
from explorer.cluster.links import LOCAL, Level, Link, Path, Protocol
from explorer.cluster.nodes import Event, NodeGroup
from explorer.cluster.product_kernels import ProductKernels, Quantising, Tile
from explorer.cluster.product_times import ProductTimes
from explorer.cluster.sources import Source
from explorer.cluster.topology import Cluster

__all__ = [
    "LIKELY", "LOCAL", "MARGINS", "SURELY", "AttentionKernel", "Cluster", "Curve", "DeviceKind", "Event",
    "HeadSpeed", "Level", "Link", "NodeGroup", "Path", "ProductKernels", "ProductTimes", "Protocol",
    "Quantising", "Software", "Source", "Tile",
]  # fmt: skip
