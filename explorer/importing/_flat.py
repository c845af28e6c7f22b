"""Flat settings: a nested config by dotted key, read key by key, so that what nobody reads can be listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from explorer.base.errors import cut
from explorer.importing.spec import UnknownKey

AUTO = "auto"
NO_EFFECT = "no effect on the split"
NOT_THERE = "as if it were not there"
MOST = 10**12


def flattened(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by dotted key; an empty mapping is a value of its own.

    >>> flattened({"a": {"b": 1, "c": [2]}, "d": {}})
    {'a.b': 1, 'a.c': [2], 'd': {}}
    """
    found: dict[str, Any] = {}
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value:
            found |= flattened(value, f"{name}.")
        else:
            found[name] = value
    return found


class FlatSettings:
    """Settings that remember what was asked for; wrong values become problems, in words, with their line.

    Args:
        values: value by dotted key.
        lines: line by dotted key.
    """

    def __init__(self, values: Mapping[str, Any], lines: Mapping[str, int]) -> None:
        self.values, self.lines = dict(values), dict(lines)
        self.read: set[str] = set()
        self.problems: list[str] = []
        self.auto: list[str] = []

    def where(self, key: str) -> str:
        """Return `line 3: ` for a key, or nothing where the line is unknown."""
        line = self.lines.get(key, 0)
        return f"line {line}: " if line else ""

    def said(self, key: str) -> bool:
        """Tell whether a key has a value other than null and `auto`."""
        return self.values.get(key, AUTO) not in (None, AUTO)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value as it is; the default where the file does not say it or says `auto`."""
        self.read.add(key)
        value = self.values.get(key)
        if value == AUTO:
            self.auto.append(key)
        return default if value is None or value == AUTO else value

    def count(self, key: str, default: int = 0, *, least: int = 1) -> int:
        """Return a whole number; another value is a problem."""
        value = self.get(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 5e8 is how people write sizes
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value.strip()[:20])
        if type(value) is not int or not (least <= value <= MOST or value == default):
            self._wrong(key, value, f"whole numbers from {least} to {MOST:,}")
            return default
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return a truth value; another value is a problem."""
        value = self.get(key, default)
        words = {"true": True, "false": False, "yes": True, "no": False}
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        if type(value) is not bool:
            self._wrong(key, value, "true, false")
            return default
        return value

    def word(self, key: str, default: str, known: Iterable[str] = ()) -> str:
        """Return a text; one that is not among the known ones is a problem."""
        value = self.get(key, default)
        if not isinstance(value, str) or (known and value not in (*known, default)):
            self._wrong(key, value, ", ".join(known) or "a text")
            return default
        return value

    def _wrong(self, key: str, value: object, allowed: str) -> None:
        self.problems.append(f"{self.where(key)}{key} is {cut(repr(value))}: allowed are {allowed}")

    def unknown(self, effects: Mapping[str, str]) -> tuple[UnknownKey, ...]:
        """Return every key that nobody read, with what is assumed: by shell pattern, else as if not there.

        Keys that were read but say `auto` are listed too.
        """
        rest = [key for key in self.values if key not in self.read]
        found = [self._key(key, self.values[key], _assumed(key, effects)) for key in rest]
        autos = [key for key in dict.fromkeys(self.auto) if key in self.values]
        found += [self._key(key, AUTO, "whatever the script gives; here the default") for key in autos]
        return tuple(sorted(found, key=lambda item: item.line))

    def _key(self, key: str, value: object, assumed: str) -> UnknownKey:
        text = cut(value if isinstance(value, str) else repr(value))
        return UnknownKey(key=key, line=self.lines.get(key, 0), value=text, assumed=assumed)


def _assumed(key: str, effects: Mapping[str, str]) -> str:
    return next((said for pattern, said in effects.items() if fnmatchcase(key, pattern)), NOT_THERE)
