"""Writing an export: a directory, our files in it, and nothing of anybody else's touched.

Next to the files of the targets lies `export.json`, which lists the written files with their checksums. A
file is replaced only if it is listed there and still as it was written; files that an earlier export to the
same target wrote and this one does not write are removed under the same condition. Entries for other
places (`..`, absolute names) are ignored, and links are neither removed nor written through.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError
from explorer.base.files import inside, make_folder, read_bytes, read_text, replace_file
from explorer.base.formats import json_text, parse_json

MANIFEST = "export.json"
SCHEMA = "explorer.export/1"
MOST_BYTES = 2**30
"""Largest file of an export in bytes; a longer one is not ours."""


def write_files(directory: Path, target: str, files: Mapping[str, str]) -> list[Path]:
    """Write `files` (name -> text) of `target`; scripts (`*.sh`) are made executable.

    Raises:
        InputError: the directory cannot be made or written, or it holds a file of these names which no
            earlier export wrote, or which was changed since, or a link.
    """
    try:
        make_folder(directory)
    except InputError as error:
        raise _unwritable(directory, error.message.rpartition(": ")[2]) from None
    known = _manifest(directory)
    foreign = [name for name in (*files, MANIFEST) if not _ours(directory, name, known)]
    if foreign:
        raise InputError(
            f"{', '.join(foreign)} there is not from an export, or was changed since",
            file=str(directory),
            key="--output",
            found=foreign[0],
            allowed="an empty directory, or one that only exports were written to",
        )
    stale = [name for name, item in known.items() if item.get("to") == target and name not in files]
    try:
        for name in stale:
            path = inside(directory, name)
            if path is not None and _ours(directory, name, known):
                path.unlink(missing_ok=True)
            del known[name]
        written = [_write(directory / name, text) for name, text in files.items()]
        known |= {name: {"to": target, "sha256": _checksum(text)} for name, text in files.items()}
        _write(directory / MANIFEST, json_text({"schema": SCHEMA, "files": known}) + "\n")
    except OSError as error:
        raise _unwritable(directory, error.strerror or str(error)) from None
    return written


def _unwritable(directory: Path, reason: str) -> InputError:
    return InputError(
        f"cannot write there: {reason}",
        file=str(directory),
        key="--output",
        found=str(directory),
        allowed="a directory that can be written, or a new one",
    )


def _manifest(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the files that earlier exports wrote in the directory, by name; {} if no list is readable."""
    path = inside(directory, MANIFEST)
    if path is None:
        return {}
    try:
        data = parse_json(read_text(path))
        if data["schema"] == SCHEMA:
            return {name: dict(item) for name, item in data["files"].items() if inside(directory, name)}
    except (InputError, ValueError, TypeError, KeyError, AttributeError):
        pass
    return {}


def _ours(directory: Path, name: str, known: Mapping[str, dict[str, Any]]) -> bool:
    """Tell whether a name is free or holds, unchanged, what an export wrote; a link is never ours."""
    path = inside(directory, name)
    if path is None:
        return False
    if not path.exists():
        return True
    if name == MANIFEST:
        return bool(known)
    try:
        return name in known and _checksum(read_bytes(path, most=MOST_BYTES)) == known[name].get("sha256")
    except InputError:
        return False


def _checksum(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _write(path: Path, text: str) -> Path:
    make_folder(path.parent)
    # bytes, so that line ends, and with them the checksum, stay as they are
    replace_file(path, text.encode(), executable=path.suffix == ".sh")
    return path
