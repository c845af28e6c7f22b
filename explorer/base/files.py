"""Files: the one place where the product reads and writes them.

Reading is bounded: only regular files, never more than a stated number of bytes, never waiting for a pipe
or a device. Writing is atomic: a file is written next to its name and renamed, so a full disk or a kill
leaves the old content. Every failure is one `InputError`. What the bytes mean is the business of
`explorer.base.formats`.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

from explorer.base.errors import InputError

MOST_BYTES = 16 * 2**20
"""Largest size of a file of the product itself (plan, profile, session, model), in bytes."""

STANDARD_INPUT = "-"
"""The path by which people name standard input."""

_MOST_NAME = 100  # letters of a name that its draft repeats; file systems allow 255 bytes


def exists(path: str | Path) -> bool:
    """Tell whether a file or folder of that name exists; False for a name too long or with a NUL."""
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises for such names


def is_folder(path: str | Path) -> bool:
    """Tell whether a folder of that name exists; the empty name is the current folder."""
    return os.path.isdir(path or ".")  # noqa: PTH112 - as above


def read_bytes(path: str | Path, *, most: int = MOST_BYTES, what: str = "file") -> bytes:
    """Return the content of a regular file.

    Args:
        path: the file.
        most: the largest size allowed, in bytes.
        what: the word for the file in messages (`history`).

    Raises:
        InputError: it is missing, too long, not a regular file, or cannot be read.
    """
    name = str(path)
    with _telling(name, f"cannot read the {what}", found=name):
        _require_regular(Path(path).stat(), name, what)  # before it is opened, since a device may notice
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as stream:
            _require_regular(os.fstat(stream.fileno()), name, what)
            return _bounded(stream, most, name, what)


def read_packed(path: str | Path, *, most: int) -> bytes:
    """Return the content of a regular file, unpacked if its name ends in `.gz`.

    Args:
        path: the file.
        most: the largest size allowed, packed and unpacked, in bytes.

    Raises:
        InputError: as `read_bytes`, or it is not a gzip file.
    """
    raw, name = read_bytes(path, most=most), str(path)
    return unpack(raw, most=most, file=name) if name.endswith(".gz") else raw


def unpack(raw: bytes, *, most: int, file: str | None = None) -> bytes:
    """Unpack gzip data.

    Raises:
        InputError: it is not gzip data, or longer than `most` bytes.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
            return _bounded(stream, most, file, "file, unpacked,")
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read the file: {error}", file=file, allowed="a gzip file") from None


def read_text(path: str | Path, *, most: int = MOST_BYTES, what: str = "file", errors: str = "strict") -> str:
    """Return the text of a regular UTF-8 file with Unix line ends; `-` is standard input.

    Args:
        path: the file.
        most: the largest size allowed, in bytes.
        what: the word for the file in messages.
        errors: how to treat bytes that are not UTF-8: `strict` refuses them, else as for `bytes.decode`.

    Raises:
        InputError: as `read_bytes`, or it is not text.
    """
    if str(path) == STANDARD_INPUT:
        return read_standard_input(most=most)
    raw = read_bytes(path, most=most, what=what)
    try:
        text = raw.decode("utf-8", errors)
    except UnicodeDecodeError:
        raise InputError(f"cannot read the {what}: not UTF-8 text", file=str(path), found=str(path)) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_standard_input(*, most: int = MOST_BYTES) -> str:
    """Return the text of standard input, up to its end.

    Raises:
        InputError: it has more than `most` letters, or is not text.
    """
    name = "standard input"
    with _telling(name, "cannot read it", found=name):
        try:
            text = sys.stdin.read(most + 1)
        except UnicodeDecodeError:
            raise InputError("cannot read it: not UTF-8 text", file=name) from None
    if len(text) > most:
        raise InputError("it is too long", file=name, allowed=f"up to {most} letters")
    return text


def read_tail(path: str | Path, *, start: int, most: int = MOST_BYTES) -> bytes:
    """Return at most `most` bytes of a growing regular file, from the position `start` on.

    Raises:
        InputError: it is missing, not a regular file, or cannot be read.
    """
    name = str(path)
    with _telling(name, "cannot read the file", found=name):
        _require_regular(Path(path).stat(), name, "file")
        with Path(path).open("rb") as stream:
            stream.seek(start)
            return stream.read(most)


