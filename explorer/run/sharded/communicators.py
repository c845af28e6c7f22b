"""Process groups that are ready for use: of NCCL their connections are made at once.

NCCL connects ranks at the first call of a group, or at the first of a kind, and that call then waits for all
of them. In the midst of an order, where ranks only begin collectives and do other things before they wait for
them, that would be a wait that nobody has counted on, and perhaps one in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


def ready_group(ranks: Sequence[int]) -> Any:
    """Make the process group of some ranks; None for one rank. Every rank calls it, in one order."""
    if len(ranks) == 1:
        return None
    group = dist.new_group(list(ranks))
    if dist.get_backend() == "nccl" and dist.get_rank() in ranks:
        connect_all(group, len(ranks), torch.device("cuda", torch.cuda.current_device()))
    return group


def connect_all(group: Any, size: int, device: torch.device) -> None:
    """Use all connections of a group once: those of collectives, and those of each pair of ranks."""
    numbers = torch.zeros(size, device=device)
    dist.all_reduce(numbers, group=group)
    dist.all_to_all_single(torch.empty_like(numbers), numbers, group=group)


__all__ = ["connect_all", "ready_group"]
