"""Parts of a search that take turns: each gets its share, the first part all the rest.

Where seconds end a search, shares are of seconds (of work of its thread), so that each part finds what it
finds in so many by itself. Else they are of simulations, so that the same problem always runs the same way; a
step without one counts a little then, so that no part thinks for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from explorer.base.errors import ExplorerError
from explorer.search.evaluator import Candidate, Evaluator

BRANCHES = "branch and bound"
"""Name of the part that has what the others leave."""
BUNCH = 8
"""Steps of the branch and bound in one turn, where seconds count: many take less than to ask for one."""
THINKING, THINKING_S = 0.004, 0.0002
"""Simulations, or seconds, that a step counts as at least: seconds are about what it takes to ask for one."""
KEPT = 0.4
"""Share that the first part keeps whatever the others take: their steps may be longer than their shares."""
AHEAD, AHEAD_S = 2.0, 0.2
"""Simulations, or seconds, that the first part is ahead: no other part has a share in these."""


def _always() -> bool:
    return True


@dataclass(kw_only=True)
class Part:
    """One part of a search, and what it used so far."""

    name: str
    """Name of the part, which its candidates carry."""
    steps: Iterator[Candidate | None]
    """Its candidates; it is left alone once they end."""
    share: float = 0.1
    """Share of all that is used; the first part of a search has what the others leave."""
    ready: Callable[[], bool] = _always
    """Tells whether it has something to do; it is not asked otherwise."""
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
        parts: the parts, the one to begin with first: once the others had their shares, it is its turn.
        claim: sets what the whole search proves; parts that claim something of their own space are overruled.
    """
    least, ahead = (THINKING, AHEAD) if evaluator.meter is None else (THINKING_S, AHEAD_S)
    before = evaluator.used  # what goes on between two turns counts for the later one: asking takes long
    while (part := _next(parts, ahead)) is not None and not evaluator.exhausted:
        evaluator.finder = part.name
        try:
            found = next(part.steps)
        except (StopIteration, ExplorerError):
            part.ended = True  # it has tried everything, or its method does not take the problem
            found = None
        now = evaluator.used
        part.used, before = part.used + max(least, now - before), now
        claim()
        yield found


def _next(parts: list[Part], ahead: float) -> Part | None:
    """Return the part whose turn it is; None once all have ended."""
    first, *others = parts
    ready = [part for part in others if not part.ended and part.ready()]
    most_behind = min(ready, key=lambda part: part.used / part.share, default=None)
    if first.ended:
        return most_behind
    used = sum(part.used for part in parts)
    if first.used < KEPT * used:
        return first
    shared = used - ahead
    return first if most_behind is None or most_behind.used >= most_behind.share * shared else most_behind


def bunched(steps: Iterator[Candidate | None]) -> Iterator[Candidate | None]:
    """Yield every candidate, but of the steps that found none only every so many."""
    waited = 0
    for found in steps:
        waited += 1
        if found is not None or waited == BUNCH:
            waited = 0
            yield found
