"""Recorded calls: the operators that a graph came to, to be called again without going through the graph.

Going through a graph node by node costs a tenth of a millisecond for every operator, as much as the operators
of a small layer themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch.fx.node import Node, map_arg


class Known(NamedTuple):
    """A value, and its number among those of a call; None if it is the same in every call."""

    value: Any
    number: int | None = None


class _Value(NamedTuple):
    """The value of a number, in arguments that are kept."""

    number: int


class _Call(NamedTuple):
    target: Callable[..., Any]
    args: tuple[Any, ...]
    """Arguments, with None where a value stands alone and `_Value` where it stands inside of another."""
    kwargs: dict[str, Any]
    alone: tuple[tuple[int, int], ...]
    """(position among the arguments, number of the value)."""
    inside: bool
    """Whether a value stands inside of an argument or is given by keyword."""

    def again(self, values: Sequence[Any]) -> Any:
        """Call it with the values of now."""
        args, kwargs = list(self.args), self.kwargs
        if self.inside:
            args, kwargs = _with(args, values), _with(kwargs, values)
        for position, number in self.alone:
            args[position] = values[number]
        return self.target(*args, **kwargs)


class Recorded(NamedTuple):
    """Calls in their order."""

    calls: tuple[_Call, ...]
    ends: tuple[Known, ...]
    """What is wanted of their values."""

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """Make all calls, for the first values given, and return what is wanted."""
        values = list(given)
        for call in self.calls:
            values.append(call.again(values))
        return [item.value if item.number is None else values[item.number] for item in self.ends]


class Recorder:
    """Calls functions and keeps what was called.

    Args:
        given: number of values that are given, the first ones.
    """

    def __init__(self, given: int) -> None:
        self._given, self._calls = given, list[_Call]()

    def call(
        self,
        target: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        known: Mapping[Any, Known],
    ) -> Known:
        """Call a function with the values of nodes in the nodes' places."""
        made = target(*filled(args, known), **filled(kwargs, known))
        alone, kept = [], []
        for position, item in enumerate(args):
            number = known[item].number if isinstance(item, Node) else None
            if number is not None:
                alone.append((position, number))
            kept.append(None if number is not None else _kept(item, known))
        named = _kept(dict(kwargs), known)
        inside = _holds_value(kept) or _holds_value(named)
        self._calls.append(_Call(target, tuple(kept), named, tuple(alone), inside))
        return Known(made, self._given + len(self._calls) - 1)

    def recorded(self, ends: Sequence[Known]) -> Recorded:
        """Return all calls. `ends`: the values that are wanted."""
        wanted = (item if item.number is None else Known(None, item.number) for item in ends)
        return Recorded(tuple(self._calls), tuple(wanted))


def filled(tree: Any, known: Mapping[Any, Known]) -> Any:
    """Return arguments with the values of nodes in their places."""
    return map_arg(tree, lambda node: known[node].value)


def _kept(tree: Any, known: Mapping[Any, Known]) -> Any:
    """Return arguments with numbers in place of nodes whose values change."""

    def of(node: Any) -> Any:
        value, number = known[node]
        return value if number is None else _Value(number)

    return map_arg(tree, of)


def _holds_value(tree: Any) -> bool:
    if isinstance(tree, _Value):
        return True
    if isinstance(tree, (list, tuple)):
        return any(map(_holds_value, tree))
    if isinstance(tree, slice):
        return any(map(_holds_value, (tree.start, tree.stop, tree.step)))
    return isinstance(tree, dict) and any(map(_holds_value, tree.values()))


def _with(tree: Any, values: Sequence[Any]) -> Any:
    if isinstance(tree, _Value):
        return values[tree.number]
    if isinstance(tree, (list, tuple)):
        return type(tree)(_with(item, values) for item in tree)
    if isinstance(tree, slice):
        return slice(*(_with(item, values) for item in (tree.start, tree.stop, tree.step)))
    return {key: _with(item, values) for key, item in tree.items()} if isinstance(tree, dict) else tree


__all__ = ["Known", "Recorded", "Recorder", "filled"]
