"""Parts of a search that take turns: each gets its share of the simulations, whoever finds what is named.

Shares are of simulations, not of seconds, so that the same problem always runs the same way; a step without a
simulation counts a little, so that no part thinks for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorer.base.errors import ExplorerError
from explorer.search.evaluator import Candidate, Evaluator

THINKING = 0.004
"""Simulations that a step without one counts as."""


@dataclass(kw_only=True)
class Part:
    """One part of a search, and what it used so far."""

    name: str
    """Name of the part, which its candidates carry."""
    steps: Iterator[Candidate | None]
    """Its candidates; it is left alone once they end."""
    weight: float = 1.0
    """Share of the simulations, relative to the others."""
    used: float = 0.0
    """Simulations that it made so far, and what thinking counts; above 0 at first, it begins later."""
    ended: bool = False
    """Whether it has nothing left to try."""


def take_turns(
    evaluator: Evaluator, parts: list[Part], claim: Callable[[], None]
) -> Iterator[Candidate | None]:
    """Run parts side by side until all have ended.

    Args:
        evaluator: judge of all candidates.
        parts: the parts, the one to begin with first.
        claim: sets what the whole search proves; parts that claim something of their own space are overruled.
    """
    while (open_parts := [part for part in parts if not part.ended]) and not evaluator.exhausted:
        part = min(open_parts, key=lambda item: item.used / item.weight)
        before = evaluator.evaluations
        evaluator.finder = part.name
        try:
            found = next(part.steps)
        except (StopIteration, ExplorerError):
            part.ended = True  # it has tried everything, or its method does not take the problem
            found = None
        part.used += max(THINKING, evaluator.evaluations - before)
        claim()
        yield found
