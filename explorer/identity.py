"""A bounded cache keyed by the identity of large immutable values, which it keeps alive.

Hashing a stage of a hundred layer names costs more than what is looked up; the objects themselves stay
the same from one evaluation to the next, except for the two that an edit replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class IdentityCache:
    """Values by the identity of some objects and an ordinary key; forgets all when full."""

    def __init__(self, limit: int = 8192) -> None:
        self._limit = limit
        self._kept: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    def get(self, objects: tuple[object, ...], key: Hashable, make: Callable[[], T]) -> T:
        """The value for these very objects and this key, made once."""
        identity = (*map(id, objects), key)
        hit = self._kept.get(identity)
        if hit is None:
            if len(self._kept) >= self._limit:
                self._kept.clear()
            hit = self._kept[identity] = (objects, make())
        value: T = hit[1]
        return value
