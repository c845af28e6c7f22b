"""Settings under dotted keys as nested mappings: how JSON and YAML of trainers are written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings of dotted keys.

    >>> nested({"a.b": 1, "a.c": 2, "d": 3})
    {'a': {'b': 1, 'c': 2}, 'd': 3}
    """
    result: dict[str, Any] = {}
    for key, value in flat.items():
        *outer, last = key.split(".")
        at = result
        for name in outer:
            at = at.setdefault(name, {})
        at[last] = value
    return result
