"""The heap of a rank: memory that tensors leave is kept for the next ones, as accelerators' allocators do.

glibc gives large blocks back to the system at once, which hands out fresh pages for the next: a gradient of
150 MB costs three times its product then. Profiles of the machine are measured on such ranks too.
"""

from __future__ import annotations

import contextlib
import ctypes
from pathlib import Path

import psutil
import torch

from explorer.base.errors import InputError
from explorer.base.files import read_text

# of malloc.h: M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_MAX
_TRIM, _PAD, _MAPS = -1, -2, -4
_PAD_BYTES = 64 << 20
_NEVER = -1


def keep_freed_memory() -> bool:
    """Let the allocator keep what is freed; return whether it can (glibc only)."""
    with contextlib.suppress(AttributeError, OSError):
        change = ctypes.CDLL(None).mallopt
        change.argtypes, change.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
        return all([change(_MAPS, 0), change(_TRIM, _NEVER), change(_PAD, _PAD_BYTES)])
    return False


def take_pages(wanted: float, ranks: int) -> None:
    """Touch so many bytes of fresh memory and free it: pages that the first tasks of a case would else wait
    for, one or two milliseconds a megabyte on some machines.

    Args:
        wanted: bytes; less is taken where that would be more than half of this rank's share of what is free.
        ranks: ranks of this machine that do the same.
    """
    room = min(wanted, free_bytes() / (2 * ranks))
    blocks = [torch.zeros(_PAD_BYTES, dtype=torch.uint8) for _ in range(int(room) // _PAD_BYTES)]
    del blocks


def free_bytes(group: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes that this machine has left, or that its control group (a container's) may yet take.

    `group`: folder of the control group, of version 2; one without a limit, or none, limits nothing.
    """
    left = float(psutil.virtual_memory().available)
    with contextlib.suppress(InputError, ValueError):
        most, used = (float(read_text(group / f"memory.{name}")) for name in ("max", "current"))
        left = min(left, max(0.0, most - used))
    return left


def give_back_freed_memory() -> bool:
    """Give pages that no tensor uses back to the system, between phases that hold tensors of other sizes;
    return whether any went (glibc only).
    """
    with contextlib.suppress(AttributeError, OSError):
        trim = ctypes.CDLL(None).malloc_trim
        trim.argtypes, trim.restype = (ctypes.c_size_t,), ctypes.c_int
        return bool(trim(0))
    return False
