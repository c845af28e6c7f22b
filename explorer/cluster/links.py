"""Links: the levels of an interconnect, explicit links, and what one transfer meets on its path."""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.cluster.sources import Source

PROTOCOL_OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
"""Collectives that protocols are stated for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """One way in which a collective library moves data over a level, in steps that slices pass one by one.

    A collective over h steps and S bytes, of which the slowest link is occupied S beta, takes overhead_s + h
    step_s + S beta + 2 sqrt(slice_s h S beta): a slice more fills the steps sooner and has to be started too,
    and the best number of slices balances the two. NCCL, for one, has a protocol for small messages (stored
    with flags, so that nobody waits for a whole slice) beside one for large ones, and reduces in the switch.
    """

    name: str
    """simple, low_latency, in_switch, ...: levels of one collective use protocols of one name."""
    overhead_s: float = 0.0
    """Seconds of every collective beside the level's `collective_overhead_s`."""
    step_s: float = 0.0
    """Seconds until the first byte is a step further."""
    slice_s: float = 0.0
    """Seconds to start one slice of a step."""
    shares: tuple[tuple[str, float], ...] = ()
    """Operation -> share of the level's bandwidth for that operation; others are not done so. () for all of
    all operations."""
    own_copy: tuple[tuple[str, float], ...] = ()
    """Operation -> seconds of a byte that a device copies to its own part of the result, over those of one
    that it sends."""
    in_switch: bool = False
    """Whether the switch adds up: a device sends S, and S / n of sums, in two steps (all-reduce alone)."""

    def __post_init__(self) -> None:
        stated = [(key, *pair) for key in ("shares", "own_copy") for pair in getattr(self, key)]
        for key, operation, share in stated:
            if operation not in PROTOCOL_OPERATIONS or not 0 <= share <= 1 or (key == "shares" and not share):
                raise InputError(
                    f"protocol {self.name!r} has {operation}: {share}",
                    key=key,
                    found=share,
                    allowed=f"a fraction, 0 to 1, for {', '.join(PROTOCOL_OPERATIONS)}",
                )
        if min(self.overhead_s, self.step_s, self.slice_s) < 0:
            raise InputError(f"protocol {self.name!r} takes less than no time", key="step_s", allowed=">= 0")
        self._check_that_fields_act()

    def _check_that_fields_act(self) -> None:
        """Refuse what no collective would ever use."""
        done = [operation for operation, _ in self.shares]
        for key in ("shares", "own_copy"):
            names = [operation for operation, _ in getattr(self, key)]
            if len(set(names)) < len(names):
                self._refuse("names an operation twice", key, names, "each operation once")
        if not self.name:
            self._refuse("has no name", "name", self.name, "a name: levels of one collective use one name")
        if self.in_switch and done != ["all_reduce"]:
            self._refuse("adds up in the switch", "shares", done, "in_switch with all_reduce alone in shares")
        copied = [operation for operation, _ in self.own_copy if done and operation not in done]
        if copied:
            self._refuse("copies for what it does not do", "own_copy", copied, f"of {', '.join(done)}")

    def _refuse(self, what: str, key: str, found: object, allowed: str) -> None:
        raise InputError(f"protocol {self.name!r} {what}", key=key, found=found, allowed=allowed)

    def does(self, operation: str) -> bool:
        """Tell whether collectives of an operation may run so."""
        return not self.shares or operation in dict(self.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One level of interconnect: full connectivity among the devices of each group."""

    name: str
    """nvlink, pcie, ib, ethernet, ..."""
    kind: str
    """nvlink, nvswitch, fabric (between chips of other makers), pcie, infiniband, ethernet, internet or
    shared_memory: what colours and words use.
    """
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
    crossing_slowdown: float = 0.0
    """Relative: by how much longer bytes take over this level for each doubling of the nodes (units), where
    rings leave a node by another adapter than they came in by.

    So do those of groups that hold several of a node's devices but not all: neighbours share an adapter or
    the switch before it, and only one of them is in the group. Such packets cross the spine of the network,
    where static routes collide, the more the more nodes there are (Hoefler, Schneider, Lumsdaine, Multistage
    Switches are not Crossbars, 2008). 0 where data passes over NVLink to the adapter it came in by (PXN, NCCL
    2.12 and later).
    """
    collective_overhead_s: float = 0.0
    """Seconds of every collective besides its messages: launch, and waiting for the last to arrive."""
    protocols: tuple[Protocol, ...] = ()
    """Ways to move the data of an all-reduce, reduce-scatter, all-gather or all-to-all, of which the fastest
    counts; () if only a message's start-up `latency_s` is known."""
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
        if self.crossing_slowdown < 0:
            raise InputError(
                f"level {self.name!r} is faster the more rings cross",
                key="crossing_slowdown",
                found=self.crossing_slowdown,
                allowed=">= 0",
            )
        if not (self.scope in ("node", "all") or (isinstance(self.scope, int) and self.scope > 1)):
            raise InputError(
                f"level {self.name!r} has scope {self.scope!r}",
                key="scope",
                found=self.scope,
                allowed="node, all or a number of devices above 1",
            )
        names = [protocol.name for protocol in self.protocols]
        if len(set(names)) < len(names):
            raise InputError(
                f"level {self.name!r} has two protocols of one name",
                key="protocols",
                found=", ".join(names),
                allowed="each name once",
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
