"""Links: the levels of an interconnect, explicit links, and what one transfer meets on its path."""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.cluster.sources import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of interconnect: full connectivity among the devices of each group."""

    name: str
    """nvlink, pcie, ib, ethernet, ..."""
    kind: str
    """nvlink, nvswitch, pcie, infiniband, ethernet, internet or shared_memory: what colours and words use."""
    scope: str | int
    """`node`: the devices of one node; `all`: every device; a number: blocks of so many devices."""
    latency_s: float
    """One-way start-up time of a message."""
    bandwidth_bytes_per_s: float
    """Between one pair of devices, one direction, unloaded."""
    device_bytes_per_s: float = 0.0
    """Most that one device can send (and, separately, receive) over this level in total; 0 if unlimited."""
    uplink_bytes_per_s: float = 0.0
    """Most that one group of the next inner level (a node) can send (and receive); 0 if unlimited."""
    collective_efficiency: float = 1.0
    """Fraction of these bandwidths that collectives reach; transfers between two devices reach all of it."""
    operation_efficiency: tuple[tuple[str, float], ...] = ()
    """That fraction by operation (`all_gather`, `all_to_all`, ...), where it is known separately."""
    collective_overhead_s: float = 0.0
    """Seconds of every collective besides its messages: launch, and waiting for the last to arrive."""
    sources: tuple[Source, ...] = ()
    """Where the numbers come from."""

    def __post_init__(self) -> None:
        if self.bandwidth_bytes_per_s <= 0 or self.latency_s < 0:
            raise InputError(
                f"level {self.name!r} needs bandwidth above 0 and latency of 0 or more",
                key="bandwidth_bytes_per_s",
                found=self.bandwidth_bytes_per_s,
                allowed="> 0",
            )
        if not (self.scope in ("node", "all") or (isinstance(self.scope, int) and self.scope > 1)):
            raise InputError(
                f"level {self.name!r} has scope {self.scope!r}",
                key="scope",
                found=self.scope,
                allowed="node, all or a number of devices above 1",
            )

    def efficiency_of(self, operation: str) -> float:
        """Return the fraction of the bandwidth that collectives of an operation reach."""
        return dict(self.operation_efficiency).get(operation, self.collective_efficiency)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One directed link of an explicit topology."""

    source: int
    """Sending device."""
    target: int
    """Receiving device."""
    kind: str
    """As `Level.kind`."""
    latency_s: float
    """Start-up time."""
    bandwidth_bytes_per_s: float
    """Unloaded."""
    shared: str = ""
    """Name of a shared resource it uses; empty if it has its own."""
    collective_efficiency: float = 1.0
    """Fraction of the bandwidth that collectives reach."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """One way between two devices: latency, bandwidth and the shared resources on it."""

    kind: str
    """Kind of the slowest link."""
    latency_s: float
    """Sum of start-up times."""
    bandwidth_bytes_per_s: float
    """Unloaded."""
    resources: tuple[tuple[str, float], ...] = ()
    """Shared resources on the way: (name, capacity in bytes/s)."""


LOCAL = Path(kind="local", latency_s=0.0, bandwidth_bytes_per_s=math.inf)
"""From a device to itself: free."""
