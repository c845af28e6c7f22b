"""Curves of the best so far: what each draws, who leads, and where the leaders' names stand. Pure.

The names of the leaders stand below each other in a margin at the right, each at the height of its curve or
as near to that as the others let it; who does not lead is drawn in grey and named on hover.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .labels import CHARACTER_PX, GAP_PX
from .points import EVALUATIONS, SECONDS
from .task import Entrant

MOST_LEADERS = 7
"""Most names beside the curves: as many as have lines of their own, and colours."""
LEAD_PX = 24.0
"""Length of the line from the end of the longest curve to a name, its dot included."""
SEEN = 2.0
"""Times the best value beyond which no curve stretches the axis."""
MOST_MARGIN = 0.5
"""Most of the width that names may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Searchers whose best is equal, and one of the best."""

    names: tuple[str, ...]
    """Their names, in the order in which they were asked."""
    value: float
    """The value that they have reached."""

    @property
    def text(self) -> str:
        """Name beside the curve.

        >>> Leader(names=("dapple", "spp", "pase"), value=1.0).text
        'dapple + 2'
        """
        return self.names[0] + (f" + {len(self.names) - 1}" if len(self.names) > 1 else "")


def leaders_of(entrants: Sequence[Entrant], most: int = MOST_LEADERS) -> tuple[Leader, ...]:
    """Return the searchers with the best values, the best first; those of equal value are one."""
    reached: dict[float, list[str]] = {}
    for entrant in entrants:
        if entrant.curve:
            reached.setdefault(entrant.curve[-1].value, []).append(entrant.name)
    best = sorted(reached)[:most]
    return tuple(Leader(names=tuple(reached[v]), value=v) for v in best if v <= SEEN * best[0])


def slots_of(before: Mapping[str, int], leaders: Sequence[str], count: int) -> dict[str, int]:
    """Return the colour of each leader: that which it had, while it leads, else the first that is free.

    >>> slots_of({"auto": 0, "even": 1}, ["spp", "even"], 3)
    {'spp': 0, 'even': 1}
    """
    kept = {name: before[name] for name in leaders if name in before}
    free = iter([slot for slot in range(count) if slot not in kept.values()])
    return {name: kept[name] if name in kept else next(free) for name in leaders}


def margin_px(texts: Sequence[str], width_px: float) -> float:
    """Return the width of the margin in which names stand, with the lines that lead to them."""
    longest = max(map(len, texts), default=0)
    return min(MOST_MARGIN * width_px, LEAD_PX + GAP_PX + CHARACTER_PX * longest) if longest else 0.0


def spread(wanted: Sequence[float], gap: float, room: float) -> list[float]:
    """Return heights at least a gap apart, within half a gap of 0 and `room`, each near the one wanted.

    Names that would touch move apart evenly; if there are more than have room they share it.

    Args:
        wanted: heights, ascending.
        gap: least distance of two.
        room: height of the drawing, in the same unit.
    """
    gap = min(gap, room / max(1, len(wanted)))
    # runs of names that touch, each (sum of where its first one is wanted, count): that is at their mean
    runs: list[tuple[float, int]] = []
    for at in wanted:
        total, count = at, 1
        while runs and runs[-1][0] / runs[-1][1] + runs[-1][1] * gap > total / count:
            before, members = runs.pop()
            total, count = before + total - count * members * gap, members + count
        runs.append((total, count))
    found = [total / count + i * gap for total, count in runs for i in range(count)]
    low, high = gap / 2, room - gap / 2
    found = [max(at, low + i * gap) for i, at in enumerate(found)]
    last = len(found) - 1
    return [min(at, high - (last - i) * gap) for i, at in enumerate(found)]


def curve_range(entrants: Sequence[Entrant]) -> tuple[float, float]:
    """Return both ends of the axis of the best so far: around where curves end, up to `SEEN` times the best,
    so that leaders stay apart; (0, 1) without any curve. Curves come down from above.
    """
    ends = [entrant.curve[-1].value for entrant in entrants if entrant.curve]
    if not ends:
        return 0.0, 1.0
    low = min(ends)
    high = max(value for value in ends if value <= SEEN * low)
    air = 0.1 * (high - low) or 0.1 * high or 1.0
    return low - air, high + 3 * air


def end_of(entrant: Entrant, over: str = SECONDS) -> float:
    """Return the seconds after which an entrant's present search ended, or those it has run so far; over
    evaluations how many strategies it has costed.
    """
    if not entrant.own or entrant.run is None:
        return 0.0
    return float(entrant.run.evaluations) if over == EVALUATIONS else entrant.run.wall_s


def curve_of(entrant: Entrant, over: str) -> list[tuple[float, float]]:
    """Return what an entrant's curve draws: (seconds or evaluations, best so far), to where it is now."""
    marks = entrant.curve
    curve = [(mark.seconds if over == SECONDS else float(mark.evaluations), mark.value) for mark in marks]
    return [*curve, (max(end_of(entrant, over), curve[-1][0]), curve[-1][1])] if curve else []
