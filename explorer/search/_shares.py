"""Shares of a search: parts of the space of `auto`, and of the other searchers, each for one process.

Blocks are dealt out by what they are, so that every process knows its own without being told: those of plain
layouts, which are few and the most promising, by layout and schedule, all others by layout, so that one
process alone works out its costs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from zlib import crc32


class Share(NamedTuple):
    """One of several shares that are about alike and have nothing in common."""

    number: int
    """Which of them."""
    total: int
    """How many there are."""

    def holds(self, name: str) -> bool:
        """Tell whether what goes by a name is in it."""
        return self.total == 1 or crc32(name.encode()) % self.total == self.number

    def deals(self, place: int) -> bool:
        """Tell whether the item at a place of a list is in it."""
        return place % self.total == self.number


WHOLE = Share(0, 1)
"""Everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillOpen:
    """What is not yet tried of a share."""

    least: Mapping[str, float] = field(default_factory=dict)
    """Least bound by kind of open node; of what could not be looked at too."""
    done: bool = False
    """Whether nothing is open, and everything could be looked at."""

    @property
    def bound(self) -> float:
        """The least bound of all; infinite if nothing is open."""
        return min(self.least.values(), default=math.inf)


class Elsewhere(Protocol):
    """Shares that others search."""

    @property
    def open_bound(self) -> float:
        """The least bound of what is not yet tried of them; infinite if nothing is open."""
        ...

    def still_open(self) -> StillOpen:
        """Return what is not yet tried of them all."""
        ...


class Nowhere:
    """No other shares."""

    open_bound = math.inf

    def still_open(self) -> StillOpen:
        """Return that there is nothing."""
        return StillOpen(done=True)


def joined(parts: list[StillOpen]) -> StillOpen:
    """Return what is not yet tried of several shares together."""
    least: dict[str, float] = {}
    for part in parts:
        for words, bound in part.least.items():
            least[words] = min(bound, least.get(words, math.inf))
    return StillOpen(least=least, done=all(part.done for part in parts))
