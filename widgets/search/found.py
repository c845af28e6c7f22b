"""What the upper part of the search chart shows: results, and what they are seen along."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.search import Candidate, Objective, Progress

from .points import Values
from .task import Entrant, Spot


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What searches found, and what it is seen along."""

    entrants: Sequence[Entrant]
    """Searchers with their results."""
    runs: Sequence[Progress]
    """Searches whose frontier has these axes."""
    spots: Sequence[Spot]
    """Strategies costed on the way by these searches."""
    yours: Candidate
    """The strategy on the board."""
    axes: tuple[Objective, ...]
    """Axes of the frontier: up, across, and perhaps a third."""
    values_of: Callable[[Candidate], Values]
    """Function that returns the values of a candidate along the axes."""
    bound: float
    """Lower bound of all strategies along the first axis."""
    fits_bytes: float
    """Peak of a device up to which a plan fits for sure."""
    capacity_bytes: float
    """Largest peak that is taken; from `fits_bytes` to there a plan may fit."""
