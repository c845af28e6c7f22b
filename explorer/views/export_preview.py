"""Exported files as text to look at, with what the target says differently or cannot say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

MOST_CHARACTERS = 20_000
"""Of one file that are shown; the download has them all."""


def export_view(
    target: str, files: Mapping[str, str], *, notes: Iterable[str] = (), refusals: Iterable[str] = ()
) -> dict[str, Any]:
    """`{target, notes, refusals, files: [{name, shown, text, omitted}]}`; what is not shown is said.

    >>> export_view("plan", {"plan.yaml": "schema: explorer.plan/1"})["files"][0]["omitted"] is None
    True
    """
    return {
        "target": target,
        "notes": list(notes),
        "refusals": list(refusals),
        "files": [_file(name, text) for name, text in files.items()],
    }


def _file(name: str, text: str) -> dict[str, Any]:
    rest = len(text) - MOST_CHARACTERS
    return {
        "name": name,
        "shown": text[:MOST_CHARACTERS],
        "text": text,
        "omitted": f"{rest} more characters in the file" if rest > 0 else None,
    }
