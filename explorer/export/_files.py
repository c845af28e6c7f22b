"""Writing an export: a directory, what in it is ours, and nothing of anybody else's touched.

Beside the files of the targets stands `export.json`, which says what was written and its checksum. A file
is replaced only if it is listed there and still as it was written; files that an earlier export to the same
target wrote and that this one does not write are removed under the same condition.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from explorer.base.errors import InputError

MANIFEST = "export.json"
SCHEMA = "explorer.export/1"


def write_files(directory: Path, target: str, files: Mapping[str, str]) -> list[Path]:
    """Write `files` (name -> text) of `target`; scripts (`*.sh`) are made executable.

    Raises:
        InputError: a directory that cannot be made or written, or one that holds a file of these names
            which no earlier export wrote, or which was changed since.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        known = _manifest(directory)
        stale = [name for name, item in known.items() if item.get("to") == target and name not in files]
        foreign = [name for name in (*files, MANIFEST) if not _ours(directory, name, known)]
        if foreign:
            raise InputError(
                f"{', '.join(foreign)} there is not from an export, or was changed since",
                file=str(directory),
                key="--output",
                found=foreign[0],
                allowed="an empty directory, or one that only exports were written to",
            )
        for name in stale:
            if _ours(directory, name, known):
                (directory / name).unlink(missing_ok=True)
            del known[name]
        written = [_write(directory / name, text) for name, text in files.items()]
        known |= {name: {"to": target, "sha256": _checksum(text)} for name, text in files.items()}
        _write(directory / MANIFEST, json.dumps({"schema": SCHEMA, "files": known}, indent=2) + "\n")
    except OSError as error:
        raise InputError(
            f"cannot write there: {error.strerror or error}",
            file=str(directory),
            key="--output",
            found=str(directory),
            allowed="a directory that can be written, or a new one",
        ) from None
    return written


def _manifest(directory: Path) -> dict[str, dict[str, Any]]:
    """What earlier exports wrote, by file name; {} where there is no list of it (or a foreign one)."""
    try:
        data = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        if data["schema"] == SCHEMA:
            return {str(name): dict(item) for name, item in data["files"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        pass
    return {}


def _ours(directory: Path, name: str, known: Mapping[str, dict[str, Any]]) -> bool:
    """Whether a name is free or holds, unchanged, what an export wrote."""
    path = directory / name
    if not path.exists():
        return True
    if name == MANIFEST:
        return bool(known)
    return name in known and path.is_file() and _checksum(path.read_bytes()) == known[name].get("sha256")


def _checksum(content: str | bytes) -> str:
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())  # bytes, so that line ends and with them the checksum stay as they are
    if path.suffix == ".sh":
        path.chmod(path.stat().st_mode | 0o111)
    return path
