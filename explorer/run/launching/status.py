"""Status: one small shared page per rank that says what it is doing, read by the launcher's watchdog.

Writing costs some two microseconds and needs no lock: a page has one writer, and a reader that meets a
half-written page reads it again 50 ms later. It works for a rank that hangs in C code or is stopped, because
the rank need not do anything to be found standing still. Pages are written and read, not mapped: where a
mapped file cannot be kept (a full disk, a file system that went away), the next touch kills the rank with
SIGBUS and without a word; a write that fails says why.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

PAGE_BYTES = 256
_HEAD = struct.Struct("<qdi")
STARTING, COMPUTING, WAITING, IDLE = range(4)
STATES = ("starting", "computing", "waiting", "idle")


class Status(NamedTuple):
    """What a rank reports about itself."""

    changes: int
    """Changes so far, a number that does not move while the rank stands still."""
    predicted_s: float
    """Predicted seconds of the present action."""
    state: int
    """Index in `STATES`."""
    text: str
    """The action, or what the rank waits for."""


class StatusPages:
    """The pages of all ranks of a launch, in one file."""

    def __init__(self, path: Path, ranks: int, *, create: bool = False) -> None:
        if create:
            path.write_bytes(bytes(PAGE_BYTES * ranks))
        self._file = path.open("r+b", buffering=0)
        self._counts = [0] * ranks

    def write(self, rank: int, state: int, text: str, predicted_s: float = 0.0) -> None:
        """Write what `rank` begins now."""
        self._counts[rank] += 1
        start = rank * PAGE_BYTES
        body = text.encode("ascii", "replace")[: PAGE_BYTES - _HEAD.size]
        head = _HEAD.pack(self._counts[rank], predicted_s, state)
        os.pwrite(self._file.fileno(), (head + body).ljust(PAGE_BYTES, b"\0"), start)

    def read(self, rank: int) -> Status:
        """Return the last status of `rank`."""
        page = os.pread(self._file.fileno(), PAGE_BYTES, rank * PAGE_BYTES).ljust(PAGE_BYTES, b"\0")
        count, predicted_s, state = _HEAD.unpack(page[: _HEAD.size])
        text = page[_HEAD.size :].rstrip(b"\0").decode("ascii", "replace")
        return Status(count, predicted_s, state, text)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
