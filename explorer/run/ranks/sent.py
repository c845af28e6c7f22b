"""Sent: bytes that one rank sent to others, by what for, in the rows that bytes are judged by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import torch

from explorer.run.ranks.packing import pack
from explorer.run.sharded.layout_model import PADDING, STAGES, TRANSFERS
from explorer.strategy import REPLICA


class Sent:
    """What has been counted since it was made."""

    def __init__(self) -> None:
        self.rows: defaultdict[tuple[str, str, str, str], float] = defaultdict(float)
        """(way, operation, mesh axis, what for) -> bytes."""

    def packed(self, parts: Sequence[torch.Tensor], *, backward: bool) -> torch.Tensor:
        """Join tensors to a message, and count it: what only fills it up apart."""
        message, way = pack(parts), "backward" if backward else "forward"
        own = sum(part.numel() * part.element_size() for part in parts)
        self.rows[way, TRANSFERS, STAGES, ""] += own
        self.rows[way, PADDING, STAGES, ""] += message.numel() * message.element_size() - own
        return message

    def exchanged(self, ranks: int, buffer: torch.Tensor) -> torch.Tensor:
        """Count an all-reduce of a buffer, of which every one of n ranks sends 2 (n - 1) / n times."""
        size = buffer.numel() * buffer.element_size()
        self.rows["", "all_reduce", REPLICA, ""] += 2 * (ranks - 1) / ranks * size
        return buffer

    def record(self) -> list[list[object]]:
        """Return what was counted, for a rank's result."""
        return [[*key, count] for key, count in sorted(self.rows.items()) if count]
