"""Nodes and what happens to their devices during a run."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Equal nodes, numbered one after the other; with `max_count` a pool to choose from."""

    count: int
    """Nodes used unless others are chosen."""
    device_kind: str
    """Name of the kind of all their devices."""
    devices_per_node: int
    """Devices in each."""
    max_count: int = 0
    """Nodes that may be used: all of them are numbered, plans may use them and searches choose among them; 0
    is exactly `count`."""

    def __post_init__(self) -> None:
        if self.count < 1 or self.devices_per_node < 1:
            raise InputError(
                "a node group needs at least one node with one device",
                key="nodes",
                found=f"{self.count} x {self.devices_per_node}",
                allowed=">= 1",
            )

    @property
    def most(self) -> int:
        """Nodes that may be used."""
        return max(self.count, self.max_count)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A failure, join or leave during a run."""

    time_s: float
    """Seconds after the start."""
    device: int
    """The device it concerns."""
    kind: str
    """fail, leave or join."""
