"""A lock on a file that ends with its process: tells which workbench writes a session, over kernels and
within one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: owners are told apart within one kernel only
    fcntl = None  # type: ignore[assignment]


class FileLock:
    """A lock, held until it is released or the process ends in whatever way."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self._path, self._handle = path, handle

    @property
    def held(self) -> bool:
        """Whether all others are kept out."""
        return self._handle is not None or fcntl is None

    @classmethod
    def take(cls, path: Path) -> FileLock | None:
        """Take the lock of a file; None if it is held elsewhere. The file itself need not exist.

        If locks are impossible (no such folder yet, a file system without them) every file counts as free: a
        session that cannot be locked is still better saved than not.
        """
        own = path.with_name(f".{path.name}.lock")
        if fcntl is None or not path.parent.is_dir():
            return cls(own, None)
        for _ in range(8):
            try:
                handle = os.open(own, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError:
                return cls(own, None)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                return None
            except OSError:
                os.close(handle)
                return cls(own, None)
            if own.exists() and own.stat().st_ino == os.fstat(handle).st_ino:
                return cls(own, handle)
            os.close(handle)  # the previous owner removed it between our two steps
        return None

    def release(self) -> None:
        """Release the lock; do nothing if it is released already."""
        if self._handle is not None:
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None
