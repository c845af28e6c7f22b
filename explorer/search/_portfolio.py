"""Parts of a search that take turns: each gets its share, whoever finds what is named.

Where seconds end a search, shares are of seconds (of work of its thread), so that each part finds what it
finds in so many by itself. Else they are of simulations, so that the same problem always runs the same way; a
step without one counts a little then, so that no part thinks for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorer.base.errors import ExplorerError
from explorer.search.evaluator import Candidate, Evaluator

THINKING, THINKING_S = 0.004, 0.002
"""Simulations, or seconds, that a step counts as at least: who waits for others is asked now and then."""
AHEAD, AHEAD_S = 0.5, 0.05
"""Simulations, or seconds, of each of the others that the first part is ahead."""


@dataclass(kw_only=True)
class Part:
    """One part of a search, and what it used so far."""

    name: str
    """Name of the part, which its candidates carry."""
    steps: Iterator[Candidate | None]
    """Its candidates; it is left alone once they end."""
    weight: float = 1.0
    """Share, relative to the others."""
    used: float = 0.0
    """Seconds, or simulations and what thinking counts, that it took so far."""
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
    least, ahead = (THINKING, AHEAD) if evaluator.meter is None else (THINKING_S, AHEAD_S)
    for part in parts[1:]:
        part.used = part.weight * ahead
    while (open_parts := [part for part in parts if not part.ended]) and not evaluator.exhausted:
        part = min(open_parts, key=lambda item: item.used / item.weight)
        before = evaluator.used
        evaluator.finder = part.name
        try:
            found = next(part.steps)
        except (StopIteration, ExplorerError):
            part.ended = True  # it has tried everything, or its method does not take the problem
            found = None
        part.used += max(least, evaluator.used - before)
        claim()
        yield found
