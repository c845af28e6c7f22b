"""Status: one small shared page per rank that says what it is doing, read by the launcher's watchdog.

Writing costs a microsecond and needs no lock: a page has one writer, and a reader that meets a half-written
page reads it again 50 ms later. It works for a rank that hangs in C code or is stopped, because the rank need
not do anything to be found standing still.
"""

from __future__ import annotations

import mmap
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
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), PAGE_BYTES * ranks)
        self._counts = [0] * ranks

    def write(self, rank: int, state: int, text: str, predicted_s: float = 0.0) -> None:
        """Write what `rank` begins now."""
        self._counts[rank] += 1
        start = rank * PAGE_BYTES
        body = text.encode("ascii", "replace")[: PAGE_BYTES - _HEAD.size]
        head = _HEAD.pack(self._counts[rank], predicted_s, state)
        self._map[start : start + PAGE_BYTES] = (head + body).ljust(PAGE_BYTES, b"\0")

    def read(self, rank: int) -> Status:
        """Return the last status of `rank`."""
        page = self._map[rank * PAGE_BYTES : (rank + 1) * PAGE_BYTES]
        count, predicted_s, state = _HEAD.unpack(page[: _HEAD.size])
        text = page[_HEAD.size :].rstrip(b"\0").decode("ascii", "replace")
        return Status(count, predicted_s, state, text)

    def close(self) -> None:
        """Unmap the file."""
        self._map.close()