def write_text(path: str | Path, text: str, *, what: str = "file") -> None:
    """Write a UTF-8 file whole, or leave the old content: see `write_bytes`."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"), what=what)


def write_bytes(path: str | Path, data: bytes, *, what: str = "file", executable: bool = False) -> None:
    """Write a file whole, or leave the old content.

    A draft next to it is written, flushed to the disk and renamed. If the name belongs to a device or a pipe
    (`/dev/stdout`), the data is written to it directly.

    Args:
        path: the file; a link is followed.
        data: its content.
        what: the word for the file in messages.
        executable: whether it may be run.

    Raises:
        InputError: the folder is missing, there is no room, or no permission.
    """
    name = str(path)
    with _telling(name, f"cannot write the {what}", found=name):
        try:
            there: os.stat_result | None = Path(path).stat()
        except FileNotFoundError:
            there = None
        if there is not None and not stat.S_ISREG(there.st_mode):
            if stat.S_ISDIR(there.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with Path(path).open("wb") as stream:
                stream.write(data)
            return
        target = Path(os.path.realpath(path))
        mode = stat.S_IMODE(there.st_mode) if there is not None else None
        replace_file(target, data, mode=mode, executable=executable)


def replace_file(target: Path, data: bytes, *, mode: int | None = None, executable: bool = False) -> None:
    """Put a file in place of whatever has its name, a link included, in one moment.

    Raises:
        OSError: it cannot be done; no draft is left behind.
    """
    draft = target.with_name(f".{target.name[:_MOST_NAME]}.{os.getpid()}.{os.urandom(4).hex()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(draft, flags, 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if mode is not None:
            draft.chmod(mode)
        if executable:
            draft.chmod(draft.stat().st_mode | 0o111)
        draft.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def append_line(path: str | Path, line: bytes, *, what: str = "file") -> None:
    """Append a line, its line end included, to a file, which is made if it is missing.

    The line is one write at the end of the file, so the lines of two writers do not mix; a broken last line
    that somebody left is closed first.

    Raises:
        InputError: it is not a regular file, or there is no such folder, no room or no permission.
    """
    with _telling(str(path), f"cannot write the {what}", found=str(path)):
        if os.path.lexists(path):
            _require_regular(Path(path).stat(), str(path), what)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0), 0o644)
        try:
            size = os.fstat(handle).st_size
            torn = size > 0 and read_tail(path, start=size - 1, most=1) != b"\n"
            if os.write(handle, b"\n" * torn + line) < len(line) + torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)


def cache_folder() -> Path:
    """Return `EXPLORER_CACHE`, else `strategy-explorer` in the user's cache folder; it need not exist."""
    if own := os.environ.get("EXPLORER_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "strategy-explorer"


def make_folder(path: Path) -> None:
    """Make a folder and those above it, if they are missing.

    Raises:
        InputError: it cannot be made.
    """
    with _telling(str(path), "cannot make the folder", found=str(path)):
        path.mkdir(parents=True, exist_ok=True)


def inside(folder: Path, name: str) -> Path | None:
    """Return the path of the file that `name` means in a folder; None if it leads out of the folder.

    A name leads out if it is absolute, has `..`, or passes through a link, which the file itself may be.
    """
    parts = name.replace("\\", "/").split("/")
    if not name or Path(name).is_absolute() or any(part in ("", ".", "..") for part in parts):
        return None
    path = folder
    for part in parts:
        path /= part
        if path.is_symlink():
            return None
    return path


def _require_regular(found: os.stat_result, name: str, what: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found.st_mode):
        raise InputError(
            f"cannot read the {what}: it is a device or a pipe",
            file=name,
            found=name,
            allowed="a regular file; pipes are read as standard input (-) where a command takes it",
        )


def _bounded(stream: io.BufferedIOBase, most: int, name: str | None, what: str) -> bytes:
    data = stream.read(most + 1)
    if len(data) > most:
        raise InputError(f"the {what} is too long", file=name, allowed=f"up to {most} bytes")
    return data


@contextlib.contextmanager
def _telling(file: str, doing: str, *, found: object) -> Iterator[None]:
    """Turn the system's refusals into one `InputError`."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has seen enough: the command line ends silently
        raise
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"{doing}: {reason}", file=file, found=found) from None
