"""Caches keyed by the identity of large immutable values, which they keep alive.

Hashing a stage of a hundred layer names costs more than making the value that is looked up; the objects
themselves stay the same from one evaluation to the next, except for the two that an edit replaced. A value
derived from one object is kept by that object, an `Owner` (`LayerGraph.memo`, `Program.memo`, ...); a value
derived from several is made by a pure function decorated with `remembered`, whose key is all of its
arguments. Where one is asked of every stage of a strategy, `remembered_each` looks all of them up at once.
`Same` and `Hashed` are tuples that are cheap to look up: by the identity of their items, or by a hash
worked out once. What is read from files more than once is made one object by `interned`, so that all of
these know it again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from threading import Lock
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import numpy as np

from explorer.base.checkpoints import checkpoint

P = ParamSpec("P")
T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
K = TypeVar("K", bound=Hashable)
T_co = TypeVar("T_co", covariant=True)

STAGES_KEPT = 2048
"""Stages about which something is remembered: those of dozens of evaluations, 10 to 20 MiB at most."""


class Hashed(tuple[T_co, ...]):  # noqa: SLOT001 (a tuple has no room for a hash but in a mapping)
    """A tuple that works its hash out once: for long ones that are looked up again and again.

    >>> hash(Hashed((1, 2))) == hash((1, 2)), Hashed((1, 2)) == (1, 2)
    (True, True)
    """

    def __hash__(self) -> int:
        known: dict[str, int] = self.__dict__
        if "hash" not in known:
            known["hash"] = super().__hash__()
        return known["hash"]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (tuple(self),)  # hashes of text differ from process to process


class Same(tuple[T_co, ...]):
    """A tuple that `remembered` compares by the identity of its items."""

    __slots__ = ()


_CONTEXTS = 8  # of each function: graphs, clusters and jobs that are compared side by side
_NAMED = object()  # stands in a key before the names of arguments
_BY_VALUE = frozenset({str, int, float, bool, tuple, frozenset, Hashed, type(None)})


class Owner:
    """What keeps values derived from it: a frozen dataclass with a field `_memo` that it is not made from.

    Copies and pickles hold what it was made from, and nothing derived.
    """

    __slots__ = ()
    _memo: dict[Any, Any]

    def memo(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a value derived from this object alone, made once and never changed; `key` names it."""
        known = self._memo
        if key not in known:
            checkpoint()
            known[key] = make()
        value: T = known[key]
        return value

    def __reduce__(self) -> tuple[Any, ...]:
        given = fields(self)  # type: ignore[arg-type]
        return _made_again, (type(self), {item.name: getattr(self, item.name) for item in given if item.init})


def _made_again(cls: type, values: dict[str, Any]) -> Any:
    """Return an owner from its pickle: its values were checked when it was first made."""
    found: Any = object.__new__(cls)
    for name, value in {**values, "_memo": {}}.items():
        object.__setattr__(found, name, value)
    return found


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
            checkpoint()
            if len(self._kept) >= self._limit:
                self._kept.clear()
            hit = self._kept[identity] = (objects, make())
        value: T = hit[1]
        return value

    def get_each(
        self, objects: Sequence[object], places: Sequence[Hashable], make: Callable[[int], T]
    ) -> list[T]:
        """Return one value for every object at its place; `make` takes the number of one that is missing.

        Objects are told apart by identity, the items of `Same` likewise, and places by value.
        """
        same = type(objects[0]) is Same if objects else False
        keys = list(zip(places, map(_identity if same else id, objects), strict=True))
        found = list(map(self._kept.get, keys))
        for number, hit in enumerate(found):
            if hit is None:
                checkpoint()
                made = ((objects[number],), make(number))
                if len(self._kept) >= self._limit:
                    self._kept.clear()
                found[number] = self._kept[keys[number]] = made
        return [hit[1] for hit in found]  # type: ignore[index]


MEBIBYTE = 1 << 20


class Bound(NamedTuple):
    """A cache that is bounded by bytes."""

    function: str
    """Module and name of the function whose results it keeps."""
    most_bytes: int
    held_bytes: Callable[[], int]
    """Function that returns how many it holds."""


BOUNDS: list[Bound] = []
"""All caches that are bounded by bytes."""


def array_bytes(value: object, without: Sequence[object] = ()) -> int:
    """Return the bytes of all arrays in a value: in its fields, items and values, each array once.

    What owners have derived from themselves does not count, nor do some objects and what they hold.

    >>> array_bytes((np.zeros(4), {"a": np.zeros((2, 3))}, "text"))
    80
    """
    found: dict[int, int] = {}
    open_values, seen = [value], {*map(id, without)}
    while open_values:
        item = open_values.pop()
        kind: Any = type(item)
        if kind in _WITHOUT_ARRAYS or id(item) in seen:
            continue
        if isinstance(item, np.ndarray):
            while isinstance(item.base, np.ndarray):
                item = item.base
            found[id(item)] = item.nbytes
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            open_values += item.values()
        elif isinstance(item, tuple | list):
            open_values += item
        else:
            open_values += [getattr(item, name) for name in _parts_of(kind)]
    return sum(found.values())


_WITHOUT_ARRAYS = frozenset((int, float, str, bool, complex, bytes, type(None), type))


@cache
def _parts_of(kind: Any) -> tuple[str, ...]:
    """Return the fields of a kind of dataclass; () for any other."""
    return tuple(part.name for part in fields(kind) if part.name != "_memo") if is_dataclass(kind) else ()


