"""Caches keyed by the identity of large immutable values, which they keep alive.

Hashing a stage of a hundred layer names costs more than making the value that is looked up; the objects
themselves stay the same from one evaluation to the next, except for the two that an edit replaced. A value
derived from one object is kept by that object (`LayerGraph.memo`, `Program.memo`, ...); a value derived from
several is made by a pure function decorated with `remembered`, whose key is all of its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
T = TypeVar("T")

STAGES_KEPT = 2048
"""Stages about which something is remembered: those of dozens of evaluations, 10 to 20 MiB at most."""

_NAMED = object()  # stands in a key before the names of arguments
_BY_VALUE = frozenset({str, int, float, bool, tuple, frozenset, type(None)})


class IdentityCache:
    """Values of one owner by the identity of some objects and an ordinary key; forgets all when full.

    Args:
        limit: most values.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: dict[Hashable, tuple[tuple[object, ...], Any]] = {}

    def get(self, objects: tuple[object, ...], key: Hashable, make: Callable[[], T]) -> T:
        """Return the value for these very objects and this key, made once."""
        identity = (*map(id, objects), key)
        hit = self._kept.get(identity)
        if hit is None:
            if len(self._kept) >= self._limit:
                self._kept.clear()
            hit = self._kept[identity] = (objects, make())
        value: T = hit[1]
        return value


def remembered(
    limit: int, *, total: int = 0, size_of: Callable[..., int] = lambda *_: 0
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of a pure function that keeps its last results, at most `limit`, by its arguments.

    Text, numbers and tuples are compared by value, arrays by content, everything else by identity; so a
    graph, cluster, stage or sharding has to be the same object. Arguments given by name count with their
    names, in the order given. A full cache forgets everything.

    >>> @remembered(8)
    ... def double(x: tuple[int, ...]) -> tuple[int, ...]:
    ...     return x + x
    >>> double((1,)) is double((1,))
    True
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept: dict[Hashable, tuple[object, T]] = {}
        held = 0

        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            nonlocal held
            given = (*arguments, *named.values())
            values = [item if type(item) in _BY_VALUE else _identity(item) for item in given]
            key = (*values, _NAMED, *named) if named else tuple(values)
            hit = kept.get(key)
            if hit is None:
                made = function(*arguments, **named)
                size = size_of(*given)
                if len(kept) >= limit or held + size > total > 0:
                    kept.clear()
                    held = 0
                held += size
                hit = kept[key] = (given, made)  # the arguments stay alive, and so their identities
            return hit[1]

        call.forget = kept.clear  # type: ignore[attr-defined]
        return call

    return decorate


def _identity(value: object) -> object:
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    return id(value)
