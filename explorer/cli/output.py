"""Output of commands: one JSON object, or words and tables for people."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from explorer import __version__
from explorer.base.errors import ExplorerError


def emit_json(schema: str, body: Mapping[str, Any]) -> None:
    """Print one JSON object on standard output; numbers that are not finite become null."""
    data = {"schema": f"explorer.{schema}/1", "explorer_version": __version__, **_finite(body)}
    print(json.dumps(data, allow_nan=False))


def emit_error(error: ExplorerError, *, as_json: bool) -> None:
    """Print the error as one line on standard error, or as the JSON object."""
    if as_json:
        emit_json("error", {"error": error.as_dict()})
    else:
        print(f"explorer: {' '.join(str(error).split())}", file=sys.stderr)


def say(text: str) -> None:
    """Print a message for people on standard error."""
    print(text, file=sys.stderr, flush=True)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows in columns, the first row being the heads.

    >>> print(table([("name", "s"), ("even", "1.2")]))
    name  s
    even  1.2
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, (str, bytes)):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