def remembered(
    limit: int, *, total: int = 0, size_of: Callable[..., int] = lambda *_: 0, most_bytes: int = 0
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of a pure function that keeps its last results, at most `limit`, by its arguments.

    Where `most_bytes` is given, the arrays of all results together are no larger: the result asked for
    longest ago is forgotten first. The last one stays whatever its size.

    Text, numbers and tuples are compared by value, arrays by content, the items of `Same` and everything
    else by identity; so a graph, cluster, stage or sharding has to be the same object. Arguments given by
    name count with their names, in the order given. A full cache forgets everything.

    >>> @remembered(8)
    ... def double(x: tuple[int, ...]) -> tuple[int, ...]:
    ...     return x + x
    >>> double((1,)) is double((1,))
    True
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        if most_bytes:
            return _bounded(function, limit, most_bytes)
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
                checkpoint()
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


class Recent:
    """Values by key, of which all arrays together are no larger than so many bytes.

    The value asked for longest ago is forgotten first; the last one stays whatever its size.
    """

    def __init__(self, name: str, most_bytes: int, limit: int) -> None:
        """Start empty.

        Args:
            name: module and name of what makes the values, for `BOUNDS`.
            most_bytes: bytes of all arrays.
            limit: most values.
        """
        self._most_bytes, self._limit = most_bytes, limit
        self._kept: OrderedDict[Hashable, tuple[object, Any, int]] = OrderedDict()
        self._held_bytes, self._lock = 0, Lock()
        BOUNDS.append(Bound(name, most_bytes, self.held_bytes))

    def held_bytes(self) -> int:
        """Return the bytes of the arrays that it holds."""
        return self._held_bytes

    def forget(self) -> None:
        """Forget all values."""
        with self._lock:
            self._kept.clear()
            self._held_bytes = 0

    def get(self, key: Hashable, make: Callable[[], T], given: Sequence[object] = ()) -> T:
        """Return the value of a key, made if it is not there.

        Args:
            key: names the value.
            make: function that makes it.
            given: what it was made from: stays alive beside it, and does not count.
        """
        hit = self._kept.get(key)
        if hit is not None:
            with suppress(KeyError):  # another thread may have forgotten it just now
                self._kept.move_to_end(key)
            found: T = hit[1]
            return found
        checkpoint()
        made = make()
        size = array_bytes(made, given)
        with self._lock:
            if key in self._kept:  # another thread made it meanwhile
                self._held_bytes -= self._kept.pop(key)[2]
            self._kept[key] = given, made, size
            self._held_bytes += size
            while len(self._kept) > 1 and (
                len(self._kept) > self._limit or self._held_bytes > self._most_bytes
            ):
                self._held_bytes -= self._kept.popitem(last=False)[1][2]
        return made


def _bounded(function: Callable[P, T], limit: int, most_bytes: int) -> Callable[P, T]:
    recent = Recent(f"{function.__module__}.{function.__name__}", most_bytes, limit)

    @wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> T:
        given = (*arguments, *named.values())
        values = [item if type(item) in _BY_VALUE else _identity(item) for item in given]
        key = (*values, _NAMED, *named) if named else tuple(values)
        return recent.get(key, lambda: function(*arguments, **named), given)

    call.forget = recent.forget  # type: ignore[attr-defined]
    return call


def remembered_each(
    limit: int,
) -> Callable[
    [Callable[Concatenate[I, K, P], T]], Callable[Concatenate[Sequence[I], Sequence[K], P], list[T]]
]:
    """Return a decorator that makes of a pure function of one object a function of many, with a memory.

    What the function is given after an object and its place (a number, or whatever else tells its results
    apart) is the same for all; it is compared as `remembered` does. Of each object and place the result is
    kept, by identity and value; when `limit` results for the same further arguments are kept, they are
    forgotten.

    >>> @remembered_each(8)
    ... def named(item: list[int], place: int, word: str) -> str:
    ...     return f"{word} {place}: {sum(item)}"
    >>> named([[1], [2, 3]], range(2), "sum")
    ['sum 0: 1', 'sum 1: 5']
    """

    def decorate(
        function: Callable[Concatenate[I, K, P], T],
    ) -> Callable[Concatenate[Sequence[I], Sequence[K], P], list[T]]:
        kept: dict[Hashable, tuple[object, IdentityCache]] = {}

        @wraps(function)
        def call(
            items: Sequence[I], places: Sequence[K], /, *arguments: P.args, **named: P.kwargs
        ) -> list[T]:
            given = (*arguments, *named.values())
            values = [item if type(item) in _BY_VALUE else _identity(item) for item in given]
            key = (*values, _NAMED, *named) if named else tuple(values)
            hit = kept.get(key)
            if hit is None:
                if len(kept) >= _CONTEXTS:
                    kept.clear()
                hit = kept[key] = (given, IdentityCache(limit))
            return hit[1].get_each(
                items, places, lambda number: function(items[number], places[number], *arguments, **named)
            )

        call.forget = kept.clear  # type: ignore[attr-defined]
        return call

    return decorate


def interned(limit: int, key_of: Callable[[Any], Hashable]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator of a function whose results of one key are one object, the first of them.

    Of the last `limit` keys it is kept alive; the one asked for longest ago is forgotten first.

    >>> @interned(8, key_of=tuple)
    ... def letters(text: str) -> list[str]:
    ...     return sorted(set(text))
    >>> letters("abba") is letters("ab")
    True
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept: dict[Hashable, T] = {}

        @wraps(function)
        def call(*arguments: P.args, **named: P.kwargs) -> T:
            made = function(*arguments, **named)
            key = key_of(made)
            kept[key] = found = kept.pop(key, made)
            while len(kept) > limit:
                kept.pop(next(iter(kept)), None)
            return found

        return call

    return decorate


def _identity(value: object) -> object:
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    return tuple(map(id, value)) if type(value) is Same else id(value)
